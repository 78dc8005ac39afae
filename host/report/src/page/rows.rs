//! Rows of a page's tables: names and values. A row without a value is not shown.

use super::frame;
use crate::record::{HeldOutRecord, LoraReport, NormalizeReport, OptimizerReport, TestFigures, TrainReport};
use crate::statement::Statement;
use damper_accounting::{Sampler, upward};
use damper_train::LastIterate;
use serde_json::Value;

pub(super) type Rows = Vec<(&'static str, String)>;

/// Returns the rows of the mechanism, then those of the method.
pub(super) fn mechanism(statement: &Statement) -> Rows {
    let mut rows = noise(statement);
    rows.extend(method(&statement.record));
    rows
}

fn noise(statement: &Statement) -> Rows {
    let (record, mechanism, method) = (&statement.record, &statement.record.mechanism, &statement.record.method);
    let grid = match (mechanism.sigma_grid, mechanism.grid_bits) {
        (Some(sigma), Some(bits)) => format!("{sigma} grid units of clip / 2^{bits}, an integer"),
        _ => String::new(),
    };
    vec![
            ("mechanism", mechanism.name.to_string()),
            (
                "noise multiplier, all releases of an event",
                format!("{} (the smallest of {})", statement.noise_multiplier, statement.event),
            ),
            ("noise multiplier of the gradient", mechanism.gradient_multiplier.to_string()),
            ("sigma", grid),
            (
                "correlated noise",
                mechanism.correlation.as_ref().map_or(String::new(), |correlation| {
                    format!(
                        "{}: sensitivity {:.6} clips, {:.3} % of the noise for rounding; a sample in at most {} steps, at least {} apart",
                        correlation.noise_correlation,
                        correlation.sensitivity,
                        100.0 * correlation.rounding_share,
                        grouped(correlation.participations.into()),
                        grouped(correlation.separation.into())
                    )
                }),
            ),
            (
                "noise on each released count",
                mechanism.count_noise_multiplier.map_or(String::new(), |noise| noise.to_string()),
            ),
            ("clip", format!("{} in the Euclidean norm over all trained parameters", mechanism.clip)),
            ("rule of clipping", method.clipping.clone()),
            ("rule of the threshold", method.threshold.clone()),
            (
                "threshold, first and last",
                if method.clip_first == method.clip_last {
                    String::new()
                } else {
                    format!("{} and {}", method.clip_first, method.clip_last)
                },
            ),
            ("sensitivity", method.sensitivity.clone()),
            (
                "release before the steps",
                record.normalize.as_ref().map_or(String::new(), |NormalizeReport { noise_multiplier, epsilon, bounds, .. }| {
                    format!(
                        "means and deviations of the features, σ {noise_multiplier} times the largest norm that a sample adds within the \
                         bounds {bounds}; ε {} alone, part of the run's",
                        upward(*epsilon)
                    )
                }),
            ),
            (
                "count before the steps",
                record.non_finite.as_ref().map_or(String::new(), |count| format!("{count}").replace("epsilon", "ε")),
            ),
            ("divisor of the noisy sum", format!("{}, a constant", mechanism.expected_batch)),
            ("noise over the run", method.noise_schedule.clone()),
    ]
}

fn method(record: &TrainReport) -> Rows {
    let method = &record.method;
    vec![
        ("method", method.name.clone()),
        ("filter of released gradients", method.filter.clone()),
        ("gradients of a sample at a step", method.gradients_per_sample.to_string()),
        ("random views of each sample", record.training.augment.clone().unwrap_or_default()),
        ("optimizer", optimizer(&record.training.optimizer)),
        ("learning rate", method.learning_rate.clone()),
        ("low-rank adapters", record.training.lora.as_ref().map_or(String::new(), lora)),
        (
            "loss",
            [
                Some(&*record.training.loss),
                record.training.reduction.as_deref(),
                record.training.label_weights.as_deref(),
                record.training.label_scale.as_ref().map(|scale| format!("labels scaled by {scale}")).as_deref(),
            ]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", "),
        ),
    ]
}

pub(super) fn lora(lora: &LoraReport) -> String {
    let place = if lora.merged { "merged into" } else { "beside" };
    format!("rank {}, alpha {}, {place} {}", lora.rank, lora.alpha, lora.weights.join(", "))
}

pub(super) fn optimizer(OptimizerReport { name, settings }: &OptimizerReport) -> String {
    let settings = settings.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| match value {
        Value::String(text) => format!(", {} {text}", key.replace('_', " ")),
        value => format!(", {} {value}", key.replace('_', " ")),
    });
    name.clone() + &settings.collect::<String>()
}

