//! Helpers for kernel tests.

use pulp::{Arch, Scalar, Simd, WithSimd};

/// SIMD width.
#[derive(Clone, Copy, Debug)]
pub enum Width {
    Dispatched,
    Eight,
    One,
}

impl Width {
    /// Runs `run` with this SIMD width. Returns false if the processor does not support it.
    pub fn run(self, run: impl WithSimd<Output = ()>) -> bool {
        match self {
            Self::Dispatched => Arch::new().dispatch(run),
            Self::One => Simd::vectorize(Scalar, run),
            #[cfg(target_arch = "x86_64")]
            Self::Eight => match pulp::x86::V3::try_new() {
                Some(narrow) => Simd::vectorize(narrow, run),
                None => return false,
            },
            #[cfg(not(target_arch = "x86_64"))]
            Self::Eight => return false,
        }
        true
    }
}

/// Values in (−1, 1).
pub fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut random = damper_testing::Random(seed);
    (0..count).map(|_| random.signed()).collect()
}

/// Checks each entry within the rounding error of `terms` products of values below 1.
pub fn check(what: &str, got: &[f32], want: &[f64], terms: usize) {
    assert_eq!(got.len(), want.len());
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let most = 4.0 * (terms as f64).sqrt() * 9.0 * f64::from(f32::EPSILON);
        assert!((f64::from(*got) - want).abs() <= most, "{what}, entry {at}: {got}, not {want}");
    }
}
