//! The parser of one choice: pushes text in, takes events out, survives its neighbours.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::ask::{Again, Answer, Ask, Stop, ask_seat};
use super::bindings::{parse, types as wit};
use super::brief::Brief;
use super::error::{Cause, PluginError};
use super::event::{Event, Events, StopCause, StreamConfig, Tail};
use super::ledger::Ledger;
use super::lower;
use super::record::Record;
use super::settings::OnTrap;
use super::slot::{Lost, Seat};
use super::tools::ToolSet;
use super::version::{SeatError, Version};
use crate::chat;

/// Times that a stream looks for a new slot before it gives up: each time a neighbour killed the one it sat in.
const MAX_MOVES: u32 = 8;

/// One streamed message, pinned to the version it began on. Dropping it frees what it holds in the guest.
pub struct Stream {
    version: Arc<Version>,
    format: usize,
    wants_ids: bool,
    /// In a box: only a replay reads it, and what each push reads should share few cache lines.
    config: Box<parse::ParserConfig>,
    tools: Option<Arc<ToolSet>>,
    state: State,
    record: Record,
    ledger: Ledger,
    /// First push that the plugin has not answered.
    unanswered: usize,
}

enum State {
    Parsing {
        seat: Seat,
        /// In a store of its own, because it failed in a shared one.
        alone: bool,
    },
    /// The plugin failed; text is passed on as it is.
    Raw,
    Over,
}

impl Stream {
    pub(super) fn open(
        version: Arc<Version>,
        format: usize,
        config: &StreamConfig,
        tools: Option<Arc<ToolSet>>,
    ) -> Result<Self, PluginError> {
        let settings = &version.host.settings;
        let config = Box::new(lower::config(&version.plugin.formats[format], config));
        let record = Record::new(settings.max_replay_bytes);
        let wants_ids = version.plugin.formats[format].features.token_ids;
        let mut stream = Self {
            version,
            format,
            wants_ids,
            config,
            tools,
            state: State::Over,
            record,
            ledger: Ledger::default(),
            unanswered: 0,
        };
        stream.version.live.fetch_add(1, Relaxed);
        match stream.seat_and_replay(false, Ask::Open) {
            Ok(_) => {}
            Err(Stop::Error(error)) => return Err(error),
            Err(Stop::Failed(cause)) => {
                if let Err(error) = stream.retry_alone(Ask::Open, cause) {
                    stream.version.stream_failed();
                    return Err(error);
                }
            }
        }
        stream.version.opened.fetch_add(1, Relaxed);
        stream.version.host.counters.streams.fetch_add(1, Relaxed);
        Ok(stream)
    }

