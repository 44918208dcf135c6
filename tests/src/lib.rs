//! Harness of the black-box tests: the real binary on free ports, a TLS client, streams, the admin API.
//!
//! Nothing here knows the product's crates; it sees what a user sees. Tests live in `e2e/`, one promise a file.

#![forbid(unsafe_code)]

mod admin;
mod answer;
mod client;
mod config;
mod paths;
mod server;
mod sse;
mod worker;

pub use admin::Admin;
pub use answer::{Answer, ToolCall};
pub use client::{Client, EventStream, Reply};
pub use config::{ADMIN_KEY, API_KEY, Config, Model, Tenant, recording};
pub use paths::{binary, component, component_bytes, golden, guest, guest_bytes, model, python};
pub use server::Server;
pub use sse::Frames;
pub use worker::{Ports, Worker};
