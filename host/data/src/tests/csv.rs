//! Tests of CSV files.

use super::*;

// CSV files load with or without a header, and with the label in any column.
#[test]
fn csv_header_is_optional() {
    let folder = folder();
    let options = DataOptions::default();
    let with = put(&folder, "with.csv", b"a,b,label\n1, 2.5 ,0\n3,4,1\n");
    let without = put(&folder, "without.csv", b"1,2.5,0\r\n3,4,1\r\n");
    let data = load(&spec("csv", &with), &options).unwrap();
    assert_eq!(data.train, load(&spec("csv", &without), &options).unwrap().train);
    assert_eq!(data.train.features()[0].floats(), [1.0, 2.5, 3.0, 4.0]);
    assert_eq!(classes(data.train.labels()), [0, 1]);
    assert!(data.test.is_none());

    let first = put(&folder, "first.csv", "\u{feff}label,a,b\n0,1,2.5\n1,3,4\n".as_bytes());
    for column in ["label", "0"] {
        let options = DataOptions { label_column: Some(column.into()), ..DataOptions::default() };
        assert_eq!(data.train, load(&spec("csv", &first), &options).unwrap().train);
    }
    let options = DataOptions { label_column: Some("wrong".into()), ..DataOptions::default() };
    let message = refusal(&spec("csv", &first), &options);
    assert!(message.contains("'wrong'") && message.contains("'label'"), "{message}");

    let numbers = put(&folder, "numbers.csv", b"5,6,7\n1,2.5,0\n3,4,1\n");
    let options = DataOptions { header: Some(true), ..DataOptions::default() };
    assert_eq!(data.train, load(&spec("csv", &numbers), &options).unwrap().train);

    let options = DataOptions { labels: LabelKind::Values { shape: Some(vec![1]) }, ..DataOptions::default() };
    match load(&spec("csv", &with), &options).unwrap().train.labels() {
        Labels::Values { shape, values } => {
            assert_eq!((&shape[..], &values[..]), (&[1][..], &[0.0, 1.0][..]))
        }
        other => panic!("{other:?}"),
    }
    let options = DataOptions { labels: LabelKind::None, ..DataOptions::default() };
    let data = load(&spec("csv", &with), &options).unwrap();
    assert_eq!(data.train.features()[0].shape, [3]);
    assert_eq!(data.train.labels(), &Labels::None);
}

// A bad CSV row is an error that names its line, or makes a null sample.
#[test]
fn bad_csv_row_is_named_or_null_sample() {
    let folder = folder();
    for (field, fault) in [
        ("x", "column 'a'"),
        ("", "column 'a'"),
        ("NaN", "NaN"),
        ("inf", "'a' is inf"),
        ("1e39", "'a' is 1e39, too large for float32"),
    ] {
        let rest = "5,6,1\n".repeat(98);
        let path = put(&folder, "bad.csv", format!("a,b,y\n1,2,0\n\n{field},4,1\n{rest}").as_bytes());
        let message = refusal(&spec("csv", &path), &DataOptions::default());
        assert!(message.contains("bad.csv: line 4: ") && message.contains(fault), "{message}");
        // A text is a fault of the file, not of the row.
        assert_eq!(message.contains("`on_bad_row` drop"), field != "x", "{message}");
        let options = DataOptions { on_bad_row: OnBadRow::Drop, ..DataOptions::default() };
        let data = load(&spec("csv", &path), &options).unwrap();
        assert_eq!(data.train.features()[0].floats()[..6], [1.0, 2.0, 0.0, 0.0, 5.0, 6.0]);
        assert_eq!([0, 1, 2].map(|row| data.train.is_null(row)), [false, true, false]);
    }
    for (label, fault) in [("0.5", "0.5"), ("-1", "-1"), ("cat", "column 'y'"), ("nan", "NaN")] {
        let path = put(&folder, "bad.csv", format!("a,y\n1,0\n2,{label}\n").as_bytes());
        let message = refusal(&spec("csv", &path), &DataOptions::default());
        assert!(message.contains("line 3") && message.contains(fault), "{message}");
    }
}

#[test]
fn many_bad_rows_are_no_rows_to_drop() {
    let folder = folder();
    let options = DataOptions { on_bad_row: OnBadRow::Drop, ..DataOptions::default() };
    for (bad, rows, is_refused) in [(1, 100, false), (1, 99, true), (2, 200, false), (3, 200, true), (200, 200, true)] {
        let text: String = (0..rows).map(|row| if row < bad { "nan,1\n" } else { "2,1\n" }).collect();
        let path = put(&folder, "bad.csv", text.as_bytes());
        match load(&spec("csv", &path), &options) {
            Ok(_) => assert!(!is_refused, "{bad} of {rows}"),
            Err(error) => {
                let message = error.to_string();
                assert!(is_refused && message.contains("more than 1 %") && message.contains("line 1:"), "{message}");
                assert!(!message.contains("200") && !message.contains("use `on_bad_row`"), "{message}");
            }
        }
    }
}

#[test]
fn a_csv_file_of_the_wrong_form_is_refused() {
    let folder = folder();
    let cases: [(&[u8], &str); 6] = [
        (b"", "is empty"),
        (b"\n\n", "no lines"),
        (b"a,b\n", "no samples"),
        (b"a,b,y\n1,2,0\n1,2\n", "line 3: has 2 fields"),
        (b"y\n1\n", "no column of features"),
        (b"a,y\n1,0\n\xff\xfe,1\n", "not UTF-8"),
    ];
    for (bytes, fault) in cases {
        let path = put(&folder, "wrong.csv", bytes);
        let message = refusal(&spec("csv", &path), &DataOptions::default());
        assert!(message.contains("wrong.csv") && message.contains(fault), "{message}");
    }
}
