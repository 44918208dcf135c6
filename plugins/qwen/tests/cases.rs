//! Recorded cases of the Qwen formats, in every chunking.

use sluicegate_laws::case::assert_cases;

#[test]
fn recorded_cases() {
    let ran = assert_cases(&format_qwen::plugin(), include_str!("../../cases/parser_cases.json"), &[]);
    assert!(ran >= 25, "only {ran} cases ran");
}
