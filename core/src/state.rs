//! Serialization of the state of filters, thresholds and optimizers, to save it over a restart.
//!
//! A [`SaveState`] visits its values in a fixed order, so code that saves them does not depend on their owner. [`save`]
//! converts them to bytes, and [`restore`] converts bytes to values.
//!
//! # Format
//!
//! Little-endian, without padding:
//!
//! | at | bytes | content |
//! | ---: | ---: | --- |
//! | 0 | 8 | magic, `DAMPERST` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | number of charged steps at the time of saving |
//! | 16 | 8 | shape: [`Digest`] of each owner's name and number of values, in order |
//! | 24 | | the values: 4 bytes for an f32 or a count, 8 for an f64 |
//! | | 8 | checksum: [`Digest`] of all bytes before |
//!
//! The shape distinguishes methods and lengths, but not the settings of a configuration. The checksum detects damage,
//! not forgery.
//!
//! # Privacy
//!
//! All of the state is a function of released values. It is as public as the parameters. Changing it costs
//! accuracy and not privacy. The sum of an open step and the key are excluded.

use crate::numerics::digest::Digest;
use core::fmt;

/// Values of a state, or the name of the owner of the next values.
///
/// ```
/// use damper_core::state::{SaveState, StateField};
///
/// /// A count with its name.
/// struct Visits(u32);
/// impl SaveState for Visits {
///     fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
///         take(StateField::Owner("visits"));
///         take(StateField::Count(&mut self.0));
///     }
/// }
///
/// let mut visits = Visits(3);
/// visits.each(&mut |field| {
///     if let StateField::Count(count) = field {
///         *count += 1;
///     }
/// });
/// assert_eq!(visits.0, 4);
/// ```
#[derive(Debug)]
pub enum StateField<'a> {
    /// Name of the owner of the next values.
    Owner(&'static str),
    /// Vector.
    Floats(&'a mut [f32]),
    /// Scalar of a step.
    Double(&'a mut f64),
    /// Count.
    Count(&'a mut u32),
}

/// State that persists from step to step, and is saved over a restart.
///
/// ```
/// use damper_core::state::{SaveState as _, StateField};
///
/// let (mut params, mut lengths) = ([0.5f32; 3], vec![]);
/// params.each(&mut |field| {
///     if let StateField::Floats(floats) = field {
///         lengths.push(floats.len());
///     }
/// });
/// assert_eq!(lengths, [3]);
/// ```
pub trait SaveState {
    /// Passes every value to `take`, in a fixed order. `take` may change it.
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>));
}

impl SaveState for () {
    fn each(&mut self, _take: &mut dyn FnMut(StateField<'_>)) {}
}

/// Parameters.
impl SaveState for [f32] {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        take(StateField::Owner("params"));
        take(StateField::Floats(self));
    }
}

impl<const D: usize> SaveState for [f32; D] {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        self.as_mut_slice().each(take);
    }
}

/// Visits both in turn, such as parameters and a [`StepState`](crate::step::StepState).
impl<A: SaveState, B: SaveState> SaveState for (A, B) {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        self.0.each(take);
        self.1.each(take);
    }
}

impl<M: SaveState + ?Sized> SaveState for &mut M {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        (**self).each(take);
    }
}

const MAGIC: [u8; 8] = *b"DAMPERST";
const VERSION: u32 = 1;
/// Number of bytes before the values.
const HEAD: usize = 24;
/// Number of bytes after the values.
const CHECKSUM: usize = 8;

/// Cause of a failed restore. Nothing was changed.
///
/// ```
/// use damper_core::state::{RestoreError, restore, save};
///
/// let mut bytes = vec![];
/// save(&mut [1.0f32, 2.0], 5, |part| bytes.extend(part));
/// assert_eq!(restore(&mut [0.0f32; 3], 5, &bytes), Err(RestoreError::Shape));
/// assert_eq!(restore(&mut [0.0f32; 2], 4, &bytes), Err(RestoreError::LedgerBehind));
/// bytes[30] ^= 1;
/// assert_eq!(restore(&mut [0.0f32; 2], 5, &bytes), Err(RestoreError::Damaged));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum RestoreError {
    /// The bytes are not from [`save`], or were damaged.
    Damaged,
    /// The state belongs to another method or another number of parameters.
    Shape,
    /// The state was saved after more steps than are charged: the ledger was rolled back.
    LedgerBehind,
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Damaged => "the bytes are not a saved state, or were damaged",
            Self::Shape => "the state is of another method or of another number of parameters",
            Self::LedgerBehind => "the state was saved after more steps than are charged",
        })
    }
}

impl core::error::Error for RestoreError {}

