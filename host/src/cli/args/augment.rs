//! `--augment K:crop4,flip`.

use crate::cli::args::text::FromText;
use damper_data::{Augment, Motion};
use std::num::NonZeroU32;

/// Maximum number of views. More are probably a typing error.
const MOST: u32 = 1024;

fn augment(text: &str) -> Result<Augment, String> {
    let form = "give K:VIEW, as 8:crop4,flip; a VIEW has cropPIXELS or shiftPIXELS, or flip, or both";
    let (views, rest) = text.split_once(':').ok_or(form)?;
    let views = views.trim().parse::<NonZeroU32>().ok().filter(|views| views.get() <= MOST);
    let views = views.ok_or_else(|| format!("the number of views is from 1 to {MOST}"))?;
    let mut found = Augment { views, motion: Motion::None, flip: false };
    for part in rest.split(',').map(str::trim) {
        let pixels = |digits: &str| digits.parse().ok().filter(|pixels| (1..=1024).contains(pixels)).ok_or(form);
        let motion = if let Some(digits) = part.strip_prefix("crop") {
            Motion::Crop(pixels(digits)?)
        } else if let Some(digits) = part.strip_prefix("shift") {
            Motion::Shift(pixels(digits)?)
        } else if part == "flip" && !found.flip {
            found.flip = true;
            continue;
        } else {
            return Err(form.into());
        };
        if found.motion != Motion::None {
            return Err("a view is moved once: by cropPIXELS or by shiftPIXELS".into());
        }
        found.motion = motion;
    }
    Ok(found)
}

impl FromText for Augment {
    fn from_text(text: &str) -> Result<Self, String> {
        augment(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn augment_is_read_as_it_is_written() {
        for text in ["1:flip", "8:crop4", "16:shift2,flip"] {
            assert_eq!(augment(text).unwrap().to_string(), text);
        }
        assert_eq!(augment(" 8 : flip , crop4 ").unwrap().to_string(), "8:crop4,flip");
        for wrong in [
            "8",
            "0:flip",
            "8:",
            "8:crop",
            "8:crop0",
            "8:flip,flip",
            "8:turn",
            "-1:flip",
            "8:crop4,shift4",
            "2000:flip",
        ] {
            assert!(augment(wrong).is_err(), "{wrong}");
        }
    }
}
