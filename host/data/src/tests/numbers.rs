//! Properties of numbers: the model receives the file's values, rounded once. Also tests the first line and the line
//! numbers of messages.

use super::*;
use proptest::prelude::*;

const LARGE: i64 = 9_007_199_254_740_993;

fn integers_wanted(shape: &[usize]) -> Vec<InputShape> {
    vec![InputShape { name: "id".into(), shape: shape.to_vec(), dtype: DType::I64, rows: None }]
}

fn of_integers() -> DataOptions {
    DataOptions { inputs: integers_wanted(&[1]), ..DataOptions::default() }
}

fn y3() -> Vec<u8> {
    npy("|u1", false, &[3], &[0, 1, 0])
}

/// Returns a data set in memory with three samples of one feature.
fn memory(values: MemoryValues, options: DataOptions) -> Result<Dataset, DataError> {
    let labels = MemoryArray { name: "y".into(), shape: vec![3], values: MemoryValues::I64(vec![0, 1, 0]) };
    let features = MemoryArray { name: "x".into(), shape: vec![3, 1], values };
    let memory = MemoryArrays::new(MemorySplit { features: vec![features], labels: Some(labels) }, None);
    load("memory:train", &DataOptions { memory: Some(memory), ..options })
}

#[test]
fn ids_beyond_floats_reach_the_model() {
    let folder = folder();
    let ids = [16_777_217, LARGE, -LARGE];
    let text: String = ids.iter().map(|id| format!("{id},0\n")).collect();
    let csv = put(&folder, "ids.csv", text.as_bytes());
    let found = |data: Dataset| data.train.features()[0].integers().to_vec();
    assert_eq!(found(load(&spec("csv", &csv), &of_integers()).unwrap()), ids);
    let arrays = [("x", npy("<i8", false, &[3, 1], &le(&ids, i64::to_le_bytes))), ("y", y3())];
    let file = put(&folder, "ids.npz", &npz(&arrays));
    assert_eq!(found(load(&spec("npz", &file), &of_integers()).unwrap()), ids);
    assert_eq!(found(memory(MemoryValues::I64(ids.to_vec()), of_integers()).unwrap()), ids);
    assert_eq!(found(memory(MemoryValues::U64(vec![1, 2, LARGE as u64]), of_integers()).unwrap()), [1, 2, LARGE]);
    // A list index is an integer too.
    let words = put(&folder, "words.csv", b"w,y\nred,0\nblue,1\n");
    let options = DataOptions { categories: vec![("w".into(), vec!["blue".into(), "red".into()])], ..of_integers() };
    assert_eq!(found(load(&spec("csv", &words), &options).unwrap()), [1, 0]);
}

#[test]
fn what_does_not_fit_names_row_and_column() {
    let folder = folder();
    for (field, fault) in [
        ("0.5", "column 'id' is 0.5 where the model's input takes whole numbers"),
        (
            "18446744073709551615",
            "column 'id' is 18446744073709551615 where the model's input takes integers from -2^63",
        ),
        ("1e300", "column 'id' is 1e300 where the model's input takes integers"),
        ("9007199254740993.0", "write it as int64"),
    ] {
        let csv = put(&folder, "ids.csv", format!("id,y\r\n1,0\r\n{field},1\r\n").as_bytes());
        let message = refusal(&spec("csv", &csv), &of_integers());
        assert!(message.contains("ids.csv: line 3: ") && message.contains(fault), "{message}");
    }
    let inputs = integers_wanted(&[2]);
    let x = npy("<u8", false, &[3, 2], &le(&[1, 2, 3, u64::MAX, 5, 6], u64::to_le_bytes));
    let file = put(&folder, "x.npz", &npz(&[("x", x), ("y", y3())]));
    let message = refusal(&spec("npz", &file), &DataOptions { inputs, ..DataOptions::default() });
    assert!(message.contains("array 'x': row 1 (counted from 0): a feature, value 1 of the sample"), "{message}");
    assert!(message.contains("is 18446744073709551615 where the model's input 'id'"), "{message}");
    for values in [
        MemoryValues::F32(vec![1.0, 16_777_216.0, 2.0]),
        MemoryValues::F64(vec![1.0, 9_007_199_254_740_992.0, 2.0]),
        MemoryValues::F64(vec![1.0, 0.25, 2.0]),
    ] {
        assert!(memory(values, of_integers()).unwrap_err().to_string().contains("row 1"));
    }
    let message = memory(MemoryValues::F64(vec![1.0, -1e39, 2.0]), DataOptions::default()).unwrap_err().to_string();
    assert!(message.contains("row 1") && message.contains("-1e39, too large for float32"), "{message}");
    // In range after scaling.
    let normalize = Some((0.0, 1e38).into());
    let data = memory(MemoryValues::F64(vec![1.0, -1e39, 2.0]), DataOptions { normalize, ..DataOptions::default() });
    assert_eq!(data.unwrap().train.features()[0].floats()[1], -10.0);
}

