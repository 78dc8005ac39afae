//! CUDA card, through the driver's library, which is loaded at run time.

mod compile;

pub(crate) use compile::cubin;

use crate::device::{Allocation, Argument, CudaDevice, Launch, Span};
use crate::error::DeviceError;
use crate::kernels::CudaKernel;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use std::ffi::{CString, c_void};

/// Card with the kernels, in the context that onnxruntime also uses, and a stream that executes all calls in order.
pub struct Card {
    device: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
    module: sys::CUmodule,
    /// Functions in the order of [`CudaKernel::ALL`].
    functions: Vec<sys::CUfunction>,
    architecture: String,
}

// SAFETY: the driver's handles may be used from any thread, and each call first makes the context current in its
// thread.
unsafe impl Send for Card {}
// SAFETY: as above. The driver orders the calls of threads on one stream.
unsafe impl Sync for Card {}

impl Card {
    /// Opens the card `number`. Compiles the kernels for it, once per process.
    ///
    /// # Errors
    ///
    /// Fails if NVIDIA's driver or NVRTC is missing, the machine has no such card, or the kernels do not compile.
    pub fn open(number: u32) -> Result<Self, DeviceError> {
        // The bindings panic if they do not find their library, so this checks first.
        // SAFETY: loading the driver's library runs its constructors, as in every program that uses it.
        if !unsafe { sys::is_culib_present() } {
            return Err(DeviceError::NoLibrary("libcuda"));
        }
        result::init().map_err(|error| failed("cuInit", error))?;
        let count = result::device::get_count().map_err(|error| failed("cuDeviceGetCount", error))?;
        let ordinal = i32::try_from(number).ok().filter(|number| *number < count);
        let ordinal = ordinal.ok_or_else(|| DeviceError::NoDevice(format!("card {number} of {count}")))?;
        let device = result::device::get(ordinal).map_err(|error| failed("cuDeviceGet", error))?;
        let architecture = architecture(device)?;
        let cubin = cubin(&architecture)?;
        // SAFETY: the driver has just returned the device.
        let context = unsafe { result::primary_ctx::retain(device) }
            .map_err(|error| failed("cuDevicePrimaryCtxRetain", error))?;
        let (stream, module) = (std::ptr::null_mut(), std::ptr::null_mut());
        let mut card = Self { device, context, stream, module, functions: Vec::new(), architecture };
        card.enter()?;
        card.stream = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(|error| failed("cuStreamCreate", error))?;
        // SAFETY: the image is the output of NVRTC.
        card.module = unsafe { result::module::load_data(cubin.as_ptr().cast()) }
            .map_err(|DriverError(code)| DeviceError::Compile(format!("the driver does not load them: {code:?}")))?;
        for kernel in CudaKernel::ALL {
            let name = CString::new(kernel.name()).unwrap_or_default();
            // SAFETY: the module is loaded.
            let function = unsafe { result::module::get_function(card.module, name) };
            card.functions.push(function.map_err(|error| failed("cuModuleGetFunction", error))?);
        }
        Ok(card)
    }

    /// Architecture of the card, such as `sm_90`.
    #[must_use]
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// Stream of the card. onnxruntime may compute on it, too (its setting `user_compute_stream`). Gradients are then
    /// written before they are read.
    #[must_use]
    pub fn stream(&self) -> u64 {
        self.stream.expose_provenance() as u64
    }

    /// Bytes of free memory and of total memory.
    ///
    /// # Errors
    ///
    /// Fails if the driver fails.
    pub fn memory(&self) -> Result<[u64; 2], DeviceError> {
        self.enter()?;
        let (free, all) = result::mem_get_info().map_err(|error| failed("cuMemGetInfo", error))?;
        Ok([free as u64, all as u64])
    }

    /// Makes the context current in this thread.
    fn enter(&self) -> Result<(), DeviceError> {
        // SAFETY: the context is retained until `self` is dropped.
        unsafe { result::ctx::set_current(self.context) }.map_err(|error| failed("cuCtxSetCurrent", error))
    }
}

fn architecture(device: sys::CUdevice) -> Result<String, DeviceError> {
    use sys::CUdevice_attribute::{
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    };
    let get = |attribute| {
        // SAFETY: the driver has returned the device.
        unsafe { result::device::get_attribute(device, attribute) }
            .map_err(|error| failed("cuDeviceGetAttribute", error))
    };
    let (major, minor) =
        (get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?, get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?);
    Ok(format!("sm_{major}{minor}"))
}

