//! The real binary, started for one test and stopped when the test lets go of it.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::config::{ADMIN_KEY, API_KEY};
use crate::{Admin, Client, Config, paths};

/// Plugins are compiled and models are loaded before the listeners open.
const START_LIMIT: Duration = Duration::from_secs(120);

/// A running gateway with its own folder, ports, certificate and log.
#[derive(Debug)]
pub struct Server {
    child: Child,
    folder: TempDir,
    public: SocketAddr,
    admin: SocketAddr,
}

impl Server {
    /// Starts the binary and waits until both listeners are open.
    ///
    /// # Errors
    /// It ends or stays silent; the error carries its log.
    pub fn start(config: &Config) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = config.write(folder.path())?;
        let log = std::fs::File::create(folder.path().join("log"))?;
        let mut child = Command::new(paths::binary()?)
            .args(["serve", "--config"])
            .arg(path)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("cannot start the binary")?;
        let stdout = child.stdout.take().context("its output is piped")?;
        let unset: SocketAddr = ([127, 0, 0, 1], 0).into();
        let mut server = Self { child, folder, public: unset, admin: unset };
        let (send, lines) = mpsc::channel();
        // Reads to the end, so that the server never writes into a closed pipe.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        let deadline = Instant::now() + START_LIMIT;
        while server.public == unset || server.admin == unset {
            let left = deadline.saturating_duration_since(Instant::now());
            match lines.recv_timeout(left) {
                Ok(line) => server.announced(&line)?,
                Err(_) => bail!("the server did not come up; its log:\n{}", server.log()),
            }
        }
        Ok(server)
    }

    /// Takes the addresses out of `listening https://ADDRESS` and `admin https://ADDRESS`.
    fn announced(&mut self, line: &str) -> Result<()> {
        let Some((what, url)) = line.split_once(' ') else { return Ok(()) };
        let address = || url.trim_start_matches("https://").parse().with_context(|| format!("not an address: {line}"));
        match what {
            "listening" => self.public = address()?,
            "admin" => self.admin = address()?,
            _ => {}
        }
        Ok(())
    }

    /// A client with the key of the tenant `main`.
    ///
    /// # Errors
    /// The certificate is unreadable.
    pub fn client(&self) -> Result<Client> {
        Client::new(self.public, &self.certificate(), API_KEY)
    }

    /// A client with another key.
    ///
    /// # Errors
    /// The certificate is unreadable.
    pub fn client_with(&self, key: &str) -> Result<Client> {
        Client::new(self.public, &self.certificate(), key)
    }

    /// The admin API.
    ///
    /// # Errors
    /// The certificate is unreadable.
    pub fn admin(&self) -> Result<Admin> {
        Ok(Admin::new(Client::new(self.admin, &self.certificate(), ADMIN_KEY)?))
    }

    /// What an OpenAI client takes as its base URL.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("https://{}/v1", self.public)
    }

    /// The certificate that clients have to trust.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("state/tls/cert.pem")
    }

    /// Where components are loaded from.
    #[must_use]
    pub fn plugin_folder(&self) -> PathBuf {
        self.folder.path().join("plugins")
    }

    /// What it has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            eprintln!("--- the server's last log lines ---");
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
