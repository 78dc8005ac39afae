//! A single type for any filter, which stores its configuration with its state.

use damper_core::slots::{AnyDigested, AnyFilter, AnyToRecord};
use damper_core::state::{SaveState, StateField};

/// A filter with its state.
pub type FilterState = Box<dyn StatefulFilter>;

/// A filter that is stored with its state.
pub trait StatefulFilter: AnyFilter + SaveState + AnyDigested + AnyToRecord {}

impl<T: AnyFilter + SaveState + AnyDigested + AnyToRecord> StatefulFilter for T {}

impl SaveState for FilterState {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        (**self).each(take);
    }
}
