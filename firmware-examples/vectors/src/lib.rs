//! The recorded vectors of damper-nn's kernels (`nn/vectors`), played without files or a heap.
//!
//! # Memory
//!
//! The longest output takes 13 KB of stack, and a kernel up to 5 KB. A Cortex-M0 of 16 KB plays the narrow form of
//! longer outputs, and computes the longest in parts. The vectors take 220 KB of flash.
#![no_std]
#![forbid(unsafe_code)]

#[allow(missing_docs)] // Each item has the tests' documentation.
#[path = "../../../nn/vectors/player.rs"]
mod player;

use player::{FUNCTIONS, KernelVector, LONGEST, PART, functions, play, play_in_parts};

const fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

static VECTORS: &[KernelVector<'static>] = include!(concat!(env!("OUT_DIR"), "/vectors.rs"));

/// Returns true if every form of every kernel, and the functions of `libm`, have the recorded bits here.
#[must_use]
pub fn run() -> bool {
    let holds = |vector: &KernelVector<'_>| match vector.output.len() {
        0..=SHORT => holds_in::<SHORT>(vector, FORMS),
        LITTLE_RAM.. if cfg!(little_ram) => holds_in_parts(vector),
        _ if cfg!(little_ram) => holds_in::<LITTLE_RAM>(vector, 1),
        _ => holds_in::<LONGEST>(vector, FORMS),
    };
    VECTORS.iter().all(holds) && functions() == Some(FUNCTIONS)
}

/// Most entries of an output of quantised kernels, which also need memory for their weights.
const SHORT: usize = 560;

/// Number of entries from which a gradient is computed in parts if there are 16 KB of RAM: a kernel takes the rest.
const LITTLE_RAM: usize = 2400;

/// Forms of a kernel: narrow and wide.
const FORMS: usize = 2;

#[inline(never)]
fn holds_in<const N: usize>(vector: &KernelVector<'_>, most: usize) -> bool {
    matches!(play(vector, &mut [0.0; N], most), Ok(1..))
}

#[inline(never)]
fn holds_in_parts(vector: &KernelVector<'_>) -> bool {
    matches!(play_in_parts(vector, &mut [0.0; PART]), Ok(1..))
}
