//! Damaged files of the newer kinds give data or an error that names the file, and never a panic.

use super::*;

/// Returns a file of the fuzzer's corpus, without the bytes that select its options.
fn corpus(name: &str, skip: usize) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))[skip..].to_vec()
}

/// Truncates the file at every `step`th offset, and changes every `step`th byte.
fn damage(kind: &str, name: &str, whole: &[u8], step: usize, options: &DataOptions) {
    let folder = folder();
    let path = put(&folder, name, whole);
    let at = if kind == "images" || kind == "cifar-folder" { folder.path().to_path_buf() } else { path.clone() };
    let kind = kind.trim_end_matches("-folder");
    let spec = spec(kind, &at);
    let _ = load(&spec, options);
    for place in (0..whole.len()).step_by(step) {
        std::fs::write(&path, &whole[..place]).unwrap();
        let message = refusal(&spec, options);
        assert!(message.contains(folder.path().to_str().unwrap()), "{place}: {message}");
        for change in [0x01, 0x15, 0x80, 0xff] {
            let mut changed = whole.to_vec();
            changed[place] ^= change;
            std::fs::write(&path, changed).unwrap();
            // It may still be valid data.
            let _ = load(&spec, options);
        }
    }
}

#[test]
fn damaged_pickles_are_errors() {
    let labels = DataOptions::default();
    damage("cifar-folder", "data_batch_1", &corpus("cifar/seed-pickle", 2), 5, &labels);
}

#[cfg(feature = "parquet")]
#[test]
fn damaged_parquet_files_are_errors() {
    for name in ["table", "gzip"] {
        damage("parquet", "t.parquet", &corpus(&format!("parquet/{name}"), 2), 5, &DataOptions::default());
    }
}

/// The second of three rows has no value in column `b`, which shows that the file was read. Covers Snappy with a
/// dictionary, and gzip.
#[cfg(feature = "parquet")]
#[test]
fn parquet_reads_codecs_and_missing_values() {
    let folder = folder();
    for name in ["table", "gzip"] {
        let path = put(&folder, "t.parquet", &corpus(&format!("parquet/{name}"), 2));
        let message = refusal(&spec("parquet", &path), &DataOptions::default());
        assert!(message.contains("row 1 (counted from 0): column 'b' is not a number but missing"), "{message}");
        let labels_alone = DataOptions { label_column: Some("b".into()), ..DataOptions::default() };
        let message = refusal(&spec("parquet", &path), &labels_alone);
        assert!(message.contains("column 'b', the label, is not a number but missing"), "{message}");
    }
}

#[test]
fn damaged_npy_files_are_errors() {
    let folder = folder();
    let labels_file = Some(put(&folder, "y.npy", &y8()));
    damage("npy", "x.npy", &x4(), 1, &DataOptions { labels_file, ..DataOptions::default() });
}

#[test]
fn cifar100_has_fine_and_coarse_labels() {
    let folder = folder();
    let image = |coarse: u8, fine: u8| [vec![coarse, fine], vec![fine; 3072]].concat();
    put(&folder, "train.bin", &[image(3, 40), image(5, 60)].concat());
    put(&folder, "test.bin", &image(7, 80));
    let read = |label_column: Option<&str>| {
        let options = DataOptions { label_column: label_column.map(Into::into), ..DataOptions::default() };
        load(&spec("cifar", folder.path()), &options).unwrap()
    };
    assert_eq!(classes(read(None).train.labels()), [40, 60]);
    let coarse = read(Some("coarse"));
    assert_eq!((classes(coarse.train.labels()), classes(coarse.test.unwrap().labels())), (&[3, 5][..], &[7][..]));
    assert_eq!(coarse.train.features()[0].shape, [3, 32, 32]);
}

