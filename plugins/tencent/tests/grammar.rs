//! Whatever a grammar of these formats admits is read back as calls that the request allows.

use sluicegate_laws::bounded::assert_all_bounded;
use sluicegate_laws::constrained::assert_all_walks_parse;

#[test]
fn walks_parse() {
    assert_all_walks_parse(&format_tencent::plugin(), &[]);
}

#[test]
fn nothing_long_is_held() {
    assert_all_bounded(&format_tencent::plugin());
}
