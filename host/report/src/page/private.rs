//! `report.html`: one page for whoever must judge the claim. It loads nothing, and runs nothing.

use super::audit::Figure;
use super::guideline::{SECTIONS, capital};
use super::plot::{Plot, Scale};
use super::{Audit, HeldOut, LoraReport, NormalizeReport, OptimizerReport, Statement, by_class};
use crate::page;
use damper_accounting::{Sampler, upward};
use damper_audit::CANARY;
use damper_train::LastIterate;
use serde_json::Value;
use std::fmt::Write;

pub(super) const STYLE: &str = include_str!("report.css");

/// Text for the page: nothing in it is markup, moves what stands beside it, or is no letter at all.
pub(super) fn escape(text: &str) -> String {
    let plain = |c: char| match c {
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => ' ',
        c => c,
    };
    page::escape(&text.chars().map(plain).collect::<String>())
}

/// The page.
pub fn html(statement: &Statement) -> String {
    let title = if statement.guaranteed {
        format!("Privacy report: ε {} at δ {:e}", upward(statement.epsilon), statement.delta)
    } else {
        "Privacy report: no guarantee".to_owned()
    };
    let record = &statement.record;
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"/>\n<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>Privacy report</h1>\n<p class=\"soft\">{} training of {} numbers by {}, \
         on {} samples</p>\n",
        match &*record.run {
            "private" => "Private",
            "simulation" => "Simulated",
            _ => "Marked",
        },
        grouped(record.training.parameters as u64),
        escape(&record.training.method),
        grouped(record.privacy.public_samples()),
    );
    verdict(&mut out, statement);
    out.push_str("</header>\n<nav aria-label=\"Parts of this page\">\n<ul>");
    for (anchor, name) in SECTIONS {
        let _ = write!(out, "<li><a href=\"#{anchor}\">{name}</a></li>");
    }
    out.push_str("</ul>\n</nav>\n<main>\n");
    let parts: [fn(&mut String, &Statement); SECTIONS.len()] =
        [guarantee, curves, mechanism, sampling, ran, released, accuracy, audits, guideline];
    for ((anchor, name), part) in SECTIONS.into_iter().zip(parts) {
        let _ = writeln!(
            out,
            "<section id=\"{anchor}\" aria-labelledby=\"{anchor}-h\">\n<h2 id=\"{anchor}-h\">{name}</h2>"
        );
        part(&mut out, statement);
        out.push_str("</section>\n");
    }
    let _ = write!(
        out,
        "</main>\n<footer class=\"soft small\">\n<p>Written by damper {}. What every field means: docs/report.md. To check this page \
         without trusting who wrote it, take <code>events.json</code> and run <code>damper epsilon DIR</code>, or <code>damper report \
         DIR</code> for the whole of it.</p>\n</footer>\n</body>\n</html>\n",
        statement.damper
    );
    out
}

/// The verdict, which must be seen first.
fn verdict(out: &mut String, statement: &Statement) {
    if !statement.agrees {
        out.push_str("<div class=\"verdict bad\" role=\"alert\">\n<p><strong>Do not rely on this claim: the record and its recomputation disagree.</strong></p>\n<ul>\n");
        for difference in &statement.differences {
            let _ = writeln!(
                out,
                "<li>{} claims {} <code>{}</code>; it is <code>{}</code></li>",
                difference.file,
                difference.of,
                escape(&difference.claimed),
                escape(&difference.found)
            );
        }
        out.push_str(
            "</ul>\n<p>One of the files was changed, or they are of two runs. Ask for those that damper wrote.</p>\n</div>\n",
        );
    }
    for audit in statement.audits.iter().filter(|audit| !audit.passed) {
        let _ = writeln!(
            out,
            "<div class=\"verdict bad\" role=\"alert\">\n<p><strong>An audit failed.</strong> {}: {}</p>\n</div>",
            audit.file,
            escape(&audit.verdict)
        );
    }
    let notice = match &*statement.record.run {
        _ if !statement.agrees || statement.audits.iter().any(|audit| !audit.passed) => return,
        _ if statement.marked => {
            Some("No result: model.onnx was trained to audit its training, with made-up samples among the data.")
        }
        "simulation" => Some("A simulation: its seed is known, and nothing of it is private."),
        "private" if !statement.record.privacy.is_exact() => {
            Some("Not the exact path: sums and noise were floats. ε is that of the ideal mechanism.")
        }
        "private" => None,
        _ => Some("Marked: this folder is not offered as a result."),
    };
    let _ = match notice {
        Some(notice) => writeln!(out, "<div class=\"verdict warn\">\n<p><strong>{notice}</strong></p>\n</div>"),
        None => writeln!(
            out,
            "<div class=\"verdict\">\n<p><strong>Computed again, and the same.</strong> ε follows from the {} recorded steps of \
             events.json alone, and is what the run claims.</p>\n</div>",
            grouped(statement.steps)
        ),
    };
}

