//! Recorded cases: what a model wrote, what a client must see of it, and how the two are compared. Knows neither parsers nor
//! plugins, so that the laws (native formats) and `sluicegate plugin check` (components) judge by the same code.

mod case;
pub mod chunking;
mod judge;

pub use case::{Accepted, Case, Expect, ExpectedCall, Match, Partial, load};
pub use judge::{Call, Seen, Verdict, accepts, judge};
