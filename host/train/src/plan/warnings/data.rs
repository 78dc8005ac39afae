//! Warnings about rows, for the owner of the data. They are not written to released files.

use crate::TrainError;
use damper_data::{Dataset, Labels};

/// Labels count as unscaled if most of their magnitudes are above this.
const LARGE_LABEL: f32 = 1000.0;

/// Returns all of these warnings.
pub(in crate::plan) fn all(data: &Dataset) -> Result<impl Iterator<Item = String>, TrainError> {
    Ok([shared_rows(data)?, one_class(data), large_labels(data)].into_iter().flatten())
}

fn shared_rows(data: &Dataset) -> Result<Option<String>, TrainError> {
    Ok(data.shares_rows()?.then(|| {
        "`test`: held-out rows are equal to training rows, so the metrics are not of unseen rows; remove them from one of the two"
            .into()
    }))
}

fn one_class(data: &Dataset) -> Option<String> {
    let class = data.train.only_class()?;
    let names = data.names.classes.as_ref();
    let class = match names.and_then(|names| names.get(usize::try_from(class).ok()?)) {
        Some(name) => format!("'{name}' ({class})"),
        None => class.to_string(),
    };
    Some(format!("`data`: every training row has the label {class}, so the model learns to give no other"))
}

/// Warns of labels in a unit that the model can hardly learn: most are far from 0, and none are scaled.
fn large_labels(data: &Dataset) -> Option<String> {
    let Labels::Values { values, .. } = data.train.labels() else { return None };
    let large = values.iter().filter(|value| value.abs() > LARGE_LABEL).count();
    (data.train.label_scale().is_none() && 2 * large > values.len()).then(|| {
        format!(
            "`loss` mse: most labels are above {LARGE_LABEL} in size, and clipped gradients hardly get there; give their public mean and \
             standard deviation by `scale` LABEL=MEAN,STD (LABEL is the label's column, or labels where columns have no names), or \
             LABEL=0,1 to train on them as they are"
        )
    })
}
