//! From a request to a prompt: pins the format's version, renders, tokenizes, checks the context.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use sluicegate_backend::grammar::Grammar;

use super::choice::Choice;
use super::constrain;
use super::openai::openai_messages;
use super::output::Rules;
use super::{Call, GenerationStream, Stage};
use crate::chat::{Reasoning, Request, ToolChoice};
use crate::error::{Error, Kind};
use crate::plugins::{Piece, Pinned, RenderInput, StreamConfig, ToolSet};
use crate::route::Route;
use crate::text::{DeepSeek, Detokenizer, Prompt, StopStrings};
use crate::upstream::{Job, Started};

/// Text above which rendering and tokenizing leave the async threads, in bytes.
const LARGE: usize = 32 << 10;
/// Bytes of the prompt's end that a format sees.
const TAIL: usize = 256;

/// A rendered request that has not been submitted.
#[derive(Debug)]
pub struct Prepared {
    route: Arc<Route>,
    request: Arc<Request>,
    pinned: Option<Pinned>,
    prompt: Rendered,
    /// What the output must match.
    grammar: Option<Arc<dyn Grammar>>,
}

#[derive(Debug, Default)]
struct Rendered {
    ids: Arc<[u32]>,
    tail: String,
}

/// Pins the format's version and renders and tokenizes the prompt. Nothing runs yet, so that a tenant's token budget
/// can be asked first.
///
/// # Errors
/// The client's fault when the conversation does not fit the template or the context; the gateway's when a plugin
/// or template is broken.
pub async fn prepare(route: &Arc<Route>, request: Arc<Request>) -> Result<Prepared, Error> {
    let request = with_defaults(route, request);
    let pinned = route.format.as_ref().map(|format| format.pin()).transpose()?;
    let prompt = if size(&request) <= LARGE {
        render(route, pinned.as_ref(), &request)?
    } else {
        let (route, request, pinned) = (Arc::clone(route), Arc::clone(&request), pinned.clone());
        tokio::task::spawn_blocking(move || render(&route, pinned.as_ref(), &request))
            .await
            .map_err(|error| Error::new(Kind::Internal, format!("rendering the prompt failed: {error}")))??
    };
    if let (Some(context), length) = (route.context_length, prompt.ids.len())
        && length >= context as usize
    {
        let message = format!(
            "This model's maximum context length is {context} tokens, but the prompt has {length}. Shorten the messages."
        );
        return Err(Error::new(Kind::BadRequest, message).param("messages").code("context_length_exceeded"));
    }
    let prepared = Prepared { route: Arc::clone(route), request, pinned, prompt, grammar: None };
    if !constrain::is_wanted(&prepared.route, &prepared.request) {
        return Ok(prepared);
    }
    let guided = tokio::task::spawn_blocking(move || prepared.with_grammar()).await;
    guided.map_err(|error| Error::new(Kind::Internal, format!("compiling the grammar failed: {error}")))?
}

/// What the client leaves open and the route decides.
fn with_defaults(route: &Route, mut request: Arc<Request>) -> Arc<Request> {
    let missing = |key: &&String| !request.template_kwargs.contains_key(*key);
    let kwargs = route.template_kwargs.keys().any(|key| missing(&key));
    let reasoning = request.reasoning == Reasoning::Auto && route.reasoning != Reasoning::Auto;
    if kwargs || reasoning {
        let request = Arc::make_mut(&mut request);
        for (key, value) in &route.template_kwargs {
            request.template_kwargs.entry(key.as_str()).or_insert_with(|| value.clone());
        }
        if reasoning {
            request.reasoning = route.reasoning;
        }
    }
    request
}

/// Roughly the bytes that rendering has to go through; an empty message costs something too.
fn size(request: &Request) -> usize {
    let messages = request.messages.iter().map(|message| {
        let calls: usize = message.tool_calls.iter().map(|call| call.arguments.len()).sum();
        message.content.iter().map(String::len).sum::<usize>()
            + message.reasoning.as_ref().map_or(0, String::len)
            + calls
            + 64
    });
    let tools = request.tools.iter().map(|tool| tool.parameters.as_ref().map_or(0, |raw| raw.get().len()));
    messages.chain(tools).sum()
}

/// A format that writes prompts does so (its own code or the vendor's library in the host); else the model's template.
fn render(route: &Route, pinned: Option<&Pinned>, request: &Request) -> Result<Rendered, Error> {
    let descriptor = pinned.map(Pinned::descriptor);
    let prompt = if let Some(name) = descriptor.and_then(|descriptor| descriptor.renderer.as_deref()) {
        let renderer = DeepSeek::named(name).ok_or_else(|| {
            Error::new(Kind::Internal, format!("the format asks for the renderer {name:?}, which this gateway lacks"))
        })?;
        renderer.render(request)?
    } else if let Some(pinned) = pinned.filter(|pinned| pinned.has_render()) {
        render_by_plugin(route, pinned, request)?
    } else if let Some(template) = &route.template {
        template.render(request)?
    } else {
        // The upstream takes messages; a route that needs a prompt was refused without a template.
        return Ok(Rendered::default());
    };
    let ids = match &route.tokenizer {
        Some(tokenizer) => tokenizer
            .encode(&prompt)
            .map_err(|error| Error::new(Kind::Internal, format!("model {}: {error}", route.model)))?,
        None => Vec::new(),
    };
    Ok(Rendered { ids: ids.into(), tail: prompt.tail(TAIL).to_owned() })
}