// An integer input receives integers after `scale` too. Regression: bits that a float cannot represent were lost
// silently.
#[test]
fn integers_are_scaled_without_rounding() {
    let folder = folder();
    let scaled = |field: &str, mean, std| {
        let csv = put(&folder, "ids.csv", format!("id,y\n{field},0\n").as_bytes());
        load(&spec("csv", &csv), &DataOptions { scale: vec![("id".into(), mean, std)], ..of_integers() })
            .map(|data| data.train.features()[0].integers()[0])
            .map_err(|error| error.to_string())
    };
    let two_53 = (LARGE - 1) as f64;
    for (field, mean, std, wanted) in [
        ("9007199254740993", two_53, 1.0, 1),
        ("9007199254740995", two_53, 3.0, 1),
        ("9007199254740993", 0.0, 1.0, LARGE),
        ("18014398509481986", 0.0, 2.0, LARGE),
        ("18446744073709551615", 9_223_372_036_854_775_808.0, 1.0, i64::MAX),
        ("7", 1.0, 0.5, 12),
        ("7.0", 1.0, 3.0, 2),
    ] {
        assert_eq!(scaled(field, mean, std), Ok(wanted), "{field}");
    }
    for (field, mean, std, fault) in [
        ("9007199254740993.0", two_53, 1.0, "does not hold each integer of this size"),
        ("9007199254740993", 0.5, 1.0, "does not hold each integer of this size"),
        // A float64 would give 3002399751580332.
        ("9007199254740995", 0.0, 3.0, "takes whole numbers"),
        ("8", 1.0, 3.0, "takes whole numbers"),
        ("9223372036854775807", -1.0, 1.0, "below 2^63"),
    ] {
        let message = scaled(field, mean, std).unwrap_err();
        assert!(message.contains("line 2: column 'id' is") && message.contains(fault), "{field}: {message}");
    }
    let normalize = Some((1.0, 2.0).into());
    let csv = put(&folder, "ids.csv", b"id,y\n7,0\n");
    let notes = load(&spec("csv", &csv), &DataOptions { normalize, ..of_integers() }).unwrap().notes;
    assert!(notes[0].contains("`normalize` is for floats") && notes[0].contains("'id' stay as they are"), "{notes:?}");
}

#[test]
fn constants_are_exact() {
    for text in ["0,9007199254740993", "0,1:1,9007199254740993", "18446744073709551615,1"] {
        assert!(text.parse::<Normalize>().unwrap_err().to_string().contains("is no 64-bit float"), "{text}");
    }
    assert_eq!("9007199254740992,0.1".parse::<Normalize>().unwrap(), (9_007_199_254_740_992.0, 0.1).into());
}

