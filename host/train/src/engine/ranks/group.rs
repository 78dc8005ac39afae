//! The processes of one run, its ranks, and their exchanges. Each rank has the key and sees sums before release.

use std::ops::Range;
use zeroize::Zeroize;

/// The words of a sum, added modulo a power of two. So the order of the ranks does not change the result.
#[derive(Debug)]
pub enum Words<'a> {
    /// Used if the total fits in 32 bits.
    U32(&'a mut [u32]),
    /// Used for any other total.
    U64(&'a mut [u64]),
}

/// Sums with blocks that are totalled piece by piece.
pub trait Pieces {
    /// Writes this rank's words of piece `index` to `words`: the same part of each block, in the order of ranks.
    fn fill(&mut self, index: usize, words: Words<'_>);

    /// Receives the totals of this rank's part of piece `index`.
    fn take(&mut self, index: usize, totals: Words<'_>);
}

/// A word of a sum.
pub trait RankWord: Copy + Default + Zeroize {
    /// Views a slice as [`Words`].
    fn words(words: &mut [Self]) -> Words<'_>;
}

impl RankWord for u32 {
    fn words(words: &mut [Self]) -> Words<'_> {
        Words::U32(words)
    }
}

impl RankWord for u64 {
    fn words(words: &mut [Self]) -> Words<'_> {
        Words::U64(words)
    }
}

/// The number and the width of the pieces of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Number of pieces.
    pub pieces: usize,
    /// Number of words in a rank's part of a piece.
    pub width: usize,
    /// True if totals fit in 32 bits.
    pub is_narrow: bool,
}

/// One rank's end of a group of ranks. All ranks make the same calls in the same order. Each call waits for the other
/// ranks.
///
/// Default methods are built on [`all_gather`](Group::all_gather). A group with faster methods overrides them.
///
/// # Errors
///
/// A rank has left. Then no rank may release anything of the step.
pub trait Group {
    /// Returns the number of this rank, from 0. Rank 0 writes files.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn size(&self) -> usize;

    /// Returns the bytes of all ranks, in rank order. Their lengths may differ.
    fn all_gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, RankError>;

    /// Replaces `bytes` by those of rank 0.
    fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<(), RankError> {
        let own = if self.rank() == 0 { &bytes[..] } else { &[] };
        *bytes = self.all_gather(own)?.swap_remove(0);
        Ok(())
    }

    /// Replaces `words`, which have the same length on all ranks, by their totals.
    fn all_reduce(&self, words: Words<'_>) -> Result<(), RankError> {
        type Gather<'g> = dyn Fn(&[u8]) -> Result<Vec<Vec<u8>>, RankError> + 'g;
        fn total<const N: usize, W: Copy>(
            words: &mut [W],
            gather: &Gather<'_>,
            to: fn(W) -> [u8; N],
            of: fn([u8; N]) -> W,
            add: fn(W, W) -> W,
        ) -> Result<(), RankError> {
            let bytes: Vec<u8> = words.iter().flat_map(|word| to(*word)).collect();
            for (rank, bytes) in gather(&bytes)?.iter().enumerate() {
                for (total, bytes) in words.iter_mut().zip(bytes.as_chunks::<N>().0) {
                    let word = of(*bytes);
                    *total = if rank == 0 { word } else { add(*total, word) };
                }
            }
            Ok(())
        }
        let gather = &|own: &[u8]| self.all_gather(own);
        match words {
            Words::U32(words) => total(words, gather, u32::to_le_bytes, u32::from_le_bytes, u32::wrapping_add),
            Words::U64(words) => total(words, gather, u64::to_le_bytes, u64::from_le_bytes, u64::wrapping_add),
        }
    }

    /// Replaces this rank's block of `words` by its totals. `words` has a block of equal length for each rank, in the
    /// order of ranks. Afterwards the contents of the other blocks are unspecified.
    fn reduce_scatter(&self, words: Words<'_>) -> Result<(), RankError> {
        self.all_reduce(words)
    }

