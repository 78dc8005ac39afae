//! Rules of clipping.

use damper_core::clip::{Automatic, Layer, Layers};
use damper_core::error::ConfigError;
use damper_core::slots::AnyClip;

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
            Self::Flat => AnyClip::FLAT,
            Self::PerLayer => AnyClip::FLAT.by_layer(Layers::new(layers)?),
            Self::Automatic { stability } => AnyClip::automatic(Automatic::new(stability)?),
        })
    }
}
