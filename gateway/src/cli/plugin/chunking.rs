//! Ways to cut a text into the deltas of a stream.

/// Most two-way splits tried; of a longer text, this many are spread evenly.
const MAX_SPLITS: usize = 20_000;

/// One code point a chunk.
pub(super) fn points(text: &str) -> Vec<&str> {
    let ends = text.char_indices().map(|(at, c)| (at, at + c.len_utf8()));
    ends.map(|(from, to)| &text[from..to]).collect()
}

/// Every cut in two.
pub(super) fn halves(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let cuts: Vec<usize> = text.char_indices().skip(1).map(|(at, _)| at).collect();
    let step = cuts.len().div_ceil(MAX_SPLITS).max(1);
    cuts.into_iter().step_by(step).map(move |at| (at, vec![&text[..at], &text[at..]]))
}
