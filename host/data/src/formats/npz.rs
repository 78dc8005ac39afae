//! `npz:PATH`: arrays as `numpy.savez` and `numpy.savez_compressed` write them.
//!
//! Features are the array `x`, `X`, or the array with the name of the model input. Labels are `y` or `labels`. A file
//! with a test split has `x_train`, `y_train`, `x_test` and `y_test`. [`DataOptions::arrays`] sets other names. A model
//! with several inputs reads its features from arrays with the names of the inputs. Element types are those of npy, in
//! C order.

use super::npy::{MAGIC, read_array, read_header};
use crate::dataset::Splits;
use crate::error::same_for_all;
use crate::files::{DEFLATE_RATIO, FETCH_AGAIN, open_plain, read_failed};
use crate::numbers::Room;
use crate::rows::{Array, RawSplit, assemble};
use crate::{DataError, DataOptions, LabelKind, Split};
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use zip::ZipArchive;

/// Returns the extents of each input's array in the training split.
pub(super) fn shapes(path: &Path, options: &DataOptions) -> Result<Vec<Vec<usize>>, DataError> {
    let mut archive = Archive::open(path)?;
    let features = archive.feature_names(options);
    let suffix = if archive.has(&format!("{}_train", features[0])) { "_train" } else { "" };
    features.iter().map(|name| archive.shape(&format!("{name}{suffix}"))).collect()
}

pub(super) fn load(path: &Path, options: &DataOptions) -> Result<Splits, DataError> {
    let mut archive = Archive::open(path)?;
    let features = archive.feature_names(options);
    let labels = match (&options.labels, &options.arrays) {
        (LabelKind::None, _) => None,
        (_, Some((_, labels))) => Some(labels.clone()),
        (_, None) => Some(archive.labels_name(&features)?.to_owned()),
    };
    let suffix = if archive.has(&format!("{}_train", features[0])) { "_train" } else { "" };
    let train = archive.split(&features, labels.as_deref(), suffix, options)?;
    let test = if archive.has(&format!("{}_test", features[0])) {
        Some(archive.split(&features, labels.as_deref(), "_test", options)?)
    } else {
        None
    };
    Ok((train, test))
}

struct Archive {
    path: PathBuf,
    len: u64,
    zip: ZipArchive<BufReader<File>>,
}

impl Archive {
    fn open(path: &Path) -> Result<Archive, DataError> {
        let (mut file, len) = open_plain(path)?;
        let mut magic = [0; 6];
        if file.read_exact(&mut magic).is_ok() && magic == MAGIC {
            return Err(DataError::File(format!(
                "{}: is one array, as numpy.save writes it: use npy:{0}, and `labels` for the array of labels",
                path.display()
            )));
        }
        file.rewind().map_err(|error| read_failed(path, &error))?;
        Ok(Archive {
            path: path.to_path_buf(),
            len,
            zip: ZipArchive::new(BufReader::new(file)).map_err(|error| {
                DataError::File(format!("{}: is not a readable .npz archive ({error}): {FETCH_AGAIN}", path.display()))
            })?,
        })
    }

    /// Returns the extents of array `name`.
    fn shape(&mut self, name: &str) -> Result<Vec<usize>, DataError> {
        let origin = format!("{}, array '{name}'", self.path.display());
        let entry = self.zip.by_name(&format!("{name}.npy"));
        let mut entry = entry.map_err(|error| DataError::File(format!("{origin}: cannot be read ({error})")))?;
        Ok(read_header(&mut entry, &origin)?.1)
    }

    fn has(&self, name: &str) -> bool {
        self.names().any(|other| other == name)
    }

    /// Returns true if the archive has the array, or its training split.
    fn has_split(&self, name: &str) -> bool {
        self.has(name) || self.has(&format!("{name}_train"))
    }

    /// Returns the names of the arrays.
    fn names(&self) -> impl Iterator<Item = String> {
        self.zip.file_names().flatten().filter_map(|name| name.strip_suffix(".npy").map(str::to_owned))
    }

    fn feature_names(&self, options: &DataOptions) -> Vec<String> {
        if options.inputs.len() > 1 {
            return options.inputs.iter().map(|input| input.name.clone()).collect();
        }
        let name = match &options.arrays {
            Some((features, _)) => features,
            None => {
                let of_input = options.inputs.first().map(|input| &*input.name);
                ["x", "X"].into_iter().chain(of_input).find(|name| self.has_split(name)).unwrap_or("x")
            }
        };
        vec![name.to_string()]
    }

    /// Returns the name of the label array, which is not in `features`.
    fn labels_name(&self, features: &[String]) -> Result<&'static str, DataError> {
        let is_there = |name: &&str| self.has_split(name) && features.iter().all(|feature| feature != name);
        match (Some("y").filter(is_there), Some("labels").filter(is_there)) {
            (Some(_), Some(_)) => Err(DataError::File(format!(
                "{}: has an array 'y' and an array 'labels': name that of the labels by `arrays` X,Y",
                self.path.display()
            ))),
            (None, Some(labels)) => Ok(labels),
            _ => Ok("y"),
        }
    }

    fn split(
        &mut self,
        features: &[String],
        labels: Option<&str>,
        suffix: &str,
        options: &DataOptions,
    ) -> Result<Split, DataError> {
        let room = &options.room();
        let remedy = |name: &String| match options.inputs.len() {
            2.. => same_for_all(name),
            _ => String::new(),
        };
        let features = features.iter().map(|name| self.array(&format!("{name}{suffix}"), &remedy(name), room));
        let features = features.collect::<Result<Vec<_>, _>>()?;
        let labels = labels.map(|name| self.array(&format!("{name}{suffix}"), "", room)).transpose()?;
        assemble(RawSplit::new(features, labels), options)
    }

    /// Reads one array. Memory is bounded by the size of the archive's entry, regardless of its headers.
    fn array(&mut self, name: &str, remedy: &str, room: &Room) -> Result<Array, DataError> {
        if !self.has(name) {
            let mut names: Vec<String> = self.names().take(20).map(|name| format!("'{name}'")).collect();
            names.sort();
            return Err(DataError::File(format!(
                "{}: has no array '{name}'; it has {}: rename the array, or name those of features and labels by `arrays` X,Y{remedy}",
                self.path.display(),
                if names.is_empty() { "none".into() } else { names.join(", ") }
            )));
        }
        let origin = format!("{}, array '{name}'", self.path.display());
        let refuse = |fault: String| DataError::File(format!("{origin}: {fault}"));
        let mut entry = self
            .zip
            .by_name(&format!("{name}.npy"))
            .map_err(|error| refuse(format!("cannot be read ({error}): {FETCH_AGAIN}")))?;
        let limit = entry.size().min(self.len.saturating_mul(DEFLATE_RATIO));
        read_array(&mut entry, limit, origin, room)
    }
}
