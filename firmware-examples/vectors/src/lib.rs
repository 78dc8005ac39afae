//! The recorded vectors of damper-nn's kernels (`nn/vectors`), played without files or a heap.
//!
//! # Memory
//!
//! The longest output takes 13 KB of stack. The wide forms of kernels take 5 KB, and a Cortex-M0 plays only their
//! shorter outputs. The vectors take 220 KB of flash.
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

/// Most entries of an output of quantised kernels, which also need memory for their weights.
const SHORT: usize = 560;

/// Forms of a kernel: small and wide.
const FORMS: usize = 2;

#[inline(never)]
fn holds_in<const N: usize>(vector: &KernelVector<'_>, most: usize) -> bool {
    matches!(play(vector, &mut [0.0; N], most), Ok(1..))
}
