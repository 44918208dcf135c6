//! Grammars in the engine: exact at any load, and an end for every request whose grammar is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sluicegate_backend::api::{EngineError, FinishReason, GenerateRequest, Sampling};
use sluicegate_backend::draft::{Method, Speculation};
use sluicegate_backend::engine::Config;
use sluicegate_backend::exec::TokenMask;
use sluicegate_backend::grammar::{Forced, Grammar, Matcher};
use sluicegate_backend::verify::Place;

use crate::device::{VOCAB, mix};
use crate::drive::{Dice, Setup, assert_idle, finish, request};

/// Admits two thirds of the tokens or just one, other ones after each token, and the end after four.
#[derive(Debug)]
pub(crate) struct Thirds {
    /// Masks take a while, some longer than others.
    pub(crate) slow: bool,
}

#[derive(Debug)]
struct ThirdsMatcher {
    slow: bool,
    taken: Vec<u32>,
}

impl Grammar for Thirds {
    fn matcher(&self) -> Box<dyn Matcher> {
        Box::new(ThirdsMatcher { slow: self.slow, taken: Vec::new() })
    }
}

pub(crate) fn mask_of(admits: impl Fn(u32) -> bool) -> TokenMask {
    let word = |w: u32| (0..32).filter(|bit| admits(w * 32 + bit)).fold(0, |word, bit| word | 1 << bit);
    (0..VOCAB.div_ceil(32)).map(word).collect()
}

impl Matcher for ThirdsMatcher {
    fn accept(&mut self, token: u32) -> Result<(), String> {
        self.taken.push(token);
        Ok(())
    }

    fn mask(&mut self) -> Result<Option<TokenMask>, String> {
        let hash = hash(&self.taken);
        if self.slow {
            std::thread::sleep(Duration::from_micros(hash % 400));
        }
        Ok(admitted(hash, self.taken.len() as u32))
    }

    /// Where more than one token may come it guesses all the same, as a real one does that cuts its text otherwise than the model.
    fn forced(&mut self, most: usize) -> Vec<Forced> {
        let mut taken = self.taken.clone();
        let step = |_| {
            let (now, n) = (hash(&taken), taken.len() as u32);
            let token = only(now, n).or_else(|| (now % 5 == 0).then_some(6 + (n + 2) % 3))?;
            taken.push(token);
            Some(Forced { token, mask: admitted(hash(&taken), n + 1) })
        };
        (0..most).map_while(step).collect()
    }
}

fn hash(taken: &[u32]) -> u64 {
    taken.iter().fold(7, |h, t| mix(h, u64::from(*t)))
}

/// The one token that may come here, if there is just one.
fn only(hash: u64, n: u32) -> Option<u32> {
    (hash % 3 == 2 && n > 0).then(|| 10 + (hash >> 20) as u32 % 50)
}

fn admitted(hash: u64, n: u32) -> Option<TokenMask> {
    if let Some(only) = only(hash, n) {
        return Some(mask_of(|t| t == only));
    }
    if hash % 9 == 1 && n > 4 {
        return None;
    }
    Some(mask_of(|t| if (1..=3).contains(&t) { n >= 4 } else { !(t + n).is_multiple_of(3) }))
}

fn guided(grammar: impl Grammar + 'static) -> GenerateRequest {
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    GenerateRequest {
        sampling,
        stop_ids: vec![1],
        max_tokens: 20,
        grammar: Some(Arc::new(grammar)),
        ..request(&mut Dice(4))
    }
}

/// Gets lost after some tokens, in one of the ways that there are.
#[derive(Clone, Debug)]
struct Lost {
    after: usize,
    way: Way,
    masks: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Mask,
    Accept,
    Panic,
}

impl Grammar for Lost {
    fn matcher(&self) -> Box<dyn Matcher> {
        Box::new(self.clone())
    }
}

impl Matcher for Lost {
    fn accept(&mut self, _: u32) -> Result<(), String> {
        self.after -= 1;
        if self.after == 0 && matches!(self.way, Way::Accept) { Err("no rule fits".into()) } else { Ok(()) }
    }

    fn mask(&mut self) -> Result<Option<TokenMask>, String> {
        self.masks.fetch_add(1, Ordering::Relaxed);
        match self.way {
            Way::Mask if self.after == 0 => Err("too many items".into()),
            Way::Panic if self.after == 0 => panic!("told to"),
            _ => Ok(None),
        }
    }
}

