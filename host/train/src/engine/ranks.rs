//! A step on several ranks: shares of the draw, totals of sums, and noise for a part of the coordinates per rank.
//!
//! Each rank computes the gradients of a share of the samples. Rank r receives the totals of its own coordinates only.
//! It draws their noise, and filters and updates them with the state of its coordinates. Then all ranks exchange
//! parameters.
//!
//! If a coordinate's update depends on other coordinates, the ranks exchange released values, and each rank updates all
//! coordinates. Small sums, and noise without parts, are totalled and drawn on every rank. The noise follows from its
//! address, so it is the same on all ranks.
//!
//! Sums are sent as 32-bit integers if the number of samples proves that the total fits.

pub mod group;
mod limits;
mod sharded_state;

pub(crate) use limits::check;

use crate::choice::{FilterState, OptimizerState};
use crate::engine::generator::RunGenerator;
use crate::engine::iterates::Iterates;
use crate::engine::ranks::group::{Cut, Group, Pieces, RankError, RankWord, Words, agree, block_of};
use crate::engine::ranks::sharded_state::{Block, WholeState, answer};
use crate::engine::step_loop::State;
use crate::engine::trained::Trained;
use crate::engine::worker::{Accumulate, Opened, ParamLayout, RunStep, draw_parts};
use crate::state::checkpoint::{Environment, Moment, Saved, check_same, identity};
use crate::state::store::{LedgerFile, RanksLedger};
use crate::{Run, TrainError};
use damper_access::Unreleased;
use damper_core::accounting::Ledger;
use damper_core::filter::Filter;
use damper_core::grid;
use damper_core::noise::CHUNK;
use damper_core::optimizer::Optimizer;
use damper_core::private::{Mechanism, SumWord};
use damper_core::state::{RestoreError, SaveState};
use damper_core::step::{ExchangeError, NoisePart, Open, OpenBlock, StepConfig, StepState, part_range};
use damper_data::Split;
use damper_runtime::BackendError;
use std::ops::Range;
use zeroize::Zeroize;

/// The ranks of a run, with the buffers of their exchanges.
pub(crate) struct Ranks<'a> {
    group: &'a dyn Group,
    /// Number of parts of the noise per rank: the largest thread count of any rank.
    parts: usize,
    /// Maximum contribution of a sample to a coordinate, in grid units.
    unit: u64,
    /// The coordinates for which this rank draws noise. `None` if every rank draws all.
    noise: Option<Block>,
    /// The coordinates for which this rank has filter and optimizer state. `None` if every rank has all.
    shard: Option<Block>,
    floats: Vec<f32>,
}

impl<'a> Ranks<'a> {
    /// Creates the ranks of `run`, with `threads` threads on this rank.
    pub(crate) fn new(group: &'a dyn Group, run: &Run, threads: usize) -> Result<Self, TrainError> {
        let all = group.all_gather(&(threads as u64).to_le_bytes())?;
        let threads = all.iter().filter_map(|bytes| Some(u64::from_le_bytes(bytes.as_slice().try_into().ok()?))).max();
        let most = (NoisePart::<damper_core::noise::ContinuousGaussian, RunGenerator>::MOST / group.size()).max(1);
        let parts = usize::try_from(threads.unwrap_or(1)).unwrap_or(most).clamp(1, most);
        let unit = 1 << run.config.grid_bits;
        let (rank, size, dim) = (group.rank(), group.size(), ParamLayout::new(&run.model.grad).dim());
        // With less than a chunk per rank, an exchange is not worthwhile.
        let has_blocks = size > 1 && run.price.terms.correlated.is_none() && dim >= size * CHUNK;
        let noise = has_blocks.then(|| {
            let len = part_range(dim, size * parts, 0).len() * parts;
            Block { own: block_of(rank, len, dim), len, dim }
        });
        let has_own = |block: &Block| !block_of(size - 1, block.len, dim).is_empty();
        let shard = if moves_by_coordinate(run)? { noise.clone().filter(has_own) } else { None };
        Ok(Self { group, parts, unit, noise, shard, floats: vec![] })
    }

