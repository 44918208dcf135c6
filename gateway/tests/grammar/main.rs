//! Whatever token a model picks among those that a mask admits, the text obeys its grammar and can be ended.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use sluicegate::grammar::{Grammars, Rule, Spec, TokenSpace};
use sluicegate::plugins::Start;
use sluicegate::text::{Tokenizer, Vocabulary};
use sluicegate_backend::grammar::{Forced, Grammar};

/// Added tokens come after the vocabulary, whatever id their entry gives.
const STOP: u32 = 256 + WORDS.len() as u32;
const CALL: u32 = STOP + 1;

/// Tokens of several bytes that cut across JSON and across markers.
const WORDS: [&str; 20] = [
    "{\"", "\":", "\", \"", "\"}", "}}", "true", "12", "name", "Paris", " \n", "</think>", "</th", "ink>", "ink>\n",
    "ink>{\"", "ink>no", "<tool", "_call>", "_call>[", "_call>no",
];

fn vocabulary() -> Arc<Vocabulary> {
    let printable = |byte: u32| matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut next = 0x100;
    let mut alphabet = Vec::new();
    for byte in 0..=255u32 {
        let code = if printable(byte) { byte } else { next };
        next += u32::from(!printable(byte));
        alphabet.push(char::from_u32(code).unwrap());
    }
    let spell = |word: &str| word.bytes().map(|byte| alphabet[usize::from(byte)]).collect::<String>();
    let bytes = (0..256_u32).map(|byte| (alphabet[byte as usize].to_string(), byte));
    let words = WORDS.iter().zip(256..).map(|(word, id)| (spell(word), id));
    let vocab: serde_json::Map<String, Value> = bytes.chain(words).map(|(token, id)| (token, id.into())).collect();
    let added = |id: u32, content: &str| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
               "special": true})
    };
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": [added(STOP, "<|im_end|>"), added(CALL, "<|call|>")],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": []},
    });
    Arc::clone(Tokenizer::from_bytes(tokenizer.to_string().as_bytes()).unwrap().vocabulary())
}

fn grammars() -> Grammars {
    // As many logits as a padded head has.
    Grammars::new(vocabulary(), TokenSpace { size: 384, stop_ids: vec![STOP] })
}

fn spec(rule: Rule, start: Start) -> Spec {
    Spec { any_of: vec![rule], start, markup: true }
}

/// What a model without sense generates: its tokens, their text, and whether it ended. `hope` is text that it
/// writes when it may. Where the grammar says what must come, the masks that it gives for it are those that come.
fn walk(grammar: &dyn Grammar, vocabulary: &Vocabulary, mut seed: u64, hope: &str) -> (Vec<u32>, String, bool) {
    let mut roll = |sides: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % sides
    };
    let mut matcher = grammar.matcher();
    let (mut tokens, mut bytes): (Vec<u32>, Vec<u8>) = (Vec::new(), Vec::new());
    let mut forced = VecDeque::<Forced>::new();
    for _ in 0..600 {
        let mask = matcher.mask().unwrap();
        let foretold = forced.pop_front().filter(|f| tokens.last() == Some(&f.token));
        if let Some(foretold) = foretold {
            assert_eq!(foretold.mask, mask, "after {:?}", String::from_utf8_lossy(&bytes));
        } else {
            forced = matcher.forced(4).into();
        }
        let admits = |id: u32| mask.as_ref().is_none_or(|m| m[id as usize / 32] >> (id % 32) & 1 == 1);
        if admits(STOP) && roll(3) == 0 {
            return (tokens, String::from_utf8(bytes).unwrap(), true);
        }
        let there = (0..=hope.len()).rev().find(|n| bytes.ends_with(&hope.as_bytes()[..*n])).unwrap_or(0);
        let wanted = |id: &u32| {
            let (missing, word) = (&hope.as_bytes()[there..], vocabulary.bytes(*id));
            !missing.is_empty() && !word.is_empty() && (missing.starts_with(word) || word.starts_with(missing))
        };
        let open: Vec<u32> = (0..=CALL).filter(|id| *id != STOP && admits(*id)).collect();
        let hoped: Vec<u32> = open.iter().copied().filter(wanted).collect();
        let among = if hoped.is_empty() || roll(5) == 0 { &open } else { &hoped };
        // Text before a grammar is free, and any byte is admitted; here it is kept readable.
        let readable: Vec<u32> = among.iter().copied().filter(|id| vocabulary.bytes(*id).is_ascii()).collect();
        let among = if readable.is_empty() { among } else { &readable };
        let token = if among.is_empty() { STOP } else { among[roll(among.len())] };
        if token == STOP {
            return (tokens, String::from_utf8(bytes).unwrap(), admits(STOP));
        }
        matcher.accept(token).unwrap_or_else(|e| panic!("{e} after {:?}", String::from_utf8_lossy(&bytes)));
        bytes.extend_from_slice(vocabulary.bytes(token));
        tokens.push(token);
    }
    (tokens, String::from_utf8_lossy(&bytes).into_owned(), false)
}

