//! Random views of images: crops, shifts and mirror images.
//!
//! A sample's gradient is the mean over its views, computed before the single clip. So views do not affect the privacy
//! cost. Source: De, Berrada, Hayes, Smith, Balle, "Unlocking High-Accuracy Differentially Private Image Classification
//! through Scale", 2022, section 3 ("augmentation multiplicity").
//!
//! An image is a float input with samples `[H, W]` or `[C, H, W]`. It may also be `[H, W, C]` if `H` is above four and
//! `C` at most four. All images of a sample have the same view. Other inputs stay unchanged.

use crate::{Labels, Split};
use damper_onnx::SettingError;
use std::fmt;
use std::num::NonZeroU32;

/// The motion of an image in a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Motion {
    /// No motion.
    None,
    /// A shift by at most this many pixels along each axis, with mirrored pixels at the border. This is a crop of the
    /// image with a mirrored border.
    Crop(u32),
    /// A shift by at most this many pixels along each axis, with the edge pixels repeated.
    Shift(u32),
}

/// The views of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Augment {
    /// The number `K` of views, drawn independently.
    pub views: NonZeroU32,
    /// The motion of each view.
    pub motion: Motion,
    /// True if each view is mirrored with probability 1/2, left to right.
    pub flip: bool,
}

/// One view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View {
    down: i32,
    right: i32,
    flip: bool,
}

impl Augment {
    /// Derives a view from three random words. Shifts are uniform to within 2⁻³².
    #[must_use]
    pub fn view(&self, words: [u32; 3]) -> View {
        let by = |word: u32| match self.motion {
            Motion::None => 0,
            Motion::Crop(most) | Motion::Shift(most) => {
                let places = 2 * u64::from(most) + 1;
                ((u64::from(word) * places) >> 32) as i32 - most as i32
            }
        };
        View { down: by(words[0]), right: by(words[1]), flip: self.flip && words[2] >> 31 == 1 }
    }

