//! Plays packs in memory that grows as needed, up to a limit, because an untrusted pack may request any amount.

use damper_core::noise::NoiseWord;
use damper_core::private::SumWord;
use damper_replay::{Line, Memory, MemoryPart, PackError, ReplayError, Source, Summary};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Initial number of elements of each vector, enough for most groups.
const FIRST: usize = 4096;

/// The reason why a pack could not be played to its end.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum PlayError {
    #[error("cannot be read ({0}): check the path")]
    Read(#[from] io::Error),
    #[error("is no file: name a pack, such as one that damper train `record` wrote")]
    NotAFile,
    #[error("ends before the pack does: it was cut, or is no pack")]
    Truncated,
    #[error("{0} bytes follow the end of the pack: it was added to, or is no pack")]
    Behind(u64),
    #[error("{error}: {remedy}")]
    Pack { error: PackError, remedy: &'static str },
    #[error("takes more memory than {limit} bytes: give a larger `memory`, if you trust the file")]
    Memory { limit: u64 },
}

impl From<PackError> for PlayError {
    fn from(error: PackError) -> Self {
        let remedy = match error {
            PackError::NotAPack => "name a pack, such as one that damper train `record` wrote",
            PackError::Contract(_) => "play it with the damper of that contract",
            _ => "copy or record it again",
        };
        Self::Pack { error, remedy }
    }
}

/// The result of playing all groups.
#[derive(Clone, PartialEq, Debug)]
pub struct Played {
    /// All lines. They are the same on every target.
    pub lines: Vec<Line>,
    /// Number of groups, and of those with differences.
    pub summary: Summary,
}

/// Plays the pack `path` in at most `limit` bytes of memory, and calls `say` with one line per group.
///
/// # Errors
///
/// The file cannot be read, is not a pack, is damaged, or needs more memory. Lines passed to `say` before the error are
/// valid.
pub fn play_file(path: &Path, limit: u64, mut say: impl FnMut(&Line)) -> Result<Played, PlayError> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(PlayError::NotAFile);
    }
    let open = || Ok(BufReader::with_capacity(1 << 16, File::open(path)?));
    play_all(open, limit, &mut say)
}

/// Does the same as [`play_file`] for a pack in memory.
///
/// # Errors
///
/// It is not a pack, is damaged, or needs more memory.
pub fn play(pack: &[u8], limit: u64, mut say: impl FnMut(&Line)) -> Result<Played, PlayError> {
    play_all(|| Ok(pack), limit, &mut say)
}

/// A reader of bytes in order.
struct Bytes<R>(R);

impl<R: Read> Source for Bytes<R> {
    type Error = io::Error;

    fn read(&mut self, out: &mut [u8]) -> Result<(), io::Error> {
        self.0.read_exact(out)
    }
}

/// Plays from the beginning, and starts again if memory was too small. Each group's header states the required size
/// before its samples.
fn play_all<R: BufRead>(
    mut open: impl FnMut() -> io::Result<R>,
    limit: u64,
    say: &mut dyn FnMut(&Line),
) -> Result<Played, PlayError> {
    let mut vectors = Vectors {
        floats: vec![0.0; FIRST],
        narrow: vec![SumWord::ZERO; FIRST],
        wide: vec![SumWord::ZERO; FIRST],
        float_sums: vec![SumWord::ZERO; FIRST],
        noise: vec![],
    };
    let mut lines = Vec::new();
    loop {
        let mut source = Bytes(open()?);
        let mut said = 0;
        let played = damper_replay::play(&mut source, vectors.lend(), |line| {
            said += 1;
            if said > lines.len() {
                say(line);
                lines.push(*line);
            }
        });
        match played {
            Ok(summary) => {
                return match io::copy(&mut source.0, &mut io::sink())? {
                    0 => Ok(Played { lines, summary }),
                    behind => Err(PlayError::Behind(behind)),
                };
            }
            Err(ReplayError::Pack(PackError::Memory { of, needed, got })) => vectors.grow(of, needed, got, limit)?,
            Err(ReplayError::Pack(error)) => return Err(error.into()),
            Err(ReplayError::Source(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(PlayError::Truncated);
            }
            Err(ReplayError::Source(error)) => return Err(error.into()),
        }
    }
}

/// Memory of the player.
struct Vectors {
    floats: Vec<f32>,
    narrow: Vec<SumWord<i32>>,
    wide: Vec<SumWord<i64>>,
    float_sums: Vec<SumWord<f32>>,
    noise: Vec<NoiseWord>,
}

impl Vectors {
    fn lend(&mut self) -> Memory<'_> {
        Memory {
            floats: &mut self.floats,
            narrow: &mut self.narrow,
            wide: &mut self.wide,
            float_sums: &mut self.float_sums,
            noise: &mut self.noise,
        }
    }

    /// Grows a vector for `needed` elements if only `got` were free, and doubles that if the limit allows.
    fn grow(&mut self, of: MemoryPart, needed: usize, got: usize, limit: u64) -> Result<(), PlayError> {
        let lengths = [self.floats.len(), self.narrow.len(), self.wide.len(), self.float_sums.len(), self.noise.len()];
        let at = of as usize;
        let wanted = lengths[at].saturating_add(needed.saturating_sub(got));
        let bytes = |length: usize| -> u64 {
            let mut all = lengths;
            all[at] = length;
            let sizes = all.into_iter().zip([4, 4, 8, 4, 8]).map(|(length, size)| (length as u64).saturating_mul(size));
            sizes.fold(0, u64::saturating_add)
        };
        let too_much = PlayError::Memory { limit };
        let length = match wanted.max(2 * lengths[at]) {
            ample if bytes(ample) <= limit => ample,
            _ if bytes(wanted) <= limit => wanted,
            _ => return Err(too_much),
        };
        match of {
            MemoryPart::Floats => resize(&mut self.floats, length),
            MemoryPart::Narrow => resize(&mut self.narrow, length),
            MemoryPart::Wide => resize(&mut self.wide, length),
            MemoryPart::FloatSums => resize(&mut self.float_sums, length),
            MemoryPart::Noise => resize(&mut self.noise, length),
        }
        .ok_or(too_much)
    }
}

