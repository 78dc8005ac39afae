//! `--checkpoint-activations` changes no bit of a training, and takes less memory.

#[path = "support/digits.rs"]
mod digits;
#[path = "support/models.rs"]
#[expect(dead_code, reason = "the backends are opened here")]
mod models;

use damper::data::DataOptions;
use damper::grad::{DeriveOptions, Readout};
use damper::runtime::{Choice, open};
use damper::train::{self, Budget, InputFiles, Method, NoiseKind, Outcome, Run, TrainConfig};
use digits::source;
use models::{SKELETONS, path};
use std::num::NonZeroUsize;

/// Runs one step over the samples of the model's vectors.
fn train(model: &str, backend: Choice, readout: Readout, checkpoint_activations: bool) -> (Run, Outcome) {
    let source = source(&format!("{model}.onnx"));
    let source = InputFiles {
        of_file: SKELETONS.contains(&model).then_some(1).into(),
        data: format!("npz:{}", path(&format!("vectors/{model}.npz")).display()),
        data_options: DataOptions::default(),
        derive: DeriveOptions { checkpoint_activations, ..source.derive },
        ..source
    };
    let config = TrainConfig {
        noise: if readout == Readout::ClippedSum { NoiseKind::Continuous } else { NoiseKind::Discrete },
        readout,
        backend,
        seed: Some(5),
        allow_large_delta: true,
        physical_batch: NonZeroUsize::new(2),
        workers: NonZeroUsize::new(1),
        ..TrainConfig::new(Budget::NoiseMultiplier(0.01), 0.2, 2, 1.0, Method::dp_sgd(1.0, 0.1))
    };
    let folder = tempfile::tempdir().unwrap();
    let run = train::prepare(&source, config).unwrap_or_else(|error| panic!("{model}: {error}"));
    let outcome = train::run(&run, folder.path(), &mut ()).unwrap_or_else(|error| panic!("{model}: {error}"));
    (run, outcome)
}

fn check(model: &str, backend: Choice) {
    if let Err(error) = open(backend) {
        return damper_testing::skip("ort", error.0.split(" (").next().unwrap_or_default());
    }
    // The portable backend runs one sample at a time.
    let has_batches = !matches!(backend, Choice::Portable);
    for readout in [Readout::PerSample].into_iter().chain(has_batches.then_some(Readout::ClippedSum)) {
        let (with, again) = train(model, backend, readout, true);
        let (without, whole) = train(model, backend, readout, false);
        let cost = |run: &Run| run.model.clipped.as_ref().unwrap_or(&run.model.grad).cost;
        let what = format!("{model}, {readout:?}: {:?}, with it {:?}", cost(&without), cost(&with));
        println!("{what}");
        let bits = |outcome: &Outcome| outcome.params.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert!(bits(&again) == bits(&whole), "{what}: other bits");
        assert!(whole.params != without.model.params, "{what}: nothing was trained");
        // At most one more forward pass, which is a third of the total.
        assert!(cost(&with).multiply_adds <= cost(&without).multiply_adds / 2 * 3, "{what}");
        assert!(cost(&with).sample_bytes <= cost(&without).sample_bytes, "{what}");
    }
}

macro_rules! models {
    ($($test:ident: $model:literal on $backend:ident,)*) => {
        $(#[test]
        fn $test() {
            check($model, Choice::$backend);
        })*
    };
}

models! {
    digits_cnn_has_its_bits: "digits-cnn" on Ort,
    groupnorm_has_its_bits: "digits-cnn-groupnorm" on Ort,
    groupnorm_has_its_bits_on_tract: "digits-cnn-groupnorm" on Tract,
    groupnorm_has_its_bits_on_portable: "digits-cnn-groupnorm" on Portable,
    groupnorm_has_its_bits_in_standard: "digits-cnn-groupnorm" on OrtStandard,
    cifar_cnn_has_its_bits: "cifar-cnn" on Ort,
    wide_resnet_has_its_bits: "wrn-16-4-groupnorm" on Ort,
    resnet_has_its_bits: "resnet18-groupnorm" on Ort,
    vit_has_its_bits: "vit-tiny" on Ort,
    text_classifier_has_its_bits: "bert-tiny" on Ort,
    text_classifier_has_its_bits_on_portable: "bert-tiny" on Portable,
    language_model_has_its_bits: "gpt-small" on Ort,
    language_model_has_its_bits_in_standard: "gpt-small" on OrtStandard,
}
