//! An engine worker: the real binary in a process that can be killed.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::paths;

/// Addresses that a worker is started at again and again.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// For gateways.
    pub listen: SocketAddr,
    /// For decode workers.
    pub transfer: SocketAddr,
}

impl Ports {
    /// Two that are free now.
    ///
    /// # Errors
    /// There are none.
    pub fn free() -> Result<Self> {
        let (a, b) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
        Ok(Self { listen: a.local_addr()?, transfer: b.local_addr()? })
    }
}

/// A running worker. Dropping it kills it with SIGKILL.
#[derive(Debug)]
pub struct Worker {
    child: Child,
}

impl Worker {
    /// Starts `sluicegate engine` and waits until it listens. `log` is appended to.
    ///
    /// # Errors
    /// It ends instead.
    pub fn start(role: &str, model: &Path, secret: &Path, ports: Ports, log: &Path) -> Result<Self> {
        let log_file = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
        let mut child = Command::new(paths::binary()?)
            .args(["engine", "--role", role, "--threads", "1", "--max-num-seqs", "64"])
            .args(["--max-queued-requests", "4096", "--max-total-tokens", "65536"])
            .arg("--model")
            .arg(model)
            .arg("--secret-file")
            .arg(secret)
            .args(["--listen", &ports.listen.to_string(), "--transfer-listen", &ports.transfer.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .spawn()
            .context("cannot start the binary")?;
        let stdout = child.stdout.take().context("its output is piped")?;
        let worker = Self { child };
        let up = BufReader::new(stdout).lines().map_while(Result::ok).any(|line| line.contains("worker listening on"));
        ensure!(up, "the {role} worker did not come up:\n{}", std::fs::read_to_string(log).unwrap_or_default());
        Ok(worker)
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
