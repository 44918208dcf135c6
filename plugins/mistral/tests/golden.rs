//! Worked examples of the mistral formats, in every chunking.

use sluicegate_laws::case::assert_golden;

#[test]
fn worked_examples() {
    assert_golden(&format_mistral::plugin(), concat!(env!("CARGO_MANIFEST_DIR"), "/golden"));
}
