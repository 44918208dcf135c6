//! Format plugin of the Mistral family: `[TOOL_CALLS]` with an array or with names before their arguments.

use sluicegate_sdk::calls::{JsonCalls, Named, Written};
use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format, Plugin};
use sluicegate_sdk::syntax::Request;
use sluicegate_sdk::think::Think;

/// `name[ARGS]` or `name[CALL_ID]id[ARGS]`; the marker is optional before `{`.
fn header(text: &str, _request: &Request, _index: u32) -> Option<Named> {
    let (name, rest) = text.split_once('[').unwrap_or((text, ""));
    let id = rest.strip_prefix("CALL_ID]").and_then(|r| r.split('[').next()).map(str::trim);
    let name = name.trim();
    let id = id.filter(|id| !id.is_empty()).map(str::to_owned);
    (!name.is_empty()).then(|| Named { name: name.to_owned(), id })
}

/// Mistral's renderer accepts ids of exactly nine letters and digits.
fn make_id(request: &Request, _name: &str, index: u32) -> String {
    format!("{:09}", (request.history_calls + index) % 1_000_000_000)
}

static CALLS: JsonCalls = JsonCalls {
    opens: &["[TOOL_CALLS]"],
    closes: &["[/TOOL_CALLS]"],
    closes_optional: true,
    header: Some(header),
    make_id: Some(make_id),
    // The array of older models is read, but what is written is what the current ones write.
    written: Written::Headed { before: "[TOOL_CALLS]", after: "[ARGS]", close: "" },
    written_open: Some(""),
    ..JsonCalls::BASE
};

/// All Mistral models; `[THINK]` where they reason.
const MISTRAL: Format = Format {
    name: "mistral",
    description: "[TOOL_CALLS] with an array of calls or names before their arguments, [THINK] reasoning",
    catalogue: &["J6", "J7", "R18"],
    aliases: &[
        ("sglang", "mistral"),
        ("vllm", "mistral"),
        ("dynamo", "mistral"),
        ("smg", "mistral"),
        ("sglang-reasoning", "mistral"),
        ("vllm-reasoning", "mistral"),
        ("dynamo-reasoning", "mistral"),
    ],
    models: &[
        "Mistral 7B v0.3",
        "Mixtral",
        "Mistral Nemo",
        "Mistral Small",
        "Magistral",
        "Devstral",
        "Mistral Large 3",
    ],
    hints: &[
        (Hint::Token("[TOOL_CALLS]"), 8),
        (Hint::Architecture("MistralForCausalLM"), 4),
        (Hint::Architecture("Mistral3ForConditionalGeneration"), 6),
        (Hint::Model("*mistral*"), 4),
    ],
    special_tokens: &["[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"],
    think: Some(Think { open: &["[THINK]", "<think>"], close: &["[/THINK]", "</think>"], ..Think::TAGS }),
    calls: Calls::Json(&CALLS),
    layout: Layout::LOOSE,
    end_tokens: &["</s>"],
    ..Format::BASE
};

/// The formats of this component.
pub fn plugin() -> Plugin {
    Plugin::new("mistral", env!("CARGO_PKG_VERSION"), "Mistral, Magistral, Devstral", &[MISTRAL])
}

sluicegate_sdk::export!(crate::plugin);
