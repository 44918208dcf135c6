//! Prefill and decode on two stand-in GPUs, of one process and of two: pages go from GPU to GPU, the tokens are those of one
//! GPU, and whoever leaves or dies leaves nothing behind.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use sluicegate_backend::api::{Event, GenerateRequest, Sampling};
use sluicegate_backend::engine::{Config, Engine, Generation, PrefillPeer, PrefillServer, Secret, Stats, Workers};
use sluicegate_backend::exec::Executor;
use sluicegate_backend::run::{CudaRunOptions, open_cuda};
use sluicegate_emulate::host::{IMAGE, StandIn, Toolchain};

const KERNELS: &[&[u8]] = &[IMAGE];
/// Set in the other process: `prefill`, or the address of the prefill worker to decode for.
const WORKER: &str = "SLUICEGATE_TEST_GPU_WORKER";
/// What the other process runs.
const ENTRY: &str = "other_process";

/// One driver a process, whose counters the tests read.
static TURN: Mutex<()> = Mutex::new(());

fn stand_in() -> &'static libloading::Library {
    let toolchain = Toolchain::find().expect("a compiler; the test has looked");
    StandIn { devices: 2, seed: 11, ..StandIn::default() }.load(&toolchain).unwrap_or_else(|e| panic!("{e:#}"))
}

/// One of the stand-in's counters.
fn count(name: &str) -> usize {
    // SAFETY: these functions have this type; see `driver/memory.cpp`.
    unsafe { stand_in().get::<unsafe extern "C" fn() -> usize>(name.as_bytes()).expect("it is there")() }
}

fn executor(ordinal: usize) -> Box<dyn Executor> {
    stand_in();
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
    Config { max_num_seqs: 8, max_num_batched_tokens: 64, enable_prefix_caching: false, ..Config::default() }
}

fn submit(engine: &Engine) -> Vec<Generation> {
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
    (0..3).map(|i| engine.submit(request(i)).expect("there is room")).collect()
}

/// All requests at once; what each generated.
fn generate(engine: &Engine) -> Vec<Vec<u32>> {
    let collect = |mut stream: Generation| {
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
    submit(engine).into_iter().map(collect).collect()
}

/// What one GPU generates.
fn wanted() -> &'static [Vec<u32>] {
    static WANTED: OnceLock<Vec<Vec<u32>>> = OnceLock::new();
    WANTED.get_or_init(|| {
        let wanted = generate(&Engine::start(Workers::Both(executor(0)), &config()).expect("an engine starts"));
        assert!(wanted.iter().all(|tokens| tokens.len() == 6));
        wanted
    })
}

/// Asks until it is so; a test that waits for ever is one that fails.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never came to this: {what}");
}

fn is_empty(s: &Stats) -> bool {
    s.blocks_held + s.slots_used + s.transferring + s.waiting + s.prefilling + s.decoding == 0
}

/// The other process. It says what the test asks for by a line, and ends when its standard input does.
#[test]
#[ignore = "the other process of the tests here"]
fn other_process() {
    let Ok(role) = std::env::var(WORKER) else { return };
    let say = |line: String| {
        let mut out = std::io::stdout();
        writeln!(out, "\nsays {line}").and_then(|()| out.flush()).expect("the parent listens");
    };
    if role == "prefill" {
        let server = PrefillServer::start(executor(1), &config(), "127.0.0.1:0".parse().expect("an address"), secret())
            .expect("a prefill worker starts");
        say(server.address().to_string());
        for _ in std::io::stdin().lines() {
            say(if is_empty(&server.stats()) { "empty" } else { "busy" }.into());
        }
        return;
    }
    let prefill = PrefillPeer { address: role.parse().expect("an address"), secret: secret() };
    let engine = Engine::start(Workers::Remote { prefill, decode: executor(0) }, &config()).expect("an engine starts");
    loop {
        let mut streams = submit(&engine);
        while let Some(event) = streams[0].blocking_recv() {
            if let Event::Token { .. } = event {
                say("token".into());
            }
        }
    }
}

/// A second process, ended with the test.
struct Other {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Other {
    fn start(role: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", ENTRY, "--nocapture", "--ignored"]).env(WORKER, role);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a second process");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, lines }
    }

    fn hear(&mut self) -> String {
        let mut said = self.lines.by_ref().map_while(Result::ok);
        said.find_map(|l| l.strip_prefix("says ").map(str::to_owned)).expect("the other process lives")
    }

    fn ask(&mut self) -> String {
        self.child.stdin.as_mut().expect("piped").write_all(b"\n").expect("the other process lives");
        self.hear()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with_driver(test: impl FnOnce()) {
    if Toolchain::find().is_none() {
        eprintln!("skipped: there is no C++ compiler to build the stand-in driver with");
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    test();
}

/// Starts all requests, and leaves them at different moments.
fn submit_and_leave(engine: &Engine) {
    for events in 0..4 {
        let mut streams = submit(engine);
        for stream in &mut streams {
            (0..events).for_each(|_| drop(stream.blocking_recv()));
        }
    }
}

#[test]
fn two_gpus_of_one_process_generate_what_one_does() {
    with_driver(|| {
        let wanted = wanted();
        let before = count("standin_peer_copies");
        let workers = Workers::Split { prefill: executor(1), decode: executor(0) };
        let engine = Engine::start(workers, &config()).expect("an engine starts");
        assert_eq!(generate(&engine), wanted);
        assert!(count("standin_peer_copies") > before, "pages went through the host");
        submit_and_leave(&engine);
        assert_eq!(generate(&engine), wanted);
        wait_until("both GPUs are empty", || is_empty(&engine.stats()));
    });
}

#[test]
fn two_processes_generate_what_one_does() {
    with_driver(|| {
        let wanted = wanted();
        let before = count("standin_peer_copies");
        let mut other = Other::start("prefill");
        let prefill = PrefillPeer { address: other.hear().parse().expect("an address"), secret: secret() };
        let workers = Workers::Remote { prefill, decode: executor(0) };
        let engine = Engine::start(workers, &config()).expect("an engine starts");
        assert_eq!(generate(&engine), wanted);
        assert!(count("standin_peer_copies") > before, "pages went through the host");
        assert!(count("standin_imports") > 0);
        // Aborts in the middle: nothing is left at either end, and nobody else's tokens change.
        submit_and_leave(&engine);
        assert_eq!(generate(&engine), wanted);
        wait_until("the decode worker is empty", || is_empty(&engine.stats()));
        wait_until("the prefill worker is empty", || other.ask() == "empty");
        // The prefill worker dies in the middle.
        let streams = submit(&engine);
        drop(other);
        drop(streams);
        wait_until("the decode worker is empty", || is_empty(&engine.stats()));
        wait_until("nothing of the dead is open", || count("standin_imports") == 0);
    });
}

#[test]
fn a_decode_worker_that_dies_leaves_nothing_at_its_prefill_worker() {
    with_driver(|| {
        let server = PrefillServer::start(executor(1), &config(), "127.0.0.1:0".parse().expect("an address"), secret())
            .expect("a prefill worker starts");
        let mut other = Other::start(&server.address().to_string());
        assert_eq!(other.hear(), "token");
        drop(other);
        wait_until("the prefill worker is empty", || is_empty(&server.stats()));
    });
}
