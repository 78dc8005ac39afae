//! The slots of the step that are filled by name.

use super::rule::{Choice, Slot};
use damper_core::clip::CLIPS;
use damper_core::described::Description;
use damper_core::filter::FILTERS;
use damper_core::optimizer::OPTIMIZERS;
use damper_core::schedule::{DECAYS, NOISES};
use damper_core::threshold::THRESHOLDS;

macro_rules! slots {
    ($($slot:ident, $choice:ident: $setting:literal, $methods:ident, $doc:literal;)+) => {
        $(
            #[doc = concat!("The slot of `", $setting, "`.")]
            #[derive(Clone, Copy, PartialEq, Debug)]
            pub struct $slot;

            impl Slot for $slot {
                const SETTING: &'static str = $setting;
                const METHODS: &'static [Description] = $methods;
            }

            #[doc = $doc]
            pub type $choice = Choice<$slot>;
        )+

        /// Every method.
        pub(crate) fn methods() -> impl Iterator<Item = &'static Description> {
            [$($methods),+].into_iter().flatten()
        }
    };
}

slots! {
    Optimizers, Rule: "optimizer", OPTIMIZERS, "How parameters follow: an optimizer and its settings.";
    Filters, FilterChoice: "filter", FILTERS, "What is done to gradients before the optimizer.";
    Thresholds, ThresholdChoice: "clip_rule", THRESHOLDS, "Which clip each step uses.";
    Clips, Clipping: "clipping", CLIPS, "What one sample may add.";
    Decays, DecayChoice: "decay", DECAYS, "How a learning rate falls.";
    Noises, NoiseChoice: "noise_schedule", NOISES, "The noise of each step beside the first's.";
}
