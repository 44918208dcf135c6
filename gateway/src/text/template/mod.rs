//! A checkpoint's Jinja chat template: Hugging Face's dialect, and the conversation's text kept apart from the template's.

mod conversation;
mod dialect;
mod json;

use std::collections::HashSet;
use std::error::Error as _;
use std::sync::Arc;

use minijinja::{Environment, ErrorKind};

use self::conversation::Conversation;
use self::dialect::Raised;
use super::controls::Controls;
use super::mask::Mask;
use super::prompt::Prompt;
use super::tokenizer::SpecialTokens;
use crate::chat;
use crate::error::{Error, Kind};

/// Why a conversation was not rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The template is not valid.
    #[error("chat template {name}, line {line}: {message}")]
    Syntax {
        /// Which template.
        name: String,
        /// 1 is the first.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The template refuses the conversation with `raise_exception`: the client's fault, in the template's words.
    #[error("the model's chat template refuses this conversation: {0}")]
    Refused(String),
    /// The conversation cannot be given to any template: the client's fault.
    #[error("{0}")]
    Conversation(String),
    /// The template failed: its author's fault, or its operator's.
    #[error("chat template {name}, line {line}: {message}")]
    Failed {
        /// Which template.
        name: String,
        /// 1 is the first; 0 when unknown.
        line: usize,
        /// What went wrong.
        message: String,
    },
}

impl From<TemplateError> for Error {
    fn from(error: TemplateError) -> Self {
        match error {
            TemplateError::Refused(_) | TemplateError::Conversation(_) => {
                Self::new(Kind::BadRequest, error.to_string()).param("messages")
            }
            TemplateError::Syntax { .. } | TemplateError::Failed { .. } => {
                Self::new(Kind::Internal, error.to_string()).code("chat_template_failed")
            }
        }
    }
}

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    name: String,
    source: String,
    environment: Environment<'static>,
    special_tokens: SpecialTokens,
    controls: Arc<Controls>,
    completed: HashSet<Box<str>>,
}

impl ChatTemplate {
    /// Compiles a template. `name` is for messages; `special_tokens` (`bos_token`, `eos_token`, ...) become variables of the
    /// template; `controls` are the tokenizer's.
    ///
    /// # Errors
    /// [`TemplateError::Syntax`].
    pub fn new(
        name: &str,
        source: &str,
        special_tokens: SpecialTokens,
        controls: Arc<Controls>,
    ) -> Result<Self, TemplateError> {
        let source = dialect::without_generation_tags(source);
        let environment = dialect::environment(name, &source).map_err(|error| TemplateError::Syntax {
            name: name.to_owned(),
            line: error.line().unwrap_or(1),
            message: describe(&error),
        })?;
        let completed = controls.completed_by(&source);
        Ok(Self { name: name.to_owned(), source, environment, special_tokens, controls, completed })
    }

    /// Whether the template reads this variable: one that never reads `tools` shows a request's tools to nobody.
    #[must_use]
    pub fn reads(&self, variable: &str) -> bool {
        let template = self.environment.get_template(&self.name);
        template.is_ok_and(|template| template.undeclared_variables(false).contains(variable))
    }

    /// The template's name, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Writes the prompt of a request.
    ///
    /// # Errors
    /// Every variant of [`TemplateError`] but `Syntax`.
    pub fn render(&self, request: &chat::Request) -> Result<Prompt, TemplateError> {
        let conversation = Conversation { request, source: &self.source, special_tokens: &self.special_tokens };
        let exhausted = || TemplateError::Conversation("the text uses up all private-use characters".to_owned());
        let mut mask = Mask::new(&self.controls, &self.source, &self.completed).ok_or_else(exhausted)?;
        let mut variables = conversation.variables(&mask)?;
        if mask.collides() {
            // The text itself holds stand-ins. All its private-use characters are known now, so this is the last time.
            mask = mask.elsewhere().ok_or_else(exhausted)?;
            variables = conversation.variables(&mask)?;
        }
        let template = self.environment.get_template(&self.name).map_err(|error| self.failed(&error))?;
        let rendered = template.render(variables).map_err(|error| self.failed(&error))?;
        let rendered = if request.continue_final_message { self.cut(&mask, &rendered)? } else { &rendered };
        Ok(mask.uncover(rendered))
    }

    /// What the template wrote up to the end of the last message.
    fn cut<'r>(&self, mask: &Mask<'_>, rendered: &'r str) -> Result<&'r str, TemplateError> {
        rendered.rfind(mask.end_mark()).map(|end| &rendered[..end]).ok_or_else(|| {
            TemplateError::Conversation(format!(
                "the last message cannot be continued: chat template {} does not write it",
                self.name
            ))
        })
    }

    fn failed(&self, error: &minijinja::Error) -> TemplateError {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(error) = cause {
            if let Some(Raised(message)) = error.downcast_ref() {
                return TemplateError::Refused(message.clone());
            }
            cause = error.source();
        }
        let message = match error.kind() {
            ErrorKind::OutOfFuel => format!("gave up after {} steps; does it loop for ever?", dialect::FUEL),
            _ => describe(error),
        };
        TemplateError::Failed { name: self.name.clone(), line: error.line().unwrap_or(0), message }
    }
}

fn describe(error: &minijinja::Error) -> String {
    let mut text = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
