//! Rules of clipping.

use damper_core::clip::{Automatic, Clip, FlatL2, Layer, Layers, PerLayer};
use damper_core::error::ConfigError;

/// What one sample may add.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Clipping {
    /// All parameters together, to the threshold at most.
    Flat,
    /// Each parameter tensor on its own, with equal shares.
    PerLayer,
    /// All parameters together, normalised: AUTO-S.
    Automatic {
        /// Its stability constant `γ`.
        stability: f32,
    },
}

impl Clipping {
    /// The layers for parameters of these lengths; none but for per-layer clipping.
    pub(crate) fn layers(self, lengths: &[usize]) -> Vec<Layer> {
        match self {
            Self::PerLayer => lengths.iter().map(|length| Layer::equal(*length, lengths.len())).collect(),
            Self::Flat | Self::Automatic { .. } => vec![],
        }
    }

    /// The rule over these layers.
    pub(crate) fn build(self, layers: &[Layer]) -> Result<AnyClip<'_>, ConfigError> {
        Ok(match self {
            Self::Flat => AnyClip::Flat(FlatL2),
            Self::PerLayer => AnyClip::PerLayer(PerLayer::new(FlatL2, Layers::new(layers)?)?),
            Self::Automatic { stability } => AnyClip::Automatic(Automatic::new(stability)?),
        })
    }
}

/// A rule of the core.
#[derive(Clone, Copy)]
pub(crate) enum AnyClip<'a> {
    Flat(FlatL2),
    PerLayer(PerLayer<'a, FlatL2>),
    Automatic(Automatic),
}

impl Clip for AnyClip<'_> {
    fn divisor(&self, norm: f32, clip: f32) -> f32 {
        match self {
            Self::Flat(rule) => rule.divisor(norm, clip),
            Self::PerLayer(rule) => rule.divisor(norm, clip),
            Self::Automatic(rule) => rule.divisor(norm, clip),
        }
    }

    fn layers(&self) -> Option<Layers<'_>> {
        match self {
            Self::PerLayer(rule) => rule.layers(),
            Self::Flat(_) | Self::Automatic(_) => None,
        }
    }
}
