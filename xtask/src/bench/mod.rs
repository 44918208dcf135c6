//! `cargo xtask bench`: our engine and llama.cpp on the same weights, the same threads, by turns in the same run.

mod table;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::workspace::{Workspace, cargo};
use crate::{demo_model, python, run};
use table::Side;

/// llama.cpp comes as a wheel that was built for any x86-64 and chooses its kernels at run time.
const REQUIREMENTS: [&str; 3] = ["xllamacpp==2026.10.11549", "gguf==0.19.0", "numpy"];
/// What llama.cpp runs: the file as it is shipped, and its weights in these types.
const REQUANTIZED: [&str; 3] = ["Q4_0", "Q8_0", "NVFP4"];
/// Numbers of sequences that generate together, and a prompt of 512 tokens.
const WHATS: [&str; 5] = ["1", "4", "16", "64", "prefill"];
/// A type whose first figure is below this part of the best one's is not asked for it again.
const FAR_BEHIND: f64 = 0.6;

/// What is measured, and how.
pub(crate) struct Plan {
    /// Of each side.
    pub(crate) threads: usize,
    /// Times that every figure is taken. The sides take turns, so that what else the machine does meets both.
    pub(crate) rounds: usize,
}

impl Plan {
    /// Reads `[--threads N] [--rounds N]`.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self> {
        let mut plan = Self { threads: 1, rounds: 5 };
        for pair in arguments.chunks(2) {
            let number = pair.get(1).and_then(|number| number.parse().ok()).filter(|number| *number > 0);
            match (pair[0].as_str(), number) {
                ("--threads", Some(number)) => plan.threads = number,
                ("--rounds", Some(number)) => plan.rounds = number,
                _ => bail!("bench takes [--threads N] [--rounds N], not {}", pair.join(" ")),
            }
        }
        Ok(plan)
    }
}

/// Runs both by turns and prints a table.
///
/// # Errors
/// Something cannot be built, fetched or run.
pub(crate) fn bench(workspace: &Workspace, plan: &Plan) -> Result<()> {
    let mut sides = sides(workspace, plan.threads)?;
    for what in WHATS {
        run::step(&format!("{what}, {} rounds", plan.rounds));
        for round in 0..plan.rounds {
            for side in &mut sides {
                side.measure(what)?;
            }
            if round == 0 {
                table::leave_out(&mut sides, what, FAR_BEHIND);
            }
        }
    }
    table::print(&sides);
    Ok(())
}

/// Our program first, then llama.cpp with each type of weights.
fn sides(workspace: &Workspace, threads: usize) -> Result<Vec<Side>> {
    demo_model::ensure(workspace)?;
    let gguf = demo_model::ensure_gguf(workspace)?;
    let folder = workspace.root.join("target/llama-cpp");
    let interpreter = python::environment(&folder.join("venv"), &REQUIREMENTS)?;
    let scripts = workspace.root.join("benches/llama_cpp");
    run::run(cargo().args(["build", "--release", "--workspace", "--bin", "speed"]).current_dir(&workspace.root))?;
    let speed = workspace.binary().with_file_name("speed");
    let model = workspace.root.join("models/SmolLM2-135M-Instruct");
    let threads = threads.to_string();
    let mut sides = vec![Side::new("ours, NVFP4", vec![speed, model, PathBuf::from(&threads)])];
    let mut files = vec![("Q4_1", gguf.clone())];
    for kind in REQUANTIZED {
        files.push((kind, requantized(&interpreter, &scripts, &gguf, folder.join(format!("{kind}.gguf")), kind)?));
    }
    for (kind, file) in files {
        let command = vec![interpreter.clone(), scripts.join("speed.py"), file, PathBuf::from(&threads)];
        sides.push(Side::new(kind, command));
    }
    Ok(sides)
}

fn requantized(interpreter: &Path, scripts: &Path, gguf: &Path, file: PathBuf, kind: &str) -> Result<PathBuf> {
    if !file.exists() {
        run::step(&format!("llama.cpp's weights as {kind}"));
        let script = scripts.join("requantize.py");
        run::run(Command::new(interpreter).arg(script).args([gguf, &file]).arg(kind))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_or_refused() {
        let read = |text: &str| Plan::parse(&text.split_whitespace().map(String::from).collect::<Vec<_>>());
        let plan = read("--rounds 3 --threads 2").unwrap();
        assert_eq!((plan.rounds, plan.threads), (3, 2));
        for wrong in ["--rounds", "--rounds 0", "--rounds x", "--turns 3", "--rounds 3 --threads"] {
            let error = read(wrong).err().unwrap().to_string();
            assert!(error.contains("--threads N"), "{error}");
        }
    }
}
