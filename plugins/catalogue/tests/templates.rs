//! What `sluicegate plugin new` writes compiles and passes its golden, for every family.

#![allow(unreachable_pub, reason = "the templates are crates of their own")]

use sluicegate_laws::case::assert_cases;

#[path = "../../templates/brace.rs"]
mod brace;
#[path = "../../templates/channels.rs"]
mod channels;
#[path = "../../templates/json.rs"]
mod json;
#[path = "../../templates/python.rs"]
mod python;
#[path = "../../templates/tag_params.rs"]
mod tag_params;

macro_rules! passes {
    ($($family:ident),*) => {$(
        #[test]
        fn $family() {
            let golden = include_str!(concat!("../../templates/", stringify!($family), ".json"));
            assert_eq!(assert_cases(&$family::plugin(), golden, &[]), 1);
        }
    )*};
}

mod goldens {
    use super::*;

    passes!(brace, channels, json, python, tag_params);
}
