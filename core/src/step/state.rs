//! State of a run.

use crate::state::{SaveState, StateField};

/// State of a run, in the caller's memory.
///
/// The words of a sum are in the caller's memory, but cannot be read. They cannot be read while the step is open, nor
/// after it was forgotten:
///
/// ```compile_fail,E0499
/// # use damper_core::accounting::Ledger;
/// # use damper_core::{clip::FlatL2, filter::Identity, grid::Grid, noise::*, optimizer::*, step::*, threshold::Fixed};
/// # use damper_core::{private::*, schedule::Constant};
/// # let step = PrivateStep::new(Slots {
/// #     mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
/// #     clip: FlatL2, threshold: Fixed(1.0), filter: Identity, optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
/// #     schedule: Constant(0.1),
/// #     expected_batch: 4,
/// # }).unwrap();
/// # let mut ledger = Ledger::volatile(10);
/// let mut memory = [SumWord::default(); 3];
/// let mut state = StepState::new(&mut memory[..], (), SgdState { momentum: [0.0; 3] }, ());
/// let mut open = step.open(&mut state, &mut ledger).unwrap();
/// let other = step.open(&mut state, &mut ledger).unwrap();
/// open.add_combined(&[&[0.5, -0.2, 0.1]]).unwrap();
/// ```
///
/// ```compile_fail,E0616
/// # use damper_core::accounting::Ledger;
/// # use damper_core::{clip::FlatL2, filter::Identity, grid::Grid, noise::*, optimizer::*, step::*, threshold::Fixed};
/// # use damper_core::{private::*, schedule::Constant};
/// # let step = PrivateStep::new(Slots {
/// #     mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
/// #     clip: FlatL2, threshold: Fixed(1.0), filter: Identity, optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
/// #     schedule: Constant(0.1),
/// #     expected_batch: 4,
/// # }).unwrap();
/// # let mut ledger = Ledger::volatile(10);
/// let mut state = StepState::new([SumWord::default(); 3], (), SgdState { momentum: [0.0; 3] }, ());
/// let mut open = step.open(&mut state, &mut ledger).unwrap();
/// open.add_combined(&[&[0.5, -0.2, 0.1]]).unwrap();
/// core::mem::forget(open);
/// let peek = state.sum;
/// ```
///
/// ```compile_fail,E0616
/// # use damper_core::accounting::Ledger;
/// # use damper_core::{clip::FlatL2, filter::Identity, grid::Grid, noise::*, optimizer::*, step::*, threshold::Fixed};
/// # use damper_core::{private::*, schedule::Constant};
/// # let step = PrivateStep::new(Slots {
/// #     mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
/// #     clip: FlatL2, threshold: Fixed(1.0), filter: Identity, optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
/// #     schedule: Constant(0.1),
/// #     expected_batch: 4,
/// # }).unwrap();
/// # let mut ledger = Ledger::volatile(10);
/// let mut memory = [SumWord::default(); 3];
/// let mut state = StepState::new(&mut memory[..], (), SgdState { momentum: [0.0; 3] }, ());
/// let mut open = step.open(&mut state, &mut ledger).unwrap();
/// open.add_combined(&[&[0.5, -0.2, 0.1]]).unwrap();
/// core::mem::forget(open);
/// let peek = memory[0].0;
/// ```
///
/// They cannot be read by a memory type that inspects its words when it lends or drops them:
///
/// ```compile_fail,E0369
/// # use damper_core::accounting::Ledger;
/// # use damper_core::{clip::FlatL2, filter::Identity, grid::Grid, noise::*, optimizer::*, step::*, threshold::Fixed};
/// # use damper_core::{private::*, schedule::Constant};
/// # let step = PrivateStep::new(Slots {
/// #     mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
/// #     clip: FlatL2, threshold: Fixed(1.0), filter: Identity, optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
/// #     schedule: Constant(0.1),
/// #     expected_batch: 4,
/// # }).unwrap();
/// # let mut ledger = Ledger::volatile(10);
/// struct Spy([SumWord<i32>; 3]);
/// impl AsMut<[SumWord<i32>]> for Spy {
///     fn as_mut(&mut self) -> &mut [SumWord<i32>] {
///         &mut self.0
///     }
/// }
/// impl Drop for Spy {
///     fn drop(&mut self) {
///         let moved = self.0[0] == SumWord::ZERO;
///     }
/// }
/// let mut state = StepState::new(Spy([SumWord::ZERO; 3]), (), SgdState { momentum: [0.0; 3] }, ());
/// core::mem::forget(step.open(&mut state, &mut ledger).unwrap());
/// ```
///
/// They cannot be read in the memory of a forgotten shard:
///
/// ```compile_fail,E0605
/// # use damper_core::accounting::Ledger;
/// # use damper_core::{clip::FlatL2, filter::Identity, grid::Grid, noise::*, optimizer::*, step::*, threshold::Fixed};
/// # use damper_core::{private::*, schedule::Constant};
/// # let step = PrivateStep::new(Slots {
/// #     mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
/// #     clip: FlatL2, threshold: Fixed(1.0), filter: Identity, optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
/// #     schedule: Constant(0.1),
/// #     expected_batch: 4,
/// # }).unwrap();
/// # let mut ledger = Ledger::volatile(10);
/// let mut state = StepState::new([SumWord::ZERO; 3], (), SgdState { momentum: [0.0; 3] }, ());
/// let open = step.open(&mut state, &mut ledger).unwrap();
/// let mut memory = [SumWord::ZERO; 3];
/// let mut shard = open.shard(&mut memory).unwrap();
/// shard.add_combined(&[&[0.5, -0.2, 0.1]]).unwrap();
/// core::mem::forget(shard);
/// let peek = memory[0] as i32;
/// ```
#[derive(Debug)]
pub struct StepState<B, FS = (), OS = (), TS = (), NS = ()> {
    /// Scratch memory for the sum of a step, `[D]` words.
    pub(super) sum: B,
    /// State of the filter.
    pub filter: FS,
    /// State of the optimizer.
    pub optimizer: OS,
    /// State of the threshold.
    pub threshold: TS,
    /// State of the noise. It is secret and is not saved.
    pub(super) noise: NS,
}

