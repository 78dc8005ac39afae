//! Unsafe system queries: the modules of the process, their bytes, and the processor's identification.

// ELF: Linux, Android, FreeBSD.

/// Segment from the headers of a module, at its address in memory.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) kind: u32,
    pub(super) flags: u32,
    pub(super) start: usize,
    /// Bytes that come from the file.
    pub(super) filed: usize,
    pub(super) len: usize,
}

/// Program or library, which stays loaded during the visit.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(super) struct Module<'a> {
    pub(super) base: usize,
    /// Path, empty for the program itself.
    pub(super) name: &'a [u8],
    pub(super) parts: Vec<Part>,
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
impl Part {
    fn contains(&self, start: usize, len: usize) -> bool {
        start >= self.start && start - self.start <= self.len && len <= self.len - (start - self.start)
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
impl Module<'_> {
    /// Bytes at `start`. `None` unless they are in a segment that is mapped readable and that nothing writes after
    /// loading.
    pub(super) fn bytes(&self, start: usize, len: usize) -> Option<&[u8]> {
        let is_in =
            |takes: &dyn Fn(&Part) -> bool| self.parts.iter().any(|part| takes(part) && part.contains(start, len));
        let mapped = is_in(&|part| part.kind == libc::PT_LOAD && part.flags & libc::PF_R != 0);
        let fixed = is_in(&|part| part.kind == libc::PT_LOAD && part.flags & libc::PF_W == 0)
            || is_in(&|part| part.kind == libc::PT_GNU_RELRO);
        if start == 0 || !(mapped && fixed) {
            return None;
        }
        // SAFETY: the segment is mapped readable, and the loader keeps the module during the callback (`each`), which
        // outlives `self`. Nothing writes to these bytes after loading: the segment is not writable, or it is read-only
        // after relocation.
        Some(unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(start), len) })
    }
}

/// Visits each module of the process.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(super) fn each(mut visit: &mut dyn FnMut(&Module<'_>)) {
    unsafe extern "C" fn visited(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        visit: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the loader passes a complete record, and `visit` is the borrow that `each` passed. It has no other
        // user during the call.
        let (info, visit) = unsafe { (&*info, &mut *visit.cast::<&mut dyn FnMut(&Module<'_>)>()) };
        if info.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: the loader's own array, which has this many headers and lives during the call.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let name: &[u8] = if info.dlpi_name.is_null() {
            &[]
        } else {
            // SAFETY: a zero-terminated string of the loader, which lives during the call.
            unsafe { std::ffi::CStr::from_ptr(info.dlpi_name) }.to_bytes()
        };
        let base = info.dlpi_addr as usize;
        let parts = headers.iter().map(|header| Part {
            kind: header.p_type,
            flags: header.p_flags,
            start: base.wrapping_add(header.p_vaddr as usize),
            filed: header.p_filesz as usize,
            len: header.p_memsz as usize,
        });
        visit(&Module { base, name, parts: parts.collect() });
        0
    }
    // SAFETY: `visited` has the type that the loader calls, and its argument outlives the call. The callee does not
    // panic. A panic would abort the process and not unwind into the loader.
    unsafe { libc::dl_iterate_phdr(Some(visited), (&raw mut visit).cast()) };
}

// Images of macOS and Windows that stay loaded: damper's own, those of a runtime in use, and the system's.

/// Header of the image that contains `address`.
#[cfg(target_vendor = "apple")]
pub(super) fn image(address: usize) -> Option<usize> {
    // SAFETY: all zeros are a valid value of this record of pointers.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address is allowed, and the call writes the whole record if it does not return 0.
    let found = unsafe { libc::dladdr(std::ptr::with_exposed_provenance(address), &raw mut info) };
    (found != 0 && !info.dli_fbase.is_null()).then(|| info.dli_fbase.expose_provenance())
}

/// Header of the image that contains `address`.
#[cfg(windows)]
pub(super) fn image(address: usize) -> Option<usize> {
    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetModuleHandleExW(flags: u32, address: *const u16, module: *mut *mut std::ffi::c_void) -> i32;
    }
    /// Interpret the name as an address, and do not increment the reference count of the module.
    const BY_ADDRESS: u32 = 4 | 2;
    let mut module = std::ptr::null_mut();
    // SAFETY: with these flags the second argument is any address. The third receives a handle, which is the image's
    // address.
    let found = unsafe { GetModuleHandleExW(BY_ADDRESS, std::ptr::with_exposed_provenance(address), &raw mut module) };
    (found != 0 && !module.is_null()).then(|| module.expose_provenance())
}

