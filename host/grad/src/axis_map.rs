//! Linear maps along one axis with known weights, and their transposes. Examples are the copies of `Pad` and the
//! interpolation of `Resize`.

use super::emit::{Emitter, Var};

/// Maximum number of terms for which an element is emitted as a sum of gathered and weighted elements. With more terms,
/// the map is a product with its matrix.
const FEW: usize = 4;

/// Maximum number of entries of an emitted matrix, for any number of terms.
const LARGE: usize = 1 << 20;

/// Terms of one element: positions along the axis, and weights.
type Terms = Vec<(usize, f64)>;

/// Each element along the output axis as a weighted sum of input elements.
#[derive(Clone, PartialEq, Debug)]
pub struct AxisMap {
    /// Extent of the input.
    input: usize,
    output: Vec<Terms>,
}

impl AxisMap {
    /// Creates the map from an axis of `input` elements to an axis with the length of `output`.
    pub fn new(input: usize, output: Vec<Terms>) -> Self {
        debug_assert!(output.iter().flatten().all(|&(at, _)| at < input));
        Self { input, output }
    }

    /// Copies element `indices[o]` to position `o`.
    pub fn copying(input: usize, indices: impl IntoIterator<Item = usize>) -> Self {
        Self::new(input, indices.into_iter().map(|i| vec![(i, 1.0)]).collect())
    }

    /// Number of consecutive copies of each input element. `None` unless it is the same for all.
    pub fn repeats(&self) -> Option<usize> {
        let times = self.output.len() / self.input;
        let in_order = |(o, terms): (usize, &Terms)| *terms == [(o / times.max(1), 1.0)];
        let tiles = times * self.input == self.output.len();
        (tiles && self.output.iter().enumerate().all(in_order)).then_some(times)
    }

    /// Maps `x` along `axis`, which must not contain the samples.
    pub fn apply(&self, em: &mut Emitter, x: &Var, axis: usize) -> Var {
        if self.repeats() == Some(1) {
            return x.clone();
        }
        let most = self.output.iter().map(Vec::len).max().unwrap_or(0);
        if most > FEW && self.output.len() * self.input <= LARGE {
            return product(em, &self.matrix(), self.output.len(), x, axis);
        }
        let is_plain = self.output.iter().flatten().all(|&(_, weight)| weight == 1.0);
        let is_full = self.output.iter().all(|terms| terms.len() == most);
        // If no term has a weight, a zero after the last element stands for missing terms.
        let mut pads = vec![(0, 0); x.rank()];
        pads[axis] = (0, usize::from(is_plain && !is_full));
        let padded = em.pad(x, &pads, 0.0);
        let none = if is_plain { (self.input, 1.0) } else { (0, 0.0) };
        let mut sum: Option<Var> = None;
        for k in 0..most {
            let terms: Terms = self.output.iter().map(|terms| terms.get(k).copied().unwrap_or(none)).collect();
            let mut part = em.gather(&padded, &terms.iter().map(|term| term.0 as i64).collect::<Vec<_>>(), axis);
            if !is_plain {
                let mut along = vec![1; x.rank() - axis];
                along[0] = terms.len();
                let weights = em.floats(x.dtype, &along, terms.iter().map(|term| term.1));
                part = em.mul(&part, &weights);
            }
            sum = Some(match sum {
                Some(sum) => em.add(&sum, &part),
                None => part,
            });
        }
        sum.unwrap_or_else(|| x.clone())
    }

    /// Transpose of the map: from the gradient of the output to that of the input.
    pub fn backward(&self, em: &mut Emitter, gy: &Var, axis: usize) -> Var {
        if let Some(times) = self.repeats().filter(|&times| times <= FEW) {
            let part = |em: &mut Emitter, first| em.slice(gy, &[(axis, first, times, self.input)]);
            let first = part(em, 0);
            return (1..times).fold(first, |sum, k| {
                let next = part(em, k);
                em.add(&sum, &next)
            });
        }
        let mut fed: Vec<Terms> = vec![Vec::new(); self.input];
        for (o, terms) in self.output.iter().enumerate() {
            for &(at, weight) in terms {
                fed[at].push((o, weight));
            }
        }
        Self::new(self.output.len(), fed).apply(em, gy, axis)
    }

    /// Matrix in row-major order, with one row for each element of the output.
    fn matrix(&self) -> Vec<f64> {
        let mut matrix = vec![0.0; self.output.len() * self.input];
        for (o, terms) in self.output.iter().enumerate() {
            for &(at, weight) in terms {
                matrix[o * self.input + at] += weight;
            }
        }
        matrix
    }
}

/// Product of a constant matrix of `rows` rows with `x` along `axis`.
fn product(em: &mut Emitter, matrix: &[f64], rows: usize, x: &Var, axis: usize) -> Var {
    let columns = x.shape[axis];
    let mut shape = x.shape.clone();
    shape[axis] = rows;
    if let Some(batch) = x.batch.filter(|batch| batch.axis > axis) {
        // Samples must not be among the columns of a product, so they go first.
        let by_sample = em.per_sample(x, &x.shape);
        let mapped = product(em, matrix, rows, &by_sample, axis + 1);
        return em.as_batched(&mapped, &shape, batch);
    }
    let after: usize = x.shape[axis + 1..].iter().product();
    if after == 1 && axis > 0 {
        let transposed = (0..columns).flat_map(|column| matrix.iter().copied().skip(column).step_by(columns));
        let transposed = em.floats(x.dtype, &[columns, rows], transposed);
        let lines = em.reshape(x, &[&x.shape[..axis], &[columns]].concat(), x.batch);
        let mapped = em.matmul(&lines, &transposed);
        return em.reshape(&mapped, &shape, x.batch);
    }
    let matrix = em.floats(x.dtype, &[rows, columns], matrix.iter().copied());
    let planes = em.reshape(x, &[&x.shape[..axis], &[columns, after]].concat(), x.batch);
    let mapped = em.matmul(&matrix, &planes);
    em.reshape(&mapped, &shape, x.batch)
}
