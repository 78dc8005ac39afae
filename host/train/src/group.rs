//! The processes of one run, its ranks, and what they exchange. Each has the key and sees sums that are not released.

/// The words of a sum, added modulo a power of two: no order of the ranks changes a bit.
#[derive(Debug)]
pub enum Words<'a> {
    /// Where the total fits 32 bits.
    U32(&'a mut [u32]),
    /// Any other.
    U64(&'a mut [u64]),
}

/// One rank's end of a group of ranks. All ranks make the same calls in the same order; each call waits for the others.
///
/// The methods with a body are made of [`all_gather`](Group::all_gather). A group that has better ones replaces them.
///
/// # Errors
///
/// A rank has left. Then no rank may release anything of the step.
pub trait Group {
    /// The number of this rank, from 0. Rank 0 writes files.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// The bytes of all ranks, by rank. They may differ in length.
    fn all_gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, RankError>;

    /// Replaces `bytes` by those of rank 0.
    fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<(), RankError> {
        let own = if self.rank() == 0 { &bytes[..] } else { &[] };
        *bytes = self.all_gather(own)?.swap_remove(0);
        Ok(())
    }

    /// Replaces `words`, of one length on all ranks, by their totals.
    fn all_reduce(&self, words: Words<'_>) -> Result<(), RankError> {
        #[allow(clippy::type_complexity)] // A call of the group.
        fn total<const N: usize, W: Copy>(
            words: &mut [W],
            gather: &dyn Fn(&[u8]) -> Result<Vec<Vec<u8>>, RankError>,
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

    /// Replaces this rank's block of `words` by its totals. `words` has one block of one length a rank, in the order of ranks. The
    /// other blocks have no meaning then.
    fn reduce_scatter(&self, words: Words<'_>) -> Result<(), RankError> {
        self.all_reduce(words)
    }

    /// Fills the blocks of the other ranks in `floats`, which has one block of one length a rank, with theirs.
    fn all_gather_floats(&self, floats: &mut [f32]) -> Result<(), RankError> {
        let block = (floats.len() / self.size()).max(1);
        let own: Vec<u8> =
            floats.chunks(block).nth(self.rank()).unwrap_or(&[]).iter().flat_map(|x| x.to_le_bytes()).collect();
        for (floats, bytes) in floats.chunks_mut(block).zip(self.all_gather(&own)?) {
            for (float, bytes) in floats.iter_mut().zip(bytes.as_chunks().0) {
                *float = f32::from_le_bytes(*bytes);
            }
        }
        Ok(())
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

/// Why ranks cannot go on together.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RankError {
    /// An error of another rank, in its words.
    #[error("rank {rank}: {message}")]
    Elsewhere {
        /// The rank.
        rank: usize,
        /// Its message.
        message: String,
    },
    /// A rank is not of the run of rank 0.
    #[error(
        "rank {rank} has {what} other than rank 0; start all ranks with one program, one command line, one model and the same data, on \
         processors of one kind"
    )]
    Differs {
        /// The rank.
        rank: usize,
        /// What differs.
        what: String,
    },
    /// A rank ended before its run.
    #[error("a rank has left the run")]
    Left,
}

/// `result` if it is no error on any rank. Else an error on every rank: its own, or the first other's.
///
/// # Errors
///
/// A rank has one, or has left.
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
