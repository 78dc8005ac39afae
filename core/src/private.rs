//! The privacy boundary between private and released values.
//!
//! A sum of clipped gradients has no accessor. Only a [`Mechanism`] turns it into a [`Released`] gradient, and filters
//! and optimizers accept nothing else. Code that passes raw gradients to the parameters does not compile:
//!
//! ```compile_fail,E0308
//! use damper_core::optimizer::{Begin, Optimizer, Sgd, SgdState};
//! fn raw(sgd: &Sgd, state: &mut SgdState<[f32; 1]>, released: &damper_core::private::Released<'_>, grad: &[f32]) {
//!     let step = sgd.begin(state, Begin { lr: 1.0, noise_std: 0.0 });
//!     sgd.update(step, state, 0, &mut [0.0], grad, released);
//! }
//! ```
//!
//! ```compile_fail,E0451
//! use damper_core::private::Released;
//! let grad = [1.0f32];
//! let forged = Released { grad: &grad, noise_std: 0.0 };
//! ```
//!
//! A mean that no mechanism released needs a token from `damper-access`. Only a crate that names `damper-access` in its
//! own `Cargo.toml` can create the token. Other attempts do not compile:
//!
//! ```compile_fail,E0061
//! let forged = damper_core::private::Released::not_private(&[1.0f32]);
//! ```
//!
//! ```compile_fail,E0277
//! let forged = damper_core::private::Released::not_private(&[1.0f32], Default::default());
//! ```
//!
//! ```compile_fail,E0423
//! let access = damper_access::NotPrivate(());
//! ```
//!
//! ```compile_fail,E0616
//! fn peek(sum: damper_core::private::ClippedSum<'_, i64>) -> i64 {
//!     sum.sum[0]
//! }
//! ```
//!
//! A sum is stored in the caller's memory, as [`SumWord`]s. They have no accessor:
//!
//! ```compile_fail,E0616
//! fn peek(word: damper_core::private::SumWord<i64>) -> i64 {
//!     word.0
//! }
//! ```
//!
//! The methods of a [`Mechanism`] that read or move these words take a parameter that only this crate can create. A
//! bound on the sealed trait therefore does not give access to them. Otherwise a generator of zeros would release a sum
//! without noise:
//!
//! ```compile_fail,E0061
//! use damper_core::private::Mechanism;
//! fn peek<M: Mechanism>(words: &mut [M::Word], zeros: &mut impl rand_core::Rng, mechanism: M, out: &mut [f32]) {
//!     mechanism.release(1.0, 1, words, zeros, out);
//! }
//! ```
//!
//! ```compile_fail,E0061
//! fn peek<M: damper_core::private::Mechanism>(word: M::Word) -> f32 {
//!     M::load_released(word)
//! }
//! ```
//!
//! ```compile_fail,E0603
//! use damper_core::noise::sealed::Inside;
//! ```
//!
//! # Traits
//!
//! Some traits are sealed, because an implementation would receive values that are not released, or would determine the
//! privacy cost:
//!
//! - [`Mechanism`] and [`Word`](crate::grid::Word): sums.
//! - [`Clip`]: the norm of every sample.
//! - [`Counts`](crate::count::Counts): exact counts.
//! - [`Generator`](crate::noise::Generator): the noise.
//! - [`Schedule`](crate::schedule::Schedule): the noise of each step, so the privacy cost.
//!
//! ```compile_fail,E0277
//! #[derive(Clone, Copy)]
//! struct Spy(i32);
//! impl damper_core::count::Counts for Spy {
//!     type Released = [f64; 1];
//!     const ZERO: Self = Self(0);
//!     const NONE: [f64; 1] = [0.0];
//!     fn as_mut(&mut self) -> &mut [i32] {
//!         core::slice::from_mut(&mut self.0)
//!     }
//!     fn as_ref(&self) -> &[i32] {
//!         core::slice::from_ref(&self.0)
//!     }
//! }
//! ```
//!
//! ```compile_fail,E0277
//! #[derive(Clone, Copy, PartialEq, Debug, Default)]
//! struct Spy(i64);
//! impl damper_core::grid::Word for Spy {
//!     fn wrapping_add(self, other: Self) -> Self {
//!         println!("{other:?}");
//!         self
//!     }
//!     fn wrap(x: i64) -> Self {
//!         Self(x)
//!     }
//!     fn to_f32(self) -> f32 {
//!         0.0
//!     }
//!     fn store_released(_: f32) -> Self {
//!         self::Spy(0)
//!     }
//!     fn load_released(self) -> f32 {
//!         0.0
//!     }
//! }
//! ```
//!
//! ```compile_fail,E0277
//! struct Silent;
//! impl damper_core::noise::Generator for Silent {
//!     type Stream<'a> = damper_core::noise::FastStream;
//!     fn is_private(&self) -> bool {
//!         true
//!     }
//!     fn stream(&self, _: damper_core::noise::Address) -> Self::Stream<'_> {
//!         unimplemented!()
//!     }
//! }
//! ```
//!
//! Other traits are open, because an implementation receives only released values, public constants and its own state:
//!
//! - [`Filter`](crate::filter::Filter) and [`Optimizer`](crate::optimizer::Optimizer): [`Released`] and the parameters.
//! - [`Threshold`](crate::threshold::Threshold): [`ReleasedCounts`](crate::count::ReleasedCounts) and constants.
//! - The objects of [`slots`](crate::slots): the same.
//! - [`Store`](crate::accounting::Store): numbers of charged steps.
//! - [`SaveState`](crate::state::SaveState) and [`Digested`](crate::numerics::digest::Digested): the state of the
//!   others.
//!
//! The privacy boundary separates the parts of a step. It does not protect against a caller who already has the
//! samples' gradients or the generator. Code that can request a stream from the generator can compute the noise and
//! subtract it. A [`Key`](crate::noise::Key) is therefore as secret as the data.
//!
//! Values computed from released values are released. [`ReleasedBuffer`] collects segments, and [`Released::projected`]
//! changes the basis. Neither accepts values from elsewhere:
//!
//! ```compile_fail,E0451
//! use damper_core::private::ReleasedBuffer;
//! let forged = ReleasedBuffer { grad: [1.0f32], noise_std: 0.0, kept: true };
//! ```

