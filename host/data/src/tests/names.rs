//! Columns and classes by name. Expected values are written by hand. Files of `parquet/` come from pandas, pyarrow and
//! polars.

use super::*;

/// Returns the rows of the table `a,b,y` with a = 0..6, b = 10 a, y = a % 2, as features and class.
fn rows() -> Vec<f32> {
    (0..6).flat_map(|a| [a as f32, 10.0 * a as f32]).collect()
}

fn table() -> DataOptions {
    DataOptions { inputs: input(&[2]), ..DataOptions::default() }
}

fn floats(split: &Split) -> &[f32] {
    split.features()[0].floats()
}

/// Writes a CSV file of that table with its columns in this order.
fn csv(folder: &TempDir, name: &str, order: &str) -> String {
    let cell = |a: usize, column: &str| match column {
        "a" => a.to_string(),
        "b" => (10 * a).to_string(),
        _ => (a % 2).to_string(),
    };
    let line = |a: usize| order.split(',').map(|column| cell(a, column)).collect::<Vec<_>>().join(",") + "\n";
    let text = format!("{order}\n{}", (0..6).map(line).collect::<String>());
    spec("csv", &put(folder, name, text.as_bytes()))
}

fn known(columns: &[&str], label: Option<&str>, are_all: bool) -> Option<KnownNames> {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    let names = DataNames { table: Some(TableNames { columns, label: label.map(String::from) }), classes: None };
    Some(KnownNames { names, origin: "the model".into(), are_all })
}

fn test(spec: String, options: DataOptions) -> DataOptions {
    DataOptions { test: Some(TestSource::Spec(spec)), ..options }
}

/// Writes held-out rows, which must differ from the training rows in one number.
fn other(folder: &TempDir, name: &str, text: &str) -> String {
    spec("csv", &put(folder, name, text.as_bytes()))
}

// A test set with another column order is the same data. Regression: its columns were swapped.
#[test]
fn columns_of_test_match_by_name() {
    let folder = folder();
    let data = csv(&folder, "train.csv", "a,b,y");
    let held_out = other(&folder, "test.csv", "y,b,a\n1,70,7\n0,80,8\n");
    let read = load(&data, &test(held_out, table())).unwrap();
    assert_eq!((floats(&read.train), classes(read.train.labels())), (&rows()[..], &[0, 1, 0, 1, 0, 1][..]));
    let held_out = read.test.unwrap();
    assert_eq!((floats(&held_out), classes(held_out.labels())), (&[7.0, 70.0, 8.0, 80.0][..], &[1, 0][..]));
    let names = read.names.table.unwrap();
    assert_eq!((names.columns, names.label.as_deref()), (["a", "b", "y"].map(String::from).into(), Some("y")));
    let said = |name: &str| format!("{name}: the first line names the columns (`header` yes): ");
    let (train, test) = (said("train.csv") + "'a', 'b', 'y'; label 'y'", said("test.csv") + "'y', 'b', 'a'; label 'y'");
    assert!(read.notes.len() == 2, "{:?}", read.notes);
    assert!(read.notes[0].ends_with(&train) && read.notes[1].ends_with(&test), "{:?}", read.notes);
}

// A column number refers to that position in the first file.
#[test]
fn numbers_are_places_of_the_first_file() {
    let folder = folder();
    let data = csv(&folder, "train.csv", "y,a,b");
    let held_out = other(&folder, "test.csv", "a,b,y\n7,70,1\n");
    let by_number = DataOptions {
        label_column: Some("0".into()),
        scale: vec![("2".into(), 10.0, 10.0)],
        ..test(held_out, table())
    };
    let read = load(&data, &by_number).unwrap();
    let held_out = read.test.unwrap();
    assert_eq!((floats(&held_out), classes(held_out.labels())), (&[7.0, 6.0][..], &[1][..]));
}

