//! Decodes PNG and JPEG files to pixels, and resizes them.
//!
//! Pixels are bytes. 16-bit values are truncated to 8 bits, and an alpha channel is dropped.

use crate::Resize;
use crate::options::DROP;
use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::{U8, U8x3};
use fast_image_resize::{FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer};
use png::Transformations;
use std::fmt::Display;
use std::io::Cursor;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Maximum number of pixels of an image with unknown size.
const MOST: usize = 1 << 26;

/// An image in memory.
pub(super) struct Picture {
    pub height: usize,
    pub width: usize,
    /// 1 or 3.
    pub channels: usize,
    pub pixels: Vec<u8>,
}

impl Picture {
    /// Scales the image to `height` and `width`.
    pub fn resized(self, (height, width): Size, resize: Resize) -> Result<Self, String> {
        if (self.height, self.width) == (height, width) {
            return Ok(self);
        }
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
        let options = match resize {
            Resize::Stretch => options,
            Resize::Crop => options.fit_into_destination(None),
        };
        let pixels = match self.channels {
            3 => self.pixels_resized::<U8x3>((height, width), &options),
            _ => self.pixels_resized::<U8>((height, width), &options),
        };
        Ok(Self { height, width, channels: self.channels, pixels: pixels? })
    }

    /// Resizes pixels of one type. The crate's function for images of any pixel type compiles for thirteen types, which
    /// doubles this crate's build time.
    fn pixels_resized<P: PixelTrait>(&self, (height, width): Size, options: &ResizeOptions) -> Result<Vec<u8>, String> {
        let failed = |error: &dyn Display| broken(&error.to_string());
        let side = |side: usize| u32::try_from(side).map_err(|error| failed(&error));
        let mut pixels = vec![0; height * width * self.channels];
        let from = TypedImageRef::<P>::from_buffer(side(self.width)?, side(self.height)?, &self.pixels);
        let to = TypedImage::<P>::from_buffer(side(width)?, side(height)?, &mut pixels);
        let (from, mut to) = (from.map_err(|error| failed(&error))?, to.map_err(|error| failed(&error))?);
        Resizer::new().resize_typed(&from, &mut to, options).map_err(|error| failed(&error))?;
        Ok(pixels)
    }
}

/// Height and width.
type Size = (usize, usize);

/// Returns the fault of a corrupt image.
pub(super) fn broken(error: &str) -> String {
    format!("the image is corrupt ({error}): fetch or export it again{DROP}")
}

/// Returns an error for a size other than `wanted`, before memory for the pixels is allocated.
fn check_size((height, width): Size, wanted: Option<Size>) -> Result<(), String> {
    match wanted {
        Some(wanted) if wanted != (height, width) => Err(format!(
            "the image has {height} x {width} pixels (height x width) where the model takes {} x {}: give `resize` crop or stretch, or \
             resize the images first",
            wanted.0, wanted.1
        )),
        None if height.saturating_mul(width) > MOST => {
            Err(format!("the image has {height} x {width} pixels, more than {MOST} in all: resize the images first"))
        }
        _ => Ok(()),
    }
}

/// Decodes an image. If `wanted` is given, the image must have that size.
pub(super) fn decode(bytes: &[u8], wanted: Option<Size>) -> Result<Picture, String> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => png(bytes, wanted),
        [0xff, 0xd8, ..] => jpeg(bytes, wanted),
        _ => Err("the file is neither PNG nor JPEG: convert it".into()),
    }
}

fn png(bytes: &[u8], wanted: Option<Size>) -> Result<Picture, String> {
    let failed = |error: png::DecodingError| broken(&error.to_string());
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(failed)?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    check_size((height, width), wanted)?;
    let mut pixels = vec![0; reader.output_buffer_size().ok_or_else(|| broken("it is too large"))?];
    reader.next_frame(&mut pixels).map_err(failed)?;
    let (color, _) = reader.output_color_type();
    let of_pixel = color.samples();
    let channels = if of_pixel > 2 { 3 } else { 1 };
    pixels.truncate(width * height * of_pixel);
    if of_pixel != channels {
        pixels = pixels.chunks_exact(of_pixel).flat_map(|pixel| &pixel[..channels]).copied().collect();
    }
    Ok(Picture { height, width, channels, pixels })
}

