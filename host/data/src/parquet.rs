//! `parquet:PATH`: a Parquet file, or a folder of them.
//!
//! In a folder, files whose names begin with `train` (or that lie in a folder `train`) are the training split, and those with `test`,
//! `validation`, `valid` or `dev` the test split; without such names all files are training rows. Hugging Face writes them so, below
//! `data/` too. Files of a split are read in the order of their names.
//!
//! If there is a column of images (`image` or `img`: bytes of PNG or JPEG files, or Hugging Face's struct of `bytes` and `path`), it is the
//! samples, and other columns than the label's are not read. Otherwise all columns but the label's are features: numbers, and categories
//! by public lists. The fields of a struct are columns, named `struct.field`. A column has the type that the file gives it: digits in a
//! column of text are no number. Uncompressed, Snappy, gzip and LZ4; Zstandard with the feature `zstd`.

mod arrow;
mod written;

use super::array::{Array, FETCH_AGAIN, open_plain};
use super::assemble::{Raw, assemble};
use super::columns::{Columns, Row, column, names as listed, summary};
use super::guard::guarded;
use super::names::{Naming, Order};
use super::number::Number;
use super::pictures::Form;
use super::table::Table;
use super::values::{Sink, Values};
use super::{DataError, DataOptions, LabelKind, Split, decoded};
use damper_onnx::SettingError;
use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use written::Written;

/// Names of the test split, the first that is there being taken.
const TEST: [&str; 4] = ["test", "validation", "valid", "dev"];
/// Names that the label's column usually has.
const LABELS: [&str; 3] = ["label", "class", "target"];
/// Names that a column of images usually has.
const IMAGES: [&str; 3] = ["image", "img", "images"];
const NO_IMAGE: &str = "the image has no bytes: write the data set with its images in it, not with their paths";
const DURATION: &str = "holds durations: write it as numbers, such as seconds in float64";
const NO_NUMBER: &str = "holds dates, times, decimals, half floats or fixed bytes: write it as float32 or int64";
/// Rows that are read at once.
const BLOCK: usize = 256;

pub(super) fn load(
    path: &Path,
    options: &DataOptions,
    naming: &mut Naming,
) -> Result<(Split, Option<Split>), DataError> {
    let (train, test) = if path.is_dir() { of_folder(path)? } else { (vec![path.to_path_buf()], vec![]) };
    // The library panics on some malformed files.
    let mut read = |files: &[PathBuf]| {
        guarded(|| split(path, files, options, naming)).unwrap_or_else(|| Err(corrupt(path, &"a page is malformed")))
    };
    let train = read(&train)?;
    let test = if test.is_empty() { None } else { Some(read(&test)?) };
    Ok((train, test))
}

fn corrupt(path: &Path, error: &dyn std::fmt::Display) -> DataError {
    let error = error.to_string();
    let error = error.strip_prefix("Parquet error: ").unwrap_or(&error);
    let remedy = if error.contains("codec") || error.contains("Disabled feature") {
        "write it with Snappy, gzip, LZ4 or Zstandard (for which damper must be built with its feature zstd)"
    } else {
        FETCH_AGAIN
    };
    DataError::File(format!("{}: is not a Parquet file that can be read ({error}): {remedy}", path.display()))
}

/// The files of both splits.
fn of_folder(path: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), DataError> {
    let data = path.join("data");
    let path = if data.is_dir() { &data } else { path };
    let list = |path: &Path| -> Result<Vec<PathBuf>, DataError> {
        let failed = |error| super::array::read_failed(path, &error);
        let entries = fs::read_dir(path).map_err(failed)?.map(|entry| entry.map(|entry| entry.path()));
        let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        entries.sort();
        Ok(entries)
    };
    let is_parquet = |file: &PathBuf| file.extension().is_some_and(|end| end == "parquet") && file.is_file();
    let entries = list(path)?;
    let of_split = |split: &str| -> Result<Vec<PathBuf>, DataError> {
        let folder = path.join(split);
        if folder.is_dir() {
            return Ok(list(&folder)?.into_iter().filter(is_parquet).collect());
        }
        let is_named = |file: &PathBuf| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.strip_prefix(split).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
        };
        Ok(entries.iter().filter(|file| is_parquet(file) && is_named(file)).cloned().collect())
    };
    let train = of_split("train")?;
    let test = TEST.iter().map(|name| of_split(name)).find(|files| !matches!(files, Ok(files) if files.is_empty()));
    let all: Vec<PathBuf> = entries.iter().filter(|file| is_parquet(file)).cloned().collect();
    match (train.is_empty(), all.is_empty()) {
        (false, _) => Ok((train, test.transpose()?.unwrap_or_default())),
        (true, false) if test.is_none() => Ok((all, vec![])),
        _ => Err(DataError::File(format!(
            "{}: holds no .parquet files of a training split: name the folder that does, or a file",
            path.display()
        ))),
    }
}

