//! The discrete Gaussian.
