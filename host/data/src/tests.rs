//! Properties of loading. Every file is written here, and nothing is downloaded. The list is longer than usual for a
//! file. The properties hold for all kinds, and share the writers of small idx, npy and zip files.

mod csv;
mod formats;
mod idx;
mod names;
mod numbers;
mod readers;
mod shards;
#[cfg(feature = "text")]
mod text;

use crate::*;
use damper_onnx::{DType, TensorRef};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn put(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn idx_bytes(kind: u8, extents: &[u32], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, kind, extents.len() as u8];
    for extent in extents {
        bytes.extend(extent.to_be_bytes());
    }
    bytes.extend(data);
    bytes
}

fn spec(kind: &str, path: &Path) -> String {
    format!("{kind}:{}", path.display())
}

/// Returns the floats of these rows, as a batch scales them.
fn scaled_floats(split: &Split, constants: &Normalize, rows: &[u32]) -> Vec<f32> {
    let size = NonZeroUsize::new(rows.len()).unwrap();
    let mut batch = Batch::new(split, size).scaled_by(split, constants).unwrap();
    batch.fill(split, Chunk { index: 0, samples: rows }).unwrap();
    let TensorRef::F32(values) = batch.features(0) else { panic!("the input is of floats") };
    values.to_vec()
}

fn refusal(spec: &str, options: &DataOptions) -> String {
    let message = load(spec, options).unwrap_err().to_string();
    assert!(!message.contains('\n'), "one line: {message}");
    message
}

fn input(shape: &[usize]) -> Vec<InputShape> {
    vec![InputShape { name: "image".into(), shape: shape.to_vec(), dtype: DType::F32, rows: None }]
}

fn classes(labels: &Labels) -> &[i64] {
    match labels {
        Labels::Classes { values, .. } => values,
        other => panic!("{other:?}"),
    }
}

/// Writes three training images of 2×2 and two test images, with labels below 10.
fn mnist_like(folder: &TempDir, compressed: bool) {
    let files = [
        ("train-images-idx3-ubyte", idx_bytes(8, &[3, 2, 2], &[0, 255, 51, 102, 1, 2, 3, 4, 5, 6, 7, 8])),
        ("train-labels-idx1-ubyte", idx_bytes(8, &[3], &[7, 0, 9])),
        ("t10k-images-idx3-ubyte", idx_bytes(8, &[2, 2, 2], &[9; 8])),
        ("t10k-labels-idx1-ubyte", idx_bytes(8, &[2], &[1, 2])),
    ];
    for (name, bytes) in files {
        if compressed {
            put(folder, &format!("{name}.gz"), &gz(&bytes));
        } else {
            put(folder, name, &bytes);
        }
    }
}

// The error for missing files or different sample counts names the file.
#[test]
fn missing_file_or_count_mismatch_is_named() {
    let folder = folder();
    let options = DataOptions::default();
    assert!(refusal(&spec("idx", folder.path()), &options).contains("train-images-idx3-ubyte"));
    mnist_like(&folder, false);
    put(&folder, "train-labels-idx1-ubyte", &idx_bytes(8, &[2], &[7, 0]));
    let message = refusal(&spec("idx", folder.path()), &options);
    assert!(message.contains("train-labels") && message.contains("3 rows"), "{message}");
    std::fs::remove_file(folder.path().join("train-labels-idx1-ubyte")).unwrap();
    assert!(refusal(&spec("idx", folder.path()), &options).contains("train-labels-idx1-ubyte"));
    put(&folder, "train-images-idx3-ubyte", &idx_bytes(8, &[0, 2, 2], &[]));
    put(&folder, "train-labels-idx1-ubyte", &idx_bytes(8, &[0], &[]));
    assert!(refusal(&spec("idx", folder.path()), &options).contains("no samples"));
    assert!(refusal("csv:/nonexistent.csv", &options).contains("no such file"));
    assert!(refusal("npz:/nonexistent.npz", &options).contains("no such file"));
    assert!(refusal(&spec("csv", folder.path()), &options).contains("is a folder"));
    for wrong in ["mnist", "idx:", ":x", "tar:x.tar"] {
        assert!(refusal(wrong, &options).contains("idx, csv, npz"), "{wrong}");
    }
}