/// The columns to read, by their numbers among the leaves of the schema.
struct Plan<'a> {
    leaves: Vec<usize>,
    content: Content<'a>,
    has_label: bool,
}

enum Content<'a> {
    /// The image's leaf comes first, then the label's.
    Images {
        label: Columns<'a>,
    },
    Table(Columns<'a>),
}

impl<'a> Content<'a> {
    fn columns(&self) -> &Columns<'a> {
        match self {
            Content::Images { label } => label,
            Content::Table(columns) => columns,
        }
    }
}

fn open(path: &Path) -> Result<SerializedFileReader<File>, DataError> {
    let (file, _) = open_plain(path)?;
    SerializedFileReader::new(file).map_err(|error| corrupt(path, &error))
}

fn plan<'a>(
    path: &Path,
    reader: &dyn FileReader,
    options: &'a DataOptions,
    naming: &mut Naming,
    is_first: bool,
) -> Result<Plan<'a>, DataError> {
    let schema = reader.metadata().file_metadata().schema_descr();
    let written = Written::read(path, reader.metadata().file_metadata().key_value_metadata())?;
    let refused = |fault: String| DataError::File(format!("{}: {fault}", path.display()));
    let leaves = schema.columns();
    let parts = |leaf: usize| leaves[leaf].path().parts();
    let is_text = |leaf: usize| leaves[leaf].physical_type() == Physical::BYTE_ARRAY;
    // Columns by their leaves: a struct of an image is one.
    let is_image = |leaf: usize| {
        is_text(leaf) && IMAGES.contains(&&*parts(leaf)[0]) && (parts(leaf).len() == 1 || parts(leaf)[1..] == ["bytes"])
    };
    let image = (0..leaves.len()).find(|leaf| is_image(*leaf));
    let flat: Vec<usize> = match image {
        Some(_) => (0..leaves.len()).filter(|leaf| parts(*leaf).len() == 1 && Some(*leaf) != image).collect(),
        None => (0..leaves.len()).collect(),
    };
    let is_index = |leaf: &usize| written.index.contains(&parts(*leaf)[0]);
    let (index, flat): (Vec<usize>, Vec<usize>) = flat.into_iter().partition(is_index);
    let mut index: Vec<String> = index.iter().map(|leaf| leaves[*leaf].path().string()).collect();
    let all: Vec<String> = flat.iter().map(|leaf| leaves[*leaf].path().string()).collect();
    index.extend(written.ranges.iter().filter(|name| !all.contains(name)).cloned());
    for (setting, wanted) in named(options) {
        if index.contains(wanted) {
            let problem = "is pandas' index in the file, and no column; write with reset_index(), or name a column";
            return Err(SettingError::new(setting, wanted, problem).into());
        }
    }
    if !index.is_empty() {
        naming.note(format!("{}: left out, for pandas wrote it as the index: {}", path.display(), listed(&index)));
    }
    let choose = |all: &[String]| label_of(path, all, image.is_some(), options);
    let wanted = options.label_column.as_deref();
    if let Some(image) = image {
        // The image's column and the label's are the table.
        let label = naming.label(path, &all, &choose, wanted)?;
        let used: Vec<usize> = label.map(|label| flat[label]).into_iter().collect();
        used.iter().try_for_each(|leaf| check_type(path, &leaves[*leaf], &written))?;
        let only: Vec<String> = label.map(|label| all[label].clone()).into_iter().collect();
        let numbers = written.numbers(path, only.first(), options, naming)?;
        if is_first {
            let of_label = only.first().map_or("no label".into(), |label| format!("label '{label}'"));
            naming.note(format!("{}: images of column '{}'; {of_label}", path.display(), parts(image)[0]));
        }
        let columns = Columns::new(path, only, label.map(|_| 0), naming.classes(), options)?.numbered(numbers);
        let columns = columns.of_types(used.iter().map(|leaf| is_text(*leaf)).collect());
        let leaves = [vec![image], used].concat();
        return Ok(Plan { leaves, content: Content::Images { label: columns }, has_label: label.is_some() });
    }
    let order = naming.table(path, Some(all), flat.len(), &choose, wanted)?;
    naming.check_numbers(path, &options.columns(), &order)?;
    let Order { names, places, label } = order;
    let used: Vec<usize> = places.into_iter().map(|place| flat[place]).collect();
    used.iter().try_for_each(|leaf| check_type(path, &leaves[*leaf], &written))?;
    let numbers = written.numbers(path, label.map(|label| &names[label]), options, naming)?;
    let fields: Vec<String> =
        used.iter().filter(|leaf| parts(**leaf).len() > 1).map(|leaf| leaves[*leaf].path().string()).collect();
    if is_first {
        naming.note(format!("{}: {}", path.display(), summary(&names, label)));
    }
    if is_first && !fields.is_empty() {
        naming.note(format!("{}: fields of a struct are columns: {}", path.display(), listed(&fields)));
    }
    let columns = Columns::new(path, names, label, naming.classes(), options)?.numbered(numbers);
    let columns = columns.of_types(used.iter().map(|leaf| is_text(*leaf)).collect());
    if columns.width() == 0 {
        return Err(refused("has no column of features: use a file that does".into()));
    }
    Ok(Plan { leaves: used, content: Content::Table(columns), has_label: label.is_some() })
}

