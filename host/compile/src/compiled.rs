//! A compiled network, and how it is asked for.

use std::path::PathBuf;

/// In what a network is written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Language {
    /// A crate.
    #[default]
    Rust,
    /// C99 files over the library and the headers of `capi`.
    C,
}

/// How a network is compiled.
#[derive(Clone, Debug, Default)]
pub struct CompileOptions {
    /// The crate's name, or that of the C files: what of it is no letter or digit becomes `-`.
    pub name: String,
    /// Bytes of RAM for the parameters, the step's sum and a sample: if a gradient fits too, it is kept, and computed once. If not given, it
    /// is not kept.
    pub memory: Option<usize>,
    /// In what it is written.
    pub language: Language,
    /// The repository of damper whose `core` and `nn` the crate uses. If not given, the crate has a copy of both.
    pub damper: Option<PathBuf>,
}

/// A file of the crate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompiledFile {
    /// Its path in the crate, with `/`.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// A compiled network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compiled {
    /// The crate's files.
    pub files: Vec<CompiledFile>,
    /// What it takes of a device.
    pub figures: Footprint,
}

/// What a compiled network takes of a device, but for code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footprint {
    /// Trained parameters, `D`.
    pub params: usize,
    /// Bytes of RAM for a sample's numbers.
    pub memory: usize,
    /// Bytes of flash for what does not change, shapes left out.
    pub constants: usize,
    /// Multiply-adds of the outputs of one sample.
    pub forward: u64,
    /// Multiply-adds of one sample's gradient, made once; a step without a gradient in memory makes some three times.
    pub gradient: u64,
    /// Of `gradient`, those that are made again in each pass of a step.
    pub passes: u64,
    /// Whether a step takes a gradient from memory: then there is one pass.
    pub is_stored: bool,
}