    /// Does the same as [`reduce_scatter`](Group::reduce_scatter) for all pieces, with the memory of a few pieces. A
    /// group may fill one piece and receive another while it adds a third.
    fn reduce_scatter_pieces(&self, cut: Cut, pieces: &mut dyn Pieces) -> Result<(), RankError> {
        fn each<W: RankWord>(
            group: &(impl Group + ?Sized),
            cut: Cut,
            pieces: &mut dyn Pieces,
        ) -> Result<(), RankError> {
            let mut words = vec![W::default(); cut.width * group.size()];
            let own = group.rank() * cut.width..(group.rank() + 1) * cut.width;
            let result = (0..cut.pieces).try_for_each(|index| {
                pieces.fill(index, W::words(&mut words));
                group.reduce_scatter(W::words(&mut words))?;
                pieces.take(index, W::words(&mut words[own.clone()]));
                Ok(())
            });
            words.zeroize();
            result
        }
        if cut.is_narrow { each::<u32>(self, cut, pieces) } else { each::<u64>(self, cut, pieces) }
    }

    /// Fills the other ranks' blocks in `floats` with their values. Each rank has a block of `block` values, in the
    /// order of ranks. The last blocks may be shorter.
    fn all_gather_floats(&self, floats: &mut [f32], block: usize) -> Result<(), RankError> {
        let own = to_bytes(&floats[block_of(self.rank(), block, floats.len())]);
        for (rank, bytes) in self.all_gather(&own)?.iter().enumerate() {
            let at = block_of(rank, block, floats.len());
            of_bytes(bytes, &mut floats[at]);
        }
        Ok(())
    }

    /// Collects the blocks of all ranks in `all` on rank 0. On the other ranks `all` is empty. The layout is that of
    /// [`all_gather_floats`](Group::all_gather_floats).
    fn gather_floats(&self, own: &[f32], all: &mut [f32], block: usize) -> Result<(), RankError> {
        for (rank, bytes) in self.all_gather(&to_bytes(own))?.iter().enumerate() {
            let at = block_of(rank, block, all.len());
            of_bytes(bytes, &mut all[at]);
        }
        Ok(())
    }
}

/// Returns the block of rank `rank` in a vector of `len` values.
#[must_use]
pub fn block_of(rank: usize, block: usize, len: usize) -> Range<usize> {
    rank.saturating_mul(block).min(len)..(rank + 1).saturating_mul(block).min(len)
}

fn to_bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn of_bytes(bytes: &[u8], floats: &mut [f32]) {
    for (float, bytes) in floats.iter_mut().zip(bytes.as_chunks().0) {
        *float = f32::from_le_bytes(*bytes);
    }
}

/// The group of a process that trains by itself.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Group for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn all_gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, RankError> {
        Ok(vec![own.to_vec()])
    }
}

/// The reason why the ranks cannot continue together.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RankError {
    /// An error of another rank, with its message.
    #[error("rank {rank}: {message}")]
    Elsewhere {
        /// The rank.
        rank: usize,
        /// Its message.
        message: String,
    },
    /// A rank's run differs from that of rank 0.
    #[error(
        "rank {rank} has {what} other than rank 0; start all ranks with one program, one command line, one model and the same data, on \
         processors of one kind"
    )]
    Differs {
        /// The rank.
        rank: usize,
        /// The part that differs.
        what: String,
    },
    /// A rank ended before the run did.
    #[error("a rank has left the run")]
    Left,
}

/// Returns `result` if no rank has an error. Otherwise returns an error on every rank: its own, or the first of another
/// rank.
///
/// # Errors
///
/// A rank has an error, or has left.
pub fn agree<T, E: ToString + From<RankError>>(group: &dyn Group, result: Result<T, E>) -> Result<T, E> {
    if group.size() == 1 {
        return result;
    }
    let said = result.as_ref().err().map_or(String::new(), |error| format!("!{}", error.to_string()));
    let all = group.all_gather(said.as_bytes());
    let value = result?;
    match all?.iter().enumerate().find_map(|(rank, said)| Some((rank, said.split_first()?.1))) {
        None => Ok(value),
        Some((rank, message)) => {
            let message = String::from_utf8_lossy(message).into_owned();
            Err(RankError::Elsewhere { rank, message }.into())
        }
    }
}
