//! Set-up, build and test tasks: `cargo xtask serve`, `cargo xtask test` and their parts.

mod apt;
mod bench;
mod demo_model;
mod kernels;
mod plugins;
mod python;
mod run;
mod serve;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  serve        prepare everything and serve SmolLM2 on https://127.0.0.1:8443
                 --port N   another port
  test         every check and every test; sets up whatever they need
  prepare      what the tests need: plugins, binary, demo model, Python client
  plugins      build the format plugins to target/plugins/*.wasm
                 --std rustup|debian   where the WASM standard library comes from (default: whichever is there)
  python-plugin  build the example plugin in Python to target/examples/py-example.wasm
  formats      write plugins/FORMATS.md from what the plugins describe
  demo-model   fetch SmolLM2-135M-Instruct and import it to models/
  bench        our engine and llama.cpp on the same weights, by turns
                 --threads N   compute threads of both (default 1)
                 --rounds N    times that every figure is taken (default 5)
  kernels      compile the CUDA kernels for every GPU (fetches nvcc from PyPI) and check registers, spills and FP4 instructions
                 --write    renew the tables in docs/cuda-kernels.md
  mutate       plant bugs in the CUDA kernels; some check has to see each
  device-check on this machine's GPU: every CUDA kernel against double precision, large launches timed, whole models
                 --stand-in   the kernels on the CPU, on a stand-in driver
  tidy         check the source rules that no compiler checks
  help         this text
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(args: &[String]) -> Result<()> {
    let (command, rest) = args.split_first().map_or(("help", args), |(first, rest)| (first.as_str(), rest));
    if matches!(command, "help" | "-h" | "--help") {
        print!("{USAGE}");
        return Ok(());
    }
    let workspace = Workspace::load()?;
    match (command, rest) {
        ("serve", []) => serve::serve(&workspace, None),
        ("serve", [flag, port]) if flag == "--port" => serve::serve(&workspace, Some(port.parse()?)),
        // Not for people: `serve` starts it beside the server.
        ("announce", [port]) => serve::announce(&workspace, port.parse()?),
        ("prepare", []) => test::prepare(&workspace),
        ("test", []) => test::all(&workspace),
        ("plugins", []) => plugins::build(&workspace, None),
        ("plugins", [flag, source]) if flag == "--std" => plugins::build(&workspace, Some(source.parse()?)),
        ("python-plugin", []) => python::plugin(&workspace),
        ("formats", []) => plugins::list_formats(&workspace),
        ("demo-model", []) => demo_model::ensure(&workspace),
        ("bench", options) => bench::bench(&workspace, &bench::Plan::parse(options)?),
        ("kernels", []) => kernels::build(&workspace, false),
        ("kernels", [flag]) if flag == "--write" => kernels::build(&workspace, true),
        ("mutate", []) => emulate(&workspace, &["mutate"]),
        ("device-check", []) => device_check(&workspace),
        ("device-check", [flag]) if flag == "--stand-in" => emulate(&workspace, &["device-check", "--stand-in"]),
        ("tidy", []) => tidy::check(&workspace),
        _ => bail!("unknown arguments: {}\n\n{USAGE}", args.join(" ")),
    }
}

/// A command of the program that runs kernels without a GPU, or checks one.
fn emulate(workspace: &Workspace, args: &[&str]) -> Result<()> {
    let mut build = workspace::cargo();
    build.args(["build", "--release", "--workspace", "--bin", "sluicegate-emulate"]).current_dir(&workspace.root);
    run::run(&mut build)?;
    let mut program = std::process::Command::new(workspace.target.join("release/sluicegate-emulate"));
    run::run(program.args(args).current_dir(&workspace.root))
}

/// Kernels, then whole models against the CPU executor and the golden data.
fn device_check(workspace: &Workspace) -> Result<()> {
    kernels::build(workspace, false)?;
    emulate(workspace, &["device-check"])?;
    let mut models = workspace::cargo();
    models.args([
        "test",
        "--release",
        "--workspace",
        "--test",
        "cuda_models",
        "--",
        "--include-ignored",
        "--nocapture",
    ]);
    run::run(models.env("SLUICEGATE_TEST_GPU", "1").current_dir(&workspace.root))
}
