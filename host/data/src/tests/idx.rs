//! Tests of IDX files.

use super::*;

// IDX files load plain, compressed and by prefix.
#[test]
fn idx_loads_plain_gzip_and_prefix() {
    let plain = folder();
    mnist_like(&plain, false);
    let zipped = folder();
    mnist_like(&zipped, true);
    let options = DataOptions { inputs: input(&[1, 2, 2]), ..DataOptions::default() };
    let data = load(&spec("idx", plain.path()), &options).unwrap();
    assert_eq!(data, load(&spec("idx", zipped.path()), &options).unwrap());
    assert_eq!(data.train.len(), 3);
    assert_eq!(data.train.features()[0].shape, [1, 2, 2]);
    assert_eq!(data.train.features()[0].floats()[..4], [0.0, 1.0, 51.0 / 255.0, 102.0 / 255.0]);
    assert_eq!(classes(data.train.labels()), [7, 0, 9]);
    assert_eq!(classes(data.test.as_ref().unwrap().labels()), [1, 2]);

    let prefixed = folder();
    mnist_like(&prefixed, false);
    for entry in std::fs::read_dir(prefixed.path()).unwrap() {
        let from = entry.unwrap().path();
        let name = format!("letters-{}", from.file_name().unwrap().to_str().unwrap()).replace("-idx", ".idx");
        std::fs::rename(&from, prefixed.path().join(name)).unwrap();
    }
    for prefix in ["letters", "letters-"] {
        assert_eq!(data, load(&spec("idx", &prefixed.path().join(prefix)), &options).unwrap());
    }
}

// Bytes stay raw, and features are normalised, only on request.
#[test]
fn raw_bytes_and_normalization_are_options() {
    let folder = folder();
    mnist_like(&folder, false);
    let raw = DataOptions { raw_bytes: true, ..DataOptions::default() };
    let data = load(&spec("idx", folder.path()), &raw).unwrap();
    assert_eq!(data.train.features()[0].floats()[..4], [0.0, 255.0, 51.0, 102.0]);
    let normalized = DataOptions { normalize: Some((0.5, 0.25).into()), ..DataOptions::default() };
    let data = load(&spec("idx", folder.path()), &normalized).unwrap();
    assert_eq!(data.train.features()[0].floats()[..2], [-2.0, 2.0]);
    for (mean, std) in [(f64::NAN, 1.0), (0.0, 0.0), (0.0, -1.0), (0.0, f64::INFINITY)] {
        let options = DataOptions { normalize: Some((mean, std).into()), ..DataOptions::default() };
        assert!(refusal(&spec("idx", folder.path()), &options).contains("`normalize`"));
    }
}

#[test]
fn every_idx_element_type_is_read() {
    let folder = folder();
    let cases: [(u8, Vec<u8>, [f32; 2]); 6] = [
        (0x08, vec![3, 255], [3.0, 255.0]),
        (0x09, vec![3, 255], [3.0, -1.0]),
        (0x0b, [300i16, -2].iter().flat_map(|v| v.to_be_bytes()).collect(), [300.0, -2.0]),
        (0x0c, [70_000i32, -3].iter().flat_map(|v| v.to_be_bytes()).collect(), [70_000.0, -3.0]),
        (0x0d, [0.5f32, -0.25].iter().flat_map(|v| v.to_be_bytes()).collect(), [0.5, -0.25]),
        (0x0e, [0.5f64, -0.25].iter().flat_map(|v| v.to_be_bytes()).collect(), [0.5, -0.25]),
    ];
    put(&folder, "train-labels-idx1-ubyte", &idx_bytes(8, &[2], &[0, 1]));
    let options = DataOptions { raw_bytes: true, ..DataOptions::default() };
    for (kind, data, expected) in cases {
        put(&folder, "train-images-idx3-ubyte", &idx_bytes(kind, &[2, 1, 1], &data));
        let data = load(&spec("idx", folder.path()), &options).unwrap();
        assert_eq!(data.train.features()[0].floats(), expected, "type {kind:#x}");
    }
}

// An IDX file truncated at any byte is an error that names it.
#[test]
fn truncated_idx_error_names_file() {
    let whole = idx_bytes(8, &[3, 2, 2], &[5; 12]);
    for bytes in [whole.clone(), gz(&whole)] {
        let folder = folder();
        mnist_like(&folder, false);
        for len in 0..bytes.len() {
            put(&folder, "train-images-idx3-ubyte", &bytes[..len]);
            let message = refusal(&spec("idx", folder.path()), &DataOptions::default());
            assert!(message.contains("train-images-idx3-ubyte") && message.contains("again"), "{len}: {message}");
        }
        put(&folder, "train-images-idx3-ubyte", &bytes);
        load(&spec("idx", folder.path()), &DataOptions::default()).unwrap();
    }
}

// A gzip file with one flipped bit is an error or reads the same.
#[test]
fn gzip_bit_flip_is_error_or_harmless() {
    let whole = gz(&idx_bytes(8, &[3, 2, 2], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]));
    let folder = folder();
    mnist_like(&folder, false);
    put(&folder, "train-images-idx3-ubyte", &whole);
    let good = load(&spec("idx", folder.path()), &DataOptions::default()).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut broken = whole.clone();
        broken[bit / 8] ^= 1 << (bit % 8);
        put(&folder, "train-images-idx3-ubyte", &broken);
        if let Ok(data) = load(&spec("idx", folder.path()), &DataOptions::default()) {
            assert_eq!(data, good, "bit {bit}");
        }
    }
}

// A header that promises more than its file holds is an error before memory is allocated.
#[test]
fn oversized_header_fails_before_alloc() {
    let folder = folder();
    mnist_like(&folder, false);
    let huge = [u32::MAX, u32::MAX, u32::MAX];
    let large = [60_000, 28_000, 28_000];
    for bytes in [
        idx_bytes(8, &huge, &[]),
        idx_bytes(0x0e, &huge, &[]),
        idx_bytes(8, &large, &[]),
        gz(&idx_bytes(8, &large, &[0; 100])),
        idx_bytes(8, &[3, 2, 2], &[0; 11]),
        idx_bytes(8, &[3, 2, 2], &[0; 13]),
        gz(&idx_bytes(8, &[3, 2, 2], &[0; 100_000])),
        idx_bytes(8, &[], &[]),
        idx_bytes(8, &[1; 9], &[0]),
        idx_bytes(7, &[3, 2, 2], &[0; 12]),
        b"<!DOCTYPE html><html>not found</html>".to_vec(),
        vec![],
    ] {
        put(&folder, "train-images-idx3-ubyte", &bytes);
        let message = refusal(&spec("idx", folder.path()), &DataOptions::default());
        assert!(message.contains("train-images-idx3-ubyte"), "{message}");
    }
}
