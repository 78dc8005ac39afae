//! Sums over held-out rows, released with noise: evaluation of a model on rows that are private too.
//!
//! Each row adds `N` numbers from −1 to 1, such as the accuracy and the loss divided by a public bound. The sums are
//! integers, with [`UNIT`] for 1. A release adds the noise of counts to each sum. It is charged to a ledger of its own,
//! and the charge is persisted first.
//!
//! # Numerics
//!
//! A number is rounded to the nearest multiple of `1/UNIT`, ties away from zero, and clamped in integers. NaN counts
//! as 1. The noise is a discrete Gaussian with an integer σ on that grid. It is drawn in the order of the sums at the
//! address (held-out noise, release, chunk 0). Sums wrap, far above any number of rows.
//!
//! # Privacy
//!
//! Adding, removing or replacing one row by a null row changes each sum by at most 1. With `N` sums and multiplier z,
//! the joint multiplier is `z/√N`. Rows are not sampled, so the sampling rate is 1.

use crate::accounting::{Ledger, Store};
use crate::count::{CountNoise, UNIT};
use crate::error::OpenError;
use crate::noise::{Address, Generator, Purpose};

/// Largest contribution of a row, in grid units.
const BOUND: i32 = UNIT as i32;

/// Sums over held-out rows. They have no accessor: [`HeldOutSums::release`] adds noise.
///
/// ```
/// use damper_core::count::{CountNoise, held_out::HeldOutSums};
/// use damper_core::prelude::*;
///
/// // Correct or not, and a loss from 0 to 1, of each held-out row.
/// let mut sums = HeldOutSums::<2>::default();
/// for _ in 0..1000 {
///     sums.add([1.0, 0.25]);
/// }
/// let [correct, loss] = sums.release(CountNoise::new(5.0)?, &mut Ledger::volatile(1), &NoiseRng::simulation(1))?;
/// assert!((correct - 1000.0).abs() < 50.0 && (loss - 250.0).abs() < 50.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HeldOutSums<const N: usize> {
    sums: [i64; N],
}

impl<const N: usize> Default for HeldOutSums<N> {
    fn default() -> Self {
        Self { sums: [0; N] }
    }
}

impl<const N: usize> HeldOutSums<N> {
    /// Adds one row. Do not add null rows.
    pub fn add(&mut self, row: [f32; N]) {
        for (sum, number) in self.sums.iter_mut().zip(row) {
            *sum = sum.wrapping_add(i64::from(units(number)));
        }
    }

    /// Charges this release to `ledger`, persists the charge, and returns the sums with noise.
    ///
    /// # Errors
    ///
    /// Fails if the ledger's budget of releases is spent, or the charge could not be persisted. Nothing is released.
    pub fn release<G: Generator, S: Store>(
        self,
        noise: CountNoise,
        ledger: &mut Ledger<S>,
        generator: &G,
    ) -> Result<[f64; N], OpenError<S::Error>> {
        let release = ledger.charge()?;
        let mut words = generator.stream(Address { purpose: Purpose::HeldOutNoise, step: release, chunk: 0 });
        Ok(self.sums.map(|sum| noise.noisy(sum, &mut words)))
    }
}

/// Returns `x` in grid units, from −[`BOUND`] to [`BOUND`].
fn units(x: f32) -> i32 {
    let scaled = x * UNIT as f32;
    // The casts saturate.
    let rounded = if scaled < 0.0 {
        (scaled - 0.5) as i32
    } else if scaled >= 0.0 {
        (scaled + 0.5) as i32
    } else {
        BOUND
    };
    rounded.clamp(-BOUND, BOUND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::{Record, Volatile};
    use crate::noise::ChaCha20;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn row_moves_each_sum_by_one_at_most(row in prop::array::uniform2(prop::num::f32::ANY)) {
            let mut sums = HeldOutSums::<2>::default();
            sums.add(row);
            prop_assert!(sums.sums.iter().all(|sum| sum.unsigned_abs() <= u64::from(UNIT)));
        }

        #[test]
        fn numbers_are_rounded_to_the_nearest(x in -1f32..1.0) {
            prop_assert!((f64::from(units(x)) / f64::from(UNIT) - f64::from(x)).abs() <= 0.5 / f64::from(UNIT));
        }
    }

    #[test]
    fn extreme_numbers_count_as_the_bound() {
        let numbers = [1.0, 7.0, f32::INFINITY, f32::NAN, -1.0, f32::NEG_INFINITY, 0.0];
        assert_eq!(numbers.map(units), [BOUND, BOUND, BOUND, BOUND, -BOUND, -BOUND, 0]);
    }

    /// Releases the sums of `rows` equal rows, with noise of four rows.
    fn released(rows: u32, ledger: &mut Ledger<Volatile>) -> Result<[f64; 2], OpenError<core::convert::Infallible>> {
        let mut sums = HeldOutSums::<2>::default();
        (0..rows).for_each(|_| sums.add([1.0, 0.25]));
        sums.release(CountNoise::new(4.0).unwrap(), ledger, &ChaCha20::<4>::simulation(3))
    }

    // Each release has fresh noise, and the budget ends the releases.
    #[test]
    fn release_noise_is_fresh_until_budget() {
        let mut ledger = Ledger::volatile(2);
        let first = released(100, &mut ledger).unwrap();
        let second = released(100, &mut ledger).unwrap();
        assert_eq!(released(100, &mut ledger), Err(OpenError::BudgetSpent));
        let noise = [first[0] - 100.0, first[1] - 25.0, second[0] - 100.0, second[1] - 25.0];
        assert!(noise.iter().all(|noise| *noise != 0.0 && noise.abs() < 32.0), "{noise:?}");
        for (at, one) in noise.iter().enumerate() {
            assert!(noise.iter().skip(at + 1).all(|other| one != other), "{noise:?}");
        }
        // The same release has the same noise with other rows.
        let other = released(50, &mut Ledger::volatile(1)).unwrap();
        assert_eq!((other[0] - 50.0, other[1] - 12.5), (noise[0], noise[1]));
    }

    /// Over 40,000 draws, the standard deviation is within four standard errors.
    #[test]
    fn noise_has_the_priced_deviation() {
        let mut ledger = Ledger::volatile(20_000);
        let mut squares = 0.0;
        for _ in 0..20_000 {
            let [a, b] = released(0, &mut ledger).unwrap();
            squares += a * a + b * b;
        }
        let ratio = squares / 40_000.0 / 16.0;
        assert!((ratio - 1.0).abs() < 4.0 * (2.0f64 / 40_000.0).sqrt(), "{ratio}");
    }

    /// A store with a second write that fails.
    struct FailsOnce {
        writes: u32,
        paid: u32,
    }

    impl Store for FailsOnce {
        type Error = ();

        fn persist(&mut self, record: Record) -> Result<(), ()> {
            self.writes += 1;
            if self.writes == 2 {
                return Err(());
            }
            self.paid = record.paid;
            Ok(())
        }
    }

    #[test]
    fn persists_charge_before_release() {
        let mut ledger = Ledger::resume(FailsOnce { writes: 0, paid: 0 }, 3, 0);
        let noise = CountNoise::new(1.0).unwrap();
        let generator = ChaCha20::<4>::simulation(3);
        let mut release = || HeldOutSums::<1>::default().release(noise, &mut ledger, &generator);
        assert!(release().is_ok());
        assert_eq!(release(), Err(OpenError::Store(())));
        assert!(release().is_ok());
        assert_eq!(release(), Err(OpenError::BudgetSpent));
        assert_eq!(ledger.store().paid, 3);
    }
}