/// Returns `None` if the allocation fails.
fn resize<T: Default>(vector: &mut Vec<T>, length: usize) -> Option<()> {
    *vector = Vec::new();
    vector.try_reserve_exact(length).ok()?;
    vector.resize_with(length, T::default);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_core::numerics::digest::Digest;
    use damper_replay::{BASE, BASE_SAID, FURTHER, FURTHER_SAID, WIDE, WIDE_SAID};

    const LIMIT: u64 = 1 << 24;

    fn text(lines: &[Line]) -> String {
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Returns the header of a run that requests the largest representable memory, with a valid digest.
    fn hostile(generated: bool, mechanism: u8) -> Vec<u8> {
        let mut pack = BASE[..17].to_vec();
        pack.extend([16, 1, b'h']);
        pack.extend(u32::MAX.to_le_bytes());
        pack.extend(1u32.to_le_bytes());
        pack.extend(1u16.to_le_bytes());
        pack.push(if generated { 0 } else { 1 });
        pack.extend(7u64.to_le_bytes());
        pack.extend(64u32.to_le_bytes());
        pack.push(mechanism);
        pack.extend([16, 0, 0, 1, 0]);
        pack.extend([0; 64]);
        let mut digest = Digest::default();
        digest.add_bytes(&pack);
        pack.extend(digest.value().to_le_bytes());
        pack
    }

    // The player grows its memory as needed, and reports every line once.
    #[test]
    fn plays_sets_and_reports_each_line_once() {
        for (pack, expected) in [(BASE, BASE_SAID), (FURTHER, FURTHER_SAID), (WIDE, WIDE_SAID)] {
            let mut said = Vec::new();
            let played = play(pack, LIMIT, |line| said.push(*line)).unwrap();
            assert_eq!((played.summary.differ, text(&said)), (0, expected.to_owned()));
            assert_eq!(played.lines, said);
        }
    }

    #[test]
    fn a_file_is_played_as_its_bytes_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wide.pack");
        std::fs::write(&path, WIDE).unwrap();
        assert_eq!(play_file(&path, LIMIT, |_| {}).unwrap(), play(WIDE, LIMIT, |_| {}).unwrap());
    }

    // A pack that needs too much memory is an error before anything is allocated.
    #[test]
    fn oversized_pack_fails_before_alloc() {
        for generated in [true, false] {
            for mechanism in [0, 1] {
                let played = play(&hostile(generated, mechanism), LIMIT, |_| {});
                assert!(matches!(played, Err(PlayError::Memory { limit: LIMIT })), "{played:?}");
            }
        }
        // If twice the needed memory exceeds the limit, only the needed memory is allocated.
        assert_eq!(play(WIDE, 100_000, |_| {}).unwrap().summary.differ, 0);
        assert!(matches!(play(WIDE, 80_000, |_| {}), Err(PlayError::Memory { limit: 80_000 })));
    }

    // The error for an incomplete or invalid pack names the fix.
    #[test]
    fn invalid_pack_error_names_fix() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pack");
        let mut damaged = BASE.to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        let mut contract = BASE.to_vec();
        contract[8] = 9;
        for (bytes, word) in [
            (vec![], "ends before the pack"),
            (b"a text, and no pack at all".to_vec(), "this is no pack"),
            (BASE[..BASE.len() - 1].to_vec(), "ends before the pack"),
            ([BASE, b"more"].concat(), "4 bytes follow the end"),
            (damaged, "it was damaged: copy or record it again"),
            (contract, "of contract 9, those here of 3: play it with the damper of that contract"),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let message = play_file(&path, LIMIT, |_| {}).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
        assert!(matches!(play_file(folder.path(), LIMIT, |_| {}), Err(PlayError::NotAFile)));
        assert!(matches!(play_file(&folder.path().join("none"), LIMIT, |_| {}), Err(PlayError::Read(_))));
    }
}
