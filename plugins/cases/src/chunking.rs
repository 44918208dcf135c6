//! Ways to cut a text.

/// The whole text at once.
pub fn whole(text: &str) -> Vec<&str> {
    vec![text]
}

/// One code point a chunk.
pub fn points(text: &str) -> Vec<&str> {
    sized(text, 1)
}

/// Chunks of at least `bytes` bytes.
pub fn sized(text: &str, bytes: usize) -> Vec<&str> {
    let mut chunks = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = bytes.max(1).min(rest.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (chunk, tail) = rest.split_at(end);
        chunks.push(chunk);
        rest = tail;
    }
    chunks
}

/// Every way to cut the text in two, at most `limit` of them, spread evenly.
pub fn halves(text: &str, limit: usize) -> impl Iterator<Item = Vec<&str>> {
    let cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).skip(1).collect();
    let step = cuts.len().div_ceil(limit.max(1)).max(1);
    cuts.into_iter().step_by(step).map(move |at| vec![&text[..at], &text[at..]])
}

/// Cut after the bytes that `sizes` name, over and over.
pub fn by_sizes<'a>(text: &'a str, sizes: &[usize]) -> Vec<&'a str> {
    let mut chunks = Vec::new();
    let mut rest = text;
    for size in sizes.iter().cycle() {
        if rest.is_empty() || sizes.is_empty() {
            break;
        }
        let mut end = (*size).max(1).min(rest.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        chunks.push(&rest[..end]);
        rest = &rest[end..];
    }
    if !rest.is_empty() {
        chunks.push(rest);
    }
    chunks
}