// A quotation mark that does not end its field is an error. Regression: `"2"3` was read as 23, and an unpaired mark
// included the following rows.
#[test]
fn wrong_quotation_marks_name_their_line() {
    let folder = folder();
    let long = "1,0\n".repeat(40_000);
    for (text, line, fault) in [
        ("a,y\n\"1\",0\n\"2\"3,1\n", 3, "text behind its closing quotation mark"),
        ("a,y\r\n1,0\r\n2,\"1\r\n3,0\r\n", 3, "none closes it"),
        ("a,y\n1,0\n\"2,1\n3,0\n\"4\",1\n", 3, "text behind its closing quotation mark"),
        ("\"a\"b,y\n1,0\n", 1, "text behind"),
        ("\"a,y\n1,0\n", 1, "none closes it"),
        (&format!("a,y\n{long}\"7\"1,0\n"), 40_002, "text behind"),
        (&format!("a,y\n\"7,0\n{long}"), 2, "none closes it"),
    ] {
        for bytes in [text.as_bytes().to_vec(), gz(text.as_bytes())] {
            let csv = put(&folder, "t.csv", &bytes);
            let dropped = DataOptions { on_bad_row: OnBadRow::Drop, ..DataOptions::default() };
            for options in [DataOptions::default(), dropped] {
                let message = refusal(&spec("csv", &csv), &options);
                assert!(message.contains(&format!("t.csv: line {line}: ")) && message.contains(fault), "{message}");
            }
        }
    }
    // Earlier faults are reported first, and another delimiter before all others.
    let csv = put(&folder, "t.csv", b"a,y\n1\n\"2\"3,1\n");
    assert!(refusal(&spec("csv", &csv), &DataOptions::default()).contains("line 2: has 1 fields"));
    let csv = put(&folder, "t.csv", b"\"a\";\"y\"\n1;0\n");
    assert!(refusal(&spec("csv", &csv), &DataOptions::default()).contains("give `delimiter` ';'"));
    let csv = put(&folder, "t.csv", b"\"a\" ,\"y\"\n\"1\", 0\n");
    assert_eq!(load(&spec("csv", &csv), &DataOptions::default()).unwrap().train.features()[0].floats(), [1.0]);
}

#[test]
fn timestamps_stay_apart_after_scaling() {
    let folder = folder();
    let times = [1_700_000_000i64, 1_700_000_001, 1_700_000_002];
    let text: String = times.iter().map(|time| format!("{time},0\n")).collect();
    let csv = put(&folder, "times.csv", ["t,y\n", &text].concat().as_bytes());
    let arrays = [("x", npy("<i8", false, &[3, 1], &le(&times, i64::to_le_bytes))), ("y", y3())];
    let file = put(&folder, "times.npz", &npz(&arrays));
    let normalized = DataOptions { normalize: Some((1_700_000_001.0, 0.5).into()), ..DataOptions::default() };
    let scaled = DataOptions { scale: vec![("t".into(), 1_700_000_001.0, 0.5)], ..DataOptions::default() };
    let floats = |data: Dataset| data.train.in_memory().unwrap().features()[0].floats().to_vec();
    for options in [&normalized, &scaled] {
        assert_eq!(floats(load(&spec("csv", &csv), options).unwrap()), [-2.0, 0.0, 2.0]);
    }
    let wide: Vec<f64> = times.iter().map(|time| *time as f64).collect();
    for data_memory in [None, Some(0)] {
        let options = DataOptions { data_memory, ..normalized.clone() };
        assert_eq!(floats(load(&spec("npz", &file), &options).unwrap()), [-2.0, 0.0, 2.0]);
        assert_eq!(floats(memory(MemoryValues::F64(wide.clone()), options).unwrap()), [-2.0, 0.0, 2.0]);
        // With constants that a run releases.
        let options = DataOptions { data_memory, unrounded: true, ..DataOptions::default() };
        for data in [
            load(&spec("csv", &csv), &options).unwrap(),
            load(&spec("npz", &file), &options).unwrap(),
            memory(MemoryValues::F64(wide.clone()), options.clone()).unwrap(),
        ] {
            let mut train = data.train;
            let mut row = [0.0];
            assert!(train.unrounded(0, 1, &mut row).unwrap() && row == [1_700_000_001.0]);
            train.keep_rows(1..3);
            assert_eq!(scaled_floats(&train, &(1_700_000_001.0, 0.5).into(), &[1, 2]), [0.0, 2.0]);
        }
    }
}

