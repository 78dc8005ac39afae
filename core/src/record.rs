//! Bytes of methods in recordings: a kind, then numbers in order, little-endian.
//!
//! A method writes and reads its numbers in its own file ([`ToRecord`], [`FromRecord`]). The player of recordings
//! selects a method of a slot by its kind. A program that neither records nor plays links none of this code.

use crate::error::ConfigError;
use crate::state::SaveState;

/// Memory for a vector of a state.
pub trait StateVector: AsRef<[f32]> + AsMut<[f32]> {}

impl<B: AsRef<[f32]> + AsMut<[f32]>> StateVector for B {}

/// Receives the bytes of a recording.
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
pub trait ToRecord<S> {
    /// Returns the kind of the method, or `None` if recordings do not support it.
    fn kind(&self, _state: &S) -> Option<u8> {
        None
    }

    /// Writes the numbers of the method, which follow its kind.
    fn write(&self, _state: &S, _sink: &mut dyn RecordSink) {}
}

/// A method that recordings support.
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
