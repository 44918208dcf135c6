//! tokenizer.json and tokenizer_config.json out of a GGUF file's vocabulary: byte-level BPE only.

use serde_json::{Map, Value, json};

use super::super::WeightsError;
use super::super::gguf::{Gguf, GgufValue};
use super::gguf_config::{token_id, token_text};

/// ggml's token types that become added tokens.
const UNKNOWN: u64 = 2;
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;

/// tokenizer.json.
pub(super) fn tokenizer(gguf: &Gguf) -> Result<Value, WeightsError> {
    let refuse = |what: String| WeightsError::unsupported(gguf.path(), what);
    let model = gguf.text("tokenizer.ggml.model").unwrap_or("(none)");
    if model != "gpt2" {
        return Err(refuse(format!("tokenizer model `{model}` is not supported: byte-level BPE (gpt2) is")));
    }
    let pre = gguf.text("tokenizer.ggml.pre").unwrap_or("gpt-2");
    let pre_tokenizer = pre_tokenizer(pre).ok_or_else(|| refuse(format!("pre-tokenizer `{pre}` is not supported")))?;
    let tokens = texts(gguf, "tokenizer.ggml.tokens")?;
    let merges = texts(gguf, "tokenizer.ggml.merges")?;
    let merges = merges.into_iter().map(|m| {
        let pair = m.split_once(' ').filter(|(_, b)| !b.contains(' '));
        pair.map(|(a, b)| json!([a, b])).ok_or_else(|| refuse(format!("merge `{m}` is not a pair")))
    });
    let vocab: Map<String, Value> = tokens.iter().enumerate().map(|(i, t)| ((*t).to_owned(), i.into())).collect();
    if vocab.len() != tokens.len() {
        return Err(refuse("a token is in the vocabulary twice".into()));
    }
    Ok(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added_tokens(gguf, &tokens)?,
        "normalizer": null,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": post_processor(gguf),
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": false,
            "vocab": vocab,
            "merges": merges.collect::<Result<Vec<_>, _>>()?,
        },
    }))
}

/// tokenizer_config.json with the chat template.
pub(super) fn tokenizer_config(gguf: &Gguf) -> Result<Value, WeightsError> {
    let added = added_tokens(gguf, &texts(gguf, "tokenizer.ggml.tokens")?)?;
    let decoder: Map<String, Value> = added
        .into_iter()
        .filter_map(|mut t| {
            let id = t.as_object_mut()?.shift_remove("id")?;
            Some((id.to_string(), t))
        })
        .collect();
    Ok(json!({
        "tokenizer_class": "GPT2Tokenizer",
        "add_prefix_space": false,
        "add_bos_token": adds_bos(gguf),
        "added_tokens_decoder": decoder,
        "bos_token": token_text(gguf, "bos"),
        "eos_token": token_text(gguf, "eos"),
        "pad_token": token_text(gguf, "padding"),
        "unk_token": token_text(gguf, "unknown"),
        "clean_up_tokenization_spaces": false,
        "model_max_length": gguf.integer("llama.context_length"),
        "chat_template": gguf.text("tokenizer.chat_template"),
    }))
}

/// special_tokens_map.json.
pub(super) fn special_tokens_map(gguf: &Gguf) -> Result<Value, WeightsError> {
    let roles = [("bos_token", "bos"), ("eos_token", "eos"), ("pad_token", "padding"), ("unk_token", "unknown")];
    Ok(roles.iter().map(|(key, role)| ((*key).to_owned(), token_text(gguf, role).into())).collect::<Map<_, _>>().into())
}

/// llama.cpp's name of a pre-tokenizer, as tokenizer.json describes it. Others split by rules not checked against it.
fn pre_tokenizer(name: &str) -> Option<Value> {
    let gpt2 = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let digits = json!({"type": "Digits", "individual_digits": true});
    match name {
        "gpt-2" => Some(gpt2),
        // Every digit alone, then GPT-2's expression.
        "smollm" | "starcoder" | "refact" | "command-r" => {
            Some(json!({"type": "Sequence", "pretokenizers": [digits, gpt2]}))
        }
        _ => None,
    }
}

fn adds_bos(gguf: &Gguf) -> bool {
    matches!(gguf.value("tokenizer.ggml.add_bos_token"), Some(GgufValue::Bool(true)))
}

/// Puts the beginning-of-sequence token in front, where the model wants it.
fn post_processor(gguf: &Gguf) -> Value {
    let bos = token_text(gguf, "bos").zip(token_id(gguf, "bos")).filter(|_| adds_bos(gguf));
    let Some((text, id)) = bos else { return Value::Null };
    let special = json!({"SpecialToken": {"id": text, "type_id": 0}});
    let sequence = |id: &str, type_id: u32| json!({"Sequence": {"id": id, "type_id": type_id}});
    json!({
        "type": "TemplateProcessing",
        "single": [special, sequence("A", 0)],
        "pair": [special, sequence("A", 0), sequence("B", 1)],
        "special_tokens": {text: {"id": text, "ids": [id], "tokens": [text]}},
    })
}

fn added_tokens(gguf: &Gguf, tokens: &[&str]) -> Result<Vec<Value>, WeightsError> {
    let types = gguf.list("tokenizer.ggml.token_type").filter(|t| t.len() == tokens.len());
    let types = types.ok_or_else(|| {
        WeightsError::unsupported(gguf.path(), "metadata `tokenizer.ggml.token_type` is missing or of another length")
    })?;
    let kind = |v: &GgufValue| match v {
        GgufValue::Unsigned(k) => *k,
        GgufValue::Signed(k) => (*k).try_into().unwrap_or(0),
        _ => 0,
    };
    let added = tokens.iter().zip(types).enumerate().filter_map(|(id, (text, k))| {
        let k = kind(k);
        [UNKNOWN, CONTROL, USER_DEFINED].contains(&k).then(|| {
            json!({
                "id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": k == CONTROL,
            })
        })
    });
    Ok(added.collect())
}

fn texts<'a>(gguf: &'a Gguf, key: &str) -> Result<Vec<&'a str>, WeightsError> {
    let wrong = || WeightsError::unsupported(gguf.path(), format!("metadata `{key}` is not a list of strings"));
    let list = gguf.list(key).ok_or_else(wrong)?;
    let text = |v: &'a GgufValue| if let GgufValue::Text(t) = v { Ok(t.as_str()) } else { Err(wrong()) };
    list.iter().map(text).collect()
}
