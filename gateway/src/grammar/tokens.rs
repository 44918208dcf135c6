//! A model's tokens as llguidance wants them: a trie of their bytes.

use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use serde::{Deserialize, Serialize};

use crate::text::Vocabulary;

/// What a grammar must know of the engine that it guides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenSpace {
    /// Number of logits.
    pub size: usize,
    /// Tokens that end a generation, not empty.
    pub stop_ids: Vec<u32>,
}

impl TokenSpace {
    /// Words of a mask.
    pub(super) fn words(&self) -> usize {
        self.size.div_ceil(32)
    }

    /// A mask of all tokens but the stop ids.
    pub(super) fn all_but_stops(&self) -> Vec<u32> {
        let mut mask = vec![u32::MAX; self.words()];
        self.stop_ids.iter().for_each(|id| set(&mut mask, *id, false));
        mask
    }

    /// A mask of the stop ids alone.
    pub(super) fn stops(&self) -> Vec<u32> {
        let mut mask = vec![0; self.words()];
        self.stop_ids.iter().for_each(|id| set(&mut mask, *id, true));
        mask
    }
}

/// Sets one bit of a mask.
pub(super) fn set(mask: &mut [u32], id: u32, admitted: bool) {
    if let Some(word) = mask.get_mut(id as usize / 32) {
        let bit = 1 << (id % 32);
        *word = if admitted { *word | bit } else { *word & !bit };
    }
}

/// The trie. Special tokens are no text, except those in `markup`; stop ids are never text.
pub(super) fn environment(vocabulary: &Vocabulary, space: &TokenSpace, markup: &[u32]) -> TokEnv {
    let size = space.size.max(vocabulary.len());
    let word = |id: u32| {
        let bytes = vocabulary.bytes(id);
        let is_stop = space.stop_ids.contains(&id);
        if bytes.is_empty() || !(is_stop || vocabulary.is_special(id) && !markup.contains(&id)) {
            return bytes.to_vec();
        }
        [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat()
    };
    #[allow(clippy::cast_possible_truncation, reason = "no vocabulary reaches u32")]
    let (words, size): (Vec<Vec<u8>>, u32) = ((0..size as u32).map(word).collect(), size as u32);
    let info = TokRxInfo::new(size, space.stop_ids.first().copied().unwrap_or_default());
    let trie = TokTrie::from(&info, &words).with_eos_tokens(&space.stop_ids);
    // Not canonical: the model chooses how it cuts text that the grammar prescribes.
    std::sync::Arc::new(ApproximateTokEnv::new(trie))
}
