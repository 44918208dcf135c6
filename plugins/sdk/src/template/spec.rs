//! A tokenizer's `response_template`, compiled: fields with openers, closers and content parsers.

use regex_lite::Regex;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The declaration as JSON.
#[derive(Debug, Deserialize)]
struct Raw {
    #[serde(default)]
    version: Option<u32>,
    #[serde(default)]
    defaults: Map<String, Value>,
    #[serde(default)]
    start_anchor: Option<String>,
    #[serde(default)]
    start_anchor_pattern: Option<String>,
    fields: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawField {
    open: Option<Texts>,
    open_pattern: Option<String>,
    close: Option<Texts>,
    close_pattern: Option<String>,
    content: Option<String>,
    content_args: Map<String, Value>,
    join: Option<String>,
    transform: Option<Value>,
    transform_each: Option<Value>,
}

/// Where a field begins or ends.
#[derive(Debug)]
pub(super) enum Edge {
    /// At this text.
    Literal(String),
    /// At this text if it goes on as the pattern says, up to the shortest text that fits.
    Pattern(String, Regex),
}

impl Edge {
    /// The text to look for.
    pub(super) fn literal(&self) -> &str {
        match self {
            Edge::Literal(text) | Edge::Pattern(text, _) => text,
        }
    }
}

/// What a field's text is.
#[derive(Debug)]
pub(super) enum Content {
    Text,
    Int,
    Float,
    Bool,
    /// JSON; with `true`, other text counts as a string.
    Json(bool),
    /// Elements of this pattern with the groups `key` and `value`.
    Tags(Regex),
    /// Lines and what stands between key and value.
    Lines(String, String),
}

/// What becomes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Content,
    Thinking,
    Calls,
    Other,
}

/// One field.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) target: Target,
    pub(super) open: Vec<Edge>,
    pub(super) close: Vec<Edge>,
    pub(super) content: Content,
    pub(super) join: String,
    pub(super) transform: Option<Value>,
    /// `transform` applies to each element of a list.
    pub(super) each: bool,
}

/// Where the part of a prompt begins that belongs to the answer.
#[derive(Debug)]
pub(super) enum Anchor {
    None,
    Literal(String),
    Pattern(Regex),
}

/// A compiled declaration.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) anchor: Anchor,
    pub(super) fields: Vec<Field>,
    /// The field that takes what no other one takes.
    pub(super) sink: Option<usize>,
}

impl Spec {
    /// Compiles a declaration; the error says what is wrong where.
    pub(super) fn compile(declaration: &Value) -> Result<Spec, String> {
        let raw = Raw::deserialize(declaration).map_err(|e| e.to_string())?;
        if raw.version.is_some_and(|v| v != 1) {
            return Err(format!("version {} is not supported, only 1", raw.version.unwrap_or_default()));
        }
        let anchor = match (raw.start_anchor, raw.start_anchor_pattern) {
            (Some(text), _) => Anchor::Literal(text),
            (None, Some(pattern)) => Anchor::Pattern(regex(&pattern)?),
            (None, None) => Anchor::None,
        };
        let mut fields = Vec::new();
        for (name, own) in &raw.fields {
            let mut merged = raw.defaults.clone();
            merged.extend(own.as_object().cloned().unwrap_or_default());
            let parsed = RawField::deserialize(&Value::Object(merged)).map_err(|e| format!("field {name}: {e}"))?;
            fields.push(field(name, parsed).map_err(|e| format!("field {name}: {e}"))?);
        }
        let mut sinks = fields.iter().enumerate().filter(|(_, f)| f.open.is_empty()).map(|(n, _)| n);
        let sink = sinks.next();
        if sinks.next().is_some() {
            return Err("more than one field has no opener".to_owned());
        }
        Ok(Spec { anchor, fields, sink })
    }
}

fn field(name: &str, raw: RawField) -> Result<Field, String> {
    let target = match name {
        "content" => Target::Content,
        "thinking" => Target::Thinking,
        "tool_calls" => Target::Calls,
        _ => Target::Other,
    };
    let each = raw.transform_each.is_some();
    Ok(Field {
        name: name.to_owned(),
        target,
        open: edges(raw.open, raw.open_pattern)?,
        close: edges(raw.close, raw.close_pattern)?,
        content: content(raw.content.as_deref().unwrap_or("text"), &raw.content_args)?,
        join: raw.join.unwrap_or_default(),
        transform: raw.transform_each.or(raw.transform),
        each,
    })
}

fn edges(texts: Option<Texts>, pattern: Option<String>) -> Result<Vec<Edge>, String> {
    let texts = match texts {
        None => Vec::new(),
        Some(Texts::One(text)) => vec![text],
        Some(Texts::Many(texts)) => texts,
    };
    let mut edges: Vec<Edge> = texts.into_iter().filter(|t| !t.is_empty()).map(Edge::Literal).collect();
    if let Some(pattern) = pattern {
        let prefix = literal_prefix(&pattern);
        if prefix.is_empty() {
            return Err(format!(
                "the pattern {pattern:?} does not begin with a literal, so it can't be found in a stream"
            ));
        }
        edges.push(Edge::Pattern(prefix, regex(&format!("^(?:{pattern})$"))?));
    }
    Ok(edges)
}

fn content(name: &str, args: &Map<String, Value>) -> Result<Content, String> {
    let text = |key: &str, default: &str| args.get(key).and_then(Value::as_str).unwrap_or(default).to_owned();
    Ok(match name {
        "text" => Content::Text,
        "int" => Content::Int,
        "float" => Content::Float,
        "bool" => Content::Bool,
        "json" => {
            if let Some(key) = ["unquoted_keys", "string_delims"].iter().find(|key| args.contains_key(**key)) {
                return Err(format!("content_args {key} is not supported"));
            }
            Content::Json(args.get("allow_non_json").and_then(Value::as_bool).unwrap_or(false))
        }
        "xml-inline" => {
            let pattern = regex(&text("tag_pattern", ""))?;
            let names: Vec<&str> = pattern.capture_names().flatten().collect();
            if !names.contains(&"key") || !names.contains(&"value") {
                return Err("tag_pattern needs the groups key and value".to_owned());
            }
            Content::Tags(pattern)
        }
        "kv-lines" => Content::Lines(text("line_sep", "\n"), text("kv_sep", ":")),
        other => {
            return Err(format!("content {other:?} is not one of text, int, float, bool, json, xml-inline, kv-lines"));
        }
    })
}

fn regex(pattern: &str) -> Result<Regex, String> {
    // Python's name for lazy dots over lines and for groups is the same here.
    Regex::new(&format!("(?s){pattern}")).map_err(|e| format!("pattern {pattern:?}: {e}"))
}

/// The literal text that every match of `pattern` begins with.
fn literal_prefix(pattern: &str) -> String {
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        let literal = match c {
            '\\' => match chars.next() {
                Some(escaped) if !escaped.is_ascii_alphanumeric() => escaped,
                _ => break,
            },
            '(' | '[' | '.' | '^' | '$' | '|' | '*' | '+' | '?' | '{' => break,
            other => other,
        };
        if matches!(chars.peek(), Some('*' | '?' | '{')) {
            break;
        }
        out.push(literal);
    }
    if pattern.contains('|') && !pattern.contains("\\|") { String::new() } else { out }
}
