//! Our native parsers beside their peers: `differ` lists where they disagree, `speed` times them.
//!
//! ```sh
//! cargo run --release --manifest-path benches/peers/Cargo.toml -- differ > docs/parser-differences.md
//! cargo run --release --manifest-path benches/peers/Cargo.toml -- speed
//! ```
//! Dynamo's Harmony parser wants `TIKTOKEN_ENCODINGS_BASE`, a folder with `o200k_base.tiktoken`; without it that row is left out.

mod differ;
mod peers;
mod speed;
#[path = "../../src/wires.rs"]
mod wires;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("differ") => differ::report(),
        Some("speed") => speed::report(),
        _ => bail!("say `differ` or `speed`"),
    }
}
