//! A tokenizer file, and the token arrays of a model.

use super::pattern::rewrite;
use crate::dataset::IGNORED;
use crate::files::guarded;
use crate::numbers::{Room, Sink};
use crate::options::{DROP, ENGLISH, ENGLISH_FILE};
use crate::rows::Array;
use crate::{DataError, DataOptions, InputShape, LabelKind, TextOptions, TextTask};
use damper_onnx::SettingError;
use damper_onnx::graph::DType;
use serde_json::Value;
use std::path::Path;
use tokenizers::{Encoding, PaddingDirection, Tokenizer, TruncationDirection, TruncationParams, TruncationStrategy};

/// Usual names of a padding token, if the file does not name it.
const PADDING: &[&str] = &["[PAD]", "<pad>", "<|pad|>", "<|padding|>", "<|endoftext|>", "</s>"];

/// The content of an input of the model.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenInput {
    Ids,
    Mask,
    Types,
}

/// A tokenizer configured for a model.
pub(super) struct Tokens {
    tokenizer: Tokenizer,
    roles: Vec<TokenInput>,
    /// The sequence length S.
    length: usize,
    /// Maximum number of tokens kept of a text.
    kept: usize,
    /// The side that is truncated.
    cut: TruncationDirection,
    /// The side that is padded.
    padded: PaddingDirection,
    pad: u32,
    pad_type: u32,
    task: TextTask,
}

/// Returns the maximum number of tokens, independent of the model: `max_length`, otherwise that of the tokenizer file.
pub(in crate::formats) fn declared_length(options: &TextOptions) -> Option<usize> {
    let of_file = || Some(read(options.tokenizer.as_ref()?).ok()?.get_truncation()?.max_length);
    options.max_length.or_else(of_file)
}

/// Tokens of a text for a network without a file, unless a number is declared.
const LENGTH: usize = 64;

/// Returns the length of a text and the number of tokens.
pub(in crate::formats) fn sizes(options: &DataOptions) -> Result<(usize, usize), DataError> {
    let tokenizer = read(tokenizer_file(options)?)?;
    let largest = tokenizer.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1);
    Ok((declared_length(&options.text).unwrap_or(LENGTH), largest))
}

fn tokenizer_file(options: &DataOptions) -> Result<&Path, DataError> {
    options.text.tokenizer.as_deref().ok_or_else(|| {
        DataError::File("text: give the tokenizer's file with `tokenizer`, such as tokenizer.json".into())
    })
}

/// Texts in the form of the model's inputs, `[N, S]` each.
pub(super) struct Encoded {
    /// One array per model input.
    pub features: Vec<Array>,
    /// The labels of a language model.
    pub successors: Option<Array>,
    /// Rows that the tokenizer rejected, ascending, with reasons.
    pub unreadable: Vec<(usize, String)>,
}

impl Tokens {
    pub(super) fn open(options: &DataOptions) -> Result<Self, DataError> {
        let file = tokenizer_file(options)?;
        let mut tokenizer = read(file)?;
        let (roles, length) = roles(&options.inputs)?;
        let (padding, truncation) = (tokenizer.get_padding().cloned(), tokenizer.get_truncation().cloned());
        // The tokens that the file adds to an empty text are counted without padding.
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| broken(file, &error))?;
        if truncation.as_ref().is_some_and(|cut| cut.strategy == TruncationStrategy::OnlySecond) {
            let reason = "its truncation only_second cuts the second of two texts, and a sample is one";
            return Err(broken(file, &reason.into()));
        }
        let kept = options
            .text
            .max_length
            .unwrap_or_else(|| truncation.as_ref().map_or(length, |cut| cut.max_length.min(length)));
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
        let (pad, pad_type, padded) = match &padding {
            Some(padding) => (padding.pad_id, padding.pad_type_id, padding.direction),
            None => {
                let named = PADDING.iter().find_map(|token| tokenizer.token_to_id(token)).ok_or_else(|| {
                    DataError::File(format!("{}: names no padding token: save it with enable_padding", file.display()))
                })?;
                (named, 0, PaddingDirection::Right)
            }
        };
        let cut = truncation.map_or(TruncationDirection::Right, |cut| cut.direction);
        let task = options.text.task;
        // A language model also learns the successor of the last kept token. A text that continues has no end token
        // there.
        let params = TruncationParams { max_length: kept, direction: cut, ..Default::default() };
        let params = (task == TextTask::Classify).then_some(params);
        tokenizer.with_truncation(params).map_err(|error| broken(file, &error))?;
        Ok(Self { tokenizer, roles, length, kept, cut, padded, pad, pad_type, task })
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

    /// Returns the kept range of a row of all tokens, and the index of its first token in a padded row.
    fn window(&self, tokens: usize) -> (std::ops::Range<usize>, usize) {
        let kept = tokens.min(self.kept);
        let first = if self.cut == TruncationDirection::Left { tokens - kept } else { 0 };
        let place = if matches!(self.padded, PaddingDirection::Left) { self.length - kept } else { 0 };
        (first..first + kept, place)
    }

