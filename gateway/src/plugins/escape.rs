//! The inside of a JSON string, in the one spelling that the contract names.

/// `text` with quotes, backslashes and control characters escaped.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut rest = text;
    loop {
        let at = plain(rest.as_bytes());
        out.push_str(&rest[..at]);
        let Some(byte) = rest.as_bytes().get(at) else { return out };
        match *byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            byte => out.push_str(&format!("\\u{byte:04x}")),
        }
        rest = &rest[at + 1..];
    }
}

/// How many bytes stand before the first that a JSON string cannot hold as it is: whole blocks without branches, which compilers
/// turn into vector code, then words.
#[inline]
pub(super) fn plain(bytes: &[u8]) -> usize {
    let is_special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    let (blocks, _) = bytes.as_chunks::<32>();
    let mut at = 0;
    for block in blocks {
        if block.iter().fold(false, |any, byte| any | is_special(byte)) {
            break;
        }
        at += block.len();
    }
    let (words, rest) = bytes[at..].as_chunks();
    for word in words {
        let found = special(u64::from_le_bytes(*word));
        if found < 8 {
            return at + found;
        }
        at += word.len();
    }
    // No text has the bytes behind it.
    let word = rest.iter().rev().fold(u64::MAX, |word, byte| word << 8 | u64::from(*byte));
    at + special(word).min(rest.len())
}

/// Where in a word the first byte is that a JSON string cannot hold; 8 if there is none. A byte minus one borrows from its high
/// bit only if it was zero; what is borrowed from later bytes comes behind the first.
#[inline]
fn special(word: u64) -> usize {
    const ONES: u64 = u64::MAX / 0xff;
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & (ONES << 7);
    let has = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, 0x20) | has(b'"') | has(b'\\')).trailing_zeros() as usize / 8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_read_as_what_it_was(text in any::<String>(), control in "[\\x00-\\x22\\\\a]*") {
            for text in [text, control] {
                let back: String = serde_json::from_str(&format!("\"{}\"", escaped(&text))).unwrap();
                prop_assert_eq!(back, text);
            }
        }
    }

    proptest! {
        #[test]
        fn plain_ends_at_the_first_special(text in "(\\PC{0,50}|[a\u{e9}\\x7f]{0,70})[\\x00-\\x22\\\\a]{0,9}") {
            let first = text.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\');
            prop_assert_eq!(plain(text.as_bytes()), first.unwrap_or(text.len()));
        }
    }

    #[test]
    fn the_spelling_is_that_of_the_contract() {
        assert_eq!(escaped("a\u{8}\u{1f}\u{7f}/\u{e9}\r\n\t\"\\"), "a\\u0008\\u001f\u{7f}/\u{e9}\\r\\n\\t\\\"\\\\");
    }
}
