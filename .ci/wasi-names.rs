//! Names that Rust's standard library uses and Debian's wasi-libc of 2022 lacks. A program without threads does not
//! call the first.
#![no_std]
use core::ffi::{c_char, c_int, c_void};

const ENOSYS: c_int = 52;

#[unsafe(no_mangle)]
extern "C" fn pthread_attr_init(_: *mut c_void) -> c_int {
    ENOSYS
}

#[unsafe(no_mangle)]
extern "C" fn pthread_attr_setstacksize(_: *mut c_void, _: usize) -> c_int {
    ENOSYS
}

#[unsafe(no_mangle)]
extern "C" fn pthread_attr_destroy(_: *mut c_void) -> c_int {
    ENOSYS
}

#[unsafe(no_mangle)]
extern "C" fn pthread_create(_: *mut c_void, _: *const c_void, _: *const c_void, _: *mut c_void) -> c_int {
    ENOSYS
}

static mut ERRNO: c_int = 0;

#[unsafe(no_mangle)]
extern "C" fn __errno_location() -> *mut c_int {
    &raw mut ERRNO
}

unsafe extern "C" {
    fn strdup(text: *const c_char) -> *mut c_char;
    fn strcpy(to: *mut c_char, from: *const c_char) -> *mut c_char;
}

/// Returns a copy of a path, unchanged.
///
/// # Safety
///
/// `path` ends with a 0, and `to` is null or has room for it.
#[unsafe(no_mangle)]
unsafe extern "C" fn realpath(path: *const c_char, to: *mut c_char) -> *mut c_char {
    // SAFETY: as the caller promises.
    unsafe { if to.is_null() { strdup(path) } else { strcpy(to, path) } }
}
