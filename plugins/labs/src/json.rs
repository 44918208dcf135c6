//! Formats whose calls are JSON between markers.

use sluicegate_sdk::calls::{JsonCalls, Named, Written};
use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::{Layout, Trim};
use sluicegate_sdk::format::{Calls, Format};
use sluicegate_sdk::syntax::Request;
use sluicegate_sdk::think::{Begins, Think};

const BASE: Format = Format { layout: Layout::LOOSE, ..Format::BASE };

/// All of this file.
pub(crate) const ALL: &[Format] = &[JSON, ERNIE45, LONGCAT, JAMBA, PHI4, INTERNLM, APERTUS, XLAM, GIGACHAT3, PLAMO3];

static BARE: JsonCalls = JsonCalls {
    starts: &["{", "["],
    args_keys: &["parameters", "arguments"],
    bare_arguments: true,
    written: Written::Array,
    ..JsonCalls::BASE
};

const JSON: Format = Format {
    name: "json",
    description: "A bare JSON object or array of calls of declared tools, as a grammar may force it",
    catalogue: &["J5"],
    aliases: &[("dynamo", "default"), ("smg", "json")],
    models: &["any model under a JSON schema"],
    calls: Calls::Json(&BARE),
    dropped: &["<TOOLCALL>", "</TOOLCALL>", "<|python_tag|>"],
    ..BASE
};

static ERNIE_CALLS: JsonCalls = JsonCalls { opens: &["<tool_call>"], closes: &["</tool_call>"], ..JsonCalls::BASE };

const ERNIE45: Format = Format {
    name: "ernie45",
    description: "JSON calls in <tool_call>, <think> reasoning opened by the prompt, <response> frame",
    catalogue: &["J2", "R13"],
    aliases: &[("vllm", "ernie45"), ("vllm-reasoning", "ernie45")],
    models: &["ERNIE-4.5 thinking"],
    hints: &[(Hint::Architecture("Ernie4_5_MoeForCausalLM"), 8), (Hint::Model("*ernie-4.5*"), 6)],
    think: Some(Think { begins: Begins::Inside, ..Think::TAGS }),
    calls: Calls::Json(&ERNIE_CALLS),
    dropped: &["<response>", "</response>"],
    end_tokens: &["</s>"],
    ..BASE
};

static LONGCAT_CALLS: JsonCalls =
    JsonCalls { opens: &["<longcat_tool_call>"], closes: &["</longcat_tool_call>"], ..JsonCalls::BASE };

const LONGCAT: Format = Format {
    name: "longcat",
    description: "JSON calls in <longcat_tool_call>",
    catalogue: &["J3"],
    aliases: &[("vllm", "longcat")],
    models: &["LongCat-Flash"],
    hints: &[(Hint::Template("<longcat_tool_call>"), 10), (Hint::Model("*longcat*"), 6)],
    calls: Calls::Json(&LONGCAT_CALLS),
    ..BASE
};

static JAMBA_CALLS: JsonCalls =
    JsonCalls { opens: &["<tool_calls>"], closes: &["</tool_calls>"], written: Written::Array, ..JsonCalls::BASE };

const JAMBA: Format = Format {
    name: "jamba",
    description: "JSON array in <tool_calls>",
    catalogue: &["J9"],
    aliases: &[("vllm", "jamba"), ("dynamo", "jamba")],
    models: &["Jamba 1.5", "Jamba 1.6"],
    hints: &[(Hint::Architecture("JambaForCausalLM"), 8), (Hint::Model("*jamba*"), 6)],
    special_tokens: &["<tool_calls>", "</tool_calls>"],
    calls: Calls::Json(&JAMBA_CALLS),
    ..BASE
};

static PHI_CALLS: JsonCalls = JsonCalls { opens: &["functools["], written: Written::Array, ..JsonCalls::BASE };

const PHI4: Format = Format {
    name: "phi4_mini_json",
    description: "JSON array behind functools",
    catalogue: &["J13"],
    aliases: &[("vllm", "phi4_mini_json"), ("dynamo", "phi4")],
    models: &["Phi-4-mini"],
    hints: &[
        (Hint::Model("*phi-4-mini*"), 8),
        (Hint::Architecture("Phi3ForCausalLM"), 2),
        (Hint::Token("<|/tool_call|>"), 4),
    ],
    calls: Calls::Json(&PHI_CALLS),
    end_tokens: &["<|end|>"],
    ..BASE
};

static PLUGIN_CALLS: JsonCalls = JsonCalls {
    opens: &["<|action_start|>"],
    closes: &["<|action_end|>"],
    ignored: &["<|plugin|>"],
    args_keys: &["parameters", "arguments"],
    written_open: Some("<|action_start|>~<|plugin|>"),
    ..JsonCalls::BASE
};

const INTERNLM: Format = Format {
    name: "internlm",
    description: "JSON calls between <|action_start|> and <|action_end|>, <think> reasoning",
    catalogue: &["J14", "R1"],
    aliases: &[("sglang", "interns1"), ("vllm", "internlm"), ("sglang-reasoning", "interns1")],
    models: &["InternLM2", "InternLM2.5", "InternLM3", "Intern-S1"],
    hints: &[(Hint::Token("<|action_start|>"), 8), (Hint::Model("*intern*"), 4)],
    special_tokens: &["<|action_start|>", "<|plugin|>", "<|action_end|>"],
    think: Some(Think::TAGS),
    calls: Calls::Json(&PLUGIN_CALLS),
    end_tokens: &["<|im_end|>"],
    ..BASE
};

