//! Sockets to chat requests, and events back to bytes: the gateway as a library.
#![forbid(unsafe_code)]

pub mod chat;
pub mod cli;
pub mod config;
pub mod error;
pub mod generate;
pub mod plugins;
pub mod route;
pub mod tenant;
pub mod text;
pub mod upstream;
