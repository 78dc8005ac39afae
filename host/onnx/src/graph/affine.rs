//! Integers of the form `a·N + b`, for `N` samples. Shape arithmetic computes with them.

/// `per_sample · N + fixed`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Affine {
    pub per_sample: i64,
    pub fixed: i64,
}

impl Affine {
    pub fn fixed(value: i64) -> Affine {
        Affine { per_sample: 0, fixed: value }
    }

    pub fn per_sample(extent: i64) -> Affine {
        Affine { per_sample: extent, fixed: 0 }
    }

    /// Value, if it is the same for every `N`.
    pub fn constant(self) -> Option<i64> {
        (self.per_sample == 0).then_some(self.fixed)
    }

    pub fn add(self, other: Affine) -> Option<Affine> {
        Some(Affine {
            per_sample: self.per_sample.checked_add(other.per_sample)?,
            fixed: self.fixed.checked_add(other.fixed)?,
        })
    }

    pub fn sub(self, other: Affine) -> Option<Affine> {
        self.add(other.mul(Affine::fixed(-1))?)
    }

    /// Product. `None` for a square of `N`, or on overflow.
    pub fn mul(self, other: Affine) -> Option<Affine> {
        let (factor, other) = match (self.constant(), other.constant()) {
            (Some(factor), _) => (factor, other),
            (_, Some(factor)) => (factor, self),
            _ => return None,
        };
        Some(Affine { per_sample: other.per_sample.checked_mul(factor)?, fixed: other.fixed.checked_mul(factor)? })
    }

    /// Quotient, rounded toward zero as in ONNX. `None` if it is not of the form `a·N + b` for every `N ≥ 1`.
    pub fn div(self, other: Affine) -> Option<Affine> {
        if let Some(divisor) = other.constant() {
            if self.per_sample == 0 {
                return Some(Affine::fixed(self.fixed.checked_div(divisor)?));
            }
            let exact = self.per_sample.checked_rem(divisor)? == 0 && self.fixed.checked_rem(divisor)? == 0;
            return exact.then(|| Affine { per_sample: self.per_sample / divisor, fixed: self.fixed / divisor });
        }
        let ratio = self.per_sample.checked_div(other.per_sample)?;
        (other.mul(Affine::fixed(ratio))? == self).then(|| Affine::fixed(ratio))
    }

    /// Compares for every `N ≥ 1`. `Some(true)` if always equal, `Some(false)` if never, `None` if it depends on `N`.
    pub fn equals(self, other: Affine) -> Option<bool> {
        let difference = self.sub(other)?;
        match (difference.per_sample, difference.fixed) {
            (0, fixed) => Some(fixed == 0),
            // Zero at N = -fixed / per_sample, which is a valid number of samples only if it is a positive integer.
            (a, b) => {
                let at_one_sample = b.checked_rem(a)? == 0 && b.checked_div(a)? <= -1;
                if at_one_sample { None } else { Some(false) }
            }
        }
    }
}

impl std::fmt::Display for Affine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.per_sample, self.fixed) {
            (0, b) => write!(f, "{b}"),
            (1, 0) => write!(f, "N"),
            (a, 0) => write!(f, "{a}·N"),
            (a, b) => write!(f, "{a}·N{b:+}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(x: Affine, n: i64) -> i64 {
        x.per_sample * n + x.fixed
    }

    proptest! {
        // Affine arithmetic agrees with integers for every number of samples.
        #[test]
        fn arithmetic_matches_integers(
            a in -40i64..40, b in -40i64..40, c in -40i64..40, d in -40i64..40,
        ) {
            let (x, y) = (Affine { per_sample: a, fixed: b }, Affine { per_sample: c, fixed: d });
            for n in 1..60 {
                prop_assert_eq!(at(x.add(y).unwrap(), n), at(x, n) + at(y, n));
                prop_assert_eq!(at(x.sub(y).unwrap(), n), at(x, n) - at(y, n));
                if let Some(z) = x.mul(y) {
                    prop_assert_eq!(at(z, n), at(x, n) * at(y, n));
                }
                if let Some(z) = x.div(y) && at(y, n) != 0 {
                    prop_assert_eq!(at(z, n), at(x, n) / at(y, n));
                }
                if let Some(equal) = x.equals(y) {
                    prop_assert_eq!(equal, at(x, n) == at(y, n));
                }
            }
        }
    }

    #[test]
    fn what_is_not_affine_is_not_guessed() {
        let n = Affine::per_sample(1);
        assert_eq!(n.mul(n), None);
        assert_eq!(n.div(Affine::fixed(2)), None);
        assert_eq!(n.div(Affine::fixed(0)), None);
        assert_eq!(n.equals(Affine::fixed(3)), None);
        assert_eq!(n.equals(Affine::fixed(-1)), Some(false));
        assert_eq!(Affine::per_sample(6).div(Affine::per_sample(2)), Some(Affine::fixed(3)));
        assert_eq!(Affine::fixed(i64::MAX).add(Affine::fixed(1)), None);
        assert_eq!(Affine::fixed(i64::MIN).div(Affine::fixed(-1)), None);
    }
}
