//! Jinja as Hugging Face's `apply_chat_template` runs it.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind};
use time::OffsetDateTime;

use super::json;

/// Steps that one rendering may take; a step is an instruction or 64 bytes of data. Long agent conversations need some
/// hundred thousand.
pub(super) const FUEL: u64 = 20_000_000;

/// What `raise_exception` throws.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub(super) String);

pub(super) fn environment(name: &str, source: &str) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_fuel(Some(FUEL));
    environment.add_filter("tojson", tojson);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", |format: &str| strftime(OffsetDateTime::now_utc(), format));
    environment.add_template_owned(name.to_owned(), source.to_owned())?;
    Ok(environment)
}

/// `{% generation %}` marks text for training. Rendered, it is a block like any other; white-space control and line numbers
/// must survive, so only the tag's word is exchanged.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        out.push_str(before);
        let inner = tag.trim_start_matches(['-', '+']).trim_start();
        let lead = &tag[..tag.len() - inner.len()];
        let word_len = inner.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(inner.len());
        out.push_str(lead);
        rest = &inner[word_len..];
        out.push_str(match &inner[..word_len] {
            "generation" => "if true",
            "endgeneration" => "endif",
            word => word,
        });
    }
    out.push_str(rest);
    out
}

/// `json.dumps(value, ensure_ascii=False)` with the arguments that templates use; nothing is escaped for HTML.
fn tojson(value: &Value, indent: Option<usize>, options: Kwargs) -> Result<Value, Error> {
    let indent = match indent {
        None => options.get::<Option<usize>>("indent")?,
        given => given,
    };
    let sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    let ensure_ascii = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    options.assert_all_used()?;
    let style = json::Style::new(indent, sort_keys, ensure_ascii, separators.as_deref());
    json::dump(value, &style).map(Value::from)
}

fn raise_exception(message: Value) -> Result<Value, Error> {
    let message = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// `datetime.now().strftime(format)`, in UTC.
fn strftime(now: OffsetDateTime, format: &str) -> Result<String, Error> {
    let bad = |error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {format:?} is not a usable format: {error}"))
    };
    let items = time::format_description::parse_strftime_owned(format).map_err(|error| bad(&error))?;
    now.format(&items).map_err(|error| bad(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_tags_keep_white_space_control_and_lines() {
        let source = "a{%- generation -%}\nb{% endgeneration %}{% if x %}{%generation%}c{% endif %}";
        assert_eq!(without_generation_tags(source), "a{%- if true -%}\nb{% endif %}{% if x %}{%if true%}c{% endif %}");
        assert_eq!(without_generation_tags("no tags {{ generation }}"), "no tags {{ generation }}");
    }

    #[test]
    fn dates_as_templates_ask_for_them() {
        let now = OffsetDateTime::from_unix_timestamp(1_795_996_800 - 60).unwrap();
        assert_eq!(strftime(now, "%d %b %Y").unwrap(), "29 Nov 2026");
        assert_eq!(strftime(now, "%Y-%m-%d").unwrap(), "2026-11-29");
        assert_eq!(strftime(now, "%B %d, %Y").unwrap(), "November 29, 2026");
        assert!(strftime(now, "%Q").unwrap_err().to_string().contains("strftime_now"));
    }
}