/// The column of labels among `all`: the one that the settings name, else the usual one, else the last of a table without images.
fn label_of(path: &Path, all: &[String], has_images: bool, options: &DataOptions) -> Result<Option<usize>, DataError> {
    match (&options.labels, &options.label_column) {
        (LabelKind::None, _) => Ok(None),
        (_, Some(_)) if all.is_empty() => {
            Err(DataError::File(format!("{}: has no column of labels: use a file that does", path.display())))
        }
        (_, Some(wanted)) => Ok(Some(column(path, all, wanted)?)),
        (_, None) => {
            let usual = LABELS.iter().find_map(|label| all.iter().position(|name| name == label));
            match usual {
                Some(usual) => Ok(Some(usual)),
                None if !has_images && !all.is_empty() => Ok(Some(all.len() - 1)),
                None => {
                    let problem = format!("no column is named label, class or target; name one of {}", listed(all));
                    Err(SettingError::new("label_column", "", problem).into())
                }
            }
        }
    }
}

/// Columns that the settings name.
fn named(options: &DataOptions) -> impl Iterator<Item = (&'static str, &String)> {
    let label = options.label_column.iter().map(|name| ("label_column", name));
    let categories = options.categories.iter().map(|(name, _)| ("categories", name));
    label.chain(categories).chain(options.scale.iter().map(|(name, ..)| ("scale", name)))
}

