//! A step on several ranks: shares of the draw, totals of sums, and noise that each rank draws for a part of the coordinates.
//!
//! Each rank takes the gradients of a share of the samples. Of the sums, rank r gets the totals of its coordinates alone. It draws their
//! noise, and all ranks exchange released values. Small sums, and noise that has no parts, are totalled and drawn on every rank: the noise
//! follows from its address, so all have the same.
//!
//! Sums pass as 32-bit integers if the number of samples shows that the total fits.

use crate::checkpoint::Moment;
use crate::generator::ChaCha20;
use crate::group::{Group, RankError, Words, agree};
use crate::trained::Trained;
use crate::worker::{Accumulate, Opened, draw_parts};
use crate::{Run, TrainError};
use damper_core::noise::CHUNK;
use damper_core::optimizer::Optimizer;
use damper_core::private::SumWord;
use damper_core::state::{self, SaveState};
use damper_core::step::{ExchangeError, NoisePart, part_range};
use std::ops::Range;
use zeroize::Zeroize;

/// The ranks of a run and the memory of what they exchange.
pub(crate) struct Ranks<'a> {
    group: &'a dyn Group,
    /// Parts of the noise that each rank draws: as many as the most threads of a rank.
    parts: usize,
    /// A sample adds at most so many grid units to a coordinate.
    unit: u64,
    narrow: Vec<u32>,
    wide: Vec<u64>,
    floats: Vec<f32>,
}

impl<'a> Ranks<'a> {
    /// The ranks of `run`, this one with `threads` threads.
    pub(crate) fn new(group: &'a dyn Group, run: &Run, threads: usize) -> Result<Self, TrainError> {
        let all = group.all_gather(&(threads as u64).to_le_bytes())?;
        let threads = all.iter().filter_map(|bytes| Some(u64::from_le_bytes(bytes.as_slice().try_into().ok()?))).max();
        let most = (NoisePart::<damper_core::noise::ContinuousGaussian, ChaCha20>::MOST / group.size()).max(1);
        let parts = usize::try_from(threads.unwrap_or(1)).unwrap_or(most).clamp(1, most);
        let unit = 1 << run.config.grid_bits;
        Ok(Self { group, parts, unit, narrow: vec![], wide: vec![], floats: vec![] })
    }

    /// Returns true if this rank writes files and tells progress.
    pub(crate) fn leads(&self) -> bool {
        self.group.rank() == 0
    }

    /// Returns true if there are others.
    pub(crate) fn are_several(&self) -> bool {
        self.group.size() > 1
    }

