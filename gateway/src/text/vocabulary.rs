//! What bytes each token id stands for, so that detokenizing is a table look-up.

use std::collections::HashMap;

use serde_json::Value;

/// The bytes of every token, in one allocation.
#[derive(Debug)]
pub struct Vocabulary {
    bytes: Vec<u8>,
    /// Token `i` is `bytes[ends[i - 1]..ends[i]]`.
    ends: Vec<u32>,
    special: Vec<bool>,
    strips_first_space: bool,
}

/// How a tokenizer writes bytes in its vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spelling {
    /// GPT-2's table: each byte is one printable character.
    ByteLevel,
    /// SentencePiece: `▁` is a space, `<0x0A>` is a byte.
    SentencePiece {
        /// The space that the tokenizer put before the text is taken away again.
        strips_first_space: bool,
    },
    /// Tokens are their own text.
    Plain,
}

/// Where a token comes from.
pub(super) struct Entry<'a> {
    pub(super) id: u32,
    pub(super) token: &'a str,
    /// An added token is its own text and may be flagged special.
    pub(super) added: Option<bool>,
}

impl Vocabulary {
    /// Builds the table from `decoder` of tokenizer.json and all tokens.
    pub(super) fn new<'a>(decoder: &Value, entries: impl IntoIterator<Item = Entry<'a>>) -> Result<Self, String> {
        let spelling = Spelling::of(decoder)?;
        let table = byte_level_table();
        let mut tokens: Vec<(Vec<u8>, bool)> = Vec::new();
        for entry in entries {
            let at = entry.id as usize;
            if at > 1 << 24 {
                return Err(format!("token {:?} has the id {at}, which no vocabulary reaches", entry.token));
            }
            if at >= tokens.len() {
                tokens.resize(at + 1, (Vec::new(), false));
            }
            tokens[at] = match entry.added {
                Some(special) => (entry.token.as_bytes().to_vec(), special),
                None => (spelling.bytes(entry.token, &table), false),
            };
        }
        let mut vocabulary = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(tokens.len()),
            special: Vec::with_capacity(tokens.len()),
            strips_first_space: spelling == Spelling::SentencePiece { strips_first_space: true },
        };
        for (bytes, special) in tokens {
            vocabulary.bytes.extend_from_slice(&bytes);
            vocabulary.ends.push(u32::try_from(vocabulary.bytes.len()).map_err(|_| "the vocabulary exceeds 4 GiB")?);
            vocabulary.special.push(special);
        }
        Ok(vocabulary)
    }

    /// The bytes of a token; empty for ids without one (padding rows of the logits).
    #[must_use]
    pub fn bytes(&self, id: u32) -> &[u8] {
        let at = id as usize;
        let Some(&end) = self.ends.get(at) else { return &[] };
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start as usize..end as usize]
    }

    /// Whether the tokenizer flags this token special.
    #[must_use]
    pub fn is_special(&self, id: u32) -> bool {
        self.special.get(id as usize).copied().unwrap_or(false)
    }

    /// One more than the largest id.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no token.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(super) fn strips_first_space(&self) -> bool {
        self.strips_first_space
    }
}

impl Spelling {
    fn of(decoder: &Value) -> Result<Self, String> {
        let steps = match (decoder, decoder.get("decoders")) {
            (Value::Null, _) => return Ok(Self::Plain),
            (_, Some(Value::Array(steps))) => steps.as_slice(),
            _ => std::slice::from_ref(decoder),
        };
        let mut found = Self::Plain;
        for step in steps {
            match step.get("type").and_then(Value::as_str).unwrap_or("(none)") {
                "ByteLevel" => found = Self::ByteLevel,
                "Replace" if is_space_replacement(step) => found = Self::SentencePiece { strips_first_space: false },
                "Metaspace" => {
                    let prepends = step.get("prepend_scheme").map_or_else(
                        || step.get("add_prefix_space").and_then(Value::as_bool).unwrap_or(true),
                        |scheme| scheme != "never",
                    );
                    found = Self::SentencePiece { strips_first_space: prepends };
                }
                "Strip" if step.get("start").and_then(Value::as_u64) == Some(1) => {
                    found = Self::SentencePiece { strips_first_space: true };
                }
                "ByteFallback" | "Fuse" => {}
                other => return Err(format!("its decoder step {other:?} is not one this gateway can stream")),
            }
        }
        Ok(found)
    }

    fn bytes(self, token: &str, table: &HashMap<char, u8>) -> Vec<u8> {
        match self {
            Self::Plain => token.as_bytes().to_vec(),
            // A token with a character outside the table was put there by hand; it is its own text.
            Self::ByteLevel => {
                let bytes: Option<Vec<u8>> = token.chars().map(|c| table.get(&c).copied()).collect();
                bytes.unwrap_or_else(|| token.as_bytes().to_vec())
            }
            Self::SentencePiece { .. } => match byte_token(token) {
                Some(byte) => vec![byte],
                None => token.replace('▁', " ").into_bytes(),
            },
        }
    }
}

fn is_space_replacement(step: &Value) -> bool {
    step.pointer("/pattern/String").and_then(Value::as_str) == Some("▁")
        && step.get("content").and_then(Value::as_str) == Some(" ")
}

/// The byte of a SentencePiece byte token, `<0x0A>`.
fn byte_token(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() == 2 { u8::from_str_radix(digits, 16).ok() } else { None }
}

/// GPT-2's byte table: printable Latin-1 stands for itself, the other 68 bytes for U+0100 and up in order.
fn byte_level_table() -> HashMap<char, u8> {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut next = 0x100;
    let mut table = HashMap::with_capacity(256);
    for byte in 0..=u8::MAX {
        let code = if printable(byte) {
            u32::from(byte)
        } else {
            next += 1;
            next - 1
        };
        table.extend(char::from_u32(code).map(|c| (c, byte)));
    }
    table
}
