//! The version of header and library.

/// The version of this header: a new number breaks programs.
pub const DAMPER_VERSION_MAJOR: u32 = 0;
/// A new number adds functions or fields, and breaks programs while the first is 0.
pub const DAMPER_VERSION_MINOR: u32 = 1;
/// A new number changes no function.
pub const DAMPER_VERSION_PATCH: u32 = 0;

/// The version of this library, as `DAMPER_VERSION` of its header. A program that compares both finds a header of another
/// release.
#[unsafe(no_mangle)]
pub extern "C" fn damper_version() -> u32 {
    DAMPER_VERSION_MAJOR * 1_000_000 + DAMPER_VERSION_MINOR * 1_000 + DAMPER_VERSION_PATCH
}
