//! The real binary through real sockets: what clients, operators and their machines see of it.

#![allow(clippy::unwrap_used, reason = "a test that can't go on says where")]

mod client;
mod errors;
mod gateway;
mod http2;
mod leaving;
mod lifecycle;
mod limits;
mod recordings;
mod shapes;
mod streams;
