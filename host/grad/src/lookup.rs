//! Looking elements up by index, and the way back: every operator that selects uses these.
//!
//! Indices that are data are never trusted: what they read, and what their gradients are added to, lies inside the table
//! whatever they are. An index below zero counts from the end, as ONNX has it. One that lies outside the table makes what it looked
//! up not a number, and so that sample's gradient, which then contributes nothing; other samples do not notice.

use super::emit::{BATCH_FIRST, Emitter, Var};
use damper_onnx::graph::{DType, Tensor, TensorData};

/// Indices that are data, and whether they were ones.
pub struct Checked {
    /// Within the table, int64.
    pub index: Var,
    /// True if it was.
    pub valid: Var,
}

/// `index` made safe for an axis of `extent`.
pub fn checked(em: &mut Emitter, index: &Var, extent: usize) -> Checked {
    let mut int = |value: i64| em.constant(Tensor { shape: vec![], data: TensorData::I64(vec![value]) });
    let count = extent as i64;
    let (lowest, zero, last, extent) = (int(-count - 1), int(0), int(count - 1), int(count));
    // One past either end at most, so that counting from the end cannot overflow.
    let index = em.cast(index, DType::I64);
    let index = em.binary("Max", &index, &lowest);
    let index = em.binary("Min", &index, &extent);
    let below = em.compare("Less", &index, &zero);
    let from_end = em.add(&index, &extent);
    let counted = em.choose(&below, &from_end, &index);
    let above = em.binary("Max", &counted, &zero);
    let index = em.binary("Min", &above, &last);
    let valid = em.compare("Equal", &index, &counted);
    Checked { index, valid }
}

/// `found` where the index was valid, not a number elsewhere (integers are those of the nearest row). `valid` lacks the
/// last `behind` axes of `found`.
pub fn found(em: &mut Emitter, found: &Var, valid: &Var, behind: usize) -> Var {
    if !found.dtype.is_float() {
        return found.clone();
    }
    let valid = em.reshape(valid, &[&valid.shape[..], &vec![1; behind]].concat(), valid.batch);
    let nan = em.scalar(found.dtype, f64::NAN);
    em.choose(&valid, found, &nan)
}

/// The transpose of looking up rows `indices` along `axis`: an axis of `extent`, each of whose rows is the sum of those
/// rows of `rows` that came from it.
pub fn scatter(em: &mut Emitter, rows: &Var, axis: usize, indices: &[usize], extent: usize) -> Var {
    let count = indices.len();
    let ascends = indices.windows(2).all(|pair| pair[1] == pair[0] + 1);
    if ascends {
        let mut pads = vec![(0, 0); rows.rank()];
        pads[axis] = (indices[0], extent - indices[0] - count);
        return em.pad(rows, &pads, 0.0);
    }
    let mut source: Vec<Option<usize>> = vec![None; extent];
    let mut once = true;
    for (from, &to) in indices.iter().enumerate() {
        once &= source[to].replace(from).is_none();
    }
    if once {
        // Rows that none came from are a row of zeros behind the others.
        let mut pads = vec![(0, 0); rows.rank()];
        pads[axis] = (0, usize::from(source.contains(&None)));
        let padded = em.pad(rows, &pads, 0.0);
        let picked: Vec<i64> = source.iter().map(|from| from.unwrap_or(count) as i64).collect();
        return em.gather(&padded, &picked, axis);
    }
    let mut ones = vec![0.0; count * extent];
    for (from, &to) in indices.iter().enumerate() {
        ones[to * count + from] = 1.0;
    }
    let ones = em.floats(rows.dtype, &[extent, count], ones);
    along(em, &ones, rows, axis)
}

/// `matrix` (`[to, from]`) times the matrices whose rows lie along `axis`, which is not the batch: a product for each
/// sample, since the bits of a row of a product depend on its place among the rows.
pub fn along(em: &mut Emitter, matrix: &Var, x: &Var, axis: usize) -> Var {
    let [before, from, after] = split_at_axis(&x.shape, axis);
    let mut shape = x.shape.clone();
    shape[axis] = matrix.shape[0];
    match x.batch {
        Some(batch) => {
            let matrices = em.per_sample(x, &[before, from, after]);
            let product = em.matmul(matrix, &matrices);
            em.as_batched(&product, &shape, batch)
        }
        None => {
            let matrices = em.reshape(x, &[before, from, after], None);
            let product = em.matmul(matrix, &matrices);
            em.reshape(&product, &shape, None)
        }
    }
}

/// The gradient `[N, before, extent, after]` of a table that is the same for all samples: the sum of the rows of `grad`
/// (`[N, before, S, after]`) that looked up each of its rows, `index` (`[N, S]`) being which.
///
/// A product with the indices one-hot: the order of the sums is that of the positions, and no index is used as one.
pub fn embedding_gradient(em: &mut Emitter, index: &Var, grad: &Var, extent: usize) -> Var {
    let positions = index.shape[1];
    let row = em.reshape(index, &[1, 1, 1, positions], Some(BATCH_FIRST));
    let numbers = numbers(em, &[extent, 1]);
    let hits = em.compare("Equal", &numbers, &row);
    let one_hot = em.cast(&hits, grad.dtype);
    em.matmul(&one_hot, grad)
}

/// 0, 1, …, in the given shape.
pub fn numbers(em: &mut Emitter, shape: &[usize]) -> Var {
    let count = shape.iter().product::<usize>() as i64;
    em.constant(Tensor { shape: shape.to_vec(), data: TensorData::I64((0..count).collect()) })
}

/// Extents before `axis`, along it, and after it.
pub fn split_at_axis(shape: &[usize], axis: usize) -> [usize; 3] {
    [shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product()]
}
