//! Recursive filter without bias correction: outputs `m_t` itself.
//!
//! The output starts small and grows to the gain `Σ b / (1 + Σ a)` within the filter's memory. Multiplying all `b` by a
//! number multiplies the output. A single-tap filter with `b_0 = 1` instead of `1 + Σ a` therefore increases the
//! learning rate. This effect, and not denoising, reproduces DP-PMLF's tables for MNIST.
//!
//! Source: Xu, Ranbaduge, Wang, Rakotoarivelo, Smith, "Enhancing DPSGD via Per-Sample Momentum and Low-Pass Filtering":
//! line 10 of Algorithm 1, without line 11.
//!
//! # Memory
//!
//! That of the filter.
//!
//! # Numerics
//!
//! `F(y·1)`, which is `y`.
//!
//! # Privacy
//!
//! Post-processing of released gradients by constants.

use super::{Iir, IirState, IirStep};
use crate::error::CallError;
use crate::filter::base::Filter;
use crate::numerics::digest::{Digest, Digested};
use crate::private::Released;
use crate::record::ToRecord;

/// Recursive filter of order at most `ORDER` without bias correction.
///
/// ```
/// use damper_core::filter::{Iir, IirState, Uncorrected};
/// use damper_core::optimizer::{Sgd, SgdState};
/// # use damper_core::{clip::FlatL2, filter::*, grid::Grid, noise::*, prelude::*, private::*, schedule::*, threshold::Fixed};
/// # fn step_once<F: Filter<FS>, FS, O: damper_core::optimizer::Optimizer<OS>, OS>(
/// #     (filter, filter_state): (F, FS), (optimizer, state): (O, OS), grad: [f32; 2],
/// # ) -> Result<[f32; 2], Box<dyn std::error::Error>> {
/// #     let mechanism = DiscreteGaussian::<i32>::new(Grid::new(20)?, 1)?;
/// #     let schedule = Constant(0.1);
/// #     let clip = FlatL2;
/// #     let slots = Slots { filter, optimizer, mechanism, threshold: Fixed(1.0), clip, schedule, expected_batch: 1 };
/// #     let mut state = StepState::new([SumWord::ZERO; 2], filter_state, state, ());
/// #     let (mut ledger, mut params) = (Ledger::volatile(1), [0.0; 2]);
/// #     let config = PrivateStep::new(slots)?;
/// #     let mut step = config.open(&mut state, &mut ledger)?;
/// #     step.add(&grad)?;
/// #     step.finish(&mut params, &NoiseRng::simulation(1))?;
/// #     Ok(params)
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let filter = Uncorrected(Iir::<8>::new(&[-0.9], &[0.1])?);
/// let state = IirState::new([0.0; 2]);
/// // A tenth of the first gradient, because the correction is left out.
/// // One step of SGD at a learning rate of 0.1, with next to no noise.
/// let sgd = (Sgd::new(0.0, false, 0.0)?, SgdState { momentum: [] as [f32; 0] });
/// let params = step_once((filter, state), sgd, [0.5, -0.5])?;
/// assert!((params[0] + 0.005).abs() < 1e-4 && (params[1] - 0.005).abs() < 1e-4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Uncorrected<const ORDER: usize = 8>(pub Iir<ORDER>);

impl<B: AsMut<[f32]> + AsRef<[f32]>, const ORDER: usize> Filter<IirState<B, ORDER>> for Uncorrected<ORDER> {
    type Step = IirStep;

    fn eval_points(&self, state: &IirState<B, ORDER>) -> usize {
        self.0.eval_points(state)
    }

    fn eval_point(
        &self,
        state: &IirState<B, ORDER>,
        index: usize,
        params: &[f32],
        out: &mut [f32],
    ) -> Result<f32, CallError> {
        self.0.eval_point(state, index, params, out)
    }

    fn weight(&self, state: &IirState<B, ORDER>, index: usize) -> f32 {
        self.0.weight(state, index)
    }

    fn check(&self, state: &IirState<B, ORDER>, dim: usize) -> Result<(), CallError> {
        self.0.check(state, dim)
    }

    fn begin(&self, _state: &mut IirState<B, ORDER>) -> IirStep {
        IirStep(1.0)
    }