#[test]
fn a_lost_grammar_ends_its_request_and_no_other() {
    for place in [Place::OneDevice, Place::TwoDevices, Place::Linked] {
        let engine = Setup { place, ..Setup::default() }.start();
        for (way, why) in [(Way::Mask, "too many items"), (Way::Accept, "no rule fits"), (Way::Panic, "panicked")] {
            for after in [0, 1, 3] {
                if after == 0 && matches!(way, Way::Accept) {
                    continue;
                }
                let lost = guided(Lost { after, way, masks: Arc::default() });
                let neighbour = guided(Thirds { slow: true });
                let (lost, near) = (engine.submit(lost).unwrap(), engine.submit(neighbour.clone()).unwrap());
                let got = finish(lost);
                assert_eq!(got.tokens.len(), after, "{place:?} {way:?}");
                let failed = got.failed.unwrap();
                assert!(failed.contains(why) && failed.contains("grammar"), "{failed}");
                finish(near).assert_exact(&neighbour, false);
            }
        }
        let stats = assert_idle(&engine);
        assert_eq!(stats.failed_total, 8);
    }
}

/// Holds its masks back for as long as it is told.
#[derive(Debug)]
struct Sleeper(Duration);

impl Grammar for Sleeper {
    fn matcher(&self) -> Box<dyn Matcher> {
        Box::new(Self(self.0))
    }
}

impl Matcher for Sleeper {
    fn accept(&mut self, _: u32) -> Result<(), String> {
        Ok(())
    }

    fn mask(&mut self) -> Result<Option<TokenMask>, String> {
        std::thread::sleep(self.0);
        Ok(None)
    }
}

#[test]
fn a_slow_grammar_holds_up_nobody_else() {
    let engine = Setup::default().start();
    let slow = engine.submit(guided(Sleeper(Duration::from_millis(150)))).unwrap();
    let began = Instant::now();
    for seed in 0..20 {
        let quick = GenerateRequest { grammar: None, ..request(&mut Dice(seed)) };
        finish(engine.submit(quick.clone()).unwrap()).assert_exact(&quick, false);
    }
    let quick = began.elapsed();
    let slow = finish(slow);
    assert_eq!((slow.tokens.len(), slow.end.unwrap().0), (20, FinishReason::Length));
    assert!(began.elapsed() >= Duration::from_millis(2_700), "the slow one was slow");
    assert!(quick < Duration::from_millis(2_000), "twenty others took {quick:?}");
}

/// With any drafter, and bit for bit what single steps yield, as everywhere.
#[test]
fn what_a_grammar_forces_takes_fewer_steps() {
    let method = Method::Ngram { prompt_lookup_min: 2, prompt_lookup_max: 3 };
    let speculation = Some(Speculation { num_speculative_tokens: 3, disable_by_batch_size: 0, method });
    let config = Config { speculation, stream_tokens: 64, ..Config::default() };
    for place in [Place::OneDevice, Place::TwoDevices, Place::Linked] {
        let engine = Setup { place, config: config.clone(), ..Setup::default() }.start();
        for seed in 0..12 {
            let r = GenerateRequest { max_tokens: 40, ..guided(Thirds { slow: seed % 2 == 0 }) };
            let r = GenerateRequest { prompt: request(&mut Dice(seed)).prompt, ..r };
            finish(engine.submit(r.clone()).unwrap()).assert_exact(&r, false);
        }
        let stats = assert_idle(&engine);
        let (drafted, right) = (stats.spec_decode_draft_tokens_total, stats.spec_decode_accepted_tokens_total);
        assert!(right > 20 && drafted > right, "{place:?}: {stats:?}");
    }
}

#[test]
fn a_grammar_without_a_stop_id_is_refused() {
    let engine = Setup::default().start();
    let endless = GenerateRequest { stop_ids: vec![], ..guided(Thirds { slow: false }) };
    assert!(matches!(engine.submit(endless), Err(EngineError::Invalid(why)) if why.contains("stop id")));
}

#[test]
fn aborts_while_masks_are_computed_leave_nothing() {
    let config = Config { max_queued_requests: 500, ..Config::default() };
    let engine = Setup { config, ..Setup::default() }.start();
    let mut dice = Dice(21);
    let mut streams = Vec::new();
    for _ in 0..300 {
        streams.push(engine.submit(guided(Sleeper(Duration::from_micros(dice.roll(900) as u64)))).unwrap());
        if streams.len() > 40 {
            std::thread::sleep(Duration::from_millis(dice.roll(4) as u64));
            streams.truncate(dice.roll(20));
        }
    }
    drop(streams);
    assert_idle(&engine);
}
