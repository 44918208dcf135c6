//! Who is not let in, and what is not accepted: wrong secrets, other models, plain addresses, rooms and pairs that make
//! no sense (case S12).

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_backend::api::{EngineError, Event, GenerateRequest, Pairing};
use sluicegate_backend::engine::{Config, Engine, PrefillServer, Secret, Workers};
use sluicegate_backend::exec::Executor;
use sluicegate_backend::grammar::{Grammar, Matcher};
use sluicegate_backend::models::{CacheDtypes, IndexCacheDtype, KvCacheDtype};
use sluicegate_backend::run::{CpuRunOptions, open_cpu};
use sluicegate_workers::{Door, Expected, PoolConfig, Role, Standing, Worker, WorkerPool};

use crate::device::HashDevice;
use crate::rig::{Dice, Size, any_port, pool, probe, request, secret, start, until};

/// Why the pool's first worker is down, once it has tried.
async fn why(config: PoolConfig) -> String {
    let pool = WorkerPool::start(config).unwrap();
    let reason = || match &pool.workers()[0].standing {
        Standing::Down { why, .. } if !why.contains("not reached yet") => Some(why.clone()),
        _ => None,
    };
    until(Duration::from_secs(5), "the worker is judged", || reason().is_some()).await;
    reason().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_told_apart_from_friends() {
    let size = Size::default();
    let worker = start(Role::Both, &size).await;
    let address = worker.worker.address();
    let other = Secret::new("known to one side only").unwrap();
    assert!(why(PoolConfig::new(vec![address], other)).await.contains("does not know the shared secret"));
    let expected = Expected { architecture: "Llama".into(), vocab_size: 97, eos_ids: vec![0] };
    let config = PoolConfig { expected: Some(expected), ..PoolConfig::new(vec![address], secret()) };
    assert!(why(config).await.contains("serves another model"));
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(why(PoolConfig::new(vec![nobody], secret())).await.contains("cannot connect"));
    // Noise at the door disturbs nobody.
    let pool = pool(&[&worker], |_| {}).await;
    let mut dice = Dice(31);
    for i in 0..20 {
        let mut stranger = TcpStream::connect(address).unwrap();
        let noise: Vec<u8> = (0..i * 17).map(|_| dice.roll(256) as u8).collect();
        stranger.write_all(&noise).unwrap();
        probe(&pool, &mut dice).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_of_different_models_are_never_paired() {
    let prefill = start(Role::Prefill, &Size::default()).await;
    let device = Box::new(HashDevice::new(64, 4, 16, false));
    let decode = crate::rig::start_on(Role::Decode, &Size::default(), device, (any_port(), any_port())).await;
    let pool = pool(&[&prefill, &decode], |c| c.patience = Duration::from_millis(50)).await;
    let refused = pool.submit(request(&mut Dice(32))).await.unwrap_err();
    assert!(refused.to_string().contains("no prefill worker has the same model and page layout"), "{refused}");
}

/// A DeepSeek-V4 whose caches are kept in these formats.
fn deepseek(options: CpuRunOptions) -> Box<dyn Executor> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend/tests/golden/models/deepseek_v4");
    let options = CpuRunOptions { blocks: 64, sequences: 2, rows: 16, threads: 1, ..options };
    Box::new(open_cpu(&dir, &options).unwrap())
}

/// The same model with caches that mean something else: refused by the gateway's pool, and by the workers' own greeting where a
/// gateway pairs them all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_with_different_cache_formats_refuse_each_other() {
    let plain = CpuRunOptions::default();
    let rows = CpuRunOptions { dtypes: CacheDtypes::FP8, ..plain };
    let keys = CacheDtypes { kv: KvCacheDtype::Bf16, index: IndexCacheDtype::Fp8 };
    let others = [
        rows,
        CpuRunOptions { dtypes: keys, ..plain },
        CpuRunOptions { simulate: false, ..plain },
        CpuRunOptions { draft_tokens: 2, ..plain },
        CpuRunOptions { block_tokens: 256, ..plain },
    ];
    let server =
        PrefillServer::start(deepseek(plain), &Config::default(), any_port(), secret()).expect("a prefill worker");
    for other in others {
        let decode = Workers::Paired { decode: deepseek(other), secret: secret() };
        let engine = Engine::start(decode, &Config::default()).unwrap();
        let pairing = Pairing { room: 1, prefill: Some(server.address()), output: vec![] };
        let mut generation = engine.submit_paired(request(&mut Dice(35)), pairing).unwrap();
        let failed = loop {
            match generation.recv().await {
                Some(Event::Failed(why)) => break why.to_string(),
                Some(_) => {}
                None => panic!("{other:?}: ended without an error"),
            }
        };
        assert!(failed.contains("another model or page layout") && failed.contains("cache formats"), "{failed}");
    }
    assert_eq!(server.stats().prompt_tokens_total, 0);
    let worker = async |role, options| {
        let (listen, transfer_listen) = (any_port(), any_port());
        let door = Door { role, listen, transfer_listen, secret: secret(), grammars: None };
        Worker::start(door, deepseek(options), &Config::default()).await.unwrap()
    };
    let (prefill, decode) = (worker(Role::Prefill, plain).await, worker(Role::Decode, rows).await);
    let config = PoolConfig::new(vec![prefill.address(), decode.address()], secret());
    let pool = WorkerPool::start(PoolConfig { patience: Duration::from_millis(50), ..config }).unwrap();
    until(Duration::from_secs(10), "all workers are up", || crate::rig::all_up(&pool)).await;
    let refused = pool.submit(request(&mut Dice(36))).await.unwrap_err().to_string();
    assert!(refused.contains("page layout") && refused.contains("cache formats"), "{refused}");
}

/// A grammar with or without a source, which nobody here can compile.
#[derive(Debug)]
struct Written(Option<&'static str>);

impl Grammar for Written {
    fn matcher(&self) -> Box<dyn Matcher> {
        unreachable!("it is compiled by the worker or by nobody")
    }

    fn source(&self) -> Option<Arc<str>> {
        self.0.map(Arc::from)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grammar_that_cannot_be_kept_is_not_forgotten() {
    let worker = start(Role::Both, &Size::default()).await;
    let pool = pool(&[&worker], |_| {}).await;
    let guided = |source| GenerateRequest { grammar: Some(Arc::new(Written(source))), ..request(&mut Dice(37)) };
    let unsent = pool.submit(guided(None)).await.unwrap_err().to_string();
    assert!(unsent.contains("can't be sent to workers"), "{unsent}");
    let refused = pool.submit(guided(Some("start: \"yes\""))).await.unwrap_err().to_string();
    assert!(refused.contains("follows no grammars") && refused.contains("tokenizer.json"), "{refused}");
    probe(&pool, &mut Dice(38)).await;
}

/// A gateway without TLS gets an alert and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_plain_is_accepted() {
    let worker = start(Role::Both, &Size::default()).await;
    let address = worker.worker.address();
    let answer = tokio::task::spawn_blocking(move || {
        let mut plain = TcpStream::connect(address).unwrap();
        plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        let _ = plain.read_to_end(&mut answer);
        answer
    });
    let answer = answer.await.unwrap();
    assert!(answer.is_empty() || answer[0] == 21, "a TLS alert, not {answer:?}");
}

/// Workers that listen on every address of their host are paired by the address at which the gateway reaches them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_may_listen_on_every_address() {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let size = Size::default();
    let prefill = crate::rig::start_at(Role::Prefill, &size, (everywhere, everywhere)).await;
    let decode = crate::rig::start_at(Role::Decode, &size, (everywhere, everywhere)).await;
    let ports = [&prefill, &decode].map(|held| SocketAddr::from(([127, 0, 0, 1], held.worker.address().port())));
    let pool = WorkerPool::start(PoolConfig::new(ports.to_vec(), secret())).unwrap();
    until(Duration::from_secs(5), "both workers are up", || crate::rig::all_up(&pool)).await;
    probe(&pool, &mut Dice(37)).await;
}

/// Rooms and pairs are a gateway's business, and a worker checks them all the same.
#[test]
fn a_worker_refuses_pairings_that_make_no_sense() {
    let device = || Box::new(HashDevice::new(64, 4, 16, false));
    let paired = Engine::start(Workers::Paired { decode: device(), secret: secret() }, &Config::default()).unwrap();
    let alone = Engine::start(Workers::Both(device()), &Config::default()).unwrap();
    let prefill = Some("127.0.0.1:1".parse().unwrap());
    let refused = |engine: &Engine, pairing| match engine.submit_paired(request(&mut Dice(33)), pairing) {
        Err(EngineError::Invalid(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused(&paired, Pairing::default()).contains("names no prefill worker"));
    assert!(refused(&alone, Pairing { room: 1, prefill, output: vec![] }).contains("prefills itself"));
    for room in [0, 1 << 63, u64::MAX] {
        assert!(refused(&paired, Pairing { room, prefill, output: vec![] }).contains("room"));
    }
    assert!(refused(&paired, Pairing { room: 1, prefill, output: vec![5; 500] }).contains("complete already"));
    let one = Pairing { output: vec![97], ..Pairing::default() };
    let request = GenerateRequest { max_tokens: 9, ..request(&mut Dice(34)) };
    assert!(alone.submit_paired(request, one).is_err_and(|e| e.to_string().contains("output token 97")));
}