    /// Returns true if this rank writes files and reports progress.
    pub(crate) fn leads(&self) -> bool {
        self.group.rank() == 0
    }

    /// Returns true if there is more than one rank.
    pub(crate) fn are_several(&self) -> bool {
        self.group.size() > 1
    }

    /// Returns the ledger with its charges written to rank 0's `file`.
    pub(crate) fn ledger(&self, file: Option<LedgerFile>) -> RanksLedger<'a> {
        RanksLedger::new(file, self.group)
    }

    /// Returns `result`, or an error on every rank if a rank has one.
    pub(crate) fn agree<T, E: Into<TrainError>>(&self, result: Result<T, E>) -> Result<T, TrainError> {
        agree(self.group, result.map_err(E::into))
    }

    /// Fails on all ranks if a rank's run or `environment` differs from that of rank 0.
    pub(crate) fn check_same(&self, run: &Run, environment: &Environment) -> Result<(), TrainError> {
        if self.are_several() {
            check_same(self.group, &self.agree(identity(run, environment))?)?;
        }
        Ok(())
    }

    /// Returns the rows of `split` for which this rank computes gradients, and its share of their chunks: every
    /// `.1`-th, starting at number `.0`.
    pub(crate) fn share(&self, split: &Split) -> (Range<usize>, (usize, usize)) {
        match split.held() {
            // The shards of the ranks are their shares.
            Some(held) => (held, (0, 1)),
            None => (0..split.len(), (self.group.rank(), self.group.size())),
        }
    }

    /// For each of two flags, returns true on all ranks if it is set on any rank.
    pub(crate) fn any(&self, yes: [bool; 2]) -> Result<[bool; 2], TrainError> {
        if !self.are_several() {
            return Ok(yes);
        }
        let mut words = yes.map(u64::from);
        self.group.all_reduce(Words::U64(&mut words))?;
        Ok(words.map(|word| word > 0))
    }

    /// Returns the sums over all ranks.
    pub(crate) fn summed<const N: usize>(&self, mut words: [u64; N]) -> Result<[u64; N], TrainError> {
        if self.are_several() {
            self.group.all_reduce(Words::U64(&mut words))?;
        }
        Ok(words)
    }

    /// Returns the `result` of rank 0 on all ranks. The other ranks pass `None`.
    pub(crate) fn of_rank_0<T>(
        &self,
        result: Result<Option<T>, TrainError>,
        to: impl Fn(&T) -> Vec<u8>,
        of: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, TrainError> {
        let value = agree(self.group, result)?;
        if !self.are_several() {
            return Ok(value);
        }
        let mut bytes = value.as_ref().map(to).unwrap_or_default();
        self.group.broadcast(&mut bytes)?;
        let value = if self.leads() { value } else { of(&bytes) };
        bytes.zeroize();
        Ok(value)
    }

    /// Restores the state `saved` by rank 0, if any, on all ranks. `damaged` creates the error for a state that does
    /// not fit.
    pub(crate) fn restore<B, FS: SaveState, OS: SaveState, TS: SaveState, NS>(
        &self,
        saved: Option<Saved>,
        iterates: &mut Iterates,
        state: &mut StepState<B, FS, OS, TS, NS>,
        damaged: impl FnOnce(RestoreError) -> TrainError,
    ) -> Result<(), TrainError> {
        let Some(saved) = self.saved(saved)? else { return Ok(()) };
        let restored = match &self.shard {
            None => saved.restore(&mut iterates.with(state)),
            Some(shard) => saved.restore(&mut iterates.with(WholeState::to_restore(state, shard))),
        };
        self.agree(restored.map_err(damaged))
    }

    /// Returns the state that rank 0 resumes from, on all ranks.
    fn saved(&self, saved: Option<Saved>) -> Result<Option<Saved>, TrainError> {
        if !self.are_several() {
            return Ok(saved);
        }
        let mut bytes = saved.map(Saved::into_bytes).unwrap_or_default();
        self.group.broadcast(&mut bytes)?;
        Ok(Saved::of_bytes(bytes))
    }

    /// Sends the run's progress before a stop to all ranks.
    pub(crate) fn tell(&self, before: &mut Moment) -> Result<(), TrainError> {
        if !self.are_several() {
            return Ok(());
        }
        let mut bytes = if self.leads() { before.to_bytes() } else { vec![] };
        self.group.broadcast(&mut bytes)?;
        *before = Moment::of_bytes(&bytes).ok_or(RankError::Left)?;
        Ok(())
    }

    /// Calls `save` with the whole state on rank 0. The other ranks send their parts. An error on one rank is an error
    /// on all.
    pub(crate) fn save<B, FS: SaveState, OS: SaveState, TS: SaveState, NS>(
        &self,
        iterates: &mut Iterates,
        state: &mut StepState<B, FS, OS, TS, NS>,
        save: impl FnOnce(&mut dyn SaveState) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        let saved = match &self.shard {
            None if self.leads() => save(&mut iterates.with(state)),
            None => Ok(()),
            Some(shard) if self.leads() => {
                let mut state = WholeState::to_save(state, shard, self.group);
                let saved = save(&mut iterates.with(&mut state));
                state.end()?;
                saved
            }
            Some(shard) => Ok(answer(state, shard, self.group)?),
        };
        agree(self.group, saved)
    }

    /// Returns the number of coordinates with filter and optimizer state on this rank, unless it has all.
    pub(crate) fn coordinates(&self) -> Option<usize> {
        self.shard.as_ref().map(|shard| shard.own.len())
    }

    /// Charges a step, and opens it for the coordinates that this rank updates.
    pub(crate) fn open<'s, 'l, M: Trained, O: Optimizer<OS> + Clone, OS>(
        &self,
        step: &RunStep<'l, M, O>,
        state: &'s mut State<M, OS>,
        ledger: &mut Ledger<RanksLedger<'_>>,
    ) -> Result<Taken<'s, 'l, M, O, OS>, TrainError> {
        Ok(match &self.shard {
            None => Taken::Whole(step.open(state, ledger)?),
            Some(shard) => Taken::Block(step.open_block(state, ledger, shard.own.clone())?),
        })
    }

    /// Replaces the sum and the counts of the open step by their totals, or by those that this rank needs to finish it.
    /// `added` is the number of samples that this rank added, which is returned, or its error, which becomes an error
    /// on every rank.
    pub(crate) fn total<M: Trained, O: Optimizer<OS>, OS>(
        &mut self,
        opened: &mut Opened<'_, '_, M, O, OS>,
        added: Result<usize, BackendError>,
    ) -> Result<usize, TrainError> {
        if !self.are_several() {
            return Ok(added?);
        }
        let own = *added.as_ref().unwrap_or(&0);
        opened.exchange(Unreleased::claim(), |words, counts| {
            let is_failed = added.is_err();
            let counted = counts.iter().map(|count| i64::from(*count) as u64);
            let mut small: Vec<u64> = counted.chain([own as u64, u64::from(is_failed)]).collect();
            self.group.all_reduce(Words::U64(&mut small))?;
            let [totals @ .., samples, failed] = &small[..] else { unreachable!("two are there") };
            if *failed > 0 {
                self.agree(added)?;
                return Err(RankError::Left.into());
            }
            for (count, total) in counts.iter_mut().zip(totals) {
                *count = *total as i32;
            }
            let words = M::grid(words).expect("ranks are refused sums of floats");
            self.total_words(words, samples.saturating_mul(self.unit) < 1 << 31)?;
            small.zeroize();
            Ok::<(), TrainError>(())
        })?;
        Ok(own)
    }

    fn total_words<W: grid::Word + Into<i64>>(
        &mut self,
        words: &mut [SumWord<W>],
        is_narrow: bool,
    ) -> Result<(), RankError> {
        if let Some(Block { own, len, .. }) = &self.noise {
            let width = PIECE.min(*len);
            let cut = Cut { pieces: len.div_ceil(width), width, is_narrow };
            let mut blocks = Blocks { words, own: own.clone(), len: *len, width };
            self.group.reduce_scatter_pieces(cut, &mut blocks)?;
            words[..own.start].fill(SumWord::default());
            words[own.end..].fill(SumWord::default());
            return Ok(());
        }
        if is_narrow {
            let mut totals: Vec<u32> = words.iter().map(|word| word.get(Unreleased::claim()).into() as u32).collect();
            self.group.all_reduce(Words::U32(&mut totals))?;
            take(words, Words::U32(&mut totals));
            totals.zeroize();
            Ok(())
        } else {
            self.total_wide(words)
        }
    }

    /// Replaces the sum of the open step by its total over all ranks.
    pub(crate) fn total_sum<P: StepConfig, FS, OS>(&self, opened: &mut Open<'_, P, FS, OS>) -> Result<(), TrainError>
    where
        P::Mechanism: Mechanism<Word = SumWord<i64>>,
        P::Filter: Filter<FS>,
        P::Optimizer: Optimizer<OS>,
    {
        if self.are_several() {
            opened.exchange(Unreleased::claim(), |words, _| self.total_wide(words))?;
        }
        Ok(())
    }

    /// Replaces the words of a sum by their totals over all ranks.
    fn total_wide<W: grid::Word + Into<i64>>(&self, words: &mut [SumWord<W>]) -> Result<(), RankError> {
        let mut totals: Vec<u64> = words.iter().map(|word| word.get(Unreleased::claim()).into() as u64).collect();
        self.group.all_reduce(Words::U64(&mut totals))?;
        take(words, Words::U64(&mut totals));
        totals.zeroize();
        Ok(())
    }

    /// Finishes a step after its totals arrived, as [`Accumulate::finish`](crate::engine::worker::Accumulate::finish).
    pub(crate) fn finish<M: Trained, O: Optimizer<OS>, OS>(
        &mut self,
        taken: Taken<'_, '_, M, O, OS>,
        workers: &mut impl Accumulate<M>,
        params: &mut [f32],
        generator: &RunGenerator,
    ) -> Result<(), TrainError> {
        let opened = match (taken, &self.noise) {
            (Taken::Block(opened), _) => {
                opened.finish(params, generator, self.parts, draw_parts).expect(LENGTH);
                let len = self.shard.as_ref().map_or(params.len(), |shard| shard.len);
                return Ok(self.group.all_gather_floats(params, len)?);
            }
            (Taken::Whole(opened), None) => {
                return Ok(workers.finish(opened, params, generator)?);
            }
            (Taken::Whole(opened), Some(_)) => opened,
        };
        let (rank, size) = (self.group.rank(), self.group.size());
        let Self { group, parts, floats, noise, .. } = self;
        let (parts, len) = (*parts, noise.as_ref().map_or(0, |block| block.len));
        let finished = opened.finish_exchanged(params, generator, size * parts, |all| {
            let own = rank * parts..((rank + 1) * parts).min(all.len());
            draw_parts(all.get_mut(own.clone()).unwrap_or_default());
            floats.clear();
            floats.resize(all.iter().map(|part| part.coordinates().len()).sum(), 0.0);
            // The last parts may be empty, with ranges past the end.
            for part in all.get(own).unwrap_or_default() {
                part.read_released(floats.get_mut(part.coordinates()).unwrap_or_default());
            }
            group.all_gather_floats(floats, len)?;
            for part in all {
                // Parts that were drawn on this rank reject the values.
                part.take_released(floats.get(part.coordinates()).unwrap_or_default(), Unreleased::claim());
            }
            Ok(())
        });
        finished.map_err(|error| match error {
            ExchangeError::Exchange(error) => error,
            ExchangeError::Call(error) => panic!("{LENGTH}: {error}"),
        })
    }
}

/// Words of a rank's part of a piece. Small enough for a cache, large enough for a message.
const PIECE: usize = 1 << 16;

const LENGTH: &str = "the parameters have the state's length";

/// The words of a sum as one block of `len` per rank. This rank has `own`.
struct Blocks<'a, W> {
    words: &'a mut [SumWord<W>],
    own: Range<usize>,
    len: usize,
    width: usize,
}