fn guarantee(out: &mut String, statement: &Statement) {
    let record = &statement.record;
    let claimed = if statement.agrees {
        String::new()
    } else {
        format!("<small>claimed: <span class=\"struck\">{}</span></small>", upward(record.epsilon))
    };
    let _ = writeln!(
        out,
        "<dl class=\"figures\">\n<div><dt>{}</dt><dd>{}{claimed}</dd></div>\n<div><dt>δ</dt><dd>{:e}</dd></div>\n<div><dt>\
         a guess at one sample</dt><dd>{} %<small>of true alarms at most, at 1 % of false ones</small></dd></div>\n<div><dt>one sample \
         replaced by another</dt><dd>{}<small>ε of those neighbours at most, same δ</small></dd></div>\n</dl>\n<p \
         class=\"sentence\">{}</p>\n<p><strong>A sample</strong> is {}.</p>\n<h3>What it rests on</h3>\n<ul class=\"plain\">",
        if statement.guaranteed { "ε, at most" } else { "ε by events.json, not guaranteed" },
        upward(statement.epsilon),
        statement.delta,
        rounded_up(100.0 * statement.max_true_positive_rate),
        statement.epsilon_of_replaced.map_or("none".into(), upward),
        escape(&statement.guarantee),
        escape(&statement.sample),
    );
    for assumption in &statement.assumptions {
        let _ = writeln!(out, "<li>{}</li>", escape(assumption));
    }
    out.push_str("</ul>\n");
    if !record.warnings.is_empty() {
        out.push_str("<h3>What the run warned about</h3>\n<ul class=\"plain\">\n");
        for warning in &record.warnings {
            let _ = writeln!(out, "<li>{}</li>", escape(warning));
        }
        out.push_str("</ul>\n");
    }
}

fn curves(out: &mut String, statement: &Statement) {
    let curves = &statement.curves;
    let steps: Vec<(f64, f64)> = curves.over_steps.iter().map(|at| (at.steps as f64, at.epsilon)).collect();
    let delta: Vec<(f64, f64)> = curves.over_delta.iter().map(|at| (at.delta, at.epsilon)).collect();
    out.push_str("<div class=\"pair\">\n");
    let over_steps = Plot {
        id: "steps",
        title: "Epsilon of the first steps of the run, at the claimed delta",
        across: "steps",
        up: "ε, at most",
        scale: Scale::Even,
        points: &steps,
        mark: steps.last().copied(),
    };
    let over_delta = Plot {
        id: "delta",
        title: "Epsilon of the whole run at other values of delta",
        across: "δ",
        up: "ε, at most",
        scale: Scale::Powers,
        points: &delta,
        mark: Some((statement.delta, statement.epsilon)).filter(|_| delta.iter().any(|at| at.0 == statement.delta)),
    };
    for (plot, caption, head, rows) in [
        (
            over_steps,
            format!("What was spent on a training sample as the run went on, at δ {:e}.", statement.delta),
            "steps",
            curves.over_steps.iter().map(|at| (grouped(at.steps), at.epsilon)).collect::<Vec<_>>(),
        ),
        (
            over_delta,
            "The same run, said with other values of δ; the mark is the claim.".to_owned(),
            "δ",
            curves.over_delta.iter().map(|at| (format!("{:e}", at.delta), at.epsilon)).collect(),
        ),
    ] {
        let _ = write!(
            out,
            "<figure>\n{}<figcaption>{caption}</figcaption>\n<details>\n<summary>As a table</summary>\n<table>\n<thead><tr><th \
             scope=\"col\">{head}</th><th scope=\"col\" class=\"number\">ε</th></tr></thead>\n<tbody>\n",
            plot.svg()
        );
        for (at, epsilon) in rows {
            let _ = writeln!(out, "<tr><th scope=\"row\">{at}</th><td class=\"number\">{}</td></tr>", upward(epsilon));
        }
        out.push_str("</tbody>\n</table>\n</details>\n</figure>\n");
    }
    out.push_str("</div>\n");
}