// A number that is also another column's name is ambiguous. Regression: the name won.
#[test]
fn numbers_that_are_names_are_errors() {
    let folder = folder();
    let one_way = other(&folder, "t.csv", "a,0,y\n1,20,0\n3,40,1\n");
    let options = |label: Option<&str>, scale: &[&str]| DataOptions {
        header: Some(true),
        label_column: label.map(String::from),
        scale: scale.iter().map(|name| ((*name).to_owned(), 1.0, 2.0)).collect(),
        ..table()
    };
    for options in [options(Some("0"), &[]), options(None, &["0"])] {
        let message = refusal(&one_way, &options);
        assert!(message.contains("'0' is the name of column 1 and the place of column 'a'"), "{message}");
    }
    let categories = vec![("0".to_owned(), vec!["20".to_owned(), "40".to_owned()])];
    assert!(refusal(&one_way, &DataOptions { categories, ..options(None, &[]) }).contains("the place of column 'a'"));
    // The position of a column, and the name of the other column, are unambiguous.
    let read = load(&one_way, &options(None, &["1", "a"])).unwrap();
    assert_eq!(floats(&read.train), [0.0, 9.5, 1.0, 19.5]);
    // Both refer to the same column, and a number beyond the positions is a name.
    let same = other(&folder, "t.csv", "0,7,y\n1,20,0\n3,40,1\n");
    assert_eq!(floats(&load(&same, &options(None, &["0", "7"])).unwrap().train), [0.0, 9.5, 1.0, 19.5]);
}

#[test]
fn known_names_put_columns_in_order() {
    let folder = folder();
    for order in ["a,b,y", "y,b,a", "b,y,a"] {
        let options = DataOptions { names: known(&["a", "b", "y"], Some("y"), false), ..table() };
        let read = load(&csv(&folder, "t.csv", order), &options).unwrap();
        assert_eq!((floats(&read.train), classes(read.train.labels())), (&rows()[..], &[0, 1, 0, 1, 0, 1][..]));
        // Only the features have names, as in a data frame of a program.
        let options = DataOptions { names: known(&["a", "b"], None, false), ..table() };
        let options = DataOptions { label_column: Some("y".into()), ..options };
        assert_eq!(floats(&load(&csv(&folder, "t.csv", order), &options).unwrap().train), rows());
    }
    // A number could refer to a position in the model or in the file.
    for (order, wanted, is_refused) in [("b,a,y", "0", true), ("b,a,y", "a", false), ("a,b,y", "0", false)] {
        let scale = vec![(wanted.to_owned(), 1.0, 2.0)];
        let options = DataOptions { names: known(&["a", "b", "y"], Some("y"), false), scale, ..table() };
        let spec = csv(&folder, "t.csv", order);
        if is_refused {
            let message = refusal(&spec, &options);
            assert!(message.contains("`scale` 0") && message.contains("in another order than the model"), "{message}");
        } else {
            let scaled = floats(&load(&spec, &options).unwrap().train).to_vec();
            let wanted = rows().chunks(2).flat_map(|row| [(row[0] - 1.0) / 2.0, row[1]]).collect::<Vec<_>>();
            assert_eq!(scaled, wanted);
        }
    }
    let options = DataOptions { names: known(&["a", "c", "y"], Some("y"), false), ..table() };
    let message = refusal(&csv(&folder, "t.csv", "a,b,y"), &options);
    assert!(message.contains("than the model: it lacks 'c', and has besides 'b'"), "{message}");
    let options = DataOptions {
        label_column: Some("b".into()),
        ..DataOptions { names: known(&["a", "b", "y"], Some("y"), false), ..table() }
    };
    let message = refusal(&csv(&folder, "t.csv", "a,b,y"), &options);
    assert!(message.contains("`label_column` b: the model has the label 'y'"), "{message}");
}

