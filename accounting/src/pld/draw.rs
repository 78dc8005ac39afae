//! One Poisson draw and its Gaussian release as a pair of distributions: the output with one sample, and without it.
//!
//! Let `P = (1−q)N₀ + qN₁` and `Q = N₀`. The pair is `(P, Q)` if the sample is removed and `(Q, P)` if it is added.
//! Source: Zhu, Dong, Wang, "Optimal accounting of differential privacy via characteristic function", AISTATS 2022.
//! Neither direction is worse for every composition. The accountant computes both, and reports the larger ε.
//!
//! A **replaced** sample has its own pair: [`replace`](super::replace).

use super::bound::Bound;
use super::gaussian::{Cells, Nodes, Point};
use damper_core::accounting::event::Rate;
use libm::{exp, expm1, log, log1p};

/// The difference of the two data sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    /// The observed data contains the sample: (P, Q).
    Remove,
    /// The observed data does not contain the sample: (Q, P).
    Add,
}

/// A point of the privacy loss distribution: the logarithm of its mass under the first distribution, and the loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct Atom {
    pub ln_mass: f64,
    pub loss: f64,
}

/// A privacy loss distribution on arbitrary points.
#[derive(Clone, Debug)]
pub(super) struct Losses {
    pub atoms: Vec<Atom>,
    /// Mass whose loss is not in `atoms`. The loss is infinite in an upper bound.
    pub beyond: f64,
    /// The mass of this part under the second distribution. It is 0 in an upper bound.
    pub second: f64,
}

impl Losses {
    /// Returns the losses without those above `cut`. For an upper bound, a point above is split into one at `cut` and
    /// one at infinity, which preserves both masses and every divergence up to `e^cut`. For a lower bound its masses
    /// are only recorded separately.
    pub fn cut(&self, cut: f64, bound: Bound) -> Self {
        let at = self.atoms.partition_point(|atom| atom.loss <= cut);
        let (kept, above) = self.atoms.split_at(at);
        let mut found = Self { atoms: kept.to_vec(), ..*self };
        match bound {
            Bound::Upper => {
                let mut sum = 0.0;
                for atom in above {
                    let mass = exp(atom.ln_mass) * (1.0 + 1e-14);
                    sum += mass * exp(cut - atom.loss) * (1.0 + 1e-14);
                    found.beyond -= mass * expm1(cut - atom.loss) * (1.0 + 1e-14);
                }
                if sum > 0.0 {
                    found.atoms.push(Atom { ln_mass: log(sum * (1.0 + 1e-12)), loss: cut });
                }
                found.beyond *= 1.0 + 1e-12;
            }
            Bound::Lower => {
                found.beyond += above.iter().map(|atom| exp(atom.ln_mass)).sum::<f64>() * (1.0 - 1e-12);
                found.second += above.iter().map(|atom| exp(atom.ln_mass - atom.loss)).sum::<f64>() * (1.0 + 1e-12);
            }
        }
        found
    }
}

/// `ln(1 − q + q·r)`, and a bound on its error.
fn loss(rate: Rate, point: &Point) -> (f64, f64) {
    let (q, out, ln_ratio) = (rate.as_f64(), rate.complement().as_f64(), point.ln_ratio);
    // At a tiny rate, large terms cancel.
    let mut cancelled = 0.0;
    let value = if q == 1.0 {
        ln_ratio
    } else if ln_ratio > 30.0 {
        cancelled = 4.0 * f64::EPSILON * (ln_ratio - log(q));
        ln_ratio + log(q) + log1p(out / q * exp(-ln_ratio))
    } else if q > 0.5 && ln_ratio < -1.0 {
        log(out + q * exp(ln_ratio))
    } else {
        log1p(q * expm1(ln_ratio))
    };
    // The error of the ratio moves the loss by no more than that error, and by no larger relative share. Rounding
    // errors add to it.
    (value, (8.0 * f64::EPSILON + 2.0 * point.slack) * value.abs() + cancelled)
}

