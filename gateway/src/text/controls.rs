//! The control tokens of a tokenizer: how they are spelled and where template text contains them.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

use super::prompt::Prompt;

/// One control token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Control {
    pub(super) id: u32,
    pub(super) spelling: String,
    /// It swallows white space on its left or right, as the checkpoint was trained.
    pub(super) lstrip: bool,
    pub(super) rstrip: bool,
    /// It counts only when no letter or digit touches it.
    pub(super) single_word: bool,
}

/// All added tokens that could steer a model: those flagged special and every other one that is more than white space
/// (`<think>` or `<｜User｜>` are often not flagged). A renderer works without a tokenizer too; then there are none.
#[derive(Debug)]
pub struct Controls {
    tokens: Vec<Control>,
    finder: AhoCorasick,
    ids: BTreeSet<u32>,
    alphabet: Vec<char>,
    edges: BTreeSet<char>,
}

impl Default for Controls {
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            finder: empty_finder(),
            ids: BTreeSet::new(),
            alphabet: Vec::new(),
            edges: BTreeSet::new(),
        }
    }
}

fn empty_finder() -> AhoCorasick {
    // An automaton without patterns always builds; if it ever did not, there would be nothing to look for either.
    AhoCorasick::new(Vec::<&str>::new()).unwrap_or_else(|_| unreachable!("an empty automaton builds"))
}

impl Controls {
    pub(super) fn new(tokens: Vec<Control>) -> Result<Self, String> {
        // HF looks for the longest of the tokens that begin leftmost.
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(tokens.iter().map(|token| token.spelling.as_str()))
            .map_err(|error| format!("cannot search for {} added tokens: {error}", tokens.len()))?;
        let alphabet: BTreeSet<char> = tokens.iter().flat_map(|token| token.spelling.chars()).collect();
        let edge = |spelling: &str| [spelling.chars().next(), spelling.chars().next_back()];
        let edges = tokens
            .iter()
            .flat_map(|token| edge(&token.spelling))
            .flatten()
            .filter(|c| !c.is_alphanumeric() && !c.is_whitespace())
            .collect();
        let ids = tokens.iter().map(|token| token.id).collect();
        Ok(Self { tokens, finder, ids, alphabet: alphabet.into_iter().collect(), edges })
    }

    /// The id of a control token by its spelling.
    #[must_use]
    pub fn id(&self, spelling: &str) -> Option<u32> {
        self.token(spelling).map(|token| token.id)
    }

    pub(super) fn token(&self, spelling: &str) -> Option<&Control> {
        let input = aho_corasick::Input::new(spelling).anchored(aho_corasick::Anchored::No);
        let found = self.finder.find(input)?;
        (found.range() == (0..spelling.len())).then(|| &self.tokens[found.pattern()])
    }

    /// Whether this id is a control token's.
    #[must_use]
    pub fn has_id(&self, id: u32) -> bool {
        self.ids.contains(&id)
    }

    /// Every character that occurs in a spelling, sorted.
    pub(super) fn alphabet(&self) -> &[char] {
        &self.alphabet
    }

    /// Whether a spelling begins or ends with this character. Letters and digits do not count.
    pub(super) fn is_edge(&self, c: char) -> bool {
        self.edges.contains(&c)
    }

    /// Where `text` spells control tokens: leftmost, longest, disjoint.
    pub(super) fn find(&self, text: &str) -> Vec<Range<usize>> {
        if self.tokens.is_empty() {
            return Vec::new();
        }
        let stands_alone = |range: &Range<usize>| {
            let word = |c: char| c.is_alphanumeric() || c == '_';
            !text[..range.start].chars().next_back().is_some_and(word)
                && !text[range.end..].chars().next().is_some_and(word)
        };
        self.finder
            .find_iter(text)
            .filter(|found| !self.tokens[found.pattern()].single_word || stands_alone(&found.range()))
            .map(|found| found.range())
            .collect()
    }

    /// Appends text of a template's own, control tokens in it marked.
    pub fn push_template(&self, text: &str, prompt: &mut Prompt) {
        let mut end = 0;
        for range in self.find(text) {
            prompt.push_plain(&text[end..range.start]);
            prompt.push_special(&text[range.clone()]);
            end = range.end;
        }
        prompt.push_plain(&text[end..]);
    }

    /// Every text that is a control token once a piece of `template` stands before and another after it: what a template
    /// that writes `<` + name + `>` must not be given as a name.
    pub(super) fn completed_by(&self, template: &str) -> HashSet<Box<str>> {
        let mut names = HashSet::new();
        for token in &self.tokens {
            let spelling = token.spelling.as_str();
            let cuts = || spelling.char_indices().map(|(at, _)| at).skip(1);
            let starts: Vec<usize> = cuts().filter(|&at| template.contains(&spelling[..at])).collect();
            let ends: Vec<usize> = cuts().filter(|&at| template.contains(&spelling[at..])).collect();
            for &start in &starts {
                names.extend(ends.iter().filter(|&&end| end > start).map(|&end| Box::from(&spelling[start..end])));
            }
        }
        names
    }
}