fn schema() -> Value {
    json!({
        "type": "object", "additionalProperties": false, "required": ["city", "unit", "days"],
        "properties": {
            "city": {"type": "string", "maxLength": 6},
            "unit": {"enum": ["C", "F"]},
            "days": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 20}, "maxItems": 3},
            "deep": {"type": "boolean"},
        },
    })
}

/// Whether this is JSON that obeys [`schema`].
fn obeys(text: &str) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return false };
    let Some(object) = value.as_object() else { return false };
    let day = |day: &Value| day.as_u64().is_some_and(|n| n <= 20);
    object.keys().all(|key| ["city", "unit", "days", "deep"].contains(&key.as_str()))
        && value["city"].as_str().is_some_and(|city| city.chars().count() <= 6)
        && (value["unit"] == "C" || value["unit"] == "F")
        && value["days"].as_array().is_some_and(|days| days.len() <= 3 && days.iter().all(day))
        && object.get("deep").is_none_or(Value::is_boolean)
}

#[test]
fn any_admitted_path_through_a_schema_is_valid_json() {
    let (grammars, vocabulary) = (grammars(), vocabulary());
    let grammar = grammars.compile(&spec(Rule::JsonSchema(schema().to_string()), Start::Immediately)).unwrap();
    let mut ended = 0;
    for seed in 0..100 {
        let (_, text, end) = walk(&*grammar, &vocabulary, seed, "");
        assert!(!end || obeys(&text), "{text}");
        ended += usize::from(end);
    }
    assert!(ended > 90, "{ended} of 100 came to an end");
}

#[test]
fn what_must_come_is_foretold() {
    let grammars = grammars();
    let grammar = grammars.compile(&spec(Rule::JsonSchema(schema().to_string()), Start::Immediately)).unwrap();
    let mut matcher = grammar.matcher();
    for byte in "{\"city\": \"Rom\", \"".bytes() {
        matcher.mask().unwrap();
        matcher.accept(byte.into()).unwrap();
    }
    matcher.mask().unwrap();
    let text = |forced: Vec<Forced>| {
        let vocabulary = vocabulary();
        let bytes: Vec<u8> = forced.iter().flat_map(|f| vocabulary.bytes(f.token).to_vec()).collect();
        String::from_utf8(bytes).unwrap()
    };
    // Behind it there may be white space.
    assert_eq!(text(matcher.forced(64)), "unit\"");
    assert_eq!(matcher.forced(2).len(), 2, "no more than is wanted");
    matcher.accept(u32::from(b'u')).unwrap();
    matcher.mask().unwrap();
    assert_eq!(text(matcher.forced(64)), "nit\"", "asking does not move it");
}

#[test]
fn choices_and_regular_expressions_admit_what_they_name() {
    let (grammars, vocabulary) = (grammars(), vocabulary());
    let texts = ["yes", "no", "name \"it\"", "ü"];
    let choice = Rule::Choice(texts.map(str::to_owned).to_vec());
    let choice = grammars.compile(&spec(choice, Start::Immediately)).unwrap();
    let digits = grammars.compile(&spec(Rule::Regex("[0-9]{2,4}x?".into()), Start::Immediately)).unwrap();
    let both = Spec {
        any_of: vec![Rule::Regex("[0-9]+".into()), Rule::Lark("start: \"<\" /[a-z]{1,3}/ \">\"".into())],
        start: Start::Immediately,
        markup: false,
    };
    let both = grammars.compile(&both).unwrap();
    for seed in 0..50 {
        let (_, text, end) = walk(&*choice, &vocabulary, seed, texts[seed as usize % 4]);
        assert!(end && texts.contains(&text.as_str()), "{text}");
        let (_, text, end) = walk(&*digits, &vocabulary, seed, "");
        let number = text.strip_suffix('x').unwrap_or(&text);
        assert!(end && (2..=4).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit()), "{text}");
        let (_, text, end) = walk(&*both, &vocabulary, seed, ["7", "<"][seed as usize % 2]);
        let tag = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
        let legal = tag.map_or(text.bytes().all(|b| b.is_ascii_digit()), |tag| (1..=3).contains(&tag.len()));
        assert!(!end || legal, "{text}");
    }
}

