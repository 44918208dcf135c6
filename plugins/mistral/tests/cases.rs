//! Recorded cases of the Mistral formats, in every chunking.

use sluicegate_laws::case::assert_cases;

#[test]
fn recorded_cases() {
    let ran = assert_cases(&format_mistral::plugin(), include_str!("../../cases/parser_cases.json"), &[]);
    assert!(ran >= 3, "only {ran} cases ran");
}
