//! Names of columns and classes in a model's metadata: the data that the model is used with is put in their order.

use crate::TrainError;
use damper_data::{DataError, DataNames, KnownNames};
use damper_onnx::pb::ModelProto;
use damper_onnx::{CLASSES, COLUMNS, metadata, set_metadata};
use serde::de::DeserializeOwned;

/// The names that `model` holds.
///
/// # Errors
///
/// An entry of the metadata is not as [`set_data_names`] writes it.
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

/// Writes `names` into the metadata of `model`; what is not named stays.
///
/// # Panics
///
/// Never: names are JSON.
pub fn set_data_names(model: &mut ModelProto, names: &DataNames) {
    if let Some(table) = &names.table {
        set_metadata(model, COLUMNS, Some(&serde_json::to_string(table).expect("names are JSON")));
    }
    if let Some(classes) = &names.classes {
        set_metadata(model, CLASSES, Some(&serde_json::to_string(classes).expect("names are JSON")));
    }
}

/// Names that are known before data is read: `given`, of a run or a plan, else those of the model.
pub(crate) fn known(given: Option<&KnownNames>, model: &ModelProto) -> Result<Option<KnownNames>, TrainError> {
    let own = data_names(model)?;
    Ok(match given {
        // A plan that names nothing leaves it to the model.
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
