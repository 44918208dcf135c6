//! Finding the driver and its GPUs. Nothing here panics where CUDA is absent.

use std::sync::Arc;

use cudarc::driver::{CudaContext, DriverError, result, sys};

use crate::ops::DeviceError;

/// Shared memory of a block that every launch may use without asking.
pub(super) const PLAIN_SHARED: u32 = 48 * 1024;

/// A GPU that the driver sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Number for `cuda:N`.
    pub ordinal: usize,
    /// What the driver calls it.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
    /// Bytes of memory.
    pub memory: usize,
}

/// Adds what was tried to a driver's error.
pub(super) fn failed(what: &str) -> impl FnOnce(DriverError) -> DeviceError + '_ {
    move |error| DeviceError(format!("CUDA: {what}: {}", describe(error)))
}

/// The driver's name and words for a code; old drivers don't know every code.
fn describe(error: DriverError) -> String {
    let text = |found: Result<&std::ffi::CStr, DriverError>| found.ok().map(|t| t.to_string_lossy().into_owned());
    match (text(error.error_name()), text(error.error_string())) {
        (Some(name), Some(text)) => format!("{text} ({name})"),
        _ => format!("error {:?}", error.0),
    }
}

/// Loads the driver.
///
/// # Errors
/// [`DeviceError`] if there is none, or it is there and sees no GPU.
fn start() -> Result<usize, DeviceError> {
    // cudarc panics where the library is missing, so this comes before every other call.
    // SAFETY: loads and unloads a library of the system; the driver's constructors have no preconditions.
    if !unsafe { sys::is_culib_present() } {
        return Err(DeviceError(
            "no NVIDIA driver: libcuda.so.1 was not found. Install the driver, or use `device = \"cpu\"`".into(),
        ));
    }
    let none = |why: String| {
        DeviceError(format!(
            "the NVIDIA driver is installed but gives no usable GPU: {why}. Look at `nvidia-smi`, CUDA_VISIBLE_DEVICES and \
             the container's device access"
        ))
    };
    result::init().map_err(|e| none(describe(e)))?;
    match CudaContext::device_count() {
        Ok(count) if count > 0 => Ok(count as usize),
        Ok(_) => Err(none("it counts 0 devices".into())),
        Err(e) => Err(none(describe(e))),
    }
}

/// The GPUs that the driver sees.
///
/// # Errors
/// [`DeviceError`] where there is no driver, or no usable GPU.
pub fn gpus() -> Result<Vec<Gpu>, DeviceError> {
    let count = start()?;
    (0..count).map(gpu).collect()
}

/// The newest CUDA version that the driver can do: `13.0`.
///
/// # Errors
/// [`DeviceError`] where there is no driver, or no usable GPU.
pub fn cuda_version() -> Result<String, DeviceError> {
    start()?;
    let mut version = 0;
    // SAFETY: the driver has been started, and writes one number.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().map_err(failed("asking for the version"))?;
    Ok(format!("{}.{}", version / 1000, version % 1000 / 10))
}

fn gpu(ordinal: usize) -> Result<Gpu, DeviceError> {
    let ask = || -> Result<Gpu, DriverError> {
        let device = result::device::get(ordinal as i32)?;
        let major = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
        let minor = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
        // SAFETY: the device is one that the driver just named.
        let (capability, memory) = unsafe {
            let capability =
                (result::device::get_attribute(device, major)?, result::device::get_attribute(device, minor)?);
            (capability, result::device::total_mem(device)?)
        };
        Ok(Gpu { ordinal, name: result::device::get_name(device)?, capability, memory })
    };
    ask().map_err(failed(&format!("asking about device {ordinal}")))
}

/// Makes a GPU's primary context.
///
/// # Errors
/// [`DeviceError`] where there is no driver, no such GPU, or it is not usable.
pub(super) fn open(ordinal: usize) -> Result<Arc<CudaContext>, DeviceError> {
    let count = start()?;
    if ordinal >= count {
        return Err(DeviceError(format!("there is no cuda:{ordinal}; the driver sees {count} GPUs, from cuda:0")));
    }
    let context = CudaContext::new(ordinal).map_err(failed(&format!("opening cuda:{ordinal}")))?;
    // SAFETY: nothing has been allocated yet, and all work of the device goes through one stream.
    unsafe { context.disable_event_tracking() };
    Ok(context)
}
