//! Sockets to chat requests, and events back to bytes: the gateway as a library.
#![forbid(unsafe_code)]

pub mod chat;
pub mod error;