pub(super) fn sampling(statement: &Statement) -> Rows {
    let privacy = &statement.record.privacy;
    let events = match privacy.sampler {
        Sampler::Poisson => {
            format!("{} draws, each composed as one event with all that it releases", grouped(statement.steps))
        }
        Sampler::CyclicPoisson => {
            format!(
                "{} events, each a draw of every group; {} steps",
                grouped(privacy.events),
                grouped(statement.steps)
            )
        }
        Sampler::MinSeparation if statement.record.mechanism.correlation.is_some() => {
            format!("the whole run, composed as one event at a rate of 1; {} steps", grouped(statement.steps))
        }
        Sampler::Shuffled | Sampler::MinSeparation => {
            format!(
                "{} epochs, each composed as one event at a rate of 1; {} steps",
                grouped(privacy.events),
                grouped(statement.steps)
            )
        }
    };
    vec![
        ("sampler", privacy.sampling.to_string()),
        ("sampling rate", format!("{} = {}, exactly", privacy.sampling_rate_exact, statement.sampling_rate)),
        (
            "samples",
            format!(
                "{}{}",
                grouped(privacy.public_samples()),
                if privacy.declared_samples.is_some() { ", declared, not counted" } else { "" }
            ),
        ),
        ("releases", events),
        (
            "truncated draws",
            privacy.truncation.map_or(String::new(), |cut| {
                format!("at {} of {} samples; δ includes the cost", cut.most, cut.samples)
            }),
        ),
        ("accountant", format!("{}: {}", statement.accountant, privacy.accountant_note)),
        ("order of the Renyi divergence", privacy.order.map_or(String::new(), |order| order.to_string())),
        ("delta", privacy.delta_note.clone()),
        ("other runs", privacy.composition.to_string()),
    ]
}

pub(super) fn ran(record: &TrainReport) -> Rows {
    let versions = &record.versions;
    vec![
        ("path", format!("{}: {}", record.privacy.path, record.privacy.path_note)),
        ("backend", versions.of_backend(&record.execution.backend)),
        ("nodes on the processor", host_nodes(record)),
        ("a sample's gradient is its own", versions.sample_independence.to_string()),
        ("generator", record.mechanism.generator.to_string()),
        ("damper", format!("{}, bits contract {}", versions.damper, versions.bits_contract)),
        (
            "machine",
            format!(
                "{}, {} threads, physical batch of {} rows",
                versions.platform, record.training.workers, record.training.physical_batch
            ),
        ),
        ("parameters, SHA-256", record.execution.params_digest.clone()),
        (
            "recording",
            record.recording.as_ref().map_or(String::new(), |recording| {
                format!("made; ends with parameters {}; {}", recording.params, recording.secrecy)
            }),
        ),
    ]
}

/// Formats the nodes that a device left to the processor.
fn host_nodes(record: &TrainReport) -> String {
    record.execution.host_nodes.as_ref().map_or(String::new(), |nodes| match &nodes[..] {
        [] => "none".into(),
        nodes => format!("{}: {}", nodes.len(), nodes.join(", ")),
    })
}

/// Returns the figures on the held-out samples, and facts about the samples.
pub(super) fn held_out(held_out: &HeldOutRecord, test: &TestFigures) -> Rows {
    vec![
            ("accuracy", test.accuracy.map_or(String::new(), |accuracy| format!("{:.2} %", 100.0 * accuracy))),
            ("loss", test.loss.map_or(String::new(), |loss| format!("{loss:.4}"))),
            ("perplexity", test.perplexity.map_or(String::new(), |perplexity| format!("{perplexity:.2}"))),
            ("R²", test.r_squared.map_or(String::new(), |r_squared| format!("{r_squared:.4}"))),
            (
                "without averaging",
                held_out.last_iterate.map_or(String::new(), |LastIterate { loss, accuracy }| {
                    let accuracy = accuracy.map_or(String::new(), |accuracy| format!("{:.2} %, ", 100.0 * accuracy));
                    format!("{accuracy}loss {loss:.4}: the last parameters, which are not written")
                }),
            ),
            ("held-out samples", format!("{}, averaged over {}", grouped(held_out.samples as u64), held_out.counted)),
            ("their secrecy", held_out.public.to_string()),
            (
                "noise",
                held_out.noise.as_ref().map_or(String::new(), |noise| {
                    format!(
                        "{} samples on the right answers and on the sum of losses over {}; {} evaluations cost an ε of at most {}",
                        noise.noise_multiplier,
                        noise.loss_bound,
                        noise.evaluations,
                        upward(noise.epsilon)
                    )
                }),
            ),
    ]
}

/// Formats an integer with thin spaces between thousands, from five digits on.
pub(super) fn grouped(number: u64) -> String {
    if number < 10_000 { number.to_string() } else { frame::grouped(number, '\u{202f}') }
}
