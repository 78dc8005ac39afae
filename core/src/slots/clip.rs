//! Any rule of clipping.

use crate::clip::{Automatic, Clip, FlatL2, Layers};
use crate::noise::sealed::Sealed;

/// Flat or automatic clipping, of all coordinates together or of each layer on its own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AnyClip<'a> {
    automatic: Option<Automatic>,
    layers: Option<Layers<'a>>,
}

impl<'a> AnyClip<'a> {
    /// [`FlatL2`].
    pub const FLAT: Self = Self { automatic: None, layers: None };

    /// [`Automatic`].
    #[must_use]
    pub fn automatic(rule: Automatic) -> Self {
        Self { automatic: Some(rule), layers: None }
    }

    /// The same rule in each of these layers: [`PerLayer`](crate::clip::PerLayer).
    #[must_use]
    pub fn by_layer(self, layers: Layers<'a>) -> Self {
        Self { layers: Some(layers), ..self }
    }
}

impl Sealed for AnyClip<'_> {}

impl Clip for AnyClip<'_> {
    fn divisor(&self, norm: f32, clip: f32) -> f32 {
        match &self.automatic {
            None => FlatL2.divisor(norm, clip),
            Some(rule) => rule.divisor(norm, clip),
        }
    }

    fn layers(&self) -> Option<Layers<'_>> {
        self.layers
    }
}
