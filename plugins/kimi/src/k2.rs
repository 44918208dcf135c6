//! Kimi K2: JSON arguments behind an id, between section tokens.

use sluicegate_sdk::calls::{JsonCalls, Named, Written};
use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format};
use sluicegate_sdk::syntax::Request;
use sluicegate_sdk::think::Think;

const ARGUMENTS: &str = "<|tool_call_argument_begin|>";

/// The id `functions.NAME:N` carries the name. Ids in other shapes are mended if only one reading is left.
fn header(text: &str, request: &Request, index: u32) -> Option<Named> {
    let id = text.trim().trim_end_matches(ARGUMENTS).trim();
    let (head, count) = id.rsplit_once(':').unwrap_or((id, ""));
    let name = head.strip_prefix("functions.").unwrap_or(head);
    let counted = !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit());
    if counted && !name.is_empty() {
        return Some(Named { name: name.to_owned(), id: Some(id.to_owned()) });
    }
    let name = guess(id, request)?;
    Some(Named { id: Some(make_id(request, &name, index)), name })
}

/// The declared tool that a malformed id can only mean.
fn guess(id: &str, request: &Request) -> Option<String> {
    let bare = id.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(['_', '-', '.', ':']);
    let tail = bare.strip_prefix("functions").map_or(bare, |t| t.trim_start_matches(['_', '-', '.']));
    for name in [id, bare, tail] {
        if request.tools.get(name).is_some() {
            return Some(name.to_owned());
        }
    }
    let mut tools = request.tools.iter();
    match (tail.is_empty(), tools.next(), tools.next()) {
        // A bare counter or nothing at all: clear only if there is one tool.
        (true, Some(only), None) => Some(only.name.clone()),
        (true, _, _) => None,
        (false, _, _) => Some(tail.to_owned()),
    }
}

/// Kimi counts calls over the whole conversation.
fn make_id(request: &Request, name: &str, index: u32) -> String {
    format!("functions.{name}:{}", request.history_calls + index)
}

static CALLS: JsonCalls = JsonCalls {
    opens: &["<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"],
    closes: &["<|tool_calls_section_end|>", "<|tool_call_section_end|>"],
    call_opens: &["<|tool_call_begin|>"],
    call_closes: &["<|tool_call_end|>"],
    header: Some(header),
    make_id: Some(make_id),
    written: Written::Headed {
        before: "<|tool_call_begin|>functions.",
        after: ":#<|tool_call_argument_begin|>",
        close: "<|tool_call_end|>",
    },
    ..JsonCalls::BASE
};

/// Kimi-K2: a section of calls ends reasoning.
pub(crate) const K2: Format = Format {
    name: "kimi_k2",
    description: "JSON calls behind ids between section tokens, <think> reasoning",
    catalogue: &["J21", "R2", "R5"],
    aliases: &[
        ("sglang", "kimi_k2"),
        ("vllm", "kimi_k2"),
        ("dynamo", "kimi_k2"),
        ("smg", "kimik2"),
        ("sglang-reasoning", "kimi_k2"),
        ("vllm-reasoning", "kimi_k2"),
        ("dynamo-reasoning", "kimi_k25"),
        ("smg-reasoning", "kimi_k25"),
        ("smg-reasoning", "kimi_thinking"),
    ],
    models: &["Kimi-K2-Instruct", "Kimi-K2-Thinking", "Kimi-K2.5", "Kimi-K2.6"],
    hints: &[(Hint::Token("<|tool_calls_section_begin|>"), 10), (Hint::Model("*kimi-k2*"), 6)],
    special_tokens: &[
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
        "<|tool_call_begin|>",
        "<|tool_call_end|>",
        ARGUMENTS,
        "<|im_end|>",
    ],
    think: Some(Think::TAGS),
    calls: Calls::Json(&CALLS),
    layout: Layout::LOOSE,
    end_tokens: &["<|im_end|>"],
    ..Format::BASE
};
