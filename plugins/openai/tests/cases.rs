//! Recorded cases of the OpenAI formats, in every chunking.

use sluicegate_laws::case::assert_cases;

#[test]
fn recorded_cases() {
    let ran = assert_cases(&format_openai::plugin(), include_str!("../../cases/parser_cases.json"), &[]);
    assert!(ran >= 5, "only {ran} cases ran");
}
