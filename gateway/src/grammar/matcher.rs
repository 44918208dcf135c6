//! A generation's place in a compiled grammar: what the engine asks for masks.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use llguidance::{Matcher, ParserFactory};
use sluicegate_backend::exec::TokenMask;
use sluicegate_backend::grammar::{self, Forced};

use super::gate::Gate;
use super::tokens::{TokenSpace, set};
use crate::text::Vocabulary;

/// What compiled grammars of a model share.
pub(super) struct Parts {
    pub(super) vocabulary: Arc<Vocabulary>,
    pub(super) space: TokenSpace,
    pub(super) factory: Arc<ParserFactory>,
}

/// A compiled grammar.
pub(super) struct Compiled {
    parts: Parts,
    /// Before the first token; copied for each generation.
    fresh: Mutex<Matcher>,
    gate: Option<Gate>,
    /// Masks of free text and of the end.
    free: TokenMask,
    end: TokenMask,
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").field("gate", &self.gate).finish_non_exhaustive()
    }
}

impl Compiled {
    pub(super) fn new(parts: Parts, mut fresh: Matcher, gate: Option<Gate>) -> Result<Self, String> {
        let (free, end) = (parts.space.all_but_stops().into(), parts.space.stops().into());
        if let Some(gate) = gate.as_ref().filter(|gate| gate.included)
            && !take(&mut fresh, &parts.factory, &gate.text)?
        {
            let text = String::from_utf8_lossy(&gate.text);
            return Err(format!("the grammar does not begin with its trigger {text:?}"));
        }
        Ok(Self { parts, fresh: Mutex::new(fresh), gate, free, end })
    }

    /// A matcher behind the gate's text.
    fn fresh(&self) -> Matcher {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner).deep_clone()
    }
}

/// Feeds bytes, however they would be cut into tokens. False if they don't fit.
fn take(matcher: &mut Matcher, factory: &ParserFactory, bytes: &[u8]) -> Result<bool, String> {
    let tokens = factory.tok_env().tok_trie().greedy_tokenize(bytes);
    matcher.try_consume_tokens(&tokens).map(|taken| taken == tokens.len()).map_err(|error| error.to_string())
}

/// A compiled grammar that is shared: cloning the handle is all that a request costs before its first mask.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) compiled: Arc<Compiled>,
    pub(super) source: Arc<str>,
}

impl grammar::Grammar for Shared {
    fn source(&self) -> Option<Arc<str>> {
        Some(Arc::clone(&self.source))
    }

    fn matcher(&self) -> Box<dyn grammar::Matcher> {
        let at = match &self.compiled.gate {
            None => Place::Inside(Box::new(self.compiled.fresh())),
            Some(_) => Place::Before(Vec::new()),
        };
        Box::new(Guide { grammar: Arc::clone(&self.compiled), at, is_narrow: false })
    }
}

/// Where a generation is.
enum Place {
    /// In free text, which ends with these bytes.
    Before(Vec<u8>),
    /// In the grammar.
    Inside(Box<Matcher>),
}

struct Guide {
    grammar: Arc<Compiled>,
    at: Place,
    /// Whether the last mask admits so little that there may be but one text.
    is_narrow: bool,
}

/// Tokens that begin one text are few: its fronts.
const NARROW: u32 = 64;

impl fmt::Debug for Guide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guide").field("inside", &matches!(self.at, Place::Inside(_))).finish_non_exhaustive()
    }
}

impl Guide {
    /// Free text goes on, or the gate's text is complete and the grammar begins.
    fn free(grammar: &Compiled, gate: &Gate, tail: &mut Vec<u8>, token: u32) -> Result<Option<Matcher>, String> {
        let new = grammar.parts.vocabulary.bytes(token);
        let Some(end) = gate.end_in(tail, new) else {
            tail.extend_from_slice(new);
            gate.trim(tail);
            return Ok(None);
        };
        let mut matcher = grammar.fresh();
        let rest = &new[end..];
        if take(&mut matcher, &grammar.parts.factory, rest)? {
            Ok(Some(matcher))
        } else {
            Err(format!("{:?} does not continue the grammar", String::from_utf8_lossy(rest)))
        }
    }

    fn free_mask(grammar: &Compiled, gate: &Gate, tail: &[u8]) -> Option<TokenMask> {
        let fits = |rest: &[u8]| take(&mut grammar.fresh(), &grammar.parts.factory, rest).unwrap_or(false);
        let refused = gate.refused(&grammar.parts.vocabulary, tail, fits);
        match (refused.is_empty(), gate.may_end) {
            (true, true) => None,
            (true, false) => Some(Arc::clone(&grammar.free)),
            (false, may_end) => {
                let mut mask = grammar.free.to_vec();
                if may_end {
                    grammar.parts.space.stop_ids.iter().for_each(|id| set(&mut mask, *id, true));
                }
                refused.iter().for_each(|id| set(&mut mask, *id, false));
                Some(mask.into())
            }
        }
    }
}

impl grammar::Matcher for Guide {
    fn accept(&mut self, token: u32) -> Result<(), String> {
        match (&mut self.at, &self.grammar.gate) {
            (Place::Inside(matcher), _) => matcher.consume_token(token).map_err(|error| error.to_string()),
            (Place::Before(tail), Some(gate)) => {
                if let Some(matcher) = Self::free(&self.grammar, gate, tail, token)? {
                    self.at = Place::Inside(Box::new(matcher));
                }
                Ok(())
            }
            (Place::Before(_), None) => Err("free text without an end".to_owned()),
        }
    }

    fn mask(&mut self) -> Result<Option<TokenMask>, String> {
        self.is_narrow = false;
        match (&mut self.at, &self.grammar.gate) {
            (Place::Before(tail), Some(gate)) => Ok(Self::free_mask(&self.grammar, gate, tail)),
            (Place::Before(_), None) => Err("free text without an end".to_owned()),
            (Place::Inside(matcher), _) => {
                if matcher.is_stopped() {
                    return match matcher.get_error() {
                        Some(error) => Err(error),
                        None => Ok(Some(Arc::clone(&self.grammar.end))),
                    };
                }
                let mask = matcher.compute_mask().map_err(|error| error.to_string())?;
                if mask.is_zero() {
                    return Err("no token continues the text".to_owned());
                }
                self.is_narrow = mask.as_slice().iter().map(|word| word.count_ones()).sum::<u32>() <= NARROW;
                Ok(Some(mask.as_slice().into()))
            }
        }
    }

    fn forced(&mut self, most: usize) -> Vec<Forced> {
        let Place::Inside(matcher) = &self.at else { return Vec::new() };
        if !self.is_narrow || matcher.is_stopped() {
            return Vec::new();
        }
        let mut scout = matcher.deep_clone();
        let text = scout.compute_ff_bytes();
        let tokens = self.grammar.parts.factory.tok_env().tok_trie().greedy_tokenize(&text);
        let mask_behind = |token: u32| {
            scout.consume_token(token).ok()?;
            let mask = if scout.is_stopped() { return None } else { scout.compute_mask().ok()? };
            (!mask.is_zero()).then(|| Forced { token, mask: Some(mask.as_slice().into()) })
        };
        tokens.into_iter().take(most).map_while(mask_behind).collect()
    }
}
