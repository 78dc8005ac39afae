//! Fixed-point numbers of 288 bits.

/// Number of digits of a [`Fraction`].
pub(super) const DIGITS: usize = 9;

/// Number in `[0, 1)`: digits base 2³², most significant first.
pub(super) type Fraction = [u32; DIGITS];

/// Computes `x ← x·y`, rounded down. No carry of the lower half is lost.
// Not inlined on small targets, to save flash.
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub(super) fn multiply(x: &mut Fraction, y: &Fraction) {
    let mut sum = [0; DIGITS];
    for digit in x.iter().rev() {
        // sum ← ⌊(sum + digit·y)/2³²⌋: each digit moves one place down, and the last is dropped.
        let (mut carry, mut dropped) = (0, 0);
        let mut to = &mut dropped;
        for (from, y) in sum.iter_mut().zip(y).rev() {
            // At most 2⁶⁴ − 1: (2³² − 1)² + 2·(2³² − 1).
            carry += u64::from(*digit) * u64::from(*y) + u64::from(*from);
            *to = carry as u32;
            carry >>= 32;
            to = from;
        }
        *to = carry as u32;
    }
    *x = sum;
}

/// Computes `x ← x + y`. The sum must be below 1.
pub(super) fn add(x: &mut Fraction, y: &Fraction) {
    let mut carry = 0;
    for (x, y) in x.iter_mut().zip(y).rev() {
        carry += u64::from(*x) + u64::from(*y);
        *x = carry as u32;
        carry >>= 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns all digits of the product, least significant first.
    fn exact(x: &Fraction, y: &Fraction) -> [u32; 2 * DIGITS] {
        let mut digits = [0u32; 2 * DIGITS];
        for (i, x) in x.iter().rev().enumerate() {
            let mut carry = 0u128;
            for (j, y) in y.iter().rev().enumerate() {
                carry += u128::from(*x) * u128::from(*y) + u128::from(digits[i + j]);
                digits[i + j] = carry as u32;
                carry >>= 32;
            }
            digits[i + DIGITS] = carry as u32;
        }
        digits
    }

    proptest! {
        #[test]
        fn product_is_the_upper_half(x: Fraction, y: Fraction) {
            let mut upper: Fraction = exact(&x, &y)[DIGITS..].try_into().unwrap();
            upper.reverse();
            let mut product = x;
            multiply(&mut product, &y);
            prop_assert_eq!(product, upper);
        }

        #[test]
        fn sum_less_one_part_is_the_other(mut x: Fraction, mut y: Fraction) {
            x[0] /= 2;
            y[0] /= 2;
            let mut sum = x;
            add(&mut sum, &y);
            let mut borrow = 0;
            for ((sum, y), x) in sum.iter().zip(&y).zip(&x).rev() {
                let rest = i64::from(*sum) - i64::from(*y) + borrow;
                prop_assert_eq!(rest as u32, *x);
                borrow = rest >> 32;
            }
            prop_assert_eq!(borrow, 0);
        }
    }
}