/// A table of two columns.
pub(super) fn table(out: &mut String, rows: &[(&str, String)]) {
    out.push_str("<table>\n<tbody class=\"stack\">\n");
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(out, "<tr><th scope=\"row\">{name}</th><td>{}</td></tr>", escape(value));
    }
    out.push_str("</tbody>\n</table>\n");
}

fn mechanism(out: &mut String, statement: &Statement) {
    let (record, mechanism, method) = (&statement.record, &statement.record.mechanism, &statement.record.method);
    let grid = match (mechanism.sigma_grid, mechanism.grid_bits) {
        (Some(sigma), Some(bits)) => format!("{sigma} grid units of clip / 2^{bits}, an integer"),
        _ => String::new(),
    };
    table(
        out,
        &[
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
        ],
    );
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

fn sampling(out: &mut String, statement: &Statement) {
    let privacy = &statement.record.privacy;
    let events = match privacy.sampler {
        Sampler::Poisson => {
            format!("{} draws, each priced as one event with everything released from it", grouped(statement.steps))
        }
        Sampler::CyclicPoisson => {
            format!(
                "{} events, each a draw of every group; {} steps",
                grouped(privacy.events),
                grouped(statement.steps)
            )
        }
        Sampler::MinSeparation if statement.record.mechanism.correlation.is_some() => {
            format!("the whole run, priced as one event at a rate of 1; {} steps", grouped(statement.steps))
        }
        Sampler::Shuffled | Sampler::MinSeparation => {
            format!(
                "{} epochs, each priced as one event at a rate of 1; {} steps",
                grouped(privacy.events),
                grouped(statement.steps)
            )
        }
    };
    table(
        out,
        &[
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
                "draws cut",
                privacy.truncation.map_or(String::new(), |cut| {
                    format!("at {} of {} samples; paid for out of delta", cut.most, cut.samples)
                }),
            ),
            ("accountant", format!("{}: {}", statement.accountant, privacy.accountant_note)),
            ("order of the Renyi divergence", privacy.order.map_or(String::new(), |order| order.to_string())),
            ("delta", privacy.delta_note.clone()),
            ("other runs", privacy.composition.to_string()),
        ],
    );
}

fn ran(out: &mut String, statement: &Statement) {
    let record = &statement.record;
    let versions = &record.versions;
    table(
        out,
        &[
            ("path", format!("{}: {}", record.privacy.path, record.privacy.path_note)),
            ("backend", versions.of_backend(&record.backend)),
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
            ("parameters, SHA-256", record.params_digest.clone()),
            (
                "recording",
                record.recording.as_ref().map_or(String::new(), |recording| {
                    format!("made; ends with parameters {}; {}", recording.params, recording.secrecy)
                }),
            ),
        ],
    );
}

fn released(out: &mut String, statement: &Statement) {
    let privacy = &statement.record.privacy;
    let _ = writeln!(
        out,
        "<p><strong>Covered by epsilon:</strong> {}. Released is {}.</p>\n<p><strong>Not covered:</strong> {}.</p>\n\
         <table>\n<thead class=\"stack\"><tr><th scope=\"col\">file</th><th scope=\"col\">SHA-256</th></tr></thead>\n<tbody class=\"stack\">",
        escape(&privacy.covered),
        escape(&privacy.released_model),
        escape(&privacy.not_covered)
    );
    for file in &statement.files {
        let digest = match &file.sha256 {
            Some(digest) => format!("<code>{digest}</code>"),
            None => "not in this folder".into(),
        };
        let _ = writeln!(out, "<tr><th scope=\"row\">{}</th><td>{digest}</td></tr>", file.name);
    }
    out.push_str("</tbody>\n</table>\n");
}

