//! Ranks as threads of one process, for tests.

use damper_train::{Group, RankError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// State that the threads share.
#[derive(Debug, Default)]
struct Shared {
    meeting: Mutex<Meeting>,
    changed: Condvar,
}

/// The collective calls of all ranks, one at a time.
#[derive(Debug, Default)]
struct Meeting {
    /// The input of each rank to the current call.
    brought: Vec<Option<Vec<u8>>>,
    /// The inputs of all ranks to the last call, and the number of ranks that have not read them.
    last: (Vec<Vec<u8>>, usize),
    has_left: bool,
}

/// A rank that is a thread. Dropping it leaves the group, and calls of the others fail.
#[derive(Debug)]
pub struct Threads {
    shared: Arc<Shared>,
    rank: usize,
    size: usize,
}

impl Threads {
    /// Creates a group of `size` ranks.
    #[must_use]
    pub fn group(size: usize) -> Vec<Self> {
        let shared = Arc::<Shared>::default();
        shared.meeting.lock().unwrap_or_else(PoisonError::into_inner).brought = vec![None; size];
        (0..size).map(|rank| Self { shared: shared.clone(), rank, size }).collect()
    }
}

impl Group for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, RankError> {
        let Shared { meeting, changed } = &*self.shared;
        let mut at = meeting.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = |at| changed.wait(at).unwrap_or_else(PoisonError::into_inner);
        // The previous call ends after all ranks have read its result.
        while at.last.1 > 0 && !at.has_left {
            at = wait(at);
        }
        at.brought[self.rank] = Some(own.to_vec());
        if at.brought.iter().all(Option::is_some) {
            at.last = (at.brought.iter_mut().filter_map(Option::take).collect(), self.size);
            changed.notify_all();
        }
        while at.brought[self.rank].is_some() {
            if at.has_left {
                return Err(RankError::Left);
            }
            at = wait(at);
        }
        at.last.1 -= 1;
        let all = at.last.0.clone();
        if at.last.1 == 0 {
            changed.notify_all();
        }
        Ok(all)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.meeting.lock().unwrap_or_else(PoisonError::into_inner).has_left = true;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_train::{Words, agree};

    fn on_ranks<T: Send>(size: usize, rank: impl Fn(&Threads) -> T + Sync) -> Vec<T> {
        std::thread::scope(|scope| {
            let each: Vec<_> = Threads::group(size).into_iter().map(|group| scope.spawn(|| rank(&{ group }))).collect();
            each.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    // Totals wrap, and every rank gets them, for any number of ranks.
    #[test]
    fn totals_and_blocks_are_the_same_everywhere() {
        for size in 1..=4 {
            let all = on_ranks(size, |group| {
                let own = u64::MAX - group.rank() as u64;
                let mut wide = vec![own; 2 * size];
                group.all_reduce(Words::U64(&mut wide)).unwrap();
                let mut narrow: Vec<u32> = (0..3 * size as u32).map(|at| at << 29 | group.rank() as u32).collect();
                group.reduce_scatter(Words::U32(&mut narrow)).unwrap();
                let mut floats = vec![f32::NAN; size];
                floats[group.rank()] = group.rank() as f32;
                group.all_gather_floats(&mut floats, 1).unwrap();
                let mut said = format!("of {}", group.rank()).into_bytes();
                group.broadcast(&mut said).unwrap();
                (wide, narrow[3 * group.rank()..][..3].to_vec(), floats, said)
            });
            let total = (0..size as u64).fold(0u64, |total, rank| total.wrapping_add(u64::MAX - rank));
            let ranks = (0..size as u32).sum::<u32>();
            for (rank, (wide, narrow, floats, said)) in all.into_iter().enumerate() {
                assert_eq!(wide, vec![total; 2 * size]);
                let want = |at: u32| (at << 29).wrapping_mul(size as u32).wrapping_add(ranks);
                assert_eq!(narrow, (3 * rank as u32..3 * rank as u32 + 3).map(want).collect::<Vec<_>>());
                assert_eq!(floats, (0..size).map(|rank| rank as f32).collect::<Vec<_>>());
                assert_eq!(said, b"of 0");
            }
        }
    }

    // An error of one rank is an error of all, with its rank number. A rank that leaves does not cause a hang.
    #[test]
    fn an_error_of_one_rank_is_one_of_all() {
        let all = on_ranks(3, |group| {
            let own =
                if group.rank() == 1 { Err(RankError::Elsewhere { rank: 9, message: "x".into() }) } else { Ok(()) };
            agree(group, own)
        });
        let message = RankError::Elsewhere { rank: 9, message: "x".into() }.to_string();
        assert_eq!(all[0], Err(RankError::Elsewhere { rank: 1, message }));
        assert_eq!(all[2], all[0]);
        assert!(all[1].is_err());
        let all = on_ranks(3, |group| if group.rank() == 1 { Ok(vec![]) } else { group.all_gather(b"x") });
        assert_eq!((&all[0], &all[2]), (&Err(RankError::Left), &Err(RankError::Left)));
    }
}
