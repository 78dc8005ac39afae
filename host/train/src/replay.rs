//! Packs as files: written of a run as it goes, and played. [`damper_replay`] has the format and the player.

mod player;
mod writer;

pub use player::{PlayError, Played, play, play_file};
pub use writer::PackWriter;
