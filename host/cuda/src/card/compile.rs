//! Compiles the kernels for an architecture with NVRTC. This needs no card.

use crate::error::DeviceError;
use crate::kernels::cuda_source;
use cudarc::nvrtc::{result, sys};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char};
use std::sync::{Arc, Mutex, PoisonError};

/// Options that fix the bits: no fused multiply-adds, no flushed subnormals, and correctly rounded quotients and roots.
const OPTIONS: [&str; 5] = ["--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--std=c++17"];

/// NVRTC program.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program was created, and is destroyed only once.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

/// Kernels for an architecture such as `sm_90`. Compiled once per process.
pub(crate) fn cubin(architecture: &str) -> Result<Arc<[u8]>, DeviceError> {
    static COMPILED: Mutex<Option<HashMap<String, Arc<[u8]>>>> = Mutex::new(None);
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let compiled = compiled.get_or_insert_default();
    if let Some(cubin) = compiled.get(architecture) {
        return Ok(Arc::clone(cubin));
    }
    let cubin: Arc<[u8]> = compile(architecture)?.into();
    compiled.insert(architecture.to_owned(), Arc::clone(&cubin));
    Ok(cubin)
}

fn compile(architecture: &str) -> Result<Vec<u8>, DeviceError> {
    // SAFETY: loading NVRTC runs its constructors, as in every program that uses it.
    if !unsafe { sys::is_culib_present() } {
        return Err(DeviceError::NoLibrary("libnvrtc"));
    }
    let failed = |call| move |error: result::NvrtcError| DeviceError::Call { call, code: format!("{:?}", error.0) };
    let source = CString::new(cuda_source()).map_err(|_| DeviceError::Compile("a zero in the source".into()))?;
    let program = result::create_program(&source, Some(c"damper.cu")).map_err(failed("nvrtcCreateProgram"))?;
    let program = Program(program);
    let target = format!("--gpu-architecture={architecture}");
    let options: Vec<&str> = std::iter::once(&*target).chain(OPTIONS).collect();
    // SAFETY: here and below, the program was created and is not yet destroyed.
    if unsafe { result::compile_program(program.0, &options) }.is_err() {
        // SAFETY: as above.
        let log = unsafe { result::get_program_log(program.0) }.map_err(failed("nvrtcGetProgramLog"))?;
        return Err(DeviceError::Compile(text(&log)));
    }
    let mut size = 0;
    // SAFETY: as above, and the size is written to a local variable.
    unsafe { sys::nvrtcGetCUBINSize(program.0, &raw mut size) }.result().map_err(failed("nvrtcGetCUBINSize"))?;
    let mut cubin = vec![0u8; size];
    // SAFETY: as above, and the memory has the size that NVRTC returned.
    unsafe { sys::nvrtcGetCUBIN(program.0, cubin.as_mut_ptr().cast::<c_char>()) }
        .result()
        .map_err(failed("nvrtcGetCUBIN"))?;
    Ok(cubin)
}

/// Text of a zero-terminated NVRTC log.
fn text(log: &[c_char]) -> String {
    // `c_char` is signed on some processors only.
    let bytes: Vec<u8> = log.iter().flat_map(|byte| byte.to_ne_bytes()).collect();
    CStr::from_bytes_until_nul(&bytes).map_or_else(|_| String::new(), |log| log.to_string_lossy().into_owned())
}
