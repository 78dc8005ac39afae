//! Metadata marks in a model, such as the mark of a model trained only to audit its training.

use super::pb::{ModelProto, StringStringEntryProto};

/// Key of the audit mark.
const KEY: &str = "damper.audit";

const TEXT: &str = "canary model: trained with made-up samples in the data, to audit its training; NOT a result, not to be used or \
                    given away";

/// Key for the kind of run of a trained model.
const RUN: &str = "damper.run";
/// Key for an unfinished run.
const UNFINISHED: &str = "damper.unfinished";
/// Key for the released means and deviations that scale the model's inputs.
const NORMALIZE: &str = "damper.normalize";

/// Key for the public constants that scaled the labels.
const LABEL_SCALE: &str = "damper.label_scale";

/// Marks `model` as trained for an audit, in its metadata and in its description for human readers.
pub fn mark(model: &mut ModelProto) {
    model.metadata_props.retain(|entry| entry.key != RUN);
    set(model, KEY, TEXT);
    model.doc_string = TEXT.into();
}

/// Records in the metadata that `model` comes from a private run or from a simulation.
pub fn set_run(model: &mut ModelProto, run: &str) {
    set(model, RUN, run);
}

/// Records in the metadata that the parameters are those after `steps` of `planned` steps.
pub fn set_unfinished(model: &mut ModelProto, steps: u32, planned: u32) {
    set(model, UNFINISHED, &format!("{steps} of {planned} steps"));
}

/// Removes the entry of [`set_unfinished`].
pub fn set_finished(model: &mut ModelProto) {
    model.metadata_props.retain(|entry| entry.key != UNFINISHED);
}

/// Records in the metadata the released constants by which to scale the inputs, or removes the entry.
pub fn set_normalize(model: &mut ModelProto, constants: Option<&str>) {
    set_metadata(model, NORMALIZE, constants);
}

/// Constants written by [`set_normalize`], if any.
#[must_use]
pub fn normalize(model: &ModelProto) -> Option<&str> {
    metadata(model, NORMALIZE)
}

/// Key for the names of a table's columns as JSON, `{"columns":[...],"label":"..."}`.
pub const COLUMNS: &str = "damper.columns";
/// Key for the names of classes as JSON, `[...]`.
pub const CLASSES: &str = "damper.classes";

/// Value of the metadata entry `key`, if there is one.
#[must_use]
pub fn metadata<'a>(model: &'a ModelProto, key: &str) -> Option<&'a str> {
    model.metadata_props.iter().find(|entry| entry.key == key).map(|entry| &*entry.value)
}

/// Sets the metadata entry `key` to `value`, or removes it.
pub fn set_metadata(model: &mut ModelProto, key: &str, value: Option<&str>) {
    model.metadata_props.retain(|entry| entry.key != key);
    value.iter().for_each(|value| set(model, key, value));
}

/// Records in the metadata the mean and standard deviation by which labels were scaled in training. The output of the
/// model is in the labels' unit, and its parameters are for scaled labels.
pub fn set_label_scale(model: &mut ModelProto, mean: f64, std: f64) {
    set(model, LABEL_SCALE, &format!("{mean},{std}"));
}

/// Constants written by [`set_label_scale`], if any.
#[must_use]
pub fn label_scale(model: &ModelProto) -> Option<&str> {
    metadata(model, LABEL_SCALE)
}

/// Sets the only metadata entry `key` to `value`.
fn set(model: &mut ModelProto, key: &str, value: &str) {
    model.metadata_props.retain(|entry| entry.key != key);
    model.metadata_props.push(StringStringEntryProto { key: key.into(), value: value.into() });
}

/// Returns true if `model` has the mark of an audit.
#[must_use]
pub fn is_marked(model: &ModelProto) -> bool {
    model.metadata_props.iter().any(|entry| entry.key == KEY)
}
