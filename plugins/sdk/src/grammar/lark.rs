//! Writes a grammar in llguidance's Lark dialect: rules, terminals, literals.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// White space that formats lay their markup out with. Bounded, so that a model can't loop on it.
const SPACE: &str = "SPACE: /[ \\n]{1,8}/\n";
/// Any text, and the counters and suffixes that some formats write.
const SHARED: &str = "ANY: /(?s:.*)/\nDIGITS: /[0-9]{1,6}/\nSUFFIX: /:[0-9A-Za-z]{1,32}/\n";

/// A grammar being written.
#[derive(Debug, Default)]
pub(super) struct Lark {
    rules: String,
    count: usize,
    /// Rules and terminals by what they say, so that the same is written once.
    known: BTreeMap<String, String>,
}

/// A literal of the grammar.
pub(super) fn quote(text: &str) -> String {
    crate::json::quote(text).replace('\x7f', "\\u007f")
}

/// What may be missing.
pub(super) fn optional(expression: &str) -> String {
    if expression.is_empty() { String::new() } else { format!("({expression})?") }
}

/// One of several.
pub(super) fn either(mut choices: Vec<String>) -> String {
    match choices.len() {
        1 => choices.pop().unwrap_or_default(),
        _ => format!("({})", choices.join(" | ")),
    }
}

/// A template as an expression: `~` is optional white space, `#` a counter, the rest literal.
pub(super) fn template(text: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (literal, mark, after) = match rest.find(['~', '#']) {
            Some(at) => (&rest[..at], &rest[at..=at], &rest[at + 1..]),
            None => (rest, "", ""),
        };
        if !literal.is_empty() {
            out.push(quote(literal));
        }
        match mark {
            "~" => out.push("SPACE?".to_owned()),
            "#" => out.push("DIGITS".to_owned()),
            _ => {}
        }
        rest = after;
    }
    out.join(" ")
}

/// The literal that a template begins with.
pub(super) fn head(template: &str) -> &str {
    template.split(['~', '#']).next().unwrap_or_default()
}

impl Lark {
    /// A rule's name.
    pub(super) fn rule(&mut self, body: &str) -> String {
        self.define(body, 'r')
    }

    /// A terminal's name: a regular expression, however it is written.
    pub(super) fn terminal(&mut self, body: &str) -> String {
        self.define(body, 'T')
    }

    /// A name that a rule may use before it is written.
    pub(super) fn forward(&mut self) -> String {
        self.count += 1;
        format!("r{}", self.count)
    }

    /// Writes a rule that [`Lark::forward`] named.
    pub(super) fn write(&mut self, name: &str, body: &str) {
        let _ = writeln!(self.rules, "{name}: {body}");
    }

    fn define(&mut self, body: &str, kind: char) -> String {
        let key = format!("{kind}{body}");
        if let Some(name) = self.known.get(&key) {
            return name.clone();
        }
        self.count += 1;
        let name = format!("{kind}{}", self.count);
        self.write(&name, body);
        self.known.insert(key, name.clone());
        name
    }

    /// Text that contains none of `never`, and then `end` (expressions without rules): one terminal, because a lexer
    /// that has read the text can't give back what belongs to its end.
    pub(super) fn text_until(&mut self, never: &[String], end: &str) -> String {
        let text = if never.is_empty() {
            "ANY".to_owned()
        } else {
            self.terminal(&format!("ANY & ~( ANY ({}) ANY )", never.join(" | ")))
        };
        self.terminal(&format!("{text} {end}"))
    }

    /// The whole grammar.
    pub(super) fn finish(self, start: &str) -> String {
        format!("start: {start}\n{}{SPACE}{SHARED}", self.rules)
    }
}
