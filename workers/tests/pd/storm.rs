//! A storm: bursts of requests, half of them left at random moments, while either worker is killed and started again.
//!
//! `STORM=10000 cargo test --release -p sluicegate-workers --test pd storm -- --nocapture` makes it larger.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sluicegate_backend::api::{EngineError, GenerateRequest};
use sluicegate_workers::{PoolConfig, Role, Standing, WorkerPool};

use crate::process::{Process, port};
use crate::rig::{Dice, Received, all_up, finish, held, probe, request, secret, until};

/// What becomes of a request, at the most.
const DEADLINE: Duration = Duration::from_secs(20);
/// Requests in a burst.
const BURST: usize = 500;

/// Kills and restarts, until it is told to stop.
struct Killer {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<(Process, Process, usize)>,
}

#[derive(Clone, Copy)]
struct Addresses {
    prefill: (SocketAddr, SocketAddr),
    decode: (SocketAddr, SocketAddr),
}

impl Addresses {
    fn prefill(&self) -> Process {
        Process::start(Role::Prefill, self.prefill.0, self.prefill.1)
    }

    fn decode(&self) -> Process {
        Process::start(Role::Decode, self.decode.0, self.decode.1)
    }
}

impl Killer {
    fn start(addresses: Addresses, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut dice, mut kills) = (Dice(seed), 0);
            let (mut prefill, mut decode) = (addresses.prefill(), addresses.decode());
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(300 + dice.roll(900) as u64));
                let which = dice.roll(5);
                if which != 0 {
                    drop(prefill);
                    prefill = addresses.prefill();
                    kills += 1;
                }
                if which == 0 || which > 2 {
                    drop(decode);
                    decode = addresses.decode();
                    kills += 1;
                }
            }
            (prefill, decode, kills)
        });
        Self { stop, thread }
    }

    fn stop(self) -> (Process, Process, usize) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// How requests ended.
#[derive(Debug, Default)]
struct Tally {
    left: usize,
    exact: usize,
    failed: usize,
}

/// Runs one request as a client that may leave. Says how it ended: none if it left, else whether it was answered.
async fn client(pool: WorkerPool, request: GenerateRequest, leaves: Option<(usize, u64)>) -> Option<bool> {
    let began = Instant::now();
    let request = GenerateRequest { deadline: Some(began + DEADLINE), ..request };
    let mut received = Received::default();
    let answer = async {
        let mut generation = match pool.submit(request.clone()).await {
            Ok(generation) => generation,
            Err(error) => {
                received.failed = Some(error);
                return;
            }
        };
        let mut events = 0;
        while let Some(event) = generation.recv().await {
            received.take(event);
            events += 1;
            if leaves.is_some_and(|(after, _)| events >= after) {
                return;
            }
        }
    };
    if let Some((_, patience)) = leaves {
        let _ = tokio::time::timeout(Duration::from_micros(patience), answer).await;
        received.assert_front(&request);
        return None;
    }
    tokio::time::timeout(DEADLINE + Duration::from_secs(1), answer).await.expect("no request outlives its deadline");
    match &received.failed {
        None => received.assert_exact(&request),
        Some(EngineError::Worker(_) | EngineError::Unavailable(_)) => received.assert_front(&request),
        Some(other) => panic!("{other}"),
    }
    Some(received.failed.is_none())
}

