//! Builds the workers and their links, and starts their threads.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Decode, Meter, Prefill, Worker};
use crate::engine::{Config, Limits, Phase, Shared, StartError, Stats, Workers};
use crate::exec::Executor;
use crate::kv::{Memory, MemorySize};
use crate::schedule::{Admission, DecodeRole, FairQueue, PlanBuilder, PrefillRole, Speculator};
use crate::sequence::Waiting;
use crate::transfer::remote::{self, Links, RemoteIn, RemoteOut, Secret};
use crate::transfer::{HandOver, Inbound, Outbound, page_link, reach};

/// Where new requests go.
#[derive(Debug)]
pub(in crate::engine) struct Inbox(SyncSender<Waiting>);

impl Inbox {
    /// Never blocks: places in the queue are as many as places in the channel. False when the worker is gone.
    pub(in crate::engine) fn send(&self, waiting: Waiting) -> bool {
        self.0.try_send(waiting).is_ok()
    }
}

/// A started engine.
pub(in crate::engine) struct Started {
    pub(in crate::engine) inbox: Inbox,
    pub(in crate::engine) shared: Arc<Shared>,
    pub(in crate::engine) threads: Vec<JoinHandle<()>>,
}

/// A started prefill worker with a door.
pub(in crate::engine) struct Served {
    pub(in crate::engine) address: SocketAddr,
    pub(in crate::engine) shared: Arc<Shared>,
    pub(in crate::engine) threads: Vec<JoinHandle<()>>,
}

/// The doors of a prefill role.
struct PrefillDoors {
    inbox: Option<Receiver<Waiting>>,
    returned: Option<Receiver<Waiting>>,
    out: Box<dyn Outbound>,
}

/// The doors of a decode role.
struct DecodeDoors {
    inbox: Option<Receiver<Waiting>>,
    arrivals: Box<dyn Inbound>,
    back: Option<SyncSender<Waiting>>,
}

/// How a worker is made, on its own thread, because block handles do not leave it.
type Make = Box<dyn FnOnce(Arc<Shared>) -> Worker + Send>;

/// Starts one thread for each device.
pub(in crate::engine) fn start(workers: Workers, config: &Config, limits: Limits) -> Result<Started, StartError> {
    let count = if matches!(workers, Workers::Split { .. }) { 2 } else { 1 };
    let shared = Shared::new(count, config.max_queued_requests);
    let (send, inbox) = sync_channel(config.max_queued_requests);
    let tls = |e: std::io::Error| StartError::Tls(e.to_string());
    let makes: Vec<(&str, Make)> = match workers {
        Workers::Both(device) => vec![("engine", both(device, inbox, config.clone(), limits))],
        Workers::Split { prefill, decode } => split((prefill, decode), inbox, config, limits, &shared),
        Workers::Remote { prefill, decode } => {
            let links = Links::new(prefill.secret, decode.model(), &shared).map_err(tls)?;
            vec![("decode", remote_decode((links, Some(prefill.address)), decode, inbox, config, limits))]
        }
        Workers::Paired { decode, secret } => {
            let links = Links::new(secret, decode.model(), &shared).map_err(tls)?;
            vec![("decode", remote_decode((links, None), decode, inbox, config, limits))]
        }
    };
    let threads = launch(makes, &shared)?;
    Ok(Started { inbox: Inbox(send), shared, threads })
}

/// A prefill worker for decode workers elsewhere.
pub(in crate::engine) fn serve(
    mut device: Box<dyn Executor>,
    config: &Config,
    limits: Limits,
    (address, secret): (SocketAddr, Secret),
) -> Result<Served, StartError> {
    let shared = Shared::new(1, config.max_queued_requests);
    let model = device.model().clone();
    let listener = remote::listen(address, secret, &model, &shared)?;
    let (address, config) = (listener.address, config.clone());
    let export = remote::export(&mut *device);
    let make = move |shared: Arc<Shared>| {
        let out = RemoteOut::new(listener, (model, export), limits, Arc::clone(&shared));
        prefill_worker(device, config, PrefillDoors { inbox: None, returned: None, out: Box::new(out) }, shared)
    };
    let threads = launch(vec![("prefill", Box::new(make))], &shared)?;
    Ok(Served { address, shared, threads })
}

/// `only` is the prefill worker of all requests; without it each request names its own.
fn remote_decode(
    (links, only): (Links, Option<SocketAddr>),
    device: Box<dyn Executor>,
    inbox: Receiver<Waiting>,
    config: &Config,
    limits: Limits,
) -> Make {
    let config = config.clone();
    Box::new(move |shared| {
        let arrivals = Box::new(RemoteIn::new(links, only, device.cache()));
        decode_worker(device, config, limits, DecodeDoors { inbox: Some(inbox), arrivals, back: None }, shared)
    })
}

