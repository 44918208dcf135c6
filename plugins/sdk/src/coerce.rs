//! Text parameters to JSON values, by the types that the schema accepts.
//!
//! Rules: a value whose only type is string, or whose type is unknown, is that text. Otherwise the text must be a
//! canonical literal of an accepted type; where string is one of several types, only then is it not a string.
//! Digits are kept as written: nothing passes through a float.

use crate::json;
use crate::tools::JsonTypes;

/// `raw` as JSON text. A value that fits no accepted type becomes a string, so the result is always valid.
pub fn coerce(raw: &str, accepts: JsonTypes) -> String {
    if accepts.only_text() {
        return json::quote(raw);
    }
    let text = raw.trim();
    literal(text, accepts).unwrap_or_else(|| json::quote(raw))
}

/// `raw` where the format itself says that it is JSON; anything else becomes a string.
pub fn json_or_text(raw: &str) -> String {
    let text = raw.trim();
    if json::is_value(text) { text.to_owned() } else { json::quote(raw) }
}

fn literal(text: &str, accepts: JsonTypes) -> Option<String> {
    let strings = accepts.accepts(JsonTypes::STRING);
    if accepts.accepts(JsonTypes::NULL) && (text == "null" || (!strings && text.eq_ignore_ascii_case("null"))) {
        return Some("null".to_owned());
    }
    if accepts.accepts(JsonTypes::BOOLEAN) {
        match text {
            "true" | "false" => return Some(text.to_owned()),
            "True" | "TRUE" if !strings => return Some("true".to_owned()),
            "False" | "FALSE" if !strings => return Some("false".to_owned()),
            _ => {}
        }
    }
    if accepts.accepts(JsonTypes::INTEGER | JsonTypes::NUMBER) && is_number(text) {
        // An integer written as 230.0 keeps its spelling: the value is the same and the call is not lost.
        return Some(text.to_owned());
    }
    let container = (accepts.accepts(JsonTypes::OBJECT) && text.starts_with('{'))
        || (accepts.accepts(JsonTypes::ARRAY) && text.starts_with('['));
    if container && json::is_value(text) {
        return Some(text.to_owned());
    }
    // A quoted literal for a type that is not a string: only one reading is left.
    None
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) && json::is_value(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_the_model_wrote() {
        let int_or_null = JsonTypes::INTEGER | JsonTypes::NULL;
        let text_or_null = JsonTypes::STRING | JsonTypes::NULL;
        let cases = [
            ("5", int_or_null, "5"),
            ("null", int_or_null, "null"),
            ("4", text_or_null, "\"4\""),
            ("null", JsonTypes::STRING, "\"null\""),
            ("null", text_or_null, "null"),
            ("18446744073709551617", JsonTypes::INTEGER, "18446744073709551617"),
            ("1.0", JsonTypes::NUMBER, "1.0"),
            ("00123", JsonTypes::INTEGER, "\"00123\""),
            ("NaN", JsonTypes::NUMBER, "\"NaN\""),
            ("True", JsonTypes::BOOLEAN, "true"),
            ("{\"h\": 7}", JsonTypes::OBJECT, "{\"h\": 7}"),
            ("{h: 7}", JsonTypes::OBJECT, "\"{h: 7}\""),
            (" 3 ", JsonTypes::empty(), "\" 3 \""),
            ("7", JsonTypes::STRING | JsonTypes::INTEGER, "7"),
            ("x", JsonTypes::STRING | JsonTypes::INTEGER, "\"x\""),
        ];
        for (raw, accepts, want) in cases {
            assert_eq!(coerce(raw, accepts), want, "{raw} as {accepts:?}");
        }
    }
}