impl<W> Blocks<'_, W> {
    /// Returns the range of piece `index` in the block of rank `rank`.
    fn part(&self, rank: usize, index: usize) -> Range<usize> {
        let block = block_of(rank, self.len, self.words.len());
        let start = (block.start + index * self.width).min(block.end);
        start..(start + self.width).min(block.end)
    }
}

impl<S: grid::Word + Into<i64>> Pieces for Blocks<'_, S> {
    fn fill(&mut self, index: usize, to: Words<'_>) {
        fn fill<S: grid::Word + Into<i64>, W: RankWord>(
            blocks: &Blocks<'_, S>,
            index: usize,
            to: &mut [W],
            of: fn(i64) -> W,
        ) {
            for (rank, to) in to.chunks_mut(blocks.width).enumerate() {
                let words = &blocks.words[blocks.part(rank, index)];
                let (to, rest) = to.split_at_mut(words.len());
                to.iter_mut().zip(words).for_each(|(to, word)| *to = of(word.get(Unreleased::claim()).into()));
                rest.fill(W::default());
            }
        }
        match to {
            Words::U32(to) => fill(self, index, to, |value| value as u32),
            Words::U64(to) => fill(self, index, to, |value| value as u64),
        }
    }

    fn take(&mut self, index: usize, totals: Words<'_>) {
        let start = (self.own.start + index * self.width).min(self.own.end);
        let end = (start + self.width).min(self.own.end);
        take(&mut self.words[start..end], totals);
    }
}

