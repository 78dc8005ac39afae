//! Checks of the declared settings of the data against the model, before any row is read. They use public facts alone.

use crate::options::{DataOptions, LabelKind};
use damper_onnx::{DType, SettingError};

/// Refuses lists of categories that are longer than the table that they look up, and an output of one number as classes.
pub(crate) fn check(options: &DataOptions) -> Result<(), SettingError> {
    if let LabelKind::Classes { classes: Some(1), .. } = &options.labels {
        let problem = "the model's output has one number where classes are, and of one class nothing is learned; use bce-with-logits, or mse";
        return Err(SettingError::new("loss", "softmax-cross-entropy", problem));
    }
    // Columns of categories become numbers of an integer input, which looks up rows of a table.
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

/// The inputs that take integers, which constants are not applied to, as a note.
pub(crate) fn not_normalized(options: &DataOptions) -> Option<String> {
    options.normalize.as_ref()?;
    let integers = options.inputs.iter().filter(|input| input.dtype == DType::I64);
    let names: Vec<_> = integers.map(|input| format!("'{}'", input.name)).collect();
    (!names.is_empty()).then(|| {
        format!("`normalize` is for floats: the integers of the model's input {} stay as they are", names.join(", "))
    })
}
