//! Every kernel against double precision on the host build, in order and shuffled; the bits must not depend on the order.

use sluicegate_emulate::cases::GROUPS;
use sluicegate_emulate::host::{Build, Options, Toolchain, run};

fn check(source: &str, build: Build, seeds: &[u32]) {
    let Some(toolchain) = Toolchain::find() else {
        eprintln!("skipped: there is no C++ compiler (g++, or what CXX names) to build the kernels for the host with");
        return;
    };
    let replay = toolchain.replay(build).unwrap_or_else(|e| panic!("{e:#}"));
    let group = GROUPS.iter().find(|g| g.source == source).expect("a group of cases");
    for case in (group.cases)() {
        let mut first = None;
        for &seed in seeds {
            let mut program = case.program.clone();
            run(&replay, &mut program, Options { seed })
                .unwrap_or_else(|e| panic!("{}, seed {seed}: {e:#}", case.name));
            (case.check)(&program).unwrap_or_else(|e| panic!("{}, seed {seed}: {e}", case.name));
            let buffers = first.get_or_insert_with(|| program.buffers.clone());
            assert!(
                *buffers == program.buffers,
                "{}: the bits depend on the order of threads (seed {seed})",
                case.name
            );
        }
    }
}

macro_rules! groups {
    (sanitized: $($quick:ident),*; by_hand: $($slow:ident),* $(,)?) => {
        const TESTED: &[&str] = &[$(stringify!($quick),)* $(stringify!($slow)),*];
        mod exact {
            $( #[test] fn $quick() { super::check(stringify!($quick), super::Build::Plain, &[0, 1, 2]); } )*
            $( #[test] fn $slow() { super::check(stringify!($slow), super::Build::Plain, &[0, 1, 2]); } )*
        }
        mod races {
            $( #[test] fn $quick() { super::check(stringify!($quick), super::Build::Race, &[0]); } )*
            $( #[test] #[ignore = "slow: run with --ignored"] fn $slow() {
                super::check(stringify!($slow), super::Build::Race, &[0]);
            } )*
        }
        mod bounds {
            $( #[test] fn $quick() { super::check(stringify!($quick), super::Build::Address, &[0]); } )*
            $( #[test] #[ignore = "slow: run with --ignored"] fn $slow() {
                super::check(stringify!($slow), super::Build::Address, &[0]);
            } )*
        }
    };
}
groups!(
    sanitized: norm, rows, embed, rope;
    by_hand: attention, gemm_nvfp4, gemm_bf16, gemm_fp8, gemm_f32, quantize, gemm_w4a4, moe, hyper, sparse_rows,
        sparse_attend, sample,
);

#[test]
fn every_group_is_tested() {
    let groups: Vec<&str> = GROUPS.iter().map(|g| g.source).collect();
    assert_eq!(groups, TESTED);
}
