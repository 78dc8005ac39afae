//! The privacy boundary between private and released values.
//!
//! A sum of clipped gradients has no accessor: only a [`Mechanism`] turns it into a [`Released`] gradient, and filters and
//! optimizers accept nothing else. That raw gradients cannot reach the parameters is a compile error:
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
//! A mean that no mechanism released takes a value of `damper-access`, which a crate has if its own `Cargo.toml` names that one; nothing else
//! makes it:
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
//! A sum lies in the caller's memory, as [`SumWord`]s. They have no accessor:
//!
//! ```compile_fail,E0616
//! fn peek(word: damper_core::private::SumWord<i64>) -> i64 {
//!     word.0
//! }
//! ```
//!
//! and the methods of a [`Mechanism`] that read or move them take a parameter that only this crate can create, so a bound on
//! the sealed trait does not open them. Else a generator of zeros would release a sum without noise:
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
//! Sealed, because an implementation would be given values that are not released, or decides what is priced: [`Mechanism`] (sums),
//! [`Clip`] (the norm of every sample), [`Counts`](crate::count::Counts) (exact counts), [`Word`](crate::grid::Word) (sums),
//! [`Generator`](crate::noise::Generator) (the noise) and [`Schedule`](crate::schedule::Schedule) (the price).
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
//! Open, because an implementation is given released values, public constants and its own memory alone:
//! [`Filter`](crate::filter::Filter) and [`Optimizer`](crate::optimizer::Optimizer) ([`Released`] and the parameters),
//! [`Threshold`](crate::threshold::Threshold) ([`ReleasedCounts`](crate::count::ReleasedCounts) and constants), the objects of
//! [`slots`](crate::slots) (the same), [`Store`](crate::accounting::Store) (numbers of charged steps),
//! and [`SaveState`](crate::state::SaveState) and [`Digested`](crate::numerics::digest::Digested) (those memories).
//!
//! The privacy boundary is between the parts of a step. It does not hold a caller off who already has the samples' gradients, or the generator: whoever can
//! ask it for a stream can compute the noise and subtract it. So a [`Key`](crate::noise::Key) is as secret as the data.
//!
//! What is made of released values is released: [`ReleasedBuffer`] collects pieces, [`Released::projected`] takes coordinates.
//! Neither takes numbers from elsewhere:
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

/// Summation and release of clipped gradients. Sealed: a closed set, so that nobody passes one that breaks the proof.
pub trait Mechanism: Copy + PartialEq + Sealed {
    /// The type of a sum: a [`SumWord`].
    type Word: Copy + Default;
    /// The memory of the noise from step to step: none if the noise of steps is independent.
    type NoiseState;
    /// That memory for one release: the caller's code is asked for it once.
    #[doc(hidden)]
    type Lent<'s>
    where
        Self: 's;
    /// Returns true if a step may draw the noise of the step before again.
    #[doc(hidden)]
    const DRAWS_AGAIN: bool = false;

    /// Standard deviation of the noise over the clip, as it runs.
    fn multiplier(&self) -> f64;

    /// The steps of a sample that the price assumes, where steps are not priced one by one.
    fn participation(&self) -> Option<Participation> {
        None
    }

    /// Adds all that the price of the noise depends on.
    #[doc(hidden)]
    fn add_to(&self, digest: &mut Digest);

    /// Returns true if `clip` can be represented.
    ///
    /// # Errors
    ///
    /// Zero, negative, not finite, or too small for the arithmetic.
    fn check_clip(&self, clip: f32) -> Result<(), ConfigError>;

    /// Returns true if the noise can be accounted.
    ///
    /// # Errors
    ///
    /// It is so small that the accountant's bounds would not hold for it.
    fn check_noise(&self) -> Result<(), ConfigError> {
        Ok(())
    }

    /// This mechanism with noise of `factor` times its standard deviation, rounded up and within its range: step `t` of a
    /// noise schedule. A factor of 1 gives the mechanism itself.
    #[must_use]
    fn scaled(&self, factor: f64) -> Self;

    /// Adds one sample, clipped, and returns the norm it came with; adds nothing and returns nothing if that is not finite.
    #[doc(hidden)]
    fn add_sample<C: Clip>(
        &self,
        clip: &C,
        threshold: f32,
        parts: &[&[f32]],
        sum: &mut [Self::Word],
        inside: Inside,
    ) -> Option<f32>;

    /// As [`add_sample`](Self::add_sample) of each of `samples` in turn, with the same bits; the norms go to `each`.
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

    /// The memory of the noise of any chunk of coordinates, if chunks need none of each other: any number of workers may draw them.
    #[doc(hidden)]
    fn independent_state<'s>() -> Option<Self::Lent<'s>>
    where
        Self: 's,
    {
        None
    }

