//! DeepSeek V3, R1 and V3.1: JSON arguments behind a header, between section tokens.

use sluicegate_sdk::calls::{JsonCalls, Named, Written};
use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format};
use sluicegate_sdk::syntax::Request;
use sluicegate_sdk::think::{Begins, Think};

const SEP: &str = "<｜tool▁sep｜>";

/// V3 writes `function<sep>NAME` and opens a fence, V3.1 `NAME<sep>`; both are read.
fn header(text: &str, _request: &Request, _index: u32) -> Option<Named> {
    let (before, after) = text.split_once(SEP)?;
    let after = after.trim().trim_end_matches("```json").trim_end_matches("```").trim();
    let name = if after.is_empty() { before.trim() } else { after };
    (!name.is_empty()).then(|| Named { name: name.to_owned(), id: None })
}

const CALLS: JsonCalls = JsonCalls {
    opens: &["<｜tool▁calls▁begin｜>"],
    closes: &["<｜tool▁calls▁end｜>"],
    call_opens: &["<｜tool▁call▁begin｜>"],
    call_closes: &["<｜tool▁call▁end｜>"],
    header: Some(header),
    ..JsonCalls::BASE
};

static FENCED: JsonCalls = JsonCalls {
    written: Written::Headed {
        before: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
        after: "\n```json\n",
        close: "\n```<｜tool▁call▁end｜>",
    },
    ..CALLS
};

static INLINE: JsonCalls = JsonCalls {
    written: Written::Headed { before: "<｜tool▁call▁begin｜>", after: SEP, close: "<｜tool▁call▁end｜>" },
    ..CALLS
};

const END_OF_SENTENCE: &str = "<｜end▁of▁sentence｜>";

/// Nothing but the first closer ends reasoning; later tags are text.
const THINK: Think = Think { calls_end_it: true, ..Think::TAGS };

const BASE: Format = Format {
    special_tokens: &[
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>",
        SEP,
        END_OF_SENTENCE,
    ],
    think: Some(THINK),
    calls: Calls::Json(&FENCED),
    layout: Layout::LOOSE,
    end_tokens: &[END_OF_SENTENCE],
    ..Format::BASE
};

/// DeepSeek-V3: reasoning only if asked for.
pub(crate) const V3: Format = Format {
    name: "deepseek_v3",
    description: "Fenced JSON calls between section tokens, opt-in <think> reasoning",
    catalogue: &["J19", "R3"],
    aliases: &[
        ("sglang", "deepseekv3"),
        ("vllm", "deepseek_v3"),
        ("dynamo", "deepseek_v3"),
        ("smg", "deepseek"),
        ("sglang-reasoning", "deepseek-v3"),
        ("vllm-reasoning", "deepseek_v3"),
    ],
    models: &["DeepSeek-V3", "DeepSeek-V3-0324"],
    hints: &[
        (Hint::Template("<｜tool▁calls▁begin｜>"), 8),
        (Hint::Template("```json"), 3),
        (Hint::Model("*deepseek-v3*"), 4),
        (Hint::Architecture("DeepseekV3ForCausalLM"), 2),
    ],
    ..BASE
};

/// DeepSeek-R1: always reasons.
pub(crate) const R1: Format = Format {
    name: "deepseek_r1",
    description: "Fenced JSON calls between section tokens, <think> reasoning that is always on",
    catalogue: &["J19", "R2"],
    aliases: &[
        ("sglang-reasoning", "deepseek-r1"),
        ("vllm-reasoning", "deepseek_r1"),
        ("dynamo-reasoning", "deepseek_r1"),
        ("dynamo-reasoning", "deepseek_v3"),
        ("dynamo-reasoning", "deepseek_v3_1"),
        ("dynamo-reasoning", "deepseek_v3_2"),
        ("smg-reasoning", "deepseek_r1"),
    ],
    models: &["DeepSeek-R1", "DeepSeek-R1-0528", "DeepSeek-R1-Distill"],
    hints: &[
        (Hint::Template("<｜tool▁calls▁begin｜>"), 8),
        (Hint::Template("```json"), 3),
        (Hint::Template("<｜Assistant｜><think>"), 4),
        (Hint::Model("*deepseek-r1*"), 8),
        (Hint::Architecture("DeepseekV3ForCausalLM"), 2),
    ],
    think: Some(Think { begins: Begins::Inside, ..THINK }),
    ..BASE
};

/// DeepSeek-V3.1: no type word, no fence.
pub(crate) const V31: Format = Format {
    name: "deepseek_v31",
    description: "JSON calls between section tokens, opt-in <think> reasoning",
    catalogue: &["J20", "R3"],
    aliases: &[
        ("sglang", "deepseekv31"),
        ("vllm", "deepseek_v31"),
        ("dynamo", "deepseek_v3_1"),
        ("smg", "deepseek31"),
        ("smg-reasoning", "deepseek_v31"),
    ],
    models: &["DeepSeek-V3.1", "DeepSeek-V3.1-Terminus", "DeepSeek-V3.2-Exp"],
    hints: &[
        (Hint::Template("<｜tool▁calls▁begin｜>"), 8),
        (Hint::Template("set thinking = false"), 4),
        (Hint::Model("*deepseek-v3.1*"), 8),
        (Hint::Architecture("DeepseekV3ForCausalLM"), 2),
    ],
    calls: Calls::Json(&INLINE),
    ..BASE
};
