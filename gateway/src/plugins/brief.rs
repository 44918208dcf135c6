//! Pushes that are answered by one word, for plugins with the `brief` face: most deltas are a token, and nothing is allocated
//! for them in the guest or carried through its memory. A longer text is carried in, by the `terse` face, and its answer is not
//! carried out.

use super::bindings::types as wit;
use super::guest::Guest;

/// Longest text of a push.
const BYTES: usize = 64;
const WORDS: usize = BYTES / 8;
/// Longest text of an answer.
const SHORT: usize = 7;

/// Where text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Content,
    Reasoning,
    /// The arguments of the call that began last.
    Arguments,
}

/// What a push came to.
pub(super) enum Brief {
    /// Everything is held back.
    Hold,
    /// The text that was pushed goes out.
    Same(Place),
    /// The text that was pushed goes out, as arguments, written as the inside of a JSON string.
    Escaped,
    /// Another text goes out.
    Text(Place, Short),
    /// Anything else.
    Events(Vec<wit::Event>),
}

/// A text of 1 to 7 bytes.
#[derive(Clone, Copy)]
pub(super) struct Short {
    bytes: [u8; SHORT],
    len: usize,
}

impl Short {
    #[inline]
    pub(super) fn as_str(&self) -> &str {
        // It was checked when it came.
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

/// Pushes `text`; none if the plugin lacks the face for it.
#[inline]
pub(super) fn push(guest: &mut Guest, number: u32, text: &str) -> Option<wasmtime::Result<Brief>> {
    let Guest { store, brief, terse, .. } = guest;
    let brief = brief.as_ref()?;
    let answer = match (words(text), terse) {
        (Some([w0, w1, w2, w3, w4, w5, w6, w7]), _) => {
            let length = text.len() as u32;
            brief.call_push(&mut *store, number, length, w0, w1, w2, w3, w4, w5, w6, w7)
        }
        (None, Some(terse)) if !text.is_empty() => terse.call_push(&mut *store, number, text),
        (None, _) => return None,
    };
    Some(answer.and_then(|answer| match read(answer) {
        Some(brief) => Ok(brief),
        None if answer == LEFT => brief.call_take(store, number).map(Brief::Events),
        None => Err(wasmtime::format_err!("{answer:#x} is no answer to a brief push")),
    }))
}

/// A text of 1 to 64 bytes in words.
#[inline]
fn words(text: &str) -> Option<[u64; WORDS]> {
    if !(1..=BYTES).contains(&text.len()) {
        return None;
    }
    let mut words = [0; WORDS];
    let (whole, rest) = text.as_bytes().as_chunks::<8>();
    for (word, bytes) in words.iter_mut().zip(whole) {
        *word = u64::from_le_bytes(*bytes);
    }
    if let Some(last) = words.get_mut(whole.len()) {
        *last = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    Some(words)
}

/// The answer that says that there are events to take.
const LEFT: u64 = 7;

/// An answer that needs no second call.
#[inline]
fn read(answer: u64) -> Option<Brief> {
    let place = |kind| match kind {
        0 => Place::Content,
        1 => Place::Reasoning,
        _ => Place::Arguments,
    };
    match answer & 15 {
        0 if answer == 0 => Some(Brief::Hold),
        8 if answer == 8 => Some(Brief::Escaped),
        kind @ 1..=3 if answer == kind => Some(Brief::Same(place(kind - 1))),
        kind @ 4..=6 => {
            let [head, bytes @ ..] = answer.to_le_bytes();
            let short = Short { bytes, len: usize::from(head >> 4) };
            let given = bytes.get(..short.len).filter(|given| !given.is_empty())?;
            let empty = bytes[short.len..].iter().all(|byte| *byte == 0);
            (empty && std::str::from_utf8(given).is_ok()).then_some(Brief::Text(place(kind - 4), short))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(answer: u64) -> Option<(Place, String)> {
        match read(answer)? {
            Brief::Text(place, short) => Some((place, short.as_str().to_owned())),
            Brief::Same(place) => Some((place, "same".to_owned())),
            Brief::Hold | Brief::Escaped | Brief::Events(_) => Some((Place::Content, "none".to_owned())),
        }
    }

    #[test]
    fn answers_are_read_and_nonsense_is_not() {
        assert_eq!(text(0), Some((Place::Content, "none".to_owned())));
        assert_eq!(text(3), Some((Place::Arguments, "same".to_owned())));
        assert_eq!(text(0x006e_5c26), Some((Place::Arguments, "\\n".to_owned())));
        assert_eq!(text(0x6766_6564_6362_6174), Some((Place::Content, "abcdefg".to_owned())));
        // Left to take; a length of none; bytes behind the text; no UTF-8; a length beyond the word; unknown.
        for answer in [7, 0x4, 0x0061_6115, 0xff14, 0x85, 0x13, 0x10, 0x18, 9, u64::MAX] {
            assert_eq!(text(answer), None, "{answer:#x}");
        }
    }

    #[test]
    fn texts_of_one_to_sixty_four_bytes_are_words() {
        assert!(words("").is_none() && words(&"a".repeat(65)).is_none());
        for length in 1..=64 {
            let text: String = ('!'..).take(length).collect();
            let bytes: Vec<u8> = words(&text).unwrap().iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!((&bytes[..length], bytes[length..].iter().any(|byte| *byte != 0)), (text.as_bytes(), false));
        }
    }
}
