//! Recorded cases of the DeepSeek formats, in every chunking.

use sluicegate_laws::case::assert_cases;

#[test]
fn recorded_cases() {
    let ran = assert_cases(&format_deepseek::plugin(), include_str!("../../cases/parser_cases.json"), &[]);
    assert!(ran >= 37, "only {ran} cases ran");
}
