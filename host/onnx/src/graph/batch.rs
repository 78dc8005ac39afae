//! Arithmetic of the batch axis: position of the sample digit in a flat index.
//!
//! In row-major order, a value with the batch at (axis, outer, inner) is a three-digit number (left, sample, right).
//! `left` is the product of the extents before the axis, times `outer`. `right` is `inner` times the product of the
//! extents after the axis. A reshape keeps the flat order, so it keeps `left` and `right`. They determine which axis of
//! the target contains the sample.

use super::BatchAxis;

impl BatchAxis {
    /// One sample per index along `axis`.
    pub fn plain(axis: usize) -> BatchAxis {
        BatchAxis { axis, outer: 1, inner: 1 }
    }

    /// Extent of the axis for one sample.
    pub fn extent(self) -> usize {
        self.outer * self.inner
    }

    /// Same digits at another axis.
    pub fn at(self, axis: usize) -> BatchAxis {
        BatchAxis { axis, ..self }
    }

    /// Number of flat positions to the left and to the right of the sample digit, in a value of one-sample `shape`.
    pub fn sides(self, shape: &[usize]) -> (usize, usize) {
        let before: usize = shape[..self.axis].iter().product();
        let after: usize = shape[self.axis + 1..].iter().product();
        (before * self.outer, self.inner * after)
    }
}

/// Batch at `axis` of a value with one-sample shape `shape` and the given sides. `None` if the sample digit is not
/// there.
pub(super) fn place(sides: (usize, usize), shape: &[usize], axis: usize) -> Option<BatchAxis> {
    let before: usize = shape[..axis].iter().product();
    let after: usize = shape[axis + 1..].iter().product();
    let outer = sides.0.checked_div(before).filter(|outer| outer * before == sides.0)?;
    let inner = sides.1.checked_div(after).filter(|inner| inner * after == sides.1)?;
    (outer * inner == shape[axis]).then_some(BatchAxis { axis, outer, inner })
}

/// Shape for messages. The batch axis includes `N`.
pub(super) fn show(shape: &[usize], batch: Option<BatchAxis>) -> String {
    let dims: Vec<String> = shape
        .iter()
        .enumerate()
        .map(|(axis, d)| match batch {
            Some(b) if b.axis == axis => match (b.outer, b.inner) {
                (1, 1) => "N".to_string(),
                (1, inner) => format!("N·{inner}"),
                (outer, 1) => format!("{outer}·N"),
                (outer, inner) => format!("{outer}·N·{inner}"),
            },
            _ => d.to_string(),
        })
        .collect();
    format!("[{}]", dims.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sample of every element of a value, by the definition of (axis, outer, inner).
    fn samples(shape: &[usize], batch: BatchAxis, n: usize) -> Vec<usize> {
        let full: Vec<usize> =
            shape.iter().enumerate().map(|(i, &d)| if i == batch.axis { d * n } else { d }).collect();
        let count: usize = full.iter().product();
        (0..count)
            .map(|flat| {
                let after: usize = full[batch.axis + 1..].iter().product();
                let digit = flat / after % full[batch.axis];
                digit / batch.inner % n
            })
            .collect()
    }

    proptest! {
        // A reshape keeps every element with its sample.
        #[test]
        fn reshape_keeps_elements_with_sample(
            dims in prop::collection::vec(1usize..4, 1..4),
            pick in 0usize..4, outer in 1usize..3, inner in 1usize..3, n in 1usize..4,
            merge in prop::collection::vec(any::<bool>(), 8),
        ) {
            let axis = pick % dims.len();
            let mut shape = dims.clone();
            shape[axis] = outer * inner;
            let batch = BatchAxis { axis, outer, inner };
            // Splits the batch axis into its digits, then merges neighbours at random. Every such target is valid.
            let mut digits: Vec<(usize, bool)> = Vec::new();
            for (i, &d) in shape.iter().enumerate() {
                if i == axis {
                    digits.extend([(outer, false), (1, true), (inner, false)]);
                } else {
                    digits.push((d, false));
                }
            }
            let mut target: Vec<(usize, bool)> = vec![digits[0]];
            for (i, &(d, batched)) in digits.iter().enumerate().skip(1) {
                if merge[i % merge.len()] {
                    let last = target.last_mut().unwrap();
                    *last = (last.0 * d, last.1 || batched);
                } else {
                    target.push((d, batched));
                }
            }
            let at = target.iter().position(|t| t.1).unwrap();
            let to: Vec<usize> = target.iter().map(|t| t.0).collect();
            let placed = place(batch.sides(&shape), &to, at).unwrap();
            prop_assert_eq!(samples(&shape, batch, n), samples(&to, placed, n));
        }

        // `place` returns a batch axis only if samples stay in place.
        #[test]
        fn placement_keeps_samples_in_place(
            from in prop::collection::vec(1usize..5, 1..4), pick in 0usize..4,
            to in prop::collection::vec(1usize..5, 1..4), at in 0usize..4,
        ) {
            let (pick, at) = (pick % from.len(), at % to.len());
            let mut from = from;
            from[pick] = 1;
            let batch = BatchAxis::plain(pick);
            if let Some(placed) = place(batch.sides(&from), &to, at) {
                prop_assert_eq!(samples(&from, batch, 3), samples(&to, placed, 3));
            }
        }
    }

    #[test]
    fn splitting_inside_a_sample_has_no_place() {
        // Reshaping [N, 6] to [2, N·3] would put the first half of every sample in row 0.
        assert_eq!(place(BatchAxis::plain(0).sides(&[1, 6]), &[2, 3], 1), None);
    }
}
