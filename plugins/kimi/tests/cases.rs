//! Recorded cases of the Kimi formats, in every chunking.

use sluicegate_laws::case::assert_cases;

#[test]
fn recorded_cases() {
    let ran = assert_cases(&format_kimi::plugin(), include_str!("../../cases/parser_cases.json"), &[]);
    assert!(ran >= 7, "only {ran} cases ran");
}
