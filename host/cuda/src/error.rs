//! Errors of a device.

use std::fmt;

/// Error of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DeviceError {
    /// An NVIDIA library is missing: the driver's or NVRTC.
    NoLibrary(&'static str),
    /// The machine has no card of this number, or no compiler for the emulation.
    NoDevice(String),
    /// The device has no room for this many bytes.
    NoMemory {
        /// Requested bytes.
        bytes: u64,
    },
    /// The kernels do not compile. Contains the compiler's message.
    Compile(String),
    /// A call of the driver failed.
    Call {
        /// Name of the call.
        call: &'static str,
        /// Error code, as the driver names it.
        code: String,
    },
    /// The sizes do not fit each other, or are too large for the device's arithmetic.
    Shape(&'static str),
    /// A call is out of order: a chunk before the step, a second release, or anything after an error in the step.
    Order(&'static str),
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLibrary(name) => {
                write!(f, "{name}: the library is not on this machine; install NVIDIA's driver and CUDA")
            }
            Self::NoDevice(what) => write!(f, "{what}"),
            Self::NoMemory { bytes } => {
                write!(f, "the device has no room for {bytes} bytes; use a smaller physical batch")
            }
            Self::Compile(log) => write!(f, "the device's kernels do not compile: {log}"),
            Self::Call { call, code } => write!(f, "{call}: the device failed with {code}"),
            Self::Shape(what) => write!(f, "a sum on the device: {what}"),
            Self::Order(what) => write!(f, "a sum on the device: {what}"),
        }
    }
}

impl std::error::Error for DeviceError {}
