//! Which workers serve a request: the least loaded ones that fit together.

use std::net::SocketAddr;
use std::sync::Arc;

use super::session::Session;
use super::worker::{Member, State};
use crate::wire::Role;

/// Who serves a request.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// Has the sequence.
    pub(super) decode: Arc<Session>,
    /// Computes its prompt, if that is another one.
    pub(super) prefill: Option<Arc<Session>>,
}

/// The least loaded worker, or pair with one model and layout; those in `avoid` only if there is no other.
///
/// # Errors
/// What is missing, and why: one sentence for each worker that is down.
pub(super) fn choose(members: &[Arc<Member>], avoid: &[SocketAddr]) -> Result<Choice, String> {
    let up: Vec<Arc<Session>> = members
        .iter()
        .filter_map(|m| if let State::Up(session) = m.state() { Some(session) } else { None })
        .filter(|session| session.takes_requests())
        .collect();
    let role = |role: Role| up.iter().filter(move |s| s.info.role == role);
    let alone = role(Role::Both).map(|s| Choice { decode: Arc::clone(s), prefill: None });
    let pairs = role(Role::Decode).flat_map(|d| {
        let fitting = role(Role::Prefill).filter(move |p| p.info.layout == d.info.layout);
        fitting.map(move |p| Choice { decode: Arc::clone(d), prefill: Some(Arc::clone(p)) })
    });
    alone.chain(pairs).min_by_key(|choice| choice.cost(avoid)).ok_or_else(|| lack(members, &up))
}

impl Choice {
    fn cost(&self, avoid: &[SocketAddr]) -> (usize, u64) {
        let each = || std::iter::once(&self.decode).chain(&self.prefill);
        let avoided = each().filter(|s| avoid.contains(&s.address)).count();
        (avoided, each().map(|s| s.load()).sum())
    }
}

fn lack(members: &[Arc<Member>], up: &[Arc<Session>]) -> String {
    let has = |role| up.iter().any(|s| s.info.role == role);
    let what = match (has(Role::Prefill), has(Role::Decode)) {
        (true, true) => {
            "no prefill worker has the same model and page layout as a decode worker; start both with the same model \
             folder, block size, cache formats and speculative settings"
        }
        (true, false) => "no decode worker is up",
        (false, true) => "no prefill worker is up",
        (false, false) => "no worker is up",
    };
    let mut out = what.to_owned();
    for member in members {
        if let State::Down { why, since } = member.state() {
            out.push_str(&format!("; {} is down for {} ms: {why}", member.address, since.elapsed().as_millis()));
        }
    }
    out
}
