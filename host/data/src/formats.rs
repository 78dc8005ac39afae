//! Formats of data sets. [`FORMATS`] is the only list of them. It determines the lists in messages, help and docs, the
//! formats that read a setting, and the format that a file extension suggests.
//!
//! To add a format, write its file in this folder, with a function like `csv::load`, and its entry in the table.

mod cifar;
mod csv;
pub(crate) mod guess;
mod idx;
mod images;
mod memory;
mod npy;
mod npz;
#[cfg(feature = "parquet")]
mod parquet;
pub(crate) mod sizes;
#[cfg(feature = "text")]
mod text;

use crate::dataset::Splits;
use crate::rows::Naming;
use crate::{ChannelLayout, DataError, DataOptions, LabelKind, TestSource, TextTask};
use damper_onnx::SettingError;
use std::path::Path;

/// Reads the training split, and the test split if the files have one.
type Read = fn(&Path, &DataOptions, &mut Naming) -> Result<Splits, DataError>;

/// A format of data sets, the kind in `KIND:PATH`.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Its names before the path. Lists show the first name.
    pub names: &'static [&'static str],
    /// The path for help texts, with a setting in backticks. `None` if users do not write it, as for arrays of a
    /// program.
    pub path: Option<&'static str>,
    /// True if its files may be gzipped.
    pub gzip: bool,
    /// The files of the test split, if there are any.
    pub test_split: Option<&'static str>,
    /// File extensions, without `.gz`, that suggest the format.
    pub ends: &'static [&'static str],
    /// Settings that it reads, among those that only some formats read.
    pub settings: &'static [&'static str],
    unit_of_privacy: fn(&DataOptions) -> &'static str,
    /// `None` if this build excludes the format. The Cargo feature has the name of the format.
    read: Option<Read>,
}

