//! `sluicegate key`: a new API key and its hash.

use clap::Args;

use crate::tenant::key;

/// Arguments of `sluicegate key`.
#[derive(Debug, Args)]
pub(super) struct Key {
    /// Hash this key instead of making one.
    #[arg(long, value_name = "KEY")]
    hash: Option<String>,
}

impl Key {
    /// Prints the key (unless it was given) and its hash.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let key = match self.hash {
            Some(key) => key,
            None => {
                let key = key::generate()?;
                println!("key        {key}");
                key
            }
        };
        println!("key_sha256 {}", key::Hash::of(&key));
        Ok(())
    }
}
