//! Privacy losses on a grid: multiples of h, a power of two, so that every multiple and every distance to a multiple is
//! exact.
//!
//! An upper bound splits a point's mass onto the multiples next to its loss, so that the masses of both distributions
//! are preserved ("connect the dots"). The mean of `e^{−L}` is unchanged, and the excess is of second order in h. A
//! lower bound merges points, in ascending order and the last point in part, until the mean loss `ln(mass/mass')` is a
//! multiple of h. Merging, and splitting a point at random, are post-processings.
//!
//! Masses are **tilted**: multiplied by `e^{λL − K}`, `K = ln E[e^{λL}]`. A composition of tilted distributions is the
//! tilted composition. Near the loss that matters it then has its bulk, instead of a tail of 1e-10. So the rounding
//! error of a Fourier transform is small relative to δ, for any δ.

use super::draw::{Atom, Losses};
use libm::{exp, expm1, log, log1p};

/// Smaller exponents are raised to this in an upper bound, which avoids subnormal numbers.
const LEAST: f64 = -600.0;
/// A few units in the last place, for a term with few roundings.
const FEW: f64 = 16.0 * f64::EPSILON;

impl Losses {
    /// `K(λ)`, and mean and variance of the tilted loss.
    pub fn tilted(&self, tilt: f64) -> Moments {
        let exponent = |atom: &Atom| atom.ln_mass + tilt * atom.loss;
        let most = self.atoms.iter().map(exponent).fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for atom in &self.atoms {
            let mass = exp(exponent(atom) - most);
            sum += mass;
            first += mass * atom.loss;
            second += mass * atom.loss * atom.loss;
        }
        let mean = first / sum;
        Moments { ln_moment: most + log(sum), mean, variance: (second / sum - mean * mean).max(0.0) }
    }

    /// Every eighth point, for the choice of a tilt.
    pub fn thinned(&self) -> Self {
        const EVERY: usize = 8;
        let thin = self.atoms.iter().step_by(EVERY);
        let heavier = |atom: &Atom| Atom { ln_mass: atom.ln_mass + log(EVERY as f64), ..*atom };
        Self { atoms: thin.map(heavier).collect(), ..*self }
    }

    /// The loss at the median of the mass.
    fn median(&self) -> f64 {
        let total: f64 = self.atoms.iter().map(|atom| exp(atom.ln_mass)).sum();
        let mut sum = 0.0;
        let found = self.atoms.iter().find(|atom| {
            sum += exp(atom.ln_mass);
            2.0 * sum >= total
        });
        found.map_or(0.0, |atom| atom.loss)
    }

    /// The approximate increase of `K(λ)` if [`spread`] moves the losses to multiples of `step`.
    pub fn excess(&self, tilt: f64, ln_moment: f64, step: f64) -> f64 {
        let share = |atom: &Atom| {
            let above = atom.loss - (atom.loss / step).floor() * step;
            exp(atom.ln_mass + tilt * atom.loss - ln_moment) * above * (step - above)
        };
        tilt * (tilt + 1.0) / 2.0 * self.atoms.iter().map(share).sum::<f64>()
    }
}

/// Moments of a tilted loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moments {
    /// `K(λ)`.
    pub ln_moment: f64,
    /// `K'(λ)`.
    pub mean: f64,
    /// `K''(λ)`.
    pub variance: f64,
}

/// A tilted distribution on a grid modulo its length. Entry i is the mass at `offset` plus the multiples `i + n·len`.
#[derive(Clone, Debug)]
pub(super) struct Folded {
    pub mass: Vec<f64>,
    /// Offset of every multiple.
    pub offset: f64,
    /// `ln E[e^{λL}]` of the distribution on the grid. `mass` is divided by `E[e^{λL}]`.
    pub ln_moment: f64,
    /// The root of the sum of squares.
    pub norm: f64,
}

impl Folded {
    fn empty(len: usize) -> Self {
        Self { mass: vec![0.0; len], offset: 0.0, ln_moment: 0.0, norm: 0.0 }
    }

    fn add(&mut self, multiple: f64, mass: f64) {
        let at = (multiple as i64).rem_euclid(self.mass.len() as i64) as usize;
        self.mass[at] += mass;
    }

    /// Divides by the sum. `ln_moment` is the logarithm of the previous divisor. `margin` covers rounding errors of the
    /// sum.
    fn normalized(mut self, ln_moment: f64, margin: f64) -> Self {
        let sum: f64 = self.mass.iter().sum::<f64>() * (1.0 + margin);
        self.mass.iter_mut().for_each(|mass| *mass /= sum);
        self.norm = libm::sqrt(self.mass.iter().map(|mass| mass * mass).sum());
        self.ln_moment = ln_moment + log(sum);
        self
    }
}

