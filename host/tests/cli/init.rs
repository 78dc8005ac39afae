//! `damper init`, and models without weights.

use super::{DIGITS, MLP, assert_refused, damper, folder, json, refused, run, train};
use damper::onnx::{decode_tensor, load};
use std::fs;
use std::path::Path;

fn init(model: &str, out: &Path, extra: &[&str]) -> std::process::Output {
    damper().args(["init", model, "-o"]).arg(out).args(extra).output().unwrap()
}

fn weights(file: &Path) -> Vec<Vec<f32>> {
    let initializers = load(file).unwrap().graph.unwrap().initializer;
    initializers.iter().map(|tensor| decode_tensor(tensor).unwrap().as_f32().unwrap().to_vec()).collect()
}

// A model gets new weights that depend only on the seed.
#[test]
fn init_weights_follow_seed() {
    let (_folder, out) = folder();
    let answer = json(&init(MLP, &out, &["--seed", "1", "--json"]));
    assert_eq!(answer["drawn"], 2410);
    assert_eq!(answer["seed"], 1);
    assert_eq!(answer["parameters"][0]["init"], "kaiming-uniform(fan-in, a=2.23606797749979)");
    let first = weights(&out);
    assert!(init(MLP, &out, &["--seed", "1"]).status.success());
    assert_eq!(weights(&out), first);
    assert!(init(MLP, &out, &["--seed", "2"]).status.success());
    assert!(weights(&out).iter().zip(&first).all(|(a, b)| a.len() == b.len() && a != b));
    assert!(init(MLP, &out, &["--init", "*=constant(2)", "--freeze", "fc1.*"]).status.success());
    let kept = weights(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(MLP));
    for (weight, kept) in weights(&out).iter().zip(&kept) {
        assert!(weight == kept || weight.iter().all(|x| *x == 2.0));
    }
}

// A model without weights is small, and trains like the model that its seed generates.
#[test]
fn skeleton_trains_as_its_seeded_model() {
    let (folder, out) = folder();
    let (bare, full) = (folder.path().join("bare.onnx"), folder.path().join("full.onnx"));
    assert!(json(&init(MLP, &bare, &["--skeleton", "--json"]))["seed"].is_null());
    assert!(fs::metadata(&bare).unwrap().len() < 1000);
    let (bare, digest) = (bare.display().to_string(), |report: &serde_json::Value| report["params_digest"].clone());
    assert!(init(&bare, &full, &["--seed", "5"]).status.success());
    let trained = |model: &str, name: &str, extra: &[&str]| {
        let common = ["--seed", "3", "--json"];
        let extra: Vec<&str> = common.iter().chain(extra).copied().collect();
        json(&train(model, DIGITS, &out.with_file_name(name), &extra).output().unwrap())
    };
    let of_bare = trained(&bare, "a", &["--init-seed", "5"]);
    let of_full = trained(full.to_str().unwrap(), "b", &[]);
    let of_default = trained(&bare, "c", &[]);
    assert_eq!(digest(&of_bare), digest(&of_full));
    assert_ne!(digest(&of_bare), digest(&of_default));
    assert_eq!(of_bare["training"]["init_seed"], 5);
    assert_eq!(of_default["training"]["init_seed"], 0);
    assert!(of_full["training"]["init_seed"].is_null());
    // The trained model has its weights, like any other model.
    assert!(weights(&out.with_file_name("a").join("model.onnx")).iter().all(|values| !values.is_empty()));
    // The other commands read it too.
    assert_eq!(json(&run(&["inspect", &bare, "--json"]))["trained"], 2410);
    let grad = folder.path().join("grad.onnx").display().to_string();
    assert!(run(&["derive", &bare, "-o", &grad]).status.success());
}

#[test]
fn invalid_init_request_is_error() {
    let (folder, out) = folder();
    assert_refused(&init(MLP, &out, &["--init", "fc3.*=zeros"]), &[MLP, "--init 'fc3.*'", "damper inspect"]);
    assert_refused(&init(MLP, &out, &["--freeze", "*"]), &[MLP, "nothing is trained"]);
    assert_refused(&init("none.onnx", &out, &[]), &["none.onnx", "check the path"]);
    assert_refused(&init(MLP, folder.path(), &[]), &["no plain file", "-o"]);
    refused(train(MLP, DIGITS, &out, &["--init-seed", "1"]), &out, &[MLP, "--init-seed", "damper init"]);
    assert!(!out.exists());
}
