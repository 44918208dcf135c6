//! The recording file: JSON lines to steps.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use sluicegate_backend::api::{Logprob, Logprobs};

use super::super::Cause;

/// Why a recording file is not usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordingsError {
    /// It cannot be read.
    #[error("cannot read the recording {path}: {reason}")]
    Read {
        /// Which file.
        path: String,
        /// The system's words.
        reason: String,
    },
    /// A line is wrong.
    #[error("{path}:{line}: {reason}")]
    Line {
        /// Which file.
        path: String,
        /// 1 is the first.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// It has no recording.
    #[error("{0} holds no recording")]
    Empty(String),
}

/// One line. Exactly one of `recording`, `text` or `ids`, `finish`, `error` and `stall` says what it is.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Line {
    recording: Option<String>,
    #[serde(rename = "match")]
    marker: Option<String>,
    prompt_tail: Option<String>,
    prompt_tokens: Option<u32>,
    cached_tokens: Option<u32>,

    text: Option<String>,
    ids: Option<Vec<u32>>,
    tokens: Option<u32>,
    logprobs: Option<Vec<Chosen>>,

    finish: Option<String>,
    stop_id: Option<u32>,
    stop_string: Option<String>,
    completion_tokens: Option<u32>,

    error: Option<String>,
    stall: Option<bool>,

    delay_ms: Option<f64>,
}

/// The log probability of a recorded id and its alternatives: id, log probability, best first.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chosen {
    logprob: f32,
    #[serde(default)]
    top: Vec<(u32, f32)>,
}

impl Chosen {
    fn of(self, id: u32) -> Box<Logprobs> {
        let top = self.top.into_iter().map(|(id, logprob)| Logprob { id, logprob }).collect();
        Box::new(Logprobs { chosen: Logprob { id, logprob: self.logprob }, top })
    }
}

/// What happens at one step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Text, with its ids when they were recorded.
    Text {
        text: String,
        ids: Vec<u32>,
        tokens: u32,
    },
    /// Ids alone; the route's tokenizer makes the text.
    Ids(Vec<(u32, Option<Box<Logprobs>>)>),
    Finish {
        cause: Cause,
        completion_tokens: Option<u32>,
    },
    /// The engine reports an error.
    Error(String),
    /// Nothing comes any more, and the stream stays open.
    Stall,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// Milliseconds after the step before.
    pub(super) delay_ms: f64,
    pub(super) action: Action,
}

/// One recorded stream. Without a finish, an error or a stall at its end it was cut.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Recording {
    pub(super) name: String,
    pub(super) marker: Option<String>,
    pub(super) prompt_tail: Option<String>,
    pub(super) prompt_tokens: u32,
    pub(super) cached_tokens: u32,
    pub(super) steps: Vec<Step>,
}

/// The recordings of a file.
#[derive(Clone, Debug)]
pub struct Recordings {
    all: Vec<Arc<Recording>>,
    /// Recordings that share a marker, in the file's order; those without one come last.
    groups: Vec<(Option<String>, Vec<usize>)>,
}

impl Recordings {
    /// Reads a file.
    ///
    /// # Errors
    /// See [`RecordingsError`].
    pub fn load(path: &Path) -> Result<Self, RecordingsError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| RecordingsError::Read { path: shown.clone(), reason: error.to_string() })?;
        Self::parse(&text, &shown)
    }

    /// Parses the text of a file; `path` is for messages.
    ///
    /// # Errors
    /// See [`RecordingsError`].
    pub fn parse(text: &str, path: &str) -> Result<Self, RecordingsError> {
        let mut all: Vec<Recording> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.trim_start().starts_with("//") {
                continue;
            }
            let wrong = |reason: String| RecordingsError::Line { path: path.to_owned(), line: at + 1, reason };
            let line: Line = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            line.check().map_err(wrong)?;
            if line.recording.is_some() {
                all.push(line.into_recording());
                continue;
            }
            if all.is_empty() {
                all.push(Recording { name: "1".to_owned(), ..Recording::default() });
            }
            let steps = &mut all.last_mut().unwrap_or_else(|| unreachable!("one was just pushed")).steps;
            if steps.last().is_some_and(|step| !matches!(step.action, Action::Text { .. } | Action::Ids(_))) {
                return Err(wrong(
                    "the recording has already ended; begin another with {\"recording\": NAME}".to_owned(),
                ));
            }
            steps.push(line.into_step().map_err(wrong)?);
        }
        if all.is_empty() {
            return Err(RecordingsError::Empty(path.to_owned()));
        }
        Ok(Self::grouped(all))
    }

    fn grouped(all: Vec<Recording>) -> Self {
        let mut groups: Vec<(Option<String>, Vec<usize>)> = Vec::new();
        for (at, recording) in all.iter().enumerate() {
            match groups.iter_mut().find(|(marker, _)| *marker == recording.marker) {
                Some((_, members)) => members.push(at),
                None => groups.push((recording.marker.clone(), vec![at])),
            }
        }
        // Longer markers first, so that `case-10` is not taken for `case-1`.
        groups.sort_by_key(|(marker, _)| std::cmp::Reverse(marker.as_ref().map(String::len)));
        Self { all: all.into_iter().map(Arc::new).collect(), groups }
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = &(Option<String>, Vec<usize>)> {
        self.groups.iter()
    }

    /// The group for a message: the one whose marker it contains, else the one without a marker.
    pub(super) fn select(&self, text: &str) -> Option<(usize, &[usize])> {
        let fits = |marker: &Option<String>| marker.as_ref().is_none_or(|marker| text.contains(marker.as_str()));
        let at = self.groups.iter().position(|(marker, _)| fits(marker))?;
        Some((at, &self.groups[at].1))
    }

    pub(super) fn get(&self, at: usize) -> &Arc<Recording> {
        &self.all[at]
    }
}

