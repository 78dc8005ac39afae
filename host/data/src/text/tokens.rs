//! A tokenizer file, and the arrays of tokens that a model takes.

use super::super::array::Array;
use super::super::assemble::DROP;
use super::super::dataset::IGNORED;
use super::super::guard::guarded;
use super::super::options::TextTask;
use super::super::values::{Room, Sink};
use super::super::{DataError, DataOptions, InputShape, LabelKind};
use damper_onnx::SettingError;
use damper_onnx::graph::DType;
use serde_json::Value;
use std::path::Path;
use tokenizers::{Encoding, Tokenizer, TruncationParams};

/// Names that a padding token usually has, where the file does not say.
const PADDING: &[&str] = &["[PAD]", "<pad>", "<|pad|>", "<|padding|>", "<|endoftext|>", "</s>"];

/// What an input of the model is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Ids,
    Mask,
    Types,
}

/// A tokenizer, set up for a model.
pub(super) struct Tokens {
    tokenizer: Tokenizer,
    roles: Vec<Role>,
    /// S.
    length: usize,
    /// Tokens that are kept of a text.
    kept: usize,
    pad: u32,
    task: TextTask,
}

/// Texts as the model takes them, `[N, S]` each.
pub(super) struct Encoded {
    /// One a model input.
    pub features: Vec<Array>,
    /// The labels of a language model.
    pub successors: Option<Array>,
    /// Rows that the tokenizer refused, ascending, and why.
    pub unreadable: Vec<(usize, String)>,
}

impl Tokens {
    pub(super) fn open(options: &DataOptions) -> Result<Self, DataError> {
        let file = options.text.tokenizer.as_ref().ok_or_else(|| {
            DataError::File("text: give the tokenizer's file with `tokenizer`, such as tokenizer.json".into())
        })?;
        let mut tokenizer = read(file)?;
        let (roles, length) = roles(&options.inputs)?;
        let kept = options.text.max_length.unwrap_or(length);
        if kept > length {
            let problem = format!("the model takes {length} tokens: give at most that");
            return Err(SettingError::new("max_length", kept, problem).into());
        }
        let special = tokenizer.encode_fast("", true).map_err(|error| broken(file, &error))?.len();
        if kept <= special {
            let problem = format!("the tokenizer adds {special} tokens to each text: give more than that");
            return Err(SettingError::new("max_length", kept, problem).into());
        }
        check_labels(length, options)?;
        check_vocabulary(file, &tokenizer, &roles, options)?;
        let pad = match tokenizer.get_padding() {
            Some(padding) => padding.pad_id,
            None => PADDING.iter().find_map(|token| tokenizer.token_to_id(token)).ok_or_else(|| {
                DataError::File(format!("{}: names no padding token: save it with enable_padding", file.display()))
            })?,
        };
        let task = options.text.task;
        tokenizer.with_padding(None);
        // A language model learns what follows its last token too; a text that goes on has no end there.
        let cut = (task == TextTask::Classify).then(|| TruncationParams { max_length: kept, ..Default::default() });
        tokenizer.with_truncation(cut).map_err(|error| broken(file, &error))?;
        Ok(Self { tokenizer, roles, length, kept, pad, task })
    }

    /// Begins the arrays of a split.
    pub(super) fn encoder(&self, room: &Room) -> Encoder<'_> {
        Encoder {
            tokens: self,
            texts: 0,
            columns: self.roles.iter().map(|_| Sink::new(room)).collect(),
            successors: (self.task == TextTask::LanguageModel).then(|| Sink::new(room)),
            unreadable: Vec::new(),
        }
    }

    fn fill(&self, role: Role, encoding: &Encoding, row: &mut [i64]) {
        let from = match role {
            Role::Ids => encoding.get_ids(),
            Role::Mask => encoding.get_attention_mask(),
            Role::Types => encoding.get_type_ids(),
        };
        for (to, from) in row.iter_mut().zip(from.iter().take(self.kept)) {
            *to = i64::from(*from);
        }
    }
}

/// Texts on their way to arrays.
pub(super) struct Encoder<'a> {
    tokens: &'a Tokens,
    texts: usize,
    columns: Vec<Sink<i64>>,
    successors: Option<Sink<i64>>,
    unreadable: Vec<(usize, String)>,
}

impl Encoder<'_> {
    /// Tokenizes a block of texts side by side. A text that the tokenizer refuses becomes a bad row.
    pub(super) fn add(&mut self, texts: &[String]) -> Result<(), DataError> {
        let Tokens { tokenizer, roles, length, kept, pad, .. } = self.tokens;
        let empty = |role: &Role| if *role == Role::Ids { i64::from(*pad) } else { 0 };
        let mut row = vec![0; *length];
        let all = tokenizer.encode_batch_fast(texts.iter().map(String::as_str).collect(), true);
        let each: Vec<_> = match all {
            Ok(all) => all.into_iter().map(Ok).collect(),
            Err(_) => texts.iter().map(|text| tokenizer.encode_fast(text.as_str(), true)).collect(),
        };
        for (number, encoding) in (self.texts..).zip(each) {
            let encoding = encoding.map_err(|error| {
                self.unreadable.push((number, format!("cannot be tokenized ({error}): correct the row{DROP}")));
            });
            for (role, column) in roles.iter().zip(&mut self.columns) {
                row.fill(empty(role));
                if let Ok(encoding) = &encoding {
                    self.tokens.fill(*role, encoding, &mut row);
                }
                column.push(&row)?;
            }
            if let Some(labels) = &mut self.successors {
                row.fill(IGNORED);
                let ids = encoding.as_ref().map_or(&[][..], Encoding::get_ids);
                for (label, id) in row.iter_mut().zip(ids.iter().skip(1).take(*kept)) {
                    *label = i64::from(*id);
                }
                labels.push(&row)?;
            }
        }
        self.texts += texts.len();
        Ok(())
    }

    pub(super) fn finish(self, origin: &str) -> Result<Encoded, DataError> {
        let array = |sink: Sink<i64>| {
            let shape = vec![self.texts, self.tokens.length];
            Ok(Array { origin: origin.to_string(), shape, values: sink.finish()? })
        };
        Ok(Encoded {
            features: self.columns.into_iter().map(array).collect::<Result<_, DataError>>()?,
            successors: self.successors.map(array).transpose()?,
            unreadable: self.unreadable,
        })
    }
}