fn check_type(path: &Path, leaf: &ColumnDescriptor, written: &Written) -> Result<(), DataError> {
    let name = leaf.path().string();
    let refuse = |fault: &str| Err(DataError::File(format!("{}: column '{name}' {fault}", path.display())));
    if leaf.max_rep_level() > 0 {
        return refuse("holds lists: write each entry as a column of its own, or use npz");
    }
    if written.durations.contains(&name) {
        return refuse(DURATION);
    }
    // Nanoseconds have a logical type alone.
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

/// A value of a column.
enum Cell {
    Missing,
    Number(Number),
    Truth(bool),
    Text(ByteArray),
}

/// Reads up to `rows` values of a column.
fn cells(reader: &mut ColumnReader, rows: usize, is_unsigned: bool) -> Result<Vec<Cell>, ParquetError> {
    macro_rules! read {
        ($reader:expr, $cell:expr) => {{
            let (mut levels, mut values) = (Vec::new(), Vec::new());
            let (records, found, _) = $reader.read_records(rows, Some(&mut levels), None, &mut values)?;
            // Without levels every value is there.
            let full = levels.iter().copied().max().unwrap_or_default();
            let mut values = values.into_iter().map($cell);
            if levels.is_empty() || found == records {
                values.collect()
            } else if found == 0 {
                levels.iter().map(|_| Cell::Missing).collect()
            } else {
                let cell = |level: &i16| if *level == full { values.next() } else { Some(Cell::Missing) };
                levels.iter().map(cell).collect::<Option<Vec<_>>>().unwrap_or_default()
            }
        }};
    }
    Ok(match reader {
        ColumnReader::BoolColumnReader(reader) => read!(reader, Cell::Truth),
        ColumnReader::Int32ColumnReader(reader) if is_unsigned => {
            read!(reader, |value: i32| Cell::Number(i64::from(value.cast_unsigned()).into()))
        }
        ColumnReader::Int32ColumnReader(reader) => read!(reader, |value| Cell::Number(i64::from(value).into())),
        ColumnReader::Int64ColumnReader(reader) if is_unsigned => {
            read!(reader, |value: i64| Cell::Number(value.cast_unsigned().into()))
        }
        ColumnReader::Int64ColumnReader(reader) => read!(reader, |value: i64| Cell::Number(value.into())),
        ColumnReader::FloatColumnReader(reader) => read!(reader, |value: f32| Cell::Number(value.into())),
        ColumnReader::DoubleColumnReader(reader) => read!(reader, |value: f64| Cell::Number(value.into())),
        ColumnReader::ByteArrayColumnReader(reader) => read!(reader, Cell::Text),
        ColumnReader::Int96ColumnReader(_) | ColumnReader::FixedLenByteArrayColumnReader(_) => Vec::new(),
    })
}

fn split(path: &Path, files: &[PathBuf], options: &DataOptions, naming: &mut Naming) -> Result<Split, DataError> {
    let mut features = Features::new(options);
    let mut labels = Sink::new(&options.room());
    let (mut unreadable, mut rows, mut has_label) = (Vec::new(), 0, false);
    let mut label_scale = None;
    for (at, file) in files.iter().enumerate() {
        let reader = open(file)?;
        let failed = |error: ParquetError| corrupt(file, &error);
        let plan = plan(file, &reader, options, naming, at == 0)?;
        has_label = plan.has_label;
        label_scale = plan.content.columns().label_scale();
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let is_unsigned: Vec<bool> = plan
            .leaves
            .iter()
            .map(|leaf| {
                matches!(
                    schema.column(*leaf).converted_type(),
                    ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64
                )
            })
            .collect();
        for group in 0..reader.num_row_groups() {
            let group = reader.get_row_group(group).map_err(failed)?;
            let readers = plan.leaves.iter().map(|leaf| group.get_column_reader(*leaf));
            let mut readers = readers.collect::<Result<Vec<_>, _>>().map_err(failed)?;
            loop {
                let block =
                    readers.iter_mut().zip(&is_unsigned).map(|(reader, unsigned)| cells(reader, BLOCK, *unsigned));
                let block = block.collect::<Result<Vec<_>, _>>().map_err(failed)?;
                let count = block.first().map_or(0, Vec::len);
                if block.iter().any(|column| column.len() != count) {
                    return Err(corrupt(file, &"its columns have different lengths"));
                }
                if count == 0 {
                    break;
                }
                let faults = features.add(file, &plan.content, &block, &mut labels)?;
                unreadable.extend(faults.into_iter().map(|(row, fault)| (rows + row, fault)));
                rows += count;
            }
        }
    }
    let origin = path.display().to_string();
    let is_scaled = features.table.is_some();
    let (shape, values) = features.finish()?;
    let of_labels = || labels.finish().map(|values| Array { origin: origin.clone(), shape: vec![rows], values });
    let labels = has_label.then(of_labels).transpose()?;
    let shape = [&[rows], &shape[..]].concat();
    let features = vec![Array { origin, shape, values }];
    assemble(Raw { unreadable, is_scaled, label_scale, ..Raw::new(features, labels) }, options)
}

/// The samples, as they are read.
struct Features<'a> {
    options: &'a DataOptions,
    table: Option<Table>,
    pixels: Sink<u8>,
    form: Option<Form>,
}