#[test]
fn labels_are_scaled_once() {
    let folder = folder();
    let csv = put(&folder, "prices.csv", b"a,price\n1,250001\n2,350000\n3,9007199254740993\n");
    let values = LabelKind::Values { shape: None };
    let options = |name: &str| DataOptions {
        labels: values.clone(),
        scale: vec![(name.into(), 250_000.0, 100_000.0)],
        ..DataOptions::default()
    };
    let data = load(&spec("csv", &csv), &options("price")).unwrap();
    assert_eq!(data.train.label_scale(), Some((250_000.0, 100_000.0)));
    let Labels::Values { values: found, .. } = data.train.labels() else { panic!() };
    assert_eq!(found[..], [1e-5, 1.0, ((LARGE - 250_000) as f64 / 1e5) as f32]);
    let y = npy("<f8", false, &[3], &le(&[250_001.0, 350_000.0, LARGE as f64], f64::to_le_bytes));
    let file = put(&folder, "prices.npz", &npz(&[("x", x4()), ("y", y)]));
    let data = load(&spec("npz", &file), &options("labels")).unwrap();
    assert_eq!(data.train.labels(), &Labels::Values { shape: vec![], values: found.clone() });
    assert!(refusal(&spec("npz", &file), &options("price")).contains("have no columns"));
    for labels in [LabelKind::default(), LabelKind::Chances { shape: None }, LabelKind::None] {
        let options = DataOptions { labels, ..options("labels") };
        assert!(refusal(&spec("npz", &file), &options).contains("`scale` labels"));
    }
    let twice = [options("price").scale, options("price").scale].concat();
    let message = refusal(&spec("csv", &csv), &DataOptions { scale: twice, ..options("price") });
    assert!(message.contains("scaled already"), "{message}");
}

/// A case is true if the first line names the columns, and `None` if that is ambiguous.
#[test]
fn first_line_follows_one_rule() {
    let folder = folder();
    let cases: [(&str, Option<bool>); 24] = [
        ("a,b,y", Some(true)),
        ("1,b,2", None),
        ("NA,b,y", None),
        (",a,y", Some(true)),
        ("61,1,HIV+,0", None),
        ("red,b,y", None),
        ("\"a\",\"b\",\"y\"", Some(true)),
        ("\u{feff}a,b,y", Some(true)),
        ("\n\na,b,y", Some(true)),
        ("5,6,7", Some(false)),
        ("\"5\",\"6\",\"7\"", Some(false)),
        ("NA,1,2", Some(false)),
        ("?,1,2", Some(false)),
        ("null,1,2", Some(false)),
        ("None,1,2", Some(false)),
        ("<NA>,nan,2", Some(false)),
        ("red,1,2", Some(false)),
        ("2019,2020,2021", Some(false)),
        ("0.0,1.0,2.0", Some(false)),
        ("0,1,2", None),
        ("\"0\",\"1\",\"2\"", None),
        ("\u{feff}0,1,2", None),
        (",0,1", None),
        ("0,1,2,3,4,5,6,7,8,9,10", None),
    ];
    let list = [("colour".to_owned(), vec!["red".to_owned(), "blue".to_owned()])];
    for (first, wanted) in cases {
        let row = vec!["3"; first.matches(',').count() + 1].join(",");
        let csv = put(&folder, "t.csv", format!("{first}\n{row}\n{row}\n").as_bytes());
        let given = |header, categories: &[(String, Vec<String>)]| {
            let options = DataOptions { header, on_bad_row: OnBadRow::Drop, ..DataOptions::default() };
            let mut naming = crate::rows::Naming::new(None, None).unwrap();
            let options = DataOptions { categories: categories.to_vec(), ..options };
            let spec = spec("csv", &csv);
            let (format, path) = crate::formats::find(&spec, &options).unwrap();
            let result = format.read(path, &options, &mut naming);
            (result.map(|(split, _)| split.len()).map_err(|error| error.to_string()), naming.finish().1)
        };
        // Only 'red' depends on the list. A missing name stops reading after the decision.
        let (result, notes) = if first.starts_with("red") {
            let named = vec![("0".to_owned(), list[0].1.clone())];
            given(None, &named)
        } else {
            given(None, &[])
        };
        match wanted {
            // A header with an unnamed first column.
            Some(true) if first.starts_with(',') => {
                let message = result.unwrap_err();
                assert!(message.contains("column 0 (counted from 0) has no name"), "{first}: {message}");
            }
            Some(header) => {
                let decision = format!("(`header` {})", if header { "yes" } else { "no" });
                assert!(notes.iter().any(|note| note.contains(&decision)), "{first}: {notes:?}");
            }
            None => {
                let message = result.unwrap_err();
                assert!(message.contains("line 1: has ") && notes.is_empty(), "{first}: {message}");
                let is_mixed = first.contains(char::is_alphabetic);
                assert_eq!(message.contains("beside other words"), is_mixed, "{first}: {message}");
                assert!(message.contains("`header` yes or no"), "{message}");
            }
        }
    }
    let csv = put(&folder, "t.csv", b"0,1,2\n3,4,1\n");
    // Without names, a second note reports that columns are matched by position.
    for (header, rows, notes) in [(true, 1, 1), (false, 2, 2)] {
        let data = load(&spec("csv", &csv), &DataOptions { header: Some(header), ..DataOptions::default() }).unwrap();
        assert_eq!((data.train.len(), data.notes.len()), (rows, notes), "{:?}", data.notes);
    }
    // A single column, and a single row.
    let alone = DataOptions { labels: LabelKind::None, ..DataOptions::default() };
    let one = |text: &str| load(&spec("csv", &put(&folder, "one.csv", text.as_bytes())), &alone);
    assert_eq!(one("7\n").unwrap().train.len(), 1);
    assert_eq!(one("x\n7\n8\n").unwrap().train.len(), 2);
    assert!(one("0\n7\n").unwrap_err().to_string().contains("the numbers 0 to 0"));
    assert!(one("x\n").unwrap_err().to_string().contains("no samples"));
}

