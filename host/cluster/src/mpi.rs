//! Processes that an MPI launcher started.
//!
//! By default, MPI's own errors, such as a lost connection, end all processes. So calls here do not fail.

use crate::error::JoinError;
use damper_train::{Cut, Group, Pieces, RankError, RankWord, Words, block_of};
use mpi::Threading;
use mpi::collective::SystemOperation;
use mpi::datatype::PartitionMut;
use mpi::environment::Universe;
use mpi::request::WaitGuard;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Equivalence, Root};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zeroize::Zeroize;

/// Time that a failed process waits for the others to fail too, before it ends them.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum time for the start of MPI, and the additional time per rank.
const START: Duration = Duration::from_secs(20);
const START_OF_RANK: Duration = Duration::from_millis(100);

/// Ends this process unless it is dropped in time. If a rank is killed while MPI starts, the others wait for it in that
/// call, and a launcher may wait for them.
struct Deadline(Option<mpsc::Sender<()>>, Option<JoinHandle<()>>);

impl Deadline {
    fn begin(limit: Duration) -> Self {
        let (sender, dropped) = mpsc::channel::<()>();
        let watch = std::thread::spawn(move || {
            if dropped.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!(
                    "damper: MPI has not started in {} s: a rank or a machine is missing; start the run again",
                    limit.as_secs()
                );
                // An abort instead of an exit, because MPI's exit handlers would wait as well.
                std::process::abort();
            }
        });
        Self(Some(sender), Some(watch))
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.0.take();
        let _ = self.1.take().map(JoinHandle::join);
    }
}

/// This process in its group.
pub struct Mpi {
    // Declared before the universe, because dropping the universe ends MPI.
    world: SimpleCommunicator,
    /// For processes that leave. A separate communicator cannot be confused with a call of the run.
    leaving: SimpleCommunicator,
    _universe: Universe,
}

impl std::fmt::Debug for Mpi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mpi({} of {})", self.rank(), self.size())
    }
}

impl Mpi {
    /// Starts MPI, which must join at least `size` processes.
    ///
    /// # Errors
    ///
    /// MPI does not start, was started before, or joins fewer processes. A launcher of another MPI library starts
    /// groups of one process each.
    pub(super) fn start(size: usize) -> Result<Self, JoinError> {
        let _in_time = Deadline::begin(START + START_OF_RANK * u32::try_from(size).unwrap_or(u32::MAX));
        // Workers are threads, but only one thread calls MPI.
        let (universe, _) = mpi::initialize_with_threading(Threading::Funneled).ok_or(JoinError::Failed)?;
        let world = universe.world();
        let joined = world.size() as usize;
        if joined < size {
            return Err(JoinError::Fewer { started: size, joined });
        }
        let leaving = world.duplicate();
        Ok(Self { world, leaving, _universe: universe })
    }

    fn total<W: Equivalence + Copy + Zeroize>(&self, words: &mut [W]) {
        for piece in words.chunks_mut(PIECE) {
            let mut own = piece.to_vec();
            self.world.all_reduce_into(&own[..], piece, SystemOperation::sum());
            own.zeroize();
        }
    }

    fn total_block<W: Equivalence + Copy + Default + Zeroize>(&self, words: &mut [W]) {
        let (rank, size) = (self.rank(), self.size());
        let block = words.len() / size;
        let mut own = vec![W::default(); block];
        self.world.reduce_scatter_block_into(&*words, &mut own[..], SystemOperation::sum());
        words[rank * block..][..block].copy_from_slice(&own);
        own.zeroize();
    }

    /// Overlaps three pieces: one is in transfer, the next is filled, and the previous is received.
    fn total_pieces<W: RankWord + Equivalence>(&self, cut: Cut, pieces: &mut dyn Pieces) {
        let buffers = |len: usize| [vec![W::default(); len], vec![W::default(); len]];
        let ([mut sent, mut next], [mut total, mut before]) = (buffers(cut.width * self.size()), buffers(cut.width));
        pieces.fill(0, W::words(&mut sent));
        for index in 0..cut.pieces {
            mpi::request::scope(|scope| {
                let sum = SystemOperation::sum();
                let on_its_way = self.world.immediate_reduce_scatter_block_into(scope, &sent[..], &mut total[..], sum);
                let on_its_way = WaitGuard::from(on_its_way);
                if index + 1 < cut.pieces {
                    pieces.fill(index + 1, W::words(&mut next));
                }
                if index > 0 {
                    pieces.take(index - 1, W::words(&mut before));
                }
                drop(on_its_way);
            });
            std::mem::swap(&mut sent, &mut next);
            std::mem::swap(&mut total, &mut before);
        }
        pieces.take(cut.pieces - 1, W::words(&mut before));
        [sent, next, total, before].iter_mut().for_each(|buffer| buffer.zeroize());
    }

