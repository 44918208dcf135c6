//! Random walks through a grammar: texts that a constrained model could have written.

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities};
use llguidance::{Matcher, ParserFactory};
use proptest::prelude::RngExt;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// After that many bytes, a walk makes for the end.
const LONG: usize = 400;
/// A walk that is longer never ends.
const LONGEST: usize = 6000;

/// Text that is tried where the grammar lets a model write anything.
const HOSTILE: &[&str] = &[
    "<",
    "</",
    "\n",
    " ",
    "\\\"",
    "{",
    "[",
    "'",
    "```",
    "</tool_call>",
    "<think>",
    "｜",
    "null",
    "true",
    "é",
    "北京",
    "👩‍🚀",
    "&amp;",
    "&quot;",
    "x < y && y > z",
    ",",
    ":",
    "<b>",
    "</parameter",
    "<parameter=x>",
    "<arg_key>",
    "\r\n",
    "]]>",
    "\\n",
    "\\\\",
];

/// Compiles grammars for a tokenizer whose tokens are single bytes.
pub struct Compiler(ParserFactory);

impl std::fmt::Debug for Compiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compiler")
    }
}

impl Default for Compiler {
    fn default() -> Self {
        let bytes = ApproximateTokEnv::single_byte_env();
        let mut factory =
            ParserFactory::new(&bytes, InferenceCapabilities::default(), &[]).expect("a factory for single bytes");
        factory.quiet();
        Compiler(factory)
    }
}

/// A compiled grammar.
pub struct Grammar {
    matcher: Matcher,
    /// The literals that it names.
    literals: Vec<String>,
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammar").field("literals", &self.literals).finish_non_exhaustive()
    }
}

fn bytes(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

impl Compiler {
    /// Compiles `lark`.
    pub fn compile(&self, lark: &str) -> Result<Grammar, String> {
        let matcher = Matcher::new(self.0.create_parser(TopLevelGrammar::from_lark(lark.to_owned())));
        match matcher.get_error() {
            Some(error) => Err(format!("{error}\n{lark}")),
            None => Ok(Grammar { matcher, literals: literals(lark) }),
        }
    }
}

impl Grammar {
    /// `Err` says how much of `text` the grammar admits, if not all of it as a whole.
    pub fn admits(&self, text: &str) -> Result<(), String> {
        let mut matcher = self.matcher.deep_clone();
        let tokens = bytes(text);
        let read = matcher.try_consume_tokens(&tokens).map_err(|e| e.to_string())?;
        if read < tokens.len() {
            let (before, after) = (&text.as_bytes()[..read], &text.as_bytes()[read..]);
            let show = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
            return Err(format!("refused after {:?}, before {:?}", show(before), show(after)));
        }
        if matcher.is_accepting().map_err(|e| e.to_string())? { Ok(()) } else { Err("not complete".to_owned()) }
    }

    /// A random text of the grammar; `None` if the walk did not end. With `markup`, JSON strings may hold the format's
    /// own markup: where tags end values, that is ambiguous.
    pub fn walk(&self, rng: &mut TestRng, markup: bool) -> Option<String> {
        let mut matcher = self.matcher.deep_clone();
        let mut out: Vec<u8> = Vec::new();
        loop {
            let whole = std::str::from_utf8(&out).is_ok();
            let eager = out.len() > LONG;
            let done = whole && matcher.is_accepting().expect("a grammar that works");
            if done && (matcher.is_stopped() || eager || rng.random_ratio(1, 3)) {
                return String::from_utf8(out).ok();
            }
            if out.len() > LONGEST {
                return None;
            }
            let mask = matcher.compute_mask().expect("a mask");
            let quoted = mask.is_allowed(u32::from(b'z')) && !mask.is_allowed(u32::from(b'\n'));
            let piece = whole.then(|| self.piece(rng, eager, quoted && !markup)).flatten();
            let tokens = piece.map(bytes).unwrap_or_default();
            if !tokens.is_empty() && matcher.validate_tokens(&tokens).is_ok_and(|n| n == tokens.len()) {
                out.extend(tokens.iter().map(|t| *t as u8));
                matcher.consume_tokens(&tokens).expect("tokens that were found valid");
                continue;
            }
            let allowed: Vec<u8> = (0..=255u8).filter(|b| mask.is_allowed(u32::from(*b))).collect();
            let plain: Vec<u8> = allowed.iter().copied().filter(|b| (0x20..0x7f).contains(b) || *b == b'\n').collect();
            let from = if plain.is_empty() || rng.random_ratio(1, 40) { &allowed } else { &plain };
            let mut byte = *from.get(rng.random_range(0..from.len().max(1)))?;
            // An exponent of many digits is JSON, but no number of this machine.
            if matches!(byte, b'e' | b'E') && out.last().is_some_and(u8::is_ascii_digit) {
                byte = *allowed.iter().find(|b| !matches!(b, b'e' | b'E'))?;
            }
            matcher.consume_token(u32::from(byte)).expect("a byte that the mask allows");
            out.push(byte);
        }
    }

    /// Something longer than a byte to try next.
    fn piece(&self, rng: &mut TestRng, eager: bool, quoted: bool) -> Option<&str> {
        match rng.random_range(0..if eager { 3 } else { 8 }) {
            0 | 1 if !self.literals.is_empty() && !quoted => {
                Some(self.literals[rng.random_range(0..self.literals.len())].as_str())
            }
            2 => Some(["\"", "}", "]", ")", "'", ">", "\"}", "]}"][rng.random_range(0..8)]),
            3 => Some(HOSTILE[rng.random_range(0..HOSTILE.len())]),
            _ => None,
        }
    }
}

/// The string literals of a grammar.
fn literals(lark: &str) -> Vec<String> {
    let mut all = Vec::new();
    for line in lark.lines().filter(|l| !l.contains("%json")) {
        let mut rest = line;
        while let Some(at) = rest.find('"') {
            let mut stream = serde_json::Deserializer::from_str(&rest[at..]).into_iter::<String>();
            match stream.next() {
                Some(Ok(text)) => {
                    rest = &rest[at + stream.byte_offset()..];
                    all.push(text);
                }
                _ => rest = &rest[at + 1..],
            }
        }
    }
    all.retain(|text| text.len() > 1);
    all.sort();
    all.dedup();
    all
}

/// Random numbers that are the same in every run.
pub fn seeded() -> TestRng {
    TestRng::deterministic_rng(RngAlgorithm::ChaCha)
}
