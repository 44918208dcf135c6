//! Debian packages, installed only when they are missing.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::run;

/// Installs those of `packages` that are missing.
///
/// # Errors
/// The machine has no apt-get, there is no way to become root, or the installation failed.
pub(crate) fn ensure(packages: &[&str]) -> Result<()> {
    let missing: Vec<&str> = packages.iter().copied().filter(|p| !is_installed(p)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if !works("apt-get", &["--version"]) {
        bail!("this machine has no apt-get; install these yourself and try again: {list}");
    }
    run::run(root("apt-get")?.args(["update", "--quiet"]))?;
    run::run(root("apt-get")?.args(["install", "--yes", "--no-install-recommends"]).args(&missing))
        .with_context(|| format!("could not install {list}; install them yourself and try again"))
}

fn is_installed(package: &str) -> bool {
    let query = Command::new("dpkg-query").args(["-W", "-f=${Status}", package]).stderr(Stdio::null()).output();
    query.is_ok_and(|output| output.stdout.ends_with(b"ok installed"))
}

/// A command that runs as root, without asking anything.
fn root(program: &str) -> Result<Command> {
    let user = run::output(Command::new("id").arg("-u"))?;
    let mut command = if user.trim() == "0" {
        Command::new(program)
    } else if works("sudo", &["-n", "true"]) {
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "DEBIAN_FRONTEND=noninteractive", program]);
        sudo
    } else {
        bail!("installing packages needs root or sudo without a password");
    };
    command.env("DEBIAN_FRONTEND", "noninteractive");
    Ok(command)
}

fn works(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
