//! Figures by class on held-out samples: their location, their sums, and that private metrics do not release them.

use super::markup::assert_balanced;
use super::{DIGITS, MLP, folder, json, train};
use serde_json::Value;
use std::fs;

#[test]
fn figures_by_class_add_up() {
    let (_guard, out) = folder();
    let report = json(&train(MLP, DIGITS, &out, &["--json", "--epochs", "2"]).output().unwrap());
    let found = &report["held_out"]["by_class"];
    let matrix: Vec<Vec<u64>> = serde_json::from_value(found["confusion"].clone()).unwrap();
    let classes = found["classes"].as_array().unwrap();
    assert!(matrix.len() == 10 && classes.len() == 10);
    let (mut right, mut all) = (0, 0);
    for (class, figures) in classes.iter().enumerate() {
        let count = |key: &str| figures[key].as_u64().unwrap();
        assert_eq!((count("class"), count("right")), (class as u64, matrix[class][class]));
        assert_eq!(count("labels"), matrix[class].iter().sum::<u64>());
        assert_eq!(count("answers"), matrix.iter().map(|row| row[class]).sum::<u64>());
        let number = |key: &str| figures[key].as_f64().unwrap();
        assert_eq!(number("accuracy"), count("right") as f64 / count("labels") as f64);
        assert!((0.5..=1.0).contains(&number("auc")) && (0.0..=1.0).contains(&number("f1")), "{figures}");
        (right, all) = (right + count("right"), all + count("labels"));
    }
    assert_eq!((found["labels"].as_u64(), report["held_out"]["samples"].as_u64()), (Some(all), Some(all)));
    assert_eq!(report["test_accuracy"].as_f64(), Some(right as f64 / all as f64));
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("Confusion matrix") && page.contains("macro mean"), "{page}");
    assert_balanced(&page);
    let statement: Value = serde_json::from_slice(&fs::read(out.join("statement.json")).unwrap()).unwrap();
    assert_eq!(statement["record"]["held_out"]["by_class"], *found);
    assert!(report["privacy"]["not_covered"].as_str().unwrap().contains("the figures by class"));
}

#[test]
fn private_metrics_release_nothing_by_class() {
    for (metrics, reason) in [("private", "not released"), ("none", "not computed")] {
        let (_guard, out) = folder();
        let report = json(&train(MLP, DIGITS, &out, &["--json", "--test-metrics", metrics]).output().unwrap());
        let held_out = &report["held_out"];
        assert!(held_out.get("by_class").is_none(), "{held_out}");
        assert!(held_out["by_class_missing"].as_str().unwrap().starts_with(reason), "{held_out}");
        let page = fs::read_to_string(out.join("report.html")).unwrap();
        assert!(!page.contains("Confusion matrix") && page.contains(&format!("Figures by class: {reason}")));
    }
}
