//! Random views of pictures: crops, shifts and mirror images.
//!
//! A sample's gradient is the mean over its views, taken before the one clip, so views cost no privacy: De, Berrada, Hayes, Smith, Balle,
//! "Unlocking High-Accuracy Differentially Private Image Classification through Scale", 2022, section 3 ("augmentation multiplicity").
//!
//! A picture is a float input whose samples are `[H, W]`, `[C, H, W]` or, with at most four channels behind more than four rows,
//! `[H, W, C]`. All pictures of a sample have the same view. Other inputs stay as they are.

use crate::{Labels, Split};
use damper_onnx::SettingError;
use std::fmt;
use std::num::NonZeroU32;

/// How a picture may be moved by a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Motion {
    /// Not at all.
    None,
    /// By up to so many pixels along each axis, with what was lost on one side mirrored: a crop of the picture with such a border.
    Crop(u32),
    /// By up to so many pixels along each axis, with the pixels of the edge repeated.
    Shift(u32),
}

/// The views of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Augment {
    /// Their number `K`, each drawn by itself.
    pub views: NonZeroU32,
    /// How each is moved.
    pub motion: Motion,
    /// Each is mirrored with probability 1/2, left to right.
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
    /// A view by three random words. A move of so many pixels is as likely as any other, but for 2^-32.
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

    /// Fails unless the samples of `split` have such views.
    ///
    /// # Errors
    ///
    /// No input is a picture, a picture is smaller than it is moved, or the labels are pictures too, which would not follow.
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
    /// As the command takes it: `8:crop4,flip`.
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

/// The extents of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PictureShape {
    planes: usize,
    height: usize,
    width: usize,
    /// Numbers of a pixel that lie side by side.
    channels: usize,
}

impl PictureShape {
    /// The picture that a sample of `shape` is; none if it is not a picture.
    pub(crate) fn of(shape: &[usize]) -> Option<Self> {
        let (planes, height, width, channels) = match *shape {
            [height, width] => (1, height, width, 1),
            [height, width, channels @ 1..=4] if height > 4 => (1, height, width, channels),
            [planes, height, width] => (planes, height, width, 1),
            _ => return None,
        };
        (planes > 0 && height > 1 && width > 1).then_some(Self { planes, height, width, channels })
    }

    /// Writes the view of `from` to `to`, both a sample.
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
