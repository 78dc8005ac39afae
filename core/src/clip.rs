//! Clipping: the bound on one sample's contribution.
//!
//! A clipping rule maps the norm of a sample's combined gradient to a divisor `d`. The sample adds `g · C/d`.
//!
//! The bound `C` on its norm does not depend on the rule. The [grid](crate::grid) enforces it on the integers that are
//! summed, for each layer if the rule has [`Layers`].
//!
//! # Timing
//!
//! A gradient with a squared norm that is not finite is skipped early. The comparison of a norm with its threshold may
//! be a branch. Both depend on the sample.

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

/// Clipping rule chosen at run time.
///
/// ```
/// use damper_core::clip::{AnyRule, Automatic};
/// use damper_core::record::RecordSink;
///
/// struct Bytes(Vec<u8>);
/// impl RecordSink for Bytes {
///     fn put(&mut self, bytes: &[u8]) {
///         self.0.extend(bytes);
///     }
/// }
///
/// let mut bytes = Bytes(vec![]);
/// AnyRule::Automatic(Automatic::new(0.01)?).write(&mut bytes);
/// assert_eq!(bytes.0, [&[1], &0.01f32.to_le_bytes()[..]].concat());
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AnyRule {
    /// Flat clipping: [`FlatL2`].
    Flat,
    /// Automatic clipping: [`Automatic`].
    Automatic(Automatic),
}

impl AnyRule {
    /// Writes the rule in the format of recordings, without layers.
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
    /// Fails if the rule is unknown, or a value is out of its range.
    ///
    /// ```
    /// use damper_core::{clip::AnyRule, error::ConfigError, record::RecordSource, accounting::Rate};
    ///
    /// # struct Reader<'a>(&'a [u8]);
    /// # impl Reader<'_> {
    /// #     fn take<const N: usize>(&mut self) -> [u8; N] {
    /// #         let (first, rest) = self.0.split_first_chunk().expect("the recording is complete");
    /// #         self.0 = rest;
    /// #         *first
    /// #     }
    /// # }
    /// # impl RecordSource for Reader<'_> {
    /// #     type Vector = Vec<f32>;
    /// #     type Error = ConfigError;
    /// #     fn u8(&mut self) -> u8 { self.take::<1>()[0] }
    /// #     fn u32(&mut self) -> u32 { u32::from_le_bytes(self.take()) }
    /// #     fn f32(&mut self) -> f32 { f32::from_le_bytes(self.take()) }
    /// #     fn f64(&mut self) -> f64 { f64::from_le_bytes(self.take()) }
    /// #     fn f32s(&mut self, out: &mut [f32]) { out.fill_with(|| self.f32()) }
    /// #     fn wrong(_: &'static str) -> ConfigError { Rate::of(1, 0).unwrap_err() }
    /// #     fn dim(&self) -> usize { 3 }
    /// #     fn zeros(&mut self, len: usize) -> Result<Vec<f32>, ConfigError> { Ok(vec![0.0; len]) }
    /// # }
    /// assert_eq!(AnyRule::read(&mut Reader(&[0]))?, AnyRule::Flat);
    /// assert!(AnyRule::read(&mut Reader(&[9])).is_err());
    /// # Ok::<(), damper_core::error::ConfigError>(())
    /// ```
    pub fn read<R: RecordSource>(source: &mut R) -> Result<Self, R::Error> {
        match source.u8() {
            0 => Ok(Self::Flat),
            1 => Ok(Self::Automatic(Automatic::new(source.f32())?)),
            _ => Err(R::wrong("kind of clipping")),
        }
    }

    /// Returns the divisor, as [`Clip::divisor`] does.
    pub(crate) fn divisor(&self, norm: f32, clip: f32) -> f32 {
        match self {
            Self::Flat => FlatL2.divisor(norm, clip),
            Self::Automatic(rule) => rule.divisor(norm, clip),
        }
    }
}

/// Clips one layer of a sample and adds it to the sum.
pub(crate) trait AddLayer<W> {
    /// Adds the layer's coordinates in `pieces`, with norm `norm`, clipped to its share of the threshold.
    fn add_layer(&self, layer: Layer, norm: f32, pieces: Pieces<'_>, sum: &mut [W]);
}

/// Returns the norm of a gradient of `len` coordinates in consecutive `parts`, or `None` if its square is not a finite
/// f32.
#[inline(always)]
pub(crate) fn norm(parts: &[&[f32]], len: usize) -> Option<f32> {
    norm_of(sum_of_squares(Pieces::new(parts, 0, len)))
}

/// Returns the square root of `norm_sq`, or `None` if `norm_sq` is not a finite f32.
#[inline(always)]
pub(crate) fn norm_of(norm_sq: f32) -> Option<f32> {
    norm_sq.is_finite().then(|| sqrt_f32(norm_sq))
}

/// Passes each layer of the gradient in consecutive `parts` to `to`, with its norm, its coordinates and its part of
/// `sum` (`[D]`).
///
/// Without layers, the whole gradient is one layer. Returns the norm of the whole gradient. If its square is not a
/// finite f32, returns `None` and passes nothing.
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
