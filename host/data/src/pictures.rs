//! Images as the pixels that a model takes.

mod cache;
mod decode;
mod pixel_layout;

pub(crate) use cache::pixels;
pub(crate) use pixel_layout::PixelLayout;
