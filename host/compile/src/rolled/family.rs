//! Families: buffers that take each other's part in the iterations of loops.

use super::flow::Flow;
use std::collections::HashMap;

/// Families, and the members of each by their index.
#[derive(Clone, Default, Debug)]
pub(super) struct Families {
    /// Family and index of buffers.
    pub(super) of: HashMap<usize, (usize, isize)>,
    members: HashMap<(usize, isize), usize>,
    count: usize,
}

impl Families {
    /// Adds the sequences of a loop. Each is of buffers of one family, at equal distances. Returns false, and adds
    /// none, if they contradict each other or earlier sequences.
    pub(super) fn add(&mut self, flow: &Flow, sequences: &[Vec<usize>]) -> bool {
        let mut with = self.clone();
        let mut left: Vec<&Vec<usize>> = sequences.iter().collect();
        while !left.is_empty() {
            let before = left.len();
            let mut waiting = vec![];
            for sequence in left {
                match with.line(sequence) {
                    Line::Known(line) => {
                        if !with.join(flow, sequence, line) {
                            return false;
                        }
                    }
                    Line::Open => waiting.push(sequence),
                    Line::Broken => return false,
                }
            }
            left = waiting;
            if left.len() == before {
                let sequence = left.remove(0);
                let line = with.guess(sequence);
                if !with.join(flow, sequence, line) {
                    return false;
                }
            }
        }
        *self = with;
        true
    }

    /// Returns the family, the index of the first buffer and the distance between neighbours, from two known members.
    fn line(&self, sequence: &[usize]) -> Line {
        let known: Vec<(isize, (usize, isize))> =
            sequence.iter().enumerate().filter_map(|(at, buffer)| Some((at as isize, *self.of.get(buffer)?))).collect();
        let [(at, (family, index)), (next, (other, second)), ..] = known[..] else { return Line::Open };
        let (way, gap) = (second - index, next - at);
        if family != other || way % gap != 0 || way == 0 {
            return Line::Broken;
        }
        let step = way / gap;
        Line::Known((family, index - at * step, step))
    }

    /// Returns a line through the only known member of a sequence, or a new family.
    fn guess(&mut self, sequence: &[usize]) -> (usize, isize, isize) {
        let known = sequence.iter().enumerate().find_map(|(at, buffer)| Some((at as isize, *self.of.get(buffer)?)));
        match known {
            Some((at, (family, index))) => (family, index - at, 1),
            None => {
                self.count += 1;
                (self.count - 1, 0, 1)
            }
        }
    }

    /// Puts the buffers of a sequence on a line. Returns false if one is elsewhere, or is of another type or length.
    fn join(&mut self, flow: &Flow, sequence: &[usize], (family, first, step): (usize, isize, isize)) -> bool {
        sequence.iter().enumerate().all(|(at, buffer)| {
            let place = (family, first + at as isize * step);
            let is_alike = flow.buffers[*buffer] == flow.buffers[sequence[0]];
            let is_here = *self.of.entry(*buffer).or_insert(place) == place;
            is_alike && is_here && *self.members.entry(place).or_insert(*buffer) == *buffer
        })
    }

    /// Returns the members of each family by index.
    pub(super) fn members(&self) -> Vec<Vec<(isize, usize)>> {
        let mut members = vec![vec![]; self.count];
        self.of.iter().for_each(|(buffer, (family, index))| members[*family].push((*index, *buffer)));
        members.iter_mut().for_each(|members| members.sort_unstable());
        members
    }
}

enum Line {
    Known((usize, isize, isize)),
    Open,
    Broken,
}
