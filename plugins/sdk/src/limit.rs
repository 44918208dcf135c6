//! How long things may get. A decision about what is too long is made on its beginning alone, so that it can't depend on
//! how much more had come when it was made.

/// A limit; under a fuzzer a small one, so that it is met.
#[allow(unexpected_cfgs, reason = "cargo-fuzz sets it")]
pub(crate) const fn limit(bytes: usize) -> usize {
    if !cfg!(fuzzing) {
        bytes
    } else if bytes > 4096 {
        300
    } else {
        bytes / 16
    }
}

/// Appends `text` to what is kept, up to the first character that goes beyond `max` bytes.
pub(crate) fn keep(kept: &mut String, text: &str, max: usize) {
    let room = max.saturating_sub(kept.len());
    kept.push_str(&text[..text.ceil_char_boundary(room)]);
}

/// What of `text` may be looked at, and whether that is all there will ever be of it to look at.
pub(crate) fn window(text: &str, max: usize, last: bool) -> (&str, bool) {
    if text.len() > max { (&text[..text.floor_char_boundary(max)], true) } else { (text, last) }
}
