//! The kind of device that a profile is for.

use serde::{Deserialize, Serialize};
use sluicegate_kernels::ops::DeviceError;

use crate::run::{DeviceId, Isa, cuda_version, gpus};

/// A model of GPU or processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// As the driver, or the processor, calls itself.
    pub name: String,
    /// A GPU's compute capability ("9.0"); the instruction set that a processor's kernels use ("avx512").
    pub capability: String,
}

impl Card {
    /// The card that a device is.
    ///
    /// # Errors
    /// There is no such GPU.
    pub fn of(device: DeviceId) -> Result<Self, DeviceError> {
        let DeviceId::Cuda(ordinal) = device else {
            return Ok(Self { name: processor(), capability: format!("{:?}", Isa::best()).to_lowercase() });
        };
        let gpus = gpus()?;
        let Some(gpu) = gpus.get(ordinal) else {
            let text = format!("there is no {device}; the driver sees {} GPUs, from cuda:0", gpus.len());
            return Err(DeviceError(text));
        };
        let (major, minor) = gpu.capability;
        Ok(Self { name: gpu.name.clone(), capability: format!("{major}.{minor}") })
    }

    /// Name of its profile's file, made like vLLM's names of tuned configurations.
    #[must_use]
    pub fn file_name(&self) -> String {
        let plain = |text: &str| -> String {
            text.chars().map(|c| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '_' }).collect()
        };
        format!("device_name={},capability={}.toml", plain(&self.name), plain(&self.capability))
    }
}

/// Versions of what drives a device, as far as they can be read: of CUDA and of the kernel's module.
#[must_use]
pub fn driver(device: DeviceId) -> (Option<String>, Option<String>) {
    match device {
        DeviceId::Cpu => (None, None),
        DeviceId::Cuda(_) => {
            let module = std::fs::read_to_string("/sys/module/nvidia/version").ok();
            (cuda_version().ok(), module.map(|text| text.trim().to_owned()))
        }
    }
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    named.map_or(std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_after_its_card() {
        let card = |name: &str, capability: &str| Card { name: name.into(), capability: capability.into() };
        let name = card("NVIDIA RTX PRO 6000 Blackwell", "12.0").file_name();
        assert_eq!(name, "device_name=NVIDIA_RTX_PRO_6000_Blackwell,capability=12.0.toml");
        assert_eq!(card("../a/b", "9.0").file_name(), "device_name=.._a_b,capability=9.0.toml");
    }

    #[test]
    fn the_processor_has_a_name() {
        let card = Card::of(DeviceId::Cpu).unwrap();
        assert!(!card.name.is_empty() && !card.capability.is_empty(), "{card:?}");
    }
}
