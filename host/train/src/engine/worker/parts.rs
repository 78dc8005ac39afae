//! Converts a session's outputs to the consecutive segments of one row's gradient. Computes outer products and the
//! gradients of kernels and embedding matrices, some rows at a time.

use damper_grad::{GradGraph, KernelWindows};
use damper_kernels::convolution::{Axes, Windows};
use damper_kernels::kernel_grad::KernelGrad;
use damper_kernels::position_grad::PositionGrad;
use damper_nn::convolution::kernel_grad;
use damper_nn::product::{Product, product};
use damper_nn::{Walk, Wide};
use damper_onnx::{Dim, TensorSpec};
use damper_runtime::Backend;
use pulp::{Arch, Simd, WithSimd};
use std::ops::Range;

/// Prefixes of the outputs that gradients are read from.
pub const OUTPUTS: [&str; 3] = ["dp.grad.", LEFT, "dp.right."];

/// Prefix of the first of two outputs that are the factors of a gradient.
const LEFT: &str = "dp.left.";

/// The form of one parameter's gradient.
#[derive(Debug)]
enum Form {
    /// An output `[N, len]`.
    Whole { output: usize, len: usize },
    /// Computed from the output `[N, left]` and the next output `[N, right]`. `place` is its range among the computed
    /// gradients of a row.
    Made { output: usize, left: usize, right: usize, by: Maker, place: Range<usize> },
}

/// The computation of a gradient from two rows.
#[derive(Debug)]
enum Maker {
    /// Their outer product, row-major.
    Outer,
    /// The sum of outer products over the positions.
    Positions(Box<PositionGrad>),
    /// The same sum with the same bits on every target.
    PortablePositions(Box<Product>),
    /// Rows of this many floats, each scattered to the row of its index. For the last sample in each slot, the rows
    /// that may be nonzero.
    Rows(usize, Vec<Vec<usize>>),
    /// The gradient of a convolution's kernel.
    Kernel(KernelGrad),
    /// The same gradient with the same bits on every target.
    Portable(Box<damper_nn::Window>),
}

/// Maximum number of rows computed at a time, and maximum number of their floats (8 MiB). The sum adds that many rows
/// in one pass. More floats would not fit in the caches, which costs more than reading the sum again.
const ABREAST: usize = 8;
const MADE: usize = 1 << 21;

/// The forms of all parameters, in order, and a buffer for computed gradients of some rows.
pub(super) struct Parts {
    forms: Vec<Form>,
    /// Number of floats computed per row.
    len: usize,
    /// `[rows, len]`.
    made: Vec<f32>,
    vectors: Arch,
}

impl Parts {
    /// Creates the forms for a session of `grad` on `backend`, with its outputs named [`OUTPUTS`], in their order.
    pub(super) fn new(backend: &dyn Backend, grad: &GradGraph) -> Self {
        let is_read = |spec: &&TensorSpec| OUTPUTS.iter().any(|prefix| spec.name.starts_with(prefix));
        let len = |spec: &TensorSpec| spec.elements(1);
        let outputs: Vec<&TensorSpec> = grad.outputs.iter().filter(is_read).collect();
        let (mut forms, mut end) = (vec![], 0);
        let mut index = 0;
        for parameter in &grad.parameters {
            let output = index;
            let Some(name) = outputs[output].name.strip_prefix(LEFT) else {
                forms.push(Form::Whole { output, len: len(outputs[output]) });
                index += 1;
                continue;
            };
            let (left, right) = (len(outputs[output]), len(outputs[output + 1]));
            let by = match grad.windows.iter().find(|(kernel, _)| kernel == name) {
                None => match outputs[output].shape[..] {
                    [_, Dim::Fixed(positions)] if outputs[output + 1].shape.len() == 3 => {
                        Maker::Rows(right / positions, vec![])
                    }
                    [_, Dim::Fixed(positions), Dim::Fixed(rows)] => {
                        let sizes = [rows, right / positions];
                        if backend.is_portable() {
                            Maker::PortablePositions(Box::new(portable_positions(positions, sizes)))
                        } else {
                            Maker::Positions(Box::new(PositionGrad::new(positions, sizes[1])))
                        }
                    }
                    _ => Maker::Outer,
                },
                Some((_, KernelWindows { window, groups })) => {
                    let channels = right / window.input.iter().product::<usize>();
                    let outputs = left / window.positions();
                    if backend.is_portable() {
                        let window = damper_nn::Window::of_lists(channels, outputs, *groups, window.lists())
                            .expect("only lines and planes have this form");
                        let place = end..end + len(parameter);
                        (index, end) = (output + 2, place.end);
                        forms.push(Form::Made { output, left, right, by: Maker::Portable(Box::new(window)), place });
                        continue;
                    }
                    let axes = Axes {
                        input: &window.input,
                        output: &window.output,
                        kernel: &window.kernel,
                        stride: &window.stride,
                        dilation: &window.dilation,
                        before: &window.before,
                    };
                    let windows = Windows::over(channels, outputs, axes).expect("only lines and planes have this form");
                    Maker::Kernel(KernelGrad::new(windows))
                }
            };
            let place = end..end + len(parameter);
            (index, end) = (output + 2, place.end);
            forms.push(Form::Made { output, left, right, by, place });
        }
        Self { forms, len: end, made: vec![], vectors: Arch::new() }
    }

