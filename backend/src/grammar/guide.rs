//! A sequence's grammar: the mask of its next token and what the grammar forces after it, or the wait for them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{Forced, Grammar, Matcher};
use crate::engine::Shared;
use crate::exec::TokenMask;

/// What a computation gave.
type Found = Result<Next, String>;

/// What may come, and what must.
#[derive(Debug, Default)]
struct Next {
    mask: Option<TokenMask>,
    forced: Vec<Forced>,
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Guide {
    source: Source,
    next: Arc<OnceLock<Found>>,
    /// Tokens that were drawn since the computation of `next` began.
    taken: Vec<u32>,
}

#[derive(Debug)]
enum Source {
    /// Masks are computed here.
    Here {
        matcher: Arc<Mutex<Option<Box<dyn Matcher>>>>,
        grammar: Arc<dyn Grammar>,
        shared: Arc<Shared>,
        /// Most forced tokens that are wanted.
        drafts: usize,
    },
    /// One mask came over a link with a sequence of which this worker draws one token.
    Given,
}

impl Guide {
    /// Begins a grammar behind the output that a client has already, and the computation of the first mask after it. Of what
    /// the grammar forces, `drafts` tokens are wanted each time.
    pub(crate) fn start(grammar: Arc<dyn Grammar>, output: &[u32], shared: &Arc<Shared>, drafts: usize) -> Self {
        let source = Source::Here { matcher: Arc::default(), grammar, shared: Arc::clone(shared), drafts };
        let mut guide = Self { source, next: Arc::default(), taken: Vec::new() };
        guide.next = guide.compute(output.to_vec());
        guide
    }

    /// The mask of the only token that will be drawn.
    pub(crate) fn given(mask: Option<TokenMask>) -> Self {
        let next = Next { mask, forced: Vec::new() };
        Self { source: Source::Given, next: Arc::new(OnceLock::from(Ok(next))), taken: Vec::new() }
    }

    /// Whether the next mask is there.
    pub(crate) fn is_ready(&self) -> bool {
        self.taken.is_empty() && self.next().is_some()
    }

    fn next(&self) -> Option<&Next> {
        self.next.get().and_then(|found| found.as_ref().ok())
    }

    /// The mask behind the first `forced` tokens that are forced. None if any token is admitted; ask [`Self::is_ready`] first.
    pub(crate) fn mask(&self, forced: usize) -> Option<TokenMask> {
        let next = self.next()?;
        match forced.checked_sub(1) {
            None => next.mask.clone(),
            Some(last) => next.forced.get(last)?.mask.clone(),
        }
    }

    /// Tokens that the grammar forces next.
    pub(crate) fn forced(&self) -> impl Iterator<Item = u32> {
        self.next().into_iter().flat_map(|next| &next.forced).map(|forced| forced.token)
    }

    /// Why the grammar can't be followed any further.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.next.get().and_then(|found| found.as_ref().err()).map(String::as_str)
    }

    /// Takes a token that was drawn; nothing is ready until [`Self::go_on`].
    pub(crate) fn accept(&mut self, token: u32) {
        self.taken.push(token);
    }

    /// Begins the computation of the mask after the tokens taken. One job takes all of them: two might run in either order.
    pub(crate) fn go_on(&mut self) {
        if !self.taken.is_empty() {
            let tokens = std::mem::take(&mut self.taken);
            self.next = self.compute(tokens);
        }
    }

    fn compute(&self, tokens: Vec<u32>) -> Arc<OnceLock<Found>> {
        let Source::Here { matcher, grammar, shared, drafts } = &self.source else { return Arc::default() };
        let (next, drafts): (Arc<OnceLock<Found>>, usize) = (Arc::default(), *drafts);
        let (cell, matcher) = (Arc::clone(&next), Arc::clone(matcher));
        let (grammar, waker) = (Arc::clone(grammar), Arc::clone(shared));
        shared.masks().run(Box::new(move || {
            let found = catch_unwind(AssertUnwindSafe(|| advance(&matcher, &*grammar, &tokens, drafts)));
            // Set once: every computation has a cell of its own.
            let _ = cell.set(found.unwrap_or_else(|_| Err("the grammar's matcher panicked; see the log".into())));
            waker.wake();
        }));
        next
    }
}

fn advance(matcher: &Mutex<Option<Box<dyn Matcher>>>, grammar: &dyn Grammar, tokens: &[u32], drafts: usize) -> Found {
    let mut matcher = matcher.lock().unwrap_or_else(PoisonError::into_inner);
    let matcher = matcher.get_or_insert_with(|| grammar.matcher());
    tokens.iter().try_for_each(|token| matcher.accept(*token))?;
    let mask = matcher.mask()?;
    let mut forced = if drafts > 0 { matcher.forced(drafts) } else { Vec::new() };
    forced.truncate(drafts);
    Ok(Next { mask, forced })
}
