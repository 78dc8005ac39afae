//! Kernels compiled as C++ for the processor, to test their bits without a card.

use crate::device::{Allocation, Argument, CudaDevice, Launch, Span};
use crate::error::DeviceError;
use crate::kernels::emulated_source;
use libloading::Library;
use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// Order in which the threads of a kernel run, one after another. The bits must not depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadOrder {
    /// In order of their numbers.
    Numbered,
    /// From the last to the first.
    Reversed,
    /// Shuffled with this seed.
    Shuffled(u32),
}

/// Device in the processor's memory. A C++ compiler on this machine compiles the kernels, once per process.
pub struct EmulatedDevice {
    order: ThreadOrder,
    entry: Entry,
    /// Number and bytes of allocated blocks. `room` is the total capacity.
    taken: Mutex<(usize, u64)>,
    room: u64,
}

type Entry = unsafe extern "C" fn(*const c_char, u32, u32, u32, u64, *mut *mut c_void, *const u32, u32) -> c_int;

/// Guard bytes around each block of memory, which nothing writes.
const GUARD: usize = 64;
const GUARD_BYTE: u8 = 0xc5;
/// Initial bytes of new memory: NaN, as floats.
const NEW_BYTE: u8 = 0xff;

impl EmulatedDevice {
    /// Creates a device with this thread order and a capacity of `room` bytes.
    ///
    /// # Errors
    ///
    /// Fails if this machine has no C++ compiler, or it does not compile the kernels.
    pub fn new(order: ThreadOrder, room: u64) -> Result<Self, DeviceError> {
        static ENTRY: OnceLock<Result<Entry, DeviceError>> = OnceLock::new();
        let entry = ENTRY.get_or_init(|| load(&emulated_source())).clone()?;
        Ok(Self { order, entry, taken: Mutex::new((0, 0)), room })
    }

    /// Like [`new`](Self::new), with a modified kernel source, for tests that must detect the change.
    ///
    /// # Errors
    ///
    /// See [`new`](Self::new).
    pub fn of_source(source: &str) -> Result<Self, DeviceError> {
        Ok(Self { order: ThreadOrder::Numbered, entry: load(source)?, taken: Mutex::new((0, 0)), room: u64::MAX })
    }

