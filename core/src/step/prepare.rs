//! Steps with a charge that the caller persists: first the charge, then the step.

use super::{Open, PrivateStep, StepConfig as _, StepState};
use crate::accounting::{ChargedNoise, Due, Ledger, Rate, Receipt, RenyiFilter};
use crate::clip::Clip;
use crate::error::{CallError, OpenError};
use crate::filter::Filter;
use crate::optimizer::Optimizer;
use crate::private::Mechanism;
use crate::schedule::Schedule;
use crate::threshold::Threshold;
use core::convert::Infallible;

impl<F: Clone, O: Clone, M: Mechanism, T: Threshold, C: Clip, S: Schedule> PrivateStep<F, O, M, T, C, S> {
    /// Charges a step, and leaves it to the caller to persist the record: the first part of [`PrivateStep::open`].
    ///
    /// ```
    /// use damper_core::prelude::*;
    ///
    /// # struct Flash;
    /// # impl Flash {
    /// #     async fn write(&mut self, _: Record) -> Result<(), ()> { Ok(()) }
    /// # }
    /// async fn train(flash: &mut Flash, ledger: &mut Ledger<()>, noise: &NoiseRng, params: &mut [f32; 3]) -> Option<()> {
    ///     let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(60).build().ok()?;
    ///     let mut state = config.state::<3>();
    ///     let due = config.prepare(&mut state, ledger).ok()?;
    ///     if let Some(record) = due.record() {
    ///         flash.write(record).await.ok()?;
    ///     }
    ///     let mut step = config.open_charged(&mut state, due.persisted()).ok()?;
    ///     step.add(&[0.5, -0.2, 0.1]).ok()?;
    ///     step.finish(params, noise).ok()
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the budget is spent, or the state does not fit. Nothing is charged.
    pub fn prepare<'l, B, FS, OS>(
        &self,
        state: &mut StepState<B, FS, OS, T::State, M::NoiseState>,
        ledger: &'l mut Ledger<()>,
    ) -> Result<Due<'l>, OpenError<Infallible>>
    where
        B: AsMut<[M::Word]>,
        F: Filter<FS>,
        O: Optimizer<OS>,
    {
        let fingerprint = self.fingerprint(self.check(state).map_err(OpenError::Call)?.sum.len());
        self.check_budget(ledger).and_then(|()| ledger.check(fingerprint)).map_err(OpenError::Call)?;
        let (step, record, durable) = ledger.prepare(fingerprint).ok_or(OpenError::BudgetSpent)?;
        let noise = ChargedNoise { chosen: None, fingerprint };
        Ok(Due::new(record, Receipt { step, charged: step, noise }, Some(durable)))
    }

    /// Charges a step of [`PrivateStep::open_adaptive`], as [`PrivateStep::prepare`] does.
    ///
    /// # Errors
    ///
    /// Fails if the filter's budget has no room for the step, the state does not fit, or the factor is not finite and
    /// above 0. Nothing is charged.
    ///
    /// ```
    /// use damper_core::accounting::RenyiFilter;
    /// use damper_core::prelude::*;
    ///
    /// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(4).build()?;
    /// let (mut state, mut filter) = (config.state::<2>(), RenyiFilter::new(8, 9.0, 1e-5)?);
    /// let due = config.prepare_adaptive(&mut state, 2.0, Rate::ONE, &mut filter)?;
    /// let record = due.record().expect("a filter records each step");
    /// // Write the record here, and continue only if it is durable.
    /// assert_eq!((record.paid, record.order), (1, 8));
    /// assert!(config.open_charged(&mut state, due.persisted()).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prepare_adaptive<'l, B, FS, OS>(
        &self,
        state: &mut StepState<B, FS, OS, T::State, M::NoiseState>,
        factor: f64,
        rate: Rate,
        filter: &'l mut RenyiFilter,
    ) -> Result<Due<'l>, OpenError<Infallible>>
    where
        B: AsMut<[M::Word]>,
        F: Filter<FS>,
        O: Optimizer<OS>,
    {
        let fingerprint = self.fingerprint(self.check(state).map_err(OpenError::Call)?.sum.len());
        let event = self.adaptive(factor, rate).map_err(OpenError::Call)?;
        let charged = filter.charged_steps();
        let (step, record) = filter.take(&event, fingerprint).ok_or(OpenError::BudgetSpent)?;
        let noise = ChargedNoise { chosen: Some((factor, rate)), fingerprint };
        Ok(Due::new(Some(record), Receipt { step, charged, noise }, None))
    }

    /// Opens a step that was charged: the second part of [`PrivateStep::open`].
    ///
    /// # Errors
    ///
    /// Fails if the receipt belongs to another configuration, or the state does not fit. The charge is lost.
    pub fn open_charged<'a, B, FS, OS>(
        &self,
        state: &'a mut StepState<B, FS, OS, T::State, M::NoiseState>,
        receipt: Receipt,
    ) -> Result<Open<'a, Self, FS, OS>, CallError>
    where
        B: AsMut<[M::Word]>,
        F: Filter<FS>,
        O: Optimizer<OS>,
    {
        let checked = self.check(state)?;
        let Receipt { step, charged, noise } = receipt;
        if self.fingerprint(checked.sum.len()) != noise.fingerprint {
            return Err(CallError::Order("the receipt of another configuration"));
        }
        Ok(self.opened(checked, step, charged, noise.chosen))
    }
}