// If samples do not fit the model, the error shows both shapes.
#[test]
fn shape_mismatch_error_shows_both_shapes() {
    let folder = folder();
    mnist_like(&folder, false);
    let options = DataOptions { inputs: input(&[1, 3, 3]), ..DataOptions::default() };
    let message = refusal(&spec("idx", folder.path()), &options);
    assert!(message.contains("[2, 2]") && message.contains("[1, 3, 3]") && message.contains("'image'"), "{message}");
    let two = [input(&[4]), input(&[4])].concat();
    let options = DataOptions { inputs: two, ..DataOptions::default() };
    assert!(refusal(&spec("idx", folder.path()), &options).contains("2 inputs"));
}

// A label out of range is an error that names its row, or makes a null sample.
#[test]
fn bad_label_is_named_or_null_sample() {
    let folder = folder();
    mnist_like(&folder, false);
    let labels = LabelKind::Classes { classes: Some(9), shape: None };
    let options = DataOptions { labels: labels.clone(), ..DataOptions::default() };
    let message = refusal(&spec("idx", folder.path()), &options);
    assert!(message.contains("train-labels") && message.contains("row 2") && message.contains("label 9"), "{message}");
    // The row must not be dropped, because the model or the labels are wrong.
    assert!(message.contains("0 to 8") && !message.contains("`on_bad_row`"), "{message}");

    let mut labels_of_200 = [7; 200];
    labels_of_200[50] = 9;
    put(&folder, "train-images-idx3-ubyte", &idx_bytes(8, &[200, 2, 2], &[5; 800]));
    put(&folder, "train-labels-idx1-ubyte", &idx_bytes(8, &[200], &labels_of_200));
    let options = DataOptions { labels, on_bad_row: OnBadRow::Drop, ..DataOptions::default() };
    let data = load(&spec("idx", folder.path()), &options).unwrap();
    assert_eq!(data.train.len(), 200, "the number of samples is public and stays");
    assert_eq!([49, 50, 51].map(|row| data.train.is_null(row)), [false, true, false]);
    assert_eq!(classes(data.train.labels())[49..52], [7, 0, 7]);
    assert_eq!(
        data.train.features()[0].floats()[196..208],
        [
            5.0 / 255.0,
            5.0 / 255.0,
            5.0 / 255.0,
            5.0 / 255.0,
            0.0,
            0.0,
            0.0,
            0.0,
            5.0 / 255.0,
            5.0 / 255.0,
            5.0 / 255.0,
            5.0 / 255.0
        ]
    );
}

/// Returns a `.npy` file of version 1.
fn npy(descr: &str, fortran: bool, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let shape: String = shape.iter().map(|extent| format!("{extent},")).collect();
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({shape}), }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.into_bytes());
    bytes.extend(data);
    bytes
}

/// Returns a zip archive of stored files.
fn npz(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut bytes, mut central) = (Vec::new(), Vec::new());
    for (name, data) in arrays {
        let name = format!("{name}.npy");
        let mut crc = flate2::Crc::new();
        crc.update(data);
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 33, 0];
        common.extend(crc.sum().to_le_bytes());
        common.extend((data.len() as u32).to_le_bytes());
        common.extend((data.len() as u32).to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        let offset = bytes.len() as u32;
        bytes.extend(b"PK\x03\x04");
        bytes.extend(&common);
        bytes.extend(name.as_bytes());
        bytes.extend(data);
        central.extend(b"PK\x01\x02\x14\x00");
        central.extend(&common);
        central.extend([0; 10]);
        central.extend(offset.to_le_bytes());
        central.extend(name.as_bytes());
    }
    let offset = bytes.len() as u32;
    bytes.extend(&central);
    bytes.extend(b"PK\x05\x06\x00\x00\x00\x00");
    bytes.extend((arrays.len() as u16).to_le_bytes());
    bytes.extend((arrays.len() as u16).to_le_bytes());
    bytes.extend((central.len() as u32).to_le_bytes());
    bytes.extend(offset.to_le_bytes());
    bytes.extend([0, 0]);
    bytes
}

fn le<T: Copy, const W: usize>(values: &[T], bytes: impl Fn(T) -> [u8; W]) -> Vec<u8> {
    values.iter().flat_map(|value| bytes(*value)).collect()
}

fn x4() -> Vec<u8> {
    npy("<f4", false, &[3, 2], &le(&[0.5f32, 1.0, 1.5, 2.0, 2.5, 3.0], f32::to_le_bytes))
}