/// All formats, in the order of lists.
pub const FORMATS: &[Format] = &[
    Format {
        names: &["idx"],
        path: Some("FOLDER (MNIST's files)"),
        gzip: true,
        test_split: Some("the t10k- files"),
        ends: &["-ubyte"],
        settings: &["classes", "scale", "layout", "raw_bytes"],
        unit_of_privacy: |options| match has_labels(options) {
            false => "one image, an entry of the IDX file",
            true => "one image, an entry of the IDX file, with its label",
        },
        read: Some(|path, options, _| idx::load(path, options)),
    },
    Format {
        names: &["csv"],
        path: Some("FILE"),
        gzip: true,
        test_split: None,
        ends: &[".csv"],
        settings: &["delimiter", "classes", "categories", "scale", "layout", "raw_bytes"],
        unit_of_privacy: |options| match has_labels(options) {
            false => "one row of the CSV file",
            true => "one row of the CSV file, its label included",
        },
        read: Some(csv::load),
    },
    Format {
        names: &["npz"],
        path: Some("FILE"),
        gzip: false,
        test_split: Some("x_test, y_test"),
        ends: &[".npz"],
        settings: &["classes", "scale", "layout", "raw_bytes"],
        unit_of_privacy: |options| match has_labels(options) {
            false => "one entry of the NPZ file's array along its first axis",
            true => "one entry of the NPZ file's arrays along their first axis, with its label",
        },
        read: Some(|path, options, _| npz::load(path, options)),
    },
    Format {
        names: &["npy"],
        path: Some("FILE"),
        gzip: true,
        test_split: None,
        ends: &[".npy"],
        settings: &["classes", "scale", "labels", "test_labels", "layout", "raw_bytes"],
        unit_of_privacy: |options| match has_labels(options) {
            false => "one entry of the NPY file's array along its first axis",
            true => "one entry of the NPY file's array along its first axis, with its label",
        },
        read: Some(|path, options, _| npy::load(path, options)),
    },
    Format {
        names: &["images", "folder"],
        path: Some("FOLDER (a folder a class, PNG and JPEG)"),
        gzip: false,
        test_split: Some("the folder test, val, valid or validation"),
        ends: &[],
        settings: &["classes", "resize", "image_cache", "raw_bytes"],
        unit_of_privacy: |options| match has_labels(options) {
            false => "one image, a file of the folder",
            true => "one image, a file of the folder, with its class",
        },
        read: Some(images::load),
    },
    Format {
        names: &["cifar"],
        path: Some("PATH (batches of CIFAR-10 or CIFAR-100, their folder or archive)"),
        gzip: true,
        test_split: Some("test_batch or test"),
        ends: &[".tar"],
        settings: &["classes", "raw_bytes"],
        unit_of_privacy: |options| match has_labels(options) {
            false => "one image of the CIFAR batches",
            true => "one image of the CIFAR batches, with its label",
        },
        read: Some(|path, options, _| cifar::load(path, options)),
    },
    Format {
        names: &["parquet"],
        path: Some("FILE|FOLDER"),
        gzip: false,
        test_split: Some("files named test, validation, valid or dev"),
        ends: &[".parquet"],
        settings: &["classes", "categories", "scale", "layout", "resize", "image_cache", "raw_bytes"],
        unit_of_privacy: |options| match has_labels(options) {
            false => "one row of the Parquet files",
            true => "one row of the Parquet files, its label included",
        },
        #[cfg(feature = "parquet")]
        read: Some(parquet::load),
        #[cfg(not(feature = "parquet"))]
        read: None,
    },
    Format {
        names: &["text"],
        path: Some("FILE|FOLDER (.tsv, .csv, .txt; needs `tokenizer`)"),
        gzip: true,
        test_split: Some("dev, validation, valid or test"),
        ends: &[".tsv", ".txt"],
        settings: &["delimiter", "classes"],
        unit_of_privacy: |options| match options.text.task {
            TextTask::LanguageModel => {
                "one text, a line or row of the text file, as far as the model's length holds it"
            }
            TextTask::Classify => {
                "one text, a row of the text file, as far as the model's length holds it, with its label"
            }
        },
        #[cfg(feature = "text")]
        read: Some(text::load),
        #[cfg(not(feature = "text"))]
        read: None,
    },
    Format {
        names: &["memory"],
        path: None,
        gzip: false,
        test_split: None,
        ends: &[],
        settings: &["classes", "scale", "layout"],
        unit_of_privacy: |options| match has_labels(options) {
            false => "one entry of the program's array along its first axis",
            true => "one entry of the program's arrays along their first axis, with its label",
        },
        read: Some(|path, options, naming| memory::load(&path.to_string_lossy(), options, naming)),
    },
];

type IsGiven = fn(&DataOptions) -> bool;

/// The settings that only some formats read.
const SETTINGS: [(&str, IsGiven); 10] = [
    ("delimiter", |options| options.delimiter.is_some()),
    ("classes", |options| options.classes.is_some()),
    ("categories", |options| !options.categories.is_empty()),
    ("scale", |options| !options.scale.is_empty()),
    ("labels", |options| options.labels_file.is_some()),
    ("test_labels", |options| options.test_labels_file.is_some()),
    ("layout", |options| options.layout != ChannelLayout::Nchw),
    ("resize", |options| options.resize.is_some()),
    ("image_cache", |options| options.image_cache.is_some()),
    ("raw_bytes", |options| options.raw_bytes),
];

fn has_labels(options: &DataOptions) -> bool {
    options.labels != LabelKind::None
}

impl Format {
    /// Returns the meaning of one sample in data read with `options`.
    pub fn unit_of_privacy(&self, options: &DataOptions) -> &'static str {
        (self.unit_of_privacy)(options)
    }

    /// Reads the files at `path`.
    pub(crate) fn read(&self, path: &Path, options: &DataOptions, naming: &mut Naming) -> Result<Splits, DataError> {
        let Some(read) = self.read else {
            let kind = self.names[0];
            let problem = "this build leaves this kind out: build damper with its feature";
            return Err(DataError::File(format!("{kind}: {problem} {kind}")));
        };
        read(path, options, naming)
    }
}

