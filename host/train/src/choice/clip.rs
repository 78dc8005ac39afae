//! Rules of clipping.

use super::slot::Clipping;
use crate::replay::PackWriter;
use damper_core::clip::{AnyRule, Layer, Layers};
use damper_core::error::ConfigError;
use damper_core::slots::AnyClip;

impl Clipping {
    /// Returns true if each parameter tensor is clipped on its own, with equal shares.
    #[must_use]
    pub fn is_per_layer(&self) -> bool {
        self.get("layers") == Some(1.0)
    }

    /// The layers for parameters of these lengths; none but for per-layer clipping.
    pub(crate) fn layers(&self, lengths: &[usize]) -> Vec<Layer> {
        let layers = lengths.iter().filter(|_| self.is_per_layer());
        layers.map(|length| Layer::equal(*length, lengths.len())).collect()
    }

    /// The rule over these layers.
    pub(crate) fn build<'a>(&self, layers: &'a [Layer]) -> Result<AnyClip<'a>, ConfigError> {
        let rule = AnyRule::build(&mut self.builder(0))?.expect("the description is of the list");
        let clip = AnyClip::of(rule);
        Ok(if self.is_per_layer() { clip.by_layer(Layers::new(layers)?) } else { clip })
    }

    /// Writes the rule over these layers as recordings have it.
    pub(crate) fn record(&self, layers: &[Layer], pack: &mut PackWriter) -> Result<(), ConfigError> {
        AnyRule::build(&mut self.recorder(pack))?;
        pack.u8(layers.len() as u8);
        for Layer { len, share } in layers {
            pack.u32(*len as u32);
            pack.u32(*share);
        }
        Ok(())
    }
}
