//! The compiled kernels: modules, functions by name, launches.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::{CudaContext, result, sys};

use super::driver::{PLAIN_SHARED, failed};
use super::stream::Stream;
use crate::cuda::call::{Arg, Call};
use crate::ops::DeviceError;

/// A function and how much dynamic shared memory it has been allowed.
#[derive(Clone, Copy, Debug)]
struct Function {
    handle: sys::CUfunction,
    shared: u32,
}

/// Loaded modules.
#[derive(Debug)]
pub(super) struct Kernels {
    context: Arc<CudaContext>,
    modules: Vec<sys::CUmodule>,
    functions: HashMap<&'static str, Function>,
    /// Parameters of the launch being made, kept for their memory.
    words: Vec<u64>,
    pointers: Vec<*mut c_void>,
}

// SAFETY: the handles may be used from any thread that has the context current, and `pointers` is filled anew by each launch.
unsafe impl Send for Kernels {}

impl Kernels {
    /// Loads all images; each kernel is in one of them.
    pub(super) fn load(context: &Arc<CudaContext>, images: &[&[u8]]) -> Result<Self, DeviceError> {
        context.bind_to_thread().map_err(failed("using the context"))?;
        let (functions, words, pointers) = (HashMap::new(), Vec::new(), Vec::new());
        let mut kernels = Self { context: Arc::clone(context), modules: Vec::new(), functions, words, pointers };
        for image in images {
            // SAFETY: the driver reads as much of an image as its own header says; images are whole files of `nvcc`.
            let module = unsafe { result::module::load_data(image.as_ptr().cast()) };
            kernels.modules.push(module.map_err(failed("loading the kernels"))?);
        }
        Ok(kernels)
    }

    fn find(&self, name: &'static str) -> Result<Function, DeviceError> {
        let text = CString::new(name).map_err(|e| DeviceError(e.to_string()))?;
        for &module in &self.modules {
            // SAFETY: the module is loaded as long as this value exists.
            match unsafe { result::module::get_function(module, text.clone()) } {
                Ok(handle) => return Ok(Function { handle, shared: PLAIN_SHARED }),
                Err(e) if e.0 == sys::CUresult::CUDA_ERROR_NOT_FOUND => {}
                Err(e) => return Err(failed(&format!("finding kernel {name}"))(e)),
            }
        }
        Err(DeviceError(format!("CUDA: the loaded kernels have none named {name}")))
    }

    /// Puts a launch in the stream.
    pub(super) fn launch(&mut self, stream: &Stream, call: &Call) -> Result<(), DeviceError> {
        let mut function = match self.functions.get(call.kernel) {
            Some(found) => *found,
            None => self.find(call.kernel)?,
        };
        if call.shared > function.shared {
            let most = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function's module is loaded.
            unsafe { result::function::set_function_attribute(function.handle, most, call.shared as i32) }
                .map_err(failed(&format!("giving {} {} bytes of shared memory", call.kernel, call.shared)))?;
            function.shared = call.shared;
        }
        self.functions.insert(call.kernel, function);
        self.words.clear();
        self.words.extend(call.args.iter().map(|arg| match *arg {
            Arg::At(at) => at.0,
            Arg::U32(value) => value.into(),
            Arg::F32(value) => value.to_bits().into(),
        }));
        // Little-endian: a word's first bytes are a shorter parameter's.
        self.pointers.clear();
        self.pointers.extend(self.words.iter_mut().map(|word| std::ptr::from_mut(word).cast::<c_void>()));
        let grid = (call.grid[0], call.grid[1], call.grid[2]);
        // SAFETY: `calls` lists the parameters of each kernel in order, and every address is of a buffer of this device; emulate's
        // tests run the same launches under AddressSanitizer.
        unsafe {
            result::launch_kernel(
                function.handle,
                grid,
                (call.block, 1, 1),
                call.shared,
                stream.handle(),
                &mut self.pointers,
            )
        }
        .map_err(failed(&format!("launching {}", call.kernel)))
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            for &module in &self.modules {
                // SAFETY: loaded once, unloaded once; the streams that ran its kernels are gone or idle.
                let _ = unsafe { result::module::unload(module) };
            }
        }
    }
}