mod not_private;
mod word;

pub use word::SumWord;

use crate::clip::Clip;
use crate::error::{CallError, ConfigError};
use crate::noise::Participation;
use crate::noise::sealed::{Inside, Sealed};
use crate::numerics::basis::Basis;
use crate::numerics::digest::Digest;
use rand_core::Rng;

/// Summation and release of clipped gradients. Sealed: another implementation could invalidate the privacy proof.
///
/// ```
/// use damper_core::grid::Grid;
/// use damper_core::noise::DiscreteGaussian;
/// use damper_core::private::Mechanism as _;
///
/// let mechanism = DiscreteGaussian::<i32>::with_multiplier(Grid::new(16)?, 1.0)?;
/// assert_eq!(mechanism.scaled(2.0).multiplier(), 2.0);
/// assert!(mechanism.check_clip(0.0).is_err() && mechanism.check_noise().is_ok());
/// assert_eq!(mechanism.participation(), None);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
pub trait Mechanism: Copy + PartialEq + Sealed {
    /// One word of a sum: a [`SumWord`].
    type Word: Copy + Default;
    /// Noise state from step to step: `()` if the noise of steps is independent.
    type NoiseState;
    /// The noise state as borrowed for one release. The caller's memory is requested once.
    #[doc(hidden)]
    type Lent<'s>
    where
        Self: 's;
    /// True if a step may need the noise of the previous step again.
    #[doc(hidden)]
    const DRAWS_AGAIN: bool = false;

    /// Returns the standard deviation of the noise divided by the clip, as it runs.
    fn multiplier(&self) -> f64;

    /// Returns the participation pattern that the privacy cost assumes, or `None` if each step is accounted separately.
    fn participation(&self) -> Option<Participation> {
        None
    }

