//! Reasoning before calls: what the grammar covers and where it starts.

use super::lark::{Lark, either, quote};
use super::{GrammarInput, Start, parser_config};
use crate::format::Format;
use crate::think::Think;

/// Where the grammar starts, and the expression of reasoning that the model may open itself.
pub(super) fn begin(format: &Format, input: &GrammarInput, lark: &mut Lark) -> (Start, String) {
    let Some(think) = format.think else { return (Start::Immediately, String::new()) };
    let (inside, opener) = think.begin(&parser_config(input));
    if inside {
        return (Start::After(closer(&think, &input.prompt_tail)), String::new());
    }
    if !opener {
        return (Start::Immediately, String::new());
    }
    let closes = think.close.iter().map(|c| (*c).to_owned());
    let openers = format.openers().into_iter().filter(|_| think.calls_end_it);
    let never: Vec<String> = closes.chain(think.stems(think.close)).chain(openers).map(|text| quote(&text)).collect();
    let pairs = think.open.iter().zip(think.close.iter()).map(|(open, close)| {
        let text = lark.text_until(&never, &quote(close));
        let open = quote(&format!("{open}{}", think.label));
        format!("{open} {text}")
    });
    let pairs: Vec<String> = pairs.collect();
    let reasoning = lark.rule(&either(pairs));
    (Start::Immediately, format!("SPACE? {reasoning}?"))
}

/// The closer of the reasoning that the prompt opened: the one that goes with its opener, suffix included.
fn closer(think: &Think, prompt_tail: &str) -> String {
    let tail = prompt_tail.trim_end();
    let pair = think.open.iter().position(|open| tail.ends_with(open)).unwrap_or(0);
    let close = think.close.get(pair).or(think.close.first()).copied().unwrap_or_default();
    let suffix = think.stems(think.open).find_map(|stem| {
        let at = tail.rfind(&stem)?;
        tail[at + stem.len()..].strip_suffix('>')
    });
    match (suffix, close.strip_suffix('>')) {
        (Some(suffix), Some(stem)) => format!("{stem}:{suffix}>"),
        _ => close.to_owned(),
    }
}
