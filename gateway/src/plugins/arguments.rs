//! The arguments of a call, checked piece by piece: whether all of it is one JSON object. Nothing of it is kept.
//!
//! The SDK has a checker, too, which repairs what it reads. It runs in the guest; what judges a plugin shares nothing with it.

use super::escape::plain;

/// What must or may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the object.
    Begin,
    /// A value.
    Value,
    /// Behind `[`: a value or `]`.
    FirstItem,
    /// Behind `{`: a key or `}`.
    FirstKey,
    /// Behind `,` in an object.
    Key,
    Colon,
    /// Behind a value.
    After,
    Text,
    Escape,
    /// So many hexadecimal digits of `\u`.
    Hex(u8),
    Number(Number),
    /// The rest of `true`, `false` or `null`: the next byte is the lowest.
    Word(u32),
    /// Behind the object.
    Done,
    /// Something that is no object.
    NoObject,
    /// Something that is not JSON.
    Broken,
}

/// Where in a number the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Whole,
    Dot,
    Fraction,
    Exponent,
    Sign,
    Power,
}

impl Number {
    fn next(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Minus, b'0') => Self::Zero,
            (Self::Minus, b'1'..=b'9') | (Self::Whole, b'0'..=b'9') => Self::Whole,
            (Self::Zero | Self::Whole, b'.') => Self::Dot,
            (Self::Dot | Self::Fraction, b'0'..=b'9') => Self::Fraction,
            (Self::Zero | Self::Whole | Self::Fraction, b'e' | b'E') => Self::Exponent,
            (Self::Exponent, b'+' | b'-') => Self::Sign,
            (Self::Exponent | Self::Sign | Self::Power, b'0'..=b'9') => Self::Power,
            _ => return None,
        })
    }

    fn may_end(self) -> bool {
        matches!(self, Self::Zero | Self::Whole | Self::Fraction | Self::Power)
    }
}

/// What has come of a call's arguments. Numbers are not evaluated, so none is too large.
#[derive(Clone, Debug)]
pub(super) struct Arguments {
    state: State,
    /// The string being read is a key.
    in_key: bool,
    /// Bytes read, up to the first that is wrong.
    read: usize,
    /// What is open: true for an object, false for an array.
    open: Vec<bool>,
}

impl Default for Arguments {
    fn default() -> Self {
        Self { state: State::Begin, in_key: false, read: 0, open: Vec::new() }
    }
}

impl Arguments {
    /// Reads the next piece.
    #[inline]
    pub(super) fn push(&mut self, piece: &str) {
        let bytes = piece.as_bytes();
        if self.state == State::Text && plain(bytes) == bytes.len() {
            self.read += bytes.len();
        } else {
            self.read_on(bytes);
        }
    }

    /// Reads a piece that is the inside of a JSON string.
    #[inline]
    pub(super) fn push_escaped(&mut self, piece: &str) {
        if self.state == State::Text {
            self.read += piece.len();
        } else {
            self.read_on(piece.as_bytes());
        }
    }

    fn read_on(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !matches!(self.state, State::NoObject | State::Broken) {
            if self.state == State::Text {
                let run = plain(rest);
                self.read += run;
                rest = &rest[run..];
            }
            let Some((byte, later)) = rest.split_first() else { return };
            match self.step(*byte) {
                Some(state) => self.state = state,
                None if self.state == State::Begin => self.state = State::NoObject,
                None => self.state = State::Broken,
            }
            self.read += 1;
            rest = later;
        }
    }

    /// The state behind `byte`; none if it is wrong.
    fn step(&mut self, byte: u8) -> Option<State> {
        match self.state {
            State::Text | State::Escape | State::Hex(_) => self.in_text(byte),
            State::Word(rest) if rest as u8 == byte => match rest >> 8 {
                0 => Some(self.behind_value()),
                rest => Some(State::Word(rest)),
            },
            State::Number(number) => match number.next(byte) {
                Some(next) => Some(State::Number(next)),
                None if number.may_end() => {
                    self.state = self.behind_value();
                    self.between(byte)
                }
                None => None,
            },
            _ => self.between(byte),
        }
    }

