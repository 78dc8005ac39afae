//! Arrays of the calling program, which has its samples in memory.

use std::sync::{Arc, Mutex};

/// The arrays of a training split and of a test split.
#[derive(Clone, Debug, Default)]
pub struct MemoryArrays {
    train: Arc<Mutex<Option<MemorySplit>>>,
    test: Arc<Mutex<Option<MemorySplit>>>,
    /// The names of the columns of both splits.
    columns: [Option<Vec<String>>; 2],
}

/// The samples of a split.
#[derive(Clone, Debug)]
pub struct MemorySplit {
    /// One array per model input, `[N, ...]`.
    pub features: Vec<MemoryArray>,
    /// Labels, `[N, ...]`. `None` if the model computes its loss from its inputs alone.
    pub labels: Option<MemoryArray>,
}

/// A row-major array.
#[derive(Clone, Debug)]
pub struct MemoryArray {
    /// The name of its model input, also used in messages.
    pub name: String,
    /// Extents, with the number of samples first.
    pub shape: Vec<usize>,
    /// The values, as many as the product of the extents.
    pub values: MemoryValues,
}

/// Values of an array.
#[derive(Clone, Debug)]
pub enum MemoryValues {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 64-bit floats, which are rounded to 32 bits after scaling.
    F64(Vec<f64>),
    /// 64-bit integers.
    I64(Vec<i64>),
    /// Unsigned 64-bit integers.
    U64(Vec<u64>),
}

/// Two values are equal if they refer to the same arrays.
impl PartialEq for MemoryArrays {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.train, &other.train) && Arc::ptr_eq(&self.test, &other.test)
    }
}

impl MemoryArrays {
    /// Creates the arrays of both splits.
    #[must_use]
    pub fn new(train: MemorySplit, test: Option<MemorySplit>) -> Self {
        Self { train: Arc::new(Mutex::new(Some(train))), test: Arc::new(Mutex::new(test)), columns: [None, None] }
    }

    /// Adds the column names of the training and of the test split: features only, in the order of the array's last
    /// axis. Each split must have one array `[N, columns]`. Both splits are reordered to the model's names, or to those
    /// of the training split. Another set of names is an error.
    #[must_use]
    pub fn with_columns(self, train: Option<Vec<String>>, test: Option<Vec<String>>) -> Self {
        Self { columns: [train, test], ..self }
    }

    /// Returns the names of the columns of `train` or `test`, if they have names.
    pub(crate) fn columns(&self, which: &str) -> Option<&[String]> {
        self.columns[usize::from(which != "train")].as_deref()
    }

    /// Returns the name and the extents of each array of the training split, unless it was already taken.
    pub(crate) fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let Ok(split) = self.train.lock() else { return vec![] };
        let arrays = split.iter().flat_map(|split| &split.features);
        arrays.map(|array| (array.name.clone(), array.shape.clone())).collect()
    }

    /// Takes the arrays of `train` or `test`. A second call returns `None`.
    pub(crate) fn take(&self, which: &str) -> Option<MemorySplit> {
        let place = match which {
            "train" => &self.train,
            "test" => &self.test,
            _ => return None,
        };
        place.lock().ok()?.take()
    }
}
