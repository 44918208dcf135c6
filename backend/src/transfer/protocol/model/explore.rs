//! What may happen next in the model, what must always hold, and the explorations themselves.

use std::collections::BTreeMap;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::super::{Guarantee, Guarantees, Key, Sink, SinkEffect, Source, SourceEffect, ToSink, ToSource};
use super::{Flying, Link, Request, Step, Wire, World};

impl Model for Link {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, w: &World, steps: &mut Vec<Step>) {
        if w.accident.is_some() {
            return;
        }
        w.due(self, steps);
        if w.repeats > 0 {
            let page = |f: &Flying| matches!(f.wire, Wire::ToSink(ToSink::Page(_)));
            let repeatable = w.next_to_arrive(self).into_iter().filter(|f| !(self.direct && page(f)));
            steps.extend(repeatable.map(Step::Repeat));
        }
        if w.failures > 0 {
            steps.extend(w.computing.keys().map(|(link, key)| Step::Fail(*link, *key)));
        }
        if w.aborts > 0 {
            steps.extend((0..w.requests.len()).filter(|i| w.requests[*i] != Request::Over).map(Step::ClientLeaves));
        }
        if w.breaks > 0 {
            steps.extend([Step::LinkBreaks, Step::SourceDies]);
        }
    }

    fn next_state(&self, before: &World, step: Step) -> Option<World> {
        let mut w = before.clone();
        match step {
            Step::Submit(i) => w.submit(i),
            Step::Arrive(f) => {
                let at = w.flying.iter().position(|g| *g == f)?;
                w.flying.remove(at);
                w.arrive(self, f);
            }
            Step::Repeat(f) => {
                w.repeats -= 1;
                w.arrive(self, f);
            }
            Step::Reserve(key) => {
                w.wanting.remove(&key);
                *w.memory.iter_mut().find(|m| m.is_none())? = Some((key, BTreeMap::new()));
                let effects = w.sink.granted(key, self.pages);
                w.sink_effects(effects, key);
            }
            Step::Compute(link, key) => {
                let pages = w.computing.get_mut(&(link, key))?;
                *pages = Some(pages.map_or(0, |p| p + 1));
                let done = pages.unwrap_or(0);
                let source = w.sources.get_mut(&link)?;
                let effects =
                    if done == 0 { source.started(key) } else { source.ready(key, [done - 1], done == self.pages) };
                w.source_effects(link, effects);
            }
            Step::Fail(link, key) => {
                w.failures -= 1;
                w.computing.remove(&(link, key));
                let effects = w.sources.get_mut(&link)?.fail(key);
                w.source_effects(link, effects);
            }
            Step::ClientLeaves(i) => {
                w.aborts -= 1;
                if let Request::Live(key) = w.requests[i] {
                    w.wanting.remove(&key);
                    let effects = w.sink.abort(key);
                    w.sink_effects(effects, key);
                }
                w.requests[i] = Request::Over;
            }
            Step::LinkBreaks => {
                w.breaks -= 1;
                w.end_link();
            }
            Step::SourceDies => {
                w.breaks -= 1;
                let links: Vec<u8> = (0..=w.link).collect();
                w.sources.clear();
                w.computing.clear();
                links.into_iter().for_each(|l| w.end_source(l));
                w.end_link();
            }
            Step::SourceSeesBreak(link) => w.end_source(link),
        }
        Some(w)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no accident", |_, w: &World| w.accident.is_none()),
            Property::always("delivered once", |_, w: &World| w.delivered.values().all(|n| *n == 1)),
            Property::always("at rest, every request is over and nothing is held", |link: &Link, w: &World| {
                let mut due = Vec::new();
                w.due(link, &mut due);
                let over = w.requests.iter().all(|r| *r == Request::Over);
                let held = w.sink.len() + w.sources.values().map(Source::len).sum::<usize>() + w.computing.len();
                !due.is_empty() || (over && held == 0 && w.memory.iter().all(Option::is_none))
            }),
            Property::sometimes("all delivered", |link: &Link, w: &World| w.delivered.len() == link.requests as usize),
            Property::sometimes("delivered at the second attempt", |_, w: &World| {
                (0..w.attempts.len()).any(|i| w.attempts[i] == 2 && w.delivered.contains_key(&(i as u64 + 1)))
            }),
        ]
    }
}

const CALM: Link = Link {
    guarantees: Guarantees { without: None },
    requests: 1,
    pages: 2,
    repeats: 0,
    breaks: 0,
    failures: 0,
    aborts: 0,
    direct: false,
    ordered: false,
};

