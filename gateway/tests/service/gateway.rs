//! The real binary on free ports, with recordings in place of an engine.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Client, Response};
use crate::recordings;

/// Keys of the tenants "a" and "b" and of the operator.
const KEYS: [&str; 3] = ["key-a", "key-b", "key-admin"];

/// A running gateway; killed when dropped.
pub(crate) struct Gateway {
    pub(crate) dir: TempDir,
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Gateway {
    /// Starts with `limits` in `[limits]` and `tenant` in the entry of the tenant "a" (key `key-a`).
    pub(crate) fn start(limits: &str, tenant: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("r.jsonl"), recordings::file()).unwrap();
        let [a, b, admin] = KEYS.map(hash);
        let config = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\nkey_sha256 = \"{admin}\"\n\
             [limits]\n{limits}\n\
             [[tenant]]\nname = \"a\"\nkey_sha256 = [\"{a}\"]\n{tenant}\n\
             [[tenant]]\nname = \"b\"\nkey_sha256 = [\"{b}\"]\nmodels = [\"other\"]\n\
             [[model]]\nname = \"m\"\nupstream.replay.file = \"r.jsonl\"\n\
             [[model]]\nname = \"other\"\nupstream.replay.file = \"r.jsonl\"\n"
        );
        std::fs::write(dir.path().join("config.toml"), config).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_sluicegate"))
            .args(["serve", "--config"])
            .arg(dir.path().join("config.toml"))
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(dir.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next = || {
            let line = lines.next().expect("the gateway ended before it listened").unwrap();
            line.split("//").nth(1).unwrap().parse().unwrap()
        };
        let (address, admin) = (next(), next());
        Self { dir, child, address, admin }
    }

    /// Trusts the certificate in a file of the state folder.
    pub(crate) fn trust(&self, cert: &Path, alpn: &[&[u8]]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(cert).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|p| p.to_vec()).collect();
        Arc::new(config)
    }

    pub(crate) fn tls(&self, alpn: &[&[u8]]) -> Arc<ClientConfig> {
        self.trust(&self.dir.path().join("state/tls/cert.pem"), alpn)
    }

    /// A new HTTP/1.1 connection to the public listener.
    pub(crate) async fn connect(&self) -> Client {
        Client::connect(self.address, self.tls(&[b"http/1.1"])).await
    }

    /// One chat request by tenant "a" on its own connection, read to its end.
    pub(crate) async fn chat(&self, body: &Value) -> Response {
        let mut client = self.connect().await;
        client.chat("key-a", body).await;
        client.response().await
    }

    /// The value of a metric line that begins with this; 0 when there is none.
    pub(crate) async fn metric(&self, line: &str) -> f64 {
        let mut client = Client::connect(self.admin, self.tls(&[b"http/1.1"])).await;
        client.send("GET", "/metrics", "key-admin", b"").await;
        let text = client.response().await.text();
        let found = text.lines().find(|l| l.starts_with(line));
        found.map_or(0.0, |l| l.rsplit(' ').next().unwrap().parse().unwrap())
    }

    /// Waits until a metric has a value.
    pub(crate) async fn until(&self, line: &str, value: f64, limit: Duration) -> Duration {
        let start = Instant::now();
        loop {
            let now = self.metric(line).await;
            if (now - value).abs() < f64::EPSILON {
                return start.elapsed();
            }
            assert!(start.elapsed() < limit, "{line} is {now}, not {value}, after {limit:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What the gateway has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    pub(crate) fn terminate(&self) {
        let status = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for the process to end by itself and returns its exit code.
    pub(crate) async fn exit_code(&mut self, limit: Duration) -> i32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(start.elapsed() < limit, "still running after {limit:?}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of the gateway\n{}", self.log());
        }
    }
}

fn hash(key: &str) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_sluicegate")).args(["key", "--hash", key]).output().unwrap();
    String::from_utf8(out.stdout).unwrap().split_whitespace().last().unwrap().to_owned()
}