#[test]
fn stored_rows_equal_rows_in_memory() {
    let folder = folder();
    let floats: Vec<f32> = (0..300 * 12).map(|at| (at % 37) as f32 / 3.0).collect();
    let bytes: Vec<u8> = (0..300 * 12).map(|at| (at * 7 % 256) as u8).collect();
    let labels = npy("|u1", false, &[300], &(0..300).map(|at| (at % 3) as u8).collect::<Vec<_>>());
    let labels_file = Some(put(&folder, "y.npy", &labels));
    let arrays = [
        npy("<f4", false, &[300, 2, 2, 3], &le(&floats, f32::to_le_bytes)),
        npy("|u1", false, &[300, 2, 2, 3], &bytes),
    ];
    let constants = Normalize { means: (0..12).map(|at| f64::from(at) / 7.0).collect(), stds: vec![0.3; 12] };
    assert_eq!(constants.to_string().parse::<Normalize>().unwrap(), constants);
    for array in arrays {
        let path = put(&folder, "x.npy", &array);
        for (normalize, layout) in [
            (None, ChannelLayout::Nchw),
            (Some((0.5, 0.25).into()), ChannelLayout::Nhwc),
            ("0,1,2:1,2,3".parse().ok(), ChannelLayout::Nhwc),
        ] {
            let shape = if layout == ChannelLayout::Nhwc { [3, 2, 2] } else { [2, 2, 3] };
            let options = DataOptions {
                inputs: input(&shape),
                normalize,
                layout,
                labels_file: labels_file.clone(),
                test: Some(TestSource::Fraction(0.25)),
                train_size: Some(200),
                ..DataOptions::default()
            };
            let wanted = load(&spec("npy", &path), &options).unwrap();
            // A limit that fits the bytes, and a limit that fits nothing.
            for data_memory in [3600, 0] {
                let small = DataOptions { data_memory: Some(data_memory), ..options.clone() };
                let found = load(&spec("npy", &path), &small).unwrap();
                assert!(found.train.features()[0].floats().is_empty());
                assert_eq!(found.train.in_memory().unwrap(), wanted.train);
                assert_eq!(found.test.as_ref().unwrap().in_memory().unwrap(), *wanted.test.as_ref().unwrap());
                assert_eq!(found.shares_rows().unwrap(), wanted.shares_rows().unwrap());
                let rows: Vec<u32> = (0..wanted.train.len() as u32).collect();
                assert_eq!(
                    scaled_floats(&found.train, &constants, &rows),
                    scaled_floats(&wanted.train, &constants, &rows)
                );
            }
        }
    }
}

// Stratified rows do not depend on bad features.
#[test]
fn stratified_rows_ignore_bad_features() {
    let folder = folder();
    let rows = |bad: usize| -> String {
        (0..400)
            .map(|row| format!("{},{}\n", if row == bad { "nan".into() } else { row.to_string() }, row % 7 / 5))
            .collect()
    };
    let options = DataOptions {
        test: Some(TestSource::Fraction(0.3)),
        stratify: true,
        on_bad_row: OnBadRow::Drop,
        ..DataOptions::default()
    };
    let read = |bad| load(&spec("csv", &put(&folder, "t.csv", rows(bad).as_bytes())), &options).unwrap();
    let whole = read(1000);
    assert_eq!(whole.test.as_ref().unwrap().len(), 120);
    for bad in [0, 5, 6, 250] {
        let found = read(bad);
        let differing = |a: &Split, b: &Split| {
            assert_eq!(classes(a.labels()), classes(b.labels()));
            a.features()[0].floats().iter().zip(b.features()[0].floats()).filter(|(a, b)| a != b).count()
        };
        let all = differing(&whole.train, &found.train)
            + differing(whole.test.as_ref().unwrap(), found.test.as_ref().unwrap());
        // Row 0 is 0 in both cases.
        assert_eq!(all, usize::from(bad != 0), "{bad}");
    }
}

#[cfg(not(any(feature = "parquet", feature = "text")))]
#[test]
fn kinds_that_are_left_out_say_so() {
    for kind in ["parquet", "text"] {
        let message = refusal(&format!("{kind}:x"), &DataOptions::default());
        assert!(message.contains(&format!("its feature {kind}")), "{message}");
    }
}