/// An upper bound of the draw's privacy loss distribution.
pub(super) fn upper_pld(nodes: &Nodes, rate: Rate, direction: Direction) -> Losses {
    let (q, out) = (rate.as_f64(), rate.complement().as_f64());
    let (near, far) = (nodes.near, nodes.far);
    let observed = |point: &Point| {
        let (loss, error) = loss(rate, point);
        Atom { ln_mass: point.ln_mass + loss + error + 2.0 * point.slack, loss: loss + error }
    };
    let unobserved = |point: &Point| {
        let (loss, error) = loss(rate, point);
        Atom { ln_mass: point.ln_mass + 2.0 * point.slack, loss: error - loss }
    };
    match direction {
        Direction::Remove => {
            let mut atoms: Vec<Atom> = nodes.points.iter().map(observed).collect();
            raise(atoms.first_mut(), out * near + q * far);
            Losses { atoms, beyond: out * far + q * near, second: 0.0 }
        }
        Direction::Add => {
            let mut atoms: Vec<Atom> = nodes.points.iter().rev().map(unobserved).collect();
            raise(atoms.first_mut(), far);
            Losses { atoms, beyond: near, second: 0.0 }
        }
    }
}

/// A lower bound of the draw's privacy loss distribution, in ascending order of the loss.
pub(super) fn lower_pld(cells: &Cells, rate: Rate, direction: Direction) -> Losses {
    let observed = |point: &Point| {
        let (loss, error) = loss(rate, point);
        Atom { ln_mass: point.ln_mass + loss - error - 2.0 * point.slack, loss: loss - error }
    };
    let unobserved = |point: &Point| {
        let (loss, error) = loss(rate, point);
        Atom { ln_mass: point.ln_mass - 2.0 * point.slack, loss: -loss - error }
    };
    let atoms = match direction {
        Direction::Remove => cells.iter().map(observed).collect(),
        Direction::Add => cells.iter().rev().map(unobserved).collect(),
    };
    Losses { atoms, beyond: 0.0, second: 0.0 }
}

/// Adds mass to an atom.
fn raise(atom: Option<&mut Atom>, mass: f64) {
    if let Some(atom) = atom {
        let ratio = exp(log(mass) - atom.ln_mass);
        atom.ln_mass += if ratio.is_finite() { log1p(ratio) } else { log(mass) - atom.ln_mass };
        atom.ln_mass += 1e-15;
    }
}

#[cfg(test)]
impl Losses {
    /// The hockey-stick divergence at `epsilon`.
    pub fn delta(&self, epsilon: f64) -> f64 {
        let atom = |atom: &Atom| exp(atom.ln_mass) * -expm1(epsilon - atom.loss).min(0.0);
        self.atoms.iter().map(atom).sum::<f64>() + self.beyond
    }

    /// The masses of the atoms under both distributions.
    pub fn masses(&self) -> (f64, f64) {
        let mass = |of: fn(&Atom) -> f64| self.atoms.iter().map(|atom| exp(of(atom))).sum();
        (mass(|atom| atom.ln_mass), mass(|atom| atom.ln_mass - atom.loss))
    }
}

#[cfg(test)]
mod tests {
    use super::super::gaussian::{cells, nodes, tail};
    use super::*;

    const SETTINGS: [(f64, f64); 4] = [(0.01, 0.7), (0.2, 1.0), (0.7, 2.0), (1.0, 4.0)];

    const ROUNDED: f64 = 1e-11;

    /// The hockey-stick divergence of the pair, from the point at which its likelihood ratio is `e^ε`. Its error is
    /// [`ROUNDED`], because tails are rounded up.
    fn exact(q: f64, sigma: f64, epsilon: f64, direction: Direction) -> f64 {
        let half = 0.5 / sigma;
        match direction {
            Direction::Remove => {
                let c = sigma * ((exp(epsilon) - (1.0 - q)) / q).ln();
                (1.0 - q - exp(epsilon)) * tail(c + half) + q * tail(c - half)
            }
            Direction::Add => {
                let ratio = (exp(-epsilon) - (1.0 - q)) / q;
                if ratio <= 0.0 {
                    return 0.0;
                }
                let c = sigma * ratio.ln();
                (1.0 - exp(epsilon) * (1.0 - q)) * tail(-c - half) - exp(epsilon) * q * tail(half - c)
            }
        }
    }