/// Explores everything and says how many states there were.
fn explore(name: &str, link: Link) {
    let checker = link.checker().threads(2).spawn_bfs().join();
    println!("{name}: {} states", checker.unique_state_count());
    for property in ["no accident", "delivered once", "at rest, every request is over and nothing is held"] {
        checker.assert_no_discovery(property);
    }
    checker.assert_any_discovery("all delivered");
    if link.breaks + link.failures > 0 {
        checker.assert_any_discovery("delivered at the second attempt");
    }
}

#[test]
fn one_request_on_an_unordered_link_breaks_no_rule() {
    explore("repeats and a break", Link { repeats: 1, breaks: 1, ..CALM });
    explore("repeats, a failure and an abort", Link { repeats: 1, failures: 1, aborts: 1, ..CALM });
    explore("a break and an abort", Link { breaks: 1, aborts: 1, ..CALM });
    explore("a bit of everything", Link { repeats: 1, breaks: 1, failures: 1, aborts: 1, ..CALM });
}

#[test]
fn two_requests_on_an_ordered_link_break_no_rule() {
    let two = Link { requests: 2, pages: 1, ordered: true, ..CALM };
    explore("two and a break", Link { breaks: 1, ..two });
    explore("two, a failure and two aborts", Link { failures: 1, aborts: 2, ..two });
}

#[test]
#[ignore = "explores 3.7 million states, which takes minutes"]
fn two_requests_with_a_break_and_an_abort_break_no_rule() {
    let two = Link { requests: 2, pages: 1, ordered: true, ..CALM };
    explore("two, a break and an abort", Link { breaks: 1, aborts: 1, ..two });
}

#[test]
fn direct_writes_break_no_rule() {
    explore("direct, repeats and an abort", Link { repeats: 1, aborts: 1, failures: 1, direct: true, ..CALM });
    explore("direct, a break and an abort", Link { breaks: 1, aborts: 1, direct: true, ..CALM });
}

/// Finds the accident that a guarantee prevents, by looking without it.
fn look_without(guarantee: Guarantee) {
    let base = Link { repeats: 1, breaks: 1, failures: 1, aborts: 1, ..CALM };
    // The source writes by itself where that is what the guarantee is about.
    let direct = matches!(guarantee, Guarantee::PinUntilClosed | Guarantee::GrantBeforePages);
    let link = Link { guarantees: Guarantees::without(guarantee), direct, ..base };
    let checker = link.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found: Vec<_> = checker
        .discoveries()
        .into_keys()
        .filter(|p| checker.discovery_classification(p).to_string() == "counterexample")
        .collect();
    assert!(!found.is_empty(), "without {guarantee:?} nothing went wrong");
    println!("without {guarantee:?}: {found:?}");
}

macro_rules! accidents {
    ($($test:ident: $guarantee:ident,)+) => {
        $(#[test]
        fn $test() {
            look_without(Guarantee::$guarantee);
        })+

        #[test]
        fn every_guarantee_is_switched_off_once() {
            assert_eq!([$(Guarantee::$guarantee),+], Guarantee::ALL);
        }
    };
}

accidents! {
    without_generations_a_late_message_acts_on_a_later_attempt: Generation,
    without_refusing_stale_starts_an_old_attempt_begins_again: NoStaleStart,
    without_answers_to_the_unknown_a_side_waits_for_ever: AnswerUnknown,
    without_completeness_a_sequence_is_delivered_with_a_page_missing: CompleteBeforeDelivery,
    without_pins_a_page_is_written_to_memory_of_another: PinUntilClosed,
    without_ends_of_links_what_they_carried_is_held_for_ever: EndWithLink,
    without_final_ends_a_sequence_is_delivered_twice: EndsAreFinal,
    without_one_writer_a_page_is_written_twice: OneWriter,
    without_grants_a_page_is_written_where_there_is_no_memory: GrantBeforePages,
}

/// Ten thousand keys that nobody asked for make no state at either end, and each is answered.
#[test]
fn orphans_leave_no_state() {
    let (mut source, mut sink) = (Source::default(), Sink::default());
    for n in 1..=10_000 {
        let key = Key { room: n, generation: n };
        for message in [ToSource::Grant, ToSource::Ack, ToSource::Abort] {
            assert_eq!(source.receive(key, message), [SourceEffect::Send(key, ToSink::Closed)]);
        }
        for message in [ToSink::Started, ToSink::Page(3), ToSink::Finish] {
            assert_eq!(sink.receive(key, message), [SinkEffect::Send(key, ToSource::Abort)]);
        }
    }
    assert_eq!((source.len(), sink.len()), (0, 0));
}
