//! Laws that hold for every method, through whole private steps and the public door alone.
//!
//! A table of [`table::methods`] holds every choice of filter, clip, threshold, optimizer and noise schedule with every other,
//! pair by pair; [`harness::Run`] takes its steps and keeps what the slots were given.
//!
//! The laws were broken before, in software that is in use. Where each breach would be seen:
//!
//! | what went wrong elsewhere | what would see it here |
//! | --- | --- |
//! | the divisor depended on the size of the data set | `laws::the_number_of_records_reaches_nothing_but_its_own_draw` |
//! | chunks of a batch were clipped as one | `sensitivity::one_sample_added_…`, `reductions::neither_words_nor_workers_…` |
//! | an empty batch crashed, or skipped its noise or its charge | `laws::an_empty_batch_is_a_step_like_any_other` |
//! | one sample that is not finite spoilt the release | `sensitivity::a_sample_that_is_not_finite_…` |
//! | the realised batch was the divisor | `sensitivity::the_realised_batch_…`; for counts, `thresholds` |
//! | the counts of adaptive clipping were not priced, or wrongly | `sensitivity::one_sample_moves_gradient_and_counts_…`; `thresholds` |
//! | noise for the sum on the mean, or the reverse | `noise::on_zero_gradients_…` |
//! | one key, so the same noise again | `noise::no_block_of_noise_…`, `noise::every_method_draws_…` |
//! | floating point told data sets apart | `sensitivity::whatever_the_data_…`, `sensitivity::no_method_sees_the_order_…` |
//! | clipping overshot | `sensitivity::one_sample_added_…`, `sensitivity::no_rule_of_clipping_…` |
//! | DiSK's noise was divided by its weights | `noise::no_setting_of_a_filter_…` |
//! | DiSK's two gradients were clipped apart | `sensitivity::clipping_each_point_on_its_own_…` and the law it controls |
//! | DP-PMLF's too; its weights went to the wrong iterates, its bias correction was off | the same; `laws::per_sample_momentum_looks_…`, `laws::a_constant_gradient_…` |
//! | an adaptive clip moved the wrong way | `thresholds`: `the_quantile_is_reached_from_both_sides_and_held` |
//! | values left without noise, raw gradients reached the optimizer | examples that do not compile: `private`, `step` |
//! | noise added twice, or by a formula for small ε | `noise::on_zero_gradients_…`; `accounting`: `one_unsampled_release_…` |
//! | steps were counted wrongly | `budget::payments_events_and_draws_…` |
//! | a sample came twice in one step's draws | `laws::the_number_of_records_…`: a draw has each at most once |
//! | a restart used noise again or forgot a charge | `budget::over_power_cuts_…` |
//!
//! Where a law is statistical its seeds are fixed, and its test says how likely a right implementation would be to fail it.
#![allow(clippy::disallowed_methods)] // References are plain arithmetic.

mod budget;
mod erased;
mod harness;
mod laws;
mod method;
mod noise;
mod reductions;
mod sensitivity;
mod table;
