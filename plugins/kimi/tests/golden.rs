//! Worked examples of the kimi formats, in every chunking.

use sluicegate_laws::case::assert_golden;

#[test]
fn worked_examples() {
    assert_golden(&format_kimi::plugin(), concat!(env!("CARGO_MANIFEST_DIR"), "/golden"));
}
