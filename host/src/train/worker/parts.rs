//! From a session's outputs to the consecutive parts of one row's gradient: outer products are taken here, a row at a time.

use crate::autodiff::{Dim, GradGraph, TensorSpec};
use std::ops::Range;

/// Prefixes of the outputs that a gradient is read from.
pub(in crate::train) const OUTPUTS: [&str; 3] = ["dp.grad.", "dp.left.", "dp.right."];

/// How one parameter's gradient comes.
#[derive(Clone, Debug)]
enum Form {
    /// `[N, len]`, an output.
    Whole { output: usize, len: usize },
    /// `[N, rows]`, an output, and `[N, columns]`, the next; `place` is their product's among the products of a row.
    Outer { output: usize, rows: usize, columns: usize, place: Range<usize> },
}

/// The forms of all parameters, in order, and memory for one row's outer products.
pub(super) struct Parts {
    forms: Vec<Form>,
    products: Vec<f32>,
}

impl Parts {
    /// Of a session of `grad` with its outputs named [`OUTPUTS`], in their order.
    pub(super) fn new(grad: &GradGraph) -> Self {
        let is_read = |spec: &&TensorSpec| OUTPUTS.iter().any(|prefix| spec.name.starts_with(prefix));
        let len = |spec: &TensorSpec| -> usize {
            let extents = spec.shape.iter().map(|dim| if let Dim::Fixed(extent) = dim { *extent } else { 1 });
            extents.product()
        };
        let outputs: Vec<&TensorSpec> = grad.outputs.iter().filter(is_read).collect();
        let (mut forms, mut end) = (vec![], 0);
        for (output, spec) in outputs.iter().enumerate().filter(|(_, spec)| !spec.name.starts_with("dp.right.")) {
            forms.push(match outputs.get(output + 1) {
                Some(right) if spec.name.starts_with("dp.left.") => {
                    let (rows, columns) = (len(spec), len(right));
                    let place = end..end + rows * columns;
                    end = place.end;
                    Form::Outer { output, rows, columns, place }
                }
                _ => Form::Whole { output, len: len(spec) },
            });
        }
        Self { forms, products: vec![0.0; end] }
    }

    /// The parts of row `row` of `outputs`.
    pub(super) fn of_row<'a>(&'a mut self, outputs: &[&'a [f32]], row: usize) -> Vec<&'a [f32]> {
        let of_row = |output: usize, len: usize| &outputs[output][row * len..][..len];
        for form in &self.forms {
            if let Form::Outer { output, rows, columns, place } = form {
                let (left, right) = (of_row(*output, *rows), of_row(output + 1, *columns));
                outer(left, right, &mut self.products[place.clone()]);
            }
        }
        let part = |form: &Form| match form {
            Form::Whole { output, len } => of_row(*output, *len),
            Form::Outer { place, .. } => &self.products[place.clone()],
        };
        self.forms.iter().map(part).collect()
    }
}

/// `left ⊗ right`, row-major.
fn outer(left: &[f32], right: &[f32], product: &mut [f32]) {
    for (l, line) in left.iter().zip(product.chunks_exact_mut(right.len().max(1))) {
        for (product, r) in line.iter_mut().zip(right) {
            *product = l * r;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rows_parts_are_its_gradients_in_the_parameters_order() {
        let forms = vec![
            Form::Whole { output: 0, len: 1 },
            Form::Outer { output: 1, rows: 2, columns: 3, place: 0..6 },
            Form::Whole { output: 3, len: 2 },
            Form::Outer { output: 4, rows: 1, columns: 1, place: 6..7 },
        ];
        let mut parts = Parts { forms, products: vec![0.0; 7] };
        let outputs: [&[f32]; 6] = [
            &[9.0, 8.0],
            &[9.0, 9.0, 2.0, 3.0],
            &[9.0, 9.0, 9.0, 5.0, 6.0, 7.0],
            &[9.0, 9.0, 1.0, 4.0],
            &[9.0, 3.0],
            &[9.0, -1.0],
        ];
        let row = parts.of_row(&outputs, 1);
        let want: [&[f32]; 4] = [&[8.0], &[10.0, 12.0, 14.0, 15.0, 18.0, 21.0], &[1.0, 4.0], &[-3.0]];
        assert_eq!(row, want);
    }
}
