//! `format = "auto"`: which format a model speaks, by its name, architecture, vocabulary and chat template.

use std::fmt::Write as _;

use super::build::DECLARED;
use crate::plugins::{Descriptor, Hint, HintRule};

/// What is known about a model before anybody has talked to it.
#[derive(Clone, Copy)]
pub(super) struct Evidence<'a> {
    /// The names it is served under and its folder's name.
    pub(super) names: &'a [&'a str],
    /// `architectures` and `model_type` of its config.json.
    pub(super) architectures: &'a [String],
    /// Its chat template.
    pub(super) template: Option<&'a str>,
    /// Whether its tokenizer has this added token.
    pub(super) has_token: &'a dyn Fn(&str) -> bool,
    /// Its tokenizer declares what its output looks like.
    pub(super) declares: bool,
}

/// A format that some evidence speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Guess {
    pub(super) format: String,
    /// Sum of the weights of the rules that hold.
    pub(super) score: u32,
    /// The rules that hold, for people.
    pub(super) because: String,
}

/// Less than this decides nothing: one faint sign, such as a token that several families have.
const LEAST: u32 = 4;

/// The format that most speaks for; a tie is refused, because look-alikes differ where it hurts: in arguments.
///
/// # Errors
/// What was looked at, which formats are equally likely, and what to write into the configuration.
pub(super) fn detect(evidence: Evidence<'_>, formats: &[Descriptor]) -> Result<Guess, String> {
    let guess = |format: &Descriptor| {
        let holding = || format.hints.iter().filter(|hint| evidence.holds(&hint.rule));
        let score = holding().map(|hint| u32::from(hint.weight)).sum();
        Guess { format: format.name.clone(), score, because: because(holding()) }
    };
    let mut guesses: Vec<Guess> = formats.iter().map(guess).filter(|guess| guess.score > 0).collect();
    guesses.sort_by(|a, b| b.score.cmp(&a.score).then_with(|| a.format.cmp(&b.format)));
    let best = guesses.first().map_or(0, |guess| guess.score);
    // A declaration says what the wire is, but a format that knows the model knows more.
    let declared = |format: &&Descriptor| format.options_schema["properties"].get(DECLARED).is_some();
    if best < LEAST
        && evidence.declares
        && let Some(format) = formats.iter().find(declared)
    {
        let because = "the tokenizer declares its response_template".to_owned();
        return Ok(Guess { format: format.name.clone(), score: 0, because });
    }
    if best < LEAST {
        return Err(format!(
            "format = \"auto\" finds no format for this model ({}); name its format, or leave `format` out for plain text",
            evidence.looked_at()
        ));
    }
    let level = guesses.iter().take_while(|guess| guess.score == best).count();
    if level == 1 {
        return Ok(guesses.swap_remove(0));
    }
    let mut error = "format = \"auto\" does not guess between look-alikes; set `format` to one of".to_owned();
    for guess in &guesses[..level] {
        let _ = write!(error, " \"{}\" ({}),", guess.format, guess.because);
    }
    error.pop();
    Err(error)
}

impl Evidence<'_> {
    fn holds(&self, rule: &HintRule) -> bool {
        match rule {
            HintRule::Model(glob) => self.names.iter().any(|name| matches(glob, name)),
            HintRule::Architecture(name) => self.architectures.contains(name),
            HintRule::Template(part) => self.template.is_some_and(|template| template.contains(part.as_str())),
            HintRule::Token(token) => (self.has_token)(token),
        }
    }

    fn looked_at(&self) -> String {
        let architectures = match self.architectures {
            [] => "no architecture known".to_owned(),
            names => format!("architecture {}", names.join(", ")),
        };
        let template = if self.template.is_some() { "a chat template" } else { "no chat template" };
        format!("named {}, {architectures}, {template}", self.names.join(", "))
    }
}

fn because<'a>(hints: impl Iterator<Item = &'a Hint>) -> String {
    let reasons = hints.map(|hint| match &hint.rule {
        HintRule::Model(glob) => format!("named like {glob} +{}", hint.weight),
        HintRule::Architecture(name) => format!("architecture {name} +{}", hint.weight),
        HintRule::Template(part) => format!("template has {part:?} +{}", hint.weight),
        HintRule::Token(token) => format!("token {token:?} +{}", hint.weight),
    });
    reasons.collect::<Vec<_>>().join(", ")
}

/// A glob of `*`, case-insensitive. The last path segment of `org/model` counts as a name too.
fn matches(glob: &str, name: &str) -> bool {
    let (glob, name) = (glob.to_lowercase(), name.to_lowercase());
    let last = name.rsplit('/').next().unwrap_or_default();
    [name.as_str(), last].iter().any(|name| whole(&glob, name))
}

fn whole(glob: &str, name: &str) -> bool {
    let mut parts = glob.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (glob, name, expected) in [
            ("*qwen3*", "Qwen3-8B", true),
            ("*qwen3*", "Qwen/Qwen3-8B", true),
            ("qwen3*", "Qwen/Qwen3-8B", true),
            ("*qwen3*", "qwen2.5", false),
            ("*llama*nemotron*", "Llama-3.1-Nemotron-Nano", true),
            ("*llama*nemotron*", "nemotron-llama", false),
            ("exact", "Exact", true),
            ("exact", "exactly", false),
            ("*a*a", "a", false),
            ("", "", true),
        ] {
            assert_eq!(matches(glob, name), expected, "{glob} on {name}");
        }
    }

    fn format(name: &str, hints: &[(HintRule, u8)]) -> Descriptor {
        Descriptor {
            name: name.to_owned(),
            description: String::new(),
            catalogue: Vec::new(),
            aliases: Vec::new(),
            models: Vec::new(),
            features: crate::plugins::Features::default(),
            hints: hints.iter().map(|(rule, weight)| Hint { rule: rule.clone(), weight: *weight }).collect(),
            markers: Vec::new(),
            special_tokens: Vec::new(),
            stop_strings: Vec::new(),
            renderer: None,
            options_schema: serde_json::Value::Null,
            extra: serde_json::Value::Null,
        }
    }

    fn ask(name: &str, template: &str, formats: &[Descriptor]) -> Result<Guess, String> {
        let evidence = Evidence {
            names: &[name],
            architectures: &[],
            template: Some(template),
            has_token: &|token: &str| token == "<t>",
            declares: false,
        };
        detect(evidence, formats)
    }

    #[test]
    fn the_most_evidence_wins_a_tie_and_a_faint_sign_are_refused() {
        let template = |part: &str, weight| (HintRule::Template(part.to_owned()), weight);
        let formats = [
            format("a", &[template("<x>", 4), (HintRule::Model("a-*".to_owned()), 2)]),
            format("b", &[template("<x>", 4), (HintRule::Token("<t>".to_owned()), 0)]),
            format("faint", &[template("<y>", 3)]),
        ];
        let guess = ask("a-1", "has <x>", &formats).expect("a leads");
        assert_eq!((guess.format.as_str(), guess.score), ("a", 6));
        assert!(guess.because.contains("named like a-* +2"), "{}", guess.because);
        let error = ask("m", "has <x>", &formats).expect_err("a tie");
        assert!(error.contains("\"a\"") && error.contains("\"b\"") && !error.contains("faint"), "{error}");
        let error = ask("m", "has <y>", &formats).expect_err("too faint");
        assert!(error.contains("finds no format") && error.contains("named m"), "{error}");
    }
}