#[test]
fn files_without_names_match_by_place() {
    let folder = folder();
    let bare = |text: &str| other(&folder, "bare.csv", text);
    let read = load(&bare("1,2,0\n3,4,1\n"), &table()).unwrap();
    assert_eq!(floats(&read.train), [1.0, 2.0, 3.0, 4.0]);
    assert!(
        read.notes.len() == 2
            && read.notes[0].ends_with("no names, so they are matched by place")
            && read.notes[1]
                .contains("is a row, and columns are numbered from 0 (`header` no): '0', '1', '2'; label '2'"),
        "{:?}",
        read.notes
    );
    assert_eq!(read.names, DataNames::default());
    let options = DataOptions { names: known(&["a", "y", "b"], Some("y"), false), ..table() };
    let read = load(&bare("1,0,2\n3,1,4\n"), &options).unwrap();
    assert_eq!((floats(&read.train), classes(read.train.labels())), (&[1.0, 2.0, 3.0, 4.0][..], &[0, 1][..]));
    assert!(
        read.notes[0].ends_with("taken for those of the model by place")
            && read.notes[1].contains("the first line is a row (`header` no): 'a', 'y', 'b'; label 'y'"),
        "{:?}",
        read.notes
    );
    let message = refusal(&bare("1,2,3,0\n"), &options);
    assert!(message.contains("has 4 columns without names, and the model has 3"), "{message}");
    // With two files, for any model.
    let train = bare("1,2,0\n3,4,1\n");
    for (text, inputs) in [("5,6,7,1\n", input(&[2])), ("5,1\n", input(&[2])), ("5,6,7,1\n", vec![])] {
        let held_out = other(&folder, "test.csv", text);
        let message = refusal(&train, &DataOptions { inputs, ..test(held_out, table()) });
        let own = text.split(',').count();
        assert!(message.contains(&format!("test.csv: has {own} columns without names, and ")), "{message}");
        assert!(message.contains("bare.csv has 3: use data of the same columns"), "{message}");
    }
}

// With names, the differing names are listed.
#[test]
fn other_numbers_of_columns_are_named() {
    let folder = folder();
    let train = other(&folder, "train.csv", "a,b,y\n1,2,0\n3,4,1\n");
    for (text, words) in [
        ("a,y\n5,0\n", "lacks 'b'"),
        ("a,b,c,y\n5,6,7,1\n", "has besides 'c'"),
        ("b,a,c\n5,6,1\n", "lacks 'y', and has besides 'c'"),
    ] {
        let message = refusal(&train, &test(other(&folder, "test.csv", text), table()));
        assert!(message.contains("test.csv: has other columns than ") && message.contains(words), "{message}");
    }
}

#[test]
fn doubled_and_mixed_names_are_errors() {
    let folder = folder();
    let message = |text: &str| refusal(&other(&folder, "t.csv", text), &table());
    for (text, words) in [
        ("a,a,y\n1,2,0\n", "two columns 'a', 0 and 1"),
        ("a,A,y\n1,2,0\n", "'a' and 'A', 0 and 1 (counted from 0), differ by case alone"),
        ("a,ä,Ä\n1,2,0\n", "'ä' and 'Ä'"),
        ("a,y,\n1,2,0\n", "missing values beside other words"),
        ("Unnamed: 0,a,y\n1,2,0\n", "numbers of rows"),
    ] {
        assert!(message(text).contains(words), "{text}: {}", message(text));
    }
    let named = csv(&folder, "named.csv", "a,b,y");
    let bare = other(&folder, "bare.csv", "1,2,0\n3,5,1\n");
    assert!(refusal(&named, &test(bare.clone(), table())).contains("names no columns, and"));
    assert!(refusal(&bare, &test(named.clone(), table())).contains("its columns have names, and those of"));
    // A plan without names is an error, because another device may have another order.
    let names = Some(KnownNames { names: DataNames::default(), origin: "the plan".into(), are_all: true });
    let plan = DataOptions { names, ..table() };
    assert!(refusal(&named, &plan).contains("the plan names none"));
    assert!(load(&bare, &plan).is_ok());
    let listed = DataOptions { classes: Some(["0", "1"].map(String::from).into()), ..plan };
    assert!(refusal(&bare, &listed).contains("`classes` 0,1: the plan names no classes"));
}

