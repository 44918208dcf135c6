//! Every kernel's PTX, as nvcc emitted it, against double precision: the inline assembly too, which the host build replaces.

use sluicegate_emulate::cases::{Case, GROUPS};
use sluicegate_emulate::ptx::Ptx;

/// Threads of the largest case; what needs more is for the host build.
const MOST_THREADS: u64 = 20_000;

fn threads(case: &Case) -> u64 {
    let of_call = |c: &sluicegate_kernels::cuda::call::Call| {
        c.grid.iter().map(|&n| u64::from(n)).product::<u64>() * u64::from(c.block)
    };
    case.program.calls.iter().map(of_call).sum()
}

#[test]
fn ptx_gives_the_same_answers() {
    let Some(ptx) = Ptx::find().unwrap_or_else(|e| panic!("{e:#}")) else {
        eprintln!("skipped: no PTX in target/ptx; `cargo xtask kernels` makes it");
        return;
    };
    for group in GROUPS {
        for case in (group.cases)() {
            if threads(&case) > MOST_THREADS {
                println!("{}: left to the host build", case.name);
                continue;
            }
            let mut program = case.program.clone();
            let steps = ptx.run(&mut program).unwrap_or_else(|e| panic!("{}: {e:#}", case.name));
            (case.check)(&program).unwrap_or_else(|e| panic!("{}: {e}", case.name));
            println!("{}: {steps} instructions", case.name);
        }
    }
}
