//! The two calls of a worker.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use sluicegate_backend::engine::{Secret, layout};
use sluicegate_backend::exec::{Capacity, ModelSpec};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::Served;
use super::outgoing::Outgoing;
use super::session;
use crate::session::{VERSION, WorkerClaim, is_signed, random};
use crate::wire::Role;
use crate::wire::proto::worker_server::Worker;
use crate::wire::proto::{HelloReply, HelloRequest, ToWorker};

/// Messages of all requests of a session that may wait for the connection.
const SAID: usize = 1024;

/// See the file's head.
#[derive(Debug)]
pub(super) struct Service {
    served: Arc<Served>,
    secret: Secret,
    info: Info,
    stop: CancellationToken,
}

/// What does not change while the process runs.
#[derive(Debug)]
pub(super) struct Info {
    role: Role,
    instance: [u8; 32],
    reply: HelloReply,
}

/// Everything that a worker says of itself.
///
/// # Errors
/// The system has no randomness.
pub(super) fn describe(
    role: Role,
    model: &ModelSpec,
    capacity: Capacity,
    transfer: Option<SocketAddr>,
) -> io::Result<Info> {
    let instance = random()?;
    let tokens = u64::from(capacity.blocks) * u64::from(model.cache.block_tokens);
    let reply = HelloReply {
        version: VERSION,
        role: role.proto() as i32,
        instance: instance.to_vec(),
        proof: Vec::new(),
        layout: layout(model).to_vec(),
        architecture: model.architecture.clone(),
        vocab_size: model.vocab_size,
        context_length: model.context_length,
        eos_ids: model.eos_ids.clone(),
        max_total_tokens: tokens.min(u64::from(model.context_length)),
        transfer: transfer.map(|a| a.to_string()).unwrap_or_default(),
        release: env!("CARGO_PKG_VERSION").to_owned(),
    };
    Ok(Info { role, instance, reply })
}

impl Service {
    pub(super) fn new(served: Arc<Served>, secret: Secret, info: Info, stop: CancellationToken) -> Self {
        Self { served, secret, info, stop }
    }
}

#[tonic::async_trait]
impl Worker for Service {
    async fn hello(&self, request: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        let HelloRequest { version, nonce } = request.into_inner();
        if version != VERSION {
            return Err(Status::failed_precondition(format!(
                "the gateway speaks version {version} of the worker protocol, this worker version {VERSION}; run the same release on both"
            )));
        }
        let mut reply = self.info.reply.clone();
        let claim = WorkerClaim {
            role: self.info.role,
            instance: &self.info.instance,
            nonce: &nonce,
            layout: &reply.layout,
            transfer: &reply.transfer,
        };
        reply.proof = claim.prove(&self.secret);
        Ok(Response::new(reply))
    }

    type ServeStream = Outgoing;

    async fn serve(&self, request: Request<Streaming<ToWorker>>) -> Result<Response<Outgoing>, Status> {
        if !is_signed(request.metadata(), &self.secret, &self.info.instance) {
            tracing::warn!(peer = ?request.remote_addr(), "a session was refused: no proof of the shared secret");
            return Err(Status::unauthenticated(
                "no proof of the shared secret for this start of the worker; say hello again, with the same secret file",
            ));
        }
        let (say, said) = mpsc::channel(SAID);
        let outgoing = Outgoing::new(said, Arc::clone(&self.served));
        let (served, stop) = (Arc::clone(&self.served), self.stop.clone());
        tracing::info!(peer = ?request.remote_addr(), "a gateway is connected");
        tokio::spawn(session::run(request.into_inner(), served, say, stop));
        Ok(Response::new(outgoing))
    }
}
