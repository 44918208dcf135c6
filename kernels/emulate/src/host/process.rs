//! Running a program in a process of the host build; `cuda/host/replay.cpp` has the other end and describes the format.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use sluicegate_kernels::cuda::call::{Arg, Call};

use crate::program::Program;

/// How a program is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// 0 runs blocks and threads in order; anything else shuffles both.
    pub seed: u32,
}

/// Runs the launches; the program's buffers then hold what the kernels left.
///
/// # Errors
/// A launch failed (an unknown kernel, wrong parameters, a block that cannot go on) or a sanitizer found something.
pub fn run(replay: &Path, program: &mut Program, options: Options) -> Result<()> {
    let mut command = Command::new(replay);
    command.env("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0");
    command.env("TSAN_OPTIONS", "halt_on_error=1:report_signal_unsafe=0:exitcode=66");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {}", replay.display()))?;
    let sent = child.stdin.take().map(|mut stdin| stdin.write_all(&request(program, options)));
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{}", report(&String::from_utf8_lossy(&output.stderr), &output.status.to_string()));
    }
    sent.unwrap_or(Ok(()))?;
    take_answer(program, &output.stdout)
}

fn request(program: &Program, options: Options) -> Vec<u8> {
    let mut out = Vec::new();
    let number = |out: &mut Vec<u8>, n: u32| out.extend(n.to_le_bytes());
    number(&mut out, program.buffers.len() as u32);
    for buffer in &program.buffers {
        out.extend((buffer.len() as u64).to_le_bytes());
        out.extend(buffer);
    }
    number(&mut out, program.calls.len() as u32);
    for Call { kernel, grid, block, shared, args } in &program.calls {
        number(&mut out, kernel.len() as u32);
        out.extend(kernel.as_bytes());
        for n in grid.iter().chain(&[*block, 1, 1, *shared, options.seed, args.len() as u32]) {
            number(&mut out, *n);
        }
        for arg in args {
            let (kind, bytes, value): (u8, u8, u64) = match *arg {
                Arg::At(at) => (1, 8, at.0),
                Arg::U32(v) => (0, 4, v.into()),
                Arg::F32(v) => (0, 4, v.to_bits().into()),
            };
            out.extend([kind, bytes]);
            out.extend(value.to_le_bytes());
        }
    }
    out
}

fn take_answer(program: &mut Program, mut answer: &[u8]) -> Result<()> {
    let mut take = |n: usize| answer.split_off(..n).context("the host build ended in the middle of its answer");
    let length = u32::from_le_bytes(take(4)?.try_into()?) as usize;
    if length > 0 {
        bail!("{}", String::from_utf8_lossy(take(length)?));
    }
    for buffer in &mut program.buffers {
        let bytes = take(buffer.len())?;
        buffer.copy_from_slice(bytes);
    }
    Ok(())
}

/// What a sanitizer wrote, cut to its first report.
fn report(stderr: &str, status: &str) -> String {
    let start = stderr.find("ERROR: ").or_else(|| stderr.find("WARNING: ")).unwrap_or(0);
    let lines: Vec<&str> = stderr[start..].lines().take(24).collect();
    format!("the host build ended with {status}: {}", lines.join("\n"))
}
