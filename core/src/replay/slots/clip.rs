//! Every rule of clipping.

use crate::clip::{Automatic, Clip, FlatL2, Layer, Layers, PerLayer};
use crate::noise::sealed::Sealed;
use crate::replay::error::PackError;
use crate::replay::grammar::MOST_LAYERS;
use crate::replay::pack::Reader;

#[derive(Clone, Copy)]
enum Rule {
    Flat(FlatL2),
    Automatic(Automatic),
}

/// A rule of clipping, and the layers that it clips each on its own.
#[derive(Clone, Copy)]
pub(in crate::replay) struct AnyClip<'a> {
    rule: Rule,
    layers: Option<Layers<'a>>,
}

impl Sealed for Rule {}

impl Clip for Rule {
    fn divisor(&self, norm: f32, clip: f32) -> f32 {
        match self {
            Self::Flat(rule) => rule.divisor(norm, clip),
            Self::Automatic(rule) => rule.divisor(norm, clip),
        }
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

impl<'a> AnyClip<'a> {
    pub(in crate::replay) fn read(
        pack: &mut Reader<'_>,
        memory: &'a mut [Layer; MOST_LAYERS],
    ) -> Result<Self, PackError> {
        let rule = match pack.u8() {
            0 => Rule::Flat(FlatL2),
            1 => Rule::Automatic(Automatic::new(pack.f32())?),
            _ => return Err(PackError::Field("kind of clipping")),
        };
        let count = usize::from(pack.u8());
        if count == 0 {
            return Ok(Self { rule, layers: None });
        }
        let layers = memory.get_mut(..count).ok_or(PackError::Field("number of layers"))?;
        for layer in &mut *layers {
            *layer = Layer { len: pack.u32() as usize, share: pack.u32() };
        }
        let layers = Layers::new(layers)?;
        // What a layered rule is checked for.
        PerLayer::new(rule, layers)?;
        Ok(Self { rule, layers: Some(layers) })
    }
}
