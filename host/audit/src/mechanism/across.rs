//! Noise over all courses: no block may repeat, and no two may correlate.

use super::chance::Products;
use super::tests_of::Tests;
use std::collections::HashSet;

/// Coordinates of noise that are compared with those of other steps and runs.
const KEPT: usize = 1 << 16;
/// Steps of which so many coordinates are kept.
const KEPT_STEPS: usize = 8;
/// Coordinates of a block that no two may share.
const BLOCK: usize = 6;
/// Cells of a block's numbers in one deviation: two blocks agree by chance once in 10²⁴.
const CELLS: f64 = 4096.0;

/// State kept across courses: noise that no other course may repeat.
#[derive(Default)]
pub(super) struct Across {
    blocks: HashSet<[u16; BLOCK]>,
    /// Of each course, the noise of the first steps.
    kept: Vec<(String, Vec<f32>)>,
    repeated: Option<String>,
    compared: u64,
}

impl Across {
    /// The tests of all courses together.
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

    /// Notes the noise of a step: its blocks, and what is compared with other steps.
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
        // Far out cells wrap.
        let key = std::array::from_fn(|at| (noise[at] * CELLS).floor() as i64 as u16);
        if !self.blocks.insert(key) {
            self.repeated.get_or_insert_with(where_);
        }
    }
}
