//! Packs as files: written of a run as it goes, and played. Format and player are the core's ([`damper_core::replay`]).

mod player;
mod writer;

pub use player::{PlayError, Played, play, play_file};
pub use writer::PackWriter;
