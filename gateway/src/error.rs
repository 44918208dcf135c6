//! One error for every request: what failed, whose fault it is, whether a retry helps.

use std::fmt;
use std::time::Duration;

/// What kind of failure; decides status, type and fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request is malformed or asks for the impossible.
    BadRequest,
    /// No key, or an unknown one.
    Unauthorized,
    /// The key may not do this.
    Forbidden,
    /// No such model or path.
    NotFound,
    /// The path exists, the method does not.
    MethodNotAllowed,
    /// The body is larger than the limit.
    TooLarge,
    /// A tenant's limit.
    RateLimited,
    /// The engine's queue is full or the gateway is draining.
    Overloaded,
    /// The upstream failed or broke the stream.
    Upstream,
    /// A deadline passed.
    Timeout,
    /// The format plugin failed this stream.
    Plugin,
    /// A bug or a broken machine.
    Internal,
}

/// Who has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The caller.
    Client,
    /// The engine or server behind the gateway.
    Upstream,
    /// The gateway or its configuration.
    Gateway,
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What kind.
    pub kind: Kind,
    /// One sentence for the caller: what, where, what to do.
    pub message: String,
    /// The request field at fault, as OpenAI's `param`.
    pub param: Option<String>,
    /// OpenAI's `code`, when there is one for this case.
    pub code: Option<&'static str>,
    /// When a retry makes sense.
    pub retry_after: Option<Duration>,
}

impl Error {
    /// An error of this kind with this message.
    #[must_use]
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), param: None, code: None, retry_after: None }
    }

    /// Names the request field at fault.
    #[must_use]
    pub fn param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Adds OpenAI's code.
    #[must_use]
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Says when to retry.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Who has to act.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self.kind {
            Kind::BadRequest
            | Kind::Unauthorized
            | Kind::Forbidden
            | Kind::NotFound
            | Kind::MethodNotAllowed
            | Kind::TooLarge
            | Kind::RateLimited => Fault::Client,
            Kind::Upstream | Kind::Overloaded | Kind::Timeout => Fault::Upstream,
            Kind::Plugin | Kind::Internal => Fault::Gateway,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