    /// The group.
    pub(crate) fn group(&self) -> &'a dyn Group {
        self.group
    }

    /// Of a draw that every rank knows whole, this rank takes each so-many-th chunk, from this one.
    pub(crate) fn share(&self) -> (usize, usize) {
        (self.group.rank(), self.group.size())
    }

    /// Returns true on all ranks if `yes` is on any, for each of two.
    pub(crate) fn any(&self, yes: [bool; 2]) -> Result<[bool; 2], TrainError> {
        if !self.are_several() {
            return Ok(yes);
        }
        let mut words = yes.map(u64::from);
        self.group.all_reduce(Words::U64(&mut words))?;
        Ok(words.map(|word| word > 0))
    }

    /// `result` of rank 0 on all ranks. The others have none.
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

    /// Gives all ranks what rank 0 has restored of a run after `step` steps.
    pub(crate) fn restore(&self, step: u32, before: &mut Moment, memory: &mut dyn SaveState) -> Result<(), TrainError> {
        if !self.are_several() {
            return Ok(());
        }
        let mut moment = if self.leads() { before.to_bytes() } else { vec![] };
        self.group.broadcast(&mut moment)?;
        let mut bytes = Vec::new();
        if self.leads() {
            state::save(memory, step, |part| bytes.extend_from_slice(part));
        }
        self.group.broadcast(&mut bytes)?;
        if !self.leads() {
            *before = Moment::of_bytes(&moment).ok_or(RankError::Left)?;
            state::restore(memory, step, &bytes)
                .map_err(|error| TrainError::Run(format!("the state of rank 0: {error}")))?;
        }
        Ok(())
    }

    /// The coordinates whose noise this rank draws, and the length of the blocks of all ranks; none if every rank draws all, for
    /// there is less than a chunk a rank.
    fn block(&self, dim: usize, has_parts: bool) -> Option<(Range<usize>, usize)> {
        let (rank, size) = self.share();
        if !has_parts || dim < size * CHUNK {
            return None;
        }
        let part = |index: usize| part_range(dim, size * self.parts, index);
        let block = part(0).len() * self.parts;
        let start = (rank * block).min(dim);
        Some((start..(start + block).min(dim), block))
    }

    /// Replaces the sum and the counts of the open step by their totals, or by those that this rank needs to finish it. `added` is the
    /// number of samples that this rank has added, or its error, which is then one on every rank.
    pub(crate) fn total<M: Trained, O: Optimizer<OS>, OS>(
        &mut self,
        opened: &mut Opened<'_, '_, M, O, OS>,
        added: Result<usize, TrainError>,
    ) -> Result<(), TrainError> {
        if !self.are_several() {
            return added.map(|_| ());
        }
        let has_parts = opened.has_noise_parts();
        opened.exchange(|words, counts| {
            let is_failed = added.is_err();
            let counted = counts.iter().map(|count| i64::from(*count) as u64);
            let own = added.as_ref().map_or(0, |samples| *samples as u64);
            let mut small: Vec<u64> = counted.chain([own, u64::from(is_failed)]).collect();
            self.group.all_reduce(Words::U64(&mut small))?;
            let [totals @ .., samples, failed] = &small[..] else { unreachable!("two are there") };
            if *failed > 0 {
                agree(self.group, added)?;
                return Err(RankError::Left.into());
            }
            for (count, total) in counts.iter_mut().zip(totals) {
                *count = *total as i32;
            }
            let words = M::grid(words).expect("ranks are refused sums of floats");
            self.total_words(words, samples.saturating_mul(self.unit) < 1 << 31, has_parts)?;
            small.zeroize();
            Ok(())
        })
    }

    fn total_words(&mut self, words: &mut [SumWord<i64>], is_narrow: bool, has_parts: bool) -> Result<(), RankError> {
        let block = self.block(words.len(), has_parts);
        let len = block.as_ref().map_or(words.len(), |(_, block)| block * self.group.size());
        let own = block.as_ref().map_or(0..words.len(), |(own, _)| own.clone());
        let values = words.iter().map(|word| word.get());
        let exchange = |words: Words<'_>| match block {
            None => self.group.all_reduce(words),
            Some(_) => self.group.reduce_scatter(words),
        };
        if is_narrow {
            self.narrow.clear();
            self.narrow.extend(values.map(|value| value as u32));
            self.narrow.resize(len, 0);
            exchange(Words::U32(&mut self.narrow))?;
        } else {
            self.wide.clear();
            self.wide.extend(values.map(|value| value as u64));
            self.wide.resize(len, 0);
            exchange(Words::U64(&mut self.wide))?;
        }
        words.fill(SumWord::ZERO);
        let totals = words.get_mut(own.clone()).unwrap_or_default().iter_mut();
        if is_narrow {
            totals.zip(&self.narrow[own]).for_each(|(word, total)| *word = SumWord::new(i64::from(*total as i32)));
        } else {
            totals.zip(&self.wide[own]).for_each(|(word, total)| *word = SumWord::new(*total as i64));
        }
        self.narrow.zeroize();
        self.wide.zeroize();
        Ok(())
    }

    /// Finishes a step whose totals are there, as [`Accumulate::finish`](crate::worker::Accumulate::finish).
    pub(crate) fn finish<M: Trained, O: Optimizer<OS>, OS>(
        &mut self,
        opened: Opened<'_, '_, M, O, OS>,
        workers: &impl Accumulate<M>,
        params: &mut [f32],
        generator: &ChaCha20,
    ) -> Result<(), TrainError> {
        let block = self.block(params.len(), opened.has_noise_parts());
        let Some((_, block)) = block.filter(|_| self.are_several()) else {
            workers.finish(opened, params, generator).expect(LENGTH);
            return Ok(());
        };
        let (rank, size) = self.share();
        let Self { group, parts, floats, .. } = self;
        let parts = *parts;
        let finished = opened.finish_exchanged(params, generator, size * parts, |all| {
            let own = rank * parts..((rank + 1) * parts).min(all.len());
            draw_parts(all.get_mut(own.clone()).unwrap_or_default());
            floats.clear();
            floats.resize(block * size, 0.0);
            for part in all.get(own).unwrap_or_default() {
                part.read_released(&mut floats[part.coordinates()]);
            }
            group.all_gather_floats(floats)?;
            for part in all {
                // Refused by those that were drawn here.
                part.take_released(&floats[part.coordinates()]);
            }
            Ok(())
        });
        finished.map_err(|error| match error {
            ExchangeError::Exchange(error) => error,
            ExchangeError::Call(error) => panic!("{LENGTH}: {error}"),
        })
    }
}

const LENGTH: &str = "the parameters have the state's length";