    /// Gives the parser the next piece of the model's output. `ids` are the tokens that `text` decodes to; only
    /// formats with the `token_ids` feature look at them.
    ///
    /// # Errors
    /// The plugin failed this stream (under `on_trap = "raw"` the text comes back as content instead), or no store
    /// was free to continue in. Every later call fails with [`PluginError::Ended`].
    pub fn push(&mut self, text: &str, ids: &[u32]) -> Result<Events, PluginError> {
        match self.state {
            State::Parsing { .. } => {}
            State::Raw => return Ok(raw(text)),
            State::Over => return Err(PluginError::Ended),
        }
        let wants_ids = self.wants_ids;
        if text.is_empty() && (!wants_ids || ids.is_empty()) {
            return Ok(Events::new());
        }
        let limit = self.version.host.settings.max_push_bytes.max(4);
        if wants_ids || text.len() <= limit {
            return self.push_piece(text, if wants_ids { ids } else { &[] });
        }
        let mut events = Events::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(rest.floor_char_boundary(limit));
            events.append(&mut self.push_piece(piece, &[])?);
            rest = later;
        }
        Ok(events)
    }

    #[inline]
    fn push_piece(&mut self, text: &str, ids: &[u32]) -> Result<Events, PluginError> {
        if matches!(self.state, State::Raw) {
            return Ok(raw(text));
        }
        self.record.add(text, ids);
        self.ledger.pushed(text.len());
        let answer = match self.ask_current(Ask::Push, text, ids) {
            Ok(answer) => answer,
            Err(error) => return self.fail(error, text),
        };
        let holds = matches!(answer, Answer::Step(wit::Step::Hold) | Answer::Brief(Brief::Hold));
        let checked = self.ledger.answer(answer, text);
        if !holds {
            self.unanswered = self.record.len();
        }
        let held = self.ledger.held();
        match checked {
            Ok(_) if held > self.version.host.settings.max_held_bytes => {
                let error = self.contract(format!("{held} bytes of text taken without an answer"));
                self.fail(error, text)
            }
            Ok(events) => Ok(events),
            Err(rule) => {
                let error = self.contract(rule);
                self.fail(error, text)
            }
        }
    }

    /// Ends the message: what is held comes out, what is open is closed.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(mut self, cause: &StopCause) -> Result<Tail, PluginError> {
        match self.state {
            State::Parsing { .. } => {}
            State::Raw => return Ok(Tail { events: Vec::new(), finish: Some(chat::FinishReason::Stop) }),
            State::Over => return Err(PluginError::Ended),
        }
        let cause = lower::cause(cause);
        let answer = match self.ask_current(Ask::Finish(&cause), "", &[]) {
            Ok(Answer::Tail(tail)) => tail,
            Ok(_) => return Err(PluginError::Ended),
            Err(error) => {
                let events = self.fail(error, "")?;
                return Ok(Tail { events: events.into_vec(), finish: Some(chat::FinishReason::Stop) });
            }
        };
        // The guest has consumed the parser.
        self.vacate(false);
        match self.ledger.events(answer.events) {
            Ok(events) => {
                let broken = self.ledger.broken_calls();
                self.version.host.counters.broken_calls.fetch_add(broken, Relaxed);
                Ok(tail(events.into_vec(), answer.finish))
            }
            Err(rule) => {
                let error = self.contract(rule);
                let events = self.fail(error, "")?;
                Ok(Tail { events: events.into_vec(), finish: Some(chat::FinishReason::Stop) })
            }
        }
    }

    /// Asks where the stream sits; moves it when that slot is dead, and isolates it when it kills its slot.
    #[inline]
    fn ask_current(&mut self, ask: Ask<'_>, text: &str, ids: &[u32]) -> Result<Answer, PluginError> {
        let State::Parsing { seat, alone } = &self.state else { return Err(PluginError::Ended) };
        let alone = *alone;
        match ask_seat(seat, &self.version, ask, text, ids) {
            Ok(answer) => Ok(answer),
            Err(lost) => self.ask_elsewhere(ask, lost, alone),
        }
    }

    /// Asks in another seat than the one that is lost.
    #[cold]
    fn ask_elsewhere(&mut self, ask: Ask<'_>, lost: Lost, alone: bool) -> Result<Answer, PluginError> {
        self.vacate(false);
        let cause = match lost {
            Lost::Failed(cause) => cause,
            Lost::Gone => match self.seat_and_replay(alone, ask) {
                Ok(answer) => return Ok(answer),
                Err(Stop::Error(error)) => return Err(error),
                Err(Stop::Failed(cause)) => cause,
            },
        };
        if alone {
            self.version.host.counters.failure(cause);
            return Err(self.failed(ask, cause));
        }
        self.retry_alone(ask, cause)
    }

    /// The second chance of a stream that killed its slot: its whole text once more, in a store of its own.
    fn retry_alone(&mut self, ask: Ask<'_>, first: Cause) -> Result<Answer, PluginError> {
        self.version.host.counters.failure(first);
        match self.seat_and_replay(true, ask) {
            Ok(answer) => Ok(answer),
            Err(Stop::Failed(cause)) => Err(self.failed(ask, cause)),
            Err(Stop::Error(error)) => Err(error),
        }
    }

    /// Seats a new parser, gives it all that was pushed before, and asks.
    fn seat_and_replay(&mut self, alone: bool, ask: Ask<'_>) -> Result<Answer, Stop> {
        if !self.record.is_complete() {
            let limit = self.version.host.settings.max_replay_bytes;
            return Err(Stop::Error(self.replay_error(format!("more than {limit} bytes were pushed"))));
        }
        for _ in 0..MAX_MOVES {
            let seat = match self.version.seat(&self.config, self.tools.as_deref(), alone) {
                Ok(seat) => seat,
                Err(SeatError::Gone) => continue,
                Err(SeatError::Failed(cause)) => return Err(Stop::Failed(cause)),
                Err(SeatError::Refused(error)) => return Err(Stop::Error(error)),
            };
            match self.replay(&seat, ask) {
                Ok(answer) => {
                    self.state = State::Parsing { seat, alone };
                    return Ok(answer);
                }
                Err(again) => {
                    self.version.leave(seat, true);
                    match again {
                        Again::Gone => {}
                        Again::Stop(stop) => return Err(stop),
                    }
                }
            }
        }
        Err(Stop::Error(self.replay_error(format!("{MAX_MOVES} stores in a row were lost to neighbours"))))
    }

    fn replay(&self, seat: &Seat, ask: Ask<'_>) -> Result<Answer, Again> {
        // The last push of the record is the one that is asked now.
        let before = match ask {
            Ask::Open => return Ok(Answer::Opened),
            Ask::Push => self.record.len() - 1,
            Ask::Finish(_) => self.record.len(),
        };
        let mut ledger = Ledger::default();
        let pushes = self.record.pushes();
        let mut pushes = pushes.iter();
        for (text, ids) in pushes.by_ref().take(before) {
            ledger.pushed(text.len());
            let answer = ask_seat(seat, &self.version, Ask::Push, text, &ids)?;
            // A broken rule would have ended the stream the first time.
            let _ = ledger.answer(answer, text);
        }
        if ledger.digest() != self.ledger.digest() {
            let error = self.replay_error("the plugin answered differently the second time".to_owned());
            return Err(Again::Stop(Stop::Error(error)));
        }
        self.version.host.counters.replays.fetch_add(1, Relaxed);
        let (text, ids) = pushes.next().unwrap_or_default();
        Ok(ask_seat(seat, &self.version, ask, text, &ids)?)
    }

    /// Ends the stream by the plugin's fault, or turns it into raw text.
    fn fail(&mut self, error: PluginError, current: &str) -> Result<Events, PluginError> {
        self.vacate(true);
        self.state = State::Over;
        self.version.host.counters.broken_calls.fetch_add(self.ledger.broken_calls(), Relaxed);
        if matches!(error, PluginError::Exhausted(_)) {
            return Err(error);
        }
        self.version.stream_failed();
        tracing::warn!(%error, sha256 = self.version.sha256, "a format plugin failed a stream");
        if self.version.host.settings.on_trap == OnTrap::Error {
            return Err(error);
        }
        self.state = State::Raw;
        let unanswered = self.record.is_complete().then(|| self.record.text_from(self.unanswered));
        let mut events = Events::from_buf([Event::Note(error.to_string())]);
        events.append(&mut raw(unanswered.as_deref().unwrap_or(current)));
        Ok(events)
    }

    fn vacate(&mut self, parser: bool) {
        if let State::Parsing { seat, .. } = std::mem::replace(&mut self.state, State::Over) {
            self.version.leave(seat, parser);
        }
    }

    fn names(&self) -> (String, String, String) {
        let plugin = &self.version.plugin;
        (self.version.name.clone(), plugin.version.clone(), plugin.formats[self.format].name.clone())
    }

    fn failed(&self, ask: Ask<'_>, cause: Cause) -> PluginError {
        let (plugin, version, format) = self.names();
        PluginError::Failed { plugin, version, format, call: ask.name(), cause }
    }

    fn contract(&self, rule: String) -> PluginError {
        self.version.host.counters.contract.fetch_add(1, Relaxed);
        let (plugin, version, format) = self.names();
        PluginError::Contract { plugin, version, format, rule }
    }

    fn replay_error(&self, reason: String) -> PluginError {
        let (plugin, version, format) = self.names();
        PluginError::Replay { plugin, version, format, reason }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.vacate(true);
        self.version.live.fetch_sub(1, Relaxed);
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plugin, version, format) = self.names();
        write!(f, "Stream({plugin} {version}, {format}, {} pushes)", self.record.len())
    }
}

fn raw(text: &str) -> Events {
    if text.is_empty() { Events::new() } else { Events::from_buf([Event::Content(text.to_owned())]) }
}

fn tail(mut events: Vec<Event>, finish: Option<wit::FinishReason>) -> Tail {
    let finish = match finish {
        None => None,
        Some(wit::FinishReason::Stop) => Some(chat::FinishReason::Stop),
        Some(wit::FinishReason::Length) => Some(chat::FinishReason::Length),
        Some(wit::FinishReason::ToolCalls) => Some(chat::FinishReason::ToolCalls),
        Some(wit::FinishReason::ContentFilter) => Some(chat::FinishReason::ContentFilter),
        Some(wit::FinishReason::Other(reason)) => {
            events.push(Event::Note(format!("finish reason {reason:?} has no equal in the API")));
            None
        }
    };
    Tail { events, finish }
}
