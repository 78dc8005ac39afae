//! Properties that hold for every method, tested through whole private steps and the public API alone.
//!
//! The table [`table::methods`] has every pair of choices of filter, clip, threshold, optimizer and noise schedule.
//! [`harness::Run`] takes the steps and records the slots' inputs.
//!
//! Software in use has violated these properties. The list gives each violation and the test that detects
//! it here:
//!
//! - The divisor depended on the size of the data set: `laws::extra_record_affects_only_its_own_trial`.
//! - Chunks of a batch were clipped as one sample: `sensitivity::added_sample_moves_sum_by_at_most_clip`,
//!   `reductions::word_workers_and_combiner_keep_bits`.
//! - An empty batch crashed, or skipped its noise or its charge: `laws::an_empty_batch_is_a_step_like_any_other`.
//! - One non-finite sample corrupted the release: `sensitivity::non_finite_sample_changes_no_bit`.
//! - The realised batch was the divisor: `sensitivity::realised_batch_keeps_scale_and_noise`, and for counts
//!   `thresholds`.
//! - The counts of adaptive clipping were not accounted, or wrongly: `sensitivity::joint_sensitivity_is_within_charge`,
//!   `thresholds`.
//! - The noise of the sum was added to the mean, or the reverse: `noise::zero_gradients_release_declared_noise`.
//! - One key was reused, so the noise repeated: `noise::noise_blocks_are_unique`, `noise::every_method_draws_…`.
//! - Floating-point rounding revealed the data set: `sensitivity::releases_are_multiples_of_public_unit`,
//!   `sensitivity::no_method_sees_the_order_…`.
//! - Clipped norms exceeded the clip: `sensitivity::added_sample_moves_sum_by_at_most_clip`,
//!   `sensitivity::wrong_clip_rule_cannot_exceed_clip`.
//! - DiSK's noise was divided by its weights: `noise::filter_settings_never_change_noise`.
//! - DiSK's two gradients were clipped separately: `sensitivity::clipping_each_point_exceeds_clip` and the property it
//!   controls.
//! - DP-PMLF's were too, its weights went to the wrong iterates, and its bias correction was wrong: the same tests,
//!   `laws::per_sample_momentum_uses_last_iterates`, `laws::constant_gradient_passes_every_filter`.
//! - An adaptive clip moved in the wrong direction: `quantile_converges_from_both_sides` of `thresholds`.
//! - Values were output without noise, or raw gradients reached the optimizer: the examples of `private` and `step`
//!   that do not compile.
//! - Noise was added twice, or by a formula for small ε: `noise::zero_gradients_release_declared_noise`, and
//!   `unsampled_step_is_above_exact_epsilon` of `accounting`.
//! - Steps were counted wrongly: `budget::charges_events_and_releases_match_steps`.
//! - A sample occurred twice in one batch: `laws::extra_record_affects_only_its_own_trial`, as a batch has each sample
//!   at most once.
//! - A restart reused noise or lost a charge: `budget::power_loss_keeps_charges_and_fresh_noise`,
//!   `budget::spent_divergence_survives_power_loss`.
//!
//! Statistical tests have fixed seeds, and state the probability that a correct implementation fails.
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