/// Returns `len` bytes of an image at `start`.
///
/// # Safety
///
/// They must be mapped readable, and nothing may write to them for the lifetime of the process.
#[cfg(any(target_vendor = "apple", windows))]
pub(super) unsafe fn bytes(start: usize, len: usize) -> &'static [u8] {
    // SAFETY: as required from the caller.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(start), len) }
}

/// Addresses of mathematical functions.
pub(super) fn math() -> Vec<usize> {
    #[cfg(any(unix, windows))]
    {
        unsafe extern "C" {
            fn exp(x: f64) -> f64;
            fn log(x: f64) -> f64;
            fn pow(x: f64, y: f64) -> f64;
            fn sin(x: f64) -> f64;
            fn cos(x: f64) -> f64;
            fn tanh(x: f64) -> f64;
        }
        vec![
            exp as unsafe extern "C" fn(f64) -> f64 as usize,
            log as unsafe extern "C" fn(f64) -> f64 as usize,
            pow as unsafe extern "C" fn(f64, f64) -> f64 as usize,
            sin as unsafe extern "C" fn(f64) -> f64 as usize,
            cos as unsafe extern "C" fn(f64) -> f64 as usize,
            tanh as unsafe extern "C" fn(f64) -> f64 as usize,
        ]
    }
    #[cfg(not(any(unix, windows)))]
    Vec::new()
}

/// CPUID description of the processor, without the number of the queried core.
#[cfg(target_arch = "x86_64")]
#[allow(unused_unsafe)] // Safe in later versions of Rust.
pub(super) fn processor() -> Option<String> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    use std::fmt::Write as _;
    // SAFETY: every processor of this architecture has the instruction.
    let (basic, extended) = unsafe { (__cpuid(0).eax, __cpuid(0x8000_0000).eax) };
    let mut text = String::from("cpuid");
    // Model and features, then the 64-bit features and the name.
    for (leaf, part) in
        [(0, 0), (1, 0), (7, 0), (7, 1), (0x8000_0001, 0), (0x8000_0002, 0), (0x8000_0003, 0), (0x8000_0004, 0)]
    {
        if leaf > if leaf < 0x8000_0000 { basic } else { extended } {
            continue;
        }
        // SAFETY: as above, and the processor has this leaf.
        let found = unsafe { __cpuid_count(leaf, part) };
        // In leaf 1 this register contains the core's number.
        let ebx = if leaf == 1 { 0 } else { found.ebx };
        let _ = write!(text, " {leaf:x}.{part}:{:x},{ebx:x},{:x},{:x}", found.eax, found.ecx, found.edx);
    }
    Some(text)
}

/// Name of the processor.
#[cfg(all(target_vendor = "apple", not(target_arch = "x86_64")))]
pub(super) fn processor() -> Option<String> {
    let mut name = [0u8; 128];
    let mut len = name.len();
    // SAFETY: the call writes at most `len` bytes, the size of the buffer. The name ends with a zero.
    let failed = unsafe {
        libc::sysctlbyname(
            c"machdep.cpu.brand_string".as_ptr(),
            name.as_mut_ptr().cast(),
            &raw mut len,
            std::ptr::null_mut(),
            0,
        )
    };
    (failed == 0).then(|| String::from_utf8_lossy(&name[..len.min(name.len())]).trim_end_matches('\0').to_owned())
}

#[cfg(not(any(target_arch = "x86_64", target_vendor = "apple")))]
pub(super) fn processor() -> Option<String> {
    None
}