/// The losses on multiples of `step`, as an upper bound.
pub(super) fn spread(losses: &Losses, tilt: f64, step: f64, len: usize) -> Folded {
    let ln_moment = losses.tilted(tilt).ln_moment;
    let mut folded = Folded::empty(len);
    let (up, whole, rest) = (exp(tilt * step), expm1(-step), expm1(step));
    for atom in &losses.atoms {
        let below = (atom.loss / step).floor();
        let above = atom.loss - below * step;
        let exponent = (atom.ln_mass + tilt * atom.loss - ln_moment).max(LEAST);
        let mass = exp(exponent - tilt * above) * (1.0 + FEW * (8.0 + exponent.abs() + tilt * step));
        folded.add(below, mass * (expm1(step - above) / rest));
        folded.add(below + 1.0, mass * up * (expm1(-above) / whole));
    }
    folded.normalized(ln_moment, 1e-12)
}

/// The losses moved down to multiples of `step`, as a lower bound. It is near if there are few points or few events.
pub(super) fn floor(losses: &Losses, tilt: f64, step: f64, len: usize) -> Folded {
    let ln_moment = losses.tilted(tilt).ln_moment;
    let mut folded = Folded::empty(len);
    for atom in &losses.atoms {
        let below = (atom.loss / step).floor();
        let exponent = atom.ln_mass + tilt * (below * step) - ln_moment;
        if exponent > LEAST {
            folded.add(below, exp(exponent) * (1.0 - FEW * (8.0 + exponent.abs())));
        }
    }
    folded.normalized(ln_moment, 1e-12)
}

/// Relative allowance for the rounding errors of merging thousands of points.
const GATHERED: f64 = 4e-12;
/// Relative precision of the bulk's loss, in steps, and the largest number of rounds to find it.
const NEAR: f64 = 1e-9;
const ROUNDS: usize = 24;

/// Merges the losses into multiples of `step` above and below the loss of their bulk, as a lower bound.
///
/// At a small rate, most of the mass of a draw has a loss of about −q. Moving it to a multiple of a far larger step
/// would consume the points that matter. So the multiples are counted from the mean loss of the bulk, which is the rest
/// after the other points are gathered from the ends inward. A point in the tail then takes little of the mass next to
/// it. The rest depends on the positions of the multiples, so a few rounds are needed.
pub(super) fn merge(losses: &Losses, tilt: f64, step: f64, len: usize) -> Folded {
    let ln_moment = losses.tilted(tilt).ln_moment;
    let mut offset = losses.median();
    for _ in 0..ROUNDS {
        let bulk = gathered(&losses.atoms, offset, step, &mut |_, _, _| {});
        let moved = bulk.above;
        offset += moved;
        if moved.abs() < NEAR * step {
            break;
        }
    }
    // The bulk's loss may fall, but must not rise.
    let mut margin = NEAR * step + FEW * offset.abs();
    while gathered(&losses.atoms, offset - margin, step, &mut |_, _, _| {}).above <= FEW * offset.abs() && margin < step
    {
        margin *= 4.0;
    }
    offset -= margin;

    let mut folded = Folded { offset, ..Folded::empty(len) };
    let mut put = |multiple: f64, ln_mass: f64, mass: f64| {
        if mass > 0.0 {
            let exponent = ln_mass + log(mass) + tilt * (offset + multiple * step) - ln_moment;
            if exponent > LEAST {
                folded.add(multiple, exp(exponent) * (1.0 - FEW * (8.0 + exponent.abs())));
            }
        }
    };
    let bulk = gathered(&losses.atoms, offset, step, &mut put);
    let multiple = ((bulk.above - FEW * offset.abs()) / step).floor().min(0.0);
    put(multiple, 0.0, bulk.mass * exp(multiple * step - bulk.above) * (1.0 - GATHERED));
    folded.normalized(ln_moment, 1e-12)
}

/// The rest between the points that are gathered from both ends.
struct Bulk {
    mass: f64,
    /// The cell's mean loss, less the offset.
    above: f64,
}

