//! Properties of text: rows of tables, lines, and their integers from a tokenizer file.

mod tokenizers;

use super::*;

/// Returns the path of a tokenizer in `onnx-models/text`.
fn tokenizer(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../onnx-models/text").join(name)
}

fn integer_input(name: &str, length: usize) -> InputShape {
    InputShape { name: name.into(), shape: vec![length], dtype: DType::I64, rows: None }
}

/// Returns the options of the byte tokenizer, for a model with these inputs of `length` tokens.
fn bytes(inputs: &[&str], length: usize) -> DataOptions {
    DataOptions {
        labels: LabelKind::Classes { classes: Some(2), shape: Some(vec![]) },
        inputs: inputs.iter().map(|name| integer_input(name, length)).collect(),
        text: TextOptions { tokenizer: Some(tokenizer("bytes.json")), ..TextOptions::default() },
        ..DataOptions::default()
    }
}

fn language_model(length: usize) -> DataOptions {
    let mut options = bytes(&["input_ids"], length);
    options.labels = LabelKind::Classes { classes: Some(259), shape: Some(vec![length]) };
    options.text.task = TextTask::LanguageModel;
    options
}

/// Returns `<bos>`, the bytes of the text, `<eos>` and padding.
fn ids(text: &str, length: usize) -> Vec<i64> {
    let mut ids: Vec<i64> = [1].into_iter().chain(text.bytes().map(|byte| 3 + i64::from(byte))).collect();
    ids.truncate(length - 1);
    ids.push(2);
    ids.resize(length, 0);
    ids
}

// A model gets token ids, masks and types by the names of its inputs.
#[test]
fn text_inputs_are_found_by_name() {
    let folder = folder();
    let path = put(&folder, "t.tsv", b"label\tcontent\n1\tab\n0\tc\n");
    let data = load(&spec("text", &path), &bytes(&["attention_mask", "input_ids", "token_type_ids"], 5)).unwrap();
    let features = data.train.features();
    assert_eq!(features[0].integers(), [1, 1, 1, 1, 0, 1, 1, 1, 0, 0]);
    assert_eq!(features[1].integers(), [ids("ab", 5), ids("c", 5)].concat());
    assert_eq!(features[2].integers(), [0; 10]);
    assert_eq!(classes(data.train.labels()), [1, 0]);
    assert!(data.test.is_none());

    let alone = load(&spec("text", &path), &bytes(&["x"], 5)).unwrap();
    assert_eq!(alone.train.features()[0], features[1], "one input is the ids, whatever its name");
    for (inputs, fault) in [
        (vec![integer_input("x", 5), integer_input("input_ids", 5)], "'x'"),
        (vec![integer_input("attention_mask", 5), integer_input("token_type_ids", 5)], "no input 'input_ids'"),
        (vec![integer_input("input_ids", 5), integer_input("attention_mask", 6)], "5 and 6 tokens"),
        (vec![InputShape { shape: vec![5, 2], ..integer_input("input_ids", 5) }], "[5, 2]"),
        (vec![], "input_ids"),
    ] {
        let message = refusal(&spec("text", &path), &DataOptions { inputs, ..bytes(&[], 5) });
        assert!(message.contains(fault), "{message}");
    }
}

// A long text is truncated and keeps its special tokens.
#[test]
fn truncated_text_keeps_special_tokens() {
    let folder = folder();
    let path = put(&folder, "t.tsv", b"label\ttext\n1\tabcdefgh\n");
    let data = load(&spec("text", &path), &bytes(&["x"], 6)).unwrap();
    assert_eq!(data.train.features()[0].integers(), ids("abcdefgh", 6));
    let mut shorter = bytes(&["x"], 6);
    shorter.text.max_length = Some(4);
    let data = load(&spec("text", &path), &shorter).unwrap();
    assert_eq!(data.train.features()[0].integers(), [&ids("abcdefgh", 4)[..], &[0, 0]].concat());
    for (length, fault) in [(7, "takes 6 tokens"), (2, "adds 2 tokens"), (0, "adds 2 tokens")] {
        shorter.text.max_length = Some(length);
        let message = refusal(&spec("text", &path), &shorter);
        assert!(message.contains("`max_length`") && message.contains(fault), "{message}");
    }
}

