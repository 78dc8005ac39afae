//! The data loaders. The first byte chooses how to read the file. The other bytes are the file.

use crate::fuzz_bytes::FuzzBytes;
use damper::data::{DataOptions, InputShape, LabelKind, OnBadRow, TestSource, TextOptions, TextTask, load};
use damper::onnx::DType;
use std::cell::OnceCell;
use std::fs;
use std::path::PathBuf;

/// Writes `bytes` to a file of this name in a folder of this thread, and returns its path.
pub(crate) fn file(name: &str, bytes: &[u8]) -> PathBuf {
    thread_local! {
        static FOLDER: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
    }
    FOLDER.with(|folder| {
        let path = folder.get_or_init(|| tempfile::tempdir().expect("a folder")).path().join(name);
        fs::write(&path, bytes).expect("a file");
        path
    })
}

/// Returns options to read a file, unchanged or to fit a model.
fn options(source: &mut FuzzBytes<'_>) -> DataOptions {
    let how = source.u8();
    let labels = match how & 3 {
        0 => LabelKind::Classes { classes: None, shape: None },
        1 => LabelKind::Classes { classes: Some(10), shape: Some(vec![]) },
        2 => LabelKind::Values { shape: Some(vec![2]) },
        _ => LabelKind::None,
    };
    let input = |name: &str, dtype, rows| InputShape { name: name.into(), shape: vec![2, 2], dtype, rows };
    let inputs = match how >> 2 & 3 {
        0 => vec![],
        1 => vec![input("x", DType::F32, None)],
        2 => vec![input("x", DType::I64, Some(100))],
        _ => vec![input("x", DType::F32, None), input("z", DType::I64, None)],
    };
    DataOptions {
        labels,
        inputs,
        on_bad_row: if how & 16 == 0 { OnBadRow::Error } else { OnBadRow::Drop },
        normalize: (how & 32 != 0).then_some((0.5, 0.25).into()),
        test: (how & 64 != 0).then_some(TestSource::Fraction(0.3)),
        train_size: (how & 128 != 0).then_some(1),
        ..DataOptions::default()
    }
}

fn read(kind: &str, path: &std::path::Path, options: &DataOptions) {
    match load(&format!("{kind}:{}", path.display()), options) {
        Ok(dataset) => {
            assert!(!dataset.train.is_empty());
            assert!(dataset.test.is_none_or(|test| !test.is_empty()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// IDX: the length of the labels, the images, and the labels.
pub fn idx(bytes: &[u8]) {
    let source = &mut FuzzBytes(bytes);
    let options = options(source);
    let len = usize::from(source.u16());
    let images = file("train-images-idx3-ubyte", source.bytes(len));
    file("train-labels-idx1-ubyte", source.0);
    read("idx", images.parent().expect("a folder"), &options);
}

/// Comma-separated values.
pub fn csv(bytes: &[u8]) {
    let source = &mut FuzzBytes(bytes);
    let options = options(source);
    let header = [None, Some(true), Some(false)][source.below(3)];
    let label_column = [None, Some("0".into()), Some("label".into()), Some("5".into())][source.below(4)].clone();
    read("csv", &file("data.csv", source.0), &DataOptions { header, label_column, ..options });
}

/// NumPy archives.
pub fn npz(bytes: &[u8]) {
    let source = &mut FuzzBytes(bytes);
    let options = options(source);
    read("npz", &file("data.npz", source.0), &options);
}

/// One NumPy array. The labels are another.
pub fn npy(bytes: &[u8]) {
    let source = &mut FuzzBytes(bytes);
    let options = options(source);
    let len = usize::from(source.u16());
    let samples = file("data.npy", source.bytes(len));
    let labels_file = Some(file("labels.npy", source.0));
    read("npy", &samples, &DataOptions { labels_file, ..options });
}

/// An archive of CIFAR batches, or one batch, binary or a pickle.
pub fn cifar(bytes: &[u8]) {
    let source = &mut FuzzBytes(bytes);
    let (mut options, what) = (options(source), source.u8());
    options.label_column = (what & 1 != 0).then(|| "coarse".into());
    let path = file("data.tar", source.0);
    read("cifar", &path, &options);
    let folder = path.parent().expect("a folder");
    let batch = ["data_batch_1.bin", "data_batch_1"][usize::from(what >> 1 & 1)];
    file(batch, source.0);
    read("cifar", folder, &options);
    fs::remove_file(folder.join(batch)).expect("it is there");
}

/// A Parquet file.
pub fn parquet(bytes: &[u8]) {
    let source = &mut FuzzBytes(bytes);
    let options = options(source);
    let label_column = [None, Some("0".into()), Some("label".into())][source.below(3)].clone();
    read("parquet", &file("data.parquet", source.0), &DataOptions { label_column, ..options });
}

/// An image, PNG or JPEG, in the folder of its class.
pub fn images(bytes: &[u8]) {
    let source = &mut FuzzBytes(bytes);
    let options = options(source);
    let folder = file("anchor", &[]).parent().expect("a folder").join("images");
    fs::create_dir_all(folder.join("class")).expect("a folder");
    fs::write(folder.join("class/image.png"), source.0).expect("a file");
    read("images", &folder, &options);
}

/// Texts for a tokenizer, or a tokenizer for a text.
pub fn text(bytes: &[u8]) {
    const TOKENIZER: &str = r###"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
        "pre_tokenizer":{"type":"Whitespace"},"post_processor":null,"decoder":null,
        "model":{"type":"WordLevel","vocab":{"[UNK]":0,"[PAD]":1,"a":2,"film":3,"good":4,"bad":5},"unk_token":"[UNK]"}}"###;
    let source = &mut FuzzBytes(bytes);
    let (mut options, what) = (options(source), source.u8());
    options.normalize = None;
    let (tokenizer, rows) = if what & 1 == 0 {
        (TOKENIZER.as_bytes(), source.0)
    } else {
        (source.0, &b"text\tlabel\na good film\t1\n"[..])
    };
    options.text = TextOptions {
        tokenizer: Some(file("tokenizer.json", tokenizer)),
        text_column: (what & 2 != 0).then(|| "0".into()),
        max_length: (what & 4 != 0).then_some(4),
        task: if what & 8 == 0 { TextTask::Classify } else { TextTask::LanguageModel },
    };
    options.header = [None, Some(true), Some(false)][usize::from(what >> 4) % 3];
    read("text", &file(if what & 64 == 0 { "data.tsv" } else { "data.csv" }, rows), &options);
}
