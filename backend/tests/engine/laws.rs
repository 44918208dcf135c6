//! Exactness under load, and nothing left behind, for any set-up and any order of events.

use std::time::Duration;

use proptest::prelude::*;
use sluicegate_backend::engine::{Config, Generation};
use sluicegate_backend::verify::Place;

use crate::drive::{Dice, Received, Setup, any_request, assert_idle, finish, poll};
use crate::speculation::speculation;

/// Any engine: few or many blocks (so that sequences are preempted), short or long chunks, one device or two.
fn setup() -> impl Strategy<Value = Setup> {
    let sizes = (26..120_u32, 1..12_u32, 12..80_u32, 1..6_usize);
    let place = prop_oneof![Just(Place::OneDevice), Just(Place::TwoDevices), Just(Place::Linked)];
    let host = prop_oneof![Just(0_usize), 1000..20_000_usize];
    let switches = (any::<bool>(), place, any::<bool>(), any::<bool>(), host, speculation(), any::<bool>());
    let chunk = prop_oneof![Just(0_usize), 1..20_usize];
    (sizes, switches, chunk).prop_map(
        |(
            (blocks, seqs, rows, stream),
            (stateful, place, reuse, per_share, host, speculation, kv_checksums),
            chunk,
        )| Setup {
            blocks,
            seqs,
            rows,
            stateful,
            place,
            delay: Duration::ZERO,
            config: Config {
                max_num_batched_tokens: rows as usize,
                long_prefill_token_threshold: chunk,
                stream_tokens: stream,
                enable_prefix_caching: reuse,
                prefix_caching_per_share: per_share,
                kv_offloading_bytes: host,
                kv_checksums,
                // State that sums up tokens can't be rewound, and such an engine refuses to start.
                speculation: speculation.filter(|_| !stateful),
                ..Config::default()
            },
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    /// Chunked or whole, cached or not, preempted or not, one device or two, at any concurrency: the same tokens.
    #[test]
    fn every_client_gets_what_it_would_get_alone(setup in setup(), seed in any::<u64>(), count in 1..40_usize) {
        let engine = setup.start();
        let mut dice = Dice(seed);
        let requests: Vec<_> = (0..count).map(|_| any_request(&mut dice)).collect();
        let mut streams: Vec<_> =
            requests.iter().map(|r| (engine.submit(r.clone()).unwrap(), Received::default())).collect();
        while streams.iter().any(|s| !s.1.is_over()) {
            let (generation, received) = &mut streams[dice.roll(count)];
            if received.is_over() || poll(generation, received, 1 + dice.roll(5)) == 0 {
                std::thread::yield_now();
            }
        }
        for ((_, received), request) in streams.iter().zip(&requests) {
            received.assert_exact(request, setup.stateful);
        }
        let stats = assert_idle(&engine);
        prop_assert_eq!(stats.finished_total as usize, count);
    }

    /// Any interleaving of submits, aborts, slow and fast clients: survivors are exact, the dead leave nothing.
    #[test]
    fn whatever_clients_do_nothing_is_left(setup in setup(), seed in any::<u64>(), turns in 1..600_usize) {
        let engine = setup.start();
        let mut dice = Dice(seed);
        let mut streams: Vec<(Generation, Received, _, usize)> = Vec::new();
        for _ in 0..turns {
            match dice.roll(10) {
                0 | 1 => {
                    let r = any_request(&mut dice);
                    // Some clients never read.
                    let speed = [0, 1, 20][dice.roll(3)];
                    streams.push((engine.submit(r.clone()).unwrap(), Received::default(), r, speed));
                }
                2 if !streams.is_empty() => {
                    let (_, received, r, _) = streams.swap_remove(dice.roll(streams.len()));
                    received.assert_front(&r, setup.stateful);
                }
                3 => std::thread::sleep(Duration::from_micros(dice.roll(300) as u64)),
                _ if !streams.is_empty() => {
                    let at = dice.roll(streams.len());
                    let (generation, received, _, speed) = &mut streams[at];
                    if !received.is_over() {
                        poll(generation, received, *speed);
                    }
                }
                _ => {}
            }
        }
        for (mut generation, mut received, r, _) in streams {
            if dice.roll(4) == 0 {
                continue;
            }
            while let Some(event) = (!received.is_over()).then(|| generation.blocking_recv()).flatten() {
                received.take(event);
            }
            received.assert_exact(&r, setup.stateful);
        }
        assert_idle(&engine);
        let probe = any_request(&mut dice);
        finish(engine.submit(probe.clone()).unwrap()).assert_exact(&probe, setup.stateful);
        prop_assert!(engine.failure().is_none());
    }
}

/// A thousand aborted at random moments, in bursts; the next request is answered.
#[test]
fn a_storm_of_aborts_leaves_nothing() {
    for place in [Place::OneDevice, Place::TwoDevices, Place::Linked] {
        let config = Config { max_queued_requests: 2000, ..Config::default() };
        let setup = Setup { place, delay: Duration::from_micros(200), config, ..Setup::default() };
        let engine = setup.start();
        let mut dice = Dice(11);
        let mut streams = Vec::new();
        for _ in 0..1000 {
            let r = any_request(&mut dice);
            streams.push(engine.submit(r).unwrap());
            if streams.len() > 100 + dice.roll(150) {
                std::thread::sleep(Duration::from_millis(dice.roll(8) as u64));
                streams.truncate(dice.roll(40));
            }
        }
        drop(streams);
        let stats = assert_idle(&engine);
        assert_eq!(stats.aborted_total + stats.finished_total, 1000);
        assert!(stats.aborted_total > 500, "{stats:?}");
        let probe = any_request(&mut dice);
        finish(engine.submit(probe.clone()).unwrap()).assert_exact(&probe, false);
    }
}

/// The pressure that the laws are meant to be under does occur.
#[test]
fn small_memory_preempts_and_shared_prefixes_are_reused() {
    let setup = Setup { blocks: 40, ..Setup::default() };
    let engine = setup.start();
    let mut dice = Dice(5);
    let requests: Vec<_> = (0..60).map(|_| any_request(&mut dice)).collect();
    let streams: Vec<_> = requests.iter().map(|r| engine.submit(r.clone()).unwrap()).collect();
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = streams.into_iter().map(|s| scope.spawn(|| finish(s))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect::<Vec<_>>()
    });
    results.iter().zip(&requests).for_each(|(got, r)| got.assert_exact(r, false));
    let stats = assert_idle(&engine);
    assert!(stats.preempted_total > 0, "{stats:?}");
    assert!(stats.cached_tokens_total > 0, "{stats:?}");
    assert!(results.iter().any(|r| r.end.unwrap().1.cached_tokens > 0));
}