fn read(file: &Path) -> Result<Tokenizer, DataError> {
    let bytes = std::fs::read(file).map_err(|error| {
        DataError::File(format!("{}: cannot be read ({error}): correct `tokenizer`", file.display()))
    })?;
    let mut json: Value = serde_json::from_slice(&bytes).map_err(|error| broken(file, &error.into()))?;
    // Nothing is turned back into text.
    if let Some(parts) = json.as_object_mut() {
        parts.remove("decoder");
    }
    // The library panics on some malformed parts.
    let parsed = guarded(|| serde_json::from_value::<Tokenizer>(json));
    parsed
        .ok_or_else(|| broken(file, &"a part of it is malformed".into()))?
        .map_err(|error| broken(file, &error.into()))
}

fn broken(file: &Path, error: &tokenizers::Error) -> DataError {
    let reason = error.to_string().replace('\n', " ");
    DataError::File(format!(
        "{}: is not a usable tokenizer file ({reason}): save it again, as tokenizer.json",
        file.display()
    ))
}

/// What each input is given, and the sequence length.
fn roles(inputs: &[InputShape]) -> Result<(Vec<Role>, usize), DataError> {
    let mut length = None;
    let mut roles = Vec::with_capacity(inputs.len());
    for input in inputs {
        let role = match &*input.name {
            "input_ids" => Role::Ids,
            "attention_mask" => Role::Mask,
            "token_type_ids" => Role::Types,
            _ if inputs.len() == 1 => Role::Ids,
            name => {
                return Err(DataError::File(format!(
                    "text: nothing is known for the model's input '{name}': name inputs input_ids, attention_mask or \
                     token_type_ids"
                )));
            }
        };
        if role == Role::Ids && input.dtype != DType::I64 {
            return Err(DataError::File(format!(
                "text: the model's input '{}' takes {} where tokens are integers: use a model of token ids, int64 [N, S]",
                input.name,
                input.dtype.name()
            )));
        }
        let [extent] = input.shape[..] else {
            return Err(DataError::File(format!(
                "text: the model's input '{}' takes {:?} numbers a sample where a text has a row of them: use a model of \
                 token ids [N, S]",
                input.name, input.shape
            )));
        };
        if length.is_some_and(|length| length != extent) {
            return Err(DataError::File(format!(
                "text: the model's inputs take {} and {extent} tokens a sample: export them with one length",
                length.unwrap_or_default()
            )));
        }
        length = Some(extent);
        roles.push(role);
    }
    match length {
        Some(length) if roles.contains(&Role::Ids) => Ok((roles, length)),
        _ => Err(DataError::File("text: the model has no input 'input_ids': export one".into())),
    }
}

/// A class for each text, or for each token.
fn check_labels(length: usize, options: &DataOptions) -> Result<(), DataError> {
    let LabelKind::Classes { shape: Some(shape), .. } = &options.labels else { return Ok(()) };
    let (wanted, task, other) = match options.text.task {
        TextTask::Classify => (vec![], "classify", "language-model"),
        TextTask::LanguageModel => (vec![length], "language-model", "classify"),
    };
    if shape.iter().product::<usize>() == wanted.iter().product::<usize>() {
        return Ok(());
    }
    let problem = format!(
        "gives labels of shape {wanted:?} a sample where the model's output has {shape:?}: use `task` {other}, another `output`, \
         or name the axis of the classes with `class_axis`"
    );
    Err(SettingError::new("task", task, problem).into())
}

/// Every token must be a row of the model's table, and a class of a language model, whatever the texts are.
fn check_vocabulary(
    file: &Path,
    tokenizer: &Tokenizer,
    roles: &[Role],
    options: &DataOptions,
) -> Result<(), DataError> {
    let size = tokenizer.get_vocab(true).values().max().map_or(0, |id| *id as usize + 1);
    let table =
        options.inputs.iter().zip(roles).find(|(_, role)| **role == Role::Ids).and_then(|(input, _)| input.rows);
    let classes = match (&options.labels, options.text.task) {
        (LabelKind::Classes { classes, .. }, TextTask::LanguageModel) => *classes,
        _ => None,
    };
    for (what, limit) in [("embeds", table), ("predicts", classes)] {
        if let Some(limit) = limit.filter(|limit| *limit < size) {
            return Err(DataError::File(format!(
                "{}: has {size} tokens where the model {what} {limit}: use the tokenizer that the model is made for",
                file.display()
            )));
        }
    }
    Ok(())
}
