//! Selects the columns of a file that are read, and their use.

use super::metadata::Metadata;
use crate::rows::{Columns, Naming, Order, USUAL_LABELS, column, quoted, summary};
use crate::{DataError, DataOptions, LabelKind};
use damper_onnx::SettingError;
use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::file::reader::FileReader;
use parquet::schema::types::ColumnDescriptor;
use std::path::Path;

/// Usual names of an image column.
const IMAGES: [&str; 3] = ["image", "img", "images"];
/// Faults of columns.
const DURATION: &str = "holds durations: write it as numbers, such as seconds in float64";
const NO_NUMBER: &str = "holds dates, times, decimals, half floats or fixed bytes: write it as float32 or int64";

/// The columns to read, as indices among the leaves of the schema.
pub(super) struct ChosenColumns<'a> {
    pub leaves: Vec<usize>,
    pub content: Content<'a>,
    pub has_label: bool,
}

/// The samples of a file: images, or rows of a table.
pub(super) enum Content<'a> {
    /// The image's leaf comes first, then that of the label.
    Images {
        label: Columns<'a>,
    },
    Table(Columns<'a>),
}

impl<'a> Content<'a> {
    pub fn columns(&self) -> &Columns<'a> {
        match self {
            Content::Images { label } => label,
            Content::Table(columns) => columns,
        }
    }
}

/// Chooses the columns of the file at `path`.
pub(super) fn choose<'a>(
    path: &Path,
    reader: &dyn FileReader,
    options: &'a DataOptions,
    naming: &mut Naming,
    is_first: bool,
) -> Result<ChosenColumns<'a>, DataError> {
    let schema = reader.metadata().file_metadata().schema_descr();
    let metadata = Metadata::read(path, reader.metadata().file_metadata().key_value_metadata())?;
    let refused = |fault: String| DataError::File(format!("{}: {fault}", path.display()));
    let leaves = schema.columns();
    let parts = |leaf: usize| leaves[leaf].path().parts();
    let is_text = |leaf: usize| leaves[leaf].physical_type() == Physical::BYTE_ARRAY;
    // Columns are listed by their leaves, so a struct of an image is one column.
    let is_image = |leaf: usize| {
        is_text(leaf) && IMAGES.contains(&&*parts(leaf)[0]) && (parts(leaf).len() == 1 || parts(leaf)[1..] == ["bytes"])
    };
    let image = (0..leaves.len()).find(|leaf| is_image(*leaf));
    let flat: Vec<usize> = match image {
        Some(_) => (0..leaves.len()).filter(|leaf| parts(*leaf).len() == 1 && Some(*leaf) != image).collect(),
        None => (0..leaves.len()).collect(),
    };
    let is_index = |leaf: &usize| metadata.index.contains(&parts(*leaf)[0]);
    let (index, flat): (Vec<usize>, Vec<usize>) = flat.into_iter().partition(is_index);
    let mut index: Vec<String> = index.iter().map(|leaf| leaves[*leaf].path().string()).collect();
    let all: Vec<String> = flat.iter().map(|leaf| leaves[*leaf].path().string()).collect();
    index.extend(metadata.ranges.iter().filter(|name| !all.contains(name)).cloned());
    for (setting, wanted) in named(options) {
        if index.contains(wanted) {
            let problem = "is pandas' index in the file, and no column; write with reset_index(), or name a column";
            return Err(SettingError::new(setting, wanted, problem).into());
        }
    }
    if !index.is_empty() {
        naming.note(format!("{}: left out, for pandas wrote it as the index: {}", path.display(), quoted(&index)));
    }
    let choose = |all: &[String]| label_of(path, all, image.is_some(), options);
    let wanted = options.label_column.as_deref();
    if let Some(image) = image {
        // The image column and the label column are the table.
        let label = naming.label(path, &all, &choose, wanted)?;
        let used: Vec<usize> = label.map(|label| flat[label]).into_iter().collect();
        used.iter().try_for_each(|leaf| check_type(path, &leaves[*leaf], &metadata))?;
        let only: Vec<String> = label.map(|label| all[label].clone()).into_iter().collect();
        let numbers = metadata.numbers(path, only.first(), options, naming)?;
        if is_first {
            let of_label = only.first().map_or("no label".into(), |label| format!("label '{label}'"));
            naming.note(format!("{}: images of column '{}'; {of_label}", path.display(), parts(image)[0]));
        }
        let columns = Columns::new(path, only, label.map(|_| 0), naming.classes(), options)?.numbered(numbers);
        let columns = columns.of_types(used.iter().map(|leaf| is_text(*leaf)).collect());
        let leaves = [vec![image], used].concat();
        return Ok(ChosenColumns { leaves, content: Content::Images { label: columns }, has_label: label.is_some() });
    }
    let order = naming.table(path, Some(all), flat.len(), &choose, wanted)?;
    naming.check_numbers(path, &options.columns(), &order)?;
    let Order { names, places, label } = order;
    let used: Vec<usize> = places.into_iter().map(|place| flat[place]).collect();
    used.iter().try_for_each(|leaf| check_type(path, &leaves[*leaf], &metadata))?;
    let numbers = metadata.numbers(path, label.map(|label| &names[label]), options, naming)?;
    let fields: Vec<String> =
        used.iter().filter(|leaf| parts(**leaf).len() > 1).map(|leaf| leaves[*leaf].path().string()).collect();
    if is_first {
        naming.note(format!("{}: {}", path.display(), summary(&names, label)));
    }
    if is_first && !fields.is_empty() {
        naming.note(format!("{}: fields of a struct are columns: {}", path.display(), quoted(&fields)));
    }
    let columns = Columns::new(path, names, label, naming.classes(), options)?.numbered(numbers);
    let columns = columns.of_types(used.iter().map(|leaf| is_text(*leaf)).collect());
    if columns.width() == 0 {
        return Err(refused("has no column of features: use a file that does".into()));
    }
    Ok(ChosenColumns { leaves: used, content: Content::Table(columns), has_label: label.is_some() })
}

