//! Checks of the data settings before any row is read. They use only public facts.

use crate::{DataOptions, LabelKind, Normalize, TestSource};
use damper_onnx::{DType, SettingError};

/// Returns an error unless the constants of `normalize` are finite, with standard deviations above 0.
pub(crate) fn normalize(options: &DataOptions) -> Result<(), SettingError> {
    match &options.normalize {
        Some(normalize @ Normalize { means, stds })
            if !(means.iter().all(|mean| mean.is_finite()) && stds.iter().all(|std| std.is_normal() && *std > 0.0)) =>
        {
            let problem = "give finite means and standard deviations above 0";
            Err(SettingError::new("normalize", normalize, problem))
        }
        _ => Ok(()),
    }
}

/// Returns an error if a class is named twice, or if the model has another number of classes.
pub(crate) fn classes(options: &DataOptions) -> Result<(), SettingError> {
    let names = options.classes.as_deref().unwrap_or_default();
    let count = match (&options.classes, options.class_count) {
        (Some(names), _) => names.len(),
        (None, Some(count)) => count,
        (None, None) => return Ok(()),
    };
    let refuse = |problem: String| {
        let value = if options.classes.is_some() { names.join(",") } else { count.to_string() };
        Err(SettingError::new("classes", value, problem))
    };
    if let Some((at, name)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        return refuse(format!("'{name}' is named twice (entry {}); name each class once", at + 1));
    }
    match &options.labels {
        LabelKind::Classes { classes: Some(classes), .. } if count > *classes => refuse(format!(
            "{count} classes, and the model has {classes}; list its classes, or train a model with more outputs"
        )),
        LabelKind::None => refuse("this loss takes no labels; leave it out".into()),
        _ => Ok(()),
    }
}

/// Returns an error if a list of categories exceeds the embedding matrix that it indexes. Also returns an error if a
/// model has classes, but an output of one value.
pub(crate) fn model(options: &DataOptions) -> Result<(), SettingError> {
    if let LabelKind::Classes { classes: Some(1), .. } = &options.labels {
        let problem = "the model's output has one number where classes are, and of one class nothing is learned; use bce-with-logits, or mse";
        return Err(SettingError::new("loss", "softmax-cross-entropy", problem));
    }
    // Columns of categories become values of an integer input, which indexes an embedding matrix.
    let tables = options.inputs.iter().filter(|input| input.dtype == DType::I64).filter_map(|input| input.rows);
    let Some(rows) = tables.min() else { return Ok(()) };
    if let Some((column, list)) = options.categories.iter().find(|(_, list)| list.len() > rows) {
        let problem = format!(
            "lists {} values, and the model looks up rows 0 to {} of a table; train a model with a larger table, or shorten the list",
            list.len(),
            rows.saturating_sub(1)
        );
        return Err(SettingError::new("categories", column, problem));
    }
    Ok(())
}

/// Returns an error if `stratify` is set without a fraction or without classes.
pub(crate) fn stratify(options: &DataOptions) -> Result<(), SettingError> {
    let refuse = |problem: &str| Err(SettingError::new("stratify", "", problem));
    if options.stratify && !matches!(options.test, Some(TestSource::Fraction(_))) {
        return refuse("divides the rows that `test` FRACTION holds out by class; give a fraction, or leave it out");
    }
    if options.stratify && !matches!(options.labels, LabelKind::Classes { .. }) {
        return refuse("divides by class, and these labels are not classes; leave it out");
    }
    Ok(())
}

/// Returns an error unless the constants of a column are finite, with a standard deviation above 0.
pub(crate) fn scale(wanted: &str, mean: f64, std: f64) -> Result<(), SettingError> {
    if mean.is_finite() && std.is_normal() && std > 0.0 {
        return Ok(());
    }
    let problem = "give a finite mean and a standard deviation above 0";
    Err(SettingError::new("scale", format!("{wanted}={mean},{std}"), problem))
}

/// Returns the public constants of labels. Labels must be numbers, and may be scaled once.
pub(crate) fn label_scale(
    options: &DataOptions,
    wanted: &str,
    before: Option<(f64, f64)>,
    (mean, std): (f64, f64),
) -> Result<(f64, f64), SettingError> {
    let refuse = |problem: &'static str| Err(SettingError::new("scale", wanted, problem));
    match options.labels {
        _ if before.is_some() => refuse("the labels are scaled already; name them once"),
        LabelKind::Values { .. } if options.unscaled_labels => Ok((0.0, 1.0)),
        LabelKind::Values { .. } => Ok((mean, std)),
        LabelKind::None => refuse("this loss takes no labels; leave it out"),
        _ => refuse("the labels are classes or from 0 to 1, which are not scaled; leave it out, or use `loss` mse"),
    }
}

/// Returns a note on integer inputs, which constants are not applied to.
pub(crate) fn not_normalized(options: &DataOptions) -> Option<String> {
    options.normalize.as_ref()?;
    let integers = options.inputs.iter().filter(|input| input.dtype == DType::I64);
    let names: Vec<_> = integers.map(|input| format!("'{}'", input.name)).collect();
    (!names.is_empty()).then(|| {
        format!("`normalize` is for floats: the integers of the model's input {} stay as they are", names.join(", "))
    })
}
