//! Names of columns and classes in a model's metadata. Later data are arranged in their order.

use crate::TrainError;
use damper_data::{DataError, DataNames, KnownNames};
use damper_onnx::pb::ModelProto;
use damper_onnx::{CLASSES, COLUMNS, metadata, set_metadata};
use serde::de::DeserializeOwned;

/// Returns the names that `model` has.
///
/// # Errors
///
/// A metadata entry does not have the form that [`set_data_names`] writes.
pub fn data_names(model: &ModelProto) -> Result<DataNames, TrainError> {
    fn entry<T: DeserializeOwned>(model: &ModelProto, key: &str) -> Result<Option<T>, TrainError> {
        metadata(model, key).map(serde_json::from_str).transpose().map_err(|error| {
            let problem =
                format!("its metadata '{key}' holds no names ({error}); take the entry out, or use another model");
            DataError::File(problem).into()
        })
    }
    Ok(DataNames { table: entry(model, COLUMNS)?, classes: entry(model, CLASSES)? })
}

/// Writes `names` into the metadata of `model`. Entries without a new name stay.
///
/// # Panics
///
/// Never, because names are valid JSON.
pub fn set_data_names(model: &mut ModelProto, names: &DataNames) {
    if let Some(table) = &names.table {
        set_metadata(model, COLUMNS, Some(&serde_json::to_string(table).expect("names are JSON")));
    }
    if let Some(classes) = &names.classes {
        set_metadata(model, CLASSES, Some(&serde_json::to_string(classes).expect("names are JSON")));
    }
}

/// Returns the names that are known before data is read: those of the run or the plan, otherwise those of the model.
pub(crate) fn known(given: Option<&KnownNames>, model: &ModelProto) -> Result<Option<KnownNames>, TrainError> {
    let own = data_names(model)?;
    Ok(match given {
        // If a plan has no names, the model's names apply.
        Some(known) => {
            let mut known = known.clone();
            known.names.table = known.names.table.or(own.table);
            known.names.classes = known.names.classes.or(own.classes);
            Some(known)
        }
        None if own == DataNames::default() => None,
        None => Some(KnownNames { names: own, origin: "the model".into(), are_all: false }),
    })
}
