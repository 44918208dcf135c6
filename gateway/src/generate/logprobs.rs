//! Log probabilities in the API's shape, lined up with the content they belong to.

use sluicegate_backend::api::{Logprob, Logprobs};

use crate::chat::TokenLogprob;
use crate::text::Vocabulary;

/// Log probabilities of tokens whose text has not come out yet. They leave with the next content; tokens that turned out to
/// be reasoning or markup take theirs along.
#[derive(Debug, Default)]
pub(super) struct Pending(Vec<TokenLogprob>);

impl Pending {
    pub(super) fn push(&mut self, logprobs: &Logprobs, vocabulary: &Vocabulary) {
        let name = |logprob: &Logprob| {
            let bytes = vocabulary.bytes(logprob.id).to_vec();
            (String::from_utf8_lossy(&bytes).into_owned(), bytes, logprob.logprob)
        };
        let (token, bytes, logprob) = name(&logprobs.chosen);
        self.0.push(TokenLogprob { token, bytes, logprob, top: logprobs.top.iter().map(name).collect() });
    }

    pub(super) fn take(&mut self) -> Option<Vec<TokenLogprob>> {
        (!self.0.is_empty()).then(|| std::mem::take(&mut self.0))
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
