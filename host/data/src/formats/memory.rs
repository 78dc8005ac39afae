//! `memory:train`, `memory:test`: arrays of the calling program.
//!
//! The arrays are passed once and become those of the data set without a copy, if their samples have the model's shape.

use crate::dataset::Splits;
use crate::error::same_for_all;
use crate::files::elements;
use crate::numbers::{Held, Values};
use crate::rows::{Array, Naming, RawSplit, assemble};
use crate::{DataError, DataOptions, LabelKind, MemoryArray, MemorySplit, MemoryValues};

pub(super) fn load(which: &str, options: &DataOptions, naming: &mut Naming) -> Result<Splits, DataError> {
    let taken = options.memory.as_ref().and_then(|memory| memory.take(which));
    let MemorySplit { features, labels } = taken.ok_or_else(|| {
        DataError::File(format!(
            "memory:{which}: no arrays were handed over, or they were read before: give them again"
        ))
    })?;
    let mut arrays: Vec<Array> = features.into_iter().map(Array::try_from).collect::<Result<_, _>>()?;
    if options.inputs.len() > 1 {
        let mut sorted = Vec::with_capacity(arrays.len());
        for input in &options.inputs {
            let at = arrays.iter().position(|array| array.origin == input.name).ok_or_else(|| {
                let names: Vec<String> = arrays.iter().map(|array| format!("'{}'", array.origin)).collect();
                let names = names.join(", ");
                DataError::File(format!(
                    "memory:{which}: has {names}, and no array of the model's input '{}'{}",
                    input.name,
                    same_for_all(&input.name)
                ))
            })?;
            sorted.push(arrays.swap_remove(at));
        }
        arrays = sorted;
    }
    let columns = options.memory.as_ref().and_then(|memory| memory.columns(which));
    match (&mut arrays[..], columns) {
        ([array], columns) if array.shape.len() == 2 => {
            let width = array.shape[1];
            if let Some(places) = naming.array(&format!("memory:{which}"), columns, width)? {
                in_order(&mut array.values, width, &places);
            }
        }
        (_, Some(_)) => {
            return Err(DataError::File(format!(
                "memory:{which}: names of columns are for one array with two axes; leave them out"
            )));
        }
        (_, None) => {}
    }
    let labels = match options.labels {
        LabelKind::None => None,
        _ => labels.map(Array::try_from).transpose()?,
    };
    if labels.is_none() && options.labels != LabelKind::None {
        return Err(DataError::File(format!("memory:{which}: has no labels, and the loss takes some: give them")));
    }
    Ok((assemble(RawSplit::new(arrays, labels), options)?, None))
}

/// Reorders the columns of a table with `width` columns. `places` has the source index of each.
fn in_order(values: &mut Values, width: usize, places: &[usize]) {
    fn reorder<T: Copy>(values: &mut [T], width: usize, places: &[usize]) {
        let mut row = Vec::with_capacity(width);
        for values in values.chunks_mut(width) {
            row.clear();
            row.extend_from_slice(values);
            values.iter_mut().zip(places).for_each(|(value, place)| *value = row[*place]);
        }
    }
    match values {
        Values::F32(Held::Memory(values)) => reorder(values, width, places),
        Values::F64(Held::Memory(values)) => reorder(values, width, places),
        Values::U64(Held::Memory(values)) => reorder(values, width, places),
        Values::I64(Held::Memory(values)) => reorder(values, width, places),
        _ => unreachable!("the program's arrays are in memory, and of these types"),
    }
}

impl TryFrom<MemoryArray> for Array {
    type Error = DataError;

