//! Whatever a model writes, its stream ends in a defined way: ten thousand damaged outputs through the real components.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{registry, replay, request, run};

const MUTATIONS: usize = 10_000;
const CASES: &str = include_str!("../../../plugins/cases/parser_cases.json");

/// SplitMix64: the same damage in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % end.max(1) as u64).expect("below a usize")
    }
}

/// The outputs of the cases, by format.
fn outputs() -> BTreeMap<String, Vec<Vec<char>>> {
    let cases: Vec<Value> = serde_json::from_str(CASES).expect("JSON");
    let mut outputs = BTreeMap::<String, Vec<Vec<char>>>::new();
    for case in &cases {
        let format = case["format"].as_str().expect("a name");
        let chunks = case["chunks"].as_array().expect("a list").iter().filter_map(Value::as_str);
        let format = format.strip_prefix("reasoning:").unwrap_or(format);
        outputs.entry(format.to_owned()).or_default().push(chunks.flat_map(str::chars).collect());
    }
    outputs
}

/// Cuts a piece out, doubles one, moves one in from another output of the format, or writes noise over it; up to four times.
fn damage(outputs: &[Vec<char>], random: &mut Random) -> Vec<char> {
    let mut text = outputs[random.below(outputs.len())].clone();
    for _ in 0..=random.below(3) {
        let from = random.below(text.len());
        let to = (from + 1 + random.below(24)).min(text.len());
        let piece: Vec<char> = match random.below(4) {
            0 => Vec::new(),
            1 => text[from.min(to)..to].repeat(2),
            2 => {
                let other = &outputs[random.below(outputs.len())];
                let start = random.below(other.len());
                other[start..(start + random.below(40)).min(other.len())].to_vec()
            }
            _ => "\u{0}\"}{<|\\é🌊".chars().cycle().skip(random.below(9)).take(random.below(6)).collect(),
        };
        text.splice(from.min(to)..to, piece);
    }
    text
}

/// One recording of damaged text in chunks of random size; every fifth is cut by the token limit.
fn write(file: &mut String, marker: &str, text: &[char], random: &mut Random) {
    let tail = if random.below(2) == 0 { "<think>" } else { "" };
    let header = json!({"recording": marker, "match": marker, "prompt_tail": tail});
    writeln!(file, "{header}").expect("writing to a String");
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at((1 + random.below(30)).min(rest.len()));
        writeln!(file, "{}", json!({"text": piece.iter().collect::<String>()})).expect("writing to a String");
        rest = after;
    }
    let finish = if random.below(5) == 0 { "length" } else { "stop" };
    writeln!(file, "{}", json!({"finish": finish})).expect("writing to a String");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_output_ends_in_a_defined_way() {
    let (outputs, mut random) = (outputs(), Random(7));
    let each = MUTATIONS.div_ceil(outputs.len());
    for (format, outputs) in &outputs {
        let mut file = String::new();
        for n in 0..each {
            write(&mut file, &format!("[{n}]"), &damage(outputs, &mut random), &mut random);
        }
        let route = replay(format, &format!("damaged-{format}.jsonl"), &file);
        for n in 0..each {
            let (message, error) = run(&route, request(&format!("[{n}]"))).await;
            assert_eq!(error, None, "{format} [{n}]");
            assert!(message.finish_reason.is_some(), "{format} [{n}]");
        }
    }
    let totals = registry().status().totals;
    assert_eq!((totals.streams_failed, totals.failures_trap, totals.failures_time), (0, 0, 0), "{totals:?}");
}
