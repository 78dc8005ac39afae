//! Claims and assumptions of a run's figures, as text.

use super::fields::Privacy;
use super::notes;
use damper_accounting::{Plan, Sampler, Truncation};
use damper_budget::EXACT;
use damper_core::accounting::Rate;
use damper_train::{CLIPPED_BY_BACKEND, NoiseKind, Run, TestMetrics};
use std::borrow::Cow;

pub(super) fn privacy(run: &Run) -> Privacy {
    let samples = run.config.dataset_size.unwrap_or(run.data.train.len() as u64);
    let one_over = 1.0 / samples as f64;
    Privacy {
        neighbours: neighbours(run).into(),
        sample: Some(run.data.sample.into()),
        samples,
        declared_samples: run.config.dataset_size,
        sampler: run.config.sampler,
        sampling: sampling(run),
        events: run.price.plan.as_ref().map_or(0, Plan::steps),
        truncation: run.price.terms.truncation,
        sampling_rate_exact: format!("{}/{}", run.priced_rate().numerator(), Rate::DENOMINATOR),
        delta_note: format!(
            "delta is {:.3} of 1/N = {one_over:.3e}; N^-1.1 = {:.3e} is the advised maximum",
            run.config.delta / one_over,
            (samples as f64).powf(-1.1)
        ),
        accountant_note: notes::accountant(
            run.config.accountant,
            run.price.order.is_some(),
            run.config.sampler,
            run.price.terms.correlated.is_some(),
            run.config.noise == NoiseKind::Discrete,
        )
        .into(),
        order: run.price.order,
        path: run.path().into(),
        path_note: path_note(run).into(),
        fixed_beforehand: fixed_beforehand(run),
        taken_as_public: format!(
            "the number of samples as given here, the classes, {}, shapes and tokenizer of the data, and the model file with its initial \
             parameters or their seed",
            if run.config.normalize_private.is_some() { "bounds of the features" } else { "scaling" }
        )
        .into(),
        composition: "this run alone: every further run on the same data, hyperparameter searches included, adds to epsilon".into(),
        covered: covered(run),
        not_covered: not_covered(run),
        released_model: match run.config.average {
            None => "the last iterate".into(),
            Some(averaging) => format!("{averaging} of released parameters; held-out figures are of the same mean").into(),
        },
    }
}

fn neighbours(run: &Run) -> &'static str {
    match run.config.dataset_size {
        None if run.held_out.are_stratified => {
            "one sample replaced by a null sample that contributes nothing; the number of samples and the class of each are public"
        }
        None => "one sample replaced by a null sample that contributes nothing; the number of samples is public",
        Some(_) => "one sample replaced by a null sample that contributes nothing; the number of samples is declared",
    }
}

fn path_note(run: &Run) -> &'static str {
    match run.path() {
        EXACT => {
            "gradients are clipped onto an integer grid, the bound is checked in integers, sums and noise are integers"
        }
        CLIPPED_BY_BACKEND => {
            "NOT exact: that a sample adds at most the clip holds in the backend's floats and was not checked; sums and \
             noise are floats, and epsilon is that of the ideal continuous Gaussian mechanism"
        }
        _ => "NOT exact: sums and noise are floats, and epsilon is that of the ideal continuous Gaussian mechanism",
    }
}

fn fixed_beforehand(run: &Run) -> String {
    format!(
        "batch size, rate, steps, noise of every step and learning-rate schedule were fixed before the first step; {}{}",
        if run.config.method.threshold.is_fixed() {
            "so was the clip"
        } else {
            "the clip of each step follows from counts released before it"
        },
        match (run.config.optimizer.norm_step, run.config.optimizer.galore) {
            (Some(_), _) => "; step sizes follow from norms of released gradients",
            (None, Some(_)) => "; the directions of steps follow from released gradients",
            (None, None) => "",
        }
    )
}

fn covered(run: &Run) -> Cow<'static, str> {
    if run.config.seed.is_some() {
        return "nothing: the seed was given, so the noise can be recomputed; epsilon is what a private run would have"
            .into();
    }
    let held_out = match (run.config.test_metrics, &run.data.test) {
        (TestMetrics::Private { .. }, Some(_)) => " and the held-out samples",
        _ => "",
    };
    let normalize = match run.config.normalize_private {
        None => "",
        Some(_) => "the released means and deviations of the features, ",
    };
    let best = if run.config.stop_early.is_some() { ", model-best.onnx" } else { "" };
    let count = match run.config.release_non_finite {
        None => "",
        Some(_) => "the released number of samples without a finite gradient, ",
    };
    format!("the training samples{held_out}, in {normalize}{count}model.onnx{best}, events.json, metrics.csv and this report without `seconds`").into()
}

fn not_covered(run: &Run) -> Cow<'static, str> {
    let mut all = vec![
        "`seconds` in whole seconds, for a step's time depends on the samples drawn",
        if run.config.record.is_some() {
            "the folder checkpoint/ and the recording, which are as secret as the data"
        } else {
            "the folder checkpoint/, which is as secret as the data"
        },
    ];
    let is_exact = run.data.test.is_some() && run.config.test_metrics == TestMetrics::Exact;
    if is_exact && run.config.stop_early.is_some() {
        all.insert(0, "where the run ended and which step model-best.onnx is of, which follow from those figures");
    }
    if is_exact {
        all.insert(0, "the held-out samples: test_accuracy, test_loss, test_perplexity, test_r_squared, the figures by class and metrics.csv are exact functions of them");
    }
    format!(
        "{}. No gradient, norm, {}, count of dropped rows or training loss was released",
        all.join("; "),
        if run.config.sampler.has_coins() { "draw, number of samples in a draw" } else { "order of the samples" }
    )
    .into()
}

fn sampling(run: &Run) -> Cow<'static, str> {
    match (run.config.sampler, run.price.terms.truncation) {
        (Sampler::Poisson, None) => "Poisson: each sample is in each draw independently with exactly the sampling rate".into(),
        (Sampler::Poisson, Some(Truncation { most, .. })) => format!(
            "Poisson: each sample is in each draw independently with exactly the sampling rate; draws of more than {most} samples \
             were cut to {most}, which is paid for out of delta"
        )
        .into(),
        (Sampler::CyclicPoisson, _) => format!(
            "cyclic Poisson: each sample is in one of {} groups, and in each draw from it independently with exactly the sampling rate; a draw \
             of each group is one event",
            run.config.groups()
        )
        .into(),
        (Sampler::MinSeparation, _) if run.price.terms.correlated.is_some() => {
            "minimum separation: the same batches of a fixed size in the same order each epoch; the whole run is one event at a rate of 1".into()
        }
        (Sampler::MinSeparation, _) => {
            "minimum separation: the same batches of a fixed size in the same order each epoch; an epoch is one event at a rate of 1".into()
        }
        (Sampler::Shuffled, _) => "shuffled: batches of a fixed size out of a new order of all samples each epoch; an epoch is one \
                                   event at a rate of 1, for nothing is claimed of the order"
            .into(),
    }
}