#[test]
fn control_tokens_count_as_text_where_the_format_spells_them_and_nowhere_else() {
    let (grammars, vocabulary) = (grammars(), vocabulary());
    let lark = Rule::Lark("start: \"<|call|>\" /[a-z]{1,4}/".into());
    let markup = Spec { any_of: vec![lark.clone()], start: Start::Immediately, markup: true };
    let (marked, plain) =
        (grammars.compile(&markup).unwrap(), grammars.compile(&Spec { markup: false, ..markup }).unwrap());
    let first =
        |grammar: &dyn Grammar, id: u32| grammar.matcher().mask().unwrap().unwrap()[id as usize / 32] >> (id % 32) & 1;
    assert_eq!((first(&*marked, CALL), first(&*plain, CALL)), (1, 0));
    let json = grammars.compile(&spec(Rule::JsonObject, Start::Immediately)).unwrap();
    for seed in 0..20 {
        assert!(walk(&*marked, &vocabulary, seed, "").1.starts_with("<|call|>"));
        assert!(!walk(&*json, &vocabulary, seed, "").0.contains(&CALL));
    }
}

#[test]
fn what_is_wrong_is_said() {
    let grammars = grammars();
    let refused = |rule: Rule, part: &str| {
        let why = grammars.compile(&spec(rule, Start::Immediately)).unwrap_err().to_string();
        assert!(why.contains(part), "`{why}` does not say `{part}`");
        assert!(why.len() < 500 && !why.contains('\n'), "{why}");
    };
    refused(Rule::Regex("[a-".into()), "regex");
    refused(Rule::Lark("start: nothing".into()), "nothing");
    refused(Rule::JsonSchema("{\"type\": \"banana\"}".into()), "banana");
    refused(Rule::JsonSchema("{\"$ref\": \"#/nowhere\"}".into()), "nowhere");
    let twice = spec(Rule::Lark("start: \"a\"".into()), Start::Triggered("b".into()));
    assert!(grammars.compile(&twice).unwrap_err().to_string().contains("trigger"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// However a marker is cut into tokens, the grammar begins right behind it.
    #[test]
    fn a_grammar_begins_behind_its_marker(seed in any::<u64>()) {
        let (grammars, vocabulary) = (grammars(), vocabulary());
        let start = Start::After("</think>".into());
        let grammar = grammars.compile(&spec(Rule::JsonSchema(schema().to_string()), start)).unwrap();
        let (_, text, ended) = walk(&*grammar, &vocabulary, seed, "</think>");
        prop_assert!(!ended || text.contains("</think>"), "it ended before the marker: {text}");
        if let Some((_, rest)) = text.split_once("</think>").filter(|_| ended) {
            prop_assert!(obeys(rest), "{}", rest);
        }
    }

    /// Free text may end; once the trigger is written, the grammar holds.
    #[test]
    fn a_grammar_begins_with_its_trigger(seed in any::<u64>()) {
        let (grammars, vocabulary) = (grammars(), vocabulary());
        let lark = Rule::Lark("start: \"<tool_call>\" /\\[[0-9]{1,3}\\]/".into());
        let grammar = grammars.compile(&spec(lark, Start::Triggered("<tool_call>".into()))).unwrap();
        let (_, text, ended) = walk(&*grammar, &vocabulary, seed, "<tool_call>");
        prop_assert!(ended, "{}", text);
        if let Some((_, rest)) = text.split_once("<tool_call>") {
            let digits = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            prop_assert!(digits.is_some_and(|d| (1..=3).contains(&d.len()) && d.bytes().all(|b| b.is_ascii_digit())), "{}", text);
        }
    }
}
