//! A worker's process: an engine, the door for gateways, and for a prefill worker the door for decode workers.

mod outgoing;
mod service;
mod session;

use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_backend::api::{EngineError, GenerateRequest, Pairing};
use sluicegate_backend::engine::{
    Config, Engine, Generation, Identity, PrefillServer, Secret, StartError, Stats, Workers,
};
use sluicegate_backend::exec::Executor;
use sluicegate_backend::grammar::Grammar;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use crate::tls::Incoming;
use crate::wire::proto::worker_server::WorkerServer;
use crate::wire::{Role, Submitted};
use service::{Service, describe};

/// Streams of one connection; sessions need one each.
const STREAMS: u32 = 64;
/// Bytes of messages that may be on their way to a worker.
const WINDOW: u32 = 4 << 20;
/// How often a silent gateway is asked whether it lives, and how long it may take to say so.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(5));

/// Where a worker is reached, and by whom.
#[derive(Clone, Debug)]
pub struct Door {
    /// What it does.
    pub role: Role,
    /// Where gateways connect. Port 0 is any free port.
    pub listen: SocketAddr,
    /// Where decode workers fetch pages from a prefill worker.
    pub transfer_listen: SocketAddr,
    /// What gateways and the other workers know too.
    pub secret: Secret,
    /// Compiles the grammars of requests; without it requests with one are refused.
    pub grammars: Option<Arc<dyn Grammars>>,
}

/// Compiles what gateways send; the gateway's own code, since a grammar's source is in its words.
pub trait Grammars: Debug + Send + Sync {
    /// A grammar for the model's tokens. May take a good part of a second: it is called on a thread that may block.
    ///
    /// # Errors
    /// What is wrong with the source.
    fn compile(&self, source: &str) -> Result<Arc<dyn Grammar>, String>;
}

/// Why a worker did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The engine did not.
    #[error(transparent)]
    Engine(#[from] StartError),
    /// The address can't be used.
    #[error("cannot listen for gateways on {address}: {why}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        why: String,
    },
}

/// What is behind the door.
#[derive(Debug)]
struct Served {
    engine: Behind,
    grammars: Option<Arc<dyn Grammars>>,
}

/// The engine.
#[derive(Debug)]
enum Behind {
    Engine(Engine),
    Prefill(PrefillServer),
}

impl Served {
    fn submit(&self, asked: Submitted) -> Result<Generation, EngineError> {
        let Submitted { mut request, pairing, grammar } = asked;
        if let Some(source) = grammar {
            let lack = "this worker follows no grammars: its model folder has no tokenizer.json that it can read";
            let grammars = self.grammars.as_ref().ok_or_else(|| EngineError::Grammar(lack.into()))?;
            request.grammar = Some(grammars.compile(&source).map_err(EngineError::Grammar)?);
        }
        self.engine.submit(request, pairing)
    }
}

impl Behind {
    fn submit(&self, request: GenerateRequest, pairing: Pairing) -> Result<Generation, EngineError> {
        match self {
            Self::Engine(engine) => engine.submit_paired(request, pairing),
            Self::Prefill(_) => {
                Err(EngineError::Invalid("this worker only prefills; send it to a decode worker".into()))
            }
        }
    }

    fn stats(&self) -> Stats {
        match self {
            Self::Engine(engine) => engine.stats(),
            Self::Prefill(server) => server.stats(),
        }
    }

    fn failure(&self) -> Option<EngineError> {
        match self {
            Self::Engine(engine) => engine.failure(),
            Self::Prefill(server) => server.failure(),
        }
    }

    fn shutdown(&self, grace: Duration) -> bool {
        match self {
            Self::Engine(engine) => engine.shutdown(grace),
            Self::Prefill(server) => server.shutdown(grace),
        }
    }
}

/// A running worker. Dropping it ends its sessions and its engine.
#[derive(Debug)]
pub struct Worker {
    address: SocketAddr,
    transfer: Option<SocketAddr>,
    served: Arc<Served>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Worker {
    /// Starts the engine and opens the doors.
    ///
    /// # Errors
    /// The engine does not start, or an address can't be listened on.
    pub async fn start(door: Door, executor: Box<dyn Executor>, config: &Config) -> Result<Self, ServeError> {
        let address = door.listen;
        let refuse = |why: String| ServeError::Listen { address, why };
        let identity = Identity::of(&door.secret).map_err(|e| refuse(e.to_string()))?;
        let listener = TcpListener::bind(address).await.map_err(|e| refuse(e.to_string()))?;
        let model = executor.model().clone();
        let capacity = executor.capacity();
        let engine = match door.role {
            Role::Both => Behind::Engine(Engine::start(Workers::Both(executor), config)?),
            Role::Decode => {
                let secret = door.secret.clone();
                Behind::Engine(Engine::start(Workers::Paired { decode: executor, secret }, config)?)
            }
            Role::Prefill => {
                let secret = door.secret.clone();
                Behind::Prefill(PrefillServer::start(executor, config, door.transfer_listen, secret)?)
            }
        };
        let transfer = if let Behind::Prefill(server) = &engine { Some(server.address()) } else { None };
        let served = Arc::new(Served { engine, grammars: door.grammars });
        let stop = CancellationToken::new();
        let info = describe(door.role, &model, capacity, transfer).map_err(|e: io::Error| refuse(e.to_string()))?;
        let real = listener.local_addr().map_err(|e| refuse(e.to_string()))?;
        let service = Service::new(Arc::clone(&served), door.secret, info, stop.clone());
        let incoming = Incoming::of(listener, &identity, stop.clone());
        let task = tokio::spawn(serve(incoming, service, stop.clone()));
        Ok(Self { address: real, transfer, served, stop, task })
    }

    /// Where gateways reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where decode workers reach it, if it prefills.
    #[must_use]
    pub fn transfer_address(&self) -> Option<SocketAddr> {
        self.transfer
    }

    /// What it is doing.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.served.engine.stats()
    }

    /// Why it can serve nothing more, if it can't.
    #[must_use]
    pub fn failure(&self) -> Option<EngineError> {
        self.served.engine.failure()
    }

    /// Lets what runs finish for at most `grace`, then ends everything. Says whether all of it finished.
    pub async fn shutdown(mut self, grace: Duration) -> bool {
        let served = Arc::clone(&self.served);
        let drained = tokio::task::spawn_blocking(move || served.engine.shutdown(grace)).await.unwrap_or(false);
        self.stop.cancel();
        let _ = (&mut self.task).await;
        drained
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.cancel();
        self.task.abort();
    }
}

async fn serve(incoming: Incoming, service: Service, stop: CancellationToken) {
    let served = Server::builder()
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .http2_keepalive_interval(Some(KEEP_ALIVE.0))
        .http2_keepalive_timeout(Some(KEEP_ALIVE.1))
        .add_service(WorkerServer::new(service).max_decoding_message_size(WINDOW as usize * 16))
        .serve_with_incoming_shutdown(incoming, stop.cancelled_owned());
    if let Err(error) = served.await {
        tracing::error!(%error, "the worker's door is closed");
    }
}
