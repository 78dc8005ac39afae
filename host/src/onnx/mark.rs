//! The mark of a model that is no result: it was trained to audit its training.

use super::pb::{ModelProto, StringStringEntryProto};

/// Key of the metadata entry.
const KEY: &str = "damper.audit";

const TEXT: &str = "canary model: trained with made-up samples in the data, to audit its training; NOT a result, not to be used or \
                    given away";

/// Marks `model`, for readers of metadata and for people who look at the file.
pub fn mark(model: &mut ModelProto) {
    model.metadata_props.retain(|entry| entry.key != KEY);
    model.metadata_props.push(StringStringEntryProto { key: KEY.into(), value: TEXT.into() });
    model.doc_string = TEXT.into();
}

/// Whether `model` has the mark.
#[must_use]
pub fn is_marked(model: &ModelProto) -> bool {
    model.metadata_props.iter().any(|entry| entry.key == KEY)
}
