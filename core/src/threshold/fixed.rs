//! A constant threshold: `C_t = C`.
//!
//! # Memory
//!
//! None; the state is `()`.

use super::base::Threshold;
use super::described::CLIP;
use crate::described::{Described, Description, Values, Vector};

/// The constant threshold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fixed(pub f32);

impl Threshold for Fixed {
    type State = ();
    type Counts = [i32; 0];

    fn clip(&self, (): &()) -> f32 {
        self.0
    }

    fn fixed_clip(&self) -> f32 {
        self.0
    }
}

impl Described for Fixed {
    type State<B: Vector> = ();

    const DESCRIPTION: Description =
        Description { words: "fixed", ..Description::new(&[CLIP], &[("fixed", &[1.0])], &[0]) };

    fn build<V: Values>(values: &mut V) -> Result<(Self, ()), V::Error> {
        Ok((Self(values.f32()), ()))
    }
}
