//! The mark of a model that is no result: it was trained to audit its training.

use super::pb::{ModelProto, StringStringEntryProto};

/// Key of the metadata entry.
const KEY: &str = "damper.audit";

const TEXT: &str = "canary model: trained with made-up samples in the data, to audit its training; NOT a result, not to be used or \
                    given away";

/// Key of the metadata entry that holds a trained model's kind of run.
const RUN: &str = "damper.run";
/// The entry of a run that was stopped.
const UNFINISHED: &str = "damper.unfinished";
/// The entry of released means and deviations that the model's inputs are scaled by.
const NORMALIZE: &str = "damper.normalize";

/// The entry of the public constants that labels were scaled by.
const LABEL_SCALE: &str = "damper.label_scale";

/// Marks `model`, for readers of metadata and for people who look at the file.
pub fn mark(model: &mut ModelProto) {
    model.metadata_props.retain(|entry| entry.key != RUN);
    set(model, KEY, TEXT);
    model.doc_string = TEXT.into();
}

/// Writes into the metadata of `model` that it comes from a private run, or from a simulation.
pub fn set_run(model: &mut ModelProto, run: &str) {
    set(model, RUN, run);
}

/// Says in the metadata that the parameters are those after `steps` of `planned` steps.
pub fn set_unfinished(model: &mut ModelProto, steps: u32, planned: u32) {
    set(model, UNFINISHED, &format!("{steps} of {planned} steps"));
}

/// Removes what [`set_unfinished`] says.
pub fn set_finished(model: &mut ModelProto) {
    model.metadata_props.retain(|entry| entry.key != UNFINISHED);
}

/// Says in the metadata which released constants the inputs are to be scaled by, or removes what says so.
pub fn set_normalize(model: &mut ModelProto, constants: Option<&str>) {
    set_metadata(model, NORMALIZE, constants);
}

/// Keys of the metadata entries that hold names as JSON: of a table's columns, `{"columns":[...],"label":"..."}`, and of classes, `[...]`.
pub const COLUMNS: &str = "damper.columns";
/// That of classes.
pub const CLASSES: &str = "damper.classes";

/// The metadata's entry `key`, if there is one.
#[must_use]
pub fn metadata<'a>(model: &'a ModelProto, key: &str) -> Option<&'a str> {
    model.metadata_props.iter().find(|entry| entry.key == key).map(|entry| &*entry.value)
}

/// The metadata's entry `key` becomes `value`, or is removed.
pub fn set_metadata(model: &mut ModelProto, key: &str, value: Option<&str>) {
    model.metadata_props.retain(|entry| entry.key != key);
    value.iter().for_each(|value| set(model, key, value));
}

/// Says in the metadata by which mean and standard deviation labels were scaled in training: the model's output is in the labels' unit, and
/// its parameters are of the scaled ones.
pub fn set_label_scale(model: &mut ModelProto, mean: f64, std: f64) {
    set(model, LABEL_SCALE, &format!("{mean},{std}"));
}

/// The constants that [`set_label_scale`] has written, if there are any.
#[must_use]
pub fn label_scale(model: &ModelProto) -> Option<&str> {
    metadata(model, LABEL_SCALE)
}

/// The one entry `key` of the metadata becomes `value`.
fn set(model: &mut ModelProto, key: &str, value: &str) {
    model.metadata_props.retain(|entry| entry.key != key);
    model.metadata_props.push(StringStringEntryProto { key: key.into(), value: value.into() });
}

/// Returns true if `model` has the mark.
#[must_use]
pub fn is_marked(model: &ModelProto) -> bool {
    model.metadata_props.iter().any(|entry| entry.key == KEY)
}