    /// Returns the number of rows to compute at a time.
    pub(super) fn abreast(&self) -> usize {
        (MADE / self.len.max(1)).clamp(1, ABREAST)
    }

    /// Returns the segments of each of `rows`, from `outputs`.
    pub(super) fn of_rows<'a>(&'a mut self, outputs: &[&'a [f32]], rows: &[usize]) -> Vec<Vec<&'a [f32]>> {
        let Self { forms, len, made, vectors } = self;
        if made.len() < *len * rows.len() {
            made.resize(*len * rows.len(), 0.0);
        }
        let of_row = |row: usize, output: usize, len: usize| &outputs[output][row * len..][..len];
        for (index, row) in rows.iter().enumerate() {
            let made = &mut made[index * *len..][..*len];
            for form in &mut *forms {
                let Form::Made { output, left, right, by, place } = form else { continue };
                let (left, right) = (of_row(*row, *output, *left), of_row(*row, *output + 1, *right));
                let grad = &mut made[place.clone()];
                match by {
                    Maker::Outer => outer(left, right, grad),
                    Maker::Positions(kernel) => kernel.write(left, right, grad),
                    Maker::PortablePositions(shape) => {
                        vectors.dispatch(PortablePositions { shape, left, right, grad });
                    }
                    Maker::Rows(width, last) => {
                        last.resize_with(last.len().max(index + 1), Vec::new);
                        add_rows(left, right, *width, grad, &mut last[index]);
                    }
                    Maker::Kernel(kernel) => kernel.write(left, right, grad),
                    Maker::Portable(window) => vectors.dispatch(PortableGrad { window, dy: left, x: right, grad }),
                }
            }
        }
        let (forms, made) = (&*forms, &*made);
        let parts = |(index, row): (usize, &usize)| {
            let part = |form: &Form| match form {
                Form::Whole { output, len } => of_row(*row, *output, *len),
                Form::Made { place, .. } => &made[index * *len..][place.clone()],
            };
            forms.iter().map(part).collect()
        };
        rows.iter().enumerate().map(parts).collect()
    }
}

/// Returns the product `Σ_t left[t, r] · right[t, c]`.
fn portable_positions(positions: usize, [rows, columns]: [usize; 2]) -> Product {
    let stack = Walk::new(&[], [&[], &[]], [0, 0]).expect("one product");
    Product::new([rows, columns, positions], [1, rows], [columns, 1], stack).expect("the gradient is in memory")
}

/// The sum of outer products over the positions, compiled for the processor's SIMD.
struct PortablePositions<'a> {
    shape: &'a Product,
    left: &'a [f32],
    right: &'a [f32],
    grad: &'a mut [f32],
}

impl WithSimd for PortablePositions<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        product::<Wide>(self.shape, self.left, self.right, self.grad).expect("the outputs have the product's shapes");
    }
}

/// The gradient of a kernel, compiled for the processor's SIMD.
struct PortableGrad<'a> {
    window: &'a damper_nn::Window,
    dy: &'a [f32],
    x: &'a [f32],
    grad: &'a mut [f32],
}

impl WithSimd for PortableGrad<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        kernel_grad::<Wide>(self.window, self.dy, self.x, self.grad).expect("the outputs have the window's shapes");
    }
}

/// Adds each row of `rows`, of `width` floats, to the row of `grad` at its index. On entry, only the rows `last` of
/// `grad` may be nonzero. On return, only the rows of this sample, which `last` then lists.
fn add_rows(indices: &[f32], rows: &[f32], width: usize, grad: &mut [f32], last: &mut Vec<usize>) {
    for index in last.drain(..) {
        grad[index * width..][..width].fill(0.0);
    }
    for (index, row) in indices.iter().zip(rows.chunks_exact(width.max(1))) {
        let index = *index as usize;
        for (sum, x) in grad[index * width..][..width].iter_mut().zip(row) {
            *sum += x;
        }
        last.push(index);
    }
}

