//! Pack files, written during a run and played. [`damper_replay`] has the format and the player.

mod part;
mod player;
mod writer;

pub(crate) use part::{END as PART, part_of};
pub use player::{PlayError, Played, play, play_file};
pub use writer::{PackProgress, PackWriter};
