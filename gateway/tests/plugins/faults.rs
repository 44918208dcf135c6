//! A plugin that fails, fails only the stream it failed in, within its limits.

use std::thread;
use std::time::{Duration, Instant};

use sluicegate::plugins::{
    Cause, Event, Isolation, OnTrap, PluginError, Registry, Settings, StopCause, Stream, StreamConfig, VersionState,
};

use super::guest::{self, Guest};
use super::{content, open, registry};

fn cause(error: &PluginError) -> Option<Cause> {
    match error {
        PluginError::Failed { cause, .. } => Some(*cause),
        _ => None,
    }
}

/// Streams that have each been pushed a few letters, so that their next letter is known.
fn neighbours(registry: &Registry, count: usize) -> Vec<Stream> {
    let mut streams: Vec<_> = (0..count).map(|_| open(registry)).collect();
    for (n, stream) in streams.iter_mut().enumerate() {
        for _ in 0..n % 5 {
            stream.push("C", &[]).expect("fine");
        }
    }
    streams
}

fn assert_unharmed(streams: &mut [Stream]) {
    for (n, stream) in streams.iter_mut().enumerate() {
        let events = stream.push("C", &[]).expect("a neighbour must not fail");
        let letter = char::from(b'a' + u8::try_from(n % 5).expect("small") + 1);
        assert_eq!(content(&events), letter.to_string(), "neighbour {n} is not where it was");
        stream.push("C", &[]).expect("it goes on");
    }
}

#[test]
fn every_fault_ends_its_own_stream_and_no_other() {
    let faults = [
        ("Loop", Some(Cause::Time)),
        ("Trap", Some(Cause::Trap)),
        ("Memory", Some(Cause::Memory)),
        ("Recursion", Some(Cause::Trap)),
        ("Flood", Some(Cause::Output)),
        ("Invalid", Some(Cause::Value)),
        ("Empty events", None),
        ("Big answer", None),
        ("Arguments of no call", None),
    ];
    for (text, expected) in faults {
        let registry = registry(Settings::default());
        let mut before = neighbours(&registry, 31);
        let mut victim = open(&registry);
        let mut after = neighbours(&registry, 31);
        assert_eq!(registry.status().versions[0].stores, 1, "they all share a store");
        victim.push("C", &[]).expect("fine");
        let begun = Instant::now();
        let error = victim.push(text, &[]).expect_err("the fault must show");
        let took = begun.elapsed();
        // Twice 20 ms of CPU time, on a machine that may be busy.
        assert!(took < Duration::from_secs(3), "{text}: {took:?}");
        assert_eq!(cause(&error), expected, "{text}: {error}");
        if expected.is_none() {
            assert!(matches!(error, PluginError::Contract { .. }), "{text}: {error}");
        }
        assert_eq!(victim.push("C", &[]), Err(PluginError::Ended));
        assert_unharmed(&mut before);
        assert_unharmed(&mut after);
        let totals = registry.status().totals;
        assert_eq!((totals.streams, totals.streams_failed), (63, 1), "{text}");
    }
}

#[test]
fn a_loop_is_cut_at_its_limit_and_not_before() {
    let registry = registry(Settings { push_budget_ms: 100, ..Settings::default() });
    let mut stream = open(&registry);
    let begun = Instant::now();
    stream.push("L", &[]).expect_err("it loops");
    // Once in the shared store and once alone.
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(120) && took < Duration::from_secs(5), "{took:?}");
    // The deadline counts from the call, not from the last one.
    let mut idle = open(&registry);
    idle.push("C", &[]).expect("fine");
    thread::sleep(Duration::from_millis(400));
    idle.push("C", &[]).expect("an idle store is not late");
}