    /// Adds to the digest everything that the privacy cost of the noise depends on.
    #[doc(hidden)]
    fn add_to(&self, digest: &mut Digest);

    /// Checks that the arithmetic can represent `clip`.
    ///
    /// # Errors
    ///
    /// Fails if `clip` is zero, negative, not finite, or too small for the arithmetic.
    fn check_clip(&self, clip: f32) -> Result<(), ConfigError>;

    /// Checks that the accountant covers this noise.
    ///
    /// # Errors
    ///
    /// Fails if the noise is so small that the accountant's bounds do not hold for it.
    fn check_noise(&self) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Returns this mechanism with `factor` times its standard deviation, rounded up and within its range. Step `t` of
    /// a noise schedule uses it. A factor of 1 returns the mechanism unchanged.
    #[must_use]
    fn scaled(&self, factor: f64) -> Self;

    /// Clips and adds one sample, and returns its norm before clipping. If the norm is not finite, adds nothing and
    /// returns `None`.
    #[doc(hidden)]
    fn add_sample<C: Clip>(
        &self,
        clip: &C,
        threshold: f32,
        parts: &[&[f32]],
        sum: &mut [Self::Word],
        inside: Inside,
    ) -> Option<f32>;

    /// Adds each of `samples` in turn, with the bits of [`add_sample`](Self::add_sample). Passes the norms to `each`.
    #[doc(hidden)]
    #[inline(always)]
    fn add_samples<C: Clip>(
        &self,
        clip: &C,
        threshold: f32,
        samples: &[&[&[f32]]],
        sum: &mut [Self::Word],
        mut each: impl FnMut(Option<f32>),
        inside: Inside,
    ) {
        samples.iter().for_each(|parts| each(self.add_sample(clip, threshold, parts, sum, inside)));
    }

    #[doc(hidden)]
    fn merge(&self, sum: &mut [Self::Word], other: &[Self::Word], inside: Inside);

    /// Returns the noise state for any chunk of coordinates if chunks are independent. Any number of workers may then
    /// draw chunks.
    #[doc(hidden)]
    fn independent_state<'s>() -> Option<Self::Lent<'s>>
    where
        Self: 's,
    {
        None
    }

    /// Borrows the noise state. Fails unless it fits a sum of `dim` words.
    #[doc(hidden)]
    fn lend<'s>(&self, state: &'s mut Self::NoiseState, dim: usize) -> Result<Self::Lent<'s>, CallError>
    where
        Self: 's;

    /// Prepares the noise state for this step. Returns the standard deviation of the step's noise divided by that of
    /// independent noise.
    #[doc(hidden)]
    fn begin(&self, _state: &mut Self::Lent<'_>, _step: u32, _inside: Inside) -> f64 {
        1.0
    }

    /// Returns true if this step needs the noise of the previous step again.
    #[doc(hidden)]
    fn draws_again(&self, _state: &Self::Lent<'_>) -> bool {
        false
    }

    /// Marks this step as released.
    #[doc(hidden)]
    fn end(&self, _state: &mut Self::Lent<'_>, _step: u32, _inside: Inside) {}

    /// Adds noise to `sum`, the coordinates from `at`. Writes the mean over the batch to `out` and wipes `sum`.
    ///
    /// `words_and_before` has the random words of this step, and those of the previous step if they are drawn again.
    /// Arguments come in pairs because a struct of all of them costs code size on devices.
    #[doc(hidden)]
    fn release<R: Rng>(
        &self,
        threshold_and_batch: (f32, u32),
        sum: &mut [Self::Word],
        at_and_state: (usize, &mut Self::Lent<'_>),
        words_and_before: (&mut R, Option<&mut R>),
        out: &mut [f32],
        inside: Inside,
    );

    /// Converts a released value to a word, to store it in the memory of the sum, which is free by then.
    #[doc(hidden)]
    fn store_released(released: f32, inside: Inside) -> Self::Word;

    /// Reads a released value back from a word.
    #[doc(hidden)]
    fn load_released(word: Self::Word, inside: Inside) -> f32;
}

/// Sum over samples (`[D]`) without an accessor. Creating it wipes the memory, and dropping it wipes the memory again.
///
/// This is the only way to turn memory into a sum. Words left by a forgotten step or shard are therefore never used.
///
/// ```
/// use damper_core::prelude::*;
///
/// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(4).build()?;
/// let (mut state, mut ledger) = (config.state::<2>(), Ledger::volatile(1));
/// let mut step = config.open(&mut state, &mut ledger)?;
/// step.add(&[0.5, -0.2])?;
/// // A step that is dropped wipes its `ClippedSum`, and has released nothing.
/// drop(step);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ClippedSum<'a, W: Copy + Default> {
    pub(crate) sum: &'a mut [W],
}