    #[test]
    fn bounds_enclose_the_exact_divergence() {
        for (q, sigma) in SETTINGS {
            let rate = Rate::at_least(q).unwrap();
            for direction in [Direction::Remove, Direction::Add] {
                let upper = upper_pld(&nodes(sigma, 1.0 / 128.0, 8.0), rate, direction);
                let lower = lower_pld(&cells(sigma, 1.0 / 128.0, 8.0), rate, direction);
                for epsilon in [0.0, 0.001, 0.05, 0.3, 1.0, 2.5] {
                    let exact = exact(rate.as_f64(), sigma, epsilon, direction).max(0.0);
                    let (high, low) = (upper.delta(epsilon), lower.delta(epsilon));
                    assert!(low <= exact + ROUNDED && exact <= high + ROUNDED, "{low:e} {exact:e} {high:e}");
                    assert!(
                        high - low <= 0.01 * exact + 1e-7,
                        "{q} {sigma} {direction:?} {epsilon}: {low:e}, {high:e}"
                    );
                }
            }
        }
    }

    #[test]
    fn both_masses_are_kept() {
        for (q, sigma) in SETTINGS {
            let rate = Rate::at_least(q).unwrap();
            for direction in [Direction::Remove, Direction::Add] {
                let upper = upper_pld(&nodes(sigma, 1.0 / 64.0, 7.0), rate, direction);
                let (first, second) = upper.masses();
                assert!((first + upper.beyond - 1.0).abs() < 1e-9, "{first}");
                assert!((second - 1.0).abs() < 1e-9, "{second}");
                assert!(upper.atoms.is_sorted_by(|a, b| a.loss <= b.loss));
            }
        }
    }

    /// Rates and ratios at which some form is inexact.
    #[test]
    fn loss_is_the_logarithm_of_the_mixture() {
        let nearly = Rate::from_numerator(Rate::DENOMINATOR - (1 << 13)).unwrap();
        for (rate, ln_ratio, exact) in [
            (Rate::ONE, -3.5, -3.5),
            (Rate::of(1, 2).unwrap(), 0.5, (0.5 + 0.5 * exp(0.5)).ln()),
            (Rate::of(1, 2).unwrap(), 40.0, 40.0 - 2f64.ln() + exp(-40.0)),
            (Rate::of(1, 4).unwrap(), 700.0, 700.0 - 4f64.ln()),
            (
                Rate::of(1, 1 << 30).unwrap(),
                -2.0,
                -(0.5f64.powi(30) * (1.0 - exp(-2.0))) * (1.0 + 0.5f64.powi(31) * (1.0 - exp(-2.0))),
            ),
            (
                Rate::of(1, 1 << 30).unwrap(),
                1e-3,
                0.5f64.powi(30) * exp(1e-3) * (1.0 - exp(-1e-3)) * (1.0 - 0.5f64.powi(31) * 1e-3),
            ),
            (Rate::of(3, 4).unwrap(), -0.5, (0.25 + 0.75 * exp(-0.5)).ln()),
            // 1 - q is 2^-40.
            (nearly, -50.0, (0.5f64.powi(40) + exp(-50.0)).ln()),
            (nearly, -20.0, (0.5f64.powi(40) + exp(-20.0) * (1.0 - 0.5f64.powi(40))).ln()),
        ] {
            let found = |slack| loss(rate, &Point { ln_mass: 0.0, ln_ratio, slack });
            let (value, error) = found(0.0);
            assert!((value / exact - 1.0).abs() < 3e-14, "{rate:?} {ln_ratio}: {value:e}, not {exact:e}");
            let least = 8.0 * f64::EPSILON * exact.abs();
            let cancelled = if ln_ratio > 30.0 { 4.0 * f64::EPSILON * (ln_ratio - rate.as_f64().ln()) } else { 0.0 };
            assert!((error / (least + cancelled) - 1.0).abs() < 1e-9, "{rate:?} {ln_ratio}: {error:e}, not {least:e}");
            let more = found(1e-7).1 - error;
            assert!((more / (2e-7 * exact.abs()) - 1.0).abs() < 1e-6, "{rate:?} {ln_ratio}: {more:e}");
        }
    }

