//! Token ids in, token ids out: the engine. It never sees text, HTTP, tenants or a client's JSON.

pub mod api;
pub mod draft;
pub mod engine;
pub mod exec;
pub mod grammar;
pub mod inspect;
mod kv;
pub mod layers;
pub mod models;
pub mod plan;
pub mod run;
pub mod sample;
mod schedule;
mod sequence;
mod transfer;
pub mod tune;
pub mod verify;
pub mod weights;