fn jpeg(bytes: &[u8], wanted: Option<Size>) -> Result<Picture, String> {
    let options = DecoderOptions::new_safe().set_strict_mode(true);
    let mut decoder = JpegDecoder::new_with_options(Cursor::new(bytes), options);
    decoder.decode_headers().map_err(|_| broken("its header is malformed"))?;
    let (width, height) = decoder.dimensions().ok_or_else(|| broken("it has no size"))?;
    check_size((height, width), wanted)?;
    let is_grey = decoder.input_colorspace() == Some(ColorSpace::Luma);
    let space = if is_grey { ColorSpace::Luma } else { ColorSpace::RGB };
    decoder.set_options(options.jpeg_set_out_colorspace(space));
    let pixels = decoder.decode().map_err(|_| broken("it ends early, or is malformed"))?;
    let channels = if is_grey { 1 } else { 3 };
    if pixels.len() != width * height * channels {
        return Err(broken("it ends early"));
    }
    Ok(Picture { height, width, channels, pixels })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an image with varied levels.
    fn picture(height: usize, width: usize, channels: usize) -> Picture {
        let pixels = (0..height * width * channels).map(|at| (at * at * 37 + at * 11) as u8).collect();
        Picture { height, width, channels, pixels }
    }

    /// Returns, for each of `to` pixels, the weights of the `from` pixels between `first` and `first + span`. They form
    /// a triangle as wide as a pixel of the result, and at least as wide as a pixel of the source.
    fn weights(from: usize, first: f64, span: f64, to: usize) -> Vec<Vec<f64>> {
        let scale = span / to as f64;
        let wide = scale.max(1.0);
        let of_pixel = |at: usize| {
            let centre = first + (at as f64 + 0.5) * scale;
            let weight = |x: usize| (1.0 - (x as f64 + 0.5 - centre).abs() / wide).max(0.0);
            let all: Vec<f64> = (0..from).map(weight).collect();
            let sum: f64 = all.iter().sum();
            all.iter().map(|weight| weight / sum).collect()
        };
        (0..to).map(of_pixel).collect()
    }

    #[test]
    fn pictures_resized_as_by_the_definition() {
        for (from, to) in [((9, 14), (4, 4)), ((30, 8), (8, 8)), ((5, 5), (11, 7)), ((16, 16), (8, 8))] {
            for (channels, resize) in [(1, Resize::Stretch), (3, Resize::Stretch), (1, Resize::Crop), (3, Resize::Crop)]
            {
                let source = picture(from.0, from.1, channels);
                let (high, wide) = (from.0 as f64, from.1 as f64);
                let scale = (high / to.0 as f64).min(wide / to.1 as f64);
                let (span_y, span_x) = match resize {
                    Resize::Stretch => (high, wide),
                    Resize::Crop => (scale * to.0 as f64, scale * to.1 as f64),
                };
                let rows = weights(from.0, (high - span_y) / 2.0, span_y, to.0);
                let columns = weights(from.1, (wide - span_x) / 2.0, span_x, to.1);
                let pixels = source.pixels.clone();
                let found = source.resized(to, resize).unwrap();
                assert_eq!((found.height, found.width, found.pixels.len()), (to.0, to.1, to.0 * to.1 * channels));
                for (at, level) in found.pixels.iter().enumerate() {
                    let (y, x, channel) = (at / channels / to.1, at / channels % to.1, at % channels);
                    let mut sum = 0.0;
                    for (row, high) in rows[y].iter().enumerate() {
                        for (column, wide) in columns[x].iter().enumerate() {
                            sum += high * wide * f64::from(pixels[(row * from.1 + column) * channels + channel]);
                        }
                    }
                    assert!((sum - f64::from(*level)).abs() <= 1.5, "{from:?} {to:?} {resize:?} {at}: {sum} {level}");
                }
            }
        }
    }
}