// A model with an open length uses `max_length`, otherwise the length of the tokenizer file.
#[test]
fn open_length_follows_from_settings() {
    let folder = folder();
    let path = put(&folder, "t.tsv", b"label\ttext\n1\tabcdefgh\n");
    let shapes = |options: &DataOptions| sample_shapes(&spec("text", &path), options, &["x".into(), "mask".into()]);
    let mut options = bytes(&["x"], 6);
    assert_eq!(shapes(&options), None);
    options.text.max_length = Some(4);
    assert_eq!(shapes(&options), Some(vec![vec![4], vec![4]]));
    let mut json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(options.text.tokenizer.as_ref().unwrap()).unwrap()).unwrap();
    json["truncation"] =
        serde_json::json!({"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0});
    options.text.tokenizer = Some(put(&folder, "cut.json", json.to_string().as_bytes()));
    assert_eq!(shapes(&options), Some(vec![vec![4], vec![4]]));
    options.text.max_length = None;
    assert_eq!(shapes(&options), Some(vec![vec![5], vec![5]]));
}

// The labels of a language model are the next tokens.
#[test]
fn language_model_predicts_next_token() {
    let folder = folder();
    let path = put(&folder, "t.txt", b"ab\n\nabcdefgh\r\n");
    let data = load(&spec("text", &path), &language_model(5)).unwrap();
    let expected = [&ids("ab", 5)[..], &[1, 100, 101, 102, 103]].concat();
    assert_eq!(data.train.features()[0].integers(), expected, "the second goes on, so it has no end");
    assert_eq!(classes(data.train.labels()), [100, 101, 2, -100, -100, 100, 101, 102, 103, 104]);

    let mut shorter = language_model(5);
    shorter.text.max_length = Some(3);
    let data = load(&spec("text", &path), &shorter).unwrap();
    assert_eq!(data.train.features()[0].integers(), [1, 100, 101, 0, 0, 1, 100, 101, 0, 0]);
    assert_eq!(classes(data.train.labels()), [100, 101, 2, -100, -100, 100, 101, 102, -100, -100]);

    let table = put(&folder, "t.tsv", b"text\nab\nabcdefgh\n");
    let from_table = load(&spec("text", &table), &language_model(5)).unwrap();
    assert_eq!(from_table, load(&spec("text", &path), &language_model(5)).unwrap(), "without a label column");

    let values = DataOptions { labels: LabelKind::Values { shape: None }, ..language_model(5) };
    assert!(refusal(&spec("text", &path), &values).contains("`loss` softmax-cross-entropy"));
    assert!(refusal(&spec("text", &path), &bytes(&["x"], 5)).contains("`task` language-model"));
    let own_loss = DataOptions { labels: LabelKind::None, ..language_model(5) };
    assert_eq!(load(&spec("text", &path), &own_loss).unwrap().train.labels(), &Labels::None);
}

/// Tests more rows than one tokenization block, and labels that do not fit in memory.
#[test]
fn stored_texts_equal_texts_in_memory() {
    let folder = folder();
    let lines: String = (0..3000).map(|row| format!("text {row}\n")).collect();
    let path = put(&folder, "t.txt", lines.as_bytes());
    let options = DataOptions { test: Some(TestSource::Fraction(0.25)), ..language_model(9) };
    let wanted = load(&spec("text", &path), &options).unwrap();
    // Row 0 is held out.
    assert_eq!(&wanted.train.features()[0].integers()[..9], ids("text 1", 9));
    for data_memory in [1, 100_000] {
        let small = DataOptions { data_memory: Some(data_memory), ..options.clone() };
        let found = load(&spec("text", &path), &small).unwrap();
        assert!(matches!(found.train.labels(), Labels::Stored { shape, .. } if *shape == [9]));
        assert_eq!(found.train.in_memory().unwrap(), wanted.train);
        assert_eq!(found.test.as_ref().unwrap().in_memory().unwrap(), *wanted.test.as_ref().unwrap());
        assert_eq!(found.shares_rows().unwrap(), wanted.shares_rows().unwrap());
        let digest = |split: &Split| {
            let mut all = Vec::new();
            split.digest(&mut |bytes| all.extend_from_slice(bytes)).unwrap();
            all
        };
        assert!(digest(&found.train) == digest(&wanted.train));
        // Each row of a batch equals that of the batch in memory.
        let rows = 7.try_into().unwrap();
        let (mut stored, mut held) = (Batch::new(&found.train, rows), Batch::new(&wanted.train, rows));
        for chunk in chunks(&[0, 5, 2000, 2249, 17], rows) {
            stored.fill(&found.train, chunk).unwrap();
            held.fill(&wanted.train, chunk).unwrap();
            assert_eq!(stored.labels(), held.labels());
        }
    }
}

#[test]
fn byte_order_mark_is_no_part_of_a_name() {
    let folder = folder();
    let path = put(&folder, "t.csv", b"\xef\xbb\xbf\"text\",label\n\"a \"\"b\"\"\nc\",1\n");
    let data = load(&spec("text", &path), &bytes(&["x"], 12)).unwrap();
    assert_eq!(data.train.features()[0].integers(), ids("a \"b\"\nc", 12));
    let mut number = DataOptions { label_column: Some("kind".into()), ..DataOptions::default() };
    number.labels = LabelKind::Classes { classes: Some(2), shape: Some(vec![]) };
    let path = put(&folder, "n.csv", b"\xef\xbb\xbf\"kind\",x\n1,0.5\n");
    assert_eq!(classes(load(&spec("csv", &path), &number).unwrap().train.labels()), [1]);
}

// Quotes enclose a text in CSV. In TSV they are ordinary characters.
#[test]
fn quotes_group_csv_but_not_tsv() {
    let folder = folder();
    let csv = put(&folder, "t.csv", b"\xef\xbb\xbfsentence,other,label\n\"a,\"\"b\nc\",,1\nd,,0\n");
    let data = load(&spec("text", &csv), &bytes(&["x"], 9)).unwrap();
    assert_eq!(data.train.features()[0].integers(), [ids("a,\"b\nc", 9), ids("d", 9)].concat());
    // A missing mark would join rows into one text.
    for (rows, line) in [("\"a,1\nb,0\n", 2), ("a,1\n\"b\"c,0\n", 3)] {
        let csv = put(&folder, "wrong.csv", format!("sentence,label\n{rows}").as_bytes());
        let message = refusal(&spec("text", &csv), &bytes(&["x"], 9));
        assert!(message.contains(&format!("wrong.csv: line {line}: a field ")), "{message}");
    }
    let tsv = put(&folder, "t.tsv", b"sentence\tlabel\n\"a\t1\nb\"\t0\n");
    let data = load(&spec("text", &tsv), &bytes(&["x"], 9)).unwrap();
    assert_eq!(data.train.features()[0].integers(), [ids("\"a", 9), ids("b\"", 9)].concat());
}

// A folder of splits loads plain and compressed.
#[test]
fn split_folder_loads_plain_and_gzip() {
    let (train, dev) = (b"label\ttext\n1\tab\n0\tcd\n", b"label\ttext\n1\tef\n");
    let plain = folder();
    put(&plain, "train.tsv", train);
    put(&plain, "dev.tsv", dev);
    let zipped = folder();
    put(&zipped, "train.tsv.gz", &gz(train));
    put(&zipped, "dev.tsv.gz", &gz(dev));
    put(&zipped, "test.tsv", b"label\ttext\n0\tunlike\n");
    let data = load(&spec("text", plain.path()), &bytes(&["x"], 9)).unwrap();
    assert_eq!(data, load(&spec("text", zipped.path()), &bytes(&["x"], 9)).unwrap(), "dev is taken before test");
    assert_eq!((data.train.len(), data.test.as_ref().unwrap().len()), (2, 1));

    let other =
        DataOptions { test: Some(TestSource::Spec(spec("text", &plain.path().join("dev.tsv")))), ..bytes(&["x"], 9) };
    assert_eq!(data, load(&spec("text", &zipped.path().join("train.tsv.gz")), &other).unwrap());
    let empty = folder();
    assert!(refusal(&spec("text", empty.path()), &bytes(&["x"], 9)).contains("no train.tsv"));
}

// Text columns are found by usual names, given names and numbers.
#[test]
fn text_columns_have_names_and_numbers() {
    let folder = folder();
    let named = put(&folder, "named.tsv", b"verdict\treview\n1\tab\n");
    let bare = put(&folder, "bare.tsv", b"1\tab\n");
    let mut options = bytes(&["x"], 5);
    let message = refusal(&spec("text", &named), &options);
    assert!(message.contains("`text_column`") && message.contains("'review'"), "{message}");
    options.text.text_column = Some("review".into());
    let message = refusal(&spec("text", &named), &options);
    assert!(message.contains("`label_column`") && message.contains("'verdict'"), "{message}");
    options.label_column = Some("verdict".into());
    let data = load(&spec("text", &named), &options).unwrap();
    assert_eq!(data.train.features()[0].integers(), ids("ab", 5));
    options.header = Some(false);
    assert!(refusal(&spec("text", &bare), &options).contains("no column 'review'"));
    options.text.text_column = Some("1".into());
    options.label_column = Some("0".into());
    assert_eq!(data, load(&spec("text", &bare), &options).unwrap());
}

// A bad row of text is an error that names its line, or makes a null sample.
#[test]
fn bad_text_row_is_named_or_null_sample() {
    let folder = folder();
    let rows: [(&[u8], &str); 8] = [
        (b"1\t", "the text is empty"),
        (b"1\t \t ", "has 3 fields"),
        (b"1", "has 1 fields"),
        (b"1\t\xff\xfe", "not UTF-8"),
        (b"cat\tab", "column 'label'"),
        (b"\tab", "column 'label'"),
        (b"2\tab", "the label 2"),
        (b"nan\tab", "the label NaN"),
    ];
    for (row, fault) in rows {
        let path = put(&folder, "bad.tsv", &[b"label\ttext\n1\tab\n", row, &b"\n0\tcd".repeat(98)].concat());
        let message = refusal(&spec("text", &path), &bytes(&["x"], 5));
        assert!(message.contains("bad.tsv: line 3: ") && message.contains(fault), "{message}");
        assert_eq!(message.contains("`on_bad_row` drop"), !fault.contains("label"), "{message}");
        let drop = DataOptions { on_bad_row: OnBadRow::Drop, ..bytes(&["x"], 5) };
        let data = load(&spec("text", &path), &drop).unwrap();
        assert_eq!([0, 1, 2].map(|row| data.train.is_null(row)), [false, true, false]);
        assert_eq!(data.train.features()[0].integers()[..15], [ids("ab", 5), vec![0; 5], ids("cd", 5)].concat());
        assert_eq!(classes(data.train.labels())[..3], [1, 0, 0]);
    }
}

#[test]
fn a_text_file_of_the_wrong_form_is_refused() {
    let folder = folder();
    let cases: [(&str, &[u8], &str); 5] = [
        ("t.json", b"{}", "end it in .tsv, .csv or .txt"),
        ("t.tsv", b"", "is empty"),
        ("t.tsv", b"\n\n", "holds no lines"),
        ("t.tsv", b"label\ttext\n", "holds no samples"),
        ("t.tsv.gz", b"\x1f\x8b\x08\x00", "truncated"),
    ];
    for (name, bytes_of, fault) in cases {
        let path = put(&folder, name, bytes_of);
        let message = refusal(&spec("text", &path), &bytes(&["x"], 5));
        assert!(message.contains(name) && message.contains(fault), "{message}");
    }
    let path = put(&folder, "t.tsv", b"label\ttext\n1\tab\n");
    let scaled = DataOptions { normalize: Some((0.0, 1.0).into()), ..bytes(&["x"], 5) };
    assert!(refusal(&spec("text", &path), &scaled).contains("`normalize`"));
}

// Integer inputs accept only integers within the range of the embedding matrix.
#[test]
fn integer_inputs_check_lookup_range() {
    let folder = folder();
    let path = put(&folder, "t.csv", b"a,b,y\n3,0,1\n9,2,0\n");
    let input = |rows| vec![InputShape { rows, ..integer_input("x", 2) }];
    let normalized =
        DataOptions { inputs: input(Some(10)), normalize: Some((1.0, 2.0).into()), ..DataOptions::default() };
    let data = load(&spec("csv", &path), &normalized).unwrap();
    assert_eq!(data.train.features()[0].integers(), [3, 0, 9, 2], "normalization is for floats");
    let message = refusal(&spec("csv", &path), &DataOptions { inputs: input(Some(9)), ..DataOptions::default() });
    assert!(message.contains("line 3") && message.contains("rows 0 to 8"), "{message}");
    let path = put(&folder, "t.csv", b"a,b,y\n3,0,1\n9,2.5,0\n");
    let message = refusal(&spec("csv", &path), &DataOptions { inputs: input(None), ..DataOptions::default() });
    assert!(message.contains("line 3") && message.contains("2.5") && message.contains("whole"), "{message}");
}

// Labels of several axes must have the shape of the model.
#[test]
fn label_axes_must_match_model() {
    let folder = folder();
    let y = npy("|u1", false, &[2, 1, 2], &[0, 1, 1, 0]);
    let x = npy("|u1", false, &[2, 1], &[0, 1]);
    let path = put(&folder, "t.npz", &npz(&[("x", x), ("y", y)]));
    let shaped = |shape: &[usize]| DataOptions {
        labels: LabelKind::Classes { classes: Some(2), shape: Some(shape.to_vec()) },
        ..DataOptions::default()
    };
    let data = load(&spec("npz", &path), &shaped(&[1, 2])).unwrap();
    assert_eq!(classes(data.train.labels()), [0, 1, 1, 0]);
    assert!(refusal(&spec("npz", &path), &shaped(&[])).contains("`class_axis`"));
    assert!(refusal(&spec("npz", &path), &DataOptions::default()).contains("one-hot"));
}

#[test]
fn sst2_is_what_its_description_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/sst2");
    if !path.is_dir() {
        damper_testing::skip("data", format_args!("{} is not there", path.display()));
        return;
    }
    let mut options = bytes(&["input_ids", "attention_mask"], 64);
    options.text.tokenizer = Some(tokenizer("wordpiece.json"));
    let data = load(&spec("text", &path), &options).unwrap();
    assert_eq!((data.train.len(), data.test.as_ref().unwrap().len()), (67_349, 872));
    let labels = classes(data.train.labels());
    let positive = labels.iter().sum::<i64>() as f64 / labels.len() as f64;
    assert!((positive - 0.5578).abs() < 1e-4, "{positive}");
    let ids = data.train.features()[0].integers();
    assert!(ids.chunks(64).all(|text| text[0] == 2));
    let unknown = ids.iter().filter(|id| **id == 1).count();
    assert!(unknown < 100, "{unknown}");
}
