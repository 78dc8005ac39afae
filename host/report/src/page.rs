//! Static, self-contained HTML pages.

mod by_class;
mod filters;
mod frame;
mod headline;
mod not_private;
mod plot;
mod private;
mod render;
mod rows;
mod training;
mod unfinished;

pub(crate) use frame::{Axes, Tick};
pub use frame::{Frame, PlotAxis, grouped};
pub use private::html;
pub(crate) use render::{Escaper, rendered};
