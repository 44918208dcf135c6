//! Workers that fail, stop, or are started again (cases S11 and S14): the other is told, and the client in time.

use std::time::{Duration, Instant};

use sluicegate_backend::api::EngineError;
use sluicegate_workers::{Role, Standing};

use crate::device::{Fault, HashDevice};
use crate::rig::{
    Dice, Rig, Size, any_port, assert_idle, finish, long, pool, probe, request, start, start_at, start_on, until,
};

const SOON: Duration = Duration::from_secs(5);

/// The prefill worker's process ends while a request waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_only_prefill_worker_ends_the_client_hears_it_soon() {
    let size = Size::default();
    let (prefill, decode) = (start(Role::Prefill, &size).await, start(Role::Decode, &size).await);
    let pool = pool(&[&prefill, &decode], |c| c.patience = Duration::from_millis(300)).await;
    let mut dice = Dice(21);
    prefill.gate.hold_after(0);
    let generation = pool.submit(long(&mut dice, 30)).await.unwrap();
    until(SOON, "prefill is held", || prefill.gate.is_held()).await;
    let began = Instant::now();
    // The thread of the device stays held; sockets and sessions are gone, as with a process that dies.
    let gate = prefill.gate.clone();
    let address = prefill.worker.address();
    drop(prefill);
    let why = finish(generation).await.failed.expect("it fails").to_string();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(why.contains("no prefill worker is up") && why.contains(&address.to_string()), "{why}");
    until(SOON, "the request is over at the decode worker", || decode.worker.stats().running == 0).await;
    gate.open();
    until(SOON, "the decode worker is at rest", || crate::rig::held(&decode.worker.stats()) == 0).await;
}

/// With another one there, the client notices nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_goes_on_at_another_pair_exactly() {
    let size = Size::default();
    let workers = [
        start(Role::Prefill, &size).await,
        start(Role::Prefill, &size).await,
        start(Role::Decode, &size).await,
        start(Role::Decode, &size).await,
    ];
    let pool = pool(&workers.each_ref(), |_| {}).await;
    let mut dice = Dice(22);
    let mut running = Vec::new();
    for _ in 0..60 {
        let r = long(&mut dice, 20);
        running.push((r.clone(), tokio::spawn(finish(pool.submit(r).await.unwrap()))));
    }
    let [p1, p2, d1, d2] = workers;
    until(SOON, "both decode", || d1.worker.stats().decoding > 2 && d2.worker.stats().decoding > 2).await;
    drop(d1);
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(p2);
    for (r, task) in running {
        task.await.unwrap().assert_exact(&r);
    }
    assert_idle(&pool, &[&p1, &d2]).await;
    probe(&pool, &mut dice).await;
}

/// The process lives and answers, its engine does not move: it is told from a slow one, by name, and left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_prefill_worker_is_blamed_and_left() {
    let size = Size::default();
    let (stuck, decode) = (start(Role::Prefill, &size).await, start(Role::Decode, &size).await);
    let mut dice = Dice(23);
    let limits = |c: &mut sluicegate_workers::PoolConfig| {
        c.turn_limit = Duration::from_millis(300);
        c.patience = Duration::from_millis(200);
    };
    let alone = pool(&[&stuck, &decode], limits).await;
    stuck.gate.hold_after(0);
    let began = Instant::now();
    let why = finish(alone.submit(request(&mut dice)).await.unwrap()).await.failed.expect("it fails").to_string();
    assert!(began.elapsed() < SOON * 2, "{:?}", began.elapsed());
    assert!(why.contains("stuck") && why.contains(&stuck.worker.address().to_string()), "{why}");

    let second = start(Role::Prefill, &size).await;
    let both = {
        let addresses = [&stuck, &second, &decode].map(|w| w.worker.address());
        let mut config = sluicegate_workers::PoolConfig::new(addresses.to_vec(), crate::rig::secret());
        limits(&mut config);
        sluicegate_workers::WorkerPool::start(config).unwrap()
    };
    until(SOON * 2, "the others are up", || both.lack().is_none()).await;
    probe(&both, &mut dice).await;
    stuck.gate.open();
    until(SOON * 2, "it is back", || crate::rig::all_up(&both)).await;
    assert_idle(&both, &[&stuck, &second, &decode]).await;
}

