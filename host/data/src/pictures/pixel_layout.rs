//! The pixel layout of a model's image input.
//!
//! Images with another number of channels are converted. Grey is repeated, and colours become grey by the weights of
//! ITU-R BT.601. Sizes change only as [`Resize`] specifies.

use super::decode::{broken, decode};
use crate::files::guarded;
use crate::rows::to_front;
use crate::{DataOptions, Resize};
use std::num::NonZeroUsize;
use std::thread;

/// The pixel layout that a model takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PixelLayout {
    height: usize,
    width: usize,
    channels: usize,
    /// True if the channels are on the last axis.
    is_last: bool,
    resize: Option<Resize>,
}

impl PixelLayout {
    /// Returns the layout of the model's first input. If the input is open, uses `first`, an image.
    pub fn new(options: &DataOptions, first: &[u8]) -> Result<Self, String> {
        let (input, resize) = (options.inputs.first(), options.resize);
        match input.map(|input| &*input.shape) {
            Some(&[channels @ (1 | 3), height, width]) => Ok(Self { height, width, channels, is_last: false, resize }),
            Some(&[height, width, channels @ (1 | 3)]) => Ok(Self { height, width, channels, is_last: true, resize }),
            Some(&[height, width]) => Ok(Self { height, width, channels: 1, is_last: false, resize }),
            None | Some([] | [_]) => {
                let picture = decode(first, None)?;
                let pixels = picture.height * picture.width;
                let channels = match input {
                    Some(input) if input.shape == [pixels] => 1,
                    Some(input) if input.shape == [3 * pixels] => 3,
                    _ => picture.channels,
                };
                Ok(Self { height: picture.height, width: picture.width, channels, is_last: false, resize })
            }
            Some(shape) => Err(format!(
                "the model's input of shape {shape:?} takes no images of 1 or 3 channels: use other data, or export the model for them"
            )),
        }
    }

    /// Returns the extents of one sample.
    pub fn shape(&self) -> Vec<usize> {
        match self.is_last {
            true => vec![self.height, self.width, self.channels],
            false => vec![self.channels, self.height, self.width],
        }
    }

    /// Returns the text for the keys of cached images. It must not change, because other runs have written it.
    pub fn key(&self) -> String {
        let Self { height, width, channels, is_last, resize } = self;
        format!(
            "Form {{ height: {height}, width: {width}, channels: {channels}, is_last: {is_last}, resize: {resize:?} }}"
        )
    }

    /// Returns the size of one sample in bytes.
    pub fn len(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// Returns the pixels of one image, or its fault.
    fn pixels(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let size = (self.height, self.width);
        let decoded = guarded(|| match self.resize {
            None => decode(bytes, Some(size)),
            Some(resize) => decode(bytes, None).and_then(|picture| picture.resized(size, resize)),
        });
        let picture = decoded.unwrap_or_else(|| Err(broken("its decoder failed")))?;
        let pixels = match (picture.channels, self.channels) {
            (1, 3) => picture.pixels.iter().flat_map(|grey| [*grey; 3]).collect(),
            (3, 1) => picture.pixels.as_chunks().0.iter().map(grey).collect(),
            _ => picture.pixels,
        };
        Ok(if self.is_last || self.channels == 1 { pixels } else { to_front(&pixels, pixels.len(), self.channels) })
    }

    /// Returns the pixels of several images, decoded by as many threads as there are processors.
    pub fn all(&self, files: &[Vec<u8>]) -> Vec<Result<Vec<u8>, String>> {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let each = files.len().div_ceil(threads).max(1);
        let pixels = |part: &[Vec<u8>]| part.iter().map(|file| self.pixels(file)).collect::<Vec<_>>();
        let pixels = &pixels;
        thread::scope(|scope| {
            let mut parts = files.chunks(each);
            let own = parts.next_back();
            let others: Vec<_> = parts.map(|part| (part.len(), scope.spawn(move || pixels(part)))).collect();
            let own = own.map(pixels);
            let others = others
                .into_iter()
                .flat_map(|(len, part)| part.join().unwrap_or_else(|_| vec![Err(broken("its decoder failed")); len]));
            others.chain(own.into_iter().flatten()).collect()
        })
    }
}

fn grey([red, green, blue]: &[u8; 3]) -> u8 {
    ((19_595 * u32::from(*red) + 38_470 * u32::from(*green) + 7_471 * u32::from(*blue) + 32_768) >> 16) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_cached_images_stay() {
        let layout = PixelLayout { height: 8, width: 9, channels: 3, is_last: true, resize: Some(Resize::Crop) };
        let key = "Form { height: 8, width: 9, channels: 3, is_last: true, resize: Some(Crop) }";
        assert_eq!(layout.key(), key);
    }
}
