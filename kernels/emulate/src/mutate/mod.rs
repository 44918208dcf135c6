//! Planted bugs: each changes one place of a kernel's source, and some check has to see it.

mod bugs;
mod sources;

use anyhow::{Context, Result, bail};

use crate::cases::{Case, GROUPS};
use crate::host::{Build, Options, Toolchain, run};
pub use bugs::{BUGS, Bug};
use sources::Planted;

/// What saw a bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The bug's name.
    pub bug: &'static str,
    /// For each check that was asked, what it said; nothing where it saw nothing.
    pub seen: Vec<(&'static str, Option<String>)>,
}

impl Verdict {
    /// Whether any check saw it.
    #[must_use]
    pub fn is_caught(&self) -> bool {
        self.seen.iter().any(|(_, what)| what.is_some())
    }
}

/// Ways to run, from cheap to dear.
const WAYS: [(&str, Build, u32); 4] = [
    ("in order", Build::Plain, 0),
    ("shuffled", Build::Plain, 7),
    ("races", Build::Race, 0),
    ("bounds", Build::Address, 0),
];

/// Plants a bug and asks every check.
///
/// # Errors
/// The place that the bug changes is gone from the source, or the changed source does not compile.
pub fn judge(toolchain: &Toolchain, bug: &'static Bug) -> Result<Verdict> {
    let planted = Planted::new(toolchain, bug)?;
    let group = GROUPS.iter().find(|g| g.source == bug.group()).context("no group of cases has that name")?;
    let cases = (group.cases)();
    let mut seen = Vec::new();
    for (name, build, seed) in WAYS {
        let replay = planted.toolchain.replay(build).with_context(|| format!("{} ({name})", bug.name))?;
        seen.push((name, cases.iter().find_map(|case| complaint(&replay, case, seed))));
    }
    Ok(Verdict { bug: bug.name, seen })
}

/// What is wrong with a case's result, if anything.
fn complaint(replay: &std::path::Path, case: &Case, seed: u32) -> Option<String> {
    let mut program = case.program.clone();
    let text = match run(replay, &mut program, Options { seed }) {
        Err(error) => format!("{error:#}"),
        Ok(()) => (case.check)(&program).err()?,
    };
    text.lines().next().map(|line| format!("{}: {line}", case.name))
}

/// The cases of a bug's group pass on sources without it: what is seen afterwards is the bug.
fn check_sound(toolchain: &Toolchain, bug: &Bug) -> Result<()> {
    let replay = toolchain.on(toolchain.sources.clone(), bug.sources).replay(Build::Plain)?;
    let group = GROUPS.iter().find(|g| g.source == bug.group()).context("no group of cases has that name")?;
    match (group.cases)().iter().find_map(|case| complaint(&replay, case, 0)) {
        None => Ok(()),
        Some(text) => bail!("{} without any bug: {text}", bug.group()),
    }
}

/// Plants every bug in turn, prints a table, and fails if one went unseen.
///
/// # Errors
/// A bug that no check sees, or that cannot be planted; sources that are wrong as they are.
pub fn all(toolchain: &Toolchain) -> Result<()> {
    let mut missed = Vec::new();
    for (i, bug) in BUGS.iter().enumerate() {
        if BUGS[..i].iter().all(|b| b.group() != bug.group()) {
            check_sound(toolchain, bug)?;
        }
    }
    for bug in BUGS {
        let verdict = judge(toolchain, bug)?;
        println!("{}", bug.name);
        for (way, what) in &verdict.seen {
            println!("    {way:<9} {}", what.as_deref().unwrap_or("-"));
        }
        if !verdict.is_caught() {
            missed.push(bug.name);
        }
    }
    if missed.is_empty() {
        println!("all {} planted bugs were seen", BUGS.len());
        return Ok(());
    }
    bail!("unseen: {}", missed.join(", "))
}