    fn try_from(array: MemoryArray) -> Result<Self, DataError> {
        let MemoryArray { name, shape, values } = array;
        let (len, values) = match values {
            MemoryValues::F32(values) => (values.len(), Values::F32(Held::Memory(values))),
            MemoryValues::F64(values) => (values.len(), Values::F64(Held::Memory(values))),
            MemoryValues::I64(values) => (values.len(), Values::I64(Held::Memory(values))),
            MemoryValues::U64(values) => (values.len(), Values::U64(Held::Memory(values))),
        };
        if elements(&shape, 1) != Some(len) {
            return Err(DataError::File(format!("{name}: has {len} values where the shape is {shape:?}")));
        }
        Ok(Array { origin: name, shape, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InputShape, Labels, MemoryArrays, Numbers, TestSource, load};
    use damper_onnx::graph::DType;

    fn floats(name: &str, shape: &[usize]) -> MemoryArray {
        let values = (0..shape.iter().product()).map(|at: usize| at as f32).collect();
        MemoryArray { name: name.into(), shape: shape.into(), values: MemoryValues::F32(values) }
    }

    fn classes(values: &[i64]) -> MemoryArray {
        MemoryArray { name: "y".into(), shape: vec![values.len()], values: MemoryValues::I64(values.into()) }
    }

    fn input(name: &str, shape: &[usize]) -> InputShape {
        InputShape { name: name.into(), shape: shape.into(), dtype: DType::F32, rows: None }
    }

    #[test]
    fn arrays_are_handed_over_once() {
        let split = MemorySplit { features: vec![floats("x", &[4, 2])], labels: Some(classes(&[0, 1, 1, 0])) };
        let address = match &split.features[0].values {
            MemoryValues::F32(values) => values.as_ptr(),
            _ => unreachable!(),
        };
        let test = MemorySplit { features: vec![floats("x", &[1, 2])], labels: Some(classes(&[1])) };
        let options = DataOptions {
            inputs: vec![input("x", &[2])],
            memory: Some(MemoryArrays::new(split, Some(test))),
            test: Some(TestSource::Spec("memory:test".into())),
            ..DataOptions::default()
        };
        let data = load("memory:train", &options).unwrap();
        assert_eq!((data.train.len(), data.test.map(|test| test.len())), (4, Some(1)));
        let Numbers::F32(values) = &data.train.features()[0].values else { panic!() };
        assert_eq!((values.as_ptr(), values.len()), (address, 8));
        assert_eq!(*data.train.labels(), Labels::Classes { shape: vec![], values: vec![0, 1, 1, 0] });
        let message = load("memory:train", &options).unwrap_err().to_string();
        assert!(message.contains("were read before"), "{message}");
    }

    #[test]
    fn inputs_find_arrays_by_name() {
        let split = |labels: Option<MemoryArray>| MemorySplit {
            features: vec![floats("b", &[2, 3]), floats("a", &[2, 1])],
            labels,
        };
        let options = |inputs: Vec<InputShape>, labels| DataOptions {
            inputs,
            memory: Some(MemoryArrays::new(split(labels), None)),
            ..DataOptions::default()
        };
        let both = || vec![input("a", &[1]), input("b", &[3])];
        let data = load("memory:train", &options(both(), Some(classes(&[0, 1])))).unwrap();
        assert_eq!(data.train.features().iter().map(|one| one.shape[0]).collect::<Vec<_>>(), [1, 3]);
        let message = |inputs, labels| load("memory:train", &options(inputs, labels)).unwrap_err().to_string();
        assert!(message(vec![input("a", &[1]), input("c", &[3])], Some(classes(&[0, 1]))).contains("input 'c'"));
        assert!(message(both(), None).contains("has no labels"));
        assert!(message(both(), Some(classes(&[0, 1, 2]))).contains("y"));
        let mut wrong = floats("x", &[4, 2]);
        wrong.shape = vec![4, 3];
        let memory = MemoryArrays::new(MemorySplit { features: vec![wrong], labels: Some(classes(&[0; 4])) }, None);
        let options = DataOptions { memory: Some(memory), ..DataOptions::default() };
        assert!(load("memory:train", &options).unwrap_err().to_string().contains("8 values"));
    }
}
