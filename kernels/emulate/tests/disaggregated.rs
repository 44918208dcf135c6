//! Prefill and decode on two stand-in GPUs of two processes: the tokens are those of one GPU.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sluicegate_backend::api::{Event, GenerateRequest, Sampling};
use sluicegate_backend::engine::{Config, Engine, PrefillPeer, PrefillServer, Secret, Workers};
use sluicegate_backend::exec::Executor;
use sluicegate_backend::run::{CudaRunOptions, open_cuda};
use sluicegate_emulate::host::{IMAGE, StandIn, Toolchain};

const KERNELS: &[&[u8]] = &[IMAGE];
/// Set in the process that prefills.
const WORKER: &str = "SLUICEGATE_TEST_PREFILL_WORKER";

fn executor(ordinal: usize) -> Box<dyn Executor> {
    let toolchain = Toolchain::find().expect("a compiler; the test has looked");
    StandIn { devices: 2, seed: 11, ..StandIn::default() }.load(&toolchain).unwrap_or_else(|e| panic!("{e:#}"));
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../backend/tests/golden/models/llama_nvfp4_modelopt");
    let options = CudaRunOptions {
        ordinal,
        blocks: 64,
        sequences: 8,
        rows: 64,
        kernels: Some(KERNELS),
        ..CudaRunOptions::default()
    };
    Box::new(open_cuda(&dir, &options).expect("a golden model opens"))
}

fn secret() -> Secret {
    Secret::new("known to both processes").expect("long enough")
}

fn config() -> Config {
    Config { max_num_seqs: 8, max_num_batched_tokens: 64, ..Config::default() }
}

fn requests() -> Vec<GenerateRequest> {
    let request = |i: u32| GenerateRequest {
        id: "test".into(),
        prompt: (0..20 + 13 * i).map(|t| 2 + (t * 29 + i * 71) % 500).collect(),
        sampling: Sampling { temperature: i as f32 * 0.4, seed: i.into(), ..Sampling::default() },
        stop_ids: Vec::new(),
        max_tokens: 6,
        logprobs: None,
        grammar: None,
        priority: 0,
        deadline: None,
        share: 0,
    };
    (0..3).map(request).collect()
}

/// All requests at once; what each generated.
fn generate(engine: &Engine) -> Vec<Vec<u32>> {
    let streams: Vec<_> = requests().into_iter().map(|r| engine.submit(r).expect("there is room")).collect();
    let collect = |mut stream: sluicegate_backend::engine::Generation| {
        let mut tokens = Vec::new();
        while let Some(event) = stream.blocking_recv() {
            match event {
                Event::Token { id, .. } => tokens.push(id),
                Event::Failed(why) => panic!("{why}"),
                Event::Stage(_) | Event::Cached(_) | Event::Finished { .. } => {}
            }
        }
        tokens
    };
    streams.into_iter().map(collect).collect()
}

/// The other process. It ends when its standard input does.
fn worker() {
    let server = PrefillServer::start(executor(1), &config(), "127.0.0.1:0".parse().expect("an address"), secret())
        .expect("a prefill worker starts");
    let mut out = std::io::stdout();
    writeln!(out, "\nlistening {}", server.address()).and_then(|()| out.flush()).expect("the parent listens");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the parent holds the other end");
}

/// Ends the process when the test does.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn two_processes_generate_what_one_does() {
    if std::env::var_os(WORKER).is_some() {
        return worker();
    }
    if Toolchain::find().is_none() {
        eprintln!("skipped: there is no C++ compiler to build the stand-in driver with");
        return;
    }
    let both = Engine::start(Workers::Both(executor(0)), &config()).expect("an engine starts");
    let wanted = generate(&both);
    drop(both);

    let program = std::env::current_exe().expect("this test");
    let mut command = Command::new(program);
    command.args(["--exact", "two_processes_generate_what_one_does", "--nocapture"]).env(WORKER, "1");
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a second process");
    let mut child = Worker(child);
    let lines = BufReader::new(child.0.stdout.take().expect("piped")).lines();
    let mut said = lines.map_while(Result::ok).filter_map(|l| l.strip_prefix("listening ").map(str::to_owned));
    let address = said.next().expect("the worker's address").parse().expect("an address");

    let prefill = PrefillPeer { address, secret: secret() };
    let linked = Engine::start(Workers::Remote { prefill, decode: executor(0) }, &config()).expect("an engine starts");
    assert_eq!(generate(&linked), wanted);
    assert!(wanted.iter().all(|tokens| tokens.len() == 6));
}