    fn fill(&self, role: TokenInput, encoding: &Encoding, row: &mut [i64]) {
        let from = match role {
            TokenInput::Ids => encoding.get_ids(),
            TokenInput::Mask => encoding.get_attention_mask(),
            TokenInput::Types => encoding.get_type_ids(),
        };
        let (kept, place) = self.window(from.len());
        for (to, from) in row[place..].iter_mut().zip(&from[kept]) {
            *to = i64::from(*from);
        }
    }
}

/// Encodes texts into arrays.
pub(super) struct Encoder<'a> {
    tokens: &'a Tokens,
    texts: usize,
    columns: Vec<Sink<i64>>,
    successors: Option<Sink<i64>>,
    unreadable: Vec<(usize, String)>,
}

impl Encoder<'_> {
    /// Tokenizes a block of texts in parallel. A text that the tokenizer rejects becomes a bad row.
    pub(super) fn add(&mut self, texts: &[String]) -> Result<(), DataError> {
        let Tokens { tokenizer, roles, length, pad, pad_type, .. } = self.tokens;
        let empty = |role: &TokenInput| match role {
            TokenInput::Ids => i64::from(*pad),
            TokenInput::Types => i64::from(*pad_type),
            TokenInput::Mask => 0,
        };
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
                let (kept, place) = self.tokens.window(ids.len());
                let successors = ids.iter().skip(kept.start + 1).take(kept.len());
                for (label, id) in row[place..].iter_mut().zip(successors) {
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
            Ok(Array { origin: origin.to_string(), shape, values: sink.values()? })
        };
        Ok(Encoded {
            features: self.columns.into_iter().map(array).collect::<Result<_, DataError>>()?,
            successors: self.successors.map(array).transpose()?,
            unreadable: self.unreadable,
        })
    }
}

fn read(file: &Path) -> Result<Tokenizer, DataError> {
    let bytes = if file == Path::new(ENGLISH) { Ok(ENGLISH_FILE.to_vec()) } else { std::fs::read(file) };
    let bytes = bytes.map_err(|error| {
        DataError::File(format!("{}: cannot be read ({error}): correct `tokenizer`", file.display()))
    })?;
    let mut json: Value = serde_json::from_slice(&bytes).map_err(|error| broken(file, &error.into()))?;
    // Tokens are never decoded to text.
    if let Some(parts) = json.as_object_mut() {
        parts.remove("decoder");
    }
    rewrite_patterns(&mut json).map_err(|fault| {
        DataError::File(format!("{}: {fault}: use a tokenizer without that pattern", file.display()))
    })?;
    // The library panics on some malformed parts.
    let parsed = guarded(|| serde_json::from_value::<Tokenizer>(json));
    parsed
        .ok_or_else(|| broken(file, &"a part of it is malformed".into()))?
        .map_err(|error| broken(file, &error.into()))
}

/// Rewrites every pattern of a file so that it has the matches of the Python package.
fn rewrite_patterns(json: &mut Value) -> Result<(), String> {
    match json {
        Value::Array(parts) => parts.iter_mut().try_for_each(rewrite_patterns),
        Value::Object(parts) => {
            if let Some(Value::String(pattern)) = parts.get_mut("pattern").and_then(|pattern| pattern.get_mut("Regex"))
            {
                *pattern = rewrite(pattern)
                    .map_err(|part| format!("its pattern '{pattern}' has {part}, which may match otherwise here"))?;
            }
            // A vocabulary has no patterns, and may be large.
            parts.iter_mut().filter(|(name, _)| *name != "model").try_for_each(|(_, part)| rewrite_patterns(part))
        }
        _ => Ok(()),
    }
}

fn broken(file: &Path, error: &tokenizers::Error) -> DataError {
    let reason = error.to_string().replace('\n', " ");
    DataError::File(format!(
        "{}: is not a usable tokenizer file ({reason}): save it again, as tokenizer.json",
        file.display()
    ))
}

/// Returns the content of each input, and the sequence length.
fn roles(inputs: &[InputShape]) -> Result<(Vec<TokenInput>, usize), DataError> {
    let mut length = None;
    let mut roles = Vec::with_capacity(inputs.len());
    for input in inputs {
        let role = match &*input.name {
            "input_ids" => TokenInput::Ids,
            "attention_mask" => TokenInput::Mask,
            "token_type_ids" => TokenInput::Types,
            _ if inputs.len() == 1 => TokenInput::Ids,
            name => {
                return Err(DataError::File(format!(
                    "text: nothing is known for the model's input '{name}': name inputs input_ids, attention_mask or \
                     token_type_ids"
                )));
            }
        };
        if role == TokenInput::Ids && input.dtype != DType::I64 {
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
        Some(length) if roles.contains(&TokenInput::Ids) => Ok((roles, length)),
        _ => Err(DataError::File("text: the model has no input 'input_ids': export one".into())),
    }
}

/// Checks that labels are a class for each text, or for each token.
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

/// Checks that every token is a row of the model's embedding matrix, and a class of a language model, for any texts.
fn check_vocabulary(
    file: &Path,
    tokenizer: &Tokenizer,
    roles: &[TokenInput],
    options: &DataOptions,
) -> Result<(), DataError> {
    let size = tokenizer.get_vocab(true).values().max().map_or(0, |id| *id as usize + 1);
    let table =
        options.inputs.iter().zip(roles).find(|(_, role)| **role == TokenInput::Ids).and_then(|(input, _)| input.rows);
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
