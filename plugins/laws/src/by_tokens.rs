//! Law of formats that take token ids: a special token is markup, and the same text made of ordinary tokens is text.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use sluicegate_sdk::config::{ParserConfig, ReasoningMode, SpecialToken};
use sluicegate_sdk::event::StopCause;
use sluicegate_sdk::format::Plugin;

use crate::assemble::run_tokens;
use crate::talk::{CASES_VARIABLE, Limits, Talk, compare, talks};
use crate::tools;

/// Stands for the text of a special token until the message is written.
const PLACE: char = '\u{E000}';
/// Ordinary tokens have ids from here on.
const ORDINARY: u32 = 1000;

/// Generated conversations whose texts are full of the format's own special tokens, spelt out in ordinary tokens, come
/// back whole. `encode` writes what the model would generate, as in the round trips.
pub fn assert_by_tokens(plugin: &Plugin, format: &str, limits: Limits, encode: impl Fn(&Talk) -> String) {
    let described = plugin.describe().into_iter().find(|d| d.name == format).expect("a format of the plugin");
    assert!(described.features.token_ids, "{format} takes no token ids");
    let specials = described.special_tokens;
    let cases = std::env::var(CASES_VARIABLE).ok().and_then(|n| n.parse().ok()).unwrap_or(100);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let result = runner.run(&(talks(limits), 0..specials.len()), |(mut talk, spelt)| {
        each_text(&mut talk, &|text| text.replace('<', &PLACE.to_string()));
        let tokens = tokenize(&encode(&talk), &specials, &specials[spelt]);
        each_text(&mut talk, &|text| text.replace(PLACE, &specials[spelt]));
        let config = ParserConfig {
            format: format.to_owned(),
            reasoning: if limits.reasoning { ReasoningMode::On } else { ReasoningMode::Off },
            special_tokens: (1..)
                .zip(&specials)
                .map(|(id, t)| SpecialToken { text: t.clone(), id: Some(id) })
                .collect(),
            ..ParserConfig::default()
        };
        let set = Arc::new(tools::digest(&talk.tools));
        let text: String = tokens.iter().map(|(text, _)| text.as_str()).collect();
        for most in [1, 3] {
            let deltas = group(&tokens, most);
            let deltas = deltas.iter().map(|(text, ids)| (text.as_str(), ids.as_slice()));
            let got = run_tokens(plugin, &config, &set, deltas, &StopCause::Eos(None)).map_err(TestCaseError::fail)?;
            compare(&talk, &got, &text).map_err(TestCaseError::fail)?;
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{format}: {error}");
    }
}

fn each_text(talk: &mut Talk, change: &impl Fn(&str) -> String) {
    talk.content = change(&talk.content);
    talk.reasoning = change(&talk.reasoning);
    talk.calls.iter_mut().flat_map(|call| call.arguments.values_mut()).for_each(|value| each_string(value, change));
}

fn each_string(value: &mut Value, change: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_string(item, change)),
        Value::Object(map) => map.values_mut().for_each(|item| each_string(item, change)),
        _ => {}
    }
}

/// One token for each special token and each character; what the place stands for is two ordinary tokens.
fn tokenize(wire: &str, specials: &[String], spelt: &str) -> Vec<(String, u32)> {
    let mut tokens = Vec::new();
    let mut rest = wire;
    while let Some(c) = rest.chars().next() {
        if let Some((id, token)) = (1..).zip(specials).find(|(_, token)| rest.starts_with(token.as_str())) {
            tokens.push((token.clone(), id));
            rest = &rest[token.len()..];
            continue;
        }
        if c == PLACE {
            let (a, b) = spelt.split_at(spelt.floor_char_boundary(spelt.len() / 2));
            tokens.extend([(a.to_owned(), ORDINARY), (b.to_owned(), ORDINARY + 1)]);
        } else {
            tokens.push((c.to_string(), ORDINARY + u32::from(c)));
        }
        rest = &rest[c.len_utf8()..];
    }
    tokens
}

/// Deltas of at most so many tokens; a special token comes alone.
fn group(tokens: &[(String, u32)], most: usize) -> Vec<(String, Vec<u32>)> {
    let ends = |a: &(String, u32), b: &(String, u32)| a.1 >= ORDINARY && b.1 >= ORDINARY;
    let runs = tokens.chunk_by(ends).flat_map(|run| run.chunks(most));
    runs.map(|run| (run.iter().map(|(t, _)| t.as_str()).collect(), run.iter().map(|(_, id)| *id).collect())).collect()
}
