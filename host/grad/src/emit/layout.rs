//! Layout operators: shapes, axis orders, slices and concatenation.

use super::Emitter;
use super::var::{BATCH_FIRST, Var, reshape_target};
use damper_onnx::graph::BatchAxis;
use damper_onnx::{make_attr_int, make_attr_ints};

impl Var {
    /// Returns true if each sample is contiguous in memory.
    fn is_contiguous_by_sample(&self) -> bool {
        self.batch.is_some_and(|b| b.outer == 1 && self.shape[..b.axis].iter().all(|&d| d == 1))
    }
}

impl Emitter {
    /// Row-major reshape. The samples keep their positions in memory.
    pub fn reshape(&mut self, x: &Var, shape: &[usize], batch: Option<BatchAxis>) -> Var {
        debug_assert_eq!(x.len(), shape.iter().product::<usize>(), "reshape of {x:?} to {shape:?}");
        if x.shape == shape && x.batch == batch {
            return x.clone();
        }
        let source = self.reshaped_from.get(&x.name).unwrap_or(x).clone();
        if source.shape == shape && source.batch == batch {
            return source;
        }
        let target = self.ints(&reshape_target(shape, batch));
        let y = self.node("Reshape", &[&source, &target], vec![], x.dtype, shape.to_vec(), batch);
        self.note_reshaped(&source, &y);
        self.reshaped_from.insert(y.name.clone(), source);
        y
    }

    /// Transpose: axis `i` of the result is axis `perm[i]` of `x`.
    pub fn transpose(&mut self, x: &Var, perm: &[usize]) -> Var {
        if perm.iter().enumerate().all(|(i, &p)| i == p) {
            return x.clone();
        }
        let shape = perm.iter().map(|&p| x.shape[p]).collect();
        let batch = x.batch.map(|b| BatchAxis { axis: perm.iter().position(|&p| p == b.axis).unwrap(), ..b });
        let attribute = make_attr_ints("perm", &perm.iter().map(|&p| p as i64).collect::<Vec<_>>());
        self.node("Transpose", &[x], vec![attribute], x.dtype, shape, batch)
    }

    /// Swaps the last two axes.
    pub fn transpose_last(&mut self, x: &Var) -> Var {
        let mut perm: Vec<usize> = (0..x.rank()).collect();
        perm.swap(x.rank() - 2, x.rank() - 1);
        self.transpose(x, &perm)
    }

    /// Concatenates along `axis`.
    pub fn concat(&mut self, parts: &[&Var], axis: usize) -> Var {
        if let [one] = parts {
            return (*one).clone();
        }
        let mut shape = parts[0].shape.clone();
        shape[axis] = parts.iter().map(|p| p.shape[axis]).sum();
        let batch = parts.iter().find_map(|p| p.batch);
        self.node("Concat", parts, vec![make_attr_int("axis", axis as i64)], parts[0].dtype, shape, batch)
    }

    /// Slice: elements `start, start + step, …` (`count` of them) along each of `axes`, given as
    /// `(axis, start, step, count)`.
    pub fn slice(&mut self, x: &Var, axes: &[(usize, usize, usize, usize)]) -> Var {
        let cut: Vec<_> = axes.iter().filter(|&&(a, s, t, n)| (s, t, n) != (0, 1, x.shape[a])).collect();
        if cut.is_empty() {
            return x.clone();
        }
        let mut shape = x.shape.clone();
        let mut lists: [Vec<i64>; 4] = Default::default();
        for &&(axis, start, step, count) in &cut {
            shape[axis] = count;
            let end = start + (count - 1) * step + 1;
            for (list, value) in lists.iter_mut().zip([start, end, axis, step]) {
                list.push(value as i64);
            }
        }
        let lists = lists.map(|l| self.ints(&l));
        let inputs = [x, &lists[0], &lists[1], &lists[2], &lists[3]];
        self.node("Slice", &inputs, vec![], x.dtype, shape, x.batch)
    }

    /// Pads with `value`: `pads[i]` elements before and after axis `i`.
    pub fn pad(&mut self, x: &Var, pads: &[(usize, usize)], value: f64) -> Var {
        if pads.iter().all(|&p| p == (0, 0)) {
            return x.clone();
        }
        let shape = x.shape.iter().zip(pads).map(|(d, (b, a))| d + b + a).collect();
        let list: Vec<i64> = pads.iter().map(|p| p.0 as i64).chain(pads.iter().map(|p| p.1 as i64)).collect();
        let list = self.ints(&list);
        let value = self.scalar(x.dtype, value);
        self.node("Pad", &[x, &list, &value], vec![], x.dtype, shape, x.batch)
    }

    /// Rows `indices` (a vector) along `axis`.
    pub fn gather(&mut self, x: &Var, indices: &[i64], axis: usize) -> Var {
        let mut shape = x.shape.clone();
        shape[axis] = indices.len();
        let indices = self.ints(indices);
        self.node("Gather", &[x, &indices], vec![make_attr_int("axis", axis as i64)], x.dtype, shape, x.batch)
    }

    /// Reshapes to `[N, *target]`, with each sample's elements in row-major order of `x.shape`.
    pub fn per_sample(&mut self, x: &Var, target: &[usize]) -> Var {
        let mut shape = vec![1];
        shape.extend(target);
        let batch = x.batch.expect("a batched tensor");
        if x.is_contiguous_by_sample() {
            return self.reshape(x, &shape, Some(BATCH_FIRST));
        }
        let before = x.shape[..batch.axis].iter().product::<usize>() * batch.outer;
        let after = batch.inner * x.shape[batch.axis + 1..].iter().product::<usize>();
        let middle = BatchAxis { axis: 1, outer: 1, inner: 1 };
        let x = self.reshape(x, &[before, 1, after], Some(middle));
        let x = self.transpose(&x, &[1, 0, 2]);
        self.reshape(&x, &shape, Some(BATCH_FIRST))
    }

    /// Inverse of [`per_sample`](Self::per_sample): `x` (`[N, …]`) in the shape and batch axis of a value.
    pub fn as_batched(&mut self, x: &Var, shape: &[usize], batch: BatchAxis) -> Var {
        let to = Var { name: "".into(), dtype: x.dtype, shape: shape.to_vec(), batch: Some(batch) };
        if to.is_contiguous_by_sample() {
            return self.reshape(x, shape, Some(batch));
        }
        let before = shape[..batch.axis].iter().product::<usize>() * batch.outer;
        let after = batch.inner * shape[batch.axis + 1..].iter().product::<usize>();
        let x = self.reshape(x, &[1, before, after], Some(BATCH_FIRST));
        let x = self.transpose(&x, &[1, 0, 2]);
        self.reshape(&x, shape, Some(batch))
    }
}
