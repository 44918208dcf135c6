//! Who runs next: the fair queue, the two roles, and the plans they fill. Nothing here touches a device.

mod decode;
mod plan;
mod prefill;
mod queue;
mod speculate;

pub(crate) use decode::DecodeRole;
pub(crate) use plan::PlanBuilder;
pub(crate) use prefill::{Admission, PrefillRole};
pub(crate) use queue::FairQueue;
pub(crate) use speculate::Speculator;