#[test]
fn many_loops_do_not_hold_up_others_for_long() {
    let registry = registry(Settings::default());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| open(&registry).push("L", &[]).expect_err("it loops"));
        }
        for _ in 0..20 {
            scope.spawn(|| {
                let begun = Instant::now();
                let mut stream = open(&registry);
                for n in 0..50u8 {
                    let events = stream.push("C", &[]).expect("fine");
                    assert_eq!(content(&events).as_bytes(), [b'a' + (n + 1) % 26]);
                }
                assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
            });
        }
    });
}

#[test]
fn a_stream_that_only_fails_in_company_is_saved_alone() {
    let registry = registry(Settings::default());
    let mut others = neighbours(&registry, 5);
    let mut stream = open(&registry);
    assert_eq!(content(&stream.push("C", &[]).expect("fine")), "b");
    assert_eq!(content(&stream.push("X marks", &[]).expect("alone it works")), "X marks");
    assert_eq!(content(&stream.push("C", &[]).expect("fine")), "d");
    let tail = stream.finish(&StopCause::Eos(None)).expect("fine");
    assert_eq!(content(&tail.events), "d");
    assert_unharmed(&mut others);
    let totals = registry.status().totals;
    assert_eq!((totals.streams_failed, totals.failures_trap, totals.replays), (0, 1, 6));
}

#[test]
fn a_plugin_that_answers_otherwise_on_replay_is_caught() {
    let registry = registry(Settings::default());
    let mut other = open(&registry);
    other.push("x", &[]).expect("fine");
    // The letter depends on what all streams of the store have pushed: state that a request can observe.
    let mut stream = open(&registry);
    stream.push("G", &[]).expect("fine");
    other.push("T", &[]).expect_err("it traps");
    let error = stream.push("G", &[]).expect_err("not the same stream any more");
    assert!(matches!(error, PluginError::Replay { .. }), "{error}");
}

#[test]
fn constructors_finishes_and_destructors_may_fail_too() {
    let registry = registry(Settings { breaker_failures: 100, ..Settings::default() });
    let mut others = neighbours(&registry, 7);
    let pinned = registry.pin("letters").expect("there");
    for (model, expected) in [("Trap", Cause::Trap), ("Loop", Cause::Time)] {
        let config = StreamConfig { model: model.to_owned(), ..StreamConfig::default() };
        let error = pinned.open(&config, None).expect_err("the constructor fails");
        assert_eq!(cause(&error), Some(expected));
    }
    let mut stream = open(&registry);
    stream.push("Die at the end", &[]).expect("not yet");
    let error = stream.finish(&StopCause::Length).expect_err("finish fails");
    assert_eq!(cause(&error), Some(Cause::Trap));
    let mut stream = open(&registry);
    stream.push("Kill the destructor", &[]).expect("not yet");
    drop(stream);
    assert_unharmed(&mut others);
    drop(others);
    let status = registry.status();
    assert_eq!(status.versions[0].live_streams, 0);
    assert!(status.stores <= 1, "one warm store at most: {}", status.stores);
}

#[test]
fn raw_policy_passes_on_what_the_plugin_had_not_answered() {
    let registry = registry(Settings { on_trap: OnTrap::Raw, ..Settings::default() });
    let mut stream = open(&registry);
    assert_eq!(content(&stream.push("seen ", &[]).expect("fine")), "seen ");
    assert!(stream.push("Held ", &[]).expect("fine").is_empty());
    let events = stream.push("Trap ", &[]).expect("raw now");
    assert!(matches!(events[0], Event::Note(_)));
    assert_eq!(content(&events), "Held Trap ");
    assert_eq!(content(&stream.push("Tail", &[]).expect("raw")), "Tail");
    assert!(stream.finish(&StopCause::Eos(None)).expect("raw").events.is_empty());
}

