//! The first exchange with a worker: is it one of ours, does it speak our version, does it serve the right model.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use sluicegate_backend::engine::Identity;
use tokio::sync::mpsc;
use tonic::transport::Endpoint;
use tonic::{Request, Status, Streaming};

use super::PoolConfig;
use super::session::{Info, Session};
use crate::session::{VERSION, WorkerClaim, random, sign};
use crate::tls;
use crate::wire::Role;
use crate::wire::proto::worker_client::WorkerClient;
use crate::wire::proto::{self, FromWorker, HelloReply, HelloRequest, ToWorker};

/// Messages to a worker that may wait for the connection. A worker that takes none of so many is stuck.
const WAITING: usize = 1 << 15;
/// Bytes of messages that may be on their way to the gateway.
const WINDOW: u32 = 4 << 20;

/// What a worker has to serve, as far as the gateway knows it from the model's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Architecture as config.json names it.
    pub architecture: String,
    /// Number of logits.
    pub vocab_size: u32,
    /// End-of-sequence ids of the checkpoint's generation config.
    pub eos_ids: Vec<u32>,
}

/// Messages to a worker as a stream.
struct Outgoing(mpsc::Receiver<ToWorker>);

impl Stream for Outgoing {
    type Item = ToWorker;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ToWorker>> {
        self.0.poll_recv(cx)
    }
}

/// Connects, checks who is there, and opens a session.
///
/// # Errors
/// One sentence on what is wrong, and with whom.
pub(super) async fn meet(
    address: SocketAddr,
    config: &PoolConfig,
    identity: &Identity,
) -> Result<(Arc<Session>, Streaming<FromWorker>), String> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|e| e.to_string())?;
    let endpoint = endpoint
        .connect_timeout(config.silence)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    let channel =
        tls::connect(endpoint, address, identity).await.map_err(|e| format!("cannot connect: {}", root(&e)))?;
    let mut client = WorkerClient::new(channel).max_decoding_message_size(WINDOW as usize * 16);
    let nonce = random().map_err(|e| format!("the system has no randomness: {e}"))?;
    let hello = HelloRequest { version: VERSION, nonce: nonce.to_vec() };
    let reply = client.hello(hello).await.map_err(|e| said(&e))?.into_inner();
    let info = check(&reply, &nonce, address, config)?;
    let (send, outgoing) = mpsc::channel(WAITING);
    let mut request = Request::new(Outgoing(outgoing));
    sign(request.metadata_mut(), &config.secret, &reply.instance, &nonce);
    let mut inbound = client.serve(request).await.map_err(|e| said(&e))?.into_inner();
    let session = Arc::new(Session::new(address, info, send));
    // The first message says how it is: a worker that is stuck is not up.
    let first = inbound.message().await.map_err(|e| said(&e))?.ok_or("it closed the session at once")?;
    session.take(first, config)?;
    Ok((session, inbound))
}

fn check(reply: &HelloReply, nonce: &[u8], address: SocketAddr, config: &PoolConfig) -> Result<Info, String> {
    let role = proto::Role::try_from(reply.role)
        .ok()
        .and_then(Role::of)
        .ok_or("it has a role that this release does not know")?;
    if reply.version != VERSION {
        return Err(format!("it speaks version {} of the worker protocol, this gateway {VERSION}", reply.version));
    }
    let claim =
        WorkerClaim { role, instance: &reply.instance, nonce, layout: &reply.layout, transfer: &reply.transfer };
    if !claim.is_proved_by(&config.secret, &reply.proof) {
        return Err("it does not know the shared secret; give both sides the same secret file".into());
    }
    let own = Expected {
        architecture: reply.architecture.clone(),
        vocab_size: reply.vocab_size,
        eos_ids: reply.eos_ids.clone(),
    };
    if let Some(expected) = config.expected.as_ref().filter(|e| **e != own) {
        return Err(format!("it serves another model: {own:?}, where the gateway's folder has {expected:?}"));
    }
    let transfer = match role {
        Role::Prefill => Some(reachable(&reply.transfer, address)?),
        Role::Decode | Role::Both => None,
    };
    tracing::debug!(worker = %address, release = reply.release, "a worker said hello");
    Ok(Info { role, layout: reply.layout.clone(), transfer })
}

/// Where pages are fetched. A worker that listens on every address of its host is reached where the gateway reaches it.
fn reachable(transfer: &str, worker: SocketAddr) -> Result<SocketAddr, String> {
    let mut transfer: SocketAddr =
        transfer.parse().map_err(|_| "it prefills and names no address for pages".to_owned())?;
    if transfer.ip().is_unspecified() {
        transfer.set_ip(worker.ip());
    }
    Ok(transfer)
}

fn said(status: &Status) -> String {
    status.message().to_owned()
}

/// The innermost reason; the outer ones only say that there was an error.
fn root(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