    /// Within a string.
    fn in_text(&mut self, byte: u8) -> Option<State> {
        Some(match (self.state, byte) {
            (State::Text, b'"') if std::mem::take(&mut self.in_key) => State::Colon,
            (State::Text, b'"') => self.behind_value(),
            (State::Text, b'\\') => State::Escape,
            (State::Text, 0x20..) => State::Text,
            (State::Escape, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => State::Text,
            (State::Escape, b'u') => State::Hex(4),
            (State::Hex(1), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => State::Text,
            (State::Hex(left), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => State::Hex(left - 1),
            _ => return None,
        })
    }

    /// Between strings, numbers and words.
    fn between(&mut self, byte: u8) -> Option<State> {
        Some(match (self.state, byte) {
            (State::Word(_) | State::NoObject | State::Broken, _) => return None,
            (state, b' ' | b'\t' | b'\n' | b'\r') => state,
            (State::Begin, b'{') => self.enter(true),
            (State::FirstKey | State::Key, b'"') => {
                self.in_key = true;
                State::Text
            }
            (State::Colon, b':') => State::Value,
            (State::After, b',') => match self.open.last()? {
                true => State::Key,
                false => State::Value,
            },
            (State::FirstKey | State::After, b'}') => self.leave(true)?,
            (State::FirstItem | State::After, b']') => self.leave(false)?,
            (State::Value | State::FirstItem, byte) => self.value(byte)?,
            _ => return None,
        })
    }

    fn value(&mut self, byte: u8) -> Option<State> {
        Some(match byte {
            b'{' => self.enter(true),
            b'[' => self.enter(false),
            b'"' => State::Text,
            b'-' => State::Number(Number::Minus),
            b'0' => State::Number(Number::Zero),
            b'1'..=b'9' => State::Number(Number::Whole),
            b't' => State::Word(u32::from_le_bytes(*b"rue\0")),
            b'f' => State::Word(u32::from_le_bytes(*b"alse")),
            b'n' => State::Word(u32::from_le_bytes(*b"ull\0")),
            _ => return None,
        })
    }

    fn enter(&mut self, object: bool) -> State {
        self.open.push(object);
        if object { State::FirstKey } else { State::FirstItem }
    }

    fn leave(&mut self, object: bool) -> Option<State> {
        self.open.pop_if(|open| *open == object)?;
        Some(self.behind_value())
    }

    fn behind_value(&self) -> State {
        if self.open.is_empty() { State::Done } else { State::After }
    }

    /// Whether what has come is one whole object; if not, what is wrong.
    pub(super) fn finish(&self) -> Result<(), String> {
        match self.state {
            State::Done => Ok(()),
            State::Begin | State::NoObject => Err("the arguments are not a JSON object".to_owned()),
            State::Broken => Err(format!("the arguments are not JSON from byte {} on", self.read)),
            _ => Err(format!("the arguments end within their JSON, after {} bytes", self.read)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde::de::IgnoredAny;
    use serde_json::Value;

    use super::*;

    fn judge<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
        let mut arguments = Arguments::default();
        pieces.into_iter().for_each(|piece| arguments.push(piece));
        arguments.finish()
    }

    /// What a library that sees all of it at once says.
    fn whole(text: &str) -> bool {
        let begins = text.bytes().find(|byte| !b" \t\n\r".contains(byte));
        begins == Some(b'{') && serde_json::from_slice::<IgnoredAny>(text.as_bytes()).is_ok()
    }

    /// Pieces of JSON and of what is nearly JSON.
    fn near() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            8 => "[{}\\[\\],:\" \n\t]{1,2}",
            4 => "(\"[a-z]{0,2}\":|\"\\PC{0,20}\",?|\"a\\\\(n|u00e9|ud8|x|\")\",?)",
            3 => "-?(0|[1-9][0-9]?|01|[.])([.][0-9]{0,2})?([eE][-+]?[0-9]{0,1})?,?",
            2 => "(true|false|null|tru|nul1|NaN),?",
            1 => "[\\x00-\\x20\\x7f\u{e9}]",
        ];
        vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let fields = vec((any::<String>(), inner.clone()), 0..4);
            prop_oneof![
                vec(inner, 0..4).prop_map(Value::from),
                fields.prop_map(|fields| Value::from_iter(fields.into_iter())),
            ]
        })
    }

    /// `text` in pieces of so many characters.
    fn cut(text: &str, sizes: &[usize]) -> Vec<String> {
        let (mut chars, mut sizes) = (text.chars().peekable(), sizes.iter().cycle());
        std::iter::from_fn(|| {
            chars.peek()?;
            Some(chars.by_ref().take(*sizes.next()?).collect())
        })
        .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn it_judges_as_serde_json_does(
            near in near(),
            value in json(),
            hurt in any::<prop::sample::Index>(),
            with in "[\\PC\\x00-\\x20]?",
            sizes in vec(1usize..9, 1..6),
        ) {
            let object = format!(" {{\"a\": {value}}}\n");
            let mut hurt_one = object.clone();
            let at = hurt_one.floor_char_boundary(hurt.index(object.len()));
            let end = hurt_one.ceil_char_boundary(at + 1);
            hurt_one.replace_range(at..end, &with);
            for text in [near.clone(), format!("{{\"a\":{near}}}"), value.to_string(), object, hurt_one] {
                let pieces = cut(&text, &sizes);
                let judged = judge(pieces.iter().map(String::as_str));
                prop_assert_eq!(judged.is_ok(), whole(&text), "{:?}: {:?}", text, judged);
                prop_assert_eq!(&judged, &judge([text.as_str()]), "{:?}", text);
            }
        }
    }

    #[test]
    fn reasons_say_where() {
        for (text, reason) in [
            ("", "not a JSON object"),
            (" [1]", "not a JSON object"),
            ("{\"a\":01}", "from byte 7 on"),
            ("{} {}", "from byte 4 on"),
            ("{\"a\":", "after 5 bytes"),
        ] {
            let judged = judge([text]).expect_err(text);
            assert!(judged.ends_with(reason), "{text}: {judged}");
        }
        let deep = "{\"a\":".repeat(100_000) + "1" + &"}".repeat(100_000);
        assert_eq!(judge([deep.as_str()]), Ok(()));
    }
}
