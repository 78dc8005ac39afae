//! Clip rules by name.

use super::by_name::ByName;
use crate::state::replay::PackWriter;
use damper_core::clip::{AnyRule, Automatic, Layer, Layers};
use damper_core::error::ConfigError;
use damper_core::slots::AnyClip;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The bound on a sample's contribution.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "kebab-case", rename_all_fields = "snake_case", deny_unknown_fields)]
pub enum Clipping {
    /// The whole gradient, to a norm of at most the clip.
    #[default]
    Flat,
    /// Each tensor separately, to a norm of at most an equal share of the clip.
    PerLayer,
    /// The whole gradient, normalised to the clip (AUTO-S).
    Automatic {
        /// automatic clipping: the constant that keeps small gradients small [default: 0.01]
        #[schemars(extend("x-value" = "G", "x-flag" = "auto_clip_gamma", "x-alias" = "stability"))]
        gamma: f32,
    },
}

impl ByName for Clipping {
    const SETTING: &'static str = "clipping";

    fn named() -> Vec<(&'static str, Self)> {
        vec![("flat", Self::Flat), ("per-layer", Self::PerLayer), ("automatic", Self::Automatic { gamma: 0.01 })]
    }
}

impl Clipping {
    /// Returns true if each parameter tensor is clipped separately, with equal shares.
    #[must_use]
    pub fn is_per_layer(&self) -> bool {
        *self == Self::PerLayer
    }

    /// Returns the layers for parameters of these lengths. Only per-layer clipping has layers.
    pub(crate) fn layers(&self, lengths: &[usize]) -> Vec<Layer> {
        let layers = lengths.iter().filter(|_| self.is_per_layer());
        layers.map(|length| Layer::equal(*length, lengths.len())).collect()
    }

    /// Returns the rule without layers.
    fn rule(&self) -> Result<AnyRule, ConfigError> {
        Ok(match *self {
            Self::Flat | Self::PerLayer => AnyRule::Flat,
            Self::Automatic { gamma } => AnyRule::Automatic(Automatic::new(gamma)?),
        })
    }

    /// Builds the rule over these layers.
    pub(crate) fn build<'a>(&self, layers: &'a [Layer]) -> Result<AnyClip<'a>, ConfigError> {
        let clip = AnyClip::of(self.rule()?);
        Ok(if self.is_per_layer() { clip.by_layer(Layers::new(layers)?) } else { clip })
    }

    /// Writes the rule over these layers in the recording format.
    pub(crate) fn record(&self, layers: &[Layer], pack: &mut PackWriter) -> Result<(), ConfigError> {
        self.rule()?.write(pack);
        pack.u8(layers.len() as u8);
        for Layer { len, share } in layers {
            pack.u32(*len as u32);
            pack.u32(*share);
        }
        Ok(())
    }
}