/// Returns the label column among `all`: the column in the settings, otherwise a usual name, otherwise the last column
/// of a table without images.
fn label_of(path: &Path, all: &[String], has_images: bool, options: &DataOptions) -> Result<Option<usize>, DataError> {
    match (&options.labels, &options.label_column) {
        (LabelKind::None, _) => Ok(None),
        (_, Some(_)) if all.is_empty() => {
            Err(DataError::File(format!("{}: has no column of labels: use a file that does", path.display())))
        }
        (_, Some(wanted)) => Ok(Some(column(path, all, wanted)?)),
        (_, None) => {
            let usual = USUAL_LABELS.iter().find_map(|label| all.iter().position(|name| name == label));
            match usual {
                Some(usual) => Ok(Some(usual)),
                None if !has_images && !all.is_empty() => Ok(Some(all.len() - 1)),
                None => {
                    let problem = format!("no column is named label, class or target; name one of {}", quoted(all));
                    Err(SettingError::new("label_column", "", problem).into())
                }
            }
        }
    }
}

/// Returns the columns that the settings name.
fn named(options: &DataOptions) -> impl Iterator<Item = (&'static str, &String)> {
    let label = options.label_column.iter().map(|name| ("label_column", name));
    let categories = options.categories.iter().map(|(name, _)| ("categories", name));
    label.chain(categories).chain(options.scale.iter().map(|(name, ..)| ("scale", name)))
}

fn check_type(path: &Path, leaf: &ColumnDescriptor, metadata: &Metadata) -> Result<(), DataError> {
    let name = leaf.path().string();
    let refuse = |fault: &str| Err(DataError::File(format!("{}: column '{name}' {fault}", path.display())));
    if leaf.max_rep_level() > 0 {
        return refuse("holds lists: write each entry as a column of its own, or use npz");
    }
    if metadata.durations.contains(&name) {
        return refuse(DURATION);
    }
    // Nanoseconds have only a logical type.
    if matches!(leaf.logical_type_ref(), Some(LogicalType::Timestamp { .. } | LogicalType::Time { .. })) {
        return refuse(NO_NUMBER);
    }
    match (leaf.physical_type(), leaf.converted_type()) {
        (
            _,
            ConvertedType::DECIMAL
            | ConvertedType::DATE
            | ConvertedType::TIME_MILLIS
            | ConvertedType::TIME_MICROS
            | ConvertedType::TIMESTAMP_MILLIS
            | ConvertedType::TIMESTAMP_MICROS,
        )
        | (Physical::INT96 | Physical::FIXED_LEN_BYTE_ARRAY, _) => refuse(NO_NUMBER),
        _ => Ok(()),
    }
}
