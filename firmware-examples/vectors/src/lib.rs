//! The recorded vectors of damper-nn's kernels (`nn/vectors`), played where there is neither a file nor a heap.
//!
//! # Memory
//!
//! 13 KB of stack for the longest output, and 5 KB for the wide forms of kernels, which a Cortex-M0 plays of the shorter outputs alone; 220 KB of flash for
//! the vectors.
#![no_std]
#![forbid(unsafe_code)]

#[allow(missing_docs)] // Each item has the tests' documentation.
#[path = "../../../nn/vectors/player.rs"]
mod player;

use player::{FUNCTIONS, KernelVector, LONGEST, functions, play};

const fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

static VECTORS: &[KernelVector<'static>] = include!(concat!(env!("OUT_DIR"), "/vectors.rs"));

/// Returns true if every form of every kernel, and the functions of `libm`, have the recorded bits here.
#[must_use]
pub fn run() -> bool {
    let holds = |vector: &KernelVector<'_>| match vector.output.len() {
        0..=SHORT => holds_in::<SHORT>(vector, FORMS),
        _ => holds_in::<LONGEST>(vector, if cfg!(little_ram) { 1 } else { FORMS }),
    };
    VECTORS.iter().all(holds) && functions() == Some(FUNCTIONS)
}

/// Most entries of an output of quantised kernels, which want memory for their weights too.
const SHORT: usize = 560;

/// Forms of a kernel: small and wide.
const FORMS: usize = 2;

#[inline(never)]
fn holds_in<const N: usize>(vector: &KernelVector<'_>, most: usize) -> bool {
    matches!(play(vector, &mut [0.0; N], most), Ok(1..))
}
