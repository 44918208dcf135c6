//! Running a program on what nvcc emitted, instruction by instruction.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sluicegate_kernels::cuda::call::{Arg, Call};
use sluicegate_ptx::{Argument, Kernel, Memory, Module};

use crate::program::Program;

/// The PTX of all sources.
#[derive(Debug)]
pub struct Ptx {
    modules: Vec<(PathBuf, Module)>,
}

impl Ptx {
    /// What `cargo xtask kernels` or `cargo xtask test` left in `target/ptx`; `None` where neither has run.
    ///
    /// # Errors
    /// A file can't be read, or is no PTX.
    pub fn find() -> Result<Option<Self>> {
        let entries = target("ptx").read_dir().map(|e| e.filter_map(Result::ok).map(|e| e.path()).collect());
        let mut files: Vec<PathBuf> = entries.unwrap_or_default();
        // Kernels as any GPU could run them; FP4 products exist for one family only.
        let wanted =
            |name: &str| name.ends_with(".80.ptx") && name != "gemm_w4a4.80.ptx" || name == "gemm_w4a4.120f.ptx";
        files.retain(|path| path.file_name().and_then(|n| n.to_str()).is_some_and(wanted));
        files.sort();
        let read = |path: PathBuf| {
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let module = Module::parse(&text).with_context(|| path.display().to_string())?;
            Ok((path, module))
        };
        let modules: Vec<_> = files.into_iter().map(read).collect::<Result<_>>()?;
        Ok((!modules.is_empty()).then_some(Self { modules }))
    }

    /// Runs the launches; the program's buffers then hold what the kernels left. Tells the number of instructions.
    ///
    /// # Errors
    /// A kernel is in no file, uses what is not interpreted, or does what it must not.
    pub fn run(&self, program: &mut Program) -> Result<u64> {
        let mut memory = Memory::new();
        // The program's addresses are those that the interpreter gives out.
        let places: Vec<u64> = program.buffers.iter().map(|bytes| memory.add(bytes.clone())).collect();
        let mut steps = 0;
        for call in &program.calls {
            steps += launch(&self.kernel(call.kernel)?, &mut memory, call)?;
        }
        for (bytes, place) in program.buffers.iter_mut().zip(places) {
            bytes.copy_from_slice(memory.buffer(place));
        }
        Ok(steps)
    }

    fn kernel(&self, name: &str) -> Result<Kernel> {
        let found = self.modules.iter().find(|(_, module)| module.kernels().any(|k| k == name));
        let (path, module) = found.with_context(|| format!("no PTX file has a kernel named {name}"))?;
        module.kernel(name).with_context(|| path.display().to_string())
    }
}

fn launch(kernel: &Kernel, memory: &mut Memory, call: &Call) -> Result<u64> {
    let argument = |arg: &Arg| -> Argument {
        match *arg {
            Arg::At(at) => at.0.into(),
            Arg::U32(value) => value.into(),
            Arg::F32(value) => value.into(),
        }
    };
    let arguments: Vec<Argument> = call.args.iter().map(argument).collect();
    Ok(kernel.launch(memory, call.grid, [call.block, 1, 1], call.shared as usize, &arguments)?)
}

/// A folder of Cargo's target directory.
pub(crate) fn target(folder: &str) -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(default, PathBuf::from).join(folder)
}
