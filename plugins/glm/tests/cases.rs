//! Recorded cases of the GLM formats, in every chunking.

use sluicegate_laws::case::assert_cases;

#[test]
fn recorded_cases() {
    let ran = assert_cases(&format_glm::plugin(), include_str!("../../cases/parser_cases.json"), &[]);
    assert!(ran >= 9, "only {ran} cases ran");
}
