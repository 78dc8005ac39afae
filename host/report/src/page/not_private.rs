//! `report.html` of a run that is not private: a page that cannot be taken for a privacy report.

use super::html::{STYLE, escape, grouped, held_out, lora, optimizer, table};
use super::{NotPrivate, NotPrivateReport, by_class};
use damper_accounting::Sampler;
use std::fmt::Write;

impl NotPrivate {
    /// The page.
    #[must_use]
    pub fn html(&self) -> String {
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" \
             content=\"width=device-width, initial-scale=1\"/>\n<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>Not private: \
             no guarantee</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>Report of a run that is not private</h1>\n<div \
             class=\"verdict bad\" role=\"alert\">\n<p><strong>Not private.</strong> {}</p>\n</div>\n</header>\n<main>\n",
            escape(self.guarantee)
        );
        match &self.record {
            Some(record) => of_record(&mut out, record),
            None => {
                let steps = self.steps.map_or("an unknown number of".into(), |steps| grouped(u64::from(steps)));
                let _ = writeln!(out, "<p>The run is unfinished: {steps} steps were taken.</p>");
            }
        }
        out.push_str(
            "<section>\n<h2>Files</h2>\n<table>\n<thead class=\"stack\"><tr><th scope=\"col\">file</th><th \
             scope=\"col\">SHA-256</th></tr></thead>\n<tbody class=\"stack\">\n",
        );
        for file in &self.files {
            let digest = match &file.sha256 {
                Some(digest) => format!("<code>{digest}</code>"),
                None => "not in this folder".into(),
            };
            let _ = writeln!(out, "<tr><th scope=\"row\">{}</th><td>{digest}</td></tr>", file.name);
        }
        let _ = write!(
            out,
            "</tbody>\n</table>\n</section>\n</main>\n<footer class=\"soft small\">\n<p>Written by damper {}. What every field means: \
             docs/report.md.</p>\n</footer>\n</body>\n</html>\n",
            self.damper
        );
        out
    }
}

fn of_record(out: &mut String, record: &NotPrivateReport) {
    out.push_str("<section>\n<h2>Held-out figures</h2>\n");
    held_out(out, record.held_out.as_ref(), (record.test_accuracy, record.test_loss, record.test_perplexity));
    by_class::tables(out, record.held_out.as_ref());
    out.push_str("</section>\n<section>\n<h2>Training</h2>\n");
    let training = &record.training;
    table(
        out,
        &[
            ("clipping", "none".into()),
            ("noise", "none".into()),
            ("optimizer", optimizer(&training.optimizer)),
            ("learning rate", training.lr.to_string()),
            ("low-rank adapters", training.lora.as_ref().map_or(String::new(), lora)),
            ("loss", [&*training.loss, training.reduction.as_deref().unwrap_or_default()].join(" ")),
            (
                "batches",
                match record.sampler {
                    Sampler::Poisson | Sampler::CyclicPoisson => {
                        format!("Poisson, rate {}; {} expected", record.sampling_rate, record.expected_batch)
                    }
                    Sampler::Shuffled => format!("shuffled, {}", record.expected_batch),
                    Sampler::MinSeparation => format!("in one order, {}", record.expected_batch),
                },
            ),
            ("samples", grouped(record.samples)),
            (
                "steps",
                format!("{} of {} planned", grouped(u64::from(record.steps)), grouped(u64::from(record.planned_steps))),
            ),
            ("trained numbers", grouped(training.parameters as u64)),
            ("backend", record.versions.of_backend(&record.backend)),
            ("parameters, SHA-256", record.params_digest.clone()),
        ],
    );
    if !record.warnings.is_empty() {
        out.push_str("<h3>What the run warned about</h3>\n<ul class=\"plain\">\n");
        for warning in &record.warnings {
            let _ = writeln!(out, "<li>{}</li>", escape(warning));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</section>\n");
}
