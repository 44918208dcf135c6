//! `sluicegate import` and `sluicegate quantize`: a Hugging Face folder or a GGUF file becomes a model folder.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use sluicegate_backend::weights::import::{Options, Target, import};

/// Arguments of `sluicegate import`.
#[derive(Debug, Args)]
pub(super) struct Import {
    /// Hugging Face folder (config.json, safetensors, tokenizer.json) or .gguf file.
    source: PathBuf,
    /// Folder to be made.
    dest: PathBuf,
    /// Number format of the linear layers.
    #[arg(long, value_enum, default_value_t = Format::Nvfp4)]
    to: Format,
    /// Largest weight file in MiB. An interrupted run goes on after the files that are complete.
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    max_shard_size: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// 4-bit floats with a scale for each 16, as ModelOpt writes them.
    Nvfp4,
    /// bfloat16.
    Bf16,
}

impl Import {
    /// Runs the import with a progress bar.
    ///
    /// # Errors
    /// When the source can't be read or converted, or the destination can't be written.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let target = match self.to {
            Format::Nvfp4 => Target::Nvfp4,
            Format::Bf16 => Target::Bf16,
        };
        let style = ProgressStyle::with_template("{bar:40} {percent:>3} % of {len} weights, {eta} left")?;
        let bar = ProgressBar::new(0).with_style(style);
        let options = Options { target, max_shard_bytes: (self.max_shard_size as usize) << 20 };
        let done = import(&self.source, &self.dest, options, &mut |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        })
        .with_context(|| format!("import of {} failed", self.source.display()))?;
        bar.finish_and_clear();
        println!(
            "{}: {:.1} M weights, {:.1} M of them in NVFP4, {:.1} MB",
            self.dest.display(),
            done.parameters as f64 / 1e6,
            done.quantized as f64 / 1e6,
            done.bytes as f64 / 1e6,
        );
        Ok(())
    }
}
