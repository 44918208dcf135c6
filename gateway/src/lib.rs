//! Sockets to chat requests, and events back to bytes: the gateway as a library.
#![forbid(unsafe_code)]

pub mod admin;
pub mod api;
pub mod app;
pub mod chat;
pub mod cli;
pub mod config;
pub mod drain;
pub mod engines;
pub mod error;
pub mod generate;
pub mod grammar;
pub mod layers;
pub mod live;
pub mod metrics;
pub mod peer;
pub mod plugins;
pub mod pools;
pub mod route;
pub mod scrape;
pub mod server;
pub mod state;
pub mod telemetry;
pub mod tenant;
pub mod text;
pub mod tls;
pub mod upstream;
