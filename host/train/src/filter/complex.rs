//! Complex numbers, as far as filters need them.

use std::ops::{Add, Div, Mul, Sub};

/// `re + i·im`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Complex {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

impl Complex {
    /// `re + i·im`.
    #[must_use]
    pub const fn new(re: f64, im: f64) -> Self {
        Self { re, im }
    }

    /// `modulus·e^(i·angle)`.
    #[must_use]
    pub fn polar(modulus: f64, angle: f64) -> Self {
        Self::new(modulus * angle.cos(), modulus * angle.sin())
    }

    /// `|z|`.
    #[must_use]
    pub fn modulus(self) -> f64 {
        self.re.hypot(self.im)
    }

    /// The angle, from −π to π.
    #[must_use]
    pub fn angle(self) -> f64 {
        self.im.atan2(self.re)
    }
}

impl From<f64> for Complex {
    fn from(re: f64) -> Self {
        Self::new(re, 0.0)
    }
}

impl Add for Complex {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::new(self.re + other.re, self.im + other.im)
    }
}

impl Sub for Complex {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::new(self.re - other.re, self.im - other.im)
    }
}

impl Mul for Complex {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self::new(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)
    }
}

impl Div for Complex {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        let scale = other.re * other.re + other.im * other.im;
        let product = self * Self::new(other.re, -other.im);
        Self::new(product.re / scale, product.im / scale)
    }
}