    #[test]
    fn a_cut_above_all_changes_nothing() {
        let all = lower_pld(&cells(1.0, 1.0 / 16.0, 4.0), Rate::of(1, 2).unwrap(), Direction::Remove);
        for bound in [Bound::Upper, Bound::Lower] {
            let cut = all.cut(100.0, bound);
            assert_eq!((cut.atoms.len(), cut.beyond, cut.second), (all.atoms.len(), 0.0, 0.0));
        }
    }

    /// The slack for rounding raises the upper bound and reduces the lower bound. A large slack makes it visible.
    #[test]
    fn slack_is_added_above_and_taken_below() {
        let point = Point { ln_mass: -2.0, ln_ratio: 0.5, slack: 1e-6 };
        let nodes = Nodes { points: vec![point], near: 1e-300, far: 1e-300 };
        let rate = Rate::of(1, 4).unwrap();
        let (value, error) = loss(rate, &point);
        for (direction, sign) in [(Direction::Remove, 1.0), (Direction::Add, -1.0)] {
            let first = if direction == Direction::Remove { value } else { 0.0 };
            let moved = 2e-6 + if direction == Direction::Remove { error } else { 0.0 };
            for (losses, side) in
                [(upper_pld(&nodes, rate, direction), 1.0), (lower_pld(&vec![point], rate, direction), -1.0)]
            {
                let atom = losses.atoms[0];
                assert!((atom.ln_mass - (-2.0 + first + side * moved)).abs() < 1e-12, "{direction:?}");
                assert!((atom.loss - (sign * value + side * error)).abs() < 1e-12, "{direction:?}");
            }
        }
    }

    #[test]
    fn cutting_errs_on_the_asked_side() {
        let rate = Rate::at_least(0.3).unwrap();
        let all = upper_pld(&nodes(0.5, 1.0 / 64.0, 7.0), rate, Direction::Remove);
        let (upper, lower) = (all.cut(1.5, Bound::Upper), all.cut(1.5, Bound::Lower));
        let mass = |losses: &Losses| losses.masses().0 + losses.beyond;
        assert!((mass(&upper) - mass(&all)).abs() < 1e-11 && (mass(&lower) - mass(&all)).abs() < 1e-11);
        assert!(upper.atoms.iter().chain(&lower.atoms).all(|atom| atom.loss <= 1.5));
        for epsilon in [0.0, 0.7, 1.4] {
            let (cut, whole) = (upper.delta(epsilon), all.delta(epsilon));
            assert!(cut >= whole && cut - whole < 1e-11, "{cut:e}, {whole:e}");
        }
        // Both masses of the part that is recorded separately.
        let above = all.atoms.iter().filter(|atom| atom.loss > 1.5);
        let second: f64 = above.map(|atom| exp(atom.ln_mass - atom.loss)).sum();
        assert!((lower.second - second).abs() < 1e-11 * second);
    }

    #[test]
    fn mass_is_raised_by_what_is_added() {
        for (before, added) in [(0.25, 0.5), (1e-300, 0.5), (0.5, 1e-12)] {
            let mut atom = Atom { ln_mass: log(before), loss: 0.0 };
            raise(Some(&mut atom), added);
            assert!((exp(atom.ln_mass) / (before + added) - 1.0).abs() < 1e-12);
        }
        raise(None, 0.5);
    }
}
