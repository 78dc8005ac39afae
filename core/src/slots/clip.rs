//! Clipping rule chosen at run time.

use crate::clip::{AnyRule, Automatic, Clip, Layers};
use crate::noise::sealed::Sealed;

/// Any clipping rule, over all coordinates together or for each layer.
///
/// ```
/// use damper_core::clip::{AnyRule, Automatic, Clip as _, Layer, Layers};
/// use damper_core::slots::AnyClip;
///
/// assert_eq!(AnyClip::of(AnyRule::Flat), AnyClip::FLAT);
/// assert_eq!(AnyClip::automatic(Automatic::new(0.5)?).divisor(3.0, 1.0), 3.5);
/// let parts = [Layer::equal(640, 2), Layer::equal(10, 2)];
/// let by_layer = AnyClip::FLAT.by_layer(Layers::new(&parts)?);
/// assert!(by_layer.layers().is_some() && by_layer.rule() == AnyRule::Flat);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AnyClip<'a> {
    rule: AnyRule,
    layers: Option<Layers<'a>>,
}

impl<'a> AnyClip<'a> {
    /// Flat clipping: [`FlatL2`](crate::clip::FlatL2).
    pub const FLAT: Self = Self { rule: AnyRule::Flat, layers: None };

    /// Creates automatic clipping: [`Automatic`].
    #[must_use]
    pub fn automatic(rule: Automatic) -> Self {
        Self::of(AnyRule::Automatic(rule))
    }

    /// Creates a clip from this rule.
    #[must_use]
    pub const fn of(rule: AnyRule) -> Self {
        Self { rule, layers: None }
    }

    /// Returns the rule, without its layers.
    #[must_use]
    pub const fn rule(self) -> AnyRule {
        self.rule
    }

    /// Applies the rule in each of these layers: [`PerLayer`](crate::clip::PerLayer).
    #[must_use]
    pub fn by_layer(self, layers: Layers<'a>) -> Self {
        Self { layers: Some(layers), ..self }
    }
}

impl Sealed for AnyClip<'_> {}

impl Clip for AnyClip<'_> {
    fn divisor(&self, norm: f32, clip: f32) -> f32 {
        self.rule.divisor(norm, clip)
    }

    fn layers(&self) -> Option<Layers<'_>> {
        self.layers
    }
}