fn y8() -> Vec<u8> {
    npy("<i8", false, &[3], &le(&[2i64, 0, 1], i64::to_le_bytes))
}

// NPZ arrays load by their usual names and by given names.
#[test]
fn npz_loads_usual_and_given_names() {
    let folder = folder();
    let options = DataOptions::default();
    let one = put(&folder, "one.npz", &npz(&[("x", x4()), ("y", y8())]));
    let data = load(&spec("npz", &one), &options).unwrap();
    assert_eq!(data.train.features()[0].floats(), [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]);
    assert_eq!(classes(data.train.labels()), [2, 0, 1]);
    assert!(data.test.is_none());

    let x_test = npy("<f4", false, &[3, 2], &le(&[9.0f32, 8.0, 7.0, 6.0, 5.0, 4.0], f32::to_le_bytes));
    let both = npz(&[("x_train", x4()), ("y_train", y8()), ("x_test", x_test), ("y_test", y8())]);
    let both = put(&folder, "both.npz", &both);
    let loaded = load(&spec("npz", &both), &options).unwrap();
    assert_eq!(loaded.train, data.train);
    let test = loaded.test.unwrap();
    assert_eq!(test.features()[0].floats(), [9.0, 8.0, 7.0, 6.0, 5.0, 4.0]);
    assert_eq!(classes(test.labels()), [2, 0, 1]);

    let named = put(&folder, "named.npz", &npz(&[("images", x4()), ("targets", y8())]));
    let options = DataOptions { arrays: Some(("images".into(), "targets".into())), ..DataOptions::default() };
    assert_eq!(load(&spec("npz", &named), &options).unwrap(), data);
    let message = refusal(&spec("npz", &named), &DataOptions::default());
    assert!(message.contains("'x'") && message.contains("'images'"), "{message}");

    let inputs = ["images", "targets"].map(|name| InputShape {
        name: name.into(),
        shape: vec![],
        dtype: DType::F32,
        rows: None,
    });
    let mut inputs = inputs.to_vec();
    inputs[0].shape = vec![2];
    let options = DataOptions { inputs, labels: LabelKind::None, ..DataOptions::default() };
    let data = load(&spec("npz", &named), &options).unwrap();
    assert_eq!(data.train.features()[1].floats(), [2.0, 0.0, 1.0]);
}

// Labels are `y` or `labels`, and features the array with the input's name. An array that is both an input and a label
// is an error.
#[test]
fn npz_finds_inputs_and_labels_by_name() {
    let folder = folder();
    let input = |name: &str| InputShape { name: name.into(), shape: vec![2], dtype: DType::F32, rows: None };
    let options = |names: &[&str]| DataOptions {
        inputs: names.iter().map(|name| input(name)).collect(),
        labels: LabelKind::Classes { classes: Some(3), shape: Some(vec![]) },
        ..DataOptions::default()
    };
    let read = |arrays: &[(&str, Vec<u8>)], names: &[&str]| {
        let path = put(&folder, "t.npz", &npz(arrays));
        load(&spec("npz", &path), &options(names)).map_err(|error| error.to_string())
    };
    let want = read(&[("x", x4()), ("y", y8())], &["pixels"]).unwrap();
    assert_eq!(classes(want.train.labels()), [2, 0, 1]);
    assert_eq!(read(&[("x", x4()), ("labels", y8())], &["pixels"]).unwrap(), want);
    assert_eq!(read(&[("pixels", x4()), ("labels", y8()), ("z", y8())], &["pixels"]).unwrap(), want);
    let both = read(&[("x", x4()), ("labels", y8()), ("y", y8())], &["pixels"]).unwrap_err();
    assert!(both.contains("'y'") && both.contains("'labels'") && both.contains("`arrays`"), "{both}");
    // An input may be called y, or labels.
    assert_eq!(read(&[("y", x4()), ("labels", y8())], &["y"]).unwrap(), want);
    let two = read(&[("y", x4()), ("a", x4()), ("labels", y8())], &["a", "y"]).unwrap();
    assert_eq!((two.train.features().len(), classes(two.train.labels())), (2, &[2i64, 0, 1][..]));
    let split = [("pixels_train", x4()), ("labels_train", y8()), ("pixels_test", x4()), ("labels_test", y8())];
    assert!(read(&split, &["pixels"]).unwrap_err().contains("held-out rows are the training rows"));
}