#[test]
fn messages_name_the_line_of_an_editor() {
    let folder = folder();
    for (text, line) in [
        ("a,y\r\n1,0\r\n\"no\",0\r\n", 3),
        ("a,y\r1,0\rno,0\r", 3),
        ("a,y\r\n\r\n\r\n1,0\r\n\r\nno,0", 6),
        ("\u{feff}a,y\r\nno,0\r\n\r\n\r\n", 2),
        ("\"a\r\nb\",y\r\n1,0\r\nno,0\r\n", 4),
        ("a,y\n\n1,0\nno,0\n", 4),
        ("a,y\r\n1,0\r\n1\r\n", 3),
    ] {
        for bytes in [text.as_bytes().to_vec(), gz(text.as_bytes())] {
            let csv = put(&folder, "lines.csv", &bytes);
            let message = load(&spec("csv", &csv), &DataOptions::default()).unwrap_err().to_string();
            assert!(message.contains(&format!("line {line}: ")), "{text:?}: {message}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A number in text reaches an input of float32 or int64 as the standard library rounds it.
    #[test]
    fn texts_are_rounded_once(ids in prop::collection::vec(any::<i64>(), 1..20), floats in prop::collection::vec(any::<f32>(), 1..20), shift in 0..60u32) {
        let folder = folder();
        let ids: Vec<i64> = ids.iter().map(|id| id >> shift).collect();
        let rows: String = ids.iter().map(|id| format!("{id},0\n")).collect();
        let csv = put(&folder, "t.csv", ["id,y\n", &rows].concat().as_bytes());
        let found = load(&spec("csv", &csv), &of_integers()).unwrap();
        prop_assert_eq!(found.train.features()[0].integers(), &ids[..]);
        let found = load(&spec("csv", &csv), &DataOptions::default()).unwrap();
        let wanted: Vec<f32> = ids.iter().map(|id| i128::from(*id) as f32).collect();
        prop_assert_eq!(found.train.features()[0].floats(), &wanted[..]);
        let texts: Vec<String> = floats.iter().filter(|x| x.is_finite()).map(|x| format!("{}", f64::from(*x) * 1.000_000_03)).collect();
        let texts: Vec<String> = texts.into_iter().filter(|text| (text.parse::<f64>().unwrap() as f32).is_finite()).collect();
        prop_assume!(!texts.is_empty());
        let rows: String = texts.iter().map(|text| format!("{text},0\n")).collect();
        let csv = put(&folder, "t.csv", ["x,y\n", &rows].concat().as_bytes());
        let found = load(&spec("csv", &csv), &DataOptions::default()).unwrap();
        let wanted: Vec<u32> = texts.iter().map(|text| (text.parse::<f64>().unwrap() as f32).to_bits()).collect();
        let bits: Vec<u32> = found.train.features()[0].floats().iter().map(|x| x.to_bits()).collect();
        prop_assert_eq!(bits, wanted);
    }
}
