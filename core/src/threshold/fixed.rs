//! A constant threshold: `C_t = C`.
//!
//! # Memory
//!
//! None. The state is `()`.

use super::base::Threshold;
use crate::record::{FromRecord, RecordSink, RecordSource, StateVector, ToRecord};

/// Constant threshold.
///
/// ```
/// use damper_core::threshold::{Fixed, Threshold as _};
///
/// assert_eq!((Fixed(0.5).clip(&()), Fixed(0.5).fixed_clip()), (0.5, 0.5));
/// assert!(Fixed(0.5).count_noise().is_none());
/// ```
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

impl ToRecord<()> for Fixed {
    fn kind(&self, _state: &()) -> Option<u8> {
        Some(0)
    }

    fn write(&self, _state: &(), sink: &mut dyn RecordSink) {
        sink.f32(self.0);
    }
}

impl FromRecord for Fixed {
    type State<B: StateVector> = ();

    const KINDS: &'static [u8] = &[0];

    fn read<R: RecordSource>(_kind: u8, source: &mut R) -> Result<(Self, ()), R::Error> {
        Ok((Self(source.f32()), ()))
    }
}
