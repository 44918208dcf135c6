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

/// How many bytes stand before the first that a JSON string cannot hold as it is. In blocks without branches, which compilers
/// turn into vector code.
#[inline]
pub(super) fn plain(bytes: &[u8]) -> usize {
    let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    let (blocks, _) = bytes.as_chunks::<16>();
    let clear =
        blocks.iter().take_while(|block| !block.iter().fold(false, |any, byte| any | special(byte))).count() * 16;
    bytes[clear..].iter().position(special).map_or(bytes.len(), |at| clear + at)
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

    #[test]
    fn the_spelling_is_that_of_the_contract() {
        assert_eq!(escaped("a\u{8}\u{1f}\u{7f}/\u{e9}\r\n\t\"\\"), "a\\u0008\\u001f\u{7f}/\u{e9}\\r\\n\\t\\\"\\\\");
    }
}