fn render_by_plugin(route: &Route, pinned: &Pinned, request: &Request) -> Result<Prompt, Error> {
    let input = RenderInput {
        model: &request.model,
        messages: &openai_messages(request),
        tools: &ToolSet::new(&request.tools),
        tool_choice: &request.tool_choice,
        reasoning: request.reasoning,
        add_generation_prompt: !request.continue_final_message,
        now: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs()),
        options: route.format.as_ref().map_or("{}", |format| format.options.as_str()),
    };
    let mut prompt = Prompt::default();
    for piece in pinned.render(&input)? {
        match piece {
            Piece::Text(text) => match &route.tokenizer {
                Some(tokenizer) => tokenizer.controls().push_template(&text, &mut prompt),
                None => prompt.push_plain(&text),
            },
            Piece::Special(spelling) => prompt.push_special(&spelling),
            Piece::User(text) => prompt.push_plain(&text),
            Piece::Media(n) => {
                let message = format!("the format asks for media part {n}, and this model takes text only");
                return Err(Error::new(Kind::BadRequest, message).param("messages"));
            }
        }
    }
    Ok(prompt)
}

impl Prepared {
    /// Prompt tokens; 0 when the route does not tokenize.
    #[must_use]
    pub fn prompt_tokens(&self) -> u32 {
        u32::try_from(self.prompt.ids.len()).unwrap_or(u32::MAX)
    }

    fn with_grammar(self) -> Result<Self, Error> {
        let config = self.pinned.as_ref().map(|pinned| self.config(pinned, self.prompt.tail.clone()));
        let asked = constrain::Asked {
            route: &self.route,
            request: &self.request,
            pinned: self.pinned.as_ref(),
            tail: &self.prompt.tail,
            config: config.unwrap_or_default(),
        };
        let grammar = asked.grammar()?;
        Ok(Self { grammar, ..self })
    }

    /// Submits all choices.
    ///
    /// # Errors
    /// Whatever the upstream or the format's plugin says; choices already submitted are aborted.
    pub async fn start(self, call: Call) -> Result<GenerationStream, Error> {
        call.timeline.enter(Stage::Queued);
        let rules = Arc::new(self.rules());
        let tools =
            (self.pinned.is_some() && !self.request.tools.is_empty()).then(|| ToolSet::new(&self.request.tools));
        let mut choices = Vec::with_capacity(self.request.n as usize);
        for index in 0..self.request.n {
            let started = self.route.upstream.submit(self.job(index, &call)).await?;
            choices.push(self.choice(index, started, &rules, tools.as_ref())?);
        }
        Ok(GenerationStream::new(choices, call.timeline))
    }

    fn choice(
        &self,
        index: u32,
        started: Started,
        rules: &Arc<Rules>,
        tools: Option<&Arc<ToolSet>>,
    ) -> Result<Choice, Error> {
        let tail = started.prompt_tail.unwrap_or_else(|| self.prompt.tail.clone());
        let parser =
            self.pinned.as_ref().map(|pinned| pinned.open(&self.config(pinned, tail), tools.cloned())).transpose()?;
        let features = self.pinned.as_ref().map(|pinned| pinned.descriptor().features).unwrap_or_default();
        let vocabulary = self.route.tokenizer.as_ref().map(|tokenizer| Arc::clone(tokenizer.vocabulary()));
        let detokenizer = vocabulary.map(|vocabulary| Detokenizer::new(vocabulary, features.special_tokens));
        Ok(Choice::new(index, started.pieces, detokenizer, parser, rules))
    }

    fn config(&self, pinned: &Pinned, prompt_tail: String) -> StreamConfig {
        let request = &self.request;
        let id = |text: &String| self.route.tokenizer.as_ref().and_then(|tokenizer| tokenizer.token_id(text));
        let calls: usize = request.messages.iter().map(|message| message.tool_calls.len()).sum();
        StreamConfig {
            model: request.model.clone(),
            tool_choice: request.tool_choice.clone(),
            parallel_tools: request.parallel_tool_calls,
            reasoning: request.reasoning,
            prompt_tail,
            history_calls: u32::try_from(calls).unwrap_or(u32::MAX),
            special_ids: pinned.descriptor().special_tokens.iter().map(id).collect(),
            options: self.route.format.as_ref().map_or_else(|| "{}".to_owned(), |format| format.options.clone()),
        }
    }

    fn rules(&self) -> Rules {
        let request = &self.request;
        let format_stops = self.pinned.iter().flat_map(|pinned| &pinned.descriptor().stop_strings);
        Rules {
            request_id: Arc::clone(&request.id),
            model: request.model.clone(),
            stop: StopStrings::new(&request.stop),
            raw_stop: StopStrings::new(format_stops),
            tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            calls_allowed: request.tool_choice != ToolChoice::None,
            policy: self.route.policy,
            logprobs: request.logprobs.is_some(),
            prompt_tokens: self.prompt_tokens(),
        }
    }

    fn job(&self, choice: u32, call: &Call) -> Job {
        let mut sampling = self.request.sampling.clone();
        sampling.seed = sampling.seed.wrapping_add(u64::from(choice));
        Job {
            id: Arc::from(format!("{}-{choice}", self.request.id)),
            choice,
            request: Arc::clone(&self.request),
            prompt: Arc::clone(&self.prompt.ids),
            stop_ids: self.route.stop_ids.clone(),
            max_tokens: self.request.max_tokens.or(self.route.max_tokens),
            sampling,
            grammar: self.grammar.clone(),
            priority: call.priority,
            deadline: call.deadline,
            share: call.share,
        }
    }
}
