//! Compiled networks, and the options of the compiler.

use std::path::PathBuf;

/// Language of the generated source.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Language {
    /// Rust crate.
    #[default]
    Rust,
    /// C99 files that use the library and the headers of `capi`.
    C,
}

/// Options of the compiler.
#[derive(Clone, Debug, Default)]
pub struct CompileOptions {
    /// Name of the crate or of the C files. Runs of other characters than letters and digits become `-`.
    pub name: String,
    /// Limit of RAM in bytes, for the parameters, the step's sum and a sample. If the limit also has room for a
    /// gradient, it is stored and computed once. If not given, it is not stored.
    pub memory: Option<usize>,
    /// Language of the generated source.
    pub language: Language,
    /// Path of a damper repository, to use its `core` and `nn`. If not given, the crate contains a copy of both.
    pub damper: Option<PathBuf>,
}

/// Generated file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompiledFile {
    /// Path in the crate, with `/` as separator.
    pub path: String,
    /// Content.
    pub bytes: Vec<u8>,
}

/// Compiled network.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Compiled {
    /// Generated files.
    pub files: Vec<CompiledFile>,
    /// Resources that it needs on a device.
    pub figures: Footprint,
}

/// Resources that a compiled network needs on a device, without code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Footprint {
    /// Number of trained parameters, `D`.
    pub params: usize,
    /// Bytes of RAM for a sample's values.
    pub memory: usize,
    /// Bytes of flash for constants, without shapes.
    pub constants: usize,
    /// Multiply-adds of the outputs of one sample.
    pub forward: u64,
    /// Multiply-adds of one sample's gradient, computed once. Without a stored gradient, a step computes part of it
    /// three times.
    pub gradient: u64,
    /// Multiply-adds of `gradient` that each pass of a step repeats.
    pub passes: u64,
    /// True if a step stores a gradient in memory. It then needs one pass.
    pub is_stored: bool,
}
