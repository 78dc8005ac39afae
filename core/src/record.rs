//! Bytes of methods in recordings: a kind, then numbers in order, little-endian.
//!
//! A method writes and reads its numbers in its own file ([`ToRecord`], [`FromRecord`]). The player of recordings
//! selects a method of a slot by its kind. A program that neither records nor plays links none of this code.

use crate::error::ConfigError;
use crate::state::SaveState;

/// Memory for a vector of a state.
///
/// ```
/// use damper_core::record::StateVector;
///
/// fn len(vector: &impl StateVector) -> usize {
///     vector.as_ref().len()
/// }
/// assert_eq!((len(&[0.0; 3]), len(&vec![0.0; 5])), (3, 5));
/// ```
pub trait StateVector: AsRef<[f32]> + AsMut<[f32]> {}

impl<B: AsRef<[f32]> + AsMut<[f32]>> StateVector for B {}

/// Receives the bytes of a recording.
///
/// ```
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
/// let sink: &mut dyn RecordSink = &mut bytes;
/// sink.u8(1);
/// sink.u32(2);
/// sink.f32(0.5);
/// sink.f64(0.5);
/// assert_eq!(bytes.0.len(), 1 + 4 + 4 + 8);
/// ```
pub trait RecordSink {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);
}

impl dyn RecordSink + '_ {
    /// Writes a byte.
    pub fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    /// Writes four bytes.
    pub fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    /// Writes the bits of a float, in four bytes.
    pub fn f32(&mut self, value: f32) {
        self.u32(value.to_bits());
    }

    /// Writes the bits of a float, in eight bytes.
    pub fn f64(&mut self, value: f64) {
        self.put(&value.to_bits().to_le_bytes());
    }
}

/// Provides the bytes of a recording, and memory for the states in it. After its end, it provides zeros.
pub trait RecordSource {
    /// Vector of a state.
    type Vector: StateVector;
    /// Error of a read.
    type Error: From<ConfigError>;

    /// Reads a byte.
    fn u8(&mut self) -> u8;

    /// Reads four bytes.
    fn u32(&mut self) -> u32;

    /// Reads a float of four bytes.
    fn f32(&mut self) -> f32;

    /// Reads a float of eight bytes.
    fn f64(&mut self) -> f64;

    /// Fills `out` with floats of four bytes.
    fn f32s(&mut self, out: &mut [f32]);

    /// Returns the error for field `what` with a value that no recording has.
    fn wrong(what: &'static str) -> Self::Error;

    /// Returns the number of parameters.
    fn dim(&self) -> usize;

    /// Returns a vector of `len` zeros.
    ///
    /// # Errors
    ///
    /// Fails if there is not enough memory.
    fn zeros(&mut self, len: usize) -> Result<Self::Vector, Self::Error>;
}

/// A method with a state of type `S` that can be recorded, as it is before the first step.
///
/// ```
/// use damper_core::optimizer::{Sgd, SgdState};
/// use damper_core::record::{RecordSink, ToRecord as _};
///
/// struct Bytes(Vec<u8>);
/// impl RecordSink for Bytes {
///     fn put(&mut self, bytes: &[u8]) {
///         self.0.extend(bytes);
///     }
/// }
///
/// let (sgd, state, mut bytes) = (Sgd::new(0.5, true, 0.0)?, SgdState { momentum: [0.0; 3] }, Bytes(vec![]));
/// assert_eq!(sgd.kind(&state), Some(1));
/// sgd.write(&state, &mut bytes);
/// assert_eq!(bytes.0, [0.5f32.to_le_bytes(), 0.0f32.to_le_bytes()].concat());
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
pub trait ToRecord<S> {
    /// Returns the kind of the method, or `None` if recordings do not support it.
    fn kind(&self, _state: &S) -> Option<u8> {
        None
    }