    /// Returns an error unless the samples of `split` can have such views.
    ///
    /// # Errors
    ///
    /// No input is an image, an image is smaller than the motion, or the labels are images too, which would not follow
    /// the motion.
    pub fn check(&self, split: &Split) -> Result<(), SettingError> {
        let refuse = |problem| Err(SettingError::new("augment", self, problem));
        let of_labels = match split.labels() {
            Labels::Classes { shape, .. } | Labels::Values { shape, .. } | Labels::Stored { shape, .. } => shape.len(),
            Labels::None => 0,
        };
        if of_labels > 1 {
            return refuse("the labels have a place in the picture, and would not move with it; leave it out");
        }
        let floats = split.features().iter().filter(|features| !features.values.are_integers());
        let pictures: Vec<_> = floats.filter_map(|features| PictureShape::of(&features.shape)).collect();
        let Some(least) = pictures.iter().map(|picture| picture.height.min(picture.width)).min() else {
            return refuse("no input of the model is a picture ([H, W], [C, H, W] or [H, W, C]); leave it out");
        };
        match self.motion {
            Motion::Crop(most) | Motion::Shift(most) if most as usize >= least => {
                refuse("moves a picture by its whole extent; use fewer pixels")
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Augment {
    /// Writes the value as the command accepts it: `8:crop4,flip`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.views)?;
        match self.motion {
            Motion::None => {}
            Motion::Crop(most) => write!(f, "crop{most}")?,
            Motion::Shift(most) => write!(f, "shift{most}")?,
        }
        match (self.flip, self.motion) {
            (false, _) => Ok(()),
            (true, Motion::None) => f.write_str("flip"),
            (true, _) => f.write_str(",flip"),
        }
    }
}

/// The extents of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PictureShape {
    planes: usize,
    height: usize,
    width: usize,
    /// Number of interleaved values per pixel.
    channels: usize,
}

impl PictureShape {
    /// Returns the image shape of a sample of `shape`, or `None` if it is not an image.
    pub(crate) fn of(shape: &[usize]) -> Option<Self> {
        let (planes, height, width, channels) = match *shape {
            [height, width] => (1, height, width, 1),
            [height, width, channels @ 1..=4] if height > 4 => (1, height, width, channels),
            [planes, height, width] => (planes, height, width, 1),
            _ => return None,
        };
        (planes > 0 && height > 1 && width > 1).then_some(Self { planes, height, width, channels })
    }

    /// Writes the view of `from` to `to`. Both are one sample.
    pub(crate) fn write(&self, motion: Motion, view: View, from: &[f32], to: &mut [f32]) {
        let source = |at: usize, by: i32, extent: usize| {
            let (at, last) = (at as i64 - i64::from(by), extent as i64 - 1);
            let inside = match motion {
                Motion::Crop(_) if at < 0 => -at,
                Motion::Crop(_) if at > last => 2 * last - at,
                _ => at,
            };
            inside.clamp(0, last) as usize
        };
        for plane in 0..self.planes {
            for row in 0..self.height {
                let from_row = plane * self.height + source(row, view.down, self.height);
                for column in 0..self.width {
                    let moved = source(column, view.right, self.width);
                    let from_column = if view.flip { self.width - 1 - moved } else { moved };
                    let to_at = ((plane * self.height + row) * self.width + column) * self.channels;
                    let from_at = (from_row * self.width + from_column) * self.channels;
                    to[to_at..][..self.channels].copy_from_slice(&from[from_at..][..self.channels]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Features, Numbers};

    fn augment(motion: Motion, flip: bool) -> Augment {
        Augment { views: NonZeroU32::MIN, motion, flip }
    }

    fn view(motion: Motion, view: View, shape: &[usize], from: &[f32]) -> Vec<f32> {
        let mut to = vec![f32::NAN; from.len()];
        PictureShape::of(shape).unwrap().write(motion, view, from, &mut to);
        to
    }

    const PICTURE: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];

    #[test]
    fn views_move_and_mirror() {
        let still = View { down: 0, right: 0, flip: false };
        assert_eq!(view(Motion::None, still, &[2, 3], &PICTURE), PICTURE);
        assert_eq!(view(Motion::None, View { flip: true, ..still }, &[2, 3], &PICTURE), [3.0, 2.0, 1.0, 6.0, 5.0, 4.0]);
        let right = View { right: 1, ..still };
        assert_eq!(view(Motion::Shift(1), right, &[2, 3], &PICTURE), [1.0, 1.0, 2.0, 4.0, 4.0, 5.0]);
        assert_eq!(view(Motion::Crop(1), right, &[2, 3], &PICTURE), [2.0, 1.0, 2.0, 5.0, 4.0, 5.0]);
        let up = View { down: -1, ..still };
        assert_eq!(view(Motion::Shift(1), up, &[2, 3], &PICTURE), [4.0, 5.0, 6.0, 4.0, 5.0, 6.0]);
        assert_eq!(view(Motion::Crop(1), up, &[2, 3], &PICTURE), [4.0, 5.0, 6.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn channels_stay_together() {
        let right = View { down: 0, right: 1, flip: false };
        let last: Vec<f32> = (0..5 * 2 * 3).map(|x| x as f32).collect();
        let moved = view(Motion::Shift(1), right, &[5, 2, 3], &last);
        assert_eq!(moved[..12], [0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 6.0, 7.0, 8.0, 6.0, 7.0, 8.0]);
        let first: Vec<f32> = (0..2 * 2 * 3).map(|x| x as f32).collect();
        let moved = view(Motion::Shift(1), right, &[2, 2, 3], &first);
        assert_eq!(moved, [0.0, 0.0, 1.0, 3.0, 3.0, 4.0, 6.0, 6.0, 7.0, 9.0, 9.0, 10.0]);
    }

    #[test]
    fn words_reach_every_move() {
        let all = augment(Motion::Crop(2), true);
        let word = |fifth: u64| (fifth * (1 << 32) / 5 + 5) as u32;
        let moves: Vec<_> = (0..5).map(|at| all.view([word(at), word(4 - at), 0]).down).collect();
        assert_eq!(moves, [-2, -1, 0, 1, 2]);
        assert_eq!(all.view([0, u32::MAX, u32::MAX]), View { down: -2, right: 2, flip: true });
        assert_eq!(augment(Motion::None, false).view([u32::MAX; 3]), View { down: 0, right: 0, flip: false });
    }

    #[test]
    fn samples_without_such_views_are_refused() {
        let split = |shape: &[usize], labels| Split {
            rows: 1,
            features: vec![Features { shape: shape.to_vec(), values: Numbers::F32(vec![0.0; shape.iter().product()]) }],
            labels,
            null: vec![],
            held: None,
            are_bytes: vec![],
            label_scale: None,
        };
        let classes = |shape: &[usize]| Labels::Classes { shape: shape.to_vec(), values: vec![0] };
        let crop = augment(Motion::Crop(4), true);
        crop.check(&split(&[3, 8, 8], classes(&[]))).unwrap();
        for (shape, of_labels, words) in [
            (&[64][..], &[][..], "no input of the model is a picture"),
            (&[1, 4, 8], &[], "whole extent"),
            (&[1, 8, 8], &[8, 8], "would not move with it"),
        ] {
            let error = crop.check(&split(shape, classes(of_labels))).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("1:crop4,flip"), "{error}");
        }
    }
}
