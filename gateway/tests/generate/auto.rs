//! `format = "auto"` on model folders as they are published: config, added tokens and the telling part of the template.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{build, file};

/// A model folder under its served name.
struct Folder {
    name: &'static str,
    architecture: &'static str,
    tokens: &'static [&'static str],
    template: &'static str,
}

impl Folder {
    fn write(&self, n: usize) -> PathBuf {
        let folder = file("marker", "").parent().expect("a folder").join(format!("auto-{n}"));
        std::fs::create_dir_all(&folder).expect("created");
        let mut tokenizer: Value =
            serde_json::from_str(include_str!("../golden/deepseek/tiny-tokenizer.json")).expect("JSON");
        if !self.tokens.is_empty() {
            let added = tokenizer["added_tokens"].as_array_mut().expect("a list");
            for (token, text) in added.iter_mut().zip(self.tokens) {
                token["content"] = json!(text);
            }
            added.truncate(self.tokens.len());
        }
        let config = json!({"architectures": [self.architecture], "model_type": "any"});
        std::fs::write(folder.join("config.json"), config.to_string()).expect("written");
        std::fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).expect("written");
        if !self.template.is_empty() {
            std::fs::write(folder.join("chat_template.jinja"), self.template).expect("written");
        }
        folder
    }

    /// The format that its route has, or why it has none.
    fn route(&self, n: usize) -> Result<String, String> {
        let recording = file("auto.jsonl", "{\"finish\":\"stop\"}\n").display().to_string();
        let dir = self.write(n).display().to_string();
        let name = self.name;
        let toml = format!(
            "name = \"{name}\"\nformat = \"auto\"\n[upstream.replay]\nfile = {recording:?}\ntokenizer = {dir:?}\n"
        );
        let routes = build(&toml).map_err(|error| error.to_string())?;
        let route = routes.get(name).expect("the route");
        Ok(route.format.as_ref().expect("a format").name.clone())
    }
}

const fn model(
    name: &'static str,
    architecture: &'static str,
    tokens: &'static [&'static str],
    template: &'static str,
) -> Folder {
    Folder { name, architecture, tokens, template }
}

