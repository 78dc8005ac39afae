//! Descriptions of optimizers, to choose one by name or by its kind in a recording.

use super::base::Optimizer;
use crate::described::{Description, Flag, Kind, Setting, Values};
use crate::error::ConfigError;
use crate::numerics::digest::Digested;
use crate::state::SaveState;

/// Memory for a vector of a state.
pub trait Vector: AsRef<[f32]> + AsMut<[f32]> {}

impl<B: AsRef<[f32]> + AsMut<[f32]>> Vector for B {}

/// An optimizer that can be chosen by name.
pub trait Described: Sized {
    /// Its state in vectors of type `B`.
    type State<B: Vector>: SaveState;

    /// Its names and settings.
    const DESCRIPTION: Description;

    /// The optimizer with these settings.
    ///
    /// # Errors
    ///
    /// A setting out of its range.
    fn from_values(values: &mut impl Values) -> Result<Self, ConfigError>;

    /// Its state before the first step, in vectors of so many zeros.
    ///
    /// # Errors
    ///
    /// Those of `zeros`.
    fn state<B: Vector, E>(&self, dim: usize, zeros: impl FnMut(usize) -> Result<B, E>) -> Result<Self::State<B>, E>;
}

/// Builds an optimizer: gives settings and memory, and takes the optimizer of whatever type it is.
pub trait Builder<'a>: Values + Sized {
    /// A vector of the state.
    type Vector: Vector + 'a;
    /// The result of a build.
    type Built;
    /// Why nothing is built.
    type Error: From<ConfigError>;

    /// Returns true if this optimizer is to be built. The first is.
    fn wants(&mut self, description: &Description) -> bool;

    /// Number of parameters.
    fn dim(&self) -> usize;

    /// A vector of so many zeros.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    fn zeros(&mut self, len: usize) -> Result<Self::Vector, Self::Error>;

    /// Takes the optimizer and its state.
    ///
    /// # Errors
    ///
    /// Whatever stops the caller.
    fn take<O, S>(self, optimizer: O, state: S) -> Result<Self::Built, Self::Error>
    where
        O: Optimizer<S> + Digested<S> + 'a,
        S: SaveState + 'a;
}

/// The table of all optimizers and the switch over them, from one list.
macro_rules! optimizers {
    ($($optimizer:ty),*) => {
        /// Every optimizer that can be chosen by name.
        pub const OPTIMIZERS: &[Description] = &[$(<$optimizer>::DESCRIPTION),*];

        /// Builds the optimizer that the builder wants; `None` if it wants none.
        ///
        /// # Errors
        ///
        /// A setting out of its range, or those of the builder.
        pub fn build<'a, B: Builder<'a>>(mut builder: B) -> Result<Option<B::Built>, B::Error> {
            $(if builder.wants(&<$optimizer>::DESCRIPTION) {
                let optimizer = <$optimizer>::from_values(&mut builder)?;
                let state = optimizer.state(builder.dim(), |len| builder.zeros(len))?;
                return builder.take(optimizer, state).map(Some);
            })*
            Ok(None)
        }
    };
}

pub(super) use optimizers;

/// Weight decay in the gradient.
pub(super) const PENALTY: Setting = Setting::new("weight_decay", Kind::F32, WEIGHT_DECAY, "weight decay");

/// Weight decay apart from it, as in AdamW.
pub const DECOUPLED: Setting = Setting::new("weight_decay", Kind::F64, WEIGHT_DECAY, "weight decay");

const WEIGHT_DECAY: Flag = Flag {
    name: "weight_decay",
    value: "W",
    help: "adamw, adam-bc: decoupled decay; the others: L2 penalty; adam has none [default: 0; adamw: 0.01]",
};

/// Decays of the moments.
pub(super) const BETA1: Setting = Setting::new("beta1", Kind::F64, BETAS, "beta1");
pub(super) const BETA2: Setting = Setting::new("beta2", Kind::F64, BETAS, "beta2");

