//! Noise across all courses: no block may repeat, and no two may correlate.

use super::chance::Products;
use super::tests_of::Tests;
use std::collections::HashSet;

/// Number of noise coordinates that are compared with other steps and runs.
const KEPT: usize = 1 << 16;
/// Number of steps for which these coordinates are stored.
const KEPT_STEPS: usize = 8;
/// Length of a noise block, in coordinates. No two blocks may be equal.
const BLOCK: usize = 6;
/// Cells per standard deviation for a block's values. Two blocks agree by chance with probability 10⁻²⁴.
const CELLS: f64 = 4096.0;

/// State across courses: noise that no other course may repeat.
#[derive(Default)]
pub(super) struct Across {
    blocks: HashSet<[u16; BLOCK]>,
    /// Noise of the first steps of each course.
    kept: Vec<(String, Vec<f32>)>,
    repeated: Option<String>,
    compared: u64,
}

impl Across {
    /// Adds the tests across all courses.
    pub(super) fn conclude(self, tests: &mut Tests) {
        tests.law(
            "all courses: blocks of noise are distinct, over steps, chunks, purposes and restarts",
            self.compared,
            self.repeated,
        );
        for (at, (one, a)) in self.kept.iter().enumerate() {
            for (other, b) in &self.kept[at + 1..] {
                let mut products = Products::default();
                a.iter().zip(b).for_each(|(a, b)| products.add(f64::from(*a), f64::from(*b)));
                tests.test(
                    "all courses: noise of different steps and runs is uncorrelated",
                    products.count,
                    products.p(),
                    || format!("{one} and {other}: correlation {:.5}", products.correlation()),
                );
            }
        }
    }

    /// Records the noise of a step: its blocks, and the coordinates that are compared with other steps.
    pub(super) fn step(&mut self, step_loop: &str, number: u32, noise: &[f64]) {
        for (at, block) in noise.chunks(8).enumerate() {
            self.block(block, || {
                format!("{step_loop}, step {number}, from coordinate {}: noise that was there before", 8 * at)
            });
        }
        if noise.len() >= 1024 && self.kept.iter().filter(|(name, _)| name.starts_with(step_loop)).count() < KEPT_STEPS
        {
            let kept = noise.iter().take(KEPT).map(|z| *z as f32).collect();
            self.kept.push((format!("{step_loop}, step {number}"), kept));
        }
    }

    fn block(&mut self, noise: &[f64], where_: impl FnOnce() -> String) {
        if noise.len() < BLOCK {
            return;
        }
        self.compared += 1;
        // Cells far out wrap.
        let key = std::array::from_fn(|at| (noise[at] * CELLS).floor() as i64 as u16);
        if !self.blocks.insert(key) {
            self.repeated.get_or_insert_with(where_);
        }
    }
}