#[test]
fn arguments_are_checked_where_a_call_ends() {
    for (text, whole) in
        [("S{\"a\": 1e999}", true), ("S {}", true), ("S{} {}", false), ("S[1]", false), ("S{\"a\":", false)]
    {
        let registry = registry(Settings::default());
        let events = open(&registry).push(text, &[]).expect("fine");
        assert_eq!(events.len(), 3);
        assert_eq!(matches!(events[2], Event::ToolEnd { index: 0 }), whole, "{text}: {events:?}");
        assert_eq!(matches!(events[2], Event::ToolBroken { index: 0, .. }), !whole, "{text}: {events:?}");
    }
}

#[test]
fn a_plugin_may_not_hold_text_for_ever() {
    let registry = registry(Settings { max_held_bytes: 1000, ..Settings::default() });
    let mut stream = open(&registry);
    for _ in 0..10 {
        assert!(stream.push(&"H".repeat(100), &[]).expect("held").is_empty());
    }
    let error = stream.push("H", &[]).expect_err("too much");
    assert!(matches!(error, PluginError::Contract { .. }), "{error}");
}

#[test]
fn a_store_that_grows_is_replaced_and_long_pushes_are_split() {
    let registry = registry(Settings::default());
    let mut first = open(&registry);
    first.push("P", &[]).expect("within the limit");
    let mut second = open(&registry);
    assert_eq!(registry.status().versions[0].stores, 2, "new streams avoid the grown store");
    let long = "ä".repeat(1 << 20);
    let events = second.push(&long, &[]).expect("split");
    assert!(events.len() >= 32);
    assert_eq!(content(&events), long);
    drop(first);
    assert_eq!(registry.status().versions[0].stores, 1);
}

#[test]
fn isolation_gives_each_stream_a_store_up_to_the_limit() {
    let settings = Settings { isolation: Isolation::Stream, max_stores: 10, ..Settings::default() };
    let registry = registry(settings);
    let mut streams: Vec<_> = (0..10).map(|_| open(&registry)).collect();
    assert_eq!(registry.status().stores, 10);
    let pinned = registry.pin("letters").expect("there");
    assert_eq!(pinned.open(&StreamConfig::default(), None).expect_err("full"), PluginError::Exhausted(10));
    streams[0].push("T", &[]).expect_err("it traps");
    let replays = registry.status().totals.replays;
    assert!(streams[1..].iter_mut().all(|stream| stream.push("C", &[]).is_ok()));
    assert_eq!(registry.status().totals.replays, replays, "nobody else was touched");
    drop(streams);
    pinned.open(&StreamConfig::default(), None).expect("room again");
}

#[test]
fn a_version_that_keeps_failing_is_rolled_back() {
    let registry = registry(Settings::default());
    registry.load("letters", Guest { version: "0.2.0".to_owned(), ..Guest::default() }.build()).expect("loads");
    let mut long = open(&registry);
    for _ in 0..4 {
        assert_eq!(content(&open(&registry).push("V", &[]).expect("fine")), "0.2.0");
        open(&registry).push("T", &[]).expect_err("it traps");
    }
    let begun = Instant::now();
    while content(&open(&registry).push("V", &[]).expect("fine")) != "0.1.0" {
        assert!(begun.elapsed() < Duration::from_secs(10), "no rollback");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(content(&long.push("V", &[]).expect("a stream keeps its version")), "0.2.0");
    let status = registry.status();
    assert_eq!(status.totals.rollbacks, 1);
    assert_eq!(status.versions.len(), 2);
    // It fails as well, and there is nothing before it: it serves on, each stream in a store of its own.
    for _ in 0..4 {
        open(&registry).push("T", &[]).expect_err("it traps");
    }
    let streams: Vec<_> = (0..3).map(|_| open(&registry)).collect();
    let status = registry.status();
    let serving = status.versions.iter().find(|version| version.state == VersionState::Failing).expect("failing");
    assert_eq!((serving.version.as_str(), serving.live_streams, serving.stores), ("0.1.0", 3, 3));
    drop(streams);
    registry.load("letters", guest::version(9)).expect("a mended version takes over");
    assert_eq!(content(&open(&registry).push("V", &[]).expect("fine")), "0.1.9");
}
