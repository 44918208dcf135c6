//! Frames told from text that only looks like them, where the host gives token ids: a frame is one token, its look-alike
//! is made of ordinary ones.

use crate::config::ParserConfig;

/// What is known about the text that is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Origin {
    /// Text alone: what looks like a frame is one.
    #[default]
    Unknown,
    /// Ordinary tokens: nothing in it is a frame.
    Plain,
    /// One special token.
    Special,
}

/// The special tokens of a format whose ids are known.
#[derive(Clone, Debug, Default)]
pub(super) struct Specials(Vec<(u32, String)>);

impl Specials {
    /// Those of the model's tokenizer; none if it lacks one of `frames`, which then can only be told by their text.
    pub(super) fn new(config: &ParserConfig, frames: &[&[&str]]) -> Specials {
        let known = config.special_tokens.iter().filter_map(|token| Some((token.id?, token.text.clone())));
        let specials = Specials(known.collect());
        let all = frames.iter().copied().flatten().all(|frame| specials.is_one(frame));
        if all { specials } else { Specials::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn is_one(&self, text: &str) -> bool {
        self.0.iter().any(|(_, own)| own == text)
    }

    /// `text` cut at the special tokens among `ids`. From the end, because they end messages: if one delta holds both a
    /// frame and its look-alike, the last one is the frame. A token without text stands where it must have been.
    pub(super) fn pieces<'a>(&'a self, text: &'a str, ids: &[u32]) -> Vec<(&'a str, Origin)> {
        let mut pieces = Vec::new();
        let mut rest = text;
        for id in ids.iter().rev() {
            let Some((_, token)) = self.0.iter().find(|(own, _)| own == id) else { continue };
            if let Some(at) = rest.rfind(token.as_str()) {
                pieces.push((&rest[at + token.len()..], Origin::Plain));
                rest = &rest[..at];
            }
            pieces.push((token.as_str(), Origin::Special));
        }
        pieces.push((rest, Origin::Plain));
        pieces.retain(|(text, _)| !text.is_empty());
        pieces.reverse();
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_equal_texts_is_the_token() {
        let specials = Specials(vec![(7, "<e>".to_owned()), (8, "<s>".to_owned())]);
        let cut = |text: &'static str, ids: &[u32]| -> Vec<(String, bool)> {
            let pieces = specials.pieces(text, ids).into_iter();
            pieces.map(|(text, origin)| (text.to_owned(), origin == Origin::Special)).collect()
        };
        let own = |list: &[(&str, bool)]| list.iter().map(|(t, s)| ((*t).to_owned(), *s)).collect::<Vec<_>>();
        assert_eq!(cut("a<e>b<e>", &[1, 2, 3, 7]), own(&[("a<e>b", false), ("<e>", true)]));
        assert_eq!(cut("<e><s>x", &[7, 8, 1]), own(&[("<e>", true), ("<s>", true), ("x", false)]));
        assert_eq!(cut("<e>", &[1, 2]), own(&[("<e>", false)]));
        assert_eq!(cut("ab", &[1, 7]), own(&[("ab", false), ("<e>", true)]));
        assert_eq!(cut("", &[8]), own(&[("<s>", true)]));
    }
}
