//! Explores every interleaving of two requests over a link that delays, repeats and reorders, and that can break, with
//! clients that leave, sequences that fail and peers that die: no rule is ever broken. With any one guarantee switched
//! off, the explorer finds the accident.

mod explore;

use std::collections::{BTreeMap, BTreeSet};

use super::{Guarantees, Key, Sink, SinkEffect, Source, SourceEffect, ToSink, ToSource};

/// What may happen, and how often.
#[derive(Clone, Copy, Debug)]
struct Link {
    guarantees: Guarantees,
    requests: u64,
    pages: u32,
    /// Messages delivered twice.
    repeats: u8,
    /// Broken links and dead peers, together.
    breaks: u8,
    /// Sequences that fail at the source.
    failures: u8,
    /// Clients that leave.
    aborts: u8,
    /// Pages are written into the memory that was granted by the source itself (as RDMA does), in order with what
    /// follows them, instead of passing through the sink's hands.
    direct: bool,
    /// Messages of one direction arrive in the order in which they were sent.
    ordered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Wire {
    ToSource(ToSource),
    ToSink(ToSink),
}

/// A message in flight, and the link it was sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Flying {
    link: u8,
    key: Key,
    wire: Wire,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Request {
    New,
    Live(Key),
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    sink: Sink,
    /// The link that the sink uses now.
    link: u8,
    /// The source's end of each link that it has not yet seen break.
    sources: BTreeMap<u8, Source>,
    dead_links: BTreeSet<u8>,
    /// Sequences that the source holds, with how many pages are computed; none: queued.
    computing: BTreeMap<(u8, Key), Option<u32>>,
    /// In order of sending, or sorted if order does not matter.
    flying: Vec<Flying>,
    requests: Vec<Request>,
    attempts: Vec<u8>,
    wanting: BTreeSet<Key>,
    /// Two places for pages; what each page there came from.
    memory: [Option<(Key, BTreeMap<u32, Key>)>; 2],
    delivered: BTreeMap<u64, u8>,
    begun: BTreeSet<(u8, Key)>,
    generation: u64,
    repeats: u8,
    breaks: u8,
    failures: u8,
    aborts: u8,
    ordered: bool,
    accident: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Submit(usize),
    Arrive(Flying),
    Repeat(Flying),
    Reserve(Key),
    Compute(u8, Key),
    Fail(u8, Key),
    ClientLeaves(usize),
    LinkBreaks,
    SourceDies,
    SourceSeesBreak(u8),
}

impl World {
    fn new(link: &Link) -> Self {
        Self {
            sink: Sink::with(link.guarantees),
            link: 0,
            sources: BTreeMap::new(),
            dead_links: BTreeSet::new(),
            computing: BTreeMap::new(),
            flying: Vec::new(),
            requests: vec![Request::New; link.requests as usize],
            attempts: vec![0; link.requests as usize],
            wanting: BTreeSet::new(),
            memory: [None, None],
            delivered: BTreeMap::new(),
            begun: BTreeSet::new(),
            generation: 0,
            repeats: link.repeats,
            breaks: link.breaks,
            failures: link.failures,
            aborts: link.aborts,
            ordered: link.ordered,
            accident: None,
        }
    }

    fn send(&mut self, link: u8, key: Key, wire: Wire) {
        let flying = Flying { link, key, wire };
        let sorted = self.flying.partition_point(|f| *f < flying);
        let at = if self.ordered { self.flying.len() } else { sorted };
        self.flying.insert(at, flying);
    }

    fn submit(&mut self, request: usize) {
        self.generation += 1;
        self.attempts[request] += 1;
        let key = Key { room: request as u64 + 1, generation: self.generation };
        self.requests[request] = Request::Live(key);
        let effects = self.sink.start(key);
        self.sink_effects(effects, key);
    }

    fn place(&mut self, key: Key) -> Option<&mut Option<(Key, BTreeMap<u32, Key>)>> {
        self.memory.iter_mut().find(|m| m.as_ref().is_some_and(|(owner, _)| *owner == key))
    }

    /// `origin` is the key of the message that caused the effects.
    fn sink_effects(&mut self, effects: Vec<SinkEffect>, origin: Key) {
        for effect in effects {
            match effect {
                SinkEffect::Send(key, m) => self.send(self.link, key, Wire::ToSource(m)),
                SinkEffect::WantMemory(key) => {
                    self.wanting.insert(key);
                }
                SinkEffect::Write(key, page) => match self.place(key) {
                    Some(Some((_, pages))) => {
                        if pages.insert(page, origin).is_some() {
                            self.accident = Some("a page was written twice");
                        }
                    }
                    _ => self.accident = Some("a page was written to memory that its key does not own"),
                },
                SinkEffect::Free(key) => {
                    self.wanting.remove(&key);
                    if let Some(place) = self.place(key) {
                        *place = None;
                    }
                }
                SinkEffect::Lost(key) => {
                    let request = key.room as usize - 1;
                    let again = self.attempts[request] < 2;
                    self.requests[request] = if again { Request::New } else { Request::Over };
                }
                SinkEffect::Deliver(key) => self.deliver(key),
            }
        }
    }

