//! Kinds of data set: names, and the meaning of a sample of each, which is the unit of privacy.

use super::{DataOptions, LabelKind, TextTask};

/// Kinds of data set, as messages list them.
pub(super) const KINDS: &str = "idx, csv, npz, npy, images, cifar, parquet, text";

/// A kind of data set. Every match is exhaustive, so a new kind cannot take the unit of privacy of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Idx,
    Csv,
    Npz,
    Npy,
    Images,
    Cifar,
    Parquet,
    Text,
    /// Arrays of a program; nobody writes it by hand.
    Memory,
}

impl Kind {
    /// The kind of the name in front of a path.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "idx" => Self::Idx,
            "csv" => Self::Csv,
            "npz" => Self::Npz,
            "npy" => Self::Npy,
            "images" | "folder" => Self::Images,
            "cifar" => Self::Cifar,
            "parquet" => Self::Parquet,
            "text" => Self::Text,
            "memory" => Self::Memory,
            _ => return None,
        })
    }

    /// The meaning of one sample.
    pub(super) fn sample(self, options: &DataOptions) -> &'static str {
        let is_labelled = options.labels != LabelKind::None;
        match (self, is_labelled) {
            (Self::Idx, false) => "one image, an entry of the IDX file",
            (Self::Idx, true) => "one image, an entry of the IDX file, with its label",
            (Self::Csv, false) => "one row of the CSV file",
            (Self::Csv, true) => "one row of the CSV file, its label included",
            (Self::Cifar, false) => "one image of the CIFAR batches",
            (Self::Cifar, true) => "one image of the CIFAR batches, with its label",
            (Self::Images, false) => "one image, a file of the folder",
            (Self::Images, true) => "one image, a file of the folder, with its class",
            (Self::Parquet, false) => "one row of the Parquet files",
            (Self::Parquet, true) => "one row of the Parquet files, its label included",
            (Self::Memory, false) => "one entry of the program's array along its first axis",
            (Self::Memory, true) => "one entry of the program's arrays along their first axis, with its label",
            (Self::Npy, false) => "one entry of the NPY file's array along its first axis",
            (Self::Npy, true) => "one entry of the NPY file's array along its first axis, with its label",
            (Self::Npz, false) => "one entry of the NPZ file's array along its first axis",
            (Self::Npz, true) => "one entry of the NPZ file's arrays along their first axis, with its label",
            (Self::Text, _) => match options.text.task {
                TextTask::LanguageModel => {
                    "one text, a line or row of the text file, as far as the model's length holds it"
                }
                TextTask::Classify => {
                    "one text, a row of the text file, as far as the model's length holds it, with its label"
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each kind that messages list names its own unit, and no other's.
    #[test]
    fn each_kind_names_its_unit() {
        let words = ["IDX", "CSV", "NPZ", "NPY", "folder", "CIFAR", "Parquet", "text", "program"];
        let names = KINDS.split(", ").chain(["memory"]);
        for labels in [LabelKind::None, DataOptions::default().labels] {
            let options = DataOptions { labels, ..DataOptions::default() };
            for name in names.clone() {
                let word = match name {
                    "images" => "folder",
                    "memory" => "program",
                    "text" => "text",
                    "parquet" => "Parquet",
                    other => &*other.to_uppercase(),
                };
                let unit = Kind::of(name).unwrap().sample(&options);
                let found: Vec<_> = words.iter().filter(|word| unit.contains(**word)).collect();
                assert_eq!(found, [&word], "{name}: {unit}");
                let is_labelled = unit.contains("label") || unit.contains("class");
                assert!(name == "text" || is_labelled == (options.labels != LabelKind::None), "{name}: {unit}");
            }
        }
        assert_eq!((Kind::of("folder"), Kind::of("tar")), (Some(Kind::Images), None));
    }
}
