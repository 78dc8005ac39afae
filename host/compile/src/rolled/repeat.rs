//! Steps that repeat: the iterations of a loop that a network was unrolled from.

use super::family::Families;
use super::flow::{Base, Flow, Op, Span};
use std::collections::{BinaryHeap, HashMap};

/// Minimum number of iterations of a loop.
const FEWEST: usize = 4;

/// Maximum number of steps of an iteration.
const LONGEST: usize = 400;

/// Steps `start..start + period * count`, which repeat `count` times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Repeat {
    pub(super) start: usize,
    pub(super) period: usize,
    pub(super) count: usize,
}

impl Repeat {
    pub(super) fn len(&self) -> usize {
        self.period * self.count
    }

    pub(super) fn end(&self) -> usize {
        self.start + self.len()
    }
}

/// Steps `start..end` that may repeat with a period: each has the form of the step a period later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Maximum number of steps of its loop.
    len: usize,
    /// Prefers short periods.
    period: std::cmp::Reverse<usize>,
    start: usize,
    end: usize,
}

/// Finds the loops of `flow`, from the longest, and the families of their buffers. Loops do not overlap.
pub(super) fn repeats(flow: &Flow) -> (Vec<Repeat>, Families) {
    let mut families = Families::default();
    let forms = forms(&flow.ops);
    let mut candidates: BinaryHeap<Candidate> = BinaryHeap::new();
    for period in 1..=LONGEST.min(forms.len() / FEWEST) {
        let mut start = 0;
        for at in 0..=forms.len() - period {
            let is_same = at + period < forms.len() && forms[at] == forms[at + period];
            if !is_same {
                candidates.extend(candidate(start, at + period, period));
                start = at + 1;
            }
        }
    }
    let mut found: Vec<Repeat> = vec![];
    while let Some(Candidate { period, start, end, .. }) = candidates.pop() {
        let period = period.0;
        // Parts that are in no other loop.
        let inside = |repeat: &&Repeat| repeat.start < end && start < repeat.end();
        if let Some(other) = found.iter().find(inside) {
            candidates.extend(candidate(start, other.start.max(start), period));
            candidates.extend(candidate(other.end().min(end), end, period));
            continue;
        }
        let Some(repeat) = longest(flow, start, end, period) else { continue };
        let is_longest = candidates.peek().is_none_or(|next| next.len <= repeat.len());
        if !is_longest {
            candidates.extend(candidate(repeat.start, repeat.end(), period));
            continue;
        }
        if families.add(flow, &sequences(&flow.ops, repeat)) {
            found.push(repeat);
            candidates.extend(candidate(start, repeat.start, period));
            candidates.extend(candidate(repeat.end(), end, period));
        }
    }
    found.sort_by_key(|repeat| repeat.start);
    (found, families)
}

fn candidate(start: usize, end: usize, period: usize) -> Option<Candidate> {
    let count = end.checked_sub(start)? / period;
    (count >= FEWEST).then_some(Candidate { len: count * period, period: std::cmp::Reverse(period), start, end })
}

/// Numbers of steps: equal if the kernels are, and the operands have the same owners or are all buffers.
fn forms(ops: &[Op]) -> Vec<usize> {
    let mut known: HashMap<String, usize> = HashMap::new();
    let form = |op: &Op| {
        let spans = op.reads.iter().chain([&op.write]);
        let spans: Vec<(Option<Base>, usize)> =
            spans.map(|span| (Some(span.base).filter(|base| !matches!(base, Base::Buffer(_))), span.len)).collect();
        let next = known.len();
        *known.entry(format!("{:?} {:?} {spans:?}", op.kernel, op.write.kind)).or_insert(next)
    };
    ops.iter().map(form).collect()
}

/// Returns the longest loop in steps `start..end`.
fn longest(flow: &Flow, start: usize, end: usize, period: usize) -> Option<Repeat> {
    let mut best: Option<Repeat> = None;
    for start in start..end.min(start + 3 * period) {
        let most = (end - start) / period;
        if most < FEWEST || best.is_some_and(|best| best.count >= most) {
            break;
        }
        let count = iterations(&flow.ops, start, period, most);
        if count >= FEWEST && best.is_none_or(|best| best.count < count) {
            best = Some(Repeat { start, period, count });
        }
    }
    best
}

/// Returns the number of iterations, at most `most`, in which each operand moves by the same stride, or has a buffer of
/// its own.
fn iterations(ops: &[Op], start: usize, period: usize, most: usize) -> usize {
    let mut most = most;
    for at in start..start + period {
        for slot in 0..=ops[at].reads.len() {
            let spans = (0..most).map(|iteration| span(&ops[at + iteration * period], slot));
            most = regular(spans);
            if most < FEWEST {
                return 0;
            }
        }
    }
    most
}

/// Returns operand `slot`. The written operand is the last.
fn span(op: &Op, slot: usize) -> Span {
    op.reads.get(slot).copied().unwrap_or(op.write)
}

/// Returns the number of spans from the first on that have one owner and a stride, or different owners and one start.
fn regular(spans: impl Iterator<Item = Span>) -> usize {
    let spans: Vec<Span> = spans.collect();
    let [first, second, ..] = &spans[..] else { return spans.len() };
    if first.base == second.base {
        let stride = second.start.wrapping_sub(first.start);
        let is_next = |at: usize| {
            let (before, here) = (spans[at - 1], spans[at]);
            here.base == first.base && here.start.wrapping_sub(before.start) == stride
        };
        return (1..spans.len()).take_while(|at| is_next(*at)).count() + 1;
    }
    let is_next = |at: usize| {
        let (before, here) = (spans[at - 1], spans[at]);
        before.buffer().is_some() && here.buffer().is_some() && here.base != before.base && here.start == first.start
    };
    (1..spans.len()).take_while(|at| is_next(*at)).count() + 1
}

/// Returns the buffers of each operand that has a buffer of its own in each iteration. Written operands are first.
fn sequences(ops: &[Op], repeat: Repeat) -> Vec<Vec<usize>> {
    let Repeat { start, period, count } = repeat;
    let of = |at: usize, slot: usize| -> Option<Vec<usize>> {
        let buffers: Vec<usize> =
            (0..count).map(|iteration| span(&ops[at + iteration * period], slot).buffer()).collect::<Option<_>>()?;
        (buffers[0] != buffers[1]).then_some(buffers)
    };
    let written = (start..start + period).filter_map(|at| of(at, ops[at].reads.len()));
    let read = (start..start + period).flat_map(|at| (0..ops[at].reads.len()).filter_map(move |slot| of(at, slot)));
    written.chain(read).collect()
}
