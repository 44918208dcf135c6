//! The host's side of `wit/format.wit`, generated; nothing outside this folder sees these types.
#![allow(unreachable_pub, unused_qualifications, clippy::all, reason = "generated code")]

wasmtime::component::bindgen!({ path: "../wit", world: "format-plugin" });

pub(super) use exports::sluicegate::format::{answers, brief, grammar, meta, parse, render, terse, types};