impl<B, FS, OS, TS> StepState<B, FS, OS, TS> {
    /// Creates the state of a run. `sum` is scratch memory of `[D]` words ([`SumWord`](crate::private::SumWord)).
    /// Opening a step wipes its content first.
    pub const fn new(sum: B, filter: FS, optimizer: OS, threshold: TS) -> Self {
        Self { sum, filter, optimizer, threshold, noise: () }
    }

    /// Adds the state of [correlated noise](crate::noise::CorrelatedState).
    ///
    /// ```
    /// use damper_core::noise::{Blt, CorrelatedState, NoiseWord};
    /// use damper_core::{private::SumWord, step::StepState};
    ///
    /// // Two buffers of three coordinates.
    /// let noise = CorrelatedState::<Blt<2>, _>::new([NoiseWord::ZERO; 6]);
    /// let state = StepState::new([SumWord::<i32>::ZERO; 3], (), (), ()).with_noise(noise);
    /// assert_eq!(state.filter, ());
    /// ```
    pub fn with_noise<NS>(self, noise: NS) -> StepState<B, FS, OS, TS, NS> {
        let Self { sum, filter, optimizer, threshold, noise: () } = self;
        StepState { sum, filter, optimizer, threshold, noise }
    }
}

/// State from step to step, a function of released values. Excludes the sum and the noise state.
impl<B, FS: SaveState, OS: SaveState, TS: SaveState, NS> SaveState for StepState<B, FS, OS, TS, NS> {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        self.filter.each(take);
        self.threshold.each(take);
        self.optimizer.each(take);
    }
}