/// Expected format, model. Names of served models are chosen freely, so most of these say nothing.
const CLEAR: &[(&str, Folder)] = &[
    (
        "qwen3",
        model(
            "chat",
            "Qwen3ForCausalLM",
            &["<think>", "</think>", "<tool_call>"],
            "{{ '<tool_call>\\n' }}{{ '<think>\\n\\n</think>' }}",
        ),
    ),
    (
        "qwen3",
        model(
            "qwq-32b",
            "Qwen2ForCausalLM",
            &["<|im_end|>"],
            "{{ '<tool_call>\\n' }}{{ '<|im_start|>assistant\\n<think>\\n' }}",
        ),
    ),
    (
        "hermes",
        model(
            "chat",
            "Qwen2ForCausalLM",
            &["<tool_call>"],
            "For each function call, return a json object within <tool_call></tool_call> XML tags",
        ),
    ),
    (
        "hermes",
        model(
            "Hermes-3-Llama-3.1-8B",
            "LlamaForCausalLM",
            &["<|python_tag|>"],
            "within <tool_call> </tool_call> XML tags",
        ),
    ),
    (
        "qwen3_coder",
        model("coder", "Qwen3MoeForCausalLM", &["<tool_call>"], "<tool_call>\n<function=example>\n<parameter=p1>\n"),
    ),
    (
        "qwen3_coder",
        model(
            "any",
            "Qwen3_5MoeForConditionalGeneration",
            &["<think>"],
            "<tool_call>\n<function=example>\n<parameter=p1>\n{{ '<think>\\n' }}",
        ),
    ),
    (
        "nemotron3",
        model("any", "NemotronHForCausalLM", &["<think>"], "<tool_call>\n<function=example>\n<parameter=p1>\n"),
    ),
    ("nemotron_deci", model("any", "NemotronHForCausalLM", &["<think>"], "{{ '<TOOLCALL>[' }}")),
    ("mimo", model("any", "MiMoV2FlashForCausalLM", &[], "<tool_call>\n<function=example>\n<parameter=p1>v")),
    ("seed_oss", model("any", "SeedOssForCausalLM", &[], "<seed:tool_call>\n<function=example>\n<parameter=p1>")),
    ("step3p5", model("any", "Step3p5ForCausalLM", &[], "<tool_call>\n<function=example>\n<parameter=p1>")),
    ("glm47", model("any", "Glm4MoeForCausalLM", &[], "{{ '<tool_call>' + tc.name }}<arg_key>")),
    ("glm45", model("any", "Glm4MoeForCausalLM", &[], "{{ '\\n<tool_call>' + tc.name }}\n<arg_key>")),
    ("ling3", model("any", "BailingMoeV3ForCausalLM", &[], "<tool_call><arg_key>")),
    ("hunyuan", model("any", "HYV3ForCausalLM", &[], "<tool_calls>\n<tool_call>name<tool_sep>\n<arg_key>")),
    ("kimi_k2", model("any", "DeepseekV3ForCausalLM", &["<|tool_calls_section_begin|>"], "{{ '<|im_assistant|>' }}")),
    (
        "deepseek_v31",
        model("any", "DeepseekV3ForCausalLM", &[], "{% set thinking = false %}{{ '<｜tool▁calls▁begin｜>' }}"),
    ),
    (
        "deepseek_r1",
        model(
            "any",
            "DeepseekV3ForCausalLM",
            &[],
            "{{ '<｜tool▁calls▁begin｜>' }}{{ '```json' }}{{ '<｜Assistant｜><think>\\n' }}",
        ),
    ),
    (
        "deepseek_r1",
        model("DeepSeek-R1-Distill-Qwen-7B", "Qwen2ForCausalLM", &[], "{{ '<｜tool▁calls▁begin｜>' }}{{ '```json' }}"),
    ),
    ("deepseek_v32", model("any", "DeepseekV32ForCausalLM", &["｜DSML｜"], "")),
    ("deepseek_v4", model("any", "DeepseekV4ForCausalLM", &[], "")),
    ("minimax_m2", model("any", "MiniMaxM2ForCausalLM", &[], "{{ '<minimax:tool_call>' }}")),
    ("minimax_m3", model("any", "Other", &[], "{{ ']<]minimax[>[<tool_call>' }}")),
    (
        "llama3_json",
        model(
            "any",
            "LlamaForCausalLM",
            &["<|python_tag|>"],
            "Respond in the format {\"name\": function name, \"parameters\": dictionary of argument name and its value}",
        ),
    ),
    ("llama4_pythonic", model("any", "Llama4ForConditionalGeneration", &["<|python_start|>"], "[func_name1(...)]")),
    ("mistral", model("any", "MistralForCausalLM", &["[TOOL_CALLS]"], "{{ '[TOOL_CALLS] [' }}")),
    ("harmony", model("any", "GptOssForCausalLM", &[], "{{ '<|start|>assistant<|channel|>' }}")),
    ("beam", model("any", "Other", &[], "{{ '<|channel|>' }}<rfl:parameter name=")),
    ("gemma4", model("any", "Gemma4ForConditionalGeneration", &[], "{{ '<|channel>thought' }}")),
    ("granite", model("any", "GraniteForCausalLM", &["<|tool_call|>"], "{{ '<|tool_call|>' }}")),
    ("phi4_mini_json", model("any", "Phi3ForCausalLM", &["<|tool_call|>", "<|/tool_call|>"], "{{ '<|tool|>' }}")),
    ("apertus", model("any", "ApertusForCausalLM", &["<|inner_prefix|>"], "{{ '<|tools_prefix|>' }}")),
    ("k2_horizon", model("any", "Other", &[], "<ifm|tool_calls>\n<ifm|tool_call>")),
];

