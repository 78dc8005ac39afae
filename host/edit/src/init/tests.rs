//! Properties of initialisation, on a small network with a mask.

use super::*;
use damper_onnx::pb::OperatorSetIdProto;
use damper_onnx::{DType, Extent, decode_tensor, make_node, make_tensor_f32, make_value_info};

const WEIGHTS: [&str; 4] = ["fc.weight", "fc.bias", "norm.weight", "norm.bias"];

/// x [N, 3] → MatMul, Add → LayerNormalization → + mask.
fn model() -> ModelProto {
    let info = |name, width| make_value_info(name, DType::F32, &[Extent::Batch, Extent::Fixed(width)]);
    let node = |op: &str, inputs: &[&str], output: &str| make_node(op, op, inputs, &[output], vec![]);
    ModelProto {
        ir_version: 8,
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
        graph: Some(GraphProto {
            node: vec![
                node("MatMul", &["x", "fc.weight"], "h"),
                node("Add", &["h", "fc.bias"], "i"),
                node("LayerNormalization", &["i", "norm.weight", "norm.bias"], "j"),
                make_node("Add", "masked", &["j", "mask"], &["y"], vec![]),
            ],
            initializer: vec![
                make_tensor_f32("fc.weight", &[3, 4], &[0.5; 12]),
                make_tensor_f32("fc.bias", &[4], &[0.5; 4]),
                make_tensor_f32("norm.weight", &[4], &[0.5; 4]),
                make_tensor_f32("norm.bias", &[4], &[0.5; 4]),
                make_tensor_f32("mask", &[4], &[0.0, 0.0, f32::NEG_INFINITY, 0.0]),
            ],
            input: vec![info("x", 3)],
            output: vec![info("y", 4)],
            ..GraphProto::default()
        }),
        ..ModelProto::default()
    }
}

fn fresh(overrides: &[Override], seed: u64) -> Result<(ModelProto, Vec<Initialised>), InitError> {
    initialise(&model(), &GraphOptions::default(), overrides, seed)
}

fn skeleton_of(overrides: &[Override]) -> ModelProto {
    let (mut model, list) = fresh(overrides, 7).unwrap();
    skeleton(&mut model, &list);
    model
}

fn over(pattern: &str, initialiser: &str) -> Override {
    Override { pattern: pattern.into(), initialiser: initialiser.parse().unwrap() }
}

fn of(model: &ModelProto, name: &str) -> Vec<f32> {
    let tensor = model.graph.as_ref().unwrap().initializer.iter().find(|tensor| tensor.name == name).unwrap();
    decode_tensor(tensor).unwrap().as_f32().unwrap().to_vec()
}

// Every trained parameter is drawn by its role, and a mask is kept.
#[test]
fn parameters_follow_role_and_mask_is_kept() {
    let (made, list) = fresh(&[], 1).unwrap();
    assert_eq!(list.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), WEIGHTS);
    let bound = 1.0 / 3f32.sqrt();
    for name in &WEIGHTS[..2] {
        let values = of(&made, name);
        assert!(values.iter().all(|x| x.abs() <= bound) && values.iter().any(|x| x.abs() > bound / 2.0), "{name}");
    }
    assert_eq!(of(&made, "norm.weight"), [1.0; 4]);
    assert_eq!(of(&made, "norm.bias"), [0.0; 4]);
    assert_eq!(of(&made, "mask"), of(&model(), "mask"));
    assert_eq!(made.graph.unwrap().node, model().graph.unwrap().node);
}

// A skeleton loaded with a seed is the model initialised with that seed.
#[test]
fn skeleton_matches_initialised_model() {
    let overrides = [over("fc.weight", "xavier-normal"), over("norm.*", "uniform(0.5, 1.5)")];
    let bare = skeleton_of(&overrides);
    assert!(onnx::encode(&bare).len() < onnx::encode(&model()).len() + 400);
    for seed in [0, 1] {
        let mut filled = bare.clone();
        assert_eq!(fill(&mut filled, seed).unwrap(), 4);
        let again = initialise(&bare, &GraphOptions::default(), &[], seed).unwrap().0;
        let full = fresh(&overrides, seed).unwrap().0;
        for name in WEIGHTS {
            assert_eq!(of(&filled, name), of(&full, name), "{name}");
            assert_eq!(of(&again, name), of(&full, name), "{name}");
        }
    }
}

/// The expected bits come from RFC 8439, hashlib and arbitrary-precision arithmetic rounded to f32 after each
/// operation, in Python.
#[test]
fn values_have_the_recorded_bits() {
    let (made, _) =
        fresh(&[over("fc.bias", "normal(0, 1)"), over("norm.bias", "truncated-normal(0, 0.02)")], 1).unwrap();
    let bits = |name| of(&made, name).iter().take(3).map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits("fc.weight"), [1_051_508_493, 1_045_523_857, 1_030_945_230]);
    assert_eq!(bits("fc.bias"), [3_199_951_278, 1_027_275_163, 1_041_131_593]);
    assert_eq!(bits("norm.bias"), [1_022_345_940, 1_023_423_740, 1_005_906_856]);
}

#[test]
fn the_place_in_the_file_changes_no_value() {
    let mut transposed = model();
    transposed.graph.as_mut().unwrap().initializer.reverse();
    let transposed = initialise(&transposed, &GraphOptions::default(), &[], 1).unwrap().0;
    let straight = fresh(&[], 1).unwrap().0;
    for name in WEIGHTS {
        assert_eq!(of(&transposed, name), of(&straight, name), "{name}");
    }
}

