//! The three questions that a stream puts to its parser, and what comes of them.

use super::bindings::types as wit;
use super::brief::{self, Brief};
use super::error::{Cause, PluginError};
use super::slot::{Lost, Seat};
use super::version::Version;

/// What is asked of the parser.
#[derive(Clone, Copy)]
pub(super) enum Ask<'a> {
    Open,
    Push,
    Finish(&'a wit::StopCause),
}

impl Ask<'_> {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Open => "the constructor",
            Self::Push => "push",
            Self::Finish(_) => "finish",
        }
    }
}

pub(super) enum Answer {
    Opened,
    Step(wit::Step),
    Brief(Brief),
    Tail(wit::Tail),
}

/// Why a seat did not lead to an answer.
pub(super) enum Stop {
    Failed(Cause),
    Error(PluginError),
}

pub(super) enum Again {
    Gone,
    Stop(Stop),
}

impl From<Lost> for Again {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Gone => Self::Gone,
            Lost::Failed(cause) => Self::Stop(Stop::Failed(cause)),
        }
    }
}

#[inline]
pub(super) fn ask_seat(seat: &Seat, version: &Version, ask: Ask<'_>, text: &str, ids: &[u32]) -> Result<Answer, Lost> {
    seat.enter(version.host.push_budget, |guest, parser| {
        if let (Ask::Push, [], Some(number)) = (ask, ids, seat.number)
            && let Some(answer) = brief::push(guest, number, text)
        {
            return answer.map(Answer::Brief);
        }
        let store = &mut guest.store;
        match ask {
            Ask::Open => Ok(Answer::Opened),
            Ask::Push if ids.is_empty() => guest.parse.parser().call_push(store, parser, text).map(Answer::Step),
            Ask::Push => guest.parse.parser().call_push_tokens(store, parser, text, ids).map(Answer::Step),
            Ask::Finish(cause) => guest.parse.parser().call_finish(store, parser, cause).map(Answer::Tail),
        }
    })
}