fn accuracy(out: &mut String, statement: &Statement) {
    let record = &statement.record;
    held_out(out, record.held_out.as_ref(), (record.test_accuracy, record.test_loss, record.test_perplexity));
    by_class::tables(out, record.held_out.as_ref());
    if record.held_out.is_some() {
        out.push_str("<p class=\"soft small\">Not measured: accuracy by group, other than by class. Clipping and noise cost rare groups more than common ones.</p>\n");
    }
}

/// The figures on the held-out samples: accuracy, loss and perplexity, and what is known of the samples.
pub(super) fn held_out(
    out: &mut String,
    held_out: Option<&HeldOut>,
    (accuracy, loss, perplexity): (Option<f64>, Option<f64>, Option<f64>),
) {
    let Some(held_out) = held_out else {
        out.push_str("<p>Not measured: the data had no held-out samples.</p>\n");
        return;
    };
    table(
        out,
        &[
            ("accuracy", accuracy.map_or(String::new(), |accuracy| format!("{:.2} %", 100.0 * accuracy))),
            ("loss", loss.map_or(String::new(), |loss| format!("{loss:.4}"))),
            ("perplexity", perplexity.map_or(String::new(), |perplexity| format!("{perplexity:.2}"))),
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
                        "{} samples on the right answers and on the sum of losses over {}; {} evaluations cost an epsilon of {} at most",
                        noise.noise_multiplier,
                        noise.loss_bound,
                        noise.evaluations,
                        upward(noise.epsilon)
                    )
                }),
            ),
        ],
    );
}

fn audits(out: &mut String, statement: &Statement) {
    if statement.audits.is_empty() {
        out.push_str(
            "<p>No audit's result lies in this folder. <code>damper audit</code> leaves one: canaries give a lower bound on ε beside the \
             upper one, and replay on neighbouring data checks the sensitivity.</p>\n",
        );
    }
    for Audit { file, passed, verdict, figures } in &statement.audits {
        let (class, word) = if *passed { ("", "Passed.") } else { (" bad", "Failed.") };
        let _ = writeln!(
            out,
            "<h3>{file}</h3>\n<div class=\"verdict{class}\">\n<p><strong>{word}</strong> {}.</p>\n</div>",
            escape(&capital(verdict))
        );
        out.push_str("<table>\n<tbody class=\"stack\">\n");
        for Figure { of, value } in figures {
            let _ = writeln!(out, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", of, escape(value));
        }
        out.push_str("</tbody>\n</table>\n");
    }
    if statement.audits.iter().any(|audit| audit.file == CANARY) {
        out.push_str(
            "<p class=\"soft small\">An audit with canaries trains a model of its own, with made-up samples among the data. That model is \
             no result and is not shown. It is one more run on the same data: whoever publishes its record adds its ε to this one.</p>\n",
        );
    }
}

fn guideline(out: &mut String, statement: &Statement) {
    out.push_str(
        "<p>After NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees (2025), in our words.</p>\n<table>\n<thead \
         class=\"stack\"><tr><th scope=\"col\">asked</th><th scope=\"col\">answered</th></tr></thead>\n<tbody class=\"stack\">\n",
    );
    for item in &statement.guideline {
        let place = match item.section.and_then(|section| SECTIONS.into_iter().find(|(anchor, _)| *anchor == section)) {
            Some((anchor, name)) => format!("<a href=\"#{anchor}\">{name}</a>"),
            None => "<em>For whoever publishes this to say.</em>".into(),
        };
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{} {place}</td></tr>",
            item.asked,
            escape(&capital(&item.answer))
        );
    }
    out.push_str("</tbody>\n</table>\n");
}

/// A whole number with thin spaces between thousands, from five digits on.
pub(super) fn grouped(number: u64) -> String {
    if number < 10_000 { number.to_string() } else { page::grouped(number, '\u{202f}') }
}

/// One decimal, never below the number.
fn rounded_up(x: f64) -> String {
    format!("{:.1}", (x * 10.0).ceil() / 10.0)
}
