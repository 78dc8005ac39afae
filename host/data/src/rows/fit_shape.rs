//! The rule for samples that fit a model input.
//!
//! Axes of extent 1 are ignored, so `[H, W]` fits `[1, H, W]`. If either the file or the model has a single other axis,
//! they fit by the number of values, in row-major order. This covers rows of tables and flat inputs. All other samples
//! must have the input's shape. Values do not move to other axes, except with [`ChannelLayout::Nhwc`], which moves the
//! last axis, the channels, to the front.

use crate::ChannelLayout;

/// The change that samples need: none, or moving their last axis of this extent to the front.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fit {
    AsIs,
    ChannelsFirst(usize),
}

/// Fits samples of shape `own` to `wanted`, or returns the fix.
pub(crate) fn fit(own: &[usize], wanted: &[usize], layout: ChannelLayout) -> Result<Fit, &'static str> {
    let same_count = own.iter().product::<usize>() == wanted.iter().product::<usize>();
    match layout {
        ChannelLayout::Nchw if fills(own, wanted) => Ok(Fit::AsIs),
        ChannelLayout::Nchw if own.len() > 2 && same(&channels_first(own), wanted) => {
            Err("its channels are on the last axis; give `layout` nhwc, which moves them to the front")
        }
        ChannelLayout::Nhwc if own.len() > 2 && fills(&channels_first(own), wanted) => {
            Ok(Fit::ChannelsFirst(own[own.len() - 1]))
        }
        // For a table of pixels, the model determines the number of channels.
        ChannelLayout::Nhwc if squeezed(own).len() < 2 && wanted.len() > 2 && same_count => {
            Ok(Fit::ChannelsFirst(wanted[0]))
        }
        // Images without channels.
        ChannelLayout::Nhwc if own.len() <= 2 && fills(own, wanted) => Ok(Fit::AsIs),
        ChannelLayout::Nhwc if fills(own, wanted) => Err("its channels are on the first axis; leave out `layout` nhwc"),
        _ if same_count => Err("transpose the array, or export the model for this shape"),
        _ => Err("use other data, or export the model for this shape"),
    }
}

/// Moves the last axis to the front of each row of `row` values.
pub(crate) fn to_front<T: Copy>(values: &[T], row: usize, channels: usize) -> Vec<T> {
    let pixels = row / channels.max(1);
    let mut out = Vec::with_capacity(values.len());
    for row in values.chunks_exact(row.max(1)) {
        for channel in 0..channels {
            out.extend((0..pixels).map(|pixel| row[pixel * channels + channel]));
        }
    }
    out
}

fn channels_first(own: &[usize]) -> Vec<usize> {
    let mut shape = own.to_vec();
    shape.rotate_right(1);
    shape
}

fn squeezed(shape: &[usize]) -> Vec<usize> {
    shape.iter().copied().filter(|extent| *extent != 1).collect()
}

fn same(own: &[usize], wanted: &[usize]) -> bool {
    squeezed(own) == squeezed(wanted)
}

fn fills(own: &[usize], wanted: &[usize]) -> bool {
    let (own, wanted) = (squeezed(own), squeezed(wanted));
    let by_count = own.len() < 2 || wanted.len() < 2;
    own == wanted || by_count && own.iter().product::<usize>() == wanted.iter().product::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_compared_not_counts() {
        let nchw = |own: &[usize], wanted: &[usize]| fit(own, wanted, ChannelLayout::Nchw);
        let nhwc = |own: &[usize], wanted: &[usize]| fit(own, wanted, ChannelLayout::Nhwc);
        for (own, wanted) in [
            (&[3, 32, 32][..], &[3, 32, 32][..]),
            (&[28, 28], &[1, 28, 28]),
            (&[28, 28, 1], &[1, 28, 28]),
            (&[784], &[1, 28, 28]),
            (&[28, 28], &[784]),
            (&[3072], &[3, 32, 32]),
            (&[], &[1]),
            (&[5, 7], &[5, 7]),
        ] {
            assert_eq!(nchw(own, wanted), Ok(Fit::AsIs), "{own:?} {wanted:?}");
        }
        assert!(nchw(&[32, 32, 3], &[3, 32, 32]).unwrap_err().contains("`layout` nhwc"));
        for (own, wanted) in [(&[7, 5][..], &[5, 7][..]), (&[32, 3, 32], &[3, 32, 32]), (&[16, 64, 3], &[3, 32, 32])] {
            assert!(nchw(own, wanted).unwrap_err().starts_with("transpose"), "{own:?}");
        }
        assert!(nchw(&[10], &[11]).unwrap_err().starts_with("use other data"));
        assert_eq!(nhwc(&[32, 32, 3], &[3, 32, 32]), Ok(Fit::ChannelsFirst(3)));
        assert_eq!(nhwc(&[32, 32, 3], &[3072]), Ok(Fit::ChannelsFirst(3)));
        assert_eq!(nhwc(&[3072], &[3, 32, 32]), Ok(Fit::ChannelsFirst(3)));
        assert_eq!(nhwc(&[28, 28], &[1, 28, 28]), Ok(Fit::AsIs));
        assert!(nhwc(&[3, 32, 32], &[3, 32, 32]).unwrap_err().contains("leave out `layout`"));
        assert!(nhwc(&[16, 64, 3], &[3, 32, 32]).unwrap_err().starts_with("transpose"));
    }

    #[test]
    fn channels_move_to_the_front() {
        // Two rows of 2 pixels with 3 channels.
        let values = [0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111, 112];
        assert_eq!(to_front(&values, 6, 3), [0, 10, 1, 11, 2, 12, 100, 110, 101, 111, 102, 112]);
    }
}
