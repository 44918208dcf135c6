//! Worked examples of the google formats, in every chunking.

use sluicegate_laws::case::assert_golden;

#[test]
fn worked_examples() {
    assert_golden(&format_google::plugin(), concat!(env!("CARGO_MANIFEST_DIR"), "/golden"));
}