#[test]
fn every_npz_element_type_is_read() {
    let folder = folder();
    let cases: [(&str, Vec<u8>, [f32; 2]); 10] = [
        ("<u8", le(&[300u64, u64::MAX], u64::to_le_bytes), [300.0, u64::MAX as f32]),
        ("<f4", le(&[0.5f32, -1.0], f32::to_le_bytes), [0.5, -1.0]),
        ("<f8", le(&[0.5f64, -1.0], f64::to_le_bytes), [0.5, -1.0]),
        ("|u1", vec![51, 255], [0.2, 1.0]),
        ("|b1", vec![0, 1], [0.0, 1.0]),
        ("|i1", vec![3, 255], [3.0, -1.0]),
        ("<i2", le(&[300i16, -1], i16::to_le_bytes), [300.0, -1.0]),
        ("<u2", le(&[300u16, 65_535], u16::to_le_bytes), [300.0, 65_535.0]),
        ("<i4", le(&[300i32, -1], i32::to_le_bytes), [300.0, -1.0]),
        ("<i8", le(&[300i64, -1], i64::to_le_bytes), [300.0, -1.0]),
    ];
    for (descr, data, expected) in cases {
        let y = npy("|u1", false, &[2], &[0, 1]);
        let path = put(&folder, "t.npz", &npz(&[("x", npy(descr, false, &[2, 1], &data)), ("y", y)]));
        let data = load(&spec("npz", &path), &DataOptions::default()).unwrap();
        assert_eq!(data.train.features()[0].floats(), expected, "{descr}");
    }
    for (array, fault) in [
        (npy("<c8", false, &[2, 1], &[0; 16]), "<c8"),
        (npy("|O", false, &[2, 1], &[0; 16]), "|O"),
        (npy(">f4", false, &[2, 1], &[0; 8]), ">f4"),
        (npy("<f4", true, &[2, 1], &[0; 8]), "ascontiguousarray"),
        (npy("<f4", false, &[2, 1 << 40], &[0; 8]), "more than the file"),
        (npy("<f4", false, &[2, 3], &[0; 8]), "array 'x'"),
        (npy("<f4", false, &[2, 1], &[0; 9]), "goes on"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(), "header of 4294967295"),
        (b"PNG".to_vec(), "array 'x'"),
        (npy("<f4", false, &[], &[0; 4]), "no samples"),
    ] {
        let y = npy("|u1", false, &[2], &[0, 1]);
        let path = put(&folder, "t.npz", &npz(&[("x", array), ("y", y)]));
        let message = refusal(&spec("npz", &path), &DataOptions::default());
        assert!(message.contains("t.npz") && message.contains(fault), "{message}");
    }
}

// An NPZ file truncated at any byte is an error that names it.
#[test]
fn truncated_npz_error_names_file() {
    let whole = npz(&[("x", x4()), ("y", y8())]);
    let folder = folder();
    for len in 0..whole.len() {
        let path = put(&folder, "cut.npz", &whole[..len]);
        assert!(refusal(&spec("npz", &path), &DataOptions::default()).contains("cut.npz"), "{len}");
    }
}

// An NPZ file with one changed byte never reads as other data of the same shape.
#[test]
fn npz_byte_change_never_changes_data() {
    let whole = npz(&[("x", x4()), ("y", y8())]);
    let folder = folder();
    let path = put(&folder, "whole.npz", &whole);
    let good = load(&spec("npz", &path), &DataOptions::default()).unwrap();
    for place in 0..whole.len() {
        let mut broken = whole.clone();
        broken[place] ^= 0x15;
        let path = put(&folder, "broken.npz", &broken);
        if let Ok(data) = load(&spec("npz", &path), &DataOptions::default()) {
            assert_eq!(data, good, "byte {place}");
        }
    }
}

