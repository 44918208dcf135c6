//! `cargo xtask bench`: our engine and llama.cpp on the same weights, the same threads, in the same run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::workspace::{Workspace, cargo};
use crate::{demo_model, python, run};

/// llama.cpp comes as a wheel that was built for any x86-64 and chooses its kernels at run time.
const REQUIREMENTS: [&str; 3] = ["xllamacpp==2026.10.11549", "gguf==0.19.0", "numpy"];
/// What llama.cpp runs: the file as it is shipped, and its weights in these types.
const REQUANTIZED: [&str; 2] = ["Q4_0", "Q8_0"];
const BATCHES: [u64; 4] = [1, 4, 16, 64];

/// Figures by what was measured: ("decode", batch) → tokens per second of wall and of CPU time.
type Figures = BTreeMap<(String, u64), (f64, f64)>;

/// Runs both and prints a table.
///
/// # Errors
/// Something cannot be built, fetched or run.
pub(crate) fn bench(workspace: &Workspace, threads: usize) -> Result<()> {
    demo_model::ensure(workspace)?;
    let gguf = demo_model::ensure_gguf(workspace)?;
    let folder = workspace.root.join("target/llama-cpp");
    let interpreter = python::environment(&folder.join("venv"), &REQUIREMENTS)?;
    let scripts = workspace.root.join("benches/llama_cpp");
    let mut files = vec![("Q4_1", gguf.clone())];
    for kind in REQUANTIZED {
        let file = folder.join(format!("{kind}.gguf"));
        if !file.exists() {
            let script = scripts.join("requantize.py");
            run::run(Command::new(&interpreter).arg(script).args([&gguf, &file]).arg(kind))?;
        }
        files.push((kind, file));
    }
    run::run(cargo().args(["build", "--release", "--workspace", "--bin", "speed"]).current_dir(&workspace.root))?;
    run::step("ours, NVFP4");
    let model = workspace.root.join("models/SmolLM2-135M-Instruct");
    let speed = workspace.binary().with_file_name("speed");
    let ours = figures(&run::output(Command::new(speed).arg(model).arg(threads.to_string()))?)?;
    let mut theirs = Vec::new();
    for (kind, file) in &files {
        run::step(&format!("llama.cpp, {kind}"));
        theirs.push((*kind, llama_cpp(&interpreter, &scripts.join("speed.py"), file, threads)?));
    }
    print(&ours, &theirs);
    Ok(())
}

fn llama_cpp(interpreter: &Path, script: &Path, file: &PathBuf, threads: usize) -> Result<Figures> {
    let mut all = Figures::new();
    for batch in BATCHES {
        let mut command = Command::new(interpreter);
        command.arg(script).arg(file).args([threads.to_string(), batch.to_string()]);
        all.extend(figures(&run::output(&mut command)?)?);
    }
    Ok(all)
}

/// Reads lines of JSON; other lines are llama.cpp's own.
fn figures(text: &str) -> Result<Figures> {
    let mut figures = Figures::new();
    for line in text.lines().filter(|line| line.starts_with("{\"what\"")) {
        let value: Value = serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
        let what = value["what"].as_str().unwrap_or_default().to_owned();
        let number = |key: &str| value[key].as_f64().unwrap_or_default();
        let pair = match what.as_str() {
            "load" => (number("seconds"), number("seconds")),
            "memory" => (number("megabytes"), number("megabytes")),
            _ => (number("per_second"), number("per_cpu_second")),
        };
        figures.insert((what, value["batch"].as_u64().unwrap_or_default()), pair);
    }
    Ok(figures)
}

fn print(ours: &Figures, theirs: &[(&str, Figures)]) {
    println!("tokens per second of CPU time (of wall time)");
    print!("{:<14} {:>16}", "", "ours, NVFP4");
    theirs.iter().for_each(|(kind, _)| print!(" {:>16}", format!("llama.cpp {kind}")));
    println!(" {:>8}", "ratio");
    for (key, (wall, cpu)) in ours {
        let (what, batch) = key;
        let name = if *batch > 0 { format!("{what} {batch}") } else { what.clone() };
        print!("{name:<14} {:>16}", format!("{cpu:.1} ({wall:.1})"));
        let found: Vec<_> = theirs.iter().map(|(_, f)| f.get(key).copied().unwrap_or_default()).collect();
        found.iter().for_each(|(wall, cpu)| print!(" {:>16}", format!("{cpu:.1} ({wall:.1})")));
        let best = found.iter().map(|(_, cpu)| *cpu).fold(0.0, f64::max);
        // Seconds and megabytes have no ratio of speeds.
        if *batch > 0 && best > 0.0 { println!(" {:>7.2}x", cpu / best) } else { println!() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_programs_are_passed_over() {
        let text = "srv: loading\n{\"what\": \"decode\", \"batch\": 4, \"per_second\": 10.5, \"per_cpu_second\": 9}\n{\"what\": \"load\", \"seconds\": 0.5}";
        let figures = figures(text).unwrap();
        assert_eq!(figures[&("decode".to_owned(), 4)], (10.5, 9.0));
        assert_eq!(figures[&("load".to_owned(), 0)], (0.5, 0.5));
        assert_eq!(figures.len(), 2);
    }
}
