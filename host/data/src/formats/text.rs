//! `text:PATH`: texts, turned into the integers that a tokenizer file gives them.
//!
//! PATH is a table (`.tsv`, or `.csv` as RFC 4180 has it) whose first line names its columns, a `.txt` file with one
//! text a line, or a folder that holds `train` and, for the test split, `dev`, `validation`, `valid` or `test` with one
//! of these endings. Each may be gzipped. One row is one sample.
//!
//! A text is taken as it is, white space at its ends included. It is cut to the model's sequence length S and padded to it, on
//! the sides that the tokenizer file names, and to the file's own length if that is shorter. What the model is given goes by the names of its
//! inputs: `input_ids`, `attention_mask` (1 on tokens, 0 on padding) and `token_type_ids`, each `[N, S]`; a model with
//! one input gets the ids, whatever its name. Labels are the label column's numbers ([`TextTask::Classify`]), or each
//! token's successor ([`TextTask::LanguageModel`]).
//!
//! The tokenizer is taken to be public: one that was trained on the private texts carries their words out, outside of ε.

mod lines_and_tables;
mod pattern;
mod tokenize;

use crate::dataset::Splits;
use crate::rows::{Array, Naming, RawSplit, assemble};
use crate::{DataError, DataOptions, LabelKind, Split, TextTask};
use damper_onnx::SettingError;
use lines_and_tables::Rows;
use std::path::{Path, PathBuf};
use tokenize::Tokens;
pub(super) use tokenize::declared_length;

/// Stems of the files of a folder's splits, the first that is there being taken.
const TRAIN: &[&str] = &["train"];
const TEST: &[&str] = &["dev", "validation", "valid", "test"];

pub(super) fn load(path: &Path, options: &DataOptions, naming: &mut Naming) -> Result<Splits, DataError> {
    if options.normalize.is_some() {
        return Err(SettingError::new("normalize", "", "tokens are not scaled; leave it out").into());
    }
    if options.text.task == TextTask::LanguageModel
        && matches!(options.labels, LabelKind::Values { .. } | LabelKind::Chances { .. })
    {
        let problem = "its labels are tokens, which are classes: use `loss` softmax-cross-entropy";
        return Err(SettingError::new("task", "language-model", problem).into());
    }
    let (train, test) = if path.is_dir() {
        let train = find(path, TRAIN).ok_or_else(|| {
            DataError::File(format!(
                "{}: holds no train.tsv, train.csv or train.txt, plain or .gz: name the folder that does, or a file",
                path.display()
            ))
        })?;
        (train, find(path, TEST))
    } else {
        (path.to_path_buf(), None)
    };
    let tokens = Tokens::open(options)?;
    let mut split =
        |path: &Path| -> Result<Split, DataError> { assemble(raw(path, &tokens, options, naming)?, options) };
    let train = split(&train)?;
    let test = test.as_deref().map(split).transpose()?;
    Ok((train, test))
}

fn find(folder: &Path, stems: &[&str]) -> Option<PathBuf> {
    let names = stems.iter().flat_map(|stem| {
        ["tsv", "csv", "txt"].into_iter().flat_map(move |end| ["", ".gz"].map(|gz| format!("{stem}.{end}{gz}")))
    });
    names.map(|name| folder.join(name)).find(|file| file.is_file())
}

fn raw(path: &Path, tokens: &Tokens, options: &DataOptions, naming: &mut Naming) -> Result<RawSplit, DataError> {
    let origin = path.display().to_string();
    let mut encoder = tokens.encoder(&options.room());
    let Rows { labels, lines, mut unreadable } =
        lines_and_tables::read(path, options, naming, &mut |texts| encoder.add(texts))?;
    let encoded = encoder.finish(&origin)?;
    unreadable.extend(encoded.unreadable);
    let labels = match (&options.labels, options.text.task) {
        (LabelKind::None, _) => None,
        (_, TextTask::LanguageModel) => encoded.successors,
        (_, TextTask::Classify) => labels.map(|values| Array { origin, shape: vec![lines.len()], values }),
    };
    unreadable.sort_by_key(|(row, _)| *row);
    Ok(RawSplit { unreadable, lines: Some(lines), ..RawSplit::new(encoded.features, labels) })
}
