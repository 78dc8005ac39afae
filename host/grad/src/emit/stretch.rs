//! Broadcasts and filled tensors.

use super::Emitter;
use super::var::{BATCH_FIRST, Var};
use damper_onnx::graph::{BatchAxis, DType};
use damper_onnx::make_attr_int;

impl Emitter {
    /// Broadcasts `x` to `shape` (of the same rank), with the batch axis `batch`.
    ///
    /// It copies, and along the last axes it multiplies by an all-one row, which is exact. The optimizer of tract drops
    /// an `Expand` before a matrix product, even with other operators in between. If the product sums over the expanded
    /// axis, it then silently counts one position instead of all.
    pub fn expand(&mut self, x: &Var, shape: &[usize], batch: Option<BatchAxis>) -> Var {
        let is_alone = |axis: usize| x.shape[axis] == 1 && batch.is_none_or(|b| b.axis != axis);
        let tail = (0..x.rank()).rev().take_while(|&axis| x.dtype.is_float() && is_alone(axis)).last();
        let tail = tail.filter(|&axis| x.shape[axis..] != shape[axis..]);
        let mut y = x.clone();
        for axis in 0..tail.unwrap_or(x.rank()) {
            if let (Some(there), None) = (batch.filter(|b| b.axis == axis), x.batch) {
                let zero = self.ints(&[0]);
                let zeros = self.spread(&zero, &shape[axis..=axis], Some(BatchAxis { axis: 0, ..there }));
                let along = vec![make_attr_int("axis", axis as i64)];
                let shape = [&y.shape[..axis], &zeros.shape, &y.shape[axis + 1..]].concat();
                y = self.node("Gather", &[&y, &zeros], along, y.dtype, shape, batch);
            } else if y.shape[axis] != shape[axis] {
                y = self.gather(&y, &vec![0; shape[axis]], axis);
            }
        }
        let Some(tail) = tail else { return y };
        let width = shape[tail..].iter().product();
        let lead = if tail == 0 { &[1] } else { &y.shape[..tail] };
        let column = self.reshape(&y, &[lead, &[1]].concat(), y.batch);
        let ones = self.floats(y.dtype, &[1, width], vec![1.0; width]);
        let rows = self.product(&column, &ones);
        self.reshape(&rows, shape, batch)
    }

    /// `value` for every sample: `[N, *shape]`.
    pub fn filled(&mut self, dtype: DType, value: f64, shape: &[usize]) -> Var {
        let one = self.floats(dtype, &vec![1; shape.len() + 1], [value]);
        self.spread(&one, &[&[1], shape].concat(), Some(BATCH_FIRST))
    }

    /// Zeros that do not depend on samples.
    pub fn zeros(&mut self, dtype: DType, shape: &[usize]) -> Var {
        let zero = self.floats(dtype, &vec![1; shape.len()], [0.0]);
        self.spread(&zero, shape, None)
    }

    /// `Expand` of a tensor that no matrix product reads: of indices, or of a constant, which tract folds.
    pub fn spread(&mut self, x: &Var, shape: &[usize], batch: Option<BatchAxis>) -> Var {
        if x.shape == shape && x.batch == batch {
            return x.clone();
        }
        let fixed = |d: &[usize]| d.iter().map(|&d| d as i64).collect::<Vec<_>>();
        let target = match (batch, x.batch) {
            // An extent of 1 keeps the input's extent.
            (Some(b), Some(_)) => {
                let mut target = fixed(shape);
                target[b.axis] = 1;
                self.ints(&target)
            }
            (Some(b), None) => {
                let n = self.batch_size();
                let times = self.ints(&[(b.outer * b.inner) as i64]);
                let n = self.node("Mul", &[&n, &times], vec![], DType::I64, vec![1], None);
                let (before, after) = (self.ints(&fixed(&shape[..b.axis])), self.ints(&fixed(&shape[b.axis + 1..])));
                let parts: Vec<&Var> = [&before, &n, &after].into_iter().filter(|v| v.shape != [0]).collect();
                self.node("Concat", &parts, vec![make_attr_int("axis", 0)], DType::I64, vec![shape.len()], None)
            }
            _ => self.ints(&fixed(shape)),
        };
        self.node("Expand", &[x, &target], vec![], x.dtype, shape.to_vec(), batch)
    }

    /// Number of samples, int64 `[1]`.
    fn batch_size(&mut self) -> Var {
        let source = self.batch_source.clone().expect("a batched input");
        let shape = self.node("Shape", &[&source], vec![], DType::I64, vec![source.rank()], None);
        let zero = self.ints(&[0]);
        self.node("Gather", &[&shape, &zero], vec![make_attr_int("axis", 0)], DType::I64, vec![1], None)
    }
}
