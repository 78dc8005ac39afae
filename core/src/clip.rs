//! Clipping: the bound on one sample's contribution.
//!
//! A rule of clipping turns the norm of a sample's mixed gradient into a divisor `d`: the sample adds `g · C/d`. That its
//! norm is at most `C` does not rest on the rule: it is enforced on what is summed, on the grid in integers (see
//! [`crate::grid`]), per layer where the rule has [`Layers`].
//!
//! # Timing
//!
//! A gradient whose squared norm is not finite is left early, and whether a norm is above its threshold may be a branch: both
//! depend on the sample.

mod automatic;
mod flat;
mod layers;
mod per_layer;
mod pieces;
mod rule;
mod segments;

pub use automatic::Automatic;
pub use flat::FlatL2;
pub use layers::{Layer, Layers};
pub use per_layer::PerLayer;
pub(crate) use pieces::Pieces;
pub use rule::Clip;
pub use segments::Segments;

use crate::numerics::function::sqrt_f32;
use crate::numerics::reduce::sum_of_squares;
use crate::record::{RecordSink, RecordSource};

/// A rule that is chosen when a program runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AnyRule {
    /// [`FlatL2`].
    Flat,
    /// [`Automatic`].
    Automatic(Automatic),
}

impl AnyRule {
    /// Writes the rule as recordings have it. Layers are apart from it.
    pub fn write(&self, sink: &mut dyn RecordSink) {
        match self {
            Self::Flat => sink.u8(0),
            Self::Automatic(rule) => {
                sink.u8(1);
                sink.f32(rule.gamma);
            }
        }
    }

    /// Reads a rule.
    ///
    /// # Errors
    ///
    /// There is no such rule, or a number is out of its range.
    pub fn read<R: RecordSource>(source: &mut R) -> Result<Self, R::Error> {
        match source.u8() {
            0 => Ok(Self::Flat),
            1 => Ok(Self::Automatic(Automatic::new(source.f32())?)),
            _ => Err(R::wrong("kind of clipping")),
        }
    }

    /// As [`Clip::divisor`].
    pub(crate) fn divisor(&self, norm: f32, clip: f32) -> f32 {
        match self {
            Self::Flat => FlatL2.divisor(norm, clip),
            Self::Automatic(rule) => rule.divisor(norm, clip),
        }
    }
}

/// The treatment of one layer of a sample before it is summed.
pub(crate) trait AddLayer<W> {
    /// Adds the layer's coordinates, which come in `pieces` and have this norm, clipped to its share of the threshold.
    fn add_layer(&self, layer: Layer, norm: f32, pieces: Pieces<'_>, sum: &mut [W]);
}

/// The norm of the gradient whose consecutive parts are `parts`, `len` coordinates; `None` if its square is not a finite f32.
#[inline(always)]
pub(crate) fn norm(parts: &[&[f32]], len: usize) -> Option<f32> {
    norm_of(sum_of_squares(Pieces::new(parts, 0, len)))
}

/// The norm whose square is `norm_sq`; `None` if that is not a finite f32.
#[inline(always)]
pub(crate) fn norm_of(norm_sq: f32) -> Option<f32> {
    norm_sq.is_finite().then(|| sqrt_f32(norm_sq))
}

/// Hands each layer of the gradient whose consecutive parts are `parts` to `to`, with its norm, its coordinates and its place
/// in `sum` (`[D]`); without layers the whole gradient is one. Returns the whole's norm; nothing is handed over if its square
/// is not a finite f32.
#[inline(always)]
pub(crate) fn each_layer<C: Clip, W>(clip: &C, parts: &[&[f32]], sum: &mut [W], to: &impl AddLayer<W>) -> Option<f32> {
    let norm = norm(parts, sum.len())?;
    let Some(layers) = clip.layers() else {
        let whole = Layer::whole(sum.len());
        to.add_layer(whole, norm, Pieces::new(parts, 0, whole.len), sum);
        return Some(norm);
    };
    let (mut at, mut rest) = (0usize, sum);
    for layer in layers.as_slice() {
        let (here, after) = rest.split_at_mut(layer.len.min(rest.len()));
        let pieces = Pieces::new(parts, at, layer.len);
        to.add_layer(*layer, sqrt_f32(sum_of_squares(pieces.clone())), pieces, here);
        at = at.saturating_add(layer.len);
        rest = after;
    }
    Some(norm)
}
