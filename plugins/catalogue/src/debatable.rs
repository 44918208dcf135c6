//! Recorded cases whose truth is arguable, and the policy that decides each of them here.

use sluicegate_laws::case::{Case, load, matched};
use sluicegate_sdk::format::Plugin;

use crate::plugin_of;

/// Cases that one policy decides.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Identifiers in `cases/parser_cases.json`.
    pub cases: &'static [&'static str],
    /// What the model wrote.
    pub wrote: &'static str,
    /// What becomes of it, and why.
    pub rule: &'static str,
}

/// Every debatable case is named once.
pub const POLICIES: &[Policy] = &[
    Policy {
        cases: &["ds32-002", "ds4-027", "kim-008", "qwc-014"],
        wrote: "a whole call before reasoning is closed",
        rule: "the opener ends reasoning and the call counts: losing it strands an agent. A closer that comes later \
               means nothing and is dropped",
    },
    Policy {
        cases: &["har-003"],
        wrote: "a call on the analysis channel",
        rule: "the recipient decides, not the channel: it is a call",
    },
    Policy {
        cases: &["ds4-012", "her-005", "her-006"],
        wrote: "a call without arguments: self-closing, no key, or `null`",
        rule: "arguments are `{}`, the only JSON object that says nothing",
    },
    Policy {
        cases: &["ds4-015", "ds4-016", "ds4-036", "kim-009"],
        wrote: "a misspelt frame or id around a call that is whole",
        rule: "spellings seen in the wild that leave one reading are read: names of other versions' blocks, ASCII bars, \
               ids whose only reading is a declared tool",
    },
    Policy {
        cases: &["ds4-017"],
        wrote: "an opener that prose mentions and nothing follows",
        rule: "what can no longer become a call is text again and shown as it was written: no call is invented and no \
               text is lost",
    },
    Policy {
        cases: &["ds4-024"],
        wrote: "all arguments wrapped in one parameter that the schema lacks",
        rule: "DSML unwraps `arguments` and `input` if the schema has no such parameter; others keep what was written",
    },
    Policy {
        cases: &["ds4-030"],
        wrote: "a call that the token limit cut",
        rule: "finish reason `length`; the call stays visibly unfinished and is never closed into valid JSON",
    },
    Policy {
        cases: &["ds4-040", "glm-010"],
        wrote: "a call where the request declares no tools, or forbids them",
        rule: "markup is text: nobody asked for calls, and the user may have asked to see the markup",
    },
    Policy {
        cases: &["glm-009"],
        wrote: "an answer, and reasoning that the prompt opened is never closed",
        rule: "it stays reasoning: text that was streamed can't be moved to content afterwards",
    },
    Policy {
        cases: &["her-012", "mis-005"],
        wrote: "a call whose block is not closed, or closed by a marker that the template leaves out",
        rule: "a complete call stands if the model stopped; closers are never content",
    },
    Policy {
        cases: &["lla-004"],
        wrote: "bare JSON that has a name and is no call",
        rule: "without a marker, JSON counts as a call only if it names a declared tool and has arguments",
    },
    Policy {
        cases: &["mmx-007"],
        wrote: "a call of a tool that the request does not declare",
        rule: "formats pass it on; `undeclared_tools` of the route decides what the client sees",
    },
    Policy {
        cases: &["qwc-007", "qwc-010"],
        wrote: "a tag value that could be of several types",
        rule: "the schema decides and digits stay as written: `null` of a string parameter is the word, `230.0` of an \
               integer stays `230.0`",
    },
    Policy {
        cases: &["qwc-011"],
        wrote: "a closing tag inside a value",
        rule: "a closer counts only if the format's next tag follows; otherwise it is part of the value",
    },
];

/// How a debatable case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As the case expects.
    Expected,
    /// As one of the alternatives that the case accepts.
    Alternative,
}

/// Runs the debatable cases of `json`: identifier and outcome, or what is wrong.
///
/// # Errors
/// A case breaks a law, gives a result that it does not accept, or names a format that nobody has.
pub fn outcomes(plugins: &[Plugin], json: &str) -> Result<Vec<(String, Outcome)>, String> {
    let cases = load(json).map_err(|error| format!("unreadable cases: {error}"))?;
    let outcome = |case: &Case| {
        let plugin =
            plugin_of(plugins, case.format_name()).ok_or_else(|| format!("{}: no plugin has its format", case.id))?;
        let n = matched(plugin, case).map_err(|error| format!("{}: {error}", case.id))?;
        Ok((case.id.clone(), if n == 0 { Outcome::Expected } else { Outcome::Alternative }))
    };
    cases.iter().filter(|case| case.debatable).map(outcome).collect()
}