/// Returns the digest of the shape, and the number of bytes of the values.
fn shape(memory: &mut dyn SaveState) -> (u64, usize) {
    let (mut digest, mut bytes) = (Digest::default(), 0usize);
    memory.each(&mut |numbers| {
        let (tag, len) = match numbers {
            StateField::Owner(name) => return digest.add_bytes(name.as_bytes()),
            StateField::Floats(floats) => (1, floats.len().saturating_mul(4)),
            StateField::Double(_) => (2, 8),
            StateField::Count(_) => (3, 4),
        };
        digest.add_bytes(&[tag]);
        digest.add_bytes(&(len as u64).to_le_bytes());
        bytes = bytes.saturating_add(len);
    });
    (digest.value(), bytes)
}

/// Returns the number of bytes that [`save`] writes.
///
/// ```
/// use damper_core::state::{save, saved_len};
///
/// let (mut params, mut len) = ([0.0f32; 10], 0);
/// save(&mut params, 0, |part| len += part.len());
/// assert_eq!(saved_len(&mut params), len);
/// ```
pub fn saved_len(memory: &mut dyn SaveState) -> usize {
    shape(memory).1.saturating_add(HEAD + CHECKSUM)
}

/// Writes the bytes of a state after `paid` charged steps to `sink`, from the first to the last.
///
/// ```
/// use damper_core::prelude::*;
/// use damper_core::state::{restore, save};
///
/// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).momentum(0.9).expected_batch(1).build()?;
/// let (mut state, mut params, mut ledger) = (config.state::<2>(), [0.0f32; 2], Ledger::volatile(1));
/// let mut step = config.open(&mut state, &mut ledger)?;
/// step.add(&[0.5, 0.5])?;
/// step.finish(&mut params, &NoiseRng::simulation(1))?;
/// let mut bytes = vec![];
/// save(&mut (&mut params, &mut state), ledger.charged_steps(), |part| bytes.extend(part));
///
/// let (mut after, mut again) = ([0.0f32; 2], config.state::<2>());
/// restore(&mut (&mut after, &mut again), ledger.charged_steps(), &bytes)?;
/// assert_eq!(after, params);
/// assert_eq!(again.optimizer.momentum, state.optimizer.momentum);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn save(memory: &mut dyn SaveState, paid: u32, mut sink: impl FnMut(&[u8])) {
    let (shape, _) = shape(memory);
    let mut digest = Digest::default();
    let mut put = |bytes: &[u8]| {
        digest.add_bytes(bytes);
        sink(bytes);
    };
    put(&MAGIC);
    put(&VERSION.to_le_bytes());
    put(&paid.to_le_bytes());
    put(&shape.to_le_bytes());
    memory.each(&mut |numbers| match numbers {
        StateField::Owner(_) => {}
        StateField::Floats(floats) => floats.iter().for_each(|float| put(&float.to_bits().to_le_bytes())),
        StateField::Double(double) => put(&double.to_bits().to_le_bytes()),
        StateField::Count(count) => put(&count.to_le_bytes()),
    });
    let checksum = digest.value();
    sink(&checksum.to_le_bytes());
}

/// Returns the next bytes. Returns zeros past the end, which cannot happen because the length was checked.
fn next<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    match bytes.split_first_chunk::<N>() {
        Some((first, rest)) => {
            *bytes = rest;
            *first
        }
        None => [0; N],
    }
}

