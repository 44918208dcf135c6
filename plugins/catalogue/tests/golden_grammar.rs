//! The worked examples of every format are what its own grammar admits: the calls that a vendor documents must be calls
//! that a constrained model can write.

use std::path::Path;
use std::sync::Arc;

use sluicegate_catalogue::{plugin_of, plugins};
use sluicegate_laws::assemble::run;
use sluicegate_laws::case::{Case, load};
use sluicegate_laws::constrained::{Demand, governed};
use sluicegate_laws::tools::digest;
use sluicegate_laws::walk::Compiler;
use sluicegate_sdk::config::{ReasoningMode, ToolChoice};
use sluicegate_sdk::event::StopCause;
use sluicegate_sdk::format::Plugin;

/// Examples that are read but never written by a grammar, and why. One that is admitted after all fails the test too.
const READ_ONLY: &[(&str, &str)] = &[
    ("mistral-j6-1", "the older wire; `[TOOL_CALLS]name[ARGS]{...}` is written"),
    ("muse-c2-1", "a namespace written twice; the declared name is written"),
    ("sarashina-p5-1", "Python's quotes; JSON's, which are Python too, are written"),
    ("xlam-j17-1", "one of five wrappers; another is written"),
    ("k2_horizon-x12-1", "typed arguments; the plain spelling is written"),
    ("minimax_m3-x14-1", "an object without declared properties, whose elements no grammar can pair"),
];

/// Longest prose before the calls of an example, in code points.
const PROSE: usize = 300;

#[test]
fn every_worked_example_is_admitted_by_its_own_grammar() {
    let plugins = plugins();
    let compiler = Compiler::default();
    let (mut tried, mut wrong) = (0, Vec::new());
    for case in examples() {
        let Some(plugin) = plugin_of(&plugins, case.format_name()) else { continue };
        let described = plugin.describe().into_iter().find(|d| d.name == case.format_name()).expect("its format");
        if !described.features.grammar {
            continue;
        }
        tried += 1;
        let listed = READ_ONLY.iter().find(|(id, _)| *id == case.id);
        match (admitted(plugin, &case, &compiler), listed) {
            (Ok(()), None) | (Err(_), Some(_)) => {}
            (Ok(()), Some((_, why))) => wrong.push(format!("{}: admitted, though listed as {why:?}", case.id)),
            (Err(why), None) => wrong.push(format!("{}: {why}", case.id)),
        }
    }
    assert!(tried > 55, "only {tried} examples");
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Every recorded example with calls that ended.
fn examples() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = root.read_dir().expect("the plugins").flatten().map(|entry| entry.path().join("golden"));
    let files = folders.flat_map(|folder| folder.read_dir().into_iter().flatten().flatten());
    let texts = files.map(|file| std::fs::read_to_string(file.path()).expect("readable"));
    // Other kinds of goldens lie there too.
    let cases = texts.flat_map(|text| load(&text).unwrap_or_default());
    let called = |case: &Case| !case.expect.tool_calls.is_empty();
    cases.filter(|case| called(case) && !case.is_cut() && !case.debatable).collect()
}

/// The example's calls, behind whatever prose it begins with, as the answer to a request that demands calls.
fn admitted(plugin: &Plugin, case: &Case, compiler: &Compiler) -> Result<(), String> {
    let format = case.format_name();
    let demand = Demand {
        tools: case.tools.clone(),
        choice: ToolChoice::Required,
        parallel: true,
        reasoning: if case.thinking { ReasoningMode::On } else { ReasoningMode::Auto },
    };
    let constraint = demand.constraint(plugin, format)?.ok_or("no grammar")?;
    let grammar = compiler.compile(&constraint.lark)?;
    let text = case.chunks.concat();
    let whole = governed(&constraint, &text).unwrap_or(&text).trim_end();
    let set = Arc::new(digest(&case.tools));
    let calls = |text: &str| {
        let config = demand.config(format);
        run(plugin, &config, &set, &[text], &StopCause::Eos(None)).map(|m| m.ended().map(|c| c.name.clone()).collect())
    };
    let expected: Vec<String> = case.expect.tool_calls.iter().map(|call| call.name.clone()).collect();
    let mut first = String::new();
    for (at, _) in whole.char_indices().take(PROSE) {
        match grammar.admits(&whole[at..]) {
            Ok(()) if calls(&whole[at..]).is_ok_and(|got: Vec<String>| got == expected) => return Ok(()),
            Ok(()) => break,
            // Prose is refused at once.
            Err(why) if first.is_empty() && !why.contains("after \"\"") => first = why,
            Err(_) => {}
        }
    }
    Err(format!("{first}; of {whole:?}"))
}
