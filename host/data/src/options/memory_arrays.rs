//! Arrays of the program that calls, which holds its samples itself.

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
    /// One array a model input: `[N, ...]`.
    pub features: Vec<MemoryArray>,
    /// Labels, `[N, ...]`; none if the model computes its loss from its inputs alone.
    pub labels: Option<MemoryArray>,
}

/// A row-major array.
#[derive(Clone, Debug)]
pub struct MemoryArray {
    /// The model input that it is of, and what messages call it.
    pub name: String,
    /// Its extents, the number of samples first.
    pub shape: Vec<usize>,
    /// The values, as many as the extents give.
    pub values: MemoryValues,
}

/// Values of an array.
#[derive(Clone, Debug)]
pub enum MemoryValues {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 64-bit floats, which are rounded to 32 bits after they are scaled.
    F64(Vec<f64>),
    /// 64-bit integers.
    I64(Vec<i64>),
    /// 64-bit integers without a sign.
    U64(Vec<u64>),
}

/// Two are equal if they are of the same arrays.
impl PartialEq for MemoryArrays {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.train, &other.train) && Arc::ptr_eq(&self.test, &other.test)
    }
}

impl MemoryArrays {
    /// The arrays of both splits.
    #[must_use]
    pub fn new(train: MemorySplit, test: Option<MemorySplit>) -> Self {
        Self { train: Arc::new(Mutex::new(Some(train))), test: Arc::new(Mutex::new(test)), columns: [None, None] }
    }

    /// With the names of the columns of the training and of the test split, features alone, in the order of the array's last axis: of
    /// splits with one array `[N, columns]`. Both splits are put in the order of the model's names, or of the training split's; another
    /// set of names is an error.
    #[must_use]
    pub fn with_columns(self, train: Option<Vec<String>>, test: Option<Vec<String>>) -> Self {
        Self { columns: [train, test], ..self }
    }

    /// The names of the columns of `train` or `test`, if they have names.
    pub(crate) fn columns(&self, which: &str) -> Option<&[String]> {
        self.columns[usize::from(which != "train")].as_deref()
    }

    /// The name and the extents of each array of the training split, if it was not taken yet.
    pub(crate) fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let Ok(split) = self.train.lock() else { return vec![] };
        let arrays = split.iter().flat_map(|split| &split.features);
        arrays.map(|array| (array.name.clone(), array.shape.clone())).collect()
    }

    /// The arrays of `train` or `test`, once.
    pub(crate) fn take(&self, which: &str) -> Option<MemorySplit> {
        let place = match which {
            "train" => &self.train,
            "test" => &self.test,
            _ => return None,
        };
        place.lock().ok()?.take()
    }
}
