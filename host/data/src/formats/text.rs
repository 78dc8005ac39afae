//! `text:PATH`: texts, converted to the integers of a tokenizer file.
//!
//! PATH is a table (`.tsv`, or `.csv` as in RFC 4180) with column names in its first line. It may also be a `.txt` file
//! with one text per line. Or it is a folder with `train` and, for the test split, `dev`, `validation`, `valid` or
//! `test`, with one of these extensions. Each file may be gzipped. One row is one sample.
//!
//! A text is used unchanged, including white space at its ends. It is truncated to the model's sequence length S and
//! padded to it, on the sides that the tokenizer file names. If the file's own length is shorter, that length applies.
//! The names of the model's inputs determine their contents: `input_ids`, `attention_mask` (1 on tokens, 0 on padding)
//! and `token_type_ids`, each `[N, S]`. A model with one input receives the ids, for any name. Labels are the numbers
//! of the label column ([`TextTask::Classify`]), or each token's successor ([`TextTask::LanguageModel`]).
//!
//! The tokenizer must be public. A tokenizer that was trained on the private texts reveals their words, and ε does not
//! cover that.

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
pub(super) use tokenize::{declared_length, sizes};

/// File stems of a folder's splits. The first existing stem is used.
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