    /// Returns lengths and starts of the ranks' blocks of `block` values in a vector of `len`.
    fn blocks(&self, block: usize, len: usize) -> (Vec<i32>, Vec<i32>) {
        let blocks = (0..self.size()).map(|rank| block_of(rank, block, len));
        blocks.map(|block| (count(block.len()), count(block.start))).unzip()
    }

    pub(super) fn fail(self, code: u8) {
        let mut left = self.leaving.immediate_barrier();
        let start = Instant::now();
        loop {
            match left.test() {
                Ok(_) => return,
                Err(request) => left = request,
            }
            if start.elapsed() > PATIENCE {
                // The other processes wait for this process in a call that it does not make.
                self.world.abort(code.into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Mpi {
    /// The end of MPI waits for all processes. A panicking process aborts instead, because the others may wait for it.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.world.abort(101);
        }
    }
}

impl Group for Mpi {
    fn rank(&self) -> usize {
        self.world.rank() as usize
    }

    fn size(&self) -> usize {
        self.world.size() as usize
    }

    fn all_gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, RankError> {
        let mut lens = vec![0i32; self.size()];
        self.world.all_gather_into(&count(own.len()), &mut lens[..]);
        let starts: Vec<i32> = lens.iter().scan(0i32, |at, len| Some(std::mem::replace(at, *at + len))).collect();
        let mut all = vec![0u8; lens.iter().map(|len| *len as usize).sum()];
        // MPI does not accept empty buffers.
        if !all.is_empty() {
            let mut parts = PartitionMut::new(&mut all[..], &lens[..], &starts[..]);
            self.world.all_gather_varcount_into(own, &mut parts);
        }
        let part = |(start, len): (&i32, &i32)| all[*start as usize..][..*len as usize].to_vec();
        Ok(starts.iter().zip(&lens).map(part).collect())
    }

    fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<(), RankError> {
        let root = self.world.process_at_rank(0);
        let mut len = bytes.len() as u64;
        root.broadcast_into(&mut len);
        bytes.resize(len as usize, 0);
        bytes.chunks_mut(PIECE).for_each(|piece| root.broadcast_into(piece));
        Ok(())
    }

    fn all_reduce(&self, words: Words<'_>) -> Result<(), RankError> {
        match words {
            Words::U32(words) => self.total(words),
            Words::U64(words) => self.total(words),
        }
        Ok(())
    }

    fn reduce_scatter(&self, words: Words<'_>) -> Result<(), RankError> {
        match words {
            Words::U32(words) => self.total_block(words),
            Words::U64(words) => self.total_block(words),
        }
        Ok(())
    }

    fn reduce_scatter_pieces(&self, cut: Cut, pieces: &mut dyn Pieces) -> Result<(), RankError> {
        if cut.is_narrow {
            self.total_pieces::<u32>(cut, pieces)
        } else {
            self.total_pieces::<u64>(cut, pieces)
        }
        Ok(())
    }

    fn all_gather_floats(&self, floats: &mut [f32], block: usize) -> Result<(), RankError> {
        let own = floats[block_of(self.rank(), block, floats.len())].to_vec();
        let (lens, starts) = self.blocks(block, floats.len());
        self.world.all_gather_varcount_into(&own[..], &mut PartitionMut::new(floats, lens, starts));
        Ok(())
    }

    fn gather_floats(&self, own: &[f32], all: &mut [f32], block: usize) -> Result<(), RankError> {
        let root = self.world.process_at_rank(0);
        if self.rank() > 0 {
            root.gather_varcount_into(own);
            return Ok(());
        }
        let (lens, starts) = self.blocks(block, all.len());
        root.gather_varcount_into_root(own, &mut PartitionMut::new(all, lens, starts));
        Ok(())
    }
}

/// Maximum number of elements per call, because MPI counts them in 32 bits.
const PIECE: usize = 1 << 28;

fn count(len: usize) -> i32 {
    i32::try_from(len).expect("texts and figures are below 2 GiB")
}
