//! The stand-in driver itself: what a real one forbids it forbids, and it hides no missing event.

use std::ffi::c_void;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use libloading::Library;
use sluicegate_emulate::host::{StandIn, Toolchain};

type Handle = *mut c_void;

/// One driver a process.
static TURN: Mutex<()> = Mutex::new(());

/// Calls a function of the driver.
macro_rules! call {
    ($library:expr, $name:ident ( $($arg:expr => $ty:ty),* )) => {{
        // SAFETY: the driver API's signature; pointers are to live variables or null.
        unsafe { $library.get::<unsafe extern "C" fn($($ty),*) -> i32>(stringify!($name)).expect(stringify!($name))($($arg),*) }
    }};
}

/// The same, which must succeed.
macro_rules! ok {
    ($library:expr, $name:ident ( $($arg:tt)* )) => { assert_eq!(call!($library, $name($($arg)*)), 0, stringify!($name)) };
}

fn with_driver(seed: u32, test: impl FnOnce(&Library)) {
    let Some(toolchain) = Toolchain::find() else {
        eprintln!("skipped: there is no C++ compiler to build the stand-in driver with");
        return;
    };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let library = StandIn { devices: 2, seed, ..StandIn::default() }.load(&toolchain);
    let library = library.unwrap_or_else(|e| panic!("{e:#}"));
    ok!(library, cuInit(0 => u32));
    let mut context: Handle = std::ptr::null_mut();
    ok!(library, cuDevicePrimaryCtxRetain(&raw mut context => *mut Handle, 0 => i32));
    ok!(library, cuCtxSetCurrent(context => Handle));
    test(library);
}

fn allocate(library: &Library, bytes: usize) -> u64 {
    let mut at = 0;
    ok!(library, cuMemAlloc_v2(&raw mut at => *mut u64, bytes => usize));
    at
}

fn read(library: &Library, at: u64) -> u8 {
    let mut byte = 0;
    ok!(library, cuMemcpyDtoH_v2((&raw mut byte).cast() => Handle, at => u64, 1 => usize));
    byte
}

fn stream(library: &Library) -> Handle {
    let mut stream: Handle = std::ptr::null_mut();
    ok!(library, cuStreamCreate(&raw mut stream => *mut Handle, 1 => u32));
    stream
}

#[test]
fn memory_has_bounds_and_an_end() {
    with_driver(0, |library| {
        let at = allocate(library, 100);
        assert_eq!(read(library, at + 99), 0xff, "fresh memory is NaN");
        let mut bytes = [0u8; 101];
        let to = bytes.as_mut_ptr().cast();
        assert_eq!(call!(library, cuMemcpyDtoH_v2(to => Handle, at => u64, 101 => usize)), 1);
        ok!(library, cuMemFree_v2(at => u64));
        assert_eq!(call!(library, cuMemcpyDtoH_v2(to => Handle, at => u64, 1 => usize)), 1);
        assert_eq!(call!(library, cuMemFree_v2(at => u64)), 1, "freed twice");
    });
}

/// What a copy in one stream sees of a fill in another.
fn copied(seed: u32, with_event: bool) -> u8 {
    let mut seen = 0;
    with_driver(seed, |library| {
        let (from, to) = (allocate(library, 64), allocate(library, 64));
        let (first, second) = (stream(library), stream(library));
        let mut event: Handle = std::ptr::null_mut();
        ok!(library, cuEventCreate(&raw mut event => *mut Handle, 2 => u32));
        ok!(library, cuMemsetD8Async(from => u64, 7 => u8, 64 => usize, first => Handle));
        ok!(library, cuEventRecord(event => Handle, first => Handle));
        if with_event {
            ok!(library, cuStreamWaitEvent(second => Handle, event => Handle, 0 => u32));
        }
        ok!(library, cuMemcpyDtoDAsync_v2(to => u64, from => u64, 64 => usize, second => Handle));
        ok!(library, cuStreamSynchronize(second => Handle));
        seen = read(library, to);
    });
    seen
}

#[test]
fn a_missing_event_shows_under_some_seed() {
    if Toolchain::find().is_none() {
        return;
    }
    let without: Vec<u8> = (1..20).map(|seed| copied(seed, false)).collect();
    assert!(without.contains(&7) && without.contains(&0xff), "{without:?}");
    assert!((1..20).all(|seed| copied(seed, true) == 7));
    assert_eq!(copied(0, false), 7, "without a seed nothing waits");
}