/// Starts a thread for each worker.
fn launch(makes: Vec<(&str, Make)>, shared: &Arc<Shared>) -> Result<Vec<JoinHandle<()>>, StartError> {
    let mut threads = Vec::new();
    for (name, make) in makes {
        let own = Arc::clone(shared);
        let thread = std::thread::Builder::new().name(format!("sluicegate-{name}")).spawn(move || {
            let mut worker = make(Arc::clone(&own));
            // Dropped before the worker, so that streams cut off by a panic say why.
            let _obituary = Obituary(own);
            worker.run();
        });
        match thread {
            Ok(thread) => threads.push(thread),
            Err(e) => {
                shared.advance(Phase::Stopping);
                return Err(StartError::Thread(e.to_string()));
            }
        }
    }
    shared.set_threads(threads.iter().map(|t| t.thread().clone()).collect());
    Ok(threads)
}

struct Obituary(Arc<Shared>);

impl Drop for Obituary {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lose("a worker thread panicked; see the log".into());
        }
    }
}

fn both(device: Box<dyn Executor>, inbox: Receiver<Waiting>, config: Config, limits: Limits) -> Make {
    Box::new(move |shared| {
        let link = HandOver::default();
        let reuse = config.enable_prefix_caching;
        let mut worker = bare(0, device, &config, (shared, reuse));
        worker.prefill = Some(Prefill {
            role: prefill_role(&config),
            inbox: Some(inbox),
            returned: None,
            out: Box::new(link.clone()),
            blocked: VecDeque::new(),
        });
        worker.decode = Some(Decode {
            role: decode_role(&config, limits, &*worker.device),
            inbox: None,
            arrivals: Box::new(link),
            back: None,
            returning: VecDeque::new(),
        });
        worker
    })
}

fn split(
    (mut prefill, mut decode): (Box<dyn Executor>, Box<dyn Executor>),
    inbox: Receiver<Waiting>,
    config: &Config,
    limits: Limits,
    shared: &Arc<Shared>,
) -> Vec<(&'static str, Make)> {
    let peer = reach(&mut *prefill, &mut *decode);
    let (out, arrivals) = page_link(prefill.model().cache.clone(), peer, shared);
    let (back, returned) = sync_channel(decode.capacity().sequences as usize);
    let config_p = config.clone();
    let config_d = config.clone();
    let at_prefill = move || PrefillDoors { inbox: Some(inbox), returned: Some(returned), out: Box::new(out()) };
    let at_decode = move || DecodeDoors { inbox: None, arrivals: Box::new(arrivals), back: Some(back) };
    let make_prefill = move |shared| prefill_worker(prefill, config_p, at_prefill(), shared);
    let make_decode = move |shared| decode_worker(decode, config_d, limits, at_decode(), shared);
    vec![("prefill", Box::new(make_prefill)), ("decode", Box::new(make_decode))]
}

fn prefill_worker(device: Box<dyn Executor>, config: Config, doors: PrefillDoors, shared: Arc<Shared>) -> Worker {
    let reuse = config.enable_prefix_caching;
    let mut worker = bare(0, device, &config, (shared, reuse));
    worker.prefill = Some(Prefill {
        role: prefill_role(&config),
        inbox: doors.inbox,
        returned: doors.returned,
        out: doors.out,
        blocked: VecDeque::new(),
    });
    worker
}

fn decode_worker(
    device: Box<dyn Executor>,
    config: Config,
    limits: Limits,
    doors: DecodeDoors,
    shared: Arc<Shared>,
) -> Worker {
    // No prompt is ever matched here, so cached blocks would only be evicted again.
    let index = usize::from(doors.back.is_some());
    let mut worker = bare(index, device, &config, (shared, false));
    worker.decode = Some(Decode {
        role: decode_role(&config, limits, &*worker.device),
        inbox: doors.inbox,
        arrivals: doors.arrivals,
        back: doors.back,
        returning: VecDeque::new(),
    });
    worker
}

fn decode_role(config: &Config, limits: Limits, device: &dyn Executor) -> DecodeRole {
    let speculator = config.speculation.as_ref().and_then(|s| Speculator::new(s, device));
    DecodeRole::new(limits.max_total_tokens, speculator)
}

fn prefill_role(config: &Config) -> PrefillRole {
    let chunk = match config.long_prefill_token_threshold {
        0 => usize::MAX,
        n => n,
    };
    let admission = Admission { chunk, salt_by_share: config.prefix_caching_per_share };
    PrefillRole::new(FairQueue::new(config.share_weights.clone()), admission)
}

/// A worker without roles.
fn bare(index: usize, device: Box<dyn Executor>, config: &Config, (shared, reuse): (Arc<Shared>, bool)) -> Worker {
    let mut capacity = device.capacity();
    capacity.blocks = config.blocks(capacity);
    let rows = config.max_num_batched_tokens.min(capacity.rows as usize);
    // A decoding sequence always has a row, so no rotation between them is needed.
    let max_seqs = config.max_num_seqs.min(rows);
    Worker {
        index,
        memory: Memory::new(
            &device.model().cache,
            MemorySize {
                capacity,
                max_seqs,
                reuse,
                host_bytes: config.kv_offloading_bytes,
                checksums: config.kv_checksums,
            },
        ),
        device,
        prefill: None,
        decode: None,
        rows,
        builder: PlanBuilder::default(),
        drawn: Vec::new(),
        stats: Stats::default(),
        meter: Meter::default(),
        step_took: Duration::ZERO,
        shared,
    }
}