impl<'a, W: Copy + Default> ClippedSum<'a, W> {
    /// Creates an empty sum in the caller's memory.
    pub(crate) fn new(sum: &'a mut [W]) -> Self {
        sum.fill(W::default());
        Self { sum }
    }
}

impl<W: Copy + Default> ClippedSum<'_, W> {
    /// Wipes all words outside `block` and keeps `block` as the sum. Returns the number of words left.
    pub(crate) fn narrow(&mut self, block: core::ops::Range<usize>) -> usize {
        let (head, rest) = core::mem::take(&mut self.sum).split_at_mut_checked(block.start).unwrap_or_default();
        let (own, tail) = rest.split_at_mut(block.len().min(rest.len()));
        // Dropping each part wipes it.
        drop([ClippedSum { sum: head }, ClippedSum { sum: tail }]);
        self.sum = own;
        self.sum.len()
    }
}

impl<W: Copy + Default> Drop for ClippedSum<'_, W> {
    fn drop(&mut self) {
        self.sum.fill(W::default());
        // The barrier keeps the wipe even if the caller frees the memory next.
        zeroize::optimization_barrier(self.sum);
    }
}

/// A segment of a released mean gradient: consecutive coordinates. Public.
///
/// ```
/// use core::num::NonZeroUsize;
/// use damper_access::NotPrivate;
/// use damper_core::numerics::basis::{Basis, Side};
/// use damper_core::private::Released;
///
/// // A step makes it. Here it is the mean of a baseline without privacy.
/// let released = Released::not_private(&[1.0, 2.0, 3.0, 4.0], NotPrivate::claim());
/// assert_eq!((released.grad(), released.noise_std()), (&[1.0, 2.0, 3.0, 4.0][..], 0.0));
/// let mut row = [0.0; 2];
/// let basis = Basis::new(&[1.0, 0.0], NonZeroUsize::MIN, Side::Left)?;
/// assert_eq!(released.projected(&basis, &mut row)?.grad(), [1.0, 2.0]);
/// # Ok::<(), damper_core::error::CallError>(())
/// ```
pub struct Released<'a> {
    grad: &'a [f32],
    noise_std: f64,
}

impl<'a> Released<'a> {
    pub(crate) fn new(grad: &'a [f32], noise_std: f64) -> Self {
        Self { grad, noise_std }
    }

    /// Returns the coordinates.
    #[must_use]
    pub fn grad(&self) -> &'a [f32] {
        self.grad
    }

    /// Returns the standard deviation of the noise in each coordinate of the released gradient: `multiplier · C / B`. A
    /// filtered gradient has the value of the gradient that it was computed from.
    #[must_use]
    pub fn noise_std(&self) -> f64 {
        self.noise_std
    }

    /// Projects this segment, which is one complete matrix, onto a basis. Writes the coordinates to `out`.
    ///
    /// The result is a linear image of a released value. It is therefore released if the basis is a function of
    /// released values and public constants. Computing the image here, not in the caller, leaves the basis as the only
    /// assumption.
    ///
    /// The standard deviation of the noise is unchanged if the basis is orthonormal and does not depend on this noise.
    /// A basis chosen from this noise captures more of it than a fixed basis.
    ///
    /// # Errors
    ///
    /// Fails if the lengths do not match.
    pub fn projected<'b>(&self, basis: &Basis<'_>, out: &'b mut [f32]) -> Result<Released<'b>, CallError> {
        basis.project(self.grad, out)?;
        Ok(Released { grad: out, noise_std: self.noise_std })
    }
}

