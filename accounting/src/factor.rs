//! Correlated noise: factorisations of the prefix sum whose noise partly cancels over steps, their sensitivity and their error.
//!
//! Step t releases `x_t + w_t` with `w = C⁻¹z`: `x_t` the clipped sum, `z` independent noise, C lower-triangular Toeplitz with the
//! first column `c_0 = 1, c_1, …`. The released vectors multiplied by C are `Cx + z`, so the run is one Gaussian release of
//! sensitivity `S`, the largest `‖CX‖` over what one sample may add ([`sensitivity`]). The noise of the sum over steps 0 to i has the
//! variance `σ²E_i`, `E_i = Σ_{j≤i} A_j²`, with `A_j` the prefix sums of the first column of C⁻¹. `root_loss = S·√error` compares
//! factorisations at equal ε.
//!
//! Sources: K. Choquette-Choo et al., arXiv 2306.08153 (banded); N. Kalinin and C. Lampert, arXiv 2405.13763 (the sensitivity
//! of Toeplitz matrices); K. Dvijotham et al., arXiv 2404.16706, and H. B. McMahan et al., arXiv 2408.08868 (buffered linear
//! Toeplitz, BLT).

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