#[test]
fn published_models_get_their_format() {
    let wrong: Vec<String> = CLEAR
        .iter()
        .enumerate()
        .filter_map(|(n, (expected, folder))| match folder.route(n) {
            Ok(format) if format == *expected => None,
            got => Some(format!("{expected} ({}): {got:?}", folder.architecture)),
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Formats that could equally be meant, model.
const LOOK_ALIKES: &[(&[&str], Folder)] = &[
    (
        &["hermes", "qwen3"],
        model(
            "chat",
            "LlamaForCausalLM",
            &["<tool_call>"],
            "return a json object within <tool_call></tool_call> XML tags",
        ),
    ),
    (&["glm45", "glm47"], model("chat", "Other", &[], "<tool_call>{{ name }}<arg_key>")),
    (
        &["deepseek_r1", "deepseek_v3"],
        model(
            "chat",
            "DeepseekV3ForCausalLM",
            &[],
            "{{ '<｜tool▁calls▁begin｜>' }}{{ '```json' }}{{ '<｜Assistant｜>' }}",
        ),
    ),
];

#[test]
fn look_alikes_are_refused_by_name() {
    for (n, (candidates, folder)) in LOOK_ALIKES.iter().enumerate() {
        let error = folder.route(100 + n).expect_err("a tie");
        assert!(error.contains("does not guess between look-alikes"), "{error}");
        for candidate in *candidates {
            assert!(error.contains(&format!("\"{candidate}\"")), "{candidate} is named in {error}");
        }
    }
}

#[test]
fn a_model_that_nothing_speaks_for_is_refused() {
    let folder =
        model("smollm2", "LlamaForCausalLM", &["<|im_start|>", "<|im_end|>"], "{{ '<|im_start|>assistant\\n' }}");
    let error = folder.route(200).expect_err("nothing known");
    assert!(error.contains("finds no format") && error.contains("LlamaForCausalLM"), "{error}");
}

/// Without a model folder there is only the name.
#[test]
fn a_recording_goes_by_its_name() {
    let recording = file("auto.jsonl", "{\"finish\":\"stop\"}\n").display().to_string();
    let toml = |name: &str| format!("name = \"{name}\"\nformat = \"auto\"\n[upstream.replay]\nfile = {recording:?}\n");
    let routes = build(&toml("MiniMax-M2.5")).expect("the name says it");
    let route = routes.get("MiniMax-M2.5").expect("the route");
    assert_eq!(route.format.as_ref().expect("a format").name, "minimax_m2");
    let error = build(&toml("prod")).expect_err("the name says nothing").to_string();
    assert!(error.contains("name its format"), "{error}");
}

/// A tokenizer that declares its output needs no configuration; one that does not is refused before anything is served.
#[test]
fn a_declared_response_template_is_read_from_the_tokenizer() {
    let folder = model("own", "Other", &[], "{{ messages }}");
    let declared = json!({"version": 1, "fields": {"content": {}}});
    let dir = folder.write(300);
    std::fs::write(dir.join("tokenizer_config.json"), json!({"response_template": declared}).to_string())
        .expect("written");
    assert_eq!(folder.route(300).as_deref(), Ok("response_template"));
    let recording = file("auto.jsonl", "{\"finish\":\"stop\"}\n").display().to_string();
    let toml = |dir: &str, more: &str| {
        format!(
            "name = \"own\"\nformat = \"response_template\"\n{more}[upstream.replay]\nfile = {recording:?}\ntokenizer = {dir:?}\n"
        )
    };
    let options = |toml: &str| -> Result<Value, String> {
        let routes = build(toml).map_err(|error| error.to_string())?;
        let format = routes.get("own").expect("the route").format.clone().expect("a format");
        Ok(serde_json::from_str(&format.options).expect("JSON"))
    };
    let read = options(&toml(&dir.display().to_string(), "format_options = {after_calls = \"content\"}\n"));
    assert_eq!(read, Ok(json!({"after_calls": "content", "response_template": declared})));
    let given = options(&toml(&dir.display().to_string(), "format_options = {response_template = {fields = {}}}\n"));
    assert_eq!(given, Ok(json!({"response_template": {"fields": {}}})));
    let bare = model("own", "Other", &[], "{{ messages }}").write(301);
    let error = options(&toml(&bare.display().to_string(), "")).expect_err("nothing declared");
    assert!(
        error.contains("needs the option \"response_template\"") && error.contains("tokenizer_config.json"),
        "{error}"
    );
}