const BETAS: Flag = Flag {
    name: "betas",
    value: "B1,B2",
    help: "adam, adamw, adam-bc: decay of the first and second moment [default: 0.9,0.999; doppler: 0,0.999, for its filter is \
           the first moment]",
};

/// Adam's ε: keeps the root of the second moment above 0.
pub(super) const EPSILON: Flag = Flag {
    name: "adam_epsilon",
    value: "E",
    help: "adam, adamw, adagrad, rmsprop: what is added to the root of the second moment; adam-bc: the least second moment that is \
           left after the noise's is taken off [default: 1e-8; adagrad: 1e-10; adam-bc: by the noise]",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::{OPTIMIZERS, build};
    use std::vec::Vec;

    /// Whose settings, the settings in order, and how each was read.
    struct Read<'a>(&'a Description, core::slice::Iter<'a, f64>, Vec<Kind>);

    impl Values for Read<'_> {
        fn f32(&mut self) -> f32 {
            self.2.push(Kind::F32);
            *self.1.next().unwrap() as f32
        }

        fn f64(&mut self) -> f64 {
            self.2.push(Kind::F64);
            *self.1.next().unwrap()
        }

        fn switch(&mut self) -> bool {
            self.2.push(Kind::Switch);
            *self.1.next().unwrap() != 0.0
        }
    }

    impl Builder<'static> for Read<'_> {
        type Vector = Vec<f32>;
        type Built = Vec<Kind>;
        type Error = ConfigError;

        fn wants(&mut self, description: &Description) -> bool {
            self.0 == description
        }

        fn dim(&self) -> usize {
            3
        }

        fn zeros(&mut self, len: usize) -> Result<Vec<f32>, ConfigError> {
            Ok(std::vec![0.0; len])
        }

        fn take<O, S>(self, optimizer: O, state: S) -> Result<Vec<Kind>, ConfigError>
        where
            O: Optimizer<S> + Digested<S>,
            S: SaveState,
        {
            assert_eq!(optimizer.check(&state, 3), Ok(()));
            Ok(self.2)
        }
    }

    fn built(wanted: &Description, values: &[f64]) -> Result<Vec<Kind>, ConfigError> {
        Ok(build(Read(wanted, values.iter(), Vec::new()))?.expect("it is in the list"))
    }

    #[test]
    fn each_name_has_defaults_that_are_read() {
        for description in OPTIMIZERS {
            let kinds = description.settings.iter().map(|setting| match setting.kind {
                Kind::Words(_) => Kind::Switch,
                kind => kind,
            });
            let kinds: Vec<Kind> = kinds.collect();
            let switches = kinds.iter().filter(|kind| **kind == Kind::Switch).count();
            assert!(switches <= 1 && [0, switches + 1].contains(&description.recorded.len()));
            for (name, defaults) in description.names {
                assert_eq!(built(description, defaults), Ok(kinds.clone()), "{name}");
            }
        }
    }

    #[test]
    fn names_and_kinds_are_unique() {
        let mut names: Vec<_> = OPTIMIZERS.iter().flat_map(|of| of.names).map(|(name, _)| *name).collect();
        let mut kinds: Vec<_> = OPTIMIZERS.iter().flat_map(|of| of.recorded).collect();
        let counts = (names.len(), kinds.len());
        names.sort_unstable();
        names.dedup();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!((names.len(), kinds.len()), counts);
    }

    #[test]
    fn errors_name_the_setting() {
        for description in OPTIMIZERS {
            let (_, defaults) = description.names[0];
            let numbers = description.settings.iter().enumerate();
            for (i, setting) in numbers.filter(|(_, setting)| matches!(setting.kind, Kind::F32 | Kind::F64)) {
                let mut values = defaults.to_vec();
                values[i] = f64::NAN;
                assert_eq!(built(description, &values).unwrap_err().parameter, setting.parameter);
            }
        }
    }
}
