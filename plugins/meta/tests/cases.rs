//! Recorded cases of the Meta formats, in every chunking.

use sluicegate_laws::case::assert_cases;

#[test]
fn recorded_cases() {
    let ran = assert_cases(&format_meta::plugin(), include_str!("../../cases/parser_cases.json"), &[]);
    assert!(ran >= 5, "only {ran} cases ran");
}
