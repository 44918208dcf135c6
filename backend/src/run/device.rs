//! Which device runs a model, by its name in configurations.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::{CpuRunOptions, CudaRunOptions, Knobs, open_cpu, open_cuda};
use crate::exec::Executor;
use crate::layers::LoadError;

/// `cpu` or `cuda:N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceId {
    /// This process's cores.
    #[default]
    Cpu,
    /// A GPU by the driver's number.
    Cuda(usize),
}

impl FromStr for DeviceId {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let number = || name.strip_prefix("cuda:").and_then(|n| n.parse().ok());
        match name {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => number().map(Self::Cuda).ok_or_else(|| format!("`{name}` is no device; use cpu, or cuda:0 and so on")),
        }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

/// Opens a model folder on a device; a GPU has no use for threads and arithmetic, the CPU none for knobs.
///
/// # Errors
/// What is wrong with the checkpoint or the device.
pub fn open(
    dir: &Path,
    device: DeviceId,
    options: &CpuRunOptions,
    knobs: Knobs,
) -> Result<Box<dyn Executor>, LoadError> {
    match device {
        DeviceId::Cpu => Ok(Box::new(open_cpu(dir, options)?)),
        DeviceId::Cuda(ordinal) => {
            let options = CudaRunOptions { knobs, ..CudaRunOptions::of(ordinal, options) };
            Ok(Box::new(open_cuda(dir, &options)?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for name in ["cpu", "cuda:0", "cuda:7"] {
            assert_eq!(name.parse::<DeviceId>().unwrap().to_string(), name);
        }
        assert_eq!("cuda".parse(), Ok(DeviceId::Cuda(0)));
        assert!("gpu".parse::<DeviceId>().unwrap_err().contains("`gpu` is no device"));
        assert!("cuda:x".parse::<DeviceId>().is_err());
    }
}
