//! The version of header and library.

/// Major version of this header. A new number breaks programs.
pub const DAMPER_VERSION_MAJOR: u32 = 0;
/// Minor version. A new number adds functions or fields, and breaks programs while the major version is 0.
pub const DAMPER_VERSION_MINOR: u32 = 1;
/// Patch version. A new number changes no function.
pub const DAMPER_VERSION_PATCH: u32 = 0;

/// Returns the version of this library, as `DAMPER_VERSION` of its header. Compare both to detect a header of another
/// release.
#[unsafe(no_mangle)]
pub extern "C" fn damper_version() -> u32 {
    DAMPER_VERSION_MAJOR * 1_000_000 + DAMPER_VERSION_MINOR * 1_000 + DAMPER_VERSION_PATCH
}
