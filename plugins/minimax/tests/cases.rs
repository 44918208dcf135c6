//! Recorded cases of the MiniMax formats, in every chunking.

use sluicegate_laws::case::assert_cases;

#[test]
fn recorded_cases() {
    let ran = assert_cases(&format_minimax::plugin(), include_str!("../../cases/parser_cases.json"), &[]);
    assert!(ran >= 4, "only {ran} cases ran");
}
