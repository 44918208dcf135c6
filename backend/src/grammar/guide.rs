//! A sequence's grammar: the mask of its next token, or the wait for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{Grammar, Matcher};
use crate::engine::Shared;
use crate::exec::TokenMask;

/// What a computation gave.
type Found = Result<Option<TokenMask>, String>;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Guide {
    source: Source,
    next: Arc<OnceLock<Found>>,
}

#[derive(Debug)]
enum Source {
    /// Masks are computed here.
    Here { matcher: Arc<Mutex<Option<Box<dyn Matcher>>>>, grammar: Arc<dyn Grammar>, shared: Arc<Shared> },
    /// One mask came over a link with a sequence of which this worker draws one token.
    Given,
}

impl Guide {
    /// Begins a grammar behind the output that a client has already, and the computation of the first mask after it.
    pub(crate) fn start(grammar: Arc<dyn Grammar>, output: &[u32], shared: &Arc<Shared>) -> Self {
        let source = Source::Here { matcher: Arc::default(), grammar, shared: Arc::clone(shared) };
        let mut guide = Self { source, next: Arc::default() };
        guide.compute(output.to_vec());
        guide
    }

    /// The mask of the only token that will be drawn.
    pub(crate) fn given(mask: Option<TokenMask>) -> Self {
        Self { source: Source::Given, next: Arc::new(OnceLock::from(Ok(mask))) }
    }

    /// Whether the next mask is there.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.next.get(), Some(Ok(_)))
    }

    /// The next mask. None if any token is admitted; ask [`Self::is_ready`] first.
    pub(crate) fn mask(&self) -> Option<TokenMask> {
        self.next.get().and_then(|found| found.clone().ok()).flatten()
    }

    /// Why the grammar can't be followed any further.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.next.get().and_then(|found| found.as_ref().err()).map(String::as_str)
    }

    /// Takes the token that was drawn and begins the computation of the mask after it.
    pub(crate) fn accept(&mut self, token: u32) {
        self.compute(vec![token]);
    }

    /// Begins the computation of the mask after these tokens. One job takes all of them: two might run in either order.
    fn compute(&mut self, tokens: Vec<u32>) {
        let Source::Here { matcher, grammar, shared } = &self.source else { return };
        let next: Arc<OnceLock<Found>> = Arc::default();
        self.next = Arc::clone(&next);
        let (matcher, grammar, waker) = (Arc::clone(matcher), Arc::clone(grammar), Arc::clone(shared));
        shared.masks().run(Box::new(move || {
            let found = catch_unwind(AssertUnwindSafe(|| advance(&matcher, &*grammar, &tokens)));
            // Set once: every computation has a cell of its own.
            let _ = next.set(found.unwrap_or_else(|_| Err("the grammar's matcher panicked; see the log".into())));
            waker.wake();
        }));
    }
}

fn advance(matcher: &Mutex<Option<Box<dyn Matcher>>>, grammar: &dyn Grammar, tokens: &[u32]) -> Found {
    let mut matcher = matcher.lock().unwrap_or_else(PoisonError::into_inner);
    let matcher = matcher.get_or_insert_with(|| grammar.matcher());
    tokens.iter().try_for_each(|token| matcher.accept(*token))?;
    matcher.mask()
}