fn gathered(atoms: &[Atom], offset: f64, step: f64, put: &mut impl FnMut(f64, f64, f64)) -> Bulk {
    let (taken, share) = gather(atoms.iter().rev().copied(), -1.0, offset, step, put);
    let mut rest: Vec<Atom> = atoms[..atoms.len() - taken].to_vec();
    if let Some(last) = rest.last_mut() {
        last.ln_mass += log(share);
    }
    let (taken, share) = gather(rest.iter().copied(), 1.0, offset, step, put);
    let mut rest = rest[taken..].to_vec();
    if let Some(first) = rest.first_mut() {
        first.ln_mass += log(share);
    }
    let (mut mass, mut excess) = (0.0, 0.0);
    for atom in &rest {
        let unit = exp(atom.ln_mass);
        mass += unit;
        excess -= unit * expm1(offset - atom.loss);
    }
    Bulk { mass, above: if mass > 0.0 { -log1p(-excess / mass) } else { 0.0 } }
}

/// Merges points in order into multiples, until the next multiple is less than a step from the offset. `sign` is 1 if
/// losses ascend, −1 if they descend. Returns the number of used points, and the remaining share of the next point.
fn gather(
    atoms: impl Iterator<Item = Atom>,
    sign: f64,
    offset: f64,
    step: f64,
    put: &mut impl FnMut(f64, f64, f64),
) -> (usize, f64) {
    let mut group: Option<Group> = None;
    let mut taken = 0;
    for atom in atoms {
        let loss = atom.loss - offset;
        let mut left = 1.0;
        if let Some(open) = group.as_mut() {
            let unit = open.unit(atom.ln_mass);
            let gain = -sign * unit * expm1(open.multiple * step - loss);
            if gain < open.need || gain <= 0.0 {
                open.mass += unit;
                open.need -= gain;
                taken += 1;
                continue;
            }
            let share = open.need / gain;
            put(open.multiple, open.scale, (open.mass + share * unit) * (1.0 - GATHERED));
            left -= share;
            group = None;
        }
        if left > FEW {
            if sign * loss > -step {
                return (taken, left);
            }
            let multiple = sign * (sign * loss / step).ceil();
            let need = sign * left * expm1(multiple * step - loss);
            group = Some(Group { multiple, scale: atom.ln_mass, mass: left, need });
        }
        taken += 1;
    }
    if let Some(open) = group {
        // The rest misses its target loss: the second distribution's mass is preserved, and the first distribution's
        // mass is reduced.
        let second = open.mass + sign * open.need;
        let short = ((log(open.mass / second) - GATHERED) / step).floor().min(0.0);
        put(open.multiple + short, open.scale, second * exp(short * step) * (1.0 - GATHERED));
    }
    (taken, 1.0)
}

/// Points being merged, with masses in units of `e^scale`.
struct Group {
    /// The target loss, as a multiple of the step.
    multiple: f64,
    scale: f64,
    /// Mass under the first distribution.
    mass: f64,
    /// The difference of `mass` from `e^loss` times the mass under the second distribution, in the direction of the
    /// next points.
    need: f64,
}

