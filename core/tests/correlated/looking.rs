//! Optimizers that observe the full gradient before they update.

use super::*;

/// Records the noise's standard deviation, and moves parameters by the gradient, after it has observed all of it or at
/// once.
#[derive(Clone)]
struct Listens {
    looks_ahead: bool,
}

impl Optimizer<Vec<f64>> for Listens {
    type Step = ();

    fn check(&self, _: &Vec<f64>, _: usize) -> Result<(), CallError> {
        Ok(())
    }

    fn needs_full_gradient(&self) -> bool {
        self.looks_ahead
    }

    fn begin(&self, state: &mut Vec<f64>, begin: Begin) {
        state.push(begin.noise_std);
    }

    fn update(&self, _: (), _: &mut Vec<f64>, _: usize, params: &mut [f32], filtered: &Released<'_>, _: &Released<'_>) {
        params.iter_mut().zip(filtered.grad()).for_each(|(param, grad)| *param -= grad);
    }
}

/// The recorded standard deviations of 20 steps, and the final parameters.
pub(super) fn listened(looks_ahead: bool) -> (Vec<f64>, Vec<f32>) {
    let dim = 1100;
    let step = PrivateStep::new(Slots {
        mechanism: mechanism(blt(), 5000, run(), dim),
        clip: FlatL2,
        threshold: Fixed(256.0),
        filter: Identity,
        optimizer: Listens { looks_ahead },
        schedule: Constant(1.0),
        expected_batch: 1,
    })
    .unwrap();
    let mut state =
        StepState::new(vec![SumWord::ZERO; dim], (), Vec::new(), ()).with_noise(CorrelatedState::new(words(dim * 2)));
    let (mut ledger, mut params) = (Ledger::volatile(1000), vec![0f32; dim]);
    for _ in 0..20 {
        let open = step.open(&mut state, &mut ledger).unwrap();
        open.finish(&mut params, &ChaCha20::<2>::simulation(1)).unwrap();
    }
    (state.optimizer, params)
}

// An optimizer that needs the full gradient observes it twice, and its noise is drawn once.
#[test]
fn looking_ahead_changes_no_noise() {
    assert_eq!(listened(true), listened(false));
}
