//! Filter and optimizer state sharded over ranks. Each rank has the state of its block of coordinates, and files have
//! the whole state.
//!
//! A vector of a state has rows of `D` values. A rank's vector has the same rows with the values of its block. To write
//! a file, rank 0 requests the other ranks' parts row by row, so no rank holds more than one whole vector.

use crate::engine::ranks::group::{Group, RankError};
use damper_core::state::{SaveState, StateField};
use damper_core::step::StepState;
use std::ops::Range;

/// The coordinates for which a rank has the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    /// The coordinates, at least one.
    pub(crate) own: Range<usize>,
    /// The block length of all ranks. The last block may be shorter.
    pub(crate) len: usize,
    /// Number of all coordinates.
    pub(crate) dim: usize,
}

/// The slots of a state, in which some vectors are blocks.
type Slots<'a, B, FS, OS, TS, NS> = &'a mut StepState<B, FS, OS, TS, NS>;

/// A view of a step's state with whole vectors.
pub(crate) struct WholeState<'a, B, FS, OS, TS, NS> {
    state: Slots<'a, B, FS, OS, TS, NS>,
    block: &'a Block,
    /// The group, in which the other ranks [answer](answer). Without a group, the other ranks' values read as zeros,
    /// and writes to them are dropped.
    group: Option<&'a dyn Group>,
    /// The error of a rank that did not answer.
    pub(crate) asked: Result<(), RankError>,
}

impl<'a, B, FS, OS, TS, NS> WholeState<'a, B, FS, OS, TS, NS> {
    /// Creates a view for restoring, on any rank.
    pub(crate) fn to_restore(state: Slots<'a, B, FS, OS, TS, NS>, block: &'a Block) -> Self {
        Self { state, block, group: None, asked: Ok(()) }
    }

    /// Creates a view for saving on rank 0, any number of times, while the other ranks answer.
    pub(crate) fn to_save(state: Slots<'a, B, FS, OS, TS, NS>, block: &'a Block, group: &'a dyn Group) -> Self {
        Self { state, block, group: Some(group), asked: Ok(()) }
    }

    /// Ends the requests to the other ranks.
    pub(crate) fn end(self) -> Result<(), RankError> {
        self.group.map_or(Ok(()), |group| group.broadcast(&mut vec![]))?;
        self.asked
    }
}

impl<B, FS: SaveState, OS: SaveState, TS: SaveState, NS> SaveState for WholeState<'_, B, FS, OS, TS, NS> {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        let Self { state, block, group, asked } = self;
        let group = *group;
        let mut vector = 0u64;
        let mut whole_vectors = |slot: &mut dyn SaveState, take: &mut dyn FnMut(StateField<'_>)| {
            slot.each(&mut |field| {
                let StateField::Floats(own) = field else { return take(field) };
                let width = block.own.len();
                let mut whole = vec![0.0; own.len() / width * block.dim];
                for (row, (own, whole)) in (0u64..).zip(own.chunks(width).zip(whole.chunks_mut(block.dim))) {
                    if let (Some(group), Ok(())) = (group, &*asked) {
                        let mut question = [vector.to_le_bytes(), row.to_le_bytes()].concat();
                        *asked =
                            group.broadcast(&mut question).and_then(|()| group.gather_floats(own, whole, block.len));
                    }
                    whole[block.own.clone()].copy_from_slice(own);
                }
                take(StateField::Floats(&mut whole));
                for (own, whole) in own.chunks_mut(width).zip(whole.chunks(block.dim)) {
                    own.copy_from_slice(&whole[block.own.clone()]);
                }
                vector += 1;
            });
        };
        whole_vectors(&mut state.filter, take);
        state.threshold.each(take);
        whole_vectors(&mut state.optimizer, take);
    }
}

/// Sends rank 0 the rows that it requests, until it ends the requests.
pub(crate) fn answer<B, FS: SaveState, OS: SaveState, TS, NS>(
    state: Slots<'_, B, FS, OS, TS, NS>,
    block: &Block,
    group: &dyn Group,
) -> Result<(), RankError> {
    loop {
        let mut question = vec![];
        group.broadcast(&mut question)?;
        let ([vector, row], _) = question.as_chunks() else { return Ok(()) };
        let (wanted, row) = (u64::from_le_bytes(*vector), u64::from_le_bytes(*row) as usize);
        let (mut vector, mut answered) = (0, Ok(()));
        let mut find = |field: StateField<'_>| {
            let StateField::Floats(own) = field else { return };
            if vector == wanted {
                let own = own.chunks(block.own.len()).nth(row).unwrap_or_default();
                answered = group.gather_floats(own, &mut [], block.len);
            }
            vector += 1;
        };
        state.filter.each(&mut find);
        state.optimizer.each(&mut find);
        answered?;
    }
}
