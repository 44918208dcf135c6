//! The law of shared stores: whatever neighbours do, a stream's events are those it gives alone.

use std::sync::LazyLock;

use proptest::prelude::*;
use sluicegate::plugins::{Event, PluginError, Registry, Settings, StopCause};

use super::{open, registry};

/// What one stream is pushed, and what it says.
type Script = Vec<&'static str>;

fn letter() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        6 => Just("C"),
        4 => Just("plain text"),
        3 => Just("Hold this"),
        2 => Just("S{\"a\": [1, 2]}"),
        1 => Just("V"),
        1 => Just("Xross"),
        1 => Just("Trap"),
        1 => Just("Flood"),
    ]
}

fn is_fatal(text: &str) -> bool {
    text.starts_with('T') || text.starts_with('F')
}

static REGISTRY: LazyLock<Registry> =
    LazyLock::new(|| registry(Settings { breaker_failures: usize::MAX, streams_per_store: 4, ..Settings::default() }));

/// Events of one stream that nobody disturbs; the calls count from 0 only once, so a second one is a broken contract.
fn alone(script: &Script) -> (Vec<Event>, bool) {
    let calm = Settings { streams_per_store: 1, breaker_failures: usize::MAX, ..Settings::default() };
    static CALM: LazyLock<std::sync::Mutex<Option<Registry>>> = LazyLock::new(Default::default);
    let mut lock = CALM.lock().expect("not poisoned");
    let registry = lock.get_or_insert_with(|| registry(calm));
    let mut stream = open(registry);
    let mut all = Vec::new();
    for text in script {
        match stream.push(text, &[]) {
            Ok(events) => all.extend(events),
            Err(_) => return (all, false),
        }
    }
    let tail = stream.finish(&StopCause::Eos(None)).expect("finish does not fail");
    all.extend(tail.events);
    (all, true)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_streams_events_do_not_depend_on_its_neighbours(
        scripts in prop::collection::vec(prop::collection::vec(letter(), 1..12), 2..9),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..64),
    ) {
        let mut streams: Vec<_> = scripts.iter().map(|_| Some(open(&REGISTRY))).collect();
        let mut at = vec![0; scripts.len()];
        let mut said: Vec<Vec<Event>> = vec![Vec::new(); scripts.len()];
        let rest = (0..scripts.len()).flat_map(|n| std::iter::repeat_n(n, 13));
        for n in order.iter().map(|index| index.index(scripts.len())).chain(rest) {
            let Some(stream) = &mut streams[n] else { continue };
            if let Some(text) = scripts[n].get(at[n]) {
                at[n] += 1;
                match stream.push(text, &[]) {
                    Ok(events) => said[n].extend(events),
                    Err(error) => {
                        let own = is_fatal(text) || matches!(error, PluginError::Contract { .. });
                        prop_assert!(own, "{text}: {error}");
                        streams[n] = None;
                    }
                }
            } else if let Some(stream) = streams[n].take() {
                let tail = stream.finish(&StopCause::Eos(None));
                said[n].extend(tail.expect("finish does not fail").events);
            }
        }
        for (script, said) in scripts.iter().zip(said) {
            prop_assert_eq!(said, alone(script).0);
        }
    }
}