async fn burst(pool: &WorkerPool, dice: &mut Dice, size: usize, tally: &mut Tally) {
    let mut clients = Vec::new();
    for _ in 0..size {
        // By events, which is by phase, or by time.
        let leaves = match dice.roll(4) {
            0 => Some((1 + dice.roll(12), 10_000_000)),
            1 => Some((usize::MAX, dice.roll(300_000) as u64)),
            _ => None,
        };
        clients.push(tokio::spawn(client(pool.clone(), request(dice), leaves)));
    }
    for client in clients {
        match client.await.unwrap() {
            None => tally.left += 1,
            Some(true) => tally.exact += 1,
            Some(false) => tally.failed += 1,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_leaves_nothing_and_breaks_nothing() {
    let requests: usize = std::env::var("STORM").ok().and_then(|n| n.parse().ok()).unwrap_or(1_500);
    let addresses = Addresses { prefill: (port(), port()), decode: (port(), port()) };
    let killer = Killer::start(addresses, requests as u64);
    let mut config = PoolConfig::new(vec![addresses.prefill.0, addresses.decode.0], secret());
    config.patience = Duration::from_secs(5);
    config.attempts = 8;
    let pool = WorkerPool::start(config).unwrap();
    until(Duration::from_secs(20), "both are up", || all_up(&pool)).await;
    let (began, mut dice, mut tally) = (Instant::now(), Dice(7), Tally::default());
    while tally.left + tally.exact + tally.failed < requests {
        burst(&pool, &mut dice, BURST.min(requests), &mut tally).await;
    }
    let took = began.elapsed();
    let (_prefill, _decode, kills) = tokio::task::spawn_blocking(|| killer.stop()).await.unwrap();
    println!("{requests} requests in {took:?}, {kills} kills: {tally:?}");
    assert!(tally.left > requests / 3, "about half leave: {tally:?}");
    assert!(tally.exact > tally.failed, "most are answered all the same: {tally:?}");
    until(Duration::from_secs(10), "both are up again", || all_up(&pool)).await;
    probe(&pool, &mut dice).await;
    let at_rest = || {
        let figures = pool.workers().into_iter().map(|w| match w.standing {
            Standing::Up { stats, running, .. } => held(&stats) + running,
            Standing::Down { .. } => 1,
        });
        figures.sum::<usize>() + pool.rooms() == 0
    };
    until(Duration::from_secs(10), "every gauge is back at its idle value", at_rest).await;
}

/// Killed with SIGKILL in the middle of a request and started again: the client sees a pause and every token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_worker_is_replaced_in_the_middle_of_a_request() {
    let addresses = Addresses { prefill: (port(), port()), decode: (port(), port()) };
    let (mut prefill, mut decode) = (addresses.prefill(), addresses.decode());
    let pool = WorkerPool::start(PoolConfig::new(vec![addresses.prefill.0, addresses.decode.0], secret())).unwrap();
    until(Duration::from_secs(20), "both are up", || all_up(&pool)).await;
    let mut dice = Dice(8);
    for round in 0..6 {
        let r = crate::rig::long(&mut dice, 40);
        let mut generation = pool.submit(r.clone()).await.unwrap();
        let mut received = Received::default();
        let events = 1 + dice.roll(6);
        for _ in 0..events {
            received.take(generation.recv().await.unwrap());
        }
        if round % 2 == 0 {
            drop(prefill);
            prefill = addresses.prefill();
        } else {
            drop(decode);
            decode = addresses.decode();
        }
        let began = Instant::now();
        while let Some(event) = generation.recv().await {
            received.take(event);
        }
        assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
        received.assert_exact(&r);
        let next = request(&mut dice);
        finish(pool.submit(next.clone()).await.unwrap()).await.assert_exact(&next);
    }
    drop((prefill, decode));
}

/// A process that is stopped has not ended: its sockets stay open, and nothing tells but its silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_worker_is_noticed_by_its_silence() {
    let (addresses, other) = (Addresses { prefill: (port(), port()), decode: (port(), port()) }, (port(), port()));
    let (_prefill, stopped) = (addresses.prefill(), addresses.decode());
    let _second = Process::start(Role::Decode, other.0, other.1);
    let mut config = PoolConfig::new(vec![addresses.prefill.0, addresses.decode.0, other.0], secret());
    config.silence = Duration::from_millis(800);
    let pool = WorkerPool::start(config).unwrap();
    until(Duration::from_secs(20), "all are up", || all_up(&pool)).await;
    let mut dice = Dice(9);
    let mut running = Vec::new();
    for _ in 0..20 {
        let r = crate::rig::long(&mut dice, 40);
        running.push((r.clone(), tokio::spawn(finish(pool.submit(r).await.unwrap()))));
    }
    stopped.signal("STOP");
    let began = Instant::now();
    for (r, task) in running {
        task.await.unwrap().assert_exact(&r);
    }
    assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
    let down = pool.workers().into_iter().find(|w| w.address == addresses.decode.0).unwrap();
    assert!(matches!(&down.standing, Standing::Down { .. }), "{down:?}");
    stopped.signal("CONT");
    until(Duration::from_secs(10), "it is back", || all_up(&pool)).await;
    probe(&pool, &mut dice).await;
}
