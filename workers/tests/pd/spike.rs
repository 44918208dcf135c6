//! Ten times more requests than places (case S15): a bounded queue, refusals that say when to come back, no one lost.

use std::time::{Duration, Instant};

use sluicegate_backend::api::EngineError;
use sluicegate_backend::engine::Config;

use crate::rig::{Dice, Rig, Size, finish, request};

/// Seconds for `count` requests, a few at a time.
async fn pace(rig: &Rig, dice: &mut Dice, count: usize) -> f64 {
    let began = Instant::now();
    for _ in 0..count / 8 {
        let mut running = Vec::new();
        for _ in 0..8 {
            let r = request(dice);
            running.push((r.clone(), rig.pool.submit(r).await.unwrap()));
        }
        for (r, generation) in running {
            finish(generation).await.assert_exact(&r);
        }
    }
    began.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spike_is_refused_in_part_and_changes_nothing_after() {
    let config = Config { max_queued_requests: 60, ..Config::default() };
    let size = Size { seqs: 16, delay: Duration::from_millis(1), config, ..Size::default() };
    let rig = Rig::start(&size, &size).await;
    let mut dice = Dice(15);
    let before = pace(&rig, &mut dice, 40).await;
    let sent = 160;
    let mut tasks = Vec::new();
    for _ in 0..sent {
        let (r, pool) = (request(&mut dice), rig.pool.clone());
        tasks.push(tokio::spawn(async move {
            let began = Instant::now();
            match pool.submit(r.clone()).await {
                Ok(generation) => {
                    finish(generation).await.assert_exact(&r);
                    true
                }
                Err(EngineError::Overloaded { retry_after_s }) => {
                    assert!((1..=120).contains(&retry_after_s));
                    assert!(began.elapsed() < Duration::from_secs(5), "a refusal does not wait for a place");
                    false
                }
                Err(other) => panic!("{other}"),
            }
        }));
    }
    let (mut accepted, mut refused) = (0, 0);
    for task in tasks {
        if task.await.unwrap() { accepted += 1 } else { refused += 1 }
    }
    assert_eq!(accepted + refused, sent);
    assert!(accepted >= 60 && refused > 0, "{accepted} accepted, {refused} refused");
    rig.assert_idle().await;
    let after = pace(&rig, &mut dice, 40).await;
    // Far from both a machine's noise and an engine that stays slow.
    assert!(after < before * 10.0 + 5.0, "{before} s before, {after} s after");
}
