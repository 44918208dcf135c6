//! The arguments of a call that a header has named.

use super::{ChannelMachine, Origin, State};
use crate::json::{Checker, Fed};
use crate::run::Run;
use crate::scan::Hit;

impl ChannelMachine {
    /// Reads the arguments of a call. An empty body is `{}`.
    pub(super) fn arguments(&mut self, rest: &str, last: bool) -> (usize, bool) {
        if self.origin == Origin::Special
            && let Hit::Marker { len, .. } = self.format.body.find_here(rest, last)
            && !matches!(self.state, State::Args(None))
        {
            // A string may hold this text, but not this token: the arguments were never finished.
            self.close();
            return (len, true);
        }
        let State::Args(args) = &mut self.state else { return (0, true) };
        let Some(checker) = args else {
            let body = rest.trim_start();
            if body.len() < rest.len() {
                return (rest.len() - body.len(), true);
            }
            let plain = self.origin == Origin::Plain;
            self.state = match self.format.body.find_here(rest, last) {
                Hit::Partial { .. } if !plain => return (0, false),
                Hit::Marker { .. } if !plain => {
                    self.out.args("{");
                    State::Complete
                }
                _ if rest.starts_with('{') => State::Args(Some(Checker::default())),
                _ => self.broken(),
            };
            return (0, true);
        };
        let fed = self.out.args_with(|args| {
            let fed = checker.feed(rest, args);
            if matches!(fed, Fed::Done(_)) {
                args.pop();
            }
            fed
        });
        match fed {
            Fed::More => (rest.len(), true),
            Fed::Done(n) => {
                self.state = State::Complete;
                (n, true)
            }
            Fed::Bad(n) => {
                self.state = self.broken();
                (n, true)
            }
        }
    }

    fn broken(&mut self) -> State {
        self.out.abandon("");
        State::Ignore
    }

    /// The run of arguments that the text is in.
    pub(super) fn args_run(&self) -> Option<Run> {
        let run = match &self.state {
            State::Args(Some(checker)) => checker.run(),
            State::Calls(reader) if self.origin == Origin::Plain => reader.run(),
            State::Calls(reader) => reader.run()?.up_to(&self.format.body),
            _ => None,
        };
        Some(run?.of_call(self.out.args_pass()?))
    }
}