    fn deliver(&mut self, key: Key) {
        let Some((_, pages)) = self.place(key).and_then(Option::take) else {
            self.accident = Some("a sequence was delivered without memory");
            return;
        };
        if pages.is_empty() || (0..pages.len() as u32).any(|p| pages.get(&p) != Some(&key)) {
            self.accident = Some("a sequence was delivered with a page missing or of another generation");
        }
        *self.delivered.entry(key.room).or_default() += 1;
        self.requests[key.room as usize - 1] = Request::Over;
    }

    fn source_effects(&mut self, link: u8, effects: Vec<SourceEffect>) {
        for effect in effects {
            match effect {
                SourceEffect::Send(key, m) => self.send(link, key, Wire::ToSink(m)),
                SourceEffect::Begin(key) => {
                    if !self.begun.insert((link, key)) {
                        self.accident = Some("an old generation began again");
                    }
                    self.computing.insert((link, key), None);
                }
                SourceEffect::Cancel(key) | SourceEffect::Release(key) => {
                    self.computing.remove(&(link, key));
                }
            }
        }
    }

    fn end_link(&mut self) {
        let effects = self.sink.link_down();
        self.link += 1;
        // Whatever the old link still carries to the sink is lost with it; what it carries to the source may be late.
        let old = self.link - 1;
        self.flying.retain(|f| f.link != old || matches!(f.wire, Wire::ToSource(_)));
        self.sink_effects(effects, Key { room: 0, generation: 0 });
    }

    fn end_source(&mut self, link: u8) {
        if let Some(mut source) = self.sources.remove(&link) {
            let effects = source.link_down();
            self.source_effects(link, effects);
        }
        self.dead_links.insert(link);
        self.flying.retain(|f| f.link != link || matches!(f.wire, Wire::ToSink(_)));
    }

    fn arrive(&mut self, rules: &Link, flying: Flying) {
        let Flying { link, key, wire } = flying;
        match wire {
            Wire::ToSource(_) if self.dead_links.contains(&link) => {}
            Wire::ToSource(message) => {
                let source = self.sources.entry(link).or_insert_with(|| Source::with(rules.guarantees));
                let effects = source.receive(key, message);
                self.source_effects(link, effects);
            }
            Wire::ToSink(_) if link != self.link => {}
            Wire::ToSink(message) => {
                if rules.direct && matches!(message, ToSink::Page(_)) && self.place(key).is_none() {
                    self.accident = Some("a page was written to memory that its key does not own");
                }
                let effects = self.sink.receive(key, message);
                self.sink_effects(effects, key);
            }
        }
    }

    /// The messages that may arrive next. Direct writes are in order with the messages that follow them.
    fn next_to_arrive(&self, rules: &Link) -> Vec<Flying> {
        let page = |f: &Flying| matches!(f.wire, Wire::ToSink(ToSink::Page(_)));
        let ends = |f: &Flying| matches!(f.wire, Wire::ToSink(ToSink::Closed | ToSink::Finish));
        let lane = |f: &Flying| (f.link, matches!(f.wire, Wire::ToSink(_)));
        let mut next: Vec<Flying> = Vec::new();
        for f in &self.flying {
            let behind = rules.ordered && next.iter().any(|g| lane(g) == lane(f));
            let unwritten = rules.direct && ends(f) && self.flying.iter().any(|g| page(g) && g.key == f.key);
            if !behind && !unwritten && !next.contains(f) {
                next.push(*f);
            }
        }
        next
    }

    /// Steps that happen by themselves.
    fn due(&self, rules: &Link, steps: &mut Vec<Step>) {
        for (i, request) in self.requests.iter().enumerate() {
            if *request == Request::New {
                steps.push(Step::Submit(i));
            }
        }
        steps.extend(self.next_to_arrive(rules).into_iter().map(Step::Arrive));
        if self.memory.iter().any(Option::is_none) {
            steps.extend(self.wanting.iter().map(|k| Step::Reserve(*k)));
        }
        let unfinished = self.computing.iter().filter(|(_, pages)| pages.is_none_or(|p| p < rules.pages));
        steps.extend(unfinished.map(|((link, key), _)| Step::Compute(*link, *key)));
        steps.extend(self.sources.keys().filter(|l| **l < self.link).map(|l| Step::SourceSeesBreak(*l)));
    }
}
