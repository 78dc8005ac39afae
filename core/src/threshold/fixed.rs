//! A constant threshold: `C_t = C`.
//!
//! # Memory
//!
//! None; the state is `()`.

use super::Threshold;

/// The constant threshold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fixed(pub f32);

impl Threshold for Fixed {
    type State = ();
    type Counts = [i32; 0];

    fn clip(&self, (): &()) -> f32 {
        self.0
    }
}