// The rows of a held-out fraction are random and depend only on their position.
#[test]
fn held_out_rows_depend_on_position_only() {
    let folder = folder();
    let rows: String = (0..100).map(|row| format!("{row},{}\n", row % 3)).collect();
    let path = put(&folder, "rows.csv", rows.as_bytes());
    let fraction = |test: &str| DataOptions { test: Some(test.parse().unwrap()), ..DataOptions::default() };
    let data = load(&spec("csv", &path), &fraction("0.2")).unwrap();
    let test = data.test.unwrap();
    assert_eq!((data.train.len(), test.len()), (80, 20));
    // These rows must not change between versions, because a seed identifies a split.
    let held_out = [2, 3, 10, 16, 17, 20, 24, 26, 28, 29, 34, 35, 39, 45, 68, 79, 83, 86, 93, 98];
    assert_eq!(test.features()[0].floats(), held_out.map(|row: u8| f32::from(row)));
    let other = load(&spec("csv", &path), &DataOptions { split_seed: 1, ..fraction("0.2") }).unwrap();
    assert_ne!(other.test.unwrap(), test);
    let mut all = [data.train.features()[0].floats(), test.features()[0].floats()].concat();
    all.sort_by(f32::total_cmp);
    assert_eq!(all, (0..100).map(|row| row as f32).collect::<Vec<_>>());

    // A bad row changes neither the split nor any other sample.
    let path = put(&folder, "bad.csv", rows.replace("\n50,", "\nNaN,").as_bytes());
    let options = DataOptions { on_bad_row: OnBadRow::Drop, ..fraction("0.2") };
    let bad = load(&spec("csv", &path), &options).unwrap();
    assert_eq!((bad.train.len(), bad.test.as_ref().unwrap().len()), (80, 20));
    let differing = data.train.features()[0].floats().iter().zip(bad.train.features()[0].floats());
    assert_eq!(differing.filter(|(a, b)| a != b).count(), 1);
    assert_eq!((0..80).filter(|row| bad.train.is_null(*row)).count(), 1);

    for wrong in ["0", "1", "-0.5", "NaN", "half"] {
        assert!(wrong.parse::<TestSource>().unwrap_err().to_string().contains("KIND:PATH"), "{wrong}");
    }
    assert!(
        refusal(&spec("csv", &path), &DataOptions { on_bad_row: OnBadRow::Drop, ..fraction("0.001") })
            .contains("leaves a split empty")
    );
}

// A test split comes from other data or from a fraction, but not from both.
#[test]
fn test_split_has_one_source() {
    let folder = folder();
    mnist_like(&folder, false);
    let own = spec("idx", folder.path());
    let options = DataOptions { test: Some(TestSource::Fraction(0.5)), ..DataOptions::default() };
    assert!(refusal(&own, &options).contains("leave out `test`"));
    let csv = put(&folder, "test.csv", b"1,2,3,4,0\n5,6,7,8,1\n");
    let options =
        DataOptions { inputs: input(&[4]), test: Some(TestSource::Spec(spec("csv", &csv))), ..DataOptions::default() };
    let data = load(&own, &options).unwrap();
    assert_eq!(data.test.unwrap().features()[0].floats()[..4], [1.0, 2.0, 3.0, 4.0]);
    let options = DataOptions { inputs: vec![], ..options };
    assert!(refusal(&own, &options).contains("[[2, 2], []]"));
}

#[test]
fn a_train_size_takes_the_first_samples() {
    let folder = folder();
    mnist_like(&folder, false);
    let sized = |size| DataOptions { train_size: Some(size), ..DataOptions::default() };
    let data = load(&spec("idx", folder.path()), &sized(2)).unwrap();
    assert_eq!(classes(data.train.labels()), [7, 0]);
    assert_eq!(data.test.unwrap().len(), 2);
    for wrong in [0, 4] {
        assert!(refusal(&spec("idx", folder.path()), &sized(wrong)).contains("`train_size`"));
    }
}

#[test]
fn mnist_is_what_its_description_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/mnist");
    if !path.is_dir() {
        damper_testing::skip("data", format_args!("{} is not there", path.display()));
        return;
    }
    let options = DataOptions {
        labels: LabelKind::Classes { classes: Some(10), shape: Some(vec![]) },
        inputs: input(&[1, 28, 28]),
        ..DataOptions::default()
    };
    let data = load(&spec("idx", &path), &options).unwrap();
    assert_eq!((data.train.len(), data.test.unwrap().len()), (60_000, 10_000));
    assert_eq!(classes(data.train.labels())[..10], [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]);
    let values = &data.train.features()[0].floats();
    let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len() as f64;
    assert!((mean - 0.1307).abs() < 1e-4, "{mean}");
}
