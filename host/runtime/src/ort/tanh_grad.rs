//! Gradient of `Tanh`, `dY · (1 − Y²)`, as a custom operator with one pass over memory. As three standard nodes it is
//! bound by memory bandwidth, and privately trained networks often use `Tanh`. The bits are the same because each entry
//! is rounded in the same way.

use super::operator::{Kernel, Operator};
use pulp::{Arch, Simd, WithSimd};

/// `(dY, Y) → dX`, all of one shape.
pub(super) const TANH_GRAD: Operator<Multiply> =
    Operator { name: "TanhGrad", inputs: [2, 0], outputs: [1, 0], kernel: |_| Multiply(Arch::new()) };

/// Kernel, for the SIMD instructions of the processor.
pub(super) struct Multiply(Arch);

impl Kernel for Multiply {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Vec<i64>>> {
        let [Some(grad), Some(y)] = *inputs else { return None };
        (grad == y).then(|| vec![grad.to_vec()])
    }

    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()> {
        let ([Some(grad), Some(y)], [Some(into)]) = (inputs, outputs) else { return None };
        self.0.dispatch(Run { grad, y, into });
        Some(())
    }
}

struct Run<'a> {
    grad: &'a [f32],
    y: &'a [f32],
    into: &'a mut [f32],
}

impl WithSimd for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for ((into, grad), y) in self.into.iter_mut().zip(self.grad).zip(self.y) {
            *into = grad * (1.0 - y * y);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::operator;
    use super::super::testing::{batched, model, node, numbers, run};

    #[test]
    fn its_bits_are_those_of_the_nodes() {
        const WIDTH: usize = 37;
        let ours = vec![operator::node("TanhGrad", &["gy", "y"], &["gx"], vec![])];
        let theirs = ["square = Mul(y, y)", "slope = Sub(one, square)", "gx = Mul(gy, slope)"].map(node).to_vec();
        let made = [ours, theirs].map(|nodes| {
            let inputs = vec![batched("gy", &[WIDTH]), batched("y", &[WIDTH])];
            let of = model(nodes, &[("one", &[1], &[1.0])], inputs, vec![batched("gx", &[WIDTH])]);
            run(&of, &numbers(&of.1)).map(|made| made[0].iter().map(|entry| entry.to_bits()).collect::<Vec<_>>())
        });
        let [Some(ours), Some(theirs)] = made else { return };
        assert!(ours.len() > 2 * WIDTH);
        assert_eq!(ours, theirs);
    }
}
