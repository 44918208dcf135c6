//! Prompt lookup: what followed the last tokens the last time they appeared (Saxena, "Prompt Lookup Decoding", 2023).

use super::{Drafter, Wanted};
use crate::exec::Executor;

/// Tokens that are searched, from the end. Bounds the time that a draft of a long text takes.
const REACH: usize = 32 << 10;

/// See the file's head.
#[derive(Clone, Copy, Debug)]
pub struct Ngram {
    min: usize,
    max: usize,
}

impl Ngram {
    /// Matches of at least `min` tokens; longer ones up to `max` are preferred.
    #[must_use]
    pub fn new(min: usize, max: usize) -> Self {
        Self { min: min.max(1), max: max.max(min).max(1) }
    }

    /// The tokens that followed the longest match, of equal ones the latest.
    fn lookup<'a>(&self, tokens: &'a [u32], most: usize) -> &'a [u32] {
        let tokens = &tokens[tokens.len().saturating_sub(REACH)..];
        let Some(&last) = tokens.last() else { return &[] };
        let (mut best, mut follows) = (self.min - 1, None);
        for end in (1..tokens.len()).rev() {
            if tokens[end - 1] != last {
                continue;
            }
            let same = tokens[..end].iter().rev().zip(tokens.iter().rev());
            let length = same.take(self.max).take_while(|(a, b)| a == b).count();
            if length > best {
                (best, follows) = (length, Some(end));
                if length == self.max {
                    break;
                }
            }
        }
        follows.map_or(&[], |at| &tokens[at..tokens.len().min(at + most)])
    }
}

impl Drafter for Ngram {
    fn draft(&mut self, _: &mut dyn Executor, wanted: &[Wanted<'_>], drafts: &mut Vec<Vec<u32>>) {
        drafts.extend(wanted.iter().map(|w| self.lookup(w.tokens, w.most).to_vec()));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_longest_match_wins_and_of_equal_ones_the_latest() {
        let ngram = Ngram::new(2, 3);
        let follows = |tokens: &[u32], most| ngram.lookup(tokens, most).to_vec();
        assert_eq!(follows(&[1, 2, 3, 9, 8, 7, 2, 3, 5, 1, 2, 3], 2), [9, 8]);
        assert_eq!(follows(&[2, 3, 9, 2, 3, 5, 2, 3], 4), [5, 2, 3]);
        assert_eq!(follows(&[3, 9, 3], 4), [] as [u32; 0], "one token is no match");
        assert_eq!(follows(&[7, 7, 7, 7], 4), [7], "what overlaps the end is a match too");
        assert_eq!(follows(&[], 4), [] as [u32; 0]);
        assert_eq!(follows(&[1, 2, 1, 2], 0), [] as [u32; 0]);
    }

    proptest! {
        #[test]
        fn a_draft_stands_in_the_text_after_a_match(tokens in prop::collection::vec(0..4_u32, 0..60), min in 1..4_usize,
            more in 0..4_usize, most in 0..9_usize) {
            let draft = Ngram::new(min, min + more).lookup(&tokens, most).to_vec();
            prop_assert!(draft.len() <= most);
            if !draft.is_empty() {
                let suffix = &tokens[tokens.len() - min..];
                let there = (min..tokens.len()).any(|at| tokens[..at].ends_with(suffix) && tokens[at..].starts_with(&draft));
                prop_assert!(there, "{:?} in {:?}", draft, tokens);
            } else if most > 0 && tokens.len() > min {
                let suffix = &tokens[tokens.len() - min..];
                prop_assert!(!(min..tokens.len()).any(|at| tokens[..at].ends_with(suffix)), "a match was missed");
            }
        }
    }
}
