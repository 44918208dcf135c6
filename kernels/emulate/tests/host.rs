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
    ($($name:ident),* $(,)?) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];
        mod exact { $( #[test] fn $name() { super::check(stringify!($name), super::Build::Plain, &[0, 1, 2]); } )* }
        mod races { $( #[test] fn $name() { super::check(stringify!($name), super::Build::Race, &[0]); } )* }
        mod bounds { $( #[test] fn $name() { super::check(stringify!($name), super::Build::Address, &[0]); } )* }
    };
}
groups!(norm, rows, embed, rope);

#[test]
fn every_group_is_tested() {
    let groups: Vec<&str> = GROUPS.iter().map(|g| g.source).collect();
    assert_eq!(groups, TESTED);
}
