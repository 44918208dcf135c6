//! Fuzzes the formats of the family `tags`.
#![no_main]

use sluicegate_catalogue::fuzz::{Family, Target};

thread_local! {
    static TARGET: Target = Target::new(Family::Tags);
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(broken) = TARGET.with(|target| target.check(data)) {
        panic!("{broken}");
    }
});