    /// Writes the numbers of the method, which follow its kind.
    fn write(&self, _state: &S, _sink: &mut dyn RecordSink) {}
}

/// A method that recordings support.
///
/// ```
/// use damper_core::{error::ConfigError, optimizer::Sgd, record::{FromRecord as _, RecordSource}};
///
/// /// Reads a recording that is in memory.
/// struct Reader<'a>(&'a [u8]);
/// impl Reader<'_> {
///     fn take<const N: usize>(&mut self) -> [u8; N] {
///         let (first, rest) = self.0.split_first_chunk().expect("the recording is complete");
///         self.0 = rest;
///         *first
///     }
/// }
/// impl RecordSource for Reader<'_> {
///     type Vector = Vec<f32>;
///     type Error = ConfigError;
///     fn u8(&mut self) -> u8 { self.take::<1>()[0] }
///     fn u32(&mut self) -> u32 { u32::from_le_bytes(self.take()) }
///     fn f32(&mut self) -> f32 { f32::from_le_bytes(self.take()) }
///     fn f64(&mut self) -> f64 { f64::from_le_bytes(self.take()) }
///     fn f32s(&mut self, out: &mut [f32]) { out.fill_with(|| self.f32()) }
///     fn wrong(_: &'static str) -> ConfigError { Sgd::new(-1.0, false, 0.0).unwrap_err() }
///     fn dim(&self) -> usize { 3 }
///     fn zeros(&mut self, len: usize) -> Result<Vec<f32>, ConfigError> { Ok(vec![0.0; len]) }
/// }
///
/// let bytes = [0.5f32.to_le_bytes(), 0.0f32.to_le_bytes()].concat();
/// let (sgd, state) = Sgd::read(1, &mut Reader(&bytes))?;
/// assert_eq!((sgd, state.momentum), (Sgd::new(0.5, true, 0.0)?, vec![0.0; 3]));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
pub trait FromRecord: Sized {
    /// State of the method, with vectors of type `B`.
    type State<B: StateVector>: SaveState;

    /// Kinds of the method.
    const KINDS: &'static [u8];

    /// Reads the method of this kind, one of [`KINDS`](Self::KINDS), and creates its state.
    ///
    /// # Errors
    ///
    /// Fails if a number is out of its range, or there is not enough memory.
    #[allow(clippy::type_complexity)] // A method and its state.
    fn read<R: RecordSource>(kind: u8, source: &mut R) -> Result<(Self, Self::State<R::Vector>), R::Error>;
}

/// Defines the dispatch over the methods of a slot that recordings support. A method's type has the given bounds, in
/// which `S` is the type of its state.
macro_rules! recorded {
    ($(<$most:ident>)?: { $($bound:tt)+ }; $($method:ty),+) => {
        /// Receives a method of any type.
        pub trait Take<'a>: $crate::record::RecordSource<Vector: 'a> + Sized {
            /// Result of taking the method.
            type Taken;

            /// Takes the method and its state.
            ///
            /// # Errors
            ///
            /// The implementation defines the errors.
            fn take<M, S>(self, method: M, state: S) -> Result<Self::Taken, Self::Error>
            where
                M: $($bound)+ + 'a,
                S: $crate::state::SaveState + 'a;
        }

        /// Reads the method of this kind and passes it to `source`. Returns `None` if the kind is unknown.
        ///
        /// # Errors
        ///
        /// Fails if a number is out of its range, or with an error of `source`.
        pub fn read<'a, $(const $most: usize,)? T: Take<'a>>(
            kind: u8,
            mut source: T,
        ) -> Result<Option<T::Taken>, T::Error> {
            $(if <$method as $crate::record::FromRecord>::KINDS.contains(&kind) {
                let (method, state) = <$method as $crate::record::FromRecord>::read(kind, &mut source)?;
                return source.take(method, state).map(Some);
            })+
            Ok(None)
        }

        #[cfg(test)]
        pub(crate) const KINDS: &[&[u8]] = {
            $(const $most: usize = 8;)?
            &[$(<$method as $crate::record::FromRecord>::KINDS),+]
        };
    };
}

pub(crate) use recorded;

#[cfg(test)]
mod tests;