    fn filters_by_coordinate(&self) -> bool {
        true
    }

    fn apply(
        &self,
        step: IirStep,
        state: &mut IirState<B, ORDER>,
        at: usize,
        released: &Released<'_>,
        filtered: &mut [f32],
    ) {
        self.0.apply(step, state, at, released, filtered);
    }
}

impl<B, const ORDER: usize> ToRecord<IirState<B, ORDER>> for Uncorrected<ORDER> {}

impl<B: AsRef<[f32]>, const ORDER: usize> Digested<IirState<B, ORDER>> for Uncorrected<ORDER> {
    fn add_to(&self, state: &IirState<B, ORDER>, digest: &mut Digest) {
        self.0.add_to(state, digest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::named;
    use proptest::prelude::*;

    extern crate std;
    use std::vec::Vec;

    /// Returns the output for each of `inputs`, in a segment of one coordinate and a segment of the rest.
    fn filtered<F>(filter: &F, order: usize, inputs: &[[f32; 3]]) -> Vec<[f32; 3]>
    where
        F: Filter<IirState<Vec<f32>>>,
    {
        let mut state = IirState::new(std::vec![0.0; 3 * order]);
        let mut outputs = Vec::new();
        for input in inputs {
            let step = filter.begin(&mut state);
            let mut out = [0.0; 3];
            let (first, rest) = out.split_at_mut(1);
            filter.apply(step, &mut state, 0, &Released::new(&input[..1], 0.0), first);
            filter.apply(step, &mut state, 1, &Released::new(&input[1..], 0.0), rest);
            outputs.push(out);
        }
        outputs
    }

    proptest! {
        /// The definition, in f64: `m_t = −Σ a_r·m_{t−r} + Σ b_r·g_{t−r}`.
        #[test]
        fn uncorrected_follows_the_direct_form(
            inputs in prop::collection::vec(prop::array::uniform3(-2f32..2.0), 1..40),
            name in prop::sample::select(std::vec!["momentum", "d2", "f6", "p6", "p7"]),
        ) {
            let set = named(name).unwrap();
            let filter = Uncorrected(Iir::<8>::new(set.a, set.b).unwrap());
            let mut m: Vec<f64> = Vec::new();
            for (t, out) in filtered(&filter, filter.0.order(), &inputs).iter().enumerate() {
                let past = |of: &dyn Fn(usize) -> f64, taps: &[f32], from: usize| -> f64 {
                    taps.iter().enumerate().filter(|(r, _)| r + from <= t).map(|(r, c)| f64::from(*c) * of(t - r - from)).sum()
                };
                let next = past(&|at| f64::from(inputs[at][1]), set.b, 0) - past(&|at| m[at], set.a, 1);
                prop_assert!((f64::from(out[1]) - next).abs() < 1e-5, "step {t}: {} {next}", out[1]);
                m.push(next);
            }
        }

        /// Scaling `b` scales the output. The bias correction would undo this.
        #[test]
        fn uncorrected_scales_with_b(inputs in prop::collection::vec(prop::array::uniform3(-2f32..2.0), 1..20)) {
            let of = |b: f32| {
                let iir = Iir::<8>::new(&[-0.5], &[b]).unwrap();
                (filtered(&Uncorrected(iir.clone()), 1, &inputs), filtered(&iir, 1, &inputs))
            };
            let ((one, one_corrected), (two, two_corrected)) = (of(1.0), of(2.0));
            for t in 0..inputs.len() {
                for i in 0..3 {
                    prop_assert_eq!(two[t][i], 2.0 * one[t][i]);
                    prop_assert!((two_corrected[t][i] - one_corrected[t][i]).abs() < 1e-5);
                }
            }
        }
    }

    #[test]
    fn uncorrected_identity_passes_every_bit() {
        let inputs = [[1.5, -0.0, 3e-40], [f32::MAX, 0.1, -7.0]];
        let out = filtered(&Uncorrected(Iir::<8>::new(&[], &[1.0]).unwrap()), 0, &inputs);
        for (out, input) in out.iter().flatten().zip(inputs.iter().flatten()) {
            assert_eq!(out.to_bits(), input.to_bits());
        }
    }
}
