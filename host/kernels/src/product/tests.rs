use super::*;
use crate::simd::testing::{Width, check, numbers};

const WIDTHS: [Width; 3] = [Width::Dispatched, Width::Eight, Width::One];

/// Product under test: its rows, terms and outputs, and its operands.
struct Case {
    rows: usize,
    sizes: [usize; 2],
    transposed: bool,
    x: Vec<f32>,
    weights: Vec<f32>,
    bias: Option<Vec<f32>>,
}

impl Case {
    fn new([rows, terms, outputs]: [usize; 3], transposed: bool, biased: bool) -> Self {
        Self {
            rows,
            sizes: [terms, outputs],
            transposed,
            x: numbers(rows * terms, 1),
            weights: numbers(terms * outputs, 2),
            bias: biased.then(|| numbers(outputs, 3)),
        }
    }

    fn all(shapes: &[[usize; 3]]) -> impl Iterator<Item = Self> {
        let kinds = [(false, false), (false, true), (true, false), (true, true)];
        shapes.iter().flat_map(move |shape| kinds.map(|(transposed, biased)| Self::new(*shape, transposed, biased)))
    }

    fn fresh(&self) -> SimdProduct {
        SimdProduct::new(self.sizes, self.transposed)
    }

    /// Computes the rows from `from` on for which `y` has room. Returns false if the processor does not support the
    /// SIMD width.
    fn run(&self, of: &mut SimdProduct, width: Width, from: usize, y: &mut [f32]) -> bool {
        let [terms, outputs] = self.sizes;
        let x = &self.x[from * terms..][..y.len() / outputs * terms];
        let (weights, bias) = (&self.weights, self.bias.as_deref());
        width.run(SimdCall { of, x, weights, bias, y })
    }

    fn product(&self) -> Vec<f32> {
        let mut y = vec![f32::NAN; self.rows * self.sizes[1]];
        self.run(&mut self.fresh(), Width::Dispatched, 0, &mut y);
        y
    }

    /// Definition of the product, in f64.
    fn want(&self) -> Vec<f64> {
        let [terms, outputs] = self.sizes;
        let weight = |term, output| match self.transposed {
            true => self.weights[output * terms + term],
            false => self.weights[term * outputs + output],
        };
        let entry = |x: &[f32], output: usize| {
            let products = x.iter().enumerate().map(|(term, x)| f64::from(*x) * f64::from(weight(term, output)));
            products.sum::<f64>() + self.bias.as_ref().map_or(0.0, |bias| f64::from(bias[output]))
        };
        self.x.chunks(terms).flat_map(|x| (0..outputs).map(move |output| entry(x, output))).collect()
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Self { rows, sizes: [terms, outputs], transposed, bias, .. } = self;
        write!(f, "{rows}×{terms}→{outputs}, transposed: {transposed}, bias: {}", bias.is_some())
    }
}

/// Few and many rows, single outputs, ends of registers, blocks and groups, and weights in the role of rows.
const SHAPES: [[usize; 3]; 18] = [
    [1, 1, 1],
    [1, 300, 64],
    [3, 5, 3],
    [5, 4, 13],
    [13, 31, 17],
    [16, 256, 10],
    [16, 10, 100],
    [16, 64, 32],
    [17, 33, 32],
    [24, 18, 16],
    [25, 20, 48],
    [31, 40, 33],
    [32, 3, 65],
    [33, 1, 31],
    [100, 17, 5],
    [40, 1100, 100],
    [14, 2100, 70],
    [3, 70_000, 2],
];

fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

// The product equals its definition for every SIMD width.
#[test]
fn matches_definition_at_every_width() {
    let sizes = [1, 3, 4, 5, 13, 16, 17, 31, 32, 33];
    let pairs = sizes.into_iter().flat_map(|terms| sizes.map(|outputs| [terms, outputs]));
    let small = pairs.flat_map(|[terms, outputs]| [1, 7, 16, 31, 100].map(|rows| [rows, terms, outputs]));
    for case in Case::all(&SHAPES.into_iter().chain(small).collect::<Vec<_>>()) {
        let want = case.want();
        for width in WIDTHS {
            let mut y = vec![f32::NAN; want.len()];
            if case.run(&mut case.fresh(), width, 0, &mut y) {
                check(&format!("{case}, {width:?}"), &y, &want, case.sizes[0] + 1);
            }
        }
    }
}

// The bits of a row do not depend on its position or on other rows.
#[test]
fn row_bits_depend_on_own_row() {
    for mut case in Case::all(&SHAPES) {
        let [terms, outputs] = case.sizes;
        // With such small rows, only the sign of zero remains of a sum, which shows if the bias is also a zero.
        case.x[..terms].iter_mut().for_each(|x| *x *= 1e-45);
        if let Some(bias) = &mut case.bias {
            bias.iter_mut().step_by(2).for_each(|bias| *bias = -0.0);
        }
        let all = case.product();
        let mut used = case.fresh();
        for from in 0..case.rows {
            for rows in [1, 2, 15, 16, 30] {
                let rows = rows.min(case.rows - from);
                let mut y = vec![f32::NAN; rows * outputs];
                case.run(&mut used, Width::Dispatched, from, &mut y);
                assert!(same_bits(&y, &all[from * outputs..][..y.len()]), "{case}: {rows} rows from {from}");
            }
        }
    }
}

#[test]
fn calls_before_change_no_bits() {
    for case in Case::all(&SHAPES) {
        let mut y = case.product();
        let want = y.clone();
        let mut used = case.fresh();
        for before in [f32::NAN, f32::INFINITY, 1.0] {
            let weights = case.weights.iter().map(|weight| weight * before).rev().collect();
            let other = Case { x: case.x.clone(), weights, bias: None, ..case };
            other.run(&mut used, Width::Dispatched, 0, &mut y);
            for _ in 0..2 {
                case.run(&mut used, Width::Dispatched, 0, &mut y);
                assert!(same_bits(&y, &want), "{case}");
            }
        }
    }
}

// SIMD kernels with 16 and with 8 lanes give the same bits.
#[test]
fn sixteen_and_eight_lanes_have_same_bits() {
    for case in Case::all(&SHAPES) {
        let mut y = vec![f32::NAN; case.rows * case.sizes[1]];
        if case.run(&mut case.fresh(), Width::Eight, 0, &mut y) {
            assert!(same_bits(&y, &case.product()), "{case}");
        }
    }
}

#[test]
fn non_finite_row_affects_only_itself() {
    for mut case in Case::all(&SHAPES) {
        let ([terms, outputs], spoilt) = (case.sizes, case.rows / 2);
        let want = case.product();
        case.x[spoilt * terms..][..terms].fill(f32::NAN);
        for (row, (y, want)) in case.product().chunks(outputs).zip(want.chunks(outputs)).enumerate() {
            let held = if row == spoilt { y.iter().all(|y| y.is_nan()) } else { same_bits(y, want) };
            assert!(held, "{case}: row {row}");
        }
    }
}
