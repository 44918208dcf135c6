//! The WebAssembly standard library: found, or made available.

use std::path::Path;
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Error, Result, bail};

use crate::workspace::cargo;
use crate::{apt, run};

pub(crate) const TRIPLE: &str = "wasm32-unknown-unknown";

/// `rustup target add` fetches about 20 MB; where its server cannot be reached it may hang instead of failing.
const RUSTUP_LIMIT: Duration = Duration::from_secs(120);
const DEBIAN_PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "lld"];

/// Where the standard library for [`TRIPLE`] comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Std {
    /// The toolchain in use has it.
    Rustup,
    /// Debian's Rust for the web builds it from source.
    Debian,
}

impl FromStr for Std {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "rustup" => Ok(Self::Rustup),
            "debian" => Ok(Self::Debian),
            _ => bail!("--std is `rustup` or `debian`, not `{text}`"),
        }
    }
}

impl Std {
    /// Uses what is installed, else installs what can be: rustup's target first, then Debian's packages.
    ///
    /// # Errors
    /// Neither way works on this machine; the error says what to do by hand.
    pub(crate) fn ensure(wanted: Option<Self>) -> Result<Self> {
        if wanted != Some(Self::Debian) {
            if is_in_toolchain()? || add_with_rustup()? {
                return Ok(Self::Rustup);
            }
            if wanted == Some(Self::Rustup) {
                bail!("rustup could not add the target {TRIPLE}");
            }
            eprintln!("    rustup could not add it; using Debian's Rust for the web instead");
        }
        apt::ensure(&DEBIAN_PACKAGES).with_context(|| {
            format!(
                "the target {TRIPLE} is needed to build plugins; get it with `rustup target add {TRIPLE}` or, on \
                 Debian 12 or later, `apt-get install {}`",
                DEBIAN_PACKAGES.join(" ")
            )
        })?;
        Ok(Self::Debian)
    }

    /// A `cargo build` for the target; packages are still to be named.
    pub(crate) fn cargo_build(self) -> Command {
        let mut command = match self {
            Self::Rustup => cargo(),
            Self::Debian => Command::new("/usr/bin/cargo"),
        };
        // Flags meant for the host (a target CPU, a linker) would break the guest.
        for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS", "RUSTC_WRAPPER"] {
            command.env_remove(name);
        }
        command.args(["build", "--profile=plugin", "--target", TRIPLE]);
        if self == Self::Debian {
            // Debian ships the library as source; building it is still unstable, hence the bootstrap switch.
            command.env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1");
            command.env_remove("RUSTDOC").env_remove("RUSTUP_TOOLCHAIN").env_remove("LD_LIBRARY_PATH");
            command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", "wasm-ld");
            command.arg("-Zbuild-std=std,panic_abort");
        }
        command
    }
}

fn is_in_toolchain() -> Result<bool> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let folder = run::output(Command::new(rustc).args(["--print", "target-libdir", "--target", TRIPLE]))?;
    Ok(has_std(Path::new(folder.trim())))
}

fn has_std(folder: &Path) -> bool {
    let Ok(entries) = folder.read_dir() else { return false };
    entries.flatten().any(|e| e.file_name().to_string_lossy().starts_with("libstd-"))
}

fn add_with_rustup() -> Result<bool> {
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", TRIPLE]);
    match run::run_within(&mut rustup, RUSTUP_LIMIT) {
        Ok(Some(status)) if status.success() => is_in_toolchain(),
        Ok(Some(_)) => Ok(false),
        Ok(None) => {
            eprintln!("    no answer in time");
            Ok(false)
        }
        Err(error) => {
            eprintln!("    {error:#}");
            Ok(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_std_is_no_target() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!has_std(&folder.path().join("missing")));
        assert!(!has_std(folder.path()));
        std::fs::write(folder.path().join("libstd-0123.rlib"), "").unwrap();
        assert!(has_std(folder.path()));
    }

    #[test]
    fn the_source_is_named_or_refused() {
        assert_eq!("debian".parse::<Std>().unwrap(), Std::Debian);
        assert!("apt".parse::<Std>().unwrap_err().to_string().contains("`apt`"));
    }
}