#[test]
fn arrays_match_names_of_columns() {
    let split = |values: &[f32], labels: &[i64]| MemorySplit {
        features: vec![MemoryArray {
            name: "x".into(),
            shape: vec![labels.len(), 2],
            values: MemoryValues::F32(values.into()),
        }],
        labels: Some(MemoryArray {
            name: "y".into(),
            shape: vec![labels.len()],
            values: MemoryValues::I64(labels.into()),
        }),
    };
    let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let load_with = |train: &[&str], held_out: &[&str], known: Option<KnownNames>| {
        let memory = MemoryArrays::new(split(&[1.0, 2.0, 3.0, 4.0], &[0, 1]), Some(split(&[60.0, 5.0], &[1])));
        let memory = memory.with_columns(names(train), names(held_out));
        let options = DataOptions { memory: Some(memory), names: known, ..test("memory:test".into(), table()) };
        load("memory:train", &options)
    };
    let read = load_with(&["a", "b"], &["b", "a"], None).unwrap();
    assert_eq!((floats(&read.train), floats(&read.test.unwrap())), (&[1.0, 2.0, 3.0, 4.0][..], &[5.0, 60.0][..]));
    // A model that was trained on a table including its label.
    let read = load_with(&["b", "a"], &["b", "a"], known(&["a", "y", "b"], Some("y"), false)).unwrap();
    assert_eq!((floats(&read.train), floats(&read.test.unwrap())), (&[2.0, 1.0, 4.0, 3.0][..], &[5.0, 60.0][..]));
    assert_eq!(read.names.table.unwrap().label.as_deref(), Some("y"));
    let message = load_with(&["a", "b"], &["a", "c"], None).unwrap_err().to_string();
    assert!(message.contains("memory:test: has other columns") && message.contains("'c'"), "{message}");
    let message = load_with(&["a", "A"], &["a", "A"], None).unwrap_err().to_string();
    assert!(message.contains("differ by case alone"), "{message}");
    let message = load_with(&["a"], &["a"], None).unwrap_err().to_string();
    assert!(message.contains("2 columns and 1 names"), "{message}");
}

/// Returns a PNG image of one pixel.
fn pixel(level: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 1, 1);
    encoder.set_color(png::ColorType::Grayscale);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&[level]).unwrap();
    drop(writer);
    bytes
}

/// Writes a folder of classes, with one image each.
fn images(folder: &TempDir, name: &str, classes: &[&str]) -> String {
    for (level, class) in classes.iter().enumerate() {
        let path = folder.path().join(name).join(class);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("1.png"), pixel(10 * level as u8 + name.len() as u8)).unwrap();
    }
    spec("images", &folder.path().join(name))
}

// A test folder without the first class. Regression: its other classes were numbered from 0.
#[test]
fn images_have_the_training_classes() {
    let folder = folder();
    let train = images(&folder, "train", &["ant", "bee", "cat"]);
    for (name, held_out, numbers) in [("no-ant", &["bee", "cat"][..], [1, 2]), ("no-bee", &["ant", "cat"], [0, 2])] {
        let read = load(&train, &test(images(&folder, name, held_out), DataOptions::default())).unwrap();
        assert_eq!(classes(read.train.labels()), [0, 1, 2]);
        assert_eq!(classes(read.test.unwrap().labels()), numbers, "{name}");
        assert_eq!(read.names.classes.unwrap(), ["ant", "bee", "cat"]);
    }
    let message = refusal(&train, &test(images(&folder, "new", &["ant", "dog"]), DataOptions::default()));
    assert!(
        message.contains("the class 'dog' is not one of those of") && message.contains("'ant', 'bee', 'cat'"),
        "{message}"
    );
    // Classes in the order of a model or a plan.
    let names = DataNames { table: None, classes: Some(["cat", "bee", "ant"].map(String::from).into()) };
    let names = KnownNames { names, origin: "the model".into(), are_all: true };
    let options = DataOptions { names: Some(names), ..DataOptions::default() };
    let two = images(&folder, "two", &["ant", "bee"]);
    assert_eq!(classes(load(&two, &options).unwrap().train.labels()), [2, 1]);
    let given = DataOptions { classes: Some(["ant", "bee"].map(String::from).into()), ..options };
    assert!(refusal(&two, &given).contains("the model has the classes 'cat', 'bee', 'ant'"));
    let unnamed = KnownNames { names: DataNames::default(), origin: "the plan".into(), are_all: true };
    let plan = DataOptions { names: Some(unnamed), ..DataOptions::default() };
    assert!(refusal(&two, &plan).contains("the plan names none"));
}

