//! Restarts: a step after a crash has a number that no earlier step had, and so its own noise and draw.

use super::across::Across;
use super::tests_of::Tests;
use damper_core::accounting::{Ledger, Record, Store};
use damper_train::inside::generator::RunGenerator;
use damper_train::inside::step_loop::{self, StepLoop, StepSum};
use damper_train::inside::trained::Trained;
use damper_train::inside::worker::Accumulate;
use damper_train::{Run, TrainError};
use std::convert::Infallible;

/// Content of a store: the last record.
#[derive(Default)]
struct Kept(Option<Record>);

impl Store for Kept {
    type Error = Infallible;

    fn persist(&mut self, record: Record) -> Result<(), Infallible> {
        self.0 = Some(record);
        Ok(())
    }
}

/// Steps between crashes, and the number of steps that a charge covers.
const LIVES: [(u32, u32); 4] = [(3, 1), (5, 4), (2, 3), (4, 1)];

/// More than the lives charge and the restarts lose.
const BUDGET: u32 = 64;

/// Steps of several lives of a run, with one key and one store.
pub(super) struct Restarts<'a> {
    pub(super) run: &'a Run,
    pub(super) generator: &'a RunGenerator,
    pub(super) across: &'a mut Across,
    pub(super) tests: &'a mut Tests,
}

impl StepLoop for Restarts<'_> {
    type End = u32;

    fn go<M, G>(self, mechanism: M, _: G) -> Result<u32, TrainError>
    where
        M: Trained,
        G: Accumulate<M>,
        StepSum: From<Vec<M::Word>>,
    {
        let Self { run, generator, across, tests } = self;
        let layers = step_loop::layers(run);
        let noise = mechanism
            .noise(run.model.params.len(), 0, generator)
            .map_err(|error| TrainError::Run(error.to_string()))?;
        let (step, mut state) = step_loop::watched_step(run, mechanism, noise, &layers)?;
        let mut params = run.model.params.clone();
        let mut store = Kept::default();
        let (mut comparisons, mut broken, mut next) = (0u64, None, 0u32);
        for (life, (steps, prepaid)) in LIVES.into_iter().enumerate() {
            let persisted = store.0.map_or(0, |record| record.paid);
            let mut ledger = Ledger::resume(&mut store, BUDGET, persisted).with_reserve(prepaid);
            for _ in 0..steps {
                let opened = step
                    .open(&mut state, &mut ledger)
                    .map_err(|error| TrainError::Run(format!("the step did not open: {error}")))?;
                let number = opened.number();
                let paid = ledger.store().0.map_or(0, |record| record.paid);
                comparisons += 1;
                if number < next || paid <= number {
                    broken.get_or_insert_with(|| {
                        format!("life {life}: step {number} after step {}, with {paid} persisted", i64::from(next) - 1)
                    });
                }
                next = next.max(number + 1);
                opened.finish(&mut params, generator).expect("the parameters have the state's length");
                if run.price.terms.correlated.is_some() {
                    // A life that misses steps has other noise than its rows show, so only numbers and charges are
                    // compared.
                    continue;
                }
                let watch = state.optimizer.watch.as_ref().expect("the optimizer is watched");
                let noise: Vec<f64> = watch.released.iter().map(|x| f64::from(*x) / watch.noise_std).collect();
                across.step(&format!("restarts, life {life}"), number, &noise);
            }
        }
        tests.law("restarts: numbers go on, and are persisted before they are released", comparisons, broken);
        Ok(comparisons as u32)
    }
}
