//! Places of buffers in memory, and the loops over them.

use super::family::Families;
use super::flow::{Base, Flow, Op, Span};
use super::repeat::Repeat;
use damper_runtime::portable::{Kind, Life, place};

/// Operand in a block. The start in a buffer is that in the memory of its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Operand of the first iteration.
    pub(super) span: Span,
    /// Elements by which each iteration moves it.
    pub(super) stride: isize,
}

/// Step in a block.
#[derive(Debug)]
pub(super) struct Planned {
    /// Number of its step in the flow, in the first iteration.
    pub(super) op: usize,
    pub(super) reads: Vec<Place>,
    pub(super) write: Place,
}

/// Steps that run `count` times.
#[derive(Debug)]
pub(super) struct PlannedBlock {
    pub(super) count: usize,
    pub(super) steps: Vec<Planned>,
}

/// Flow in memory.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) blocks: Vec<PlannedBlock>,
    pub(super) outputs: Vec<Span>,
    /// Lengths of the memories of f32, i64 and bool.
    pub(super) areas: [usize; 3],
}

/// Buffers that share a place, or are next to each other in one.
struct Unit {
    kind: Kind,
    life: Life,
    /// Buffers, and their first elements in the unit.
    members: Vec<(usize, usize)>,
}

impl Plan {
    pub(super) fn new(flow: &Flow, repeats: &[Repeat], families: &Families) -> Self {
        let lives = lives(flow);
        let clock = Clock::new(flow.ops.len(), repeats);
        let mut units = vec![];
        for members in families.members() {
            units.extend(unit(flow, &members, &lives, &clock));
        }
        for buffer in (0..flow.buffers.len()).filter(|buffer| !families.of.contains_key(buffer)) {
            units.extend(unit(flow, &[(0, buffer)], &lives, &clock));
        }
        let mut starts = vec![0; flow.buffers.len()];
        let areas = [Kind::F32, Kind::I64, Kind::Bool].map(|kind| {
            let units: Vec<&Unit> = units.iter().filter(|unit| unit.kind == kind).collect();
            let (places, whole) = place(&units.iter().map(|unit| unit.life).collect::<Vec<_>>(), 1);
            for (unit, place) in units.iter().zip(places) {
                unit.members.iter().for_each(|(buffer, start)| starts[*buffer] = place + start);
            }
            whole
        });
        let in_memory = |span: &Span| match span.base {
            Base::Buffer(buffer) => Span { start: starts[buffer] + span.start, ..*span },
            _ => *span,
        };
        let block = |(start, period, count): (usize, usize, usize)| {
            let of = |here: &Span, next: &Span| {
                let (span, next) = (in_memory(here), in_memory(next));
                Place { span, stride: next.start.wrapping_sub(span.start).cast_signed() }
            };
            let step = |op: usize| {
                let (here, next): (&Op, &Op) = (&flow.ops[op], &flow.ops[if count > 1 { op + period } else { op }]);
                let reads = here.reads.iter().zip(&next.reads).map(|(here, next)| of(here, next)).collect();
                Planned { op, reads, write: of(&here.write, &next.write) }
            };
            PlannedBlock { count, steps: (start..start + period).map(step).collect() }
        };
        Self {
            blocks: clock.blocks.into_iter().map(block).collect(),
            outputs: flow.outputs.iter().map(in_memory).collect(),
            areas,
        }
    }
}

/// Returns the first and last step that uses each buffer. `None` if none does.
pub(super) fn lives(flow: &Flow) -> Vec<Option<(usize, usize)>> {
    let mut lives: Vec<Option<(usize, usize)>> = vec![None; flow.buffers.len()];
    let mut used = |span: &Span, at: usize| {
        if let Base::Buffer(buffer) = span.base {
            lives[buffer] = Some((lives[buffer].map_or(at, |(first, _)| first), at));
        }
    };
    for (at, op) in flow.ops.iter().enumerate() {
        op.reads.iter().chain([&op.write]).for_each(|span| used(span, at));
    }
    flow.outputs.iter().for_each(|output| used(output, flow.ops.len()));
    lives
}

/// Returns true if the members of a family live after each other.
pub(super) fn are_apart(members: &[(isize, usize)], lives: &[Option<(usize, usize)>]) -> bool {
    let mut lives: Vec<(usize, usize)> = members.iter().filter_map(|(_, buffer)| lives[*buffer]).collect();
    lives.sort_unstable();
    lives.windows(2).all(|pair| pair[0].1 < pair[1].0)
}

/// Makes a unit of the buffers of a family: one place if they live after each other, else one place each.
fn unit(flow: &Flow, members: &[(isize, usize)], lives: &[Option<(usize, usize)>], clock: &Clock) -> Option<Unit> {
    let used: Vec<((usize, usize), isize, usize)> =
        members.iter().filter_map(|(index, buffer)| Some((lives[*buffer]?, *index, *buffer))).collect();
    let (_, _, any) = *used.first()?;
    let (kind, len) = flow.buffers[any];
    let are_apart = are_apart(members, lives);
    let first = used.iter().map(|(_, index, _)| *index).min()?;
    let last = used.iter().map(|(_, index, _)| *index).max()?;
    let start = |index: isize| if are_apart { 0 } else { (index - first).unsigned_abs() * len };
    let times = used.iter().map(|(life, ..)| clock.times(*life));
    let (from, to) = times.reduce(|(from, to), (first, last)| (from.min(first), to.max(last)))?;
    Some(Unit {
        kind,
        life: Life { len: start(last) + len, first: from, last: to },
        members: used.iter().map(|(_, index, buffer)| (*buffer, start(*index))).collect(),
    })
}

/// Blocks of steps, and the time of each step: steps of a loop have the same time in every iteration.
struct Clock {
    /// First step, number of steps and number of iterations.
    blocks: Vec<(usize, usize, usize)>,
    /// Time of the first step of each block.
    times: Vec<usize>,
}

impl Clock {
    fn new(len: usize, repeats: &[Repeat]) -> Self {
        let (mut blocks, mut at) = (vec![], 0);
        for repeat in repeats {
            blocks.push((at, repeat.start - at, 1));
            blocks.push((repeat.start, repeat.period, repeat.count));
            at = repeat.end();
        }
        blocks.push((at, len - at, 1));
        blocks.retain(|(_, period, _)| *period > 0);
        let mut time = 0;
        let times = blocks.iter().map(|(_, period, _)| {
            time += period;
            time - period
        });
        Self { times: times.collect(), blocks }
    }

    /// Returns the block of a step, and its iteration. `None` for the end.
    fn block(&self, step: usize) -> Option<(usize, usize)> {
        let block = self.blocks.partition_point(|(start, ..)| *start <= step).checked_sub(1)?;
        let (start, period, count) = self.blocks[block];
        (step < start + period * count).then(|| (block, (step - start) / period))
    }

    /// Returns the first and last time at which a buffer with a life over these steps needs its place. A life beyond an
    /// iteration takes its whole loop.
    fn times(&self, (first, last): (usize, usize)) -> (usize, usize) {
        let (from, to) = (self.block(first), self.block(last));
        let time = |step: usize, block: Option<(usize, usize)>, is_end: bool| {
            let Some((block, iteration)) = block else { return usize::MAX };
            let (start, period, count) = self.blocks[block];
            match (count > 1 && from != to, is_end) {
                (false, _) => self.times[block] + step - start - iteration * period,
                (true, false) => self.times[block],
                (true, true) => self.times[block] + period - 1,
            }
        };
        (time(first, from, false), time(last, to, true))
    }
}
