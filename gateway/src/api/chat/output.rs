//! What the answer's text must look like: OpenAI's `response_format`, vLLM's `structured_outputs` and its older `guided_*`.

use serde_json::value::RawValue;

use super::request::{check, invalid};
use super::wire;
use crate::chat::ResponseFormat;
use crate::error::Error;

/// Most texts to choose from, and most bytes of a regular expression or grammar.
const MAX_CHOICES: usize = 4096;
const MAX_BYTES: usize = 256 << 10;

/// Takes the fields out of the body. At most one of them may say something.
pub(super) fn build(body: &mut wire::Body) -> Result<ResponseFormat, Error> {
    let outputs = body.structured_outputs.take().unwrap_or_default();
    check(outputs.structural_tag.is_none(), "structured_outputs.structural_tag", "is not supported; use grammar")?;
    let json = |field: &str, schema: Option<Box<RawValue>>| {
        schema.map(|schema| Ok::<_, Error>((field.to_owned(), schema_of(field, schema)?))).transpose()
    };
    let field = |name: &str| format!("structured_outputs.{name}");
    let found = [
        response_format(body.response_format.take())?.map(|format| ("response_format".to_owned(), format)),
        json("structured_outputs.json", outputs.json)?,
        json("guided_json", body.guided_json.take())?,
        (outputs.json_object == Some(true)).then(|| (field("json_object"), ResponseFormat::JsonObject)),
        outputs.regex.map(|regex| (field("regex"), ResponseFormat::Regex(regex))),
        body.guided_regex.take().map(|regex| ("guided_regex".to_owned(), ResponseFormat::Regex(regex))),
        outputs.choice.map(|texts| (field("choice"), ResponseFormat::Choice(texts))),
        body.guided_choice.take().map(|texts| ("guided_choice".to_owned(), ResponseFormat::Choice(texts))),
        outputs.grammar.map(|lark| (field("grammar"), ResponseFormat::Grammar(lark))),
        body.guided_grammar.take().map(|lark| ("guided_grammar".to_owned(), ResponseFormat::Grammar(lark))),
    ];
    let mut found = found.into_iter().flatten();
    let Some((field, format)) = found.next() else { return Ok(ResponseFormat::Text) };
    if let Some((other, _)) = found.next() {
        return Err(invalid(other, &format!("{field} is there too; give one of them")));
    }
    match &format {
        ResponseFormat::Choice(texts) => {
            check((1..=MAX_CHOICES).contains(&texts.len()), &field, &format!("must be 1 to {MAX_CHOICES} texts"))?;
            for (i, text) in texts.iter().enumerate() {
                check(!text.is_empty(), format!("{field}[{i}]"), "must not be empty")?;
            }
        }
        ResponseFormat::Regex(text) | ResponseFormat::Grammar(text) => {
            let fits = (1..=MAX_BYTES).contains(&text.len());
            check(fits, &field, &format!("must be 1 to {MAX_BYTES} bytes"))?;
        }
        _ => {}
    }
    Ok(format)
}

fn response_format(format: Option<wire::ResponseFormat>) -> Result<Option<ResponseFormat>, Error> {
    let Some(format) = format else { return Ok(None) };
    match format.r#type.as_str() {
        "text" => Ok(None),
        "json_object" => Ok(Some(ResponseFormat::JsonObject)),
        "json_schema" => {
            let at = "response_format.json_schema.schema";
            let schema = format.json_schema.and_then(|s| s.schema).ok_or_else(|| invalid(at, "is required"))?;
            schema_of(at, schema).map(Some)
        }
        _ => Err(invalid("response_format.type", "must be \"text\", \"json_object\" or \"json_schema\"")),
    }
}

/// A schema, as an object or as vLLM takes it too: a string that holds one.
fn schema_of(field: &str, schema: Box<RawValue>) -> Result<ResponseFormat, Error> {
    let schema = if schema.get().trim_start().starts_with('"') {
        let broken = |_| invalid(field, "is a string without a JSON Schema object in it");
        let text: String = serde_json::from_str(schema.get()).map_err(broken)?;
        RawValue::from_string(text).map_err(broken)?
    } else {
        schema
    };
    check(schema.get().trim_start().starts_with('{'), field, "must be an object")?;
    Ok(ResponseFormat::JsonSchema(schema))
}
