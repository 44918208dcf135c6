//! Keeps a session with one worker, for ever: meets it, listens to it, and meets it again.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_backend::engine::Identity;
use tonic::Streaming;

use super::PoolConfig;
use super::meet::meet;
use super::session::Session;
use super::worker::Member;
use crate::wire::proto::FromWorker;

/// Pauses between attempts: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Runs until it is aborted.
pub(super) async fn keep_up(member: Arc<Member>, config: Arc<PoolConfig>, identity: Identity) {
    let mut pause = PAUSES.0;
    loop {
        // Hello and the first status, at leisure: a machine that starts many processes is slow.
        let met = tokio::time::timeout(config.silence * 3, meet(member.address, &config, &identity)).await;
        match met {
            Ok(Ok((session, inbound))) => {
                pause = PAUSES.0;
                member.up(Arc::clone(&session));
                let end = Ending(&session);
                session.end(&listen(&session, inbound, &config).await);
                member.down(&session.why());
                drop(end);
            }
            Ok(Err(why)) => member.down(&why),
            Err(_) => member.down("it accepts connections and does not answer: it is stopped or stuck"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Closes a session, also when the pool is dropped.
struct Ending<'a>(&'a Session);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Says why it can't go on.
async fn listen(session: &Session, mut inbound: Streaming<FromWorker>, config: &PoolConfig) -> String {
    loop {
        let message = tokio::select! {
            message = tokio::time::timeout(config.silence, inbound.message()) => message,
            () = session.over() => return session.why(),
        };
        let taken = match message {
            Ok(Ok(Some(message))) => session.take(message, config),
            Ok(Ok(None)) => Err("it ended the session".to_owned()),
            Ok(Err(status)) => Err(format!("its connection broke: {}", status.message())),
            Err(_) => Err(format!("it has said nothing for {} ms: it is stopped or stuck", config.silence.as_millis())),
        };
        if let Err(why) = taken {
            return why;
        }
    }
}