#[test]
fn recording_allows_what_a_driver_allows() {
    with_driver(3, |library| {
        let (at, stream) = (allocate(library, 16), stream(library));
        let (mut graph, mut executable): (Handle, Handle) = (std::ptr::null_mut(), std::ptr::null_mut());
        ok!(library, cuStreamBeginCapture_v2(stream => Handle, 1 => i32));
        ok!(library, cuMemsetD8Async(at => u64, 5 => u8, 16 => usize, stream => Handle));
        ok!(library, cuStreamEndCapture(stream => Handle, &raw mut graph => *mut Handle));
        assert_eq!(read(library, at), 0xff, "recorded, not done");
        ok!(library, cuGraphInstantiateWithFlags(&raw mut executable => *mut Handle, graph => Handle, 0 => u64));
        ok!(library, cuGraphLaunch(executable => Handle, stream => Handle));
        assert_eq!(read(library, at), 5);
        // Allocating, and waiting, spoil a recording.
        for spoil in [0, 1] {
            ok!(library, cuStreamBeginCapture_v2(stream => Handle, 1 => i32));
            let mut unused = 0u64;
            let refused = match spoil {
                0 => call!(library, cuMemAlloc_v2(&raw mut unused => *mut u64, 16 => usize)),
                _ => call!(library, cuStreamSynchronize(stream => Handle)),
            };
            assert_eq!(refused, 900);
            assert_eq!(call!(library, cuStreamEndCapture(stream => Handle, &raw mut graph => *mut Handle)), 901);
        }
        assert_eq!(call!(library, cuStreamEndCapture(stream => Handle, &raw mut graph => *mut Handle)), 903);
    });
}

/// Set in the process that opens the memory; the handle in hexadecimal.
const OTHER: &str = "SLUICEGATE_TEST_IPC_HANDLE";

#[derive(Clone, Copy)]
#[repr(C)]
struct IpcHandle([u8; 64]);

/// Reads the first byte, writes the second, waits to be told to end.
fn other_process(text: &str) {
    let mut handle = IpcHandle([0; 64]);
    for (byte, i) in handle.0.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[i..i + 2], 16).expect("hexadecimal");
    }
    with_driver(0, |library| {
        let mut at = 0u64;
        ok!(library, cuIpcOpenMemHandle_v2(&raw mut at => *mut u64, handle => IpcHandle, 1 => u32));
        println!("\nfound {}", read(library, at));
        ok!(library, cuMemsetD8_v2(at + 1 => u64, 42 => u8, 1 => usize));
        ok!(library, cuIpcCloseMemHandle(at => u64));
        assert_eq!(call!(library, cuMemFree_v2(at => u64)), 1, "it is not this process's to free");
    });
}

#[test]
fn memory_is_shared_with_another_process() {
    if let Ok(text) = std::env::var(OTHER) {
        return other_process(&text);
    }
    with_driver(0, |library| {
        let at = allocate(library, 64);
        ok!(library, cuMemsetD8_v2(at => u64, 9 => u8, 64 => usize));
        let mut handle = IpcHandle([0; 64]);
        ok!(library, cuIpcGetMemHandle(&raw mut handle => *mut IpcHandle, at => u64));
        let mut again = 0u64;
        assert_eq!(
            call!(library, cuIpcOpenMemHandle_v2(&raw mut again => *mut u64, handle => IpcHandle, 1 => u32)),
            201
        );
        let mut pooled = 0u64;
        ok!(library, cuMemAllocAsync(&raw mut pooled => *mut u64, 64 => usize, std::ptr::null_mut() => Handle));
        assert_eq!(
            call!(library, cuIpcGetMemHandle(&raw mut handle => *mut IpcHandle, pooled => u64)),
            1,
            "pools have no handles"
        );
        let text: String = handle.0.iter().map(|b| format!("{b:02x}")).collect();
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "memory_is_shared_with_another_process", "--nocapture"]).env(OTHER, text);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a second process");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let found: Vec<String> = lines.filter(|l| l.starts_with("found ")).collect();
        assert!(child.wait().expect("it ends").success());
        assert_eq!(found, ["found 9"]);
        assert_eq!(read(library, at + 1), 42);
    });
}
