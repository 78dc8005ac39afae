//! The gradient of a `MaxPool` of 2×2 windows that overlap, in one pass over memory as a custom operator: as nodes it is eighteen, a tap at
//! a time. Each entry is rounded as the nodes round it: the bits are theirs.

use super::operator::{Kernel, Operator};
use pulp::{Arch, Simd, WithSimd};

/// `(dY [.., l − 1, c − 1], X [.., l, c], Y [.., l − 1, c − 1]) → dX [.., l, c]`.
pub(super) const MAX_POOL_GRAD: Operator<HandBack> = Operator {
    name: "MaxPoolGrad",
    inputs: [3, 0],
    outputs: [1, 0],
    kernel: |_| HandBack { vectors: Arch::new(), lines: [1; 2], memory: vec![] },
};

/// With the vectors that the processor has.
pub(super) struct HandBack {
    vectors: Arch,
    /// Lines and columns of `X`.
    lines: [usize; 2],
    /// Five lines.
    memory: Vec<f32>,
}

impl Kernel for HandBack {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Vec<i64>>> {
        let [Some(grad), Some(x), Some(y)] = *inputs else { return None };
        let (planes, [lines, columns]) = x.split_last_chunk()?;
        if grad != y || y.split_last_chunk() != Some((planes, &[lines - 1, columns - 1])) || *lines < 2 || *columns < 2
        {
            return None;
        }
        self.lines = [usize::try_from(*lines).ok()?, usize::try_from(*columns).ok()?];
        self.memory = vec![0.0; 5 * self.lines[1]];
        Some(vec![x.to_vec()])
    }

    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()> {
        let ([Some(grad), Some(x), Some(y)], [Some(into)]) = (inputs, outputs) else { return None };
        self.vectors.dispatch(Run { grad, x, y, into, lines: self.lines, memory: &mut self.memory });
        Some(())
    }
}

struct Run<'a> {
    grad: &'a [f32],
    x: &'a [f32],
    y: &'a [f32],
    into: &'a mut [f32],
    lines: [usize; 2],
    memory: &'a mut [f32],
}

impl WithSimd for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { grad, x, y, into, lines: [lines, columns], memory } = self;
        let (windows, plane) = (columns - 1, lines * columns);
        let (largest, memory) = memory.split_at_mut(columns);
        let (passed, memory) = memory.split_at_mut(columns);
        let (here, memory) = memory.split_at_mut(columns);
        let (kept, rest) = memory.split_at_mut(columns);
        let (largest, passed, here) = (&mut largest[..windows], &mut passed[..windows], &mut here[..windows]);
        // Added to a number, -0 leaves it as it is.
        (kept[windows], rest[0]) = (-0.0, -0.0);
        let outputs = windows * (lines - 1);
        for (((x, into), grad), y) in x
            .chunks_exact(plane)
            .zip(into.chunks_exact_mut(plane))
            .zip(grad.chunks_exact(outputs))
            .zip(y.chunks_exact(outputs))
        {
            passed.fill(-0.0);
            let below = grad.chunks_exact(windows).zip(y.chunks_exact(windows)).map(Some).chain([None]);
            for ((x, into), below) in x.chunks_exact(columns).zip(into.chunks_exact_mut(columns)).zip(below) {
                for ((largest, first), second) in largest.iter_mut().zip(x).zip(&x[1..]) {
                    *largest = if first > second { *first } else { *second };
                }
                // A line takes what the windows above it pass on, and where it has the largest of those below it theirs.
                if let Some((grad, y)) = below {
                    for ((((here, passed), largest), grad), y) in
                        here.iter_mut().zip(&mut *passed).zip(&*largest).zip(grad).zip(y)
                    {
                        let keeps = if largest == y { *grad } else { 0.0 };
                        *here = keeps + *passed;
                        *passed = grad - keeps;
                    }
                } else {
                    here.copy_from_slice(passed);
                }
                // So does a column.
                for ((((kept, rest), here), x), largest) in
                    kept.iter_mut().zip(&mut rest[1..]).zip(&*here).zip(x).zip(&*largest)
                {
                    *kept = if x == largest { *here } else { 0.0 };
                    *rest = here - *kept;
                }
                for ((into, kept), rest) in into.iter_mut().zip(&*kept).zip(&*rest) {
                    *into = kept + rest;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::operator;
    use super::super::testing::{BATCH, batched, model, run};
    use damper_onnx::{make_attr_ints, make_node};

    const PLANES: usize = 3;

    /// Of equal elements the first takes all, as in the definition; sums of whole numbers have no rounding.
    #[test]
    fn first_of_the_largest_takes_the_gradient() {
        for [lines, columns] in [[5, 7], [2, 2], [3, 18], [14, 14]] {
            let windows = [lines - 1, columns - 1];
            let pool = make_node("MaxPool", "", &["x"], &["y"], vec![make_attr_ints("kernel_shape", vec![2, 2])]);
            let ours = operator::node("MaxPoolGrad", &["gy", "x", "y"], &["gx"], vec![]);
            let inputs =
                vec![batched("gy", &[PLANES, windows[0], windows[1]]), batched("x", &[PLANES, lines, columns])];
            let of = model(vec![pool, ours], &[], inputs, vec![batched("gx", &[PLANES, lines, columns])]);
            let mut random = damper_testing::Random(7);
            // A few values, so that many are equal.
            let mut numbers = |len: usize| -> Vec<f32> { (0..len).map(|_| (4.0 * random.signed()).round()).collect() };
            let planes = BATCH * PLANES;
            let (gy, x) = (numbers(planes * windows[0] * windows[1]), numbers(planes * lines * columns));
            let Some(made) = run(&of, &[gy.clone(), x.clone()]) else { return };
            let mut want = vec![0.0; x.len()];
            for (window, gy) in gy.iter().enumerate() {
                let (plane, line) = (window / (windows[0] * windows[1]), window / windows[1] % windows[0]);
                let first = (plane * lines + line) * columns + window % windows[1];
                let taps = [first, first + 1, first + columns, first + columns + 1];
                // Of equal ones `max_by` has the last.
                let largest = taps.into_iter().rev().max_by(|a, b| x[*a].total_cmp(&x[*b])).expect("four taps");
                want[largest] += gy;
            }
            assert_eq!(made[0], want, "{lines} × {columns}");
        }
    }
}
