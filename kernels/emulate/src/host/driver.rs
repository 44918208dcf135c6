//! The stand-in driver in this process: the CUDA device's own code then runs without a GPU.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use libloading::Library;

use super::Toolchain;

/// What the stand-in takes for compiled kernels: it has its own and looks at the first bytes only.
pub const IMAGE: &[u8] = b"\x7fELF stands for a cubin";

/// How the driver behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandIn {
    /// GPUs; 0 is a driver that finds none.
    pub devices: u32,
    /// Compute capability times ten.
    pub capability: i32,
    /// Bytes of each GPU.
    pub memory: usize,
    /// 0 runs work at once; a seed keeps it until somebody waits for it, and shuffles what streams and events leave open.
    pub seed: u32,
}

impl Default for StandIn {
    /// One RTX PRO 6000, but for its memory.
    fn default() -> Self {
        Self { devices: 1, capability: 120, memory: 4 << 30, seed: 0 }
    }
}

type Configure = unsafe extern "C" fn(u32, i32, usize, u32);

/// Loaded once and for good: cudarc keeps its own handle for the life of the process.
static LOADED: Mutex<Option<&'static Library>> = Mutex::new(None);

impl StandIn {
    /// Compiles the driver if need be, and makes it the process's `libcuda.so.1`. Later calls only change the order of work. The
    /// library is for calling what no binding has: `standin_allocations`.
    ///
    /// # Errors
    /// It can't be compiled or loaded.
    pub fn load(self, toolchain: &Toolchain) -> Result<&'static Library> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let library = match *loaded {
            Some(library) => library,
            None => {
                let path = toolchain.driver()?;
                // SAFETY: our own library; its constructors register kernels. A library of the same soname that is asked for
                // later is this one.
                let library =
                    unsafe { Library::new(&path) }.with_context(|| format!("cannot load {}", path.display()))?;
                *loaded.insert(Box::leak(Box::new(library)))
            }
        };
        // SAFETY: the function has this type; see `driver/device.cpp`.
        unsafe {
            let configure = library.get::<Configure>(b"standin_configure\0")?;
            configure(self.devices, self.capability, self.memory, self.seed);
        }
        Ok(library)
    }
}
