//! The plugin contract, generated from `wit/format.wit`.

#![allow(missing_docs, missing_debug_implementations, unreachable_pub, clippy::all, reason = "generated code")]

wit_bindgen::generate!({ path: "../../../wit", world: "parser-plugin", pub_export_macro: true });