/// Returns the extents of a sample for each input in `options`. Returns `None` unless the data of `spec` are arrays, or
/// texts with a declared length.
pub(crate) fn shapes(spec: &str, options: &DataOptions) -> Option<Vec<Vec<usize>>> {
    let (format, path) = find(spec, options).ok()?;
    let shapes = match format.names[0] {
        "npz" => npz::shapes(path, options).ok()?,
        "npy" => vec![npy::shape(path).ok()?],
        #[cfg(feature = "text")]
        "text" => vec![vec![0, text::declared_length(&options.text)?]; options.inputs.len()],
        "memory" => {
            let known = options.memory.as_ref()?.shapes();
            let of_input = |name: &str| known.iter().find(|(other, _)| other == name).map(|(_, shape)| shape.clone());
            match (&options.inputs[..], &known[..]) {
                ([_], [(_, shape)]) => vec![shape.clone()],
                (inputs, _) => inputs.iter().map(|input| of_input(&input.name)).collect::<Option<_>>()?,
            }
        }
        _ => return None,
    };
    let sample = |shape: Vec<usize>| {
        let mut extents: Vec<usize> = shape.into_iter().skip(1).collect();
        if options.layout == ChannelLayout::Nhwc && extents.len() > 2 {
            extents.rotate_right(1);
        }
        extents
    };
    Some(shapes.into_iter().map(sample).collect())
}

/// Returns the formats that users write.
fn written_by_hand() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().filter(|format| format.path.is_some())
}

/// Returns their first names, for messages.
fn kinds() -> String {
    written_by_hand().map(|format| format.names[0]).collect::<Vec<_>>().join(", ")
}

/// Returns the format and the path of `KIND:PATH`.
pub(crate) fn find<'a>(spec: &'a str, options: &DataOptions) -> Result<(&'static Format, &'a Path), DataError> {
    let (kind, path) = spec.split_once(':').filter(|(_, path)| !path.is_empty()).ok_or_else(|| {
        let likely = likely(spec).map_or(String::new(), |kind| format!(", such as {kind}:{spec}"));
        DataError::File(format!("{spec}: give KIND:PATH{likely}; KIND is one of {}", kinds()))
    })?;
    let is_known =
        |format: &&Format| format.names.contains(&kind) && (format.path.is_some() || options.memory.is_some());
    let format = FORMATS
        .iter()
        .find(is_known)
        .ok_or_else(|| DataError::File(format!("{spec}: unknown kind '{kind}': use one of {}", kinds())))?;
    Ok((format, Path::new(path)))
}

/// Returns the kind that a path suggests.
fn likely(path: &str) -> Option<&'static str> {
    let name = path.strip_suffix(".gz").unwrap_or(path);
    let found = FORMATS.iter().find(|format| format.ends.iter().any(|end| name.ends_with(end)));
    found.map(|format| format.names[0])
}

/// Returns an error if a setting is given that neither the format of `spec` nor that of the test split reads.
pub(crate) fn check_settings(spec: &str, options: &DataOptions) -> Result<(), SettingError> {
    let test = match &options.test {
        Some(TestSource::Spec(other)) => other,
        _ => spec,
    };
    for (setting, is_given) in SETTINGS {
        let reads = |format: &&Format| format.settings.contains(&setting);
        let takes = |spec: &str| {
            let of_kind = |kind| FORMATS.iter().filter(reads).any(|format| format.names.contains(&kind));
            spec.split_once(':').is_none_or(|(kind, _)| of_kind(kind))
        };
        if is_given(options) && !takes(spec) && !takes(test) {
            let kinds: Vec<_> = written_by_hand().filter(reads).flat_map(|format| format.names).copied().collect();
            return Err(SettingError::new(setting, "", format!("is for {}; leave it out", kinds.join(", "))));
        }
    }
    Ok(())
}