impl<'a> Features<'a> {
    fn new(options: &'a DataOptions) -> Self {
        Self { options, table: None, pixels: Sink::new(&options.room()), form: None }
    }

    /// Adds a block of rows. Returns the rows that are bad, and why.
    fn add(
        &mut self,
        file: &Path,
        content: &Content<'_>,
        block: &[Vec<Cell>],
        labels: &mut Sink<Number>,
    ) -> Result<Vec<(usize, String)>, DataError> {
        let other = || {
            DataError::File(format!(
                "{}: has other columns than the files before it: use files that belong together",
                file.display()
            ))
        };
        match content {
            Content::Table(columns) => {
                if self.table.is_none() {
                    self.table = Some(Table::new(columns, self.options)?);
                }
                let table = self.table.as_mut().filter(|table| table.width() == columns.width());
                let (Some(table), None) = (table, self.form) else { return Err(other()) };
                let (mut faults, mut row) = (Vec::new(), Row::default());
                for at in 0..block[0].len() {
                    row.features.clear();
                    let mut fault = None;
                    for (column, cells) in block.iter().enumerate() {
                        if let Err(problem) = add(columns, column, &cells[at], &mut row) {
                            fault.get_or_insert(problem);
                        }
                    }
                    faults.extend(table.push(&row, fault)?.map(|fault| (at, fault)));
                    labels.push(&[row.label])?;
                }
                Ok(faults)
            }
            Content::Images { label } => {
                if self.table.is_some() {
                    return Err(other());
                }
                let bytes: Vec<Vec<u8>> = block[0]
                    .iter()
                    .map(|cell| if let Cell::Text(bytes) = cell { bytes.data().to_vec() } else { vec![] })
                    .collect();
                if bytes[0].is_empty() && self.form.is_none() {
                    return Err(DataError::File(format!("{}: row 0: {NO_IMAGE}", file.display())));
                }
                let form = match self.form {
                    Some(form) => form,
                    None => Form::new(self.options, &bytes[0])
                        .map_err(|fault| DataError::File(format!("{}: row 0: {fault}", file.display())))?,
                };
                self.form = Some(form);
                let mut faults = Vec::new();
                for (at, image) in decoded::pixels(form, &bytes, self.options)?.into_iter().enumerate() {
                    let image = if bytes[at].is_empty() { Err(NO_IMAGE.to_owned()) } else { image };
                    let mut row = Row::default();
                    let labelled = block.get(1).map_or(Ok(()), |cells| add(label, 0, &cells[at], &mut row));
                    faults.extend(image.as_ref().err().or(labelled.as_ref().err()).map(|fault| (at, fault.clone())));
                    self.pixels.push(&image.unwrap_or_else(|_| vec![0; form.len()]))?;
                    labels.push(&[row.label])?;
                }
                Ok(faults)
            }
        }
    }

    fn finish(self) -> Result<(Vec<usize>, Values), DataError> {
        match (self.form, self.table) {
            (None, Some(table)) => Ok((vec![table.width()], table.finish()?)),
            (form, _) => Ok((form.map_or(vec![0], |form| form.shape()), self.pixels.finish()?)),
        }
    }
}

/// Adds a value to a row.
fn add(columns: &Columns<'_>, column: usize, cell: &Cell, row: &mut Row) -> Result<(), String> {
    match cell {
        Cell::Missing => columns.text(column, "", row),
        Cell::Number(number) => columns.number(column, *number, row),
        Cell::Truth(truth) => columns.truth(column, *truth, row),
        Cell::Text(bytes) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => columns.text(column, text.trim(), row),
            Err(_) => columns.text(column, "not UTF-8", row),
        },
    }
}
