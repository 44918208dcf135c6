//! What a kernel must not do is said, with its place.

use sluicegate_ptx::{Module, PtxError};

use super::Launch;

const TEXT: &str = include_str!("../snippets/fault.ptx");

fn failure(kernel: &str) -> String {
    Launch { text: TEXT, kernel, grid: 1, block: 32, shared: 0 }
        .run(vec![vec![0; 100]])
        .expect_err("a fault")
        .to_string()
}

#[test]
fn faults_name_instruction_thread_and_reason() {
    let outside = failure("outside");
    assert!(outside.contains("`st.global.u32`: global access to 4 bytes at 100 of a buffer of 100"), "{outside}");
    assert!(outside.contains("PTX line 12, thread 25 of block [0, 0, 0]"), "{outside}");
    assert!(failure("misaligned").contains("not aligned to 16 bytes"));
    assert!(failure("shared_outside").contains("shared access to 4 bytes at 0x10 of 16"));
    assert!(failure("gives_up").contains("`trap`: the kernel gave up"));
    assert!(failure("alone").contains("has ended"));
}

#[test]
fn threads_that_wait_for_each_other_are_counted() {
    let text = failure("diverges");
    assert!(text.contains("24 threads wait at `bar.sync` in line 30"), "{text}");
    assert!(text.contains("8 threads wait at `bar.sync` in line 33"), "{text}");
}

#[test]
fn what_is_not_interpreted_is_refused_by_name_and_line() {
    let refuse = |instruction: &str| {
        let text = format!(".version 9.0\n.entry k() {{\n.reg .b32 %r<9>;\n{instruction}\nret;\n}}");
        Module::parse(&text).unwrap().kernel("k").unwrap_err().to_string()
    };
    assert_eq!(refuse("frobnicate.b32 %r1;"), "PTX line 4: `frobnicate.b32` is not interpreted");
    assert_eq!(refuse("add.rz.f32 %r1, %r2, %r3;"), "PTX line 4: `add.rz.f32` is not interpreted");
    assert_eq!(refuse("ld.global.strange.u32 %r1, [%r2];"), "PTX line 4: `ld.global.strange.u32` is not interpreted");
    assert!(refuse("add.s32 %r1, %r2;").contains("`add.s32`: 2 operands, 3 to 3"));
    assert!(refuse("bra NOWHERE;").contains("`NOWHERE` is neither a label nor a variable"));
    assert!(refuse("@%p1 ret;").contains("no register `%p1`"));
}

#[test]
fn launches_have_to_fit() {
    let launch = |kernel: &str, block, buffers: Vec<Vec<u8>>| {
        Launch { text: TEXT, kernel, grid: 1, block, shared: 0 }.run(buffers).unwrap_err()
    };
    assert!(matches!(launch("nobody", 1, vec![]), PtxError::NoKernel(_)));
    assert!(launch("outside", 1, vec![]).to_string().contains("0 arguments for 1 parameters"));
    assert!(launch("outside", 1025, vec![vec![]]).to_string().contains("impossible"));
    assert_eq!(Module::parse(TEXT).unwrap().kernels().count(), 6);
    assert!(Module::parse("#version").is_err());
}
