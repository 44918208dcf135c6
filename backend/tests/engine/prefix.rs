//! Reused blocks under pressure: evicted while others match them, loaded while matched, shared between tenants.

use sluicegate_backend::api::{GenerateRequest, Sampling};
use sluicegate_backend::engine::Config;
use sluicegate_backend::verify::Place;

use crate::device::BLOCK;
use crate::drive::{Dice, Received, Running, Setup, assert_idle, finish, poll, request};

const PREFIX: usize = 10 * BLOCK;

/// A request whose prompt begins with a prefix of ten blocks.
fn with_prefix(family: u32, own: u32, share: u64, max_tokens: u32) -> GenerateRequest {
    let mut prompt: Vec<u32> = (0..PREFIX as u32).map(|i| (i * 5 + family) % 90).collect();
    prompt.extend([own % 90, 7, own % 13]);
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    GenerateRequest { prompt, sampling, stop_ids: vec![], max_tokens, grammar: None, share, ..request(&mut Dice(1)) }
}

fn cached(got: &Received) -> u32 {
    got.end.unwrap().1.cached_tokens
}

fn exact(engine: &Running, r: &GenerateRequest) -> u32 {
    let got = finish(engine.submit(r.clone()).unwrap());
    got.assert_exact(r, false);
    cached(&got)
}

fn start(blocks: u32, place: Place, config: Config) -> Running {
    Setup { blocks, place, config: Config { kv_checksums: true, stream_tokens: 4, ..config }, ..Setup::default() }
        .start()
}

#[test]
fn blocks_that_a_running_sequence_matched_are_not_evicted() {
    for place in [Place::OneDevice, Place::TwoDevices, Place::Linked] {
        let engine = start(30, place, Config::default());
        exact(&engine, &with_prefix(1, 1, 0, 2));
        // It holds the matched blocks, and its client does not read for now.
        let held = with_prefix(1, 2, 0, 12);
        let (mut stream, mut received) = (engine.submit(held.clone()).unwrap(), Received::default());
        while received.tokens.is_empty() {
            poll(&mut stream, &mut received, 4);
        }
        // Others need all the memory that there is, again and again.
        for family in 2..8 {
            exact(&engine, &with_prefix(family, family, 0, 20));
        }
        while let Some(event) = (!received.is_over()).then(|| stream.blocking_recv()).flatten() {
            received.take(event);
        }
        received.assert_exact(&held, false);
        assert_eq!(cached(&received) as usize, PREFIX, "{place:?}");
        assert_idle(&engine);
    }
}

#[test]
fn blocks_come_back_from_the_host_while_others_match_them() {
    let engine = start(34, Place::OneDevice, Config { kv_offloading_bytes: 1 << 20, ..Config::default() });
    let families = 5;
    for family in 0..families {
        exact(&engine, &with_prefix(family, 1, 0, 2));
    }
    for round in 0..4 {
        // Two of each family at once: one loads the blocks, the other finds them loaded.
        let requests: Vec<_> = (0..families * 2).map(|n| with_prefix(n / 2, 10 * round + n, 0, 6)).collect();
        let streams: Vec<_> = requests.iter().map(|r| engine.submit(r.clone()).unwrap()).collect();
        let threads: Vec<_> = streams.into_iter().map(|s| std::thread::spawn(|| finish(s))).collect();
        for (thread, r) in threads.into_iter().zip(&requests) {
            let got = thread.join().unwrap();
            got.assert_exact(r, false);
            assert_eq!(cached(&got) as usize, PREFIX, "nothing is computed twice");
        }
    }
    let stats = assert_idle(&engine);
    assert!(stats.blocks_loaded_total > 20, "{stats:?}");
}

#[test]
fn tenants_share_blocks_only_where_that_is_allowed() {
    for per_share in [false, true] {
        let engine = start(120, Place::OneDevice, Config { prefix_caching_per_share: per_share, ..Config::default() });
        let first = with_prefix(1, 1, 1, 30);
        let (mut stream, mut received) = (engine.submit(first.clone()).unwrap(), Received::default());
        while received.tokens.is_empty() {
            poll(&mut stream, &mut received, 1);
        }
        // Another tenant, while the first one's sequence runs, and again after it has gone.
        let other = |own| exact(&engine, &with_prefix(1, own, 2, 5)) as usize;
        assert_eq!(other(2), if per_share { 0 } else { PREFIX });
        drop(stream);
        assert_eq!(other(3), PREFIX, "its own, or the shared ones");
        assert_eq!(exact(&engine, &with_prefix(1, 4, 1, 5)) as usize, PREFIX);
        assert_eq!(exact(&engine, &with_prefix(1, 4, 3, 5)) as usize, if per_share { 0 } else { PREFIX });
        assert_idle(&engine);
    }
}
