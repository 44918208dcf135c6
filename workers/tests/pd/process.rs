//! Workers as processes that can be killed: this test binary, started again to run one worker and nothing else.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sluicegate_workers::Role;

use crate::rig::{Size, start_at};

const ROLE: &str = "SLUICEGATE_TEST_WORKER";
const ADDRESSES: &str = "SLUICEGATE_TEST_ADDRESSES";

/// What the processes' devices are like.
pub(crate) fn size() -> Size {
    let config = sluicegate_backend::engine::Config { max_queued_requests: 4096, ..Default::default() };
    Size { blocks: 2000, seqs: 64, rows: 128, delay: Duration::from_micros(200), config }
}

/// A free port that a worker can be started at again and again.
pub(crate) fn port() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A worker process; dropping it kills it with SIGKILL.
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts it and returns when it listens.
    pub(crate) fn start(role: Role, listen: SocketAddr, transfer: SocketAddr) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "process::run_one_worker", "--nocapture"])
            .env(ROLE, role.name())
            .env(ADDRESSES, format!("{listen} {transfer}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let up = lines.map_while(Result::ok).any(|line| line.contains("worker is up"));
        assert!(up, "the {} worker did not come up", role.name());
        Self { child }
    }
}

impl Process {
    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test: what [`Process`] runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a worker process of the other tests"]
async fn run_one_worker() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let role = [Role::Prefill, Role::Decode, Role::Both].into_iter().find(|r| r.name() == role).unwrap();
    let addresses = std::env::var(ADDRESSES).unwrap();
    let (listen, transfer) = addresses.split_once(' ').unwrap();
    let _held = start_at(role, &size(), (listen.parse().unwrap(), transfer.parse().unwrap())).await;
    println!("worker is up");
    // Ends with its parent, however that ends.
    let _ = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0])).await;
    std::process::exit(0);
}