    /// Number and bytes of allocated blocks.
    #[must_use]
    pub fn taken(&self) -> (usize, u64) {
        *self.taken.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

/// Compiles the kernels into a library that stays loaded.
fn load(source: &str) -> Result<Entry, DeviceError> {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("damper-cuda-{}-{number}", std::process::id()));
    let failed = |error: std::io::Error| DeviceError::Compile(error.to_string());
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let built = build(source, &folder);
    let loaded = built.and_then(|library| {
        // SAFETY: the library was just compiled from this crate's source, whose constructors do nothing.
        unsafe { Library::new(&library) }.map_err(|error| DeviceError::Compile(error.to_string()))
    });
    std::fs::remove_dir_all(&folder).map_err(failed)?;
    let library = Box::leak(Box::new(loaded?));
    // SAFETY: `kernels/entry.h` defines the symbol with this type.
    let entry = unsafe { library.get::<Entry>(b"damper_emulate\0") };
    entry.map(|entry| *entry).map_err(|error| DeviceError::Compile(error.to_string()))
}

fn build(source: &str, folder: &Path) -> Result<std::path::PathBuf, DeviceError> {
    let (text, library) = (folder.join("kernels.cpp"), folder.join("kernels.so"));
    std::fs::write(&text, source).map_err(|error| DeviceError::Compile(error.to_string()))?;
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let mut command = Command::new(&compiler);
    command.args(["-std=c++17", "-O2", "-ffp-contract=off", "-fno-fast-math", "-shared", "-fPIC", "-o"]);
    let output = command.arg(&library).arg(&text).output();
    let output = output
        .map_err(|error| DeviceError::NoDevice(format!("the C++ compiler {}: {error}", compiler.to_string_lossy())))?;
    if !output.status.success() {
        return Err(DeviceError::Compile(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(library)
}

fn memory_layout(bytes: u64) -> Option<Layout> {
    let bytes = usize::try_from(bytes).ok()?.checked_add(2 * GUARD)?;
    Layout::from_size_align(bytes, GUARD).ok()
}

impl CudaDevice for EmulatedDevice {
    fn allocate(&self, bytes: u64) -> Result<Allocation, DeviceError> {
        let mut taken = self.taken.lock().unwrap_or_else(|broken| broken.into_inner());
        let no_memory = DeviceError::NoMemory { bytes };
        let Some(layout) = memory_layout(bytes).filter(|_| taken.1.saturating_add(bytes) <= self.room) else {
            return Err(no_memory);
        };
        // SAFETY: the layout includes guards, so its size is not 0.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            return Err(no_memory);
        }
        // SAFETY: both writes are inside the allocated memory.
        unsafe {
            start.write_bytes(GUARD_BYTE, layout.size());
            start.add(GUARD).write_bytes(NEW_BYTE, layout.size() - 2 * GUARD);
        }
        *taken = (taken.0 + 1, taken.1 + bytes);
        Ok(Allocation::new(start.expose_provenance() as u64 + GUARD as u64, bytes))
    }

    fn free(&self, allocation: Allocation) {
        let Some(layout) = memory_layout(allocation.bytes()) else { return };
        let start = std::ptr::with_exposed_provenance_mut::<u8>(allocation.address() as usize - GUARD);
        // SAFETY: `allocate` allocated this memory with this layout, and `allocation` was its owner.
        let is_intact = unsafe {
            let all = std::slice::from_raw_parts(start, layout.size());
            let is_guard = |bytes: &[u8]| bytes.iter().all(|byte| *byte == GUARD_BYTE);
            let is_intact = is_guard(&all[..GUARD]) && is_guard(&all[layout.size() - GUARD..]);
            dealloc(start, layout);
            is_intact
        };
        let mut taken = self.taken.lock().unwrap_or_else(|broken| broken.into_inner());
        *taken = (taken.0 - 1, taken.1 - allocation.bytes());
        drop(taken);
        assert!(is_intact || std::thread::panicking(), "a kernel wrote beside its memory");
    }

    fn upload(&self, to: Span<'_>, bytes: &[u8]) -> Result<(), DeviceError> {
        assert_eq!(to.bytes(), bytes.len() as u64);
        // SAFETY: a span is inside live memory, and no kernel runs at the same time.
        unsafe { pointer(&to).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    fn download(&self, from: Span<'_>, bytes: &mut [u8]) -> Result<(), DeviceError> {
        assert_eq!(from.bytes(), bytes.len() as u64);
        // SAFETY: as in `upload`. Memory is initialised when it is allocated.
        unsafe { pointer(&from).copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn clear(&self, span: Span<'_>) -> Result<(), DeviceError> {
        // SAFETY: as in `upload`.
        unsafe { pointer(&span).write_bytes(0, span.bytes() as usize) };
        Ok(())
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        let name = CString::new(launch.kernel().name()).unwrap_or_default();
        let [x, y] = launch.grid();
        let (mut words, sizes): (Vec<u64>, Vec<u32>) = launch.arguments().iter().copied().map(Argument::word).unzip();
        // Every host of a card is little-endian.
        let mut pointers: Vec<*mut c_void> = words.iter_mut().map(|word| std::ptr::from_mut(word).cast()).collect();
        let order = match self.order {
            ThreadOrder::Numbered => 0,
            ThreadOrder::Reversed => 1,
            ThreadOrder::Shuffled(seed) => 2 + u64::from(seed),
        };
        let (arguments, count) = (pointers.as_mut_ptr(), sizes.len() as u32);
        // SAFETY: the entry point checks the number and sizes of the arguments. Only this crate creates a `Launch`,
        // which reads and writes live memory.
        let result =
            unsafe { (self.entry)(name.as_ptr(), x, y, launch.block(), order, arguments, sizes.as_ptr(), count) };
        match result {
            0 => Ok(()),
            1 => Err(DeviceError::Call { call: launch.kernel().name(), code: "no such kernel".into() }),
            _ => Err(DeviceError::Call { call: launch.kernel().name(), code: "other arguments".into() }),
        }
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

fn pointer(span: &Span<'_>) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(span.address() as usize)
}
