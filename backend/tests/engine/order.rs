//! Who goes first: priorities, fair shares, and clients that do not read.

use std::time::{Duration, Instant};

use sluicegate_backend::api::{GenerateRequest, Sampling};
use sluicegate_backend::engine::{Config, Generation};
use sluicegate_backend::verify::Place;

use crate::drive::{Dice, Received, Running, Setup, assert_idle, finish, poll, request};

fn plain(share: u64, priority: i32, max_tokens: u32) -> GenerateRequest {
    let prompt = (0..20).map(|i| (i * 5 + share as u32) % 90).collect();
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    GenerateRequest { share, priority, prompt, max_tokens, sampling, stop_ids: vec![], ..request(&mut Dice(2)) }
}

/// The order in which requests end, as indices.
fn order_of_ends(mut streams: Vec<Generation>) -> Vec<usize> {
    let mut received: Vec<Received> = streams.iter().map(|_| Received::default()).collect();
    let mut order = Vec::new();
    while order.len() < streams.len() {
        for i in 0..streams.len() {
            if !received[i].is_over() {
                poll(&mut streams[i], &mut received[i], 100);
                if received[i].is_over() {
                    order.push(i);
                }
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    order
}

/// One sequence at a time, slow steps: the order of the queue is the order of the ends.
fn one_at_a_time(config: Config) -> (Running, Generation) {
    let config = Config { max_num_seqs: 1, stream_tokens: 64, enable_prefix_caching: false, ..config };
    let engine = Setup { config, delay: Duration::from_millis(2), ..Setup::default() }.start();
    let first = engine.submit(plain(9, 0, 10)).unwrap();
    while engine.stats().decoding == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    (engine, first)
}

#[test]
fn larger_priority_first_then_older() {
    let (engine, first) = one_at_a_time(Config::default());
    let queued: Vec<_> = [0, 5, 0, 5, 9].iter().map(|p| engine.submit(plain(1, *p, 2)).unwrap()).collect();
    finish(first);
    assert_eq!(order_of_ends(queued), [4, 1, 3, 0, 2]);
    assert_idle(&engine);
}

#[test]
fn a_share_with_one_request_does_not_wait_behind_a_share_with_many() {
    let (engine, first) = one_at_a_time(Config::default());
    let mut queued: Vec<_> = (0..10).map(|_| engine.submit(plain(1, 0, 2)).unwrap()).collect();
    queued.push(engine.submit(plain(2, 0, 2)).unwrap());
    finish(first);
    let order = order_of_ends(queued);
    assert!(order.iter().position(|i| *i == 10).unwrap() <= 1, "{order:?}");
}

#[test]
fn weights_divide_the_engine() {
    let (engine, first) = one_at_a_time(Config { share_weights: [(1, 3)].into(), ..Config::default() });
    let queued: Vec<_> = (0..24).map(|i| engine.submit(plain(1 + i % 2, 0, 2)).unwrap()).collect();
    finish(first);
    let order = order_of_ends(queued);
    // Even indices are share 1, of weight 3: three of every four while both have work.
    let heavy = order[..12].iter().filter(|i| *i % 2 == 0).count();
    assert!((8..=10).contains(&heavy), "{heavy} of the first 12: {order:?}");
}

#[test]
fn a_client_that_does_not_read_slows_only_itself() {
    for place in [Place::OneDevice, Place::TwoDevices, Place::Linked] {
        let config = Config { stream_tokens: 4, ..Config::default() };
        let setup = Setup { place, config, seqs: 4, ..Setup::default() };
        let engine = setup.start();
        let stuck_request = plain(1, 0, 100);
        // As many as there are slots, so that the others need what the stuck ones hold.
        let stuck: Vec<_> = (0..4).map(|_| engine.submit(stuck_request.clone()).unwrap()).collect();
        let began = Instant::now();
        while engine.stats().paused < 4 {
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", engine.stats());
            std::thread::sleep(Duration::from_millis(1));
        }
        for _ in 0..20 {
            let r = plain(2, 0, 30);
            finish(engine.submit(r.clone()).unwrap()).assert_exact(&r, false);
        }
        assert!(began.elapsed() < Duration::from_secs(20));
        for generation in stuck {
            finish(generation).assert_exact(&stuck_request, false);
        }
        assert_idle(&engine);
    }
}