/// A complete released gradient (`[D]`), for code that needs more than a segment at a time. It accepts released values
/// only.
///
/// ```
/// use damper_access::NotPrivate;
/// use damper_core::private::{Released, ReleasedBuffer};
///
/// let mut buffer = ReleasedBuffer::new([0.0; 4]);
/// assert!(buffer.piece(0, 4).is_none(), "nothing is released yet");
/// for (at, part) in [(0, [1.0, 2.0]), (2, [3.0, 4.0])] {
///     buffer.keep(at, &Released::not_private(&part, NotPrivate::claim()));
/// }
/// assert_eq!(buffer.dim(), 4);
/// assert_eq!(buffer.piece(1, 2).map(|piece| piece.grad().to_vec()), Some(vec![2.0, 3.0]));
/// ```
pub struct ReleasedBuffer<B> {
    grad: B,
    noise_std: f64,
    /// True after the first store. Before that, there is nothing released to load.
    kept: bool,
}

impl<B: AsMut<[f32]> + AsRef<[f32]>> ReleasedBuffer<B> {
    /// Creates a buffer of zeros in the caller's memory.
    pub fn new(mut grad: B) -> Self {
        grad.as_mut().fill(0.0);
        Self { grad, noise_std: 0.0, kept: false }
    }

    /// Returns the number of coordinates, `D`.
    pub fn dim(&self) -> usize {
        self.grad.as_ref().len()
    }

    /// Stores a segment of this step's gradient, from coordinate `at`, over that of the last step.
    pub fn keep(&mut self, at: usize, released: &Released<'_>) {
        let rest = self.grad.as_mut().get_mut(at..).unwrap_or_default();
        for (kept, grad) in rest.iter_mut().zip(released.grad) {
            *kept = *grad;
        }
        self.noise_std = released.noise_std;
        self.kept = true;
    }

    /// Returns the segment `at..at + len`. Returns `None` before the first store, or if the segment ends past the
    /// gradient.
    pub fn piece(&self, at: usize, len: usize) -> Option<Released<'_>> {
        let grad = self.grad.as_ref().get(at..)?.get(..len)?;
        self.kept.then_some(Released { grad, noise_std: self.noise_std })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::basis::Side;
    use core::num::NonZeroUsize;

    #[test]
    fn what_is_kept_is_zeros_or_was_released() {
        let mut kept = ReleasedBuffer::new([f32::NAN, 3.0, 4.0, 5.0]);
        assert!(kept.dim() == 4 && kept.piece(0, 4).is_none());
        kept.keep(2, &Released::new(&[1.0, 2.0, 3.0], 0.5));
        kept.keep(9, &Released::new(&[1.0], 0.5));
        let whole = kept.piece(0, 4).unwrap();
        assert_eq!((whole.grad(), whole.noise_std()), (&[0.0, 0.0, 1.0, 2.0][..], 0.5));
        assert_eq!(kept.piece(3, 1).unwrap().grad(), [2.0]);
        assert!(kept.piece(3, 2).is_none() && kept.piece(9, 0).is_none());
    }

    // A projected release is the basis times the gradient, and keeps the standard deviation of its noise.
    #[test]
    fn projection_keeps_noise_std() {
        let basis = Basis::new(&[0.6, 0.8], NonZeroUsize::MIN, Side::Left).unwrap();
        let mut out = [9.0f32; 2];
        let released = Released::new(&[1.0, 2.0, 3.0, 4.0], 0.25);
        let projected = released.projected(&basis, &mut out).unwrap();
        assert_eq!((projected.grad(), projected.noise_std()), (&[0.6 + 0.8 * 3.0, 1.2 + 0.8 * 4.0][..], 0.25));
        assert!(released.projected(&basis, &mut [0.0; 3]).is_err());
    }
}
