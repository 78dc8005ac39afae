//! Laws that hold for every method, through whole private steps and the public door alone.
//!
//! A table of [`table::methods`] holds every choice of filter, clip, threshold, optimizer and noise schedule with every
//! other, pair by pair; [`harness::Run`] takes its steps and keeps what the slots were given.
//!
//! The laws were broken before, in software that is in use. Where each breach would be seen:
//!
//! | what went wrong elsewhere | what would see it here |
//! | --- | --- |
//! | the divisor depended on the size of the data set | `laws::extra_record_affects_only_its_own_trial` |
//! | chunks of a batch were clipped as one | `sensitivity::added_sample_moves_sum_by_at_most_clip`, `reductions::word_workers_and_combiner_keep_bits` |
//! | an empty batch crashed, or skipped its noise or its charge | `laws::an_empty_batch_is_a_step_like_any_other` |
//! | one sample that is not finite spoilt the release | `sensitivity::non_finite_sample_changes_no_bit` |
//! | the realised batch was the divisor | `sensitivity::realised_batch_keeps_scale_and_noise`; for counts, `thresholds` |
//! | the counts of adaptive clipping were not priced, or wrongly | `sensitivity::joint_sensitivity_is_within_charge`; `thresholds` |
//! | noise for the sum on the mean, or the reverse | `noise::zero_gradients_release_declared_noise` |
//! | one key, so the same noise again | `noise::noise_blocks_are_unique`, `noise::every_method_draws_…` |
//! | floating point told data sets apart | `sensitivity::releases_are_multiples_of_public_unit`, `sensitivity::no_method_sees_the_order_…` |
//! | clipping overshot | `sensitivity::added_sample_moves_sum_by_at_most_clip`, `sensitivity::wrong_clip_rule_cannot_exceed_clip` |
//! | DiSK's noise was divided by its weights | `noise::filter_settings_never_change_noise` |
//! | DiSK's two gradients were clipped apart | `sensitivity::clipping_each_point_exceeds_clip` and the law it controls |
//! | DP-PMLF's too; its weights went to the wrong iterates, its bias correction was off | the same; `laws::per_sample_momentum_uses_last_iterates`, `laws::constant_gradient_passes_every_filter` |
//! | an adaptive clip moved the wrong way | `thresholds`: `quantile_converges_from_both_sides` |
//! | values left without noise, raw gradients reached the optimizer | examples that do not compile: `private`, `step` |
//! | noise added twice, or by a formula for small ε | `noise::zero_gradients_release_declared_noise`; `accounting`: `unsampled_step_is_above_exact_epsilon` |
//! | steps were counted wrongly | `budget::charges_events_and_releases_match_steps` |
//! | a sample came twice in one step's draws | `laws::extra_record_affects_only_its_own_trial`: a draw has each at most once |
//! | a restart used noise again or forgot a charge | `budget::power_loss_keeps_charges_and_fresh_noise`, `budget::spent_divergence_survives_power_loss` |
//!
//! Where a law is statistical its seeds are fixed, and its test says how likely a right implementation would be to fail
//! it.
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
