//! Canaries, and the Bernoulli trials that insert them into the data.

use damper_core::noise::{Address, Generator, Purpose};
use damper_train::inside::generator::RunGenerator;
use rand_core::Rng;
use serde::Serialize;

/// Kind of canaries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Canaries {
    /// Gradients of one coordinate each.
    Dirac,
    /// Gradients of random signs.
    Random,
}

/// Purposes of an audit's random streams, by their step.
const COINS: u32 = 0;
const COORDINATES: u32 = 1;
const SIGNS: u32 = 2;
/// Number of trials that share an address.
const CHUNK: u32 = 1024;

fn words(generator: &RunGenerator, step: u32, chunk: u32) -> impl Rng {
    generator.stream(Address { purpose: Purpose::Audit, step, chunk })
}

/// Returns a fair Bernoulli trial for each canary: true if it is in the data.
pub(super) fn coins(generator: &RunGenerator, count: u32) -> Vec<bool> {
    let mut coins = Vec::with_capacity(count as usize);
    for chunk in 0..count.div_ceil(CHUNK) {
        let mut words = words(generator, COINS, chunk);
        coins.extend((0..CHUNK.min(count - chunk * CHUNK)).map(|_| words.next_u32() >> 31 == 1));
    }
    coins
}

/// Returns a uniform number below `bound`.
fn below(words: &mut impl Rng, bound: u64) -> u64 {
    let most = u64::MAX - u64::MAX % bound;
    loop {
        let word = words.next_u64();
        if word < most {
            return word % bound;
        }
    }
}

/// Returns `count` different numbers below `of`.
fn different(words: &mut impl Rng, count: usize, of: usize) -> Vec<u32> {
    let mut all: Vec<u32> = (0..of as u32).collect();
    for at in 0..count {
        let other = at + below(words, (of - at) as u64) as usize;
        all.swap(at, other);
    }
    all.truncate(count);
    all
}

/// Gradient directions of the canaries.
pub(super) enum Directions {
    /// The coordinate of each canary.
    Dirac(Vec<u32>),
    /// The signs of each canary, 64 in a word.
    Random { signs: Vec<Vec<u64>>, dim: usize },
}

impl Directions {
    /// Draws the directions of `count` canaries.
    pub(super) fn new(canaries: Canaries, count: u32, dim: usize, generator: &RunGenerator) -> Self {
        match canaries {
            Canaries::Dirac => Self::Dirac(different(&mut words(generator, COORDINATES, 0), count as usize, dim)),
            Canaries::Random => {
                let one = |canary| {
                    let mut words = words(generator, SIGNS, canary);
                    (0..dim.div_ceil(64)).map(|_| words.next_u64()).collect()
                };
                Self::Random { signs: (0..count).map(one).collect(), dim }
            }
        }
    }

    /// Writes the gradient of `canary` with norm `norm` to `out` (`[D]`).
    pub(super) fn write(&self, canary: u32, norm: f32, out: &mut [f32]) {
        match self {
            Self::Dirac(coordinates) => {
                out.fill(0.0);
                out[coordinates[canary as usize] as usize] = norm;
            }
            Self::Random { signs, dim } => {
                let size = norm / (*dim as f32).sqrt();
                for (at, out) in out.iter_mut().enumerate() {
                    *out = if is_plus(&signs[canary as usize], at) { size } else { -size };
                }
            }
        }
    }

    /// Returns the released value along each canary's direction.
    pub(super) fn along(&self, released: &dyn Fn(usize) -> f64) -> Vec<f64> {
        match self {
            Self::Dirac(coordinates) => coordinates.iter().map(|coordinate| released(*coordinate as usize)).collect(),
            Self::Random { signs, dim } => {
                let released: Vec<f64> = (0..*dim).map(|at| released(at) / (*dim as f64).sqrt()).collect();
                let signed = |signs: &[u64], at: usize| if is_plus(signs, at) { released[at] } else { -released[at] };
                signs.iter().map(|signs| (0..*dim).map(|at| signed(signs, at)).sum()).collect()
            }
        }
    }

    /// Returns the mean square of one direction along another.
    pub(super) fn overlap(&self) -> f64 {
        match self {
            Self::Dirac(_) => 0.0,
            Self::Random { dim, .. } => 1.0 / *dim as f64,
        }
    }
}

fn is_plus(signs: &[u64], at: usize) -> bool {
    signs[at / 64] >> (at % 64) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coins_are_fair_and_coordinates_differ() {
        let generator = RunGenerator::simulation(5);
        let coins = coins(&generator, 20_000);
        let heads = coins.iter().filter(|coin| **coin).count() as f64;
        // Six standard deviations.
        assert!((heads - 10_000.0).abs() < 6.0 * 5000f64.sqrt(), "{heads}");
        let Directions::Dirac(mut coordinates) = Directions::new(Canaries::Dirac, 1000, 1000, &generator) else {
            panic!("not those")
        };
        coordinates.sort_unstable();
        assert!(coordinates.into_iter().eq(0..1000));
    }

    // A direction scores only itself, and has the given norm.
    #[test]
    fn direction_has_given_norm_and_own_score() {
        let generator = RunGenerator::simulation(6);
        for canaries in [Canaries::Dirac, Canaries::Random] {
            let directions = Directions::new(canaries, 20, 4096, &generator);
            let mut gradient = vec![0.0; 4096];
            for canary in 0..20u32 {
                directions.write(canary, 3.0, &mut gradient);
                let along = directions.along(&|at| f64::from(gradient[at]));
                for (other, score) in along.iter().enumerate() {
                    if other == canary as usize {
                        assert!((score - 3.0).abs() < 1e-5, "{score}");
                    } else {
                        // Random signs: six standard deviations of 3/64.
                        assert!(score.abs() < 0.29, "{score}");
                    }
                }
            }
        }
    }
}
