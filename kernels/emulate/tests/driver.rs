//! The stand-in driver, through cudarc and the CUDA device: what the product's own code does where there is no GPU.

use std::sync::Mutex;

use sluicegate_emulate::check::run_cases;
use sluicegate_emulate::host::{IMAGE, StandIn, Toolchain};
use sluicegate_kernels::batch::{Batch, Extent, Limits, Pass};
use sluicegate_kernels::cuda::device::{Bench, Cuda, gpus};
use sluicegate_kernels::ops::{Act, Build, Linear, Operand, Ops, Rows, Step, Table, Vector};
use sluicegate_kernels::tensor::{Matrix, Values};

/// One driver a process.
static TURN: Mutex<()> = Mutex::new(());

fn with_driver(seed: u32, test: impl FnOnce()) {
    let Some(toolchain) = Toolchain::find() else {
        eprintln!("skipped: there is no C++ compiler to build the stand-in driver with");
        return;
    };
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    StandIn { devices: 2, seed, ..StandIn::default() }.load(&toolchain).unwrap_or_else(|e| panic!("{e:#}"));
    test();
}

fn limits() -> Limits {
    Limits { rows: 32, samples: 4, table_entries: 16, block_tokens: 16, blocks: 8, slots: 4 }
}

fn bf16(rows: usize, cols: usize, value: impl Fn(usize, usize) -> f32) -> Matrix {
    let numbers = (0..rows * cols).map(|i| half::bf16::from_f32(value(i / cols, i % cols)));
    let bytes: Vec<u8> = numbers.flat_map(|n| n.to_le_bytes()).collect();
    Matrix { rows, cols, values: Values::Bf16(bytes.into()) }
}

#[test]
fn gpus_are_listed() {
    with_driver(0, || {
        let found = gpus().unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].ordinal, found[1].name.as_str()), (1, "Stand-in 1"));
        assert_eq!((found[1].capability, found[1].memory), ((12, 0), 4 << 30));
    });
}

#[test]
fn what_can_t_work_is_said() {
    with_driver(0, || {
        let fails = |ordinal, kernels: &[&[u8]], limits| Cuda::new(ordinal, kernels, limits).unwrap_err().to_string();
        assert!(fails(2, &[IMAGE], limits()).contains("there is no cuda:2; the driver sees 2 GPUs"));
        assert!(fails(0, &[], limits()).contains("built without CUDA kernels"));
        assert!(fails(0, &[b"not a cubin"], limits()).contains("CUDA_ERROR_INVALID_IMAGE"));
        assert!(fails(0, &[IMAGE], Limits { block_tokens: 8, ..limits() }).contains("multiple of 16"));
        let mut cuda = Cuda::new(0, &[IMAGE], limits()).unwrap();
        cuda.act(Rows::Batch, 1 << 30);
        let error = cuda.check().unwrap_err().to_string();
        assert!(error.contains("CUDA_ERROR_OUT_OF_MEMORY"), "{error}");
        let refused = cuda.pool(1 << 31, 1).unwrap_err().to_string();
        assert!(refused.contains("device memory exhausted"), "{refused}");
    });
}

/// Allocations that the driver has ever made.
fn allocations() -> usize {
    let toolchain = Toolchain::find().expect("a compiler; the test has looked");
    let library = StandIn { devices: 2, seed: 9, ..StandIn::default() }.load(&toolchain).expect("it is loaded");
    // SAFETY: the function has this type; see `driver/memory.cpp`.
    unsafe { library.get::<unsafe extern "C" fn() -> usize>(b"standin_allocations").expect("it is there")() }
}

#[test]
fn nothing_is_allocated_once_every_bucket_has_run() {
    with_driver(9, || {
        let mut cuda = Cuda::new(0, &[IMAGE], limits()).unwrap();
        let net = build(&mut cuda);
        let tokens: Vec<u32> = (0..32).map(|i| i % 10).collect();
        (1..=32).for_each(|rows| drop(run(&mut cuda, &net, &tokens[..rows])));
        let (before, recordings) = (allocations(), cuda.recordings());
        (1..=32).rev().for_each(|rows| assert_eq!(run(&mut cuda, &net, &tokens[..rows]).0, Step::Replayed));
        assert_eq!((allocations(), cuda.recordings()), (before, recordings));
    });
}

/// A network of one layer: embedding, norm, a linear.
struct Net {
    table: Table,
    gain: Vector,
    linear: Linear,
    x: Act,
    last: Act,
    operand: Operand,
    out: Act,
}

fn weight(row: usize, col: usize) -> f32 {
    ((row * 7 + col * 3) % 11) as f32 / 8.0 - 0.5
}

