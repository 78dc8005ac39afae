//! Images as the pixels of a model input.

mod cache;
mod decode;
mod pixel_layout;

pub(crate) use cache::pixels;
pub(crate) use pixel_layout::PixelLayout;
