//! Correlated noise: factorisations of the prefix sum whose noise partly cancels over steps, their sensitivity and
//! their error.
//!
//! Step t releases `x_t + w_t` with `w = C⁻¹z`. Here `x_t` is the clipped sum, `z` is independent noise, and C is
//! lower-triangular Toeplitz with the first column `c_0 = 1, c_1, …`. The released vectors multiplied by C are
//! `Cx + z`. So the run is one Gaussian release of sensitivity `S`, the largest `‖CX‖` over the contributions X of one
//! sample ([`sensitivity`]).
//!
//! The noise of the sum over steps 0 to i has the variance `σ²E_i` with `E_i = Σ_{j≤i} A_j²`, and `A_j` are the prefix
//! sums of the first column of C⁻¹. `root_loss = S·√error` compares factorisations at equal ε.
//!
//! Sources: banded matrices, K. Choquette-Choo et al., arXiv 2306.08153. The sensitivity of Toeplitz matrices, N.
//! Kalinin and C. Lampert, arXiv 2405.13763. Buffered linear Toeplitz (BLT) matrices, K. Dvijotham et al., arXiv
//! 2404.16706, and H. B. McMahan et al., arXiv 2408.08868.

mod answer;
mod banded;
mod blt;
mod cyclic;
mod minimize;
mod objective;
mod optimize;
mod toeplitz;

pub use crate::limits::MAX_BUFFERS;
pub use damper_core::noise::Participation;

pub use answer::{FactorizeQuery, Factorized};
pub use banded::{MAX_BANDS, optimize_banded};
pub use blt::BltMatrix;
pub use cyclic::{CyclicPoisson, block_shift};
pub use objective::Objective;
pub use optimize::optimize;
pub use toeplitz::{error, inverse, sensitivity};
