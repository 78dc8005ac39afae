//! Linear maps along one axis with weights known now: what `Pad` copies and `Resize` interpolates, and their transposes.

use super::emit::{Emitter, Var};

/// Up to so many elements of the output that one element of the input feeds are added one after the other; more take a
/// product with the matrix of the map.
const FEW: usize = 4;

/// Each element along the axis of the output as a weighted sum of elements of the input.
#[derive(Clone, PartialEq, Debug)]
pub struct AxisMap {
    /// The input's extent.
    input: usize,
    /// For each element of the output, the elements of the input and their weights.
    taps: Vec<Vec<(usize, f64)>>,
}

impl AxisMap {
    /// The map from an axis of `input` elements to one of as many as there are `taps`.
    pub fn new(input: usize, taps: Vec<Vec<(usize, f64)>>) -> Self {
        debug_assert!(taps.iter().flatten().all(|&(at, _)| at < input));
        Self { input, taps }
    }

    /// Copies element `indices[o]` to place `o`.
    pub fn copying(input: usize, indices: impl IntoIterator<Item = usize>) -> Self {
        Self::new(input, indices.into_iter().map(|i| vec![(i, 1.0)]).collect())
    }

    /// Element `o` of the output comes from one element of the input alone, and whole.
    fn copied(&self) -> Option<Vec<usize>> {
        self.taps.iter().map(|taps| if let [(at, 1.0)] = taps[..] { Some(at) } else { None }).collect()
    }

    fn is_identity(&self) -> bool {
        self.taps.len() == self.input
            && self.copied().is_some_and(|copied| copied.iter().enumerate().all(|(o, &i)| o == i))
    }

    /// How often each element of the input is repeated, where all are, one after the other.
    pub fn repeats(&self) -> Option<usize> {
        let times = self.taps.len() / self.input;
        let tiles = times * self.input == self.taps.len();
        let copied = self.copied()?;
        (tiles && copied.iter().enumerate().all(|(o, &i)| o / times == i)).then_some(times)
    }

    /// `x` mapped along `axis`, which does not hold the samples.
    pub fn apply(&self, em: &mut Emitter, x: &Var, axis: usize) -> Var {
        if self.is_identity() {
            return x.clone();
        }
        match self.copied() {
            Some(indices) => em.gather(x, &indices.iter().map(|&i| i as i64).collect::<Vec<_>>(), axis),
            None => product(em, &self.matrix(), self.taps.len(), x, axis),
        }
    }

    /// The transpose of the map: from the gradient of the output to that of the input.
    pub fn pull(&self, em: &mut Emitter, gy: &Var, axis: usize) -> Var {
        if self.is_identity() {
            return gy.clone();
        }
        if let Some(times) = self.repeats().filter(|&times| times <= FEW) {
            let part = |em: &mut Emitter, first| em.slice(gy, &[(axis, first, times, self.input)]);
            let first = part(em, 0);
            return (1..times).fold(first, |sum, k| {
                let next = part(em, k);
                em.add(&sum, &next)
            });
        }
        let mut fed: Vec<Vec<i64>> = vec![Vec::new(); self.input];
        for (o, taps) in self.taps.iter().enumerate() {
            for &(at, _) in taps {
                fed[at].push(o as i64);
            }
        }
        let most = fed.iter().map(Vec::len).max().unwrap_or(0);
        if self.copied().is_none() || most > FEW {
            return product(em, &transposed(&self.matrix(), self.input), self.input, gy, axis);
        }
        // A zero behind the last element stands for those that feed fewer.
        let mut pads = vec![(0, 0); gy.rank()];
        pads[axis] = (0, usize::from(fed.iter().any(|places| places.len() < most)));
        let padded = em.pad(gy, &pads, 0.0);
        let none = self.taps.len() as i64;
        let part = |em: &mut Emitter, k: usize| {
            let indices: Vec<i64> = fed.iter().map(|places| places.get(k).copied().unwrap_or(none)).collect();
            em.gather(&padded, &indices, axis)
        };
        let first = part(em, 0);
        (1..most).fold(first, |sum, k| {
            let next = part(em, k);
            em.add(&sum, &next)
        })
    }

    /// Row-major, a row for each element of the output.
    fn matrix(&self) -> Vec<f64> {
        let mut matrix = vec![0.0; self.taps.len() * self.input];
        for (o, taps) in self.taps.iter().enumerate() {
            for &(at, weight) in taps {
                matrix[o * self.input + at] += weight;
            }
        }
        matrix
    }
}

/// A row-major matrix of `columns` columns, transposed.
fn transposed(matrix: &[f64], columns: usize) -> Vec<f64> {
    (0..columns).flat_map(|column| matrix.iter().copied().skip(column).step_by(columns)).collect()
}

/// The product of a constant matrix of `rows` rows with `x` along `axis`.
fn product(em: &mut Emitter, matrix: &[f64], rows: usize, x: &Var, axis: usize) -> Var {
    let columns = x.shape[axis];
    let mut shape = x.shape.clone();
    shape[axis] = rows;
    if let Some(batch) = x.batch.filter(|batch| batch.axis > axis) {
        // Samples among the columns of a product would have their place there: they go in front.
        let by_sample = em.per_sample(x, &x.shape);
        let mapped = product(em, matrix, rows, &by_sample, axis + 1);
        return em.as_batched(&mapped, &shape, batch);
    }
    let after: usize = x.shape[axis + 1..].iter().product();
    if after == 1 && axis > 0 {
        let turned = transposed(matrix, columns);
        let turned = em.floats(x.dtype, &[columns, rows], turned);
        let lines = em.reshape(x, &[&x.shape[..axis], &[columns]].concat(), x.batch);
        let mapped = em.matmul(&lines, &turned);
        return em.reshape(&mapped, &shape, x.batch);
    }
    let matrix = em.floats(x.dtype, &[rows, columns], matrix.iter().copied());
    let planes = em.reshape(x, &[&x.shape[..axis], &[columns, after]].concat(), x.batch);
    let mapped = em.matmul(&matrix, &planes);
    em.reshape(&mapped, &shape, x.batch)
}
