//! Fuzzes the formats of the family `json`.
#![no_main]

use sluicegate_catalogue::fuzz::{Family, Target};

thread_local! {
    static TARGET: Target = Target::new(Family::Json);
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(broken) = TARGET.with(|target| target.check(data)) {
        panic!("{broken}");
    }
});