// The classes of the first data name those of later data, also of another kind. Labels that are numbers stay numbers.
#[test]
fn known_classes_read_labels_as_text() {
    let folder = folder();
    let names = DataNames { table: None, classes: Some(["cat", "ant"].map(String::from).into()) };
    let names = Some(KnownNames { names, origin: "the model".into(), are_all: false });
    let options = DataOptions { names, ..table() };
    let read = load(&other(&folder, "t.csv", "a,b,y\n1,2,ant\n3,4,cat\n5,6,0\n"), &options).unwrap();
    assert_eq!(classes(read.train.labels()), [1, 0, 0]);
    let message = refusal(&other(&folder, "t.csv", "a,b,y\n1,2,dog\n"), &options);
    assert!(message.contains("line 2: the label 'dog' is not one of the classes 'cat', 'ant'"), "{message}");
}

#[cfg(feature = "parquet")]
mod parquet_files {
    use super::*;

    fn file(name: &str) -> String {
        spec("parquet", &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/parquet").join(name))
    }

    // For any index that pandas writes, the columns are a, b and y. Regression: the index was the label or a feature.
    #[test]
    fn pandas_index_is_no_column() {
        for (name, index) in [
            ("range.parquet", None),
            ("named.parquet", Some("'id'")),
            ("unnamed.parquet", Some("'__index_level_0__'")),
            ("text.parquet", Some("'key'")),
            // pandas writes the second level, which numbers the rows, as a range without a column.
            ("levels.parquet", Some("'key', 'id'")),
            ("ranged.parquet", Some("'id'")),
            ("first.parquet", Some("'id'")),
            ("arrow.parquet", None),
            ("polars.parquet", None),
        ] {
            let read = load(&file(name), &table()).unwrap();
            assert_eq!(floats(&read.train), rows(), "{name}");
            assert_eq!(classes(read.train.labels()), [0, 1, 0, 1, 0, 1], "{name}");
            let said = read.notes.iter().find_map(|note| note.split("as the index: ").nth(1));
            assert_eq!(said, index, "{name}: {:?}", read.notes);
            let columns = format!("{name}: columns 'a', 'b', 'y'; label 'y'");
            assert!(
                read.notes.len() == 1 + usize::from(index.is_some()) && read.notes.last().unwrap().ends_with(&columns),
                "{:?}",
                read.notes
            );
        }
        // A column with that name which is not an index.
        let options = DataOptions { inputs: input(&[3]), ..DataOptions::default() };
        assert_eq!(floats(&load(&file("column.parquet"), &options).unwrap().train)[..3], [100.0, 0.0, 0.0]);
        for name in ["named.parquet", "ranged.parquet"] {
            let message = refusal(&file(name), &DataOptions { label_column: Some("id".into()), ..table() });
            assert!(message.contains("`label_column` id: is pandas' index"), "{message}");
        }
    }

    #[test]
    fn parquet_columns_match_by_name() {
        let options = DataOptions { names: known(&["a", "b", "y"], Some("y"), false), ..table() };
        let read = load(&file("reordered.parquet"), &options).unwrap();
        assert_eq!((floats(&read.train), classes(read.train.labels())), (&rows()[..], &[0, 1, 0, 1, 0, 1][..]));
        let options = DataOptions { names: known(&["s.a", "s.b", "y"], Some("y"), false), ..table() };
        let read = load(&file("nested.parquet"), &options).unwrap();
        assert_eq!(floats(&read.train), rows());
        let fields = "nested.parquet: fields of a struct are columns: 's.a', 's.b'";
        assert!(read.notes.iter().any(|note| note.ends_with(fields)), "{:?}", read.notes);
        // Files of one split, with two column orders.
        let folder = folder();
        for (name, from) in [("train-0.parquet", "range.parquet"), ("train-1.parquet", "reordered.parquet")] {
            let from = file(from);
            std::fs::copy(from.strip_prefix("parquet:").unwrap(), folder.path().join(name)).unwrap();
        }
        let read = load(&spec("parquet", folder.path()), &table()).unwrap();
        assert_eq!(floats(&read.train), [rows(), rows()].concat());
        assert_eq!(classes(read.train.labels()), [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
        let from = file("ant-bee.parquet");
        std::fs::copy(from.strip_prefix("parquet:").unwrap(), folder.path().join("train-2.parquet")).unwrap();
        let message = refusal(&spec("parquet", folder.path()), &table());
        assert!(
            message.contains("train-2.parquet: has other columns") && message.contains("lacks 'b', 'y'"),
            "{message}"
        );
    }

    // A duration is an integer in Parquet. Regression: it was read as an integer. Other times have types.
    #[test]
    fn times_are_no_numbers() {
        let options = || DataOptions { label_column: Some("y".into()), ..DataOptions::default() };
        for (name, column) in
            [("timedelta.parquet", "d"), ("duration.parquet", "d"), ("duration-in-struct.parquet", "s.d")]
        {
            let message = refusal(&file(name), &options());
            assert!(
                message.contains(&format!("{name}: column '{column}' holds durations: write it as numbers")),
                "{message}"
            );
        }
        assert!(refusal(&file("times.parquet"), &options()).contains("column 'stamp' holds dates, times"));
        for label in ["stamp", "zone", "day", "time"] {
            let options = DataOptions {
                label_column: Some(label.into()),
                labels: LabelKind::Values { shape: None },
                ..options()
            };
            assert!(refusal(&file("times.parquet"), &options).contains("holds dates, times"), "{label}");
        }
        let label =
            DataOptions { label_column: Some("d".into()), labels: LabelKind::Values { shape: None }, ..options() };
        assert!(refusal(&file("duration.parquet"), &label).contains("column 'd' holds durations"));
    }

    // Regression: the text 007 was the number 7, as a feature and as a label, and a boolean matched no list.
    #[test]
    fn texts_of_digits_are_no_numbers() {
        let list = |text: &str| text.split(',').map(String::from).collect::<Vec<_>>();
        let zip = ("zip".to_owned(), list("5,12,007"));
        let categories =
            |flag: &str| vec![zip.clone(), ("flag".to_owned(), list(flag)), ("kind".to_owned(), list("0,1"))];
        let options = |flag: &str| DataOptions { categories: categories(flag), ..DataOptions::default() };
        let wanted: Vec<f32> = (0..6)
            .flat_map(|row| {
                let zip = [2, 1, 2, 1, 0, 0][row];
                let one_hot = |place, count: usize| (0..count).map(move |at| f32::from(u8::from(at == place)));
                one_hot(zip, 3).chain(one_hot(usize::from(row % 3 == 0), 2)).chain(one_hot(row % 2, 2))
            })
            .collect();
        for flag in ["False,True", "false,true", "FALSE,TRUE", "0,1"] {
            let read = load(&file("texts.parquet"), &options(flag)).unwrap();
            assert_eq!((floats(&read.train), classes(read.train.labels())), (&wanted[..], &[0, 1, 0, 1, 0, 1][..]));
            let classes_of = DataOptions { classes: Some(list(flag)), ..options(flag) };
            let read = load(&file("texts.parquet"), &classes_of).unwrap();
            assert_eq!(classes(read.train.labels()), [0, 1, 0, 1, 0, 1], "{flag}");
            let swapped: String = flag.split(',').rev().collect::<Vec<_>>().join(",");
            let read =
                load(&file("texts.parquet"), &DataOptions { classes: Some(list(&swapped)), ..options(flag) }).unwrap();
            assert_eq!(classes(read.train.labels()), [1, 0, 1, 0, 1, 0], "{swapped}");
        }
        let message = refusal(&file("texts.parquet"), &options("no,yes"));
        assert!(message.contains("column 'flag': 'true' is not in `categories`"), "{message}");
        let numbers = DataOptions { categories: categories("0,1").split_off(1), ..DataOptions::default() };
        let message = refusal(&file("texts.parquet"), &numbers);
        assert!(
            message.contains("column 'zip' holds text, which is no number: list its values with `categories`"),
            "{message}"
        );
        // As a label, it needs a list.
        let of_kind = |classes: Option<&str>, known: Option<&str>| DataOptions {
            label_column: Some("kind".into()),
            categories: categories("0,1")[..2].to_vec(),
            classes: classes.map(list),
            names: known.map(|known| KnownNames {
                names: DataNames { table: None, classes: Some(list(known)) },
                origin: "the model".into(),
                are_all: false,
            }),
            ..DataOptions::default()
        };
        let message = refusal(&file("texts.parquet"), &of_kind(None, None));
        assert!(
            message.contains("column 'kind', the label, holds text, which is no number: list the names of the classes"),
            "{message}"
        );
        let read = load(&file("texts.parquet"), &of_kind(Some("1,0"), None)).unwrap();
        assert_eq!(classes(read.train.labels()), [1, 0, 1, 0, 1, 0]);
        let message = refusal(&file("texts.parquet"), &of_kind(None, Some("ant,bee")));
        assert!(message.contains("the label '0' is not one of the classes 'ant', 'bee'"), "{message}");
        // Booleans are numbers without a list.
        let bare = DataOptions {
            categories: vec![zip, ("kind".to_owned(), list("0,1"))],
            inputs: input(&[6]),
            ..DataOptions::default()
        };
        let read = load(&file("texts.parquet"), &bare).unwrap();
        assert_eq!(floats(&read.train).chunks(6).map(|row| row[3]).collect::<Vec<_>>(), [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
        assert!(read.notes[0].ends_with("columns 'zip', 'flag', 'kind', 'sick'; label 'sick'"), "{:?}", read.notes);
    }

    // Hugging Face names the numbers, and another file uses other numbers.
    #[test]
    fn hugging_face_classes_match_by_name() {
        let options = DataOptions { inputs: input(&[1]), ..DataOptions::default() };
        let two = DataOptions { labels: LabelKind::Classes { classes: Some(2), shape: None }, ..options.clone() };
        let read = load(&file("ant-bee.parquet"), &options).unwrap();
        assert_eq!(classes(read.train.labels()), [0, 1, 0, 1, 0, 1]);
        assert_eq!(read.names.classes.as_deref().unwrap(), ["ant", "bee"]);
        let known = Some(KnownNames { names: read.names, origin: "the model".into(), are_all: false });
        let options = DataOptions { names: known, ..two };
        let read = load(&file("bee-ant.parquet"), &options).unwrap();
        assert_eq!(classes(read.train.labels()), [1, 0, 1, 0, 1, 0]);
        let message = refusal(&file("bee-cat.parquet"), &options);
        assert!(message.contains("the class 'cat' is not one of those of the model, 'ant', 'bee'"), "{message}");
    }
}