// Loading does not change a model that has all its values.
#[test]
fn loading_keeps_complete_model() {
    let mut full = fresh(&[], 1).unwrap().0;
    let before = full.clone();
    assert_eq!(fill(&mut full, 2).unwrap(), 0);
    assert_eq!(full, before);
}

// The last override wins, and frozen parameters keep their values.
#[test]
fn last_override_wins_and_frozen_is_kept() {
    let (made, list) = fresh(&[over("*.weight", "ones"), over("fc.*", "constant(0.25)")], 1).unwrap();
    assert_eq!(of(&made, "fc.weight"), [0.25; 12]);
    assert_eq!(list[0].initialiser.unwrap().to_string(), "constant(0.25)");
    let options = GraphOptions { freeze: vec!["fc.*".into()], ..GraphOptions::default() };
    let (made, list) = initialise(&model(), &options, &[], 1).unwrap();
    assert_eq!(of(&made, "fc.weight"), [0.5; 12]);
    assert_eq!(list.len(), 2);
}

// A model without values and without metadata is drawn by role.
#[test]
fn bare_model_is_drawn_by_role() {
    let mut bare = skeleton_of(&[]);
    bare.metadata_props.clear();
    // Loading does not change such tensors. The next stage reports the error.
    assert_eq!(fill(&mut bare, 1).unwrap(), 0);
    let made = initialise(&bare, &GraphOptions::default(), &[], 1).unwrap().0;
    assert_eq!(of(&made, "fc.weight"), of(&fresh(&[], 1).unwrap().0, "fc.weight"));
}

// The error for an invalid skeleton is one line and names the parameter.
#[test]
fn invalid_skeleton_error_names_parameter() {
    let with = |change: &dyn Fn(&mut ModelProto)| {
        let mut bare = skeleton_of(&[]);
        change(&mut bare);
        bare
    };
    let set = |key: &str, value: &str| {
        let (key, value) = (key.to_string(), value.to_string());
        move |bare: &mut ModelProto| {
            let entry = bare.metadata_props.iter_mut().find(|entry| entry.key == key).unwrap();
            entry.value = value.clone();
        }
    };
    let wrong = with(&set("damper.init.fc.weight", "glorot"));
    let huge = with(&|bare: &mut ModelProto| bare.graph.as_mut().unwrap().initializer[0].dims = vec![1 << 40, 1 << 40]);
    let fanless = with(&|bare: &mut ModelProto| {
        set("damper.init.norm.weight", "xavier-normal")(bare);
    });
    for (bare, words) in [
        (wrong, ["damper.init.fc.weight", "'glorot'", "use zeros"]),
        (huge, ["'fc.weight'", "2 GiB", "damaged"]),
        (fanless, ["'norm.weight'", "[4]", "`init`"]),
    ] {
        let error = fill(&mut bare.clone(), 0).unwrap_err().to_string();
        assert!(!error.contains('\n') && words.iter().all(|word| error.contains(word)), "{error}");
        assert_eq!(initialise(&bare, &GraphOptions::default(), &[], 0).unwrap_err().to_string(), error);
    }
    let unmatched = fresh(&[over("fd.*", "zeros")], 0).unwrap_err().to_string();
    assert!(unmatched.contains("'fd.*'"), "{unmatched}");
    let options = GraphOptions { freeze: vec!["*".into()], ..GraphOptions::default() };
    assert!(matches!(initialise(&model(), &options, &[], 0), Err(InitError::Nothing)));
    let mut unused = model();
    let tensor = TensorProto { raw_data: Default::default(), ..make_tensor_f32("unused", &[2, 2], &[0.0; 4]) };
    unused.graph.as_mut().unwrap().initializer.push(tensor);
    let error = initialise(&unused, &GraphOptions::default(), &[], 0).unwrap_err();
    assert!(matches!(&error, InitError::NoValues(name) if name == "unused"), "{error}");
}

// `fix` changes a file during loading like `damper fix`, with one warning.
#[test]
fn batch_norms_are_fixed_on_the_way() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../onnx-models/exports/batchnorm.dynamo.onnx");
    let count = |model: &ModelProto| {
        model.graph.as_ref().unwrap().node.iter().filter(|node| node.op_type == "BatchNormalization").count()
    };
    let plain = load(&path, None).unwrap();
    let fixed = load(&path, LoadOptions { seed: None, fix: true }).unwrap();
    assert!(count(&plain.model) > 0 && plain.warnings.is_empty());
    assert_eq!(count(&fixed.model), 0);
    let said = format!("of its batch normalisations {}", count(&plain.model));
    assert!(fixed.warnings.iter().any(|line| line.contains(&said)), "{:?}", fixed.warnings);
    let mut by_hand = plain.model.clone();
    fix_batch_norm(&mut by_hand, BatchNormFix::Auto, None).unwrap();
    assert_eq!(fixed.model, by_hand);
    // A skeleton is filled first.
    let (mut bare, list) = initialise(&plain.model, &GraphOptions::default(), &[], 3).unwrap();
    skeleton(&mut bare, &list);
    let file = std::env::temp_dir().join(format!("damper-skeleton-{}.onnx", std::process::id()));
    std::fs::write(&file, onnx::encode(&bare)).unwrap();
    let fixed = load(&file, LoadOptions { seed: None, fix: true });
    std::fs::remove_file(&file).unwrap();
    assert_eq!(count(&fixed.unwrap().model), 0);
}