static APERTUS_CALLS: JsonCalls = JsonCalls {
    opens: &["<|tools_prefix|>"],
    closes: &["<|tools_suffix|>"],
    name_is_key: true,
    written: Written::Array,
    ..JsonCalls::BASE
};

const APERTUS: Format = Format {
    name: "apertus",
    description: "JSON array in <|tools_prefix|>, the function's name as key; <|inner_prefix|> reasoning",
    catalogue: &["J16", "R29"],
    aliases: &[("sglang", "apertus2509"), ("vllm", "apertus"), ("sglang-reasoning", "apertus2509")],
    models: &["Apertus 2509"],
    hints: &[(Hint::Token("<|inner_prefix|>"), 10), (Hint::Architecture("ApertusForCausalLM"), 8)],
    special_tokens: &["<|tools_prefix|>", "<|tools_suffix|>", "<|inner_prefix|>", "<|inner_suffix|>"],
    think: Some(Think {
        open: &["<|inner_prefix|>"],
        close: &["<|inner_suffix|>"],
        anywhere: true,
        resumes: true,
        drop_stray_close: true,
        ..Think::TAGS
    }),
    calls: Calls::Json(&APERTUS_CALLS),
    end_tokens: &["<|assistant_end|>"],
    ..BASE
};

static XLAM_CALLS: JsonCalls = JsonCalls {
    opens: &["<tool_call>", "[TOOL_CALLS]"],
    starts: &["```json\n", "```\n", "["],
    closes: &["</tool_call>", "```"],
    closes_optional: true,
    written: Written::Array,
    written_open: Some(""),
    ..JsonCalls::BASE
};

const XLAM: Format = Format {
    name: "xlam",
    description: "JSON array, bare, fenced or in one of two wrappers",
    catalogue: &["J17"],
    aliases: &[("vllm", "xlam")],
    models: &["xLAM-2"],
    hints: &[(Hint::Model("*xlam*"), 8)],
    calls: Calls::Json(&XLAM_CALLS),
    ..BASE
};

static GIGACHAT_CALLS: JsonCalls = JsonCalls {
    opens: &[
        "<|message_sep|>\n\nfunction call<|role_sep|>\n",
        "<|message_sep|>function call<|role_sep|>\n",
        "<|function_call|>",
    ],
    written: Written::Single,
    ..JsonCalls::BASE
};

const GIGACHAT3: Format = Format {
    name: "gigachat3",
    description: "One JSON call in a message of the role function call",
    catalogue: &["J18"],
    aliases: &[("sglang", "gigachat3"), ("vllm", "gigachat3")],
    models: &["GigaChat 3"],
    hints: &[(Hint::Token("<|function_call|>"), 6), (Hint::Model("*gigachat3*"), 6)],
    special_tokens: &["<|message_sep|>", "<|role_sep|>", "<|function_call|>"],
    calls: Calls::Json(&GIGACHAT_CALLS),
    end_tokens: &["<|message_sep|>", "</s>"],
    ..BASE
};

/// `<|plamo:begin_tool_name:plamo|>NAME<|plamo:end_tool_name:plamo|>` and the opener of the arguments.
fn plamo_header(text: &str, _request: &Request, _index: u32) -> Option<Named> {
    let (_, rest) = text.split_once("<|plamo:begin_tool_name:plamo|>")?;
    let (name, _) = rest.split_once("<|plamo:end_tool_name:plamo|>")?;
    Some(Named { name: name.trim().to_owned(), id: None }).filter(|n| !n.name.is_empty())
}

static PLAMO_CALLS: JsonCalls = JsonCalls {
    opens: &["<|plamo:begin_tool_requests:plamo|>"],
    closes: &["<|plamo:end_tool_requests:plamo|>"],
    call_opens: &["<|plamo:begin_tool_request:plamo|>"],
    call_closes: &["<|plamo:end_tool_request:plamo|>"],
    header: Some(plamo_header),
    written: Written::Headed {
        before: "<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>",
        after: concat!(
            "<|plamo:end_tool_name:plamo|>",
            "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>",
        ),
        close: "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>",
    },
    ..JsonCalls::BASE
};

const PLAMO3: Format = Format {
    name: "plamo3",
    description: "JSON arguments behind a name, all in <|plamo:...|> markers; reasoning too",
    catalogue: &["J22", "R30"],
    aliases: &[("vllm", "plamo3"), ("vllm-reasoning", "plamo3")],
    models: &["PLaMo 3"],
    hints: &[(Hint::Architecture("Plamo3ForCausalLM"), 8), (Hint::Model("*plamo-3*"), 8)],
    special_tokens: &["<|plamo:begin_", "<|plamo:end_", ":plamo|>", "<|plamo:tag|>"],
    think: Some(Think {
        open: &["<|plamo:begin_think:plamo|>"],
        close: &["<|plamo:end_think:plamo|>"],
        begins: Begins::Inside,
        ..Think::TAGS
    }),
    calls: Calls::Json(&PLAMO_CALLS),
    layout: Layout { before_calls: Trim::Whitespace, ..Layout::NEWLINES },
    end_tokens: &["<|plamo:tag|>"],
    ..BASE
};
