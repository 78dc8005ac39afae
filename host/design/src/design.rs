//! Low-pass designs: an analogue prototype, mapped to discrete time by the bilinear transform.
//!
//! With `s = (z − 1)/(z + 1)`, the analogue frequency of `ω = π·W` is `Ω = tan(πW/2)`, so the cut-off is at the
//! requested frequency. A prototype pole `p` becomes `z = (1 + Ωp)/(1 − Ωp)`. All zeros are at `z = −1`, the Nyquist
//! frequency.
//!
//! Source: Oppenheim and Schafer, "Discrete-Time Signal Processing", chapter 7 and appendix B.

use super::{Coefficients, FilterError, ORDER};
use num_complex::Complex64;
use std::f64::consts::PI;

/// A family of designs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Maximally flat at frequency 0, with −3 dB at the cut-off.
    Butterworth,
    /// Type I: steeper, with ripples of this many dB in the pass band, which ends at the cut-off.
    Chebyshev {
        /// Peak to peak, in dB.
        ripple: f64,
    },
}

/// Design of a low-pass filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Design {
    /// The family of the design.
    pub shape: Shape,
    /// The number of poles.
    pub order: usize,
    /// The end of the pass band, as a fraction of the Nyquist frequency.
    pub cutoff: f64,
}

impl Coefficients {
    /// Returns the coefficients of a low-pass design.
    ///
    /// # Errors
    ///
    /// A parameter is out of range.
    pub fn design(design: &Design) -> Result<Self, FilterError> {
        design.coefficients()
    }
}