/// Replaces `words` by totals.
fn take<W: grid::Word>(words: &mut [SumWord<W>], totals: Words<'_>) {
    match totals {
        Words::U32(totals) => {
            words
                .iter_mut()
                .zip(totals)
                .for_each(|(word, total)| *word = SumWord::new(W::wrap((*total as i32).into()), Unreleased::claim()));
        }
        Words::U64(totals) => {
            words
                .iter_mut()
                .zip(totals)
                .for_each(|(word, total)| *word = SumWord::new(W::wrap(*total as i64), Unreleased::claim()));
        }
    }
}

/// An open step: of all coordinates, or of one rank's coordinates.
pub(crate) enum Taken<'a, 'l, M: Trained, O: Optimizer<OS>, OS> {
    Whole(Opened<'a, 'l, M, O, OS>),
    Block(OpenBlock<'a, RunStep<'l, M, O>, FilterState, OS>),
}

impl<'a, 'l, M: Trained, O: Optimizer<OS>, OS> Taken<'a, 'l, M, O, OS> {
    /// Returns the open step, to add samples and totals.
    pub(crate) fn open(&mut self) -> &mut Opened<'a, 'l, M, O, OS> {
        match self {
            Self::Whole(opened) => opened,
            Self::Block(opened) => opened.open(),
        }
    }
}

/// Returns true if the update of each coordinate depends only on that coordinate.
fn moves_by_coordinate(run: &Run) -> Result<bool, TrainError> {
    let (filter, _) = run.config.method.filter.build(0)?;
    let (optimizer, _) = run.config.optimizer.build(&[])?;
    Ok(Filter::<FilterState>::filters_by_coordinate(&filter)
        && Optimizer::<OptimizerState>::moves_by_coordinate(&optimizer))
}
