//! Prefill and decode in workers of their own: whatever is left, lost, stopped or killed, clients get exact answers or a
//! clear error in time, and nothing is left behind.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../backend/tests/engine/device.rs"]
#[allow(dead_code, reason = "the engine's own tests use the rest")]
mod device;
mod faults;
mod gate;
mod phases;
mod process;
mod refused;
mod rig;
mod spike;
mod storm;