impl Design {
    /// Returns the filter, scaled to a DC gain of 1. A Chebyshev filter of even order then has ripples above 1.
    fn coefficients(&self) -> Result<Coefficients, FilterError> {
        if !(1..=ORDER).contains(&self.order) {
            return Err(FilterError::DesignOrder(self.order));
        }
        if !(self.cutoff > 0.0 && self.cutoff < 1.0) {
            return Err(FilterError::Cutoff(self.cutoff));
        }
        // Half-axes of the ellipse with the prototype's poles, which is a circle for Butterworth.
        let (real, imaginary) = match self.shape {
            Shape::Butterworth => (1.0, 1.0),
            Shape::Chebyshev { ripple } if (1e-3..=20.0).contains(&ripple) => {
                let epsilon = (10f64.powf(ripple / 10.0) - 1.0).sqrt();
                let mu = (1.0 / epsilon).asinh() / self.order as f64;
                (mu.sinh(), mu.cosh())
            }
            Shape::Chebyshev { ripple } => return Err(FilterError::Ripple(ripple)),
        };
        let warped = (0.5 * PI * self.cutoff).tan();
        let (mut a, mut b) = (vec![Complex64::from(1.0)], vec![1.0]);
        for k in 0..self.order {
            let theta = PI * (2 * k + 1) as f64 / (2 * self.order) as f64;
            let scaled = Complex64::new(-warped * real * theta.sin(), warped * imaginary * theta.cos());
            let pole = (Complex64::from(1.0) + scaled) / (Complex64::from(1.0) - scaled);
            // a ← a·(1 − pole/z), b ← b·(1 + 1/z).
            let shifted = std::iter::once(Complex64::default()).chain(a.clone());
            let padded = a.iter().copied().chain([Complex64::default()]);
            a = padded.zip(shifted).map(|(a, before)| a - pole * before).collect();
            let shifted = std::iter::once(0.0).chain(b.clone());
            b = b.iter().copied().chain([0.0]).zip(shifted).map(|(b, before)| b + before).collect();
        }
        // Poles are conjugate pairs. If a coefficient cancels, only rounding errors remain.
        let mut a: Vec<f64> = a.into_iter().map(|a| if a.re.abs() < 1e-13 { 0.0 } else { a.re }).collect();
        let gain = b.iter().sum::<f64>() / a.iter().sum::<f64>();
        while let Some(0.0) = a.last() {
            a.pop();
        }
        Ok(Coefficients { a: a[1..].to_vec(), b: b.iter().map(|b| b / gain).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numerators and denominators from the formulas above with 30 digits. Those of Butterworth equal SciPy's `butter`.
    #[test]
    fn designs_are_the_known_ones() {
        let flat = Shape::Butterworth;
        type Row = (Shape, usize, f64, &'static [f64], &'static [f64]);
        let known: &[Row] = &[
            (flat, 1, 0.5, &[], &[0.5, 0.5]),
            (flat, 2, 0.5, &[0.0, 0.171_572_875_254], &[0.292_893_218_813, 0.585_786_437_627, 0.292_893_218_813]),
            (
                flat,
                2,
                0.1,
                &[-1.561_018_075_8, 0.641_351_538_058],
                &[0.020_083_365_564_2, 0.040_166_731_128_4, 0.020_083_365_564_2],
            ),
            (
                flat,
                4,
                0.2,
                &[-2.369_513_007_18, 2.313_988_414_42, -1.054_665_405_88, 0.187_379_492_368],
                &[
                    0.004_824_343_357_72,
                    0.019_297_373_430_9,
                    0.028_946_060_146_3,
                    0.019_297_373_430_9,
                    0.004_824_343_357_72,
                ],
            ),
            (
                Shape::Chebyshev { ripple: 1.0 },
                3,
                0.2,
                &[-2.137_789_920_89, 1.769_345_532_34, -0.539_758_356_397],
                &[0.011_474_656_882, 0.034_423_970_646_1, 0.034_423_970_646_1, 0.011_474_656_882],
            ),
            (
                Shape::Chebyshev { ripple: 0.5 },
                4,
                0.1,
                &[-3.532_813_347_06, 4.781_856_313_97, -2.932_753_108_39, 0.686_795_371_097],
                &[
                    0.000_192_826_851_081,
                    0.000_771_307_404_324,
                    0.001_156_961_106_49,
                    0.000_771_307_404_324,
                    0.000_192_826_851_081,
                ],
            ),
        ];
        for (shape, order, cutoff, a, b) in known {
            let found = Coefficients::design(&Design { shape: *shape, order: *order, cutoff: *cutoff }).unwrap();
            assert_eq!((found.a.len(), found.b.len()), (a.len(), b.len()), "{found:?}");
            for (found, expected) in found.a.iter().chain(&found.b).zip(a.iter().chain(*b)) {
                assert!((found - expected).abs() < 1e-11, "{shape:?} {order} {found} {expected}");
            }
        }
    }

    #[test]
    fn the_cutoff_is_where_it_was_asked_for() {
        for order in 1..=6 {
            for cutoff in [0.05, 0.3, 0.8] {
                let flat = Coefficients::design(&Design { shape: Shape::Butterworth, order, cutoff }).unwrap();
                assert!((flat.dc_gain() - 1.0).abs() < 1e-6);
                assert!((flat.gain(cutoff).powi(2) - 0.5).abs() < 1e-6, "{order} {cutoff}");
                let rippled = Design { shape: Shape::Chebyshev { ripple: 2.0 }, order, cutoff };
                let rippled = Coefficients::design(&rippled).unwrap();
                // An even order starts at the bottom of a ripple, an odd order at the top.
                let edge = if order % 2 == 0 { 1.0 } else { 10f64.powf(-0.1) };
                assert!((rippled.gain(cutoff) / edge - 1.0).abs() < 1e-6, "{order} {cutoff}");
            }
        }
    }

    // The error for an invalid design names its flag.
    #[test]
    fn invalid_design_error_names_flag() {
        let refuse = |shape, order, cutoff, flag: &str| {
            let refusal = Coefficients::design(&Design { shape, order, cutoff }).unwrap_err().to_string();
            assert!(refusal.starts_with(flag), "{refusal}");
        };
        refuse(Shape::Butterworth, 0, 0.1, "`order` 0");
        refuse(Shape::Butterworth, 17, 0.1, "`order` 17");
        for cutoff in [0.0, 1.0, -0.1, f64::NAN] {
            refuse(Shape::Butterworth, 2, cutoff, "`cutoff`");
        }
        for ripple in [0.0, -1.0, 21.0, f64::NAN] {
            refuse(Shape::Chebyshev { ripple }, 2, 0.1, "`ripple`");
        }
    }
}
