//! Values that are appended block by block, in memory, or in an unnamed file above a limit.

use super::file_values::{FileValues, Room};
use super::number::Number;
use crate::DataError;
use std::fs::File;
use std::io::Write;

/// Number of values read at once.
const BLOCK: usize = 1 << 18;

/// An element type of value files.
pub(crate) trait Element: Copy {
    const WIDTH: usize;
    fn values(held: Held<Self>) -> Values;
    fn encode(values: &[Self], bytes: &mut Vec<u8>);
    fn decode(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! element {
    ($type:ty, $kind:ident) => {
        impl Element for $type {
            const WIDTH: usize = size_of::<$type>();
            fn values(held: Held<Self>) -> Values {
                Values::$kind(held)
            }
            fn encode(values: &[Self], bytes: &mut Vec<u8>) {
                bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            }
            fn decode(bytes: &[u8]) -> Vec<Self> {
                bytes.as_chunks().0.iter().map(|bytes| <$type>::from_le_bytes(*bytes)).collect()
            }
        }
    };
}

element!(u8, U8);
element!(i64, I64);
element!(u64, U64);
element!(f32, F32);
element!(f64, F64);

/// One byte for the kind, and eight for the number.
impl Element for Number {
    const WIDTH: usize = 9;

    fn values(held: Held<Self>) -> Values {
        Values::Numbers(held)
    }

    fn encode(values: &[Self], bytes: &mut Vec<u8>) {
        for value in values {
            let (kind, number) = match *value {
                Self::Int(value) => (0, value.to_le_bytes()),
                Self::Large(value) => (1, value.to_le_bytes()),
                Self::Float(value) => (2, value.to_le_bytes()),
                Self::Single(value) => (3, u64::from(value.to_bits()).to_le_bytes()),
            };
            bytes.push(kind);
            bytes.extend(number);
        }
    }

    fn decode(bytes: &[u8]) -> Vec<Self> {
        let number = |[kind, number @ ..]: &[u8; 9]| match kind {
            0 => Self::Int(i64::from_le_bytes(*number)),
            1 => Self::Large(u64::from_le_bytes(*number)),
            2 => Self::Float(f64::from_le_bytes(*number)),
            _ => Self::Single(f32::from_bits(u64::from_le_bytes(*number) as u32)),
        };
        bytes.as_chunks().0.iter().map(number).collect()
    }
}

/// Values of a type that is known after reading.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    /// Bytes, such as pixels. As features they are scaled to [0, 1].
    U8(Held<u8>),
    I64(Held<i64>),
    U64(Held<u64>),
    F32(Held<f32>),
    F64(Held<f64>),
    /// Values of a table column.
    Numbers(Held<Number>),
}

/// Values of one type.
#[derive(Clone, Debug)]
pub(crate) enum Held<T> {
    Memory(Vec<T>),
    File(FileValues),
}

impl<T: Element> Held<T> {
    pub fn len(&self) -> usize {
        match self {
            Held::Memory(values) => values.len(),
            Held::File(values) => values.len(),
        }
    }

    /// Returns all values in memory.
    pub fn into_memory(self) -> Result<Vec<T>, DataError> {
        if let Held::Memory(values) = self {
            return Ok(values);
        }
        let mut all = Vec::with_capacity(self.len());
        self.blocks(1, |_, block| {
            all.extend_from_slice(block);
            Ok(())
        })?;
        Ok(all)
    }

    /// Returns the values in file format. Values in memory become bytes in memory.
    pub fn into_file_values(self) -> FileValues {
        match self {
            Held::Memory(values) => {
                let mut bytes = Vec::with_capacity(values.len() * T::WIDTH);
                T::encode(&values, &mut bytes);
                FileValues::in_memory(bytes, values.len())
            }
            Held::File(values) => values,
        }
    }

    /// Passes all values to `reader`, in whole rows of `row` values, with the index of the first row.
    pub fn blocks(
        &self,
        row: usize,
        mut reader: impl FnMut(usize, &[T]) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let rows = (BLOCK / row.max(1)).max(1);
        let mut bytes = Vec::new();
        for from in (0..self.len()).step_by(rows * row.max(1)) {
            let count = (self.len() - from).min(rows * row.max(1));
            match self {
                Held::Memory(values) => reader(from / row.max(1), &values[from..from + count])?,
                Held::File(values) => {
                    bytes.resize(count * T::WIDTH, 0);
                    values.read((from * T::WIDTH) as u64, &mut bytes)?;
                    reader(from / row.max(1), &T::decode(&bytes))?;
                }
            }
        }
        Ok(())
    }
}

impl Values {
    pub fn f64s(values: Vec<f64>) -> Self {
        Values::F64(Held::Memory(values))
    }

