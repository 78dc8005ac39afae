//! Gradient of a `MaxPool` with adjacent or overlapping 2×2 windows, as a custom operator with one pass over memory.
//! Standard nodes need eighteen passes, tap by tap. The bits are the same because each entry is rounded in the same
//! way.

use super::operator::{Kernel, Operator};
use pulp::{Arch, Simd, WithSimd};

/// Returns true if the windows are 2×2. Only such nodes have the attribute.
pub(super) fn suits(node: &damper_onnx::pb::NodeProto) -> bool {
    node.attribute.iter().any(|attribute| attribute.name == "stride")
}

/// `(dY [.., *windows], X [.., l, c], Y [.., *windows]) → dX [.., l, c]`. The attribute `stride` is 1 for `l − 1` by
/// `c − 1` windows, or 2 for `l/2` by `c/2` windows.
pub(super) const MAX_POOL_GRAD: Operator<HandBack> = Operator {
    name: "MaxPoolGrad",
    inputs: [3, 0],
    outputs: [1, 0],
    kernel: |attributes| HandBack {
        vectors: Arch::new(),
        overlap: attributes.int("stride") == 1,
        lines: [1; 2],
        memory: vec![],
    },
};

/// Kernel, for the SIMD instructions of the processor.
pub(super) struct HandBack {
    vectors: Arch,
    overlap: bool,
    /// Lines and columns of `X`.
    lines: [usize; 2],
    /// Buffer of five lines, for overlapping windows.
    memory: Vec<f32>,
}

impl Kernel for HandBack {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Vec<i64>>> {
        let [Some(grad), Some(x), Some(y)] = *inputs else { return None };
        let (planes, &[lines, columns]) = x.split_last_chunk()?;
        let windows = if self.overlap { [lines - 1, columns - 1] } else { [lines / 2, columns / 2] };
        let fits = lines >= 2 && columns >= 2 && (self.overlap || lines % 2 == 0 && columns % 2 == 0);
        if grad != y || y.split_last_chunk() != Some((planes, &windows)) || !fits {
            return None;
        }
        self.lines = [usize::try_from(lines).ok()?, usize::try_from(columns).ok()?];
        self.memory = vec![0.0; 5 * self.lines[1]];
        Some(vec![x.to_vec()])
    }

    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()> {
        let ([Some(grad), Some(x), Some(y)], [Some(into)]) = (inputs, outputs) else { return None };
        let lines = self.lines;
        if self.overlap {
            self.vectors.dispatch(Overlapping { grad, x, y, into, lines, memory: &mut self.memory });
        } else {
            self.vectors.dispatch(Tiles { grad, x, y, into, columns: lines[1] });
        }
        Some(())
    }
}

/// Adjacent windows.
struct Tiles<'a> {
    grad: &'a [f32],
    x: &'a [f32],
    y: &'a [f32],
    into: &'a mut [f32],
    columns: usize,
}

impl WithSimd for Tiles<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { grad, x, y, into, columns } = self;
        for (((x, into), grad), y) in x
            .chunks_exact(2 * columns)
            .zip(into.chunks_exact_mut(2 * columns))
            .zip(grad.chunks_exact(columns / 2))
            .zip(y.chunks_exact(columns / 2))
        {
            let ((x, below), (into, into_below)) = (x.split_at(columns), into.split_at_mut(columns));
            let lines = x.as_chunks::<2>().0.iter().zip(below.as_chunks::<2>().0);
            let into = into.as_chunks_mut::<2>().0.iter_mut().zip(into_below.as_chunks_mut::<2>().0);
            for ((((x, below), (into, into_below)), grad), y) in lines.zip(into).zip(grad).zip(y) {
                // Each tap takes what the previous taps passed on, or passes it on. The last tap takes the rest.
                let first = if x[0] == *y { *grad } else { 0.0 };
                let passed = grad - first;
                let second = if x[1] == *y { passed } else { 0.0 };
                let passed = passed - second;
                let third = if below[0] == *y { passed } else { 0.0 };
                (*into, *into_below) = ([first, second], [third, passed - third]);
            }
        }
    }
}

/// Overlapping windows.
struct Overlapping<'a> {
    grad: &'a [f32],
    x: &'a [f32],
    y: &'a [f32],
    into: &'a mut [f32],
    lines: [usize; 2],
    memory: &'a mut [f32],
}

impl WithSimd for Overlapping<'_> {
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
        // −0 is the neutral element of addition, also for −0.
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
                // A line takes the gradient that the windows above passed on. It also takes that of the windows below
                // if it has their maximum.
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
                // The same for each column.
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
    use damper_onnx::{make_attr_int, make_attr_ints, make_node};

    const PLANES: usize = 3;

    /// The first of equal elements takes the whole gradient, as defined. Sums of integers are exact.
    #[test]
    fn first_of_the_largest_takes_the_gradient() {
        let shapes = [(1, [5, 7]), (1, [2, 2]), (1, [3, 18]), (1, [14, 14]), (2, [2, 2]), (2, [6, 4]), (2, [8, 34])];
        for (stride, [lines, columns]) in shapes {
            let windows = [lines, columns].map(|extent| (extent - 2) / stride + 1);
            let strides = [stride as i64; 2];
            let attributes = vec![make_attr_ints("kernel_shape", &[2, 2]), make_attr_ints("strides", &strides)];
            let pool = make_node("MaxPool", "", &["x"], &["y"], attributes);
            let attributes = vec![make_attr_int("stride", stride as i64)];
            let ours = operator::node("MaxPoolGrad", &["gy", "x", "y"], &["gx"], attributes);
            let inputs =
                vec![batched("gy", &[PLANES, windows[0], windows[1]]), batched("x", &[PLANES, lines, columns])];
            let of = model(vec![pool, ours], &[], inputs, vec![batched("gx", &[PLANES, lines, columns])]);
            let mut random = damper_testing::Random(7);
            // Few distinct values, so that many are equal.
            let mut numbers = |len: usize| -> Vec<f32> { (0..len).map(|_| (4.0 * random.signed()).round()).collect() };
            let planes = BATCH * PLANES;
            let (gy, x) = (numbers(planes * windows[0] * windows[1]), numbers(planes * lines * columns));
            let Some(made) = run(&of, &[gy.clone(), x.clone()]) else { return };
            let mut want = vec![0.0; x.len()];
            for (window, gy) in gy.iter().enumerate() {
                let (plane, line) = (window / (windows[0] * windows[1]), window / windows[1] % windows[0]);
                let first = (plane * lines + stride * line) * columns + stride * (window % windows[1]);
                let taps = [first, first + 1, first + columns, first + columns + 1];
                // `max_by` returns the last of equal elements.
                let by_value = |a: &usize, b: &usize| x[*a].partial_cmp(&x[*b]).expect("numbers");
                let largest = taps.into_iter().rev().max_by(by_value).expect("four taps");
                want[largest] += gy;
            }
            assert!(made[0] == want, "{lines} × {columns} by {stride}");
        }
    }
}
