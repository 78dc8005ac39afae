//! Products of rows with weights, `Y = X · W`, with packing, because the weights of training are new at each step.

use cpu_time::ThreadTime;
use damper_kernel_benches::{Kernel, kernels, numbers};
use damper_kernels::product::Product;
use damper_kernels::simd::SimdKernel as _;
use gemm_common::Parallelism;
use tract_data::prelude::{DatumType, Tensor};
use tract_linalg::MmmDispatch;
use tract_linalg::mmm::{AsInputValue, FusedSpec};

const ROUNDS: usize = 30;
const SPAN: f64 = 2e-3;

/// Sizes of a product (rows, terms and outputs), and the layout of its weights.
struct Shape {
    sizes: [usize; 3],
    transposed: bool,
}

impl Shape {
    /// Returns the strides from one term and from one output of the weights to the next.
    fn steps(&self) -> [isize; 2] {
        let [_, terms, outputs] = self.sizes;
        if self.transposed { [1, terms as isize] } else { [outputs as isize, 1] }
    }
}

const NAMES: [&str; 4] = ["damper", "gemm-f32", "matrixmultiply", "tract-linalg"];

/// A call of each candidate: from rows and weights to outputs.
type Call = Box<dyn FnMut(&[f32], &[f32], &mut [f32])>;

fn candidates(shape: &Shape) -> [Call; 4] {
    let [_, terms, outputs] = shape.sizes;
    let [term, output] = shape.steps();
    let transposed = shape.transposed;
    let mut own = Product::new([terms, outputs], transposed);
    let (n, k) = (outputs as isize, terms as isize);
    [
        Box::new(move |x, weights, y| own.run(x, weights, None, y)),
        Box::new(move |x, weights, y| {
            let gemm = gemm_f32::gemm::f32::get_gemm_fn();
            let rows = y.len() / outputs;
            // SAFETY: the slices hold matrices of these sizes and strides.
            unsafe {
                let (y, x, w) = (y.as_mut_ptr(), x.as_ptr(), weights.as_ptr());
                let none = Parallelism::None;
                gemm(
                    rows, outputs, terms, y, 1, n, false, x, 1, k, w, output, term, 0.0, 1.0, false, false, false, none,
                );
            }
        }),
        Box::new(move |x, weights, y| {
            let rows = y.len() / outputs;
            // SAFETY: as above.
            unsafe {
                let (y, x, w) = (y.as_mut_ptr(), x.as_ptr(), weights.as_ptr());
                matrixmultiply::sgemm(rows, terms, outputs, 1.0, x, k, 1, w, term, output, 0.0, y, n, 1);
            }
        }),
        Box::new(move |x, weights, y| {
            let rows = y.len() / outputs;
            let sizes = [Some(rows), Some(terms), Some(outputs)];
            let kernel =
                MmmDispatch::native().preferred_kernel(DatumType::F32, sizes[0], sizes[1], sizes[2]).expect("a kernel");
            let a = Tensor::from_shape(&[rows, terms], x).expect("rows");
            let from = if transposed { [outputs, terms] } else { [terms, outputs] };
            let b = Tensor::from_shape(&from, weights).expect("weights");
            let (of_a, of_b) = &kernel.packings()[0];
            let a = of_a.prepare_one(&a, 1, 0).expect("packed rows");
            let [k_axis, n_axis] = if transposed { [1, 0] } else { [0, 1] };
            let b = of_b.prepare_one(&b, k_axis, n_axis).expect("packed weights");
            let mut c = Tensor::zero::<f32>(&[rows, outputs]).expect("outputs");
            // SAFETY: the store is of `c`, of these sizes.
            unsafe {
                let store = FusedSpec::Store(kernel.c_view(Some(0), Some(1)).wrap(&c.view_mut()));
                let (a, b) = (AsInputValue::Borrowed(&*a), AsInputValue::Borrowed(&*b));
                kernel.run(rows, outputs, &[FusedSpec::AddMatMul { a, b, packing: 0 }, store]).expect("a product");
            }
            y.copy_from_slice(c.try_as_plain_ram().expect("floats").as_slice::<f32>().expect("floats"));
        }),
    ]
}

/// Returns true if the bits of a row's outputs are the same in each position, among other rows and alone.
fn keeps_bits(shape: &Shape, call: &mut Call, x: &[f32], weights: &[f32]) -> bool {
    let [rows, terms, outputs] = shape.sizes;
    let mut alone = vec![0.0; outputs];
    let row = &x[..terms];
    call(row, weights, &mut alone);
    [2, 3, 7, rows].into_iter().all(|count| {
        let same = row.repeat(count);
        let mut y = vec![0.0; count * outputs];
        call(&same, weights, &mut y);
        y.chunks(outputs).all(|y| y.iter().zip(&alone).all(|(y, alone)| y.to_bits() == alone.to_bits()))
    })
}

/// Prints GFLOP/s of each, the best of many measurements in turns, and whether a row's position changes its bits.
pub fn compare() {
    println!("| product | {} |\n| --- |{}", NAMES.join(" | "), " ---: |".repeat(NAMES.len()));
    for (kernel, _) in kernels() {
        let Kernel::Product { sizes, transposed } = kernel else { continue };
        let shape = Shape { sizes, transposed };
        let [rows, terms, outputs] = sizes;
        let (x, weights, mut y) = (numbers(rows * terms, 1), numbers(terms * outputs, 2), vec![0.0; rows * outputs]);
        let mut calls = candidates(&shape);
        let mut want = vec![];
        for call in &mut calls {
            call(&x, &weights, &mut y);
            if want.is_empty() {
                want.clone_from(&y);
            }
            let most = 1e-4 * (terms as f32).sqrt();
            assert!(y.iter().zip(&want).all(|(y, want)| (y - want).abs() < most), "{kernel}: products differ");
        }
        let (mut least, mut repeats) = ([f64::MAX; NAMES.len()], [1; NAMES.len()]);
        for _ in 0..ROUNDS {
            for (index, call) in calls.iter_mut().enumerate() {
                let start = ThreadTime::now();
                for _ in 0..repeats[index] {
                    call(&x, &weights, &mut y);
                }
                let took = start.elapsed().as_secs_f64();
                least[index] = least[index].min(took / f64::from(repeats[index]));
                if took < SPAN {
                    repeats[index] = (f64::from(repeats[index]) * (SPAN / took.max(1e-6)).min(100.0)).ceil() as u32;
                }
            }
        }
        let cell = |index: usize, call: &mut Call| {
            let kept = if keeps_bits(&shape, call, &x, &weights) { "" } else { ", by place" };
            format!("{:.1}{kept}", 2e-9 * kernel.products() as f64 / least[index])
        };
        let cells: Vec<_> = calls.iter_mut().enumerate().map(|(index, call)| cell(index, call)).collect();
        println!("| {kernel} | {} |", cells.join(" | "));
    }
}