impl Line {
    /// Exactly one kind, and no field of another kind.
    fn check(&self) -> Result<(), String> {
        let header = [
            self.marker.is_some(),
            self.prompt_tail.is_some(),
            self.prompt_tokens.is_some(),
            self.cached_tokens.is_some(),
        ];
        let end = [self.stop_id.is_some(), self.stop_string.is_some(), self.completion_tokens.is_some()];
        let kinds = [
            ("recording", self.recording.is_some()),
            ("text or ids", self.text.is_some() || self.ids.is_some()),
            ("finish", self.finish.is_some()),
            ("error", self.error.is_some()),
            ("stall", self.stall == Some(true)),
        ];
        let present: Vec<&str> = kinds.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
        match present[..] {
            [_] => {}
            [] => {
                return Err(
                    "needs one of \"recording\", \"text\", \"ids\", \"finish\", \"error\", \"stall\"".to_owned()
                );
            }
            _ => return Err(format!("is {} at once", present.join(" and "))),
        }
        if self.recording.is_none() && header.contains(&true) {
            return Err(
                "match, prompt_tail, prompt_tokens and cached_tokens belong on the \"recording\" line".to_owned()
            );
        }
        if self.finish.is_none() && end.contains(&true) {
            return Err("stop_id, stop_string and completion_tokens belong on the \"finish\" line".to_owned());
        }
        let alike = |logprobs: &Vec<Chosen>| self.ids.as_ref().is_some_and(|ids| ids.len() == logprobs.len());
        if self.logprobs.as_ref().is_some_and(|logprobs| self.text.is_some() || !alike(logprobs)) {
            return Err("logprobs belongs on a line with \"ids\" and no \"text\", one entry for each id".to_owned());
        }
        if self.text.is_none() && self.tokens.is_some() {
            return Err("tokens belongs on a line with \"text\"".to_owned());
        }
        if self.delay_ms.is_some_and(|delay| !delay.is_finite() || delay < 0.0 || self.recording.is_some()) {
            return Err("delay_ms must be 0 or more, and not on the \"recording\" line".to_owned());
        }
        Ok(())
    }

    fn into_recording(self) -> Recording {
        Recording {
            name: self.recording.unwrap_or_default(),
            marker: self.marker.filter(|marker| !marker.is_empty()),
            prompt_tail: self.prompt_tail,
            prompt_tokens: self.prompt_tokens.unwrap_or(0),
            cached_tokens: self.cached_tokens.unwrap_or(0),
            steps: Vec::new(),
        }
    }

    fn into_step(self) -> Result<Step, String> {
        let delay_ms = self.delay_ms.unwrap_or(0.0);
        let action = match (self.text, self.ids, self.finish, self.error) {
            (Some(text), ids, ..) => {
                let ids = ids.unwrap_or_default();
                let counted = if ids.is_empty() { 1 } else { u32::try_from(ids.len()).unwrap_or(u32::MAX) };
                Action::Text { text, ids, tokens: self.tokens.unwrap_or(counted) }
            }
            (None, Some(ids), ..) => {
                let logprobs = self.logprobs.into_iter().flatten().map(Some).chain(std::iter::repeat_with(|| None));
                Action::Ids(ids.into_iter().zip(logprobs).map(|(id, chosen)| (id, chosen.map(|c| c.of(id)))).collect())
            }
            (None, None, Some(finish), _) => {
                let cause = match finish.as_str() {
                    "stop" | "eos" | "tool_calls" => {
                        self.stop_string.map_or(Cause::Eos(self.stop_id), Cause::StopString)
                    }
                    "length" => Cause::Length,
                    "content_filter" => Cause::ContentFilter,
                    other => {
                        return Err(format!(
                            "finish is {other:?}; it may be \"stop\", \"eos\", \"tool_calls\", \"length\" or \"content_filter\""
                        ));
                    }
                };
                Action::Finish { cause, completion_tokens: self.completion_tokens }
            }
            (None, None, None, Some(error)) => Action::Error(error),
            (None, None, None, None) => Action::Stall,
        };
        Ok(Step { delay_ms, action })
    }
}
