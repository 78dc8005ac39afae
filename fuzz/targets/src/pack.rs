//! Packs that devices play, with any content, in lent memory.

use damper_core::noise::NoiseWord;
use damper_core::private::SumWord;
use damper_replay::{Memory, play, play_base};

/// Elements of each kind of memory.
const ELEMENTS: usize = 1 << 12;

/// Plays any bytes as a pack, in both players.
pub fn pack(bytes: &[u8]) {
    for base in [true, false] {
        let (mut floats, mut narrow, mut wide, mut float_sums) = (
            vec![0.0; ELEMENTS],
            vec![SumWord::ZERO; ELEMENTS],
            vec![SumWord::ZERO; ELEMENTS],
            vec![SumWord::ZERO; ELEMENTS],
        );
        let mut noise: Vec<NoiseWord> = (0..ELEMENTS).map(|_| NoiseWord::ZERO).collect();
        let memory = Memory {
            floats: &mut floats,
            narrow: &mut narrow,
            wide: &mut wide,
            float_sums: &mut float_sums,
            noise: &mut noise,
        };
        let (mut lines, mut bytes) = (0, bytes);
        let say = |line: &damper_replay::Line| {
            lines += 1;
            assert!(line.to_string().is_ascii());
        };
        let played = if base { play_base(&mut bytes, memory, say) } else { play(&mut bytes, memory, say) };
        if let Ok(summary) = played {
            assert!(summary.differ <= summary.groups && lines >= summary.groups);
        }
    }
}