    /// Passes all values to `reader`, in whole rows of `row` values, with the index of the first row.
    pub fn blocks(
        &self,
        row: usize,
        mut reader: impl FnMut(usize, &[Number]) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let mut numbers = Vec::new();
        let mut as_numbers = |first: usize, values: &mut dyn Iterator<Item = Number>| {
            numbers.clear();
            numbers.extend(values);
            reader(first, &numbers)
        };
        macro_rules! read {
            ($held:expr) => {
                $held.blocks(row, |first, block| as_numbers(first, &mut block.iter().map(|value| Number::from(*value))))
            };
        }
        match self {
            Values::U8(held) => read!(held),
            Values::I64(held) => read!(held),
            Values::U64(held) => read!(held),
            Values::F32(held) => read!(held),
            Values::F64(held) => read!(held),
            Values::Numbers(held) => held.blocks(row, reader),
        }
    }
}

/// Collects values block by block.
pub(crate) struct Sink<T> {
    room: Room,
    values: Vec<T>,
    file: Option<File>,
    written: usize,
}

impl<T: Element> Sink<T> {
    pub fn new(room: &Room) -> Self {
        Self { room: room.clone(), values: Vec::new(), file: None, written: 0 }
    }

    /// Creates a sink that always writes to a file.
    pub fn in_file(room: &Room) -> Self {
        Self::new(&Room { memory: 0, ..room.clone() })
    }

    pub fn push(&mut self, values: &[T]) -> Result<(), DataError> {
        self.values.extend_from_slice(values);
        let full = if self.file.is_some() {
            self.values.len() >= BLOCK
        } else {
            !self.room.holds(self.values.len(), T::WIDTH)
        };
        if full { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), DataError> {
        if self.file.is_none() {
            self.file = Some(self.room.file()?);
        }
        let mut bytes = Vec::new();
        for block in self.values.chunks(BLOCK) {
            bytes.clear();
            T::encode(block, &mut bytes);
            let file = self.file.as_mut().expect("it was made above");
            file.write_all(&bytes).map_err(|error| self.room.failed(&error))?;
        }
        self.written += self.values.len();
        self.values = Vec::new();
        Ok(())
    }

    /// Returns all values.
    pub fn values(self) -> Result<Values, DataError> {
        self.finish().map(T::values)
    }

    /// Returns all values, in their type.
    pub fn finish(mut self) -> Result<Held<T>, DataError> {
        if self.file.is_some() {
            self.flush()?;
        }
        match self.file {
            None => Ok(Held::Memory(self.values)),
            Some(file) => Ok(Held::File(FileValues::in_file(file, self.written, self.room))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_memory_read_back_equal() {
        let folder = tempfile::tempdir().unwrap();
        let all: Vec<f32> = (0..1000).map(|at| at as f32 / 3.0).collect();
        for memory in [None, Some(4000), Some(3999), Some(100), Some(0)] {
            let mut sink = Sink::new(&Room::new(memory, Some(folder.path())));
            all.chunks(7).for_each(|block| sink.push(block).unwrap());
            let held = sink.finish().unwrap();
            assert_eq!(matches!(held, Held::File(_)), memory.is_some_and(|memory| memory < 4000), "{memory:?}");
            let mut back = Vec::new();
            held.blocks(5, |first, block| {
                assert_eq!((first * 5, block.len() % 5), (back.len(), 0));
                back.extend_from_slice(block);
                Ok(())
            })
            .unwrap();
            assert_eq!(back, all);
        }
        // The file has no name.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn numbers_read_back_in_their_kind() {
        let folder = tempfile::tempdir().unwrap();
        let all = [
            Number::Int(-5),
            Number::Large(u64::MAX),
            Number::Float(-0.0),
            Number::Single(f32::MIN_POSITIVE),
            Number::NAN,
        ];
        let mut sink = Sink::new(&Room::new(Some(0), Some(folder.path())));
        sink.push(&all).unwrap();
        let values = sink.values().unwrap();
        assert!(matches!(values, Values::Numbers(Held::File(_))));
        let mut back = vec![];
        let read = values.blocks(1, |_, block| {
            back.extend_from_slice(block);
            Ok(())
        });
        read.unwrap();
        assert_eq!(back[..4], all[..4]);
        assert!(back.len() == 5 && matches!(back[4], Number::Float(value) if value.is_nan()));
    }

    #[test]
    fn a_folder_without_room_is_named() {
        let folder = tempfile::tempdir().unwrap().path().join("gone");
        let mut sink = Sink::new(&Room::new(Some(0), Some(&folder)));
        let message = sink.push(&[1u8]).unwrap_err().to_string();
        assert!(message.contains("gone") && message.contains("`cache`"), "{message}");
    }
}
