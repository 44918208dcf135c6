//! The command line: one file a subcommand.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod devices;
mod engine;
mod import;
mod inspect;
mod key;
mod plan;
mod plugin;
mod serve;
mod tune;
mod verify;

/// WebAssembly-extensible LLM inference gateway with a native backend.
#[derive(Debug, Parser)]
#[command(name = "sluicegate", version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the OpenAI-compatible API.
    Serve(serve::Serve),
    /// Run a worker process without a gateway.
    Engine(engine::Engine),
    /// List the devices that can run models.
    Devices(devices::Devices),
    /// Convert a Hugging Face folder or a GGUF file into a model folder, with its linear layers in NVFP4 or BF16.
    #[command(visible_alias = "quantize")]
    Import(import::Import),
    /// Say what serving a model takes on given devices, from its config.json alone.
    Plan(plan::Plan),
    /// Say what a model folder is, and what serving it takes.
    Inspect(inspect::Inspect),
    /// Make a new API key and print it with the hash that the configuration wants.
    Key(key::Key),
    /// Measure which settings serve a model fastest on a device, and write them to a file for engines on such devices.
    Tune(tune::Tune),
    /// Prove that a model's output does not depend on concurrency, caching, chunking or preemption.
    Verify(verify::Verify),
    /// Look at format plugins and test them.
    Plugin(plugin::Plugin),
}

impl Cli {
    /// Runs the chosen command. An error is printed with its causes and gives exit code 1.
    #[must_use]
    pub fn run(self) -> ExitCode {
        let outcome = match self.command {
            Command::Serve(command) => command.run(),
            Command::Engine(command) => command.run(),
            Command::Devices(command) => {
                command.run();
                Ok(())
            }
            Command::Import(command) => command.run(),
            Command::Inspect(command) => command.run(),
            Command::Key(command) => command.run(),
            Command::Plan(command) => command.run(),
            Command::Tune(command) => command.run(),
            Command::Verify(command) => command.run(),
            Command::Plugin(command) => command.run(),
        };
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("sluicegate: {error:#}");
                ExitCode::FAILURE
            }
        }
    }
}
