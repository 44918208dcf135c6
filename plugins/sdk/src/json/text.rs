//! JSON strings: escaping raw text and decoding a literal.

/// How many bytes stand before the first that a JSON string can't hold as it is: a quote, a backslash, a control
/// character. In blocks without branches, which compilers turn into vector code; without closures, whose callers lie in the
/// standard library and are built for WebAssembly without vectors.
#[cfg_attr(target_arch = "wasm32", target_feature(enable = "simd128"))]
pub(crate) fn plain(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some((block, later)) = rest.split_first_chunk::<16>() {
        let mut any = false;
        for byte in block {
            any |= is_special(*byte);
        }
        if any {
            break;
        }
        rest = later;
    }
    let mut clear = bytes.len() - rest.len();
    for byte in &bytes[clear..] {
        if is_special(*byte) {
            break;
        }
        clear += 1;
    }
    clear
}

#[inline(always)]
fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Appends `text` escaped as the inside of a JSON string. Non-ASCII stays as it is.
pub fn escape_into(text: &str, out: &mut String) {
    if out.is_empty() {
        // What leaves the component is cut to its length; an exact allocation is left as it is.
        out.reserve_exact(text.len());
    }
    let mut at = 0;
    loop {
        let run = plain(&text.as_bytes()[at..]);
        out.push_str(&text[at..at + run]);
        at += run;
        let Some(&byte) = text.as_bytes().get(at) else { return };
        at += 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            _ => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.push_str("\\u00");
                out.push(char::from(HEX[usize::from(byte >> 4)]));
                out.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
}

/// `text` as a JSON string literal.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    escape_into(text, &mut out);
    out.push('"');
    out
}

/// The text of a JSON string literal, quotes included; `None` if it is not one.
pub fn decode(literal: &str) -> Option<String> {
    serde_json::from_str(literal).ok()
}
