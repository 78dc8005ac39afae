//! An optimizer of the core by its name and settings.

use super::stateful::{OptimizerState, boxed};
use damper_core::described::{Description, Kind, Setting, Values};
use damper_core::error::ConfigError;
use damper_core::numerics::digest::Digested;
use damper_core::optimizer::{Builder, DECOUPLED, OPTIMIZERS, Optimizer, build};
use damper_core::slots::{OptimizerSlot, StatefulSlot};
use damper_core::state::SaveState;
use damper_onnx::SettingError;
use std::iter;

/// Most settings of an optimizer.
const MOST: usize = 8;

/// How parameters follow: an optimizer and its settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rule {
    description: &'static Description,
    /// Those of the description, in order.
    values: [f64; MOST],
}

impl Rule {
    /// The optimizer of this name (`sgd`, `momentum`, `adamw`, …: [`OPTIMIZERS`] lists them with their settings), with its default
    /// settings but for these. Their ranges are checked when the run is prepared.
    ///
    /// # Errors
    ///
    /// There is no such optimizer or setting.
    pub fn new(name: &str, settings: &[(&str, f64)]) -> Result<Self, SettingError> {
        let named = OPTIMIZERS.iter().find_map(|description| {
            let (_, defaults) = description.names.iter().find(|(of, _)| *of == name)?;
            Some((description, *defaults))
        });
        let Some((description, defaults)) = named else {
            let names: Vec<_> = OPTIMIZERS.iter().flat_map(|of| of.names).map(|(name, _)| *name).collect();
            return Err(SettingError::new("optimizer", name, format!("use one of {}", names.join(", "))));
        };
        let place = |name: &str| description.settings.iter().position(|setting| setting.name == name);
        let mut values = [0.0; MOST];
        values[..defaults.len()].copy_from_slice(defaults);
        for (setting, value) in settings {
            let Some(i) = place(setting) else {
                let names: Vec<_> = description.settings.iter().map(|setting| setting.name).collect();
                let problem = format!("'{setting}' is no setting of it; use {}", names.join(", "));
                return Err(SettingError::new("optimizer", name, problem));
            };
            values[i] = *value;
            if let Some(computed) = place(description.settings[i].unless) {
                values[computed] = 0.0;
            }
        }
        Ok(Self { description, values })
    }

    /// Names, and kinds in recordings.
    #[must_use]
    pub fn description(&self) -> &'static Description {
        self.description
    }

    /// Each setting with its value.
    pub fn settings(&self) -> impl Iterator<Item = (&'static Setting, f64)> {
        iter::zip(self.description.settings, self.values)
    }

    /// The value of the setting of this name; `None` if the optimizer has none.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.settings().find(|(setting, _)| setting.name == name).map(|(_, value)| value)
    }

    /// The value of its switch or words; `None` if it has neither.
    pub(crate) fn switch(&self) -> Option<bool> {
        let is_switch = |setting: &Setting| matches!(setting.kind, Kind::Switch | Kind::Words(_));
        self.settings().find(|(setting, _)| is_switch(setting)).map(|(_, value)| value != 0.0)
    }

    /// The optimizer and its state for `dim` parameters.
    pub(super) fn build(&self, dim: usize) -> Result<(OptimizerSlot, OptimizerState), ConfigError> {
        let built = build(Boxed { wanted: self.description, values: self.values.into_iter(), dim })?;
        Ok(built.expect("the description is of the list"))
    }

    pub(super) fn decay(&self) -> Decay {
        match self.settings().find(|(setting, _)| setting.name == DECOUPLED.name) {
            None | Some((_, 0.0)) => Decay::None,
            Some((setting, decay)) if *setting == DECOUPLED => Decay::Decoupled(decay),
            Some(_) => Decay::Penalty,
        }
    }
}

impl Default for Rule {
    /// SGD without momentum.
    fn default() -> Self {
        Self::new("sgd", &[]).expect("SGD is an optimizer")
    }
}

/// What weight decay is to an optimizer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Decay {
    None,
    /// Part of the gradient.
    Penalty,
    /// `λ`, apart from it.
    Decoupled(f64),
}

/// Builds an optimizer in a box.
struct Boxed {
    wanted: &'static Description,
    values: std::array::IntoIter<f64, MOST>,
    dim: usize,
}

impl Values for Boxed {
    fn f32(&mut self) -> f32 {
        self.f64() as f32
    }

    fn f64(&mut self) -> f64 {
        self.values.next().unwrap_or(f64::NAN)
    }

    fn switch(&mut self) -> bool {
        self.f64() != 0.0
    }
}

impl Builder<'static> for Boxed {
    type Vector = Vec<f32>;
    type Built = (OptimizerSlot, OptimizerState);
    type Error = ConfigError;

    fn wants(&mut self, description: &Description) -> bool {
        description == self.wanted
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn zeros(&mut self, len: usize) -> Result<Vec<f32>, ConfigError> {
        Ok(vec![0.0; len])
    }

    fn take<O, S>(self, optimizer: O, state: S) -> Result<Self::Built, ConfigError>
    where
        O: Optimizer<S> + Digested<S> + 'static,
        S: SaveState + 'static,
    {
        Ok(boxed(StatefulSlot::optimizer(optimizer, state)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_refused_with_the_known() {
        let error = Rule::new("lamb", &[]).unwrap_err().to_string();
        assert!(error.contains("adam-bc, adagrad"), "{error}");
        let error = Rule::new("rmsprop", &[("momentum", 0.9)]).unwrap_err().to_string();
        assert!(error.contains("alpha, epsilon, weight_decay"), "{error}");
    }

    #[test]
    fn a_given_floor_is_no_computed_one() {
        let switch = |settings: &[_]| Rule::new("adam-bc", settings).unwrap().switch();
        assert_eq!((switch(&[]), switch(&[("floor", 1e-6)])), (Some(true), Some(false)));
        assert!(OPTIMIZERS.iter().all(|of| of.settings.len() <= MOST));
    }
}
