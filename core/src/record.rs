//! The bytes of methods in recordings: a kind, then numbers in order, little-endian.
//!
//! A method writes its numbers and reads them back in its own file ([`ToRecord`], [`FromRecord`]). The player of recordings chooses among
//! the methods of a slot by their kinds. A program that neither records nor plays links nothing of it.

use crate::error::ConfigError;
use crate::state::SaveState;

/// Memory for a vector of a state.
pub trait StateVector: AsRef<[f32]> + AsMut<[f32]> {}

impl<B: AsRef<[f32]> + AsMut<[f32]>> StateVector for B {}

/// Takes the bytes of a recording.
pub trait RecordSink {
    /// Takes `bytes`, which come next.
    fn put(&mut self, bytes: &[u8]);
}

impl dyn RecordSink + '_ {
    /// A byte.
    pub fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    /// Four bytes.
    pub fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    /// The four bytes of a float's bits.
    pub fn f32(&mut self, value: f32) {
        self.u32(value.to_bits());
    }

    /// The eight bytes of a float's bits.
    pub fn f64(&mut self, value: f64) {
        self.put(&value.to_bits().to_le_bytes());
    }
}

/// Gives the bytes of a recording, and memory for the states of what it holds. A source that has ended gives zeros.
pub trait RecordSource {
    /// A vector of a state.
    type Vector: StateVector;
    /// Why nothing is read.
    type Error: From<ConfigError>;

    /// A byte.
    fn u8(&mut self) -> u8;

    /// Four bytes.
    fn u32(&mut self) -> u32;

    /// The float of four bytes.
    fn f32(&mut self) -> f32;

    /// The float of eight bytes.
    fn f64(&mut self) -> f64;

    /// Fills `out` with floats of four bytes.
    fn f32s(&mut self, out: &mut [f32]);

    /// The error of a field, `what`, whose value no recording has.
    fn wrong(what: &'static str) -> Self::Error;

    /// Number of parameters.
    fn dim(&self) -> usize;

    /// A vector of so many zeros.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    fn zeros(&mut self, len: usize) -> Result<Self::Vector, Self::Error>;
}

/// A method with a state of type `S`, as recordings have it before the first step.
pub trait ToRecord<S> {
    /// The method's kind; `None` if no recording has it.
    fn kind(&self, _state: &S) -> Option<u8> {
        None
    }

    /// Writes the method's numbers, which follow its kind.
    fn write(&self, _state: &S, _sink: &mut dyn RecordSink) {}
}

/// A method that recordings have.
pub trait FromRecord: Sized {
    /// The method's state, with vectors of type `B`.
    type State<B: StateVector>: SaveState;

    /// The method's kinds.
    const KINDS: &'static [u8];

    /// Reads the method of this kind, one of [`KINDS`](Self::KINDS), and makes its state.
    ///
    /// # Errors
    ///
    /// A number out of its range, or no memory.
    #[allow(clippy::type_complexity)] // A method and its state.
    fn read<R: RecordSource>(kind: u8, source: &mut R) -> Result<(Self, Self::State<R::Vector>), R::Error>;
}

/// The switch over the methods of a slot that recordings have. A method is of a type with the bounds, in which `S` is the type of its
/// state.
macro_rules! recorded {
    ($(<$most:ident>)?: { $($bound:tt)+ }; $($method:ty),+) => {
        /// Takes a method of whatever type it is.
        pub trait Take<'a>: $crate::record::RecordSource<Vector: 'a> + Sized {
            /// The result of taking it.
            type Taken;

            /// Takes the method and its state.
            ///
            /// # Errors
            ///
            /// Whatever stops the caller.
            fn take<M, S>(self, method: M, state: S) -> Result<Self::Taken, Self::Error>
            where
                M: $($bound)+ + 'a,
                S: $crate::state::SaveState + 'a;
        }

        /// Reads the method of this kind and hands it over; `None` if there is no such kind.
        ///
        /// # Errors
        ///
        /// A number out of its range, or those of `source`.
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
