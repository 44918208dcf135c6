//! From what a request asks for to a grammar that the engine follows; compiled ones are kept.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::InferenceCapabilities;
use llguidance::{Matcher, ParserFactory};
use sluicegate_backend::grammar::Grammar;

use super::gate::Gate;
use super::matcher::{Compiled, Parts, Shared};
use super::sent::source;
use super::source::Spec;
use super::tokens::{TokenSpace, environment};
use crate::plugins::Start;
use crate::text::Vocabulary;

/// Compiled grammars that are kept: agents send the same tools with every turn.
const KEPT: usize = 64;
/// Tries with different markup that are kept; a model's formats need few.
const TRIES: usize = 4;
/// Most bytes of a reason that is shown to clients.
const MAX_REASON: usize = 400;

/// Why a grammar can't be used: one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GrammarError(pub String);

/// The grammars of one model.
pub struct Grammars {
    vocabulary: Arc<Vocabulary>,
    space: TokenSpace,
    factories: Mutex<VecDeque<(Vec<u32>, Arc<ParserFactory>)>>,
    compiled: Mutex<VecDeque<(Arc<str>, Arc<Compiled>)>>,
}

impl fmt::Debug for Grammars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammars").field("space", &self.space).finish_non_exhaustive()
    }
}

impl Grammars {
    /// For a model with these tokens. Nothing is built before the first grammar.
    #[must_use]
    pub fn new(vocabulary: Arc<Vocabulary>, space: TokenSpace) -> Self {
        Self { vocabulary, space, factories: Mutex::default(), compiled: Mutex::default() }
    }

    /// A grammar. Takes milliseconds, or a good part of a second for the first one of a model: not for async threads.
    ///
    /// # Errors
    /// What is wrong with the rules.
    pub fn compile(&self, spec: &Spec) -> Result<Arc<dyn Grammar>, GrammarError> {
        let source = source(spec, &self.space).map_err(|error| GrammarError(error.to_string()))?;
        if let Some((source, compiled)) = recent(&self.compiled, |(known, _)| *known == source) {
            return Ok(Arc::new(Shared { compiled, source }));
        }
        let compiled = Arc::new(self.build(spec).map_err(|reason| GrammarError(short(&reason)))?);
        keep(&self.compiled, (Arc::clone(&source), Arc::clone(&compiled)), KEPT);
        Ok(Arc::new(Shared { compiled, source }))
    }

    fn build(&self, spec: &Spec) -> Result<Compiled, String> {
        if self.space.stop_ids.is_empty() {
            return Err("the model has no end-of-sequence token, so that nothing could end".to_owned());
        }
        let factory = self.factory(spec)?;
        let parser = factory.create_parser(spec.grammar()?).map_err(|error| error.to_string())?;
        let mut matcher = Matcher::new(Ok(parser));
        if let Some(error) = matcher.get_error() {
            return Err(error);
        }
        // A grammar that admits nothing shows now, not in the middle of a stream.
        let first = matcher.compute_mask_or_eos().map_err(|error| error.to_string())?;
        if first.is_zero() {
            return Err("it admits no text".to_owned());
        }
        let gate = match &spec.start {
            Start::Immediately => None,
            Start::After(text) | Start::Triggered(text) if text.is_empty() => None,
            Start::After(text) => Some(Gate::after(text)),
            Start::Triggered(text) => Some(Gate::triggered(text)),
        };
        let parts = Parts { vocabulary: Arc::clone(&self.vocabulary), space: self.space.clone(), factory };
        Compiled::new(parts, matcher, gate)
    }

    fn factory(&self, spec: &Spec) -> Result<Arc<ParserFactory>, String> {
        let vocabulary = &self.vocabulary;
        #[allow(clippy::cast_possible_truncation, reason = "no vocabulary reaches u32")]
        let ids = 0..vocabulary.len() as u32;
        let spelled = |id: &u32| {
            vocabulary.is_special(*id)
                && std::str::from_utf8(vocabulary.bytes(*id)).is_ok_and(|text| !text.is_empty() && spec.spells(text))
        };
        let markup: Vec<u32> = ids.filter(spelled).collect();
        if let Some(known) = recent(&self.factories, |(ids, _)| *ids == markup) {
            return Ok(known.1);
        }
        let environment = environment(vocabulary, &self.space, &markup);
        let slices = SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)
            .map_err(|error| error.to_string())?;
        factory.quiet();
        factory.limits_mut().verbose_errors = false;
        let factory = Arc::new(factory);
        keep(&self.factories, (markup, Arc::clone(&factory)), TRIES);
        Ok(factory)
    }
}

/// The entry for which `is` holds, which becomes the most recent one.
pub(super) fn recent<T: Clone>(list: &Mutex<VecDeque<T>>, is: impl Fn(&T) -> bool) -> Option<T> {
    let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
    let at = list.iter().position(is)?;
    let entry = list.remove(at)?;
    list.push_front(entry.clone());
    Some(entry)
}

pub(super) fn keep<T>(list: &Mutex<VecDeque<T>>, entry: T, most: usize) {
    let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
    list.push_front(entry);
    list.truncate(most);
}

/// llguidance's reason, in one line of bearable length.
fn short(reason: &str) -> String {
    let line = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_REASON) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