impl Group {
    /// `e^ln_mass` in the group's units. Raises the units to it if it is larger.
    fn unit(&mut self, ln_mass: f64) -> f64 {
        if ln_mass > self.scale {
            let factor = exp(self.scale - ln_mass);
            (self.mass, self.need, self.scale) = (self.mass * factor, self.need * factor, ln_mass);
        }
        exp(ln_mass - self.scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(points: &[(f64, f64)]) -> Losses {
        let atoms = points.iter().map(|(mass, loss)| Atom { ln_mass: log(*mass), loss: *loss }).collect();
        Losses { atoms, beyond: 0.0, second: 0.0 }
    }

    fn near(found: f64, exact: f64) {
        assert!((found - exact).abs() <= 1e-13 * exact.abs().max(1.0), "{found:e}, not {exact:e}");
    }

    /// Masses 1/4 and 3/4 at losses of -1/2 and 1/4, tilted by 2: weights e^-1 / 4 and 3 e^(1/2) / 4.
    #[test]
    fn moments_of_two_atoms() {
        let found = losses(&[(0.25, -0.5), (0.75, 0.25)]).tilted(2.0);
        let (a, b) = ((-1.0f64).exp() / 4.0, 3.0 * 0.5f64.exp() / 4.0);
        near(found.ln_moment, (a + b).ln());
        let mean = (-0.5 * a + 0.25 * b) / (a + b);
        near(found.mean, mean);
        near(found.variance, (0.25 * a + 0.0625 * b) / (a + b) - mean * mean);
    }

    /// A loss between two multiples is split, so that the mean of e^-L is unchanged. For a small step this raises K by
    /// λ(λ + 1)/2 · Σ w·above·(step - above), with w the tilted weights.
    #[test]
    fn excess_is_what_splitting_adds() {
        let (tilt, step) = (3.0, 1.0 / 1024.0);
        for at in [-2.7f64, -0.31, 0.4, 5.25] {
            let all = losses(&[(0.5, at * step), (0.5, (at + 7.0) * step)]);
            let split: Vec<(f64, f64)> = [at, at + 7.0]
                .into_iter()
                .flat_map(|place| {
                    let (low, high) = (place.floor() * step, (place.floor() + 1.0) * step);
                    let up = ((-low).exp() - (-place * step).exp()) / ((-low).exp() - (-high).exp());
                    [(0.5 * (1.0 - up), low), (0.5 * up, high)]
                })
                .filter(|(mass, _)| *mass > 0.0)
                .collect();
            let before = all.tilted(tilt).ln_moment;
            let added = losses(&split).tilted(tilt).ln_moment - before;
            let found = all.excess(tilt, before, step);
            assert!((found - added).abs() <= 0.01 * added, "{found:e}, not {added:e}");
        }
    }

    #[test]
    fn median_is_where_half_is_reached() {
        near(losses(&[(0.25, -1.0), (0.25, 2.0), (0.5, 3.0)]).median(), 2.0);
        near(losses(&[(0.2, -1.0), (0.25, 2.0), (0.5, 3.0)]).median(), 3.0);
        near(losses(&[(0.01, -1.0), (0.001, 2.0)]).median(), -1.0);
    }

    #[test]
    fn thinning_keeps_mass_and_mean() {
        let points: Vec<(f64, f64)> = (0..800).map(|i| (1.0 / 800.0, f64::from(i) / 800.0)).collect();
        let thin = losses(&points).thinned();
        assert_eq!(thin.atoms.len(), 100);
        let found = thin.tilted(0.0);
        near(found.ln_moment, 0.0);
        assert!((found.mean - 0.5).abs() < 0.01, "{}", found.mean);
    }

    /// The atoms of a grid without wrapped mass.
    fn unfolded(folded: &Folded, tilt: f64, step: f64) -> Losses {
        let len = folded.mass.len() as i64;
        let atom = |(at, mass): (usize, &f64)| {
            let multiple = if at as i64 >= len / 2 { at as i64 - len } else { at as i64 };
            let loss = folded.offset + multiple as f64 * step;
            Atom { ln_mass: log(*mass) + folded.ln_moment - tilt * loss, loss }
        };
        let atoms = folded.mass.iter().enumerate().filter(|(_, mass)| **mass > 1e-280).map(atom);
        Losses { atoms: atoms.collect(), beyond: 0.0, second: 0.0 }
    }

    /// Losses of a unit Gaussian shifted by 1, in cells. The masses of both distributions are close to 1.
    fn gaussian() -> Losses {
        let points: Vec<(f64, f64)> = (-600..=600)
            .map(|i| {
                let x = f64::from(i) / 100.0;
                ((-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() / 100.0, x + 0.5)
            })
            .collect();
        losses(&points)
    }

    // Spreading keeps the mass of both distributions, and overestimates the divergence.
    #[test]
    fn spread_keeps_masses_and_overestimates() {
        let all = gaussian();
        for (tilt, step) in [(0.0, 1.0 / 8.0), (1.5, 1.0 / 8.0), (4.0, 1.0 / 64.0)] {
            let folded = spread(&all, tilt, step, 2048);
            let norm = folded.mass.iter().map(|mass| mass * mass).sum::<f64>();
            near(folded.norm * folded.norm, norm);
            let found = unfolded(&folded, tilt, step);
            let ((first, second), (kept, kept_second)) = (all.masses(), found.masses());
            assert!((kept - first).abs() < 1e-9 && (kept_second - second).abs() < 1e-9, "{kept} {kept_second}");
            for epsilon in [0.0, 0.33, 1.7, 3.0] {
                let (above, exact) = (found.delta(epsilon), all.delta(epsilon));
                assert!(
                    above >= exact && above <= exact * (1.0 + 8.0 * step),
                    "{tilt} {step} {epsilon}: {above:e} {exact:e}"
                );
            }
        }
    }

    /// A single point, on a multiple or between two. The tilt is so large that the allowance for rounding is visible.
    #[test]
    fn spreading_allows_for_its_roundings() {
        let unit = 16.0 * f64::EPSILON;
        for (tilt, at) in [(512.0, 3.0), (256.0, -5.0), (1.0, 2.0)] {
            let all = losses(&[(1.0, at)]);
            let raised = spread(&all, tilt, 1.0, 16).ln_moment - all.tilted(tilt).ln_moment;
            // The subtracted term has a rounding error too.
            let exact = unit * (8.0 + tilt) + 1e-12;
            assert!(
                (raised - exact).abs() < 2.0 * f64::EPSILON * tilt * at.abs(),
                "{tilt} {at}: {raised:e}, not {exact:e}"
            );
        }
        // A tiny mass is raised to a normal number.
        let folded = spread(&losses(&[(1.0, 0.0), (1e-300, 3.0)]), -50.0, 1.0, 16);
        assert!(
            folded.mass[3] > 0.9 * (-600f64).exp() && folded.mass[3] < 1.1 * (-600f64).exp(),
            "{:e}",
            folded.mass[3]
        );
    }

    /// The multiples are counted from slightly below the bulk's loss.
    #[test]
    fn merging_counts_from_the_bulk() {
        let rare: Vec<(f64, f64)> = (-400..=400)
            .map(|i| f64::from(i) / 50.0)
            .map(|x| ((-x * x / 2.0).exp() / 125.4, 0.01 * ((x - 0.5).exp() - 1.0)))
            .collect();
        for (all, step) in
            [(gaussian(), 0.125), (gaussian(), 1.0 / 1024.0), (losses(&rare), 0.25), (losses(&rare), 0.01)]
        {
            let folded = merge(&all, 1.0, step, 4096);
            let bulk = gathered(&all.atoms, folded.offset, step, &mut |_, _, _| {});
            assert!(bulk.above > FEW * folded.offset.abs() && bulk.above < 1e-6 * step, "{step}: {:e}", bulk.above);
        }
    }

    /// Points with the mean loss of one multiple, and remaining points that miss their multiple.
    #[test]
    fn gathering_keeps_mass_and_mean() {
        let all = losses(&[(0.2, 0.9), (0.1, 1.3), (0.05, 1.9), (0.3, 2.2), (0.1, 2.9), (0.03, 3.2)]);
        let descending: Vec<Atom> = all.atoms.iter().rev().copied().collect();
        let mut found = Vec::new();
        let (taken, left) = gather(descending.iter().copied(), -1.0, 0.25, 0.5, &mut |multiple, scale, mass| {
            found.push((multiple, mass * exp(scale)));
        });
        assert_eq!(taken + usize::from(left < 1.0), 6);
        let first: f64 = found.iter().map(|(_, mass)| mass).sum();
        let second: f64 = found.iter().map(|(multiple, mass)| mass * exp(-0.25 - 0.5 * multiple)).sum();
        let (mass, other) = all.masses();
        assert!(first <= mass && first > 0.8 * mass, "{first} {mass}");
        assert!(second <= other && second > 0.999 * other, "{second} {other}");
    }

    /// Ascending losses, with the last points below their target multiple: they go to a multiple below.
    #[test]
    fn points_left_over_err_below() {
        let all = [(0.2, -2.9), (0.1, -2.3), (0.05, -1.9), (0.3, -1.42), (0.1, -0.9), (0.03, -0.8)];
        for count in 1..=all.len() {
            let some = losses(&all[..count]);
            let mut found = Vec::new();
            let (taken, _) = gather(some.atoms.iter().copied(), 1.0, 0.25, 0.5, &mut |multiple, scale, mass| {
                found.push((mass * exp(scale), 0.25 + 0.5 * multiple));
            });
            let ((first, second), (mass, other)) = (losses(&found).masses(), some.masses());
            assert_eq!(taken, count);
            assert!(first <= mass && first > 0.6 * mass, "{count}: {first} {mass}");
            assert!(second <= other && second > (1.0 - 1e-9) * other, "{count}: {second} {other}");
            for epsilon in [-3.5, -2.6, -1.6, -1.0, 0.0] {
                let (below, exact) = (losses(&found).delta(epsilon), some.delta(epsilon));
                assert!(below <= exact, "{count} {epsilon}: {below:e} {exact:e}");
            }
        }
    }

    #[test]
    fn merging_errs_below() {
        let all = gaussian();
        for (tilt, step) in [(0.0, 1.0 / 8.0), (1.5, 1.0 / 8.0), (4.0, 1.0 / 64.0)] {
            let found = unfolded(&merge(&all, tilt, step, 2048), tilt, step);
            let ((first, second), (kept, kept_second)) = (all.masses(), found.masses());
            assert!(kept <= first && kept > 0.999 * first && kept_second <= second + 1e-9, "{kept} {kept_second}");
            for epsilon in [0.0, 0.33, 1.7, 3.0] {
                let (below, exact) = (found.delta(epsilon), all.delta(epsilon));
                assert!(
                    below <= exact && below >= exact * (1.0 - 8.0 * step),
                    "{tilt} {step} {epsilon}: {below:e} {exact:e}"
                );
            }
        }
    }
}