/// A step that fails at the prefill worker fails its request at the decode worker at once; others do better.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_of_the_prefill_worker_reaches_the_client() {
    let size = Size::default();
    let mut device = HashDevice::new(size.blocks, size.seqs, size.rows, true);
    device.fault = Some(Fault::BadPlan(0));
    let prefill = start_on(Role::Prefill, &size, Box::new(device), (any_port(), any_port())).await;
    let decode = start(Role::Decode, &size).await;
    let once = pool(&[&prefill, &decode], |c| c.attempts = 1).await;
    let mut dice = Dice(24);
    let why = finish(once.submit(request(&mut dice)).await.unwrap()).await.failed.expect("it fails").to_string();
    assert!(why.contains("a plan was refused"), "{why}");
    probe(&once, &mut dice).await;
    assert_idle(&once, &[&prefill, &decode]).await;
}

/// A device that is lost ends its worker's standing with the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_device_takes_its_worker_down() {
    let size = Size::default();
    let mut device = HashDevice::new(size.blocks, size.seqs, size.rows, true);
    device.fault = Some(Fault::Device(3));
    let broken = start_on(Role::Decode, &size, Box::new(device), (any_port(), any_port())).await;
    let (prefill, whole) = (start(Role::Prefill, &size).await, start(Role::Decode, &size).await);
    let pool = pool(&[&prefill, &broken, &whole], |_| {}).await;
    let mut dice = Dice(25);
    for _ in 0..6 {
        let r = long(&mut dice, 10);
        finish(pool.submit(r.clone()).await.unwrap()).await.assert_exact(&r);
    }
    let down = pool.workers().into_iter().find(|w| w.address == broken.worker.address()).unwrap();
    assert!(matches!(&down.standing, Standing::Down { why, .. } if why.contains("told to")), "{down:?}");
    assert_idle(&pool, &[&prefill, &whole]).await;
}

/// Started again at the same address: a new instance, a new session; what the old one had goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_are_started_again_are_met_again() {
    let size = Size::default();
    let mut rig = Rig::start(&size, &size).await;
    let mut dice = Dice(26);
    for round in 0..6 {
        let mut running = Vec::new();
        for _ in 0..20 {
            let r = long(&mut dice, 30);
            running.push((r.clone(), tokio::spawn(finish(rig.pool.submit(r).await.unwrap()))));
        }
        tokio::time::sleep(Duration::from_millis(5 + dice.roll(40) as u64)).await;
        let role = if round % 2 == 0 { Role::Prefill } else { Role::Decode };
        let held = if round % 2 == 0 { &mut rig.prefill } else { &mut rig.decode };
        let addresses = (held.worker.address(), held.worker.transfer_address().unwrap_or_else(any_port));
        let old = std::mem::replace(held, start(Role::Both, &size).await);
        old.worker.shutdown(Duration::ZERO).await;
        // The door for pages is closed by a thread that looks every 20 ms.
        tokio::time::sleep(Duration::from_millis(60)).await;
        *held = start_at(role, &size, addresses).await;
        for (r, task) in running {
            let began = Instant::now();
            let received = task.await.unwrap();
            match &received.failed {
                None => received.assert_exact(&r),
                Some(EngineError::Worker(_) | EngineError::Unavailable(_)) => received.assert_front(&r),
                Some(other) => panic!("{other}"),
            }
            assert!(began.elapsed() < SOON * 2);
        }
        until(SOON * 2, "both are up again", || crate::rig::all_up(&rig.pool)).await;
        probe(&rig.pool, &mut dice).await;
    }
    rig.assert_idle().await;
}

/// A worker that leaves in good order finishes what it has, and takes nothing new.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_drains_finishes_what_it_has() {
    let size = Size::default();
    let (prefill, one, two) =
        (start(Role::Prefill, &size).await, start(Role::Decode, &size).await, start(Role::Decode, &size).await);
    let pool = pool(&[&prefill, &one, &two], |_| {}).await;
    let mut dice = Dice(27);
    let mut running = Vec::new();
    for _ in 0..20 {
        let r = long(&mut dice, 10);
        running.push((r.clone(), tokio::spawn(finish(pool.submit(r).await.unwrap()))));
    }
    assert!(one.worker.shutdown(Duration::from_secs(10)).await, "everything finished by itself");
    for (r, task) in running {
        task.await.unwrap().assert_exact(&r);
    }
    probe(&pool, &mut dice).await;
    assert_idle(&pool, &[&prefill, &two]).await;
}
