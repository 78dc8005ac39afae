//! Weighted losses and their gradients, compared with PyTorch 2.15 and torchvision's `sigmoid_focal_loss` in float64.

use super::builder::GraphBuilder;
use super::run::{Feed, Runner};
use damper_grad::{DeriveOptions, LabelWeights, Loss, LossReduction, derive};

/// Checks the loss and `dz` of one sample on every backend.
fn check(what: &str, options: DeriveOptions, (shape, z): (&[usize], &[f32]), labels: &Feed, want: (f32, &[f32])) {
    let mut b = GraphBuilder::new(17);
    // x/2 + p, so that the gradient of p is dz.
    let x = b.activation(shape);
    let case = b.case_with(what, x, options);
    let grad = derive(&case.graph, &case.options).unwrap();
    let doubled = z.iter().map(|z| 2.0 * z).collect();
    let feeds = [Feed::Float(doubled), labels.clone(), Feed::Float(vec![0.0; z.len()])];
    let runners = [Some(Runner::tract(&grad, 1)), Some(Runner::portable(&grad, 1).unwrap()), Runner::ort(&grad, 1)];
    for mut runner in runners.into_iter().flatten() {
        let outputs = runner.run(&grad, &feeds, 1);
        let (loss, dz) = (outputs[0][0], outputs.last().unwrap());
        assert!((loss - want.0).abs() <= 2e-6 * want.0.abs(), "{what}: loss {loss}, not {}", want.0);
        assert_eq!(dz.len(), want.1.len(), "{what}");
        for (got, want) in dz.iter().zip(want.1) {
            assert!((got - want).abs() <= 1e-6, "{what}: {dz:?} where PyTorch has {want}");
        }
    }
}

fn weighted(loss: Loss, weights: &[f32], smoothing: f32, gamma: f32) -> DeriveOptions {
    let label_weights =
        LabelWeights { class_weights: weights.to_vec(), label_smoothing: smoothing, focal_gamma: gamma };
    DeriveOptions { label_weights, ..DeriveOptions::new(loss) }
}

const LOGITS: [f32; 7] = [-3.0, -0.5, 0.0, 0.75, 2.5, 40.0, -40.0];
const CHANCES: [f32; 7] = [0.0, 0.25, 0.5, 0.9, 1.0, 0.3, 0.6];

#[test]
fn soft_bce_labels_weigh_as_in_pytorch() {
    let check = |what: &str, options, want| {
        check(what, options, (&[7], &LOGITS), &Feed::Float(CHANCES.to_vec()), want);
    };
    let bce = |weights: &[f32]| weighted(Loss::BceWithLogits, weights, 0.0, 0.0);
    let pos_weight = [0.006_775_125, -0.026_241_286, -0.071_428_57, -0.114_042_81, -0.032_510_65, 0.1, -0.257_142_86];
    check("pos_weight=3", bce(&[1.0, 3.0]), (14.845_129, &pos_weight));
    let both = [0.003_387_562_4, -0.046_466_68, -0.089_285_72, -0.118_894_08, -0.032_510_65, 0.05, -0.257_142_86];
    check("weight=0.5, pos_weight=6", bce(&[0.5, 3.0]), (12.783_386, &both));
    let summed = DeriveOptions { reduction: LossReduction::Sum, ..bce(&[0.5, 3.0]) };
    check("the same, summed", summed, (89.483_7, &both.map(|dz| 7.0 * dz)));
}

// In torchvision, alpha multiplies the loss of a soft label as a whole.
#[test]
fn focal_bce_weighs_as_in_torchvision() {
    let options = weighted(Loss::BceWithLogits, &[0.75, 0.25], 0.0, 2.0);
    let dz = [3.373_627e-5, 0.007_707_721, 0.0, -0.003_665_117, -4.555_66e-5, 0.0294, -0.013_885_714];
    check("focal", options, (&[7], &LOGITS), &Feed::Float(CHANCES.to_vec()), (1.756_649_7, &dz));
}

// CrossEntropyLoss(weight, label_smoothing, reduction="sum") of three tokens, divided by 3 and not by their weights.
#[test]
fn weights_and_smoothing_are_those_of_pytorch() {
    let z = [1.0, -2.0, 0.5, 3.0, 0.0, 0.25, -0.75, 1.5, 2.0, 2.0, -1.0, 0.0];
    let dz = [
        0.030_800_22,
        -0.047_844_21,
        0.020_012_91,
        -0.002_968_92,
        -0.099_232_4,
        -0.011_563_637,
        0.007_889_948,
        0.102_906_09,
        0.246_829_5,
        -0.257_337_18,
        0.006_661_255,
        0.003_846_43,
    ];
    let options = weighted(Loss::SoftmaxCrossEntropy, &[0.5, 2.0, 0.25, 1.25], 0.3, 0.0);
    check("entropy", options, (&[3, 4], &z), &Feed::Int(vec![3, 0, 1]), (1.268_211_3, &dz));
}
