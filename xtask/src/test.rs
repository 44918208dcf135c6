//! Everything that has to hold before a change lands, from a machine that may have nothing prepared.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::workspace::{Workspace, cargo};
use crate::{demo_model, kernels, plugins, python, run, tidy};

/// What the client tests install into `target/venv`; pinned, so that an upstream release does not break the build.
const PYTHON_REQUIREMENTS: [&str; 1] = ["openai==3.57.0"];

/// Runs every check and every test.
///
/// # Errors
/// The first step that fails.
pub(crate) fn all(workspace: &Workspace) -> Result<()> {
    let mut steps = Steps { workspace, started: Instant::now(), times: Vec::new() };
    steps.take("source rules", tidy::check)?;
    steps.take("formatting", |w| run::run(cargo().args(["fmt", "--all", "--check"]).current_dir(&w.root)))?;
    // Before the build: the binary embeds what this makes, and would be built again.
    steps.take("CUDA kernels", kernels::check)?;
    take_preparation(&mut steps)?;
    steps.take("lints", |w| run::run(in_workspace(w, "clippy").args(["--all-targets", "--", "--deny=warnings"])))?;
    steps.take("tests", run_tests)?;
    steps.report("all checks passed");
    Ok(())
}

/// Makes everything that tests look for, so that single tests can be run with Cargo.
///
/// # Errors
/// The first step that fails.
pub(crate) fn prepare(workspace: &Workspace) -> Result<()> {
    let mut steps = Steps { workspace, started: Instant::now(), times: Vec::new() };
    take_preparation(&mut steps)?;
    steps.report("prepared");
    Ok(())
}

fn take_preparation(steps: &mut Steps<'_>) -> Result<()> {
    steps.take("plugins", |w| plugins::build(w, None))?;
    // Binaries and tests in one build: Cargo then chooses each dependency's features once.
    steps.take("build", |w| run::run(in_workspace(w, "build").arg("--all-targets")))?;
    steps.take("demo model", demo_model::ensure)?;
    steps.take("client libraries", |w| python::environment(&w.root.join("target/venv"), &PYTHON_REQUIREMENTS).map(drop))
}

/// The steps taken and how long each was.
struct Steps<'a> {
    workspace: &'a Workspace,
    started: Instant,
    times: Vec<(&'static str, Duration)>,
}

impl Steps<'_> {
    fn take(&mut self, name: &'static str, step: impl FnOnce(&Workspace) -> Result<()>) -> Result<()> {
        run::step(name);
        let started = Instant::now();
        step(self.workspace).with_context(|| format!("step `{name}` failed"))?;
        self.times.push((name, started.elapsed()));
        Ok(())
    }

    fn report(&self, outcome: &str) {
        run::step(outcome);
        for (name, time) in &self.times {
            eprintln!("    {:>7.1} s  {name}", time.as_secs_f64());
        }
        eprintln!("    {:>7.1} s  in all", self.started.elapsed().as_secs_f64());
    }
}

fn in_workspace(workspace: &Workspace, command: &str) -> Command {
    let mut cargo = cargo();
    cargo.args([command, "--release", "--workspace"]).current_dir(&workspace.root);
    cargo
}

/// The seed of the property tests' generators: what passed here passes on the next machine. Cargo's own test command draws
/// another seed each time, and the long modes look further.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "20261130");

/// With nextest each test has its own process and a time limit; without it, Cargo's runner does the same tests.
fn run_tests(workspace: &Workspace) -> Result<()> {
    let seed = std::env::var_os(SEED.0).unwrap_or_else(|| SEED.1.into());
    eprintln!("    {}={}", SEED.0, seed.display());
    let probe = cargo().args(["nextest", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if probe.is_ok_and(|status| status.success()) {
        let mut nextest = cargo();
        nextest.args(["nextest", "run", "--release", "--workspace", "--no-fail-fast"]);
        return run::run(nextest.env(SEED.0, seed).current_dir(&workspace.root));
    }
    run::run(in_workspace(workspace, "test").env(SEED.0, seed).args(["--all-targets", "--no-fail-fast"]))
}
