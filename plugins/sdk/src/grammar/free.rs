//! Text that is certainly no call, for formats whose calls nothing marks.

use super::Job;
use super::lark::quote;
use crate::format::{Calls, Format};
use crate::syntax::Place;

/// A terminal: an answer that the parser reads as text from beginning to end. It does not begin like a call or like
/// reasoning, because a lexer must tell them apart by their first character.
pub(super) fn text(format: &Format, job: &mut Job<'_>) -> String {
    let openers = format.syntax().into_iter().flat_map(|s| s.openers());
    let (anywhere, start): (Vec<_>, Vec<_>) = openers.partition(|o| o.place == Place::Anywhere);
    let python = matches!(format.calls, Calls::Python(_));
    let mut never: Vec<String> = anywhere.iter().filter(|o| !python || o.text != "[").map(|o| quote(&o.text)).collect();
    if python {
        never.extend(job.tools.iter().map(|(tool, _)| format!("\"[\" /\\s*/ {} /\\s*/ \"(\"", quote(&tool.name))));
    }
    let think = format.think.iter().flat_map(|think| think.open.iter().copied());
    let begins = anywhere.iter().chain(&start).map(|o| o.text.as_str()).chain(think);
    let mut first: Vec<char> = begins.filter_map(|text| text.chars().next()).collect();
    first.sort_unstable();
    first.dedup();
    let class: String = first.iter().map(|c| format!("\\u{{{:x}}}", u32::from(*c))).collect();
    let text = format!("/(?s:[^\\s{class}].*)/");
    match never.is_empty() {
        true => job.lark.terminal(&text),
        false => job.lark.terminal(&format!("{text} & ~( ANY ({}) ANY )", never.join(" | "))),
    }
}
