//! A configuration with its state, to fill a slot.

use crate::numerics::digest::{Digest, Digested};
use crate::record::{RecordSink, ToRecord};
use crate::state::{SaveState, StateField};

/// A filter, an optimizer or a threshold with its state. `P` is the data that the segments of an open step share. A
/// threshold has none.
///
/// ```
/// use damper_core::filter::{Iir, IirState};
/// use damper_core::optimizer::{Sgd, SgdState};
/// use damper_core::slots::StatefulSlot;
/// use damper_core::threshold::Fixed;
///
/// let mut sgd = StatefulSlot::optimizer(Sgd::new(0.9, false, 0.0)?, SgdState { momentum: [0.0; 3] });
/// sgd.state_mut().momentum[0] = 1.0;
/// assert_eq!((sgd.config(), sgd.state().momentum), (&Sgd::new(0.9, false, 0.0)?, [1.0, 0.0, 0.0]));
/// let filter = StatefulSlot::filter(Iir::<8>::new(&[-0.9], &[0.1])?, IirState::new([0.0; 3]));
/// assert_eq!(filter.config().order(), 1);
/// assert_eq!(StatefulSlot::threshold(Fixed(1.0), ()).config(), &Fixed(1.0));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct StatefulSlot<C, S, P> {
    pub(super) config: C,
    pub(super) state: S,
    pub(super) step: Option<P>,
}

impl<C, S: SaveState, P> SaveState for StatefulSlot<C, S, P> {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        self.state.each(take);
    }
}

/// [`Digested`] as a trait object: the digest that compares two runs.
///
/// ```
/// use damper_core::numerics::digest::Digest;
/// use damper_core::optimizer::{Sgd, SgdState};
/// use damper_core::slots::{AnyDigested, StatefulSlot};
///
/// let sgd = StatefulSlot::optimizer(Sgd::new(0.9, false, 0.0)?, SgdState { momentum: [0.0; 3] });
/// let mut digest = Digest::default();
/// (&sgd as &dyn AnyDigested).add_to(&mut digest);
/// assert!(digest != Digest::default());
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
pub trait AnyDigested {
    /// As [`Digested::add_to`].
    fn add_to(&self, digest: &mut Digest);
}

impl<C: Digested<S>, S, P> AnyDigested for StatefulSlot<C, S, P> {
    fn add_to(&self, digest: &mut Digest) {
        self.config.add_to(&self.state, digest);
    }
}

/// [`ToRecord`] as a trait object.
///
/// ```
/// use damper_core::optimizer::{Sgd, SgdState};
/// use damper_core::slots::{AnyToRecord, StatefulSlot};
///
/// let sgd = StatefulSlot::optimizer(Sgd::new(0.9, true, 0.0)?, SgdState { momentum: [0.0; 3] });
/// assert_eq!((&sgd as &dyn AnyToRecord).kind(), Some(1));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
pub trait AnyToRecord {
    /// As [`ToRecord::kind`].
    fn kind(&self) -> Option<u8>;

    /// As [`ToRecord::write`].
    fn write(&self, sink: &mut dyn RecordSink);
}

impl<C: ToRecord<S>, S, P> AnyToRecord for StatefulSlot<C, S, P> {
    fn kind(&self) -> Option<u8> {
        self.config.kind(&self.state)
    }

    fn write(&self, sink: &mut dyn RecordSink) {
        self.config.write(&self.state, sink);
    }
}

impl<C, S, P> StatefulSlot<C, S, P> {
    /// Returns the configuration.
    pub fn config(&self) -> &C {
        &self.config
    }

    /// Returns the state.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Returns the state, to change it between steps.
    pub fn state_mut(&mut self) -> &mut S {
        &mut self.state
    }
}