/// Computes `left ⊗ right`, row-major.
fn outer(left: &[f32], right: &[f32], product: &mut [f32]) {
    for (l, line) in left.iter().zip(product.chunks_exact_mut(right.len().max(1))) {
        for (product, r) in line.iter_mut().zip(right) {
            *product = l * r;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan;
    use super::*;
    use crate::engine::rehearsal::{Made, made_up};
    use damper_edit::init;
    use damper_grad::{DeriveOptions, Loss, Readout, derive};
    use damper_onnx::graph::{Graph, GraphOptions};
    use damper_runtime::{Choice, open};
    use std::path::Path;

    const ROWS: usize = 3;

    // The segments of a row are its gradients, in the order of the parameters.
    #[test]
    fn row_segments_are_gradients_in_order() {
        let forms = vec![
            Form::Whole { output: 0, len: 1 },
            Form::Made { output: 1, left: 2, right: 3, by: Maker::Outer, place: 0..6 },
            Form::Whole { output: 3, len: 2 },
            Form::Made { output: 4, left: 1, right: 1, by: Maker::Outer, place: 6..7 },
        ];
        let mut parts = Parts { forms, len: 7, made: vec![], vectors: Arch::new() };
        let outputs: [&[f32]; 6] = [
            &[9.0, 8.0],
            &[9.0, 9.0, 2.0, 3.0],
            &[9.0, 9.0, 9.0, 5.0, 6.0, 7.0],
            &[9.0, 9.0, 1.0, 4.0],
            &[9.0, 3.0],
            &[9.0, -1.0],
        ];
        let rows = parts.of_rows(&outputs, &[1, 0]);
        let want: [&[f32]; 4] = [&[8.0], &[10.0, 12.0, 14.0, 15.0, 18.0, 21.0], &[1.0, 4.0], &[-3.0]];
        assert_eq!(rows[0], want);
        let other: [&[f32]; 4] = [&[9.0], &[81.0; 6], &[9.0, 9.0], &[81.0]];
        assert_eq!(rows[1], other);
    }

    // The rows of an embedding matrix are added in position order. Nothing is left of the previous sample.
    #[test]
    fn table_rows_are_of_one_sample() {
        let by = Maker::Rows(2, vec![]);
        let forms = vec![Form::Made { output: 0, left: 3, right: 6, by, place: 0..8 }];
        let mut parts = Parts { forms, len: 8, made: vec![], vectors: Arch::new() };
        let indices = [3.0, 0.0, 3.0, 1.0, 1.0, 1.0];
        let rows: Vec<f32> = (1..=12).map(|x| x as f32).collect();
        let want = [[3.0, 4.0, 0.0, 0.0, 0.0, 0.0, 6.0, 8.0], [0.0, 0.0, 27.0, 30.0, 0.0, 0.0, 0.0, 0.0]];
        assert_eq!(parts.of_rows(&[&indices, &rows], &[0, 1]), want.each_ref().map(|row| vec![&row[..]]));
        assert_eq!(parts.of_rows(&[&indices, &rows], &[1, 0]), [vec![&want[1][..]], vec![&want[0][..]]]);
    }

    /// Returns each row's gradients of the model `file`, in sequence, as read from the graph of this readout.
    fn rows(file: &str, readout: Readout, choice: Choice) -> (usize, Vec<Vec<f32>>) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../onnx-models").join(file);
        let model = init::load(&path, None).unwrap().model;
        let graph = Graph::from_model(&model, &GraphOptions::default()).unwrap();
        let options = DeriveOptions { readout, ..DeriveOptions::new(Loss::SoftmaxCrossEntropy) };
        let grad = derive(&graph, &options).unwrap();
        let params: Vec<f32> = graph.trained().flat_map(|p| p.initial.as_f32().unwrap().to_vec()).collect();
        let (model, plan) = plan(&grad, &OUTPUTS, ROWS.try_into().unwrap());
        let made = made_up(&grad, &plan, &params);
        let backend = open(choice).unwrap();
        let mut session = backend.load(&model, &plan).unwrap();
        let (mut parts, mut read) = (Parts::new(backend.as_ref(), &grad), vec![]);
        let inputs: Vec<_> = made.iter().map(Made::input).collect();
        session
            .run(&inputs, &mut |outputs| {
                let rows = parts.of_rows(outputs, &Vec::from_iter(0..ROWS));
                read = rows.into_iter().map(|row| row.concat()).collect();
            })
            .unwrap();
        (parts.forms.iter().filter(|form| matches!(form, Form::Made { .. })).count(), read)
    }

    // The gradients computed from factors equal those of the graph.
    #[test]
    fn factored_rows_match_graph() {
        for (file, kernels) in [
            ("digits-cnn.onnx", 2),
            ("mnist-cnn.onnx", 3),
            ("cifar-cnn.onnx", 8),
            ("digits-cnn-groupnorm.onnx", 1),
            ("bert-tiny.onnx", 13),
        ] {
            let (_, want) = rows(file, Readout::PerSample, Choice::Tract);
            for (read, want) in [Choice::Tract, Choice::Portable].into_iter().flat_map(|choice| {
                let (made, read) = rows(file, Readout::Factored { positions: true, groups: false }, choice);
                assert!(made >= kernels, "{file}: {made} made here");
                read.into_iter().zip(&want)
            }) {
                let square = |x: f32| f64::from(x) * f64::from(x);
                let off: f64 = read.iter().zip(want).map(|(a, b)| square(a - b)).sum();
                let size: f64 = want.iter().map(|x| square(*x)).sum();
                assert!(size > 0.0 && off <= 1e-10 * size, "{file}: off by {}", (off / size).sqrt());
                assert_eq!(read.len(), want.len());
            }
        }
    }
}
