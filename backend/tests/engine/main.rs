//! Laws of the engine, on a deterministic device: whatever the load, each client gets what it would get alone.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cpu;
mod device;
mod drive;
mod faults;
mod grammar;
mod laws;
mod limits;
mod order;
mod prefix;
mod ranks;
mod remote;
mod speculation;
mod verify;
