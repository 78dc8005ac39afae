//! Order of a schedule's steps, and the place of each value in memory.
//!
//! A gradient that is smaller than its operands is computed as soon as they are available, so they need not be kept. An
//! activation or a gate overwrites its operand if no later step reads it.

use damper_runtime::portable::{Kind, Life, place};

/// Value that a step writes. Each step writes one value, which has the index of the step.
#[derive(Debug)]
pub(crate) struct Value {
    pub(crate) kind: Kind,
    pub(crate) len: usize,
    /// Values of other steps that its step reads.
    pub(crate) reads: Vec<usize>,
    /// Operand that its step may overwrite, of the same type and length.
    pub(crate) over: Option<usize>,
    pub(crate) is_output: bool,
}

/// Order and places of values.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Steps in the order in which they run.
    pub(crate) order: Vec<usize>,
    /// First element of each value in the memory of its kind.
    pub(crate) starts: Vec<usize>,
    /// Lengths of the memories of f32, i64 and bool.
    pub(crate) areas: [usize; 3],
}

impl Layout {
    /// Returns the smaller of two layouts: in the given order, and with early gradients.
    pub(crate) fn smallest(values: &[Value]) -> Self {
        let given = Self::new(values, (0..values.len()).collect());
        let early = Self::new(values, early(values));
        if early.bytes() < given.bytes() { early } else { given }
    }

    fn bytes(&self) -> usize {
        let [f32s, i64s, bools] = self.areas;
        4 * f32s + 8 * i64s + bools
    }

    fn new(values: &[Value], order: Vec<usize>) -> Self {
        let mut position = vec![0; values.len()];
        order.iter().enumerate().for_each(|(at, value)| position[*value] = at);
        let mut last: Vec<usize> = position.clone();
        for (at, value) in values.iter().enumerate() {
            value.reads.iter().for_each(|read| last[*read] = last[*read].max(position[at]));
        }
        (0..values.len()).filter(|at| values[*at].is_output).for_each(|at| last[at] = values.len());
        // Values that overwrite each other share the place of the first of them.
        let mut owner: Vec<usize> = (0..values.len()).collect();
        for at in order.iter().copied() {
            if let Some(over) = values[at].over
                && last[over] == position[at]
            {
                owner[at] = owner[over];
            }
        }
        let mut lives: Vec<Life> =
            (0..values.len()).map(|at| Life { len: values[at].len, first: position[at], last: last[at] }).collect();
        for at in 0..values.len() {
            let end = lives[at].last;
            lives[owner[at]].last = lives[owner[at]].last.max(end);
        }
        let mut starts = vec![0; values.len()];
        let areas = [Kind::F32, Kind::I64, Kind::Bool].map(|kind| {
            let owners: Vec<usize> =
                (0..values.len()).filter(|at| values[*at].kind == kind && owner[*at] == *at).collect();
            let (places, whole) = place(&owners.iter().map(|at| lives[*at]).collect::<Vec<_>>(), 1);
            owners.iter().zip(places).for_each(|(at, start)| starts[*at] = start);
            whole
        });
        (0..values.len()).for_each(|at| starts[at] = starts[owner[at]]);
        Self { order, starts, areas }
    }
}

/// Returns the given order, with outputs that are smaller than their operands as early as the operands allow.
fn early(values: &[Value]) -> Vec<usize> {
    let mut is_read = vec![false; values.len()];
    values.iter().flat_map(|value| &value.reads).for_each(|read| is_read[*read] = true);
    let is_movable = |at: usize| {
        let value = &values[at];
        let operands: usize = value.reads.iter().map(|read| values[*read].len).sum();
        value.is_output && !is_read[at] && value.len < operands
    };
    let mut order = Vec::with_capacity(values.len());
    let mut is_placed = vec![false; values.len()];
    let mut waiting: Vec<usize> = (0..values.len()).filter(|at| is_movable(*at)).collect();
    for at in (0..values.len()).filter(|at| !is_movable(*at)) {
        order.push(at);
        is_placed[at] = true;
        waiting.retain(|waiting| {
            let is_ready = values[*waiting].reads.iter().all(|read| is_placed[*read]);
            if is_ready {
                order.push(*waiting);
            }
            !is_ready
        });
    }
    order.extend(waiting);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(len: usize, reads: &[usize], over: Option<usize>, is_output: bool) -> Value {
        Value { kind: Kind::F32, len, reads: reads.to_vec(), over, is_output }
    }

    // A chain of activations in place, and two small gradients at the end.
    #[test]
    fn operands_are_overwritten() {
        let values = [
            value(100, &[], None, false),
            value(100, &[0], Some(0), false),
            value(100, &[1], None, false),
            value(100, &[2], Some(2), false),
            value(100, &[3], None, false),
            value(4, &[2, 3], None, true),
            value(4, &[1, 3], None, true),
        ];
        let layout = Layout::smallest(&values);
        // Step 5 reads value 2 again, so value 3 needs its own place until then.
        assert_eq!(layout.starts[1], layout.starts[0]);
        assert_ne!(layout.starts[3], layout.starts[2]);
        assert_eq!(layout.order, [0, 1, 2, 3, 5, 6, 4]);
        assert_eq!(layout.areas, [304, 0, 0]);
    }

    // In random schedules, no value is overwritten before its last reader has run.
    #[test]
    fn values_last_until_their_last_reader() {
        let mut random = damper_testing::Random(23);
        for _ in 0..300 {
            let count = 2 + random.below(15);
            let mut values: Vec<Value> = vec![];
            for at in 0..count {
                let reads: Vec<usize> = (0..random.below(3)).filter(|_| at > 0).map(|_| random.below(at)).collect();
                let over = reads
                    .first()
                    .copied()
                    .filter(|over| random.below(2) == 0 && reads[1..].iter().all(|other| other != over));
                let len = over.map_or(1 + random.below(9), |over| values[over].len);
                values.push(value(len, &reads, over, random.below(4) == 0 || at + 1 == count));
            }
            let layout = Layout::smallest(&values);
            let mut memory = vec![usize::MAX; layout.areas[0]];
            let holds = |memory: &[usize], at: usize| {
                memory[layout.starts[at]..][..values[at].len].iter().all(|owner| *owner == at)
            };
            for at in layout.order.iter().copied() {
                assert!(values[at].reads.iter().all(|read| holds(&memory, *read)), "{values:?} {layout:?}");
                let operands = values[at].reads.iter().filter(|read| values[at].over != Some(**read));
                for read in operands.copied() {
                    let (a, b) = (layout.starts[at], layout.starts[read]);
                    assert!(a >= b + values[read].len || b >= a + values[at].len, "an operand is overwritten");
                }
                memory[layout.starts[at]..][..values[at].len].fill(at);
            }
            assert!((0..count).filter(|at| values[*at].is_output).all(|at| holds(&memory, at)));
        }
    }
}
