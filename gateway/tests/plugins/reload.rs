//! Replacing plugins under load: no stream fails or mixes versions, and what is old is freed.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use sluicegate::plugins::{Registry, Settings, StopCause, VersionState};

use super::{content, guest, open, registry};

#[test]
fn twenty_replacements_while_two_hundred_streams_run() {
    const STREAMS: usize = 200;
    const VERSIONS: u32 = 20;
    let registry = registry(Settings::default());
    let (stop, pushes, opened) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(STREAMS));
    thread::scope(|scope| {
        for worker in 0..8 {
            let (registry, stop, pushes, opened) = (&registry, &stop, &pushes, &opened);
            scope.spawn(move || {
                let mut streams: Vec<_> = (0..STREAMS / 8).map(|_| (open(registry), None, 0)).collect();
                for turn in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    for (n, (stream, version, age)) in streams.iter_mut().enumerate() {
                        let said = content(&stream.push("V", &[]).expect("no stream fails"));
                        assert_eq!(*version.get_or_insert_with(|| said.clone()), said, "a stream mixed versions");
                        pushes.fetch_add(1, Ordering::Relaxed);
                        *age += 1;
                        // Streams live for different times; some for the whole test.
                        if n % 3 != 0 && *age > 20 + (n + turn + worker) % 60 {
                            let old = std::mem::replace(stream, open(registry));
                            *version = None;
                            opened.fetch_add(1, Ordering::Relaxed);
                            *age = 0;
                            old.finish(&StopCause::Eos(None)).expect("it ends well");
                        }
                    }
                    thread::sleep(Duration::from_millis(1));
                }
            });
        }
        for n in 1..=VERSIONS {
            thread::sleep(Duration::from_millis(30));
            registry.load("letters", guest::version(n)).expect("it loads");
            let said = content(&open(&registry).push("V", &[]).expect("fine"));
            assert_eq!(said, format!("0.1.{n}"), "new streams begin on the new version");
        }
        stop.store(true, Ordering::Relaxed);
    });
    let status = registry.status();
    assert!(opened.load(Ordering::Relaxed) > STREAMS && pushes.load(Ordering::Relaxed) > 1000);
    assert_eq!(status.versions.len(), 1, "{:?}", status.versions);
    assert_eq!(status.versions[0].version, "0.1.20");
    assert_eq!((status.totals.versions_loaded, status.totals.versions_freed), (21, 20));
    assert_eq!((status.totals.streams_failed, status.versions[0].live_streams), (0, 0));
}

#[test]
fn an_old_version_lives_exactly_as_long_as_its_last_stream() {
    let registry = registry(Settings::default());
    let mut streams: Vec<_> = (0..50).map(|_| open(&registry)).collect();
    registry.load("letters", guest::version(1)).expect("it loads");
    let pinned = registry.pin("letters").expect("there");
    registry.load("letters", guest::version(2)).expect("it loads");
    let states = |registry: &Registry| -> Vec<_> {
        let versions = registry.status().versions;
        versions.iter().map(|v| (v.version.clone(), v.state, v.live_streams)).collect()
    };
    let row = |n: u32, state, live| (format!("0.1.{n}"), state, live);
    let (active, draining) = (VersionState::Active, VersionState::Draining);
    assert_eq!(states(&registry), [row(2, active, 0), row(0, draining, 50), row(1, draining, 0)]);
    drop(pinned);
    while let Some(mut stream) = streams.pop() {
        assert_eq!(states(&registry).len(), 2);
        assert_eq!(content(&stream.push("V", &[]).expect("fine")), "0.1.0");
    }
    assert_eq!(states(&registry), [row(2, active, 0)]);
    assert_eq!(registry.status().stores, 0);
    registry.rollback("letters").expect("there is an earlier one");
    assert_eq!(states(&registry), [row(1, active, 0)]);
    registry.rollback("letters").expect("and back");
    assert_eq!(states(&registry), [row(2, active, 0)]);
}

#[test]
fn two_thousand_reloads_leave_nothing_behind() {
    let registry = registry(Settings::default());
    let versions = [guest::version(1), guest::version(2)];
    let mut early = 0;
    for n in 0..2000 {
        let report = registry.load("letters", versions[n % 2].clone()).expect("it loads");
        assert!(!report.unchanged);
        assert!(registry.load("letters", versions[n % 2].clone()).expect("it loads").unchanged);
        if n % 4 == 0 {
            open(&registry).push("C", &[]).expect("fine");
        }
        if n == 199 {
            early = resident();
        }
    }
    let late = resident();
    assert!(late <= early + early / 10, "{early} KiB after 200 reloads, {late} KiB after 2000");
    let status = registry.status();
    assert_eq!((status.versions.len(), status.totals.versions_freed), (1, 2000));
}

/// Resident memory of this process in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("there");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}