fn entry(token: usize, col: usize) -> f32 {
    ((token * 5 + col) % 13) as f32 / 4.0 - 1.0
}

fn build(cuda: &mut Cuda) -> Net {
    let table = cuda.table(&bf16(10, 64, entry)).expect("a table");
    let linear = cuda.stack(&[&bf16(8, 64, weight), &bf16(24, 64, |r, c| weight(r + 8, c))]).expect("a linear");
    let gain = cuda.vector(&[1.0; 64]);
    let (x, last) = (cuda.act(Rows::Batch, 64), cuda.act(Rows::Samples, 64));
    let operand = cuda.operand(Rows::Samples, &[linear]);
    let out = cuda.act(Rows::Samples, 32);
    cuda.check().expect("room");
    Net { table, gain, linear, x, last, operand, out }
}

/// Runs tokens, of which the last is sampled.
fn run(cuda: &mut Cuda, net: &Net, tokens: &[u32]) -> (Step, Vec<f32>) {
    let rows = tokens.len() as u32;
    let extents = [Extent { row: 0, rows, start: 0, table: 0, table_len: 2, slot: 0 }];
    let batch = Batch { tokens, extents: &extents, block_tables: &[3, 5], samples: &[rows - 1], pass: Pass::Model };
    let step = cuda.begin(&batch).expect("a step begins");
    if step == Step::Run {
        cuda.embed(net.table, net.x);
        cuda.gather(net.x, net.last);
        cuda.rms_norm(net.last, net.gain, 1e-6, net.operand);
        cuda.linear(net.operand, net.linear, net.out);
    }
    let mut shown = cuda.host(net.out).expect("a step runs");
    assert_eq!(shown.rows(), 1);
    (step, shown.row(0).to_vec())
}

fn expected(token: usize) -> Vec<f64> {
    let x: Vec<f64> = (0..64).map(|c| f64::from(entry(token, c))).collect();
    let scale = (x.iter().map(|v| v * v).sum::<f64>() / 64.0 + 1e-6).sqrt();
    (0..32).map(|r| (0..64).map(|c| f64::from(weight(r, c)) * x[c] / scale).sum()).collect()
}

#[test]
fn steps_are_recorded_once_and_replayed() {
    for seed in [0, 1, 2] {
        with_driver(seed, || {
            let mut cuda = Cuda::new(1, &[IMAGE], limits()).unwrap();
            let net = build(&mut cuda);
            // Two rows and three share no bucket; three and four do.
            let steps: [(&[u32], Step, usize); 4] = [
                (&[1, 2, 3], Step::Run, 1),
                (&[4, 5, 6, 9], Step::Replayed, 1),
                (&[7, 8], Step::Run, 2),
                (&[2, 0, 4], Step::Replayed, 2),
            ];
            let mut first = None;
            for (tokens, wanted, recordings) in steps {
                let (step, found) = run(&mut cuda, &net, tokens);
                assert_eq!((step, cuda.recordings()), (wanted, recordings), "seed {seed}, {tokens:?}");
                let last = tokens[tokens.len() - 1] as usize;
                for (i, (f, e)) in found.iter().zip(expected(last)).enumerate() {
                    assert!((f64::from(*f) - e).abs() < 0.05, "seed {seed}, {tokens:?}: {i} is {f}, not {e}");
                }
                first.get_or_insert(found);
            }
            // The same token in another bucket: the same bits.
            let (_, again) = run(&mut cuda, &net, &[3]);
            assert_eq!(first, Some(again));
        });
    }
}

#[test]
fn blocks_travel_to_the_host_and_back() {
    with_driver(3, || {
        let mut cuda = Cuda::new(0, &[IMAGE], limits()).unwrap();
        let pool = cuda.pool(64, 4).unwrap();
        let bytes: Vec<u8> = (0..16 / 4 * 64).map(|i| i as u8).collect();
        cuda.write_block(pool, 7, &bytes);
        let mut back = vec![0; bytes.len()];
        cuda.read_block(pool, 7, &mut back);
        assert_eq!(back, bytes);
        cuda.read_block(pool, 6, &mut back);
        assert_eq!(back, vec![0; bytes.len()]);
        cuda.check().unwrap();
    });
}

/// The launches of every case, through cudarc, in an order that only the stream restricts.
#[test]
fn cases_are_right_through_the_driver() {
    with_driver(4, || {
        let mut bench = Bench::open(0, &[IMAGE]).unwrap();
        let outcomes = run_cases(&mut bench).unwrap();
        let wrong: Vec<_> = outcomes.iter().filter(|o| o.wrong.is_some()).collect();
        assert!(!outcomes.is_empty() && wrong.is_empty(), "{wrong:?}");
    });
}