    /// The memory of the noise; fails unless it fits a sum of `dim` words.
    #[doc(hidden)]
    fn lend<'s>(&self, state: &'s mut Self::NoiseState, dim: usize) -> Result<Self::Lent<'s>, CallError>
    where
        Self: 's;

    /// Prepares the memory of the noise for this step; the standard deviation of the step's noise over that of independent noise.
    #[doc(hidden)]
    fn begin(&self, _state: &mut Self::Lent<'_>, _step: u32, _inside: Inside) -> f64 {
        1.0
    }

    /// Returns true if this step draws the noise of the step before again.
    #[doc(hidden)]
    fn draws_again(&self, _state: &Self::Lent<'_>) -> bool {
        false
    }

    /// Marks this step as released.
    #[doc(hidden)]
    fn end(&self, _state: &mut Self::Lent<'_>, _step: u32, _inside: Inside) {}

    /// Adds noise to `sum`, the coordinates from `at`, writes the mean over the batch to `out`, and wipes `sum`. The words before are those
    /// of the step before. Pairs cost a device no code, as a struct of all would.
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

    /// Puts a released value where the sum was, which is free by then.
    #[doc(hidden)]
    fn store_released(released: f32, inside: Inside) -> Self::Word;

    /// The released value that was put there.
    #[doc(hidden)]
    fn load_released(word: Self::Word, inside: Inside) -> f32;
}

/// A sum over samples that nobody can read (`[D]`). Creating it wipes the memory before anything is added, and dropping it wipes it
/// again. This is the one way in which memory becomes a sum, so words that a forgotten step or shard left are never used.
pub struct ClippedSum<'a, W: Copy + Default> {
    pub(crate) sum: &'a mut [W],
}

impl<'a, W: Copy + Default> ClippedSum<'a, W> {
    /// An empty sum in the caller's memory.
    pub(crate) fn new(sum: &'a mut [W]) -> Self {
        sum.fill(W::default());
        Self { sum }
    }
}

impl<W: Copy + Default> ClippedSum<'_, W> {
    /// Wipes all but the words `block`, which are the sum from now on; their number.
    pub(crate) fn narrow(&mut self, block: core::ops::Range<usize>) -> usize {
        let (head, rest) = core::mem::take(&mut self.sum).split_at_mut_checked(block.start).unwrap_or_default();
        let (own, tail) = rest.split_at_mut(block.len().min(rest.len()));
        // Each is wiped when it is dropped.
        drop([ClippedSum { sum: head }, ClippedSum { sum: tail }]);
        self.sum = own;
        self.sum.len()
    }
}

impl<W: Copy + Default> Drop for ClippedSum<'_, W> {
    fn drop(&mut self) {
        self.sum.fill(W::default());
        // Memory that the caller frees next is wiped, too.
        zeroize::optimization_barrier(self.sum);
    }
}

/// A piece of a released mean gradient: consecutive coordinates, public.
pub struct Released<'a> {
    grad: &'a [f32],
    noise_std: f64,
}

impl<'a> Released<'a> {
    pub(crate) fn new(grad: &'a [f32], noise_std: f64) -> Self {
        Self { grad, noise_std }
    }

    /// The coordinates.
    #[must_use]
    pub fn grad(&self) -> &'a [f32] {
        self.grad
    }

    /// Standard deviation of the noise in each coordinate of the gradient as it was released: `multiplier · C / B`. A filtered
    /// gradient says that of the one it was made from.
    #[must_use]
    pub fn noise_std(&self) -> f64 {
        self.noise_std
    }

    /// The coordinates of this piece, a whole matrix, in a basis; `out` is their memory.
    ///
    /// They are a linear image of a released value, hence released, if the basis itself is a function of released values
    /// and public constants; computing the image here rather than taking it from the caller leaves the basis as the one
    /// thing to get right. The standard deviation of the noise stays as it is if the basis is orthonormal and was not
    /// chosen by this very noise: one that was finds more of it than a fixed one.
    ///
    /// # Errors
    ///
    /// The lengths do not fit.
    pub fn projected<'b>(&self, basis: &Basis<'_>, out: &'b mut [f32]) -> Result<Released<'b>, CallError> {
        basis.project(self.grad, out)?;
        Ok(Released { grad: out, noise_std: self.noise_std })
    }
}

/// A released gradient kept whole (`[D]`), for what needs more than a piece at a time. Only released values get in.
pub struct ReleasedBuffer<B> {
    grad: B,
    noise_std: f64,
    /// Returns true if anything was stored: before, there is no released value to load.
    kept: bool,
}

impl<B: AsMut<[f32]> + AsRef<[f32]>> ReleasedBuffer<B> {
    /// Zeros in the caller's memory.
    pub fn new(mut grad: B) -> Self {
        grad.as_mut().fill(0.0);
        Self { grad, noise_std: 0.0, kept: false }
    }

    /// Number of coordinates, `D`.
    pub fn dim(&self) -> usize {
        self.grad.as_ref().len()
    }

    /// Keeps a piece, `at..`, of this step's gradient in place of the last step's.
    pub fn keep(&mut self, at: usize, released: &Released<'_>) {
        let rest = self.grad.as_mut().get_mut(at..).unwrap_or_default();
        for (kept, grad) in rest.iter_mut().zip(released.grad) {
            *kept = *grad;
        }
        self.noise_std = released.noise_std;
        self.kept = true;
    }

    /// The piece `at..at + len`; none before anything was kept, and where the gradient ends before.
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

    // A projected release is the basis times the gradient, and keeps its noise deviation.
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