/// Restores a state of this shape from all of `bytes`. `paid` is the number of charged steps.
///
/// # Errors
///
/// Fails if the bytes are damaged, have another shape, or were saved after more steps.
///
/// ```
/// use damper_core::state::{restore, save};
///
/// let mut bytes = vec![];
/// save(&mut [1.0f32, 2.0], 5, |part| bytes.extend(part));
/// let mut params = [0.0f32; 2];
/// assert_eq!(restore(&mut params, 5, &bytes), Ok(()));
/// assert_eq!(params, [1.0, 2.0]);
/// ```
pub fn restore(memory: &mut dyn SaveState, paid: u32, bytes: &[u8]) -> Result<(), RestoreError> {
    let (shape, len) = shape(memory);
    let (whole, mut checksum) =
        bytes.split_at_checked(bytes.len().saturating_sub(CHECKSUM)).ok_or(RestoreError::Damaged)?;
    let mut digest = Digest::default();
    digest.add_bytes(whole);
    let mut rest = whole;
    if bytes.len() < HEAD + CHECKSUM
        || digest.value() != u64::from_le_bytes(next(&mut checksum))
        || next(&mut rest) != MAGIC
        || u32::from_le_bytes(next(&mut rest)) != VERSION
    {
        return Err(RestoreError::Damaged);
    }
    let saved = u32::from_le_bytes(next(&mut rest));
    if u64::from_le_bytes(next(&mut rest)) != shape || rest.len() != len {
        return Err(RestoreError::Shape);
    }
    if saved > paid {
        return Err(RestoreError::LedgerBehind);
    }
    memory.each(&mut |numbers| match numbers {
        StateField::Owner(_) => {}
        StateField::Floats(floats) => {
            floats.iter_mut().for_each(|float| *float = f32::from_bits(u32::from_le_bytes(next(&mut rest))));
        }
        StateField::Double(double) => *double = f64::from_bits(u64::from_le_bytes(next(&mut rest))),
        StateField::Count(count) => *count = u32::from_le_bytes(next(&mut rest)),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{Filter, Iir, IirState, PerSampleMomentum, PerSampleMomentumState};
    use crate::optimizer::{AdaGradState, AdamState, RmsPropState};
    use crate::slots::StatefulSlot;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn bytes_of(memory: &mut dyn SaveState, paid: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        save(memory, paid, |part| bytes.extend_from_slice(part));
        bytes
    }

    fn adam(x: f32, power: f64) -> AdamState<[f32; 3]> {
        let mut state = AdamState::new([x, -x, 1e-45], [x; 3]);
        (state.beta1_power, state.beta2_power) = (power, power / 3.0);
        state
    }

    /// Bytes written by hand from the table above.
    #[test]
    fn the_format_is_the_documented_one() {
        let bytes = bytes_of(&mut AdaGradState { sum: [1.0f32, -0.0] }, 7);
        let mut shape = Digest::default();
        shape.add_bytes(b"adagrad\x01\x08\x00\x00\x00\x00\x00\x00\x00");
        let mut expected = b"DAMPERST\x01\x00\x00\x00\x07\x00\x00\x00".to_vec();
        expected.extend(shape.value().to_le_bytes());
        expected.extend(b"\x00\x00\x80\x3f\x00\x00\x00\x80");
        let mut checksum = Digest::default();
        checksum.add_bytes(&expected);
        expected.extend(checksum.value().to_le_bytes());
        assert_eq!(bytes, expected);
        assert_eq!(saved_len(&mut AdaGradState { sum: [0.0f32; 2] }), expected.len());
    }

    // A state of another method or length is an error, and so is an older ledger.
    #[test]
    fn wrong_shape_or_old_ledger_is_error() {
        let bytes = bytes_of(&mut AdaGradState { sum: [1.0f32; 4] }, 5);
        let mut rmsprop = RmsPropState { second: [9.0f32; 4] };
        assert_eq!(restore(&mut rmsprop, 5, &bytes), Err(RestoreError::Shape));
        assert_eq!(rmsprop.second, [9.0; 4]);
        assert_eq!(restore(&mut AdaGradState { sum: [9.0f32; 3] }, 5, &bytes), Err(RestoreError::Shape));
        let mut same = AdaGradState { sum: [9.0f32; 4] };
        assert_eq!(restore(&mut same, 4, &bytes), Err(RestoreError::LedgerBehind));
        assert_eq!(same.sum, [9.0; 4]);
        assert_eq!(restore(&mut same, 6, &bytes), Ok(()));
        assert_eq!(same.sum, [1.0; 4]);
    }

    // Every truncation and every changed byte is an error.
    #[test]
    fn detects_truncation_and_byte_changes() {
        let bytes = bytes_of(&mut adam(0.5, 0.25), 3);
        for at in 0..bytes.len() {
            assert_eq!(restore(&mut adam(1.0, 1.0), 9, &bytes[..at]), Err(RestoreError::Damaged), "cut at {at}");
            for change in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= change;
                assert!(restore(&mut adam(1.0, 1.0), 9, &damaged).is_err(), "byte {at} ^ {change}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_saved_is_restored(x in any::<f32>(), power in any::<f64>(), paid in any::<u32>()) {
            let bytes = bytes_of(&mut adam(x, power), paid);
            let mut fresh = adam(0.0, 1.0);
            prop_assert_eq!(restore(&mut fresh, paid, &bytes), Ok(()));
            prop_assert_eq!(bytes_of(&mut fresh, paid), bytes);
        }

        /// Counts that no run reaches are the worst that a forger can write. They do not cause a panic.
        #[test]
        fn whatever_is_restored_a_step_can_be_taken(slot in any::<u32>(), seen in any::<u32>(), index in 0usize..4) {
            let make = || {
                let inner = Iir::<2>::new(&[-0.9], &[0.1]).unwrap();
                let state = PerSampleMomentumState::new([0.5f32; 8], IirState::<_, 2>::new([0.25f32; 4]));
                (PerSampleMomentum::<_, 3>::new(3, 0.5, inner).unwrap(), state)
            };
            let (filter, mut state) = make();
            let mut counts = [slot, seen].into_iter();
            state.each(&mut |numbers| {
                if let StateField::Count(count) = numbers {
                    *count = counts.next().unwrap_or_default();
                }
            });
            prop_assert!(filter.eval_points(&state) <= 3);
            let _ = filter.eval_point(&state, index, &[0.0; 4], &mut [0.0; 4]);
            let step = filter.begin(&mut state);
            filter.before_update(step, &mut state, 0, &[1.0; 4]);
            filter.after_update(step, &mut state, 0, &[1.0; 4]);
            let mut held = StatefulSlot::filter(filter, state);
            let saved = bytes_of(&mut held, 0);
            let (filter, state) = make();
            prop_assert_eq!(restore(&mut StatefulSlot::filter(filter, state), 0, &saved), Ok(()));
        }
    }
}