fn failed(call: &'static str, DriverError(code): DriverError) -> DeviceError {
    DeviceError::Call { call, code: format!("{code:?}") }
}

impl CudaDevice for Card {
    fn allocate(&self, bytes: u64) -> Result<Allocation, DeviceError> {
        self.enter()?;
        let no_memory = DeviceError::NoMemory { bytes };
        let Ok(size) = usize::try_from(bytes) else { return Err(no_memory) };
        // SAFETY: the allocation owns the block, and only the allocation's free call frees it.
        match unsafe { result::malloc_sync(size) } {
            Ok(address) => Ok(Allocation::new(address, bytes)),
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Err(no_memory),
            Err(error) => Err(failed("cuMemAlloc", error)),
        }
    }

    fn free(&self, allocation: Allocation) {
        // Earlier calls may still use the block. After an error nothing runs any more.
        let _ = self.synchronize();
        if self.enter().is_ok() {
            // SAFETY: an allocation owns its block, and nothing uses it now.
            let _ = unsafe { result::free_sync(allocation.address()) };
        }
    }

    fn upload(&self, to: Span<'_>, bytes: &[u8]) -> Result<(), DeviceError> {
        assert_eq!(to.bytes(), bytes.len() as u64);
        self.enter()?;
        // SAFETY: a span is inside live memory, and the source outlives the copy.
        unsafe { result::memcpy_htod_async(to.address(), bytes, self.stream) }
            .map_err(|error| failed("cuMemcpyHtoDAsync", error))?;
        self.synchronize()
    }

    fn download(&self, from: Span<'_>, bytes: &mut [u8]) -> Result<(), DeviceError> {
        assert_eq!(from.bytes(), bytes.len() as u64);
        self.enter()?;
        // SAFETY: as in `upload`.
        unsafe { result::memcpy_dtoh_async(bytes, from.address(), self.stream) }
            .map_err(|error| failed("cuMemcpyDtoHAsync", error))?;
        self.synchronize()
    }

    fn clear(&self, span: Span<'_>) -> Result<(), DeviceError> {
        self.enter()?;
        if span.bytes() == 0 {
            return Ok(());
        }
        // SAFETY: a span is inside live memory.
        unsafe { result::memset_d8_async(span.address(), 0, span.bytes() as usize, self.stream) }
            .map_err(|error| failed("cuMemsetD8Async", error))
    }

    fn wait_for_others(&self) -> Result<(), DeviceError> {
        self.enter()?;
        result::ctx::synchronize().map_err(|error| failed("cuCtxSynchronize", error))
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        self.enter()?;
        let name = launch.kernel().name();
        let place = CudaKernel::ALL.iter().position(|kernel| *kernel == launch.kernel());
        let Some(function) = place.and_then(|place| self.functions.get(place)) else {
            return Err(DeviceError::Call { call: name, code: "no such kernel".into() });
        };
        let mut words: Vec<u64> = launch.arguments().iter().map(|argument| Argument::word(*argument).0).collect();
        let mut pointers: Vec<*mut c_void> = words.iter_mut().map(|word| std::ptr::from_mut(word).cast()).collect();
        let [x, y] = launch.grid();
        let block = (launch.block(), 1, 1);
        // SAFETY: only this crate creates a `Launch`, with the kernel's arguments. Its memory is alive until it is
        // freed, which waits for this call. The driver copies the arguments before it returns.
        unsafe { result::launch_kernel(*function, (x, y, 1), block, 0, self.stream, &mut pointers) }
            .map_err(|error| failed(name, error))
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.enter()?;
        // SAFETY: the stream belongs to this card.
        unsafe { result::stream::synchronize(self.stream) }.map_err(|error| failed("cuStreamSynchronize", error))
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        if self.enter().is_ok() && !self.stream.is_null() {
            // SAFETY: the stream belongs to this card and has no other user. All its calls are finished first.
            let _ =
                unsafe { result::stream::synchronize(self.stream).and_then(|()| result::stream::destroy(self.stream)) };
        }
        if !self.module.is_null() {
            // SAFETY: the module was loaded once, and nothing uses its functions any more.
            let _ = unsafe { result::module::unload(self.module) };
        }
        // SAFETY: the context was retained once.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}
