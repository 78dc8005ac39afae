//! Parquet files.

use super::*;

// Parquet files of Hugging Face train a private model.
#[test]
fn hugging_face_parquet_trains_privately() {
    let guard = tempfile::tempdir().unwrap();
    let folder = guard.path();
    linear(folder, "rgb", &[3, 8, 8], 2);
    fs::create_dir_all(folder.join("pets/data")).unwrap();
    let images = |count: usize| (0..count).map(|at| Some(png(8, 8, 3, at as u8))).collect::<Vec<_>>();
    let labels = |count: usize| (0..count as i64).map(|at| at % 2).collect();
    hugging_face(&folder.join("pets/data/train-00000-of-00002.parquet"), images(300), labels(300));
    hugging_face(&folder.join("pets/data/train-00001-of-00002.parquet"), images(21), labels(21));
    hugging_face(&folder.join("pets/data/test-00000-of-00001.parquet"), images(30), labels(30));
    let data = spec("parquet", &folder.join("pets"));
    let found = report(folder, "rgb", &data, &[]);
    assert_eq!((&found["privacy"]["samples"], &found["held_out"]["samples"]), (&321.into(), &30.into()));
    let read = load(&data, &options(&[3, 8, 8], 2)).unwrap();
    assert_eq!(classes(&read)[298..303], [0, 1, 0, 1, 0]);
    assert_eq!(read.train.features()[0].floats()[320 * 192], f32::from(20u8.wrapping_mul(31)) / 255.0);
}

#[test]
fn parquet_table_equals_the_csv_table() {
    let guard = tempfile::tempdir().unwrap();
    let folder = guard.path();
    let text = |text: &str| Some(text.as_bytes().to_vec());
    let schema = "message schema { required float size; optional binary colour (STRING); required int64 age; \
                  optional binary kind (STRING); }";
    let columns = [
        (Column::F32((0..100).map(|at| at as f32 / 4.0).collect()), 0),
        (Column::Bytes((0..100).map(|at| text(["red", "blue"][at % 2])).collect()), 1),
        (Column::I64((0..100).map(|at| at * 3).collect()), 0),
        (Column::Bytes((0..100).map(|at| text(["cat", "dog", "cow"][at % 3])).collect()), 1),
    ];
    parquet(&folder.join("t.parquet"), schema, &columns);
    let row = |at: usize| {
        format!("{},{},{},{}\n", at as f32 / 4.0, ["red", "blue"][at % 2], at * 3, ["cat", "dog", "cow"][at % 3])
    };
    let rows: String = (0..100).map(row).collect();
    fs::write(folder.join("t.csv"), format!("size,colour,age,kind\n{rows}")).unwrap();
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_string()).collect::<Vec<_>>();
    let options = DataOptions {
        classes: Some(names(&["cat", "cow", "dog"])),
        categories: vec![("colour".into(), names(&["blue", "green", "red"]))],
        scale: vec![("age".into(), 150.0, 100.0)],
        label_column: Some("kind".into()),
        ..options(&[5], 3)
    };
    let read = |kind: &str| load(&spec(kind, &folder.join(format!("t.{kind}"))), &options).unwrap();
    let data = read("csv");
    assert_eq!(data.train, read("parquet").train);
    assert_eq!(data.train.features()[0].floats()[..10], [0.0, 0.0, 0.0, 1.0, -1.5, 0.25, 1.0, 0.0, 0.0, -1.47]);
    assert_eq!(classes(&data)[..3], [0, 2, 1]);
}

/// 64-bit integers, signed and unsigned, and timestamps in nanoseconds reach the model with a single rounding.
#[test]
fn parquet_integers_are_rounded_once() {
    let guard = tempfile::tempdir().unwrap();
    let file = guard.path().join("t.parquet");
    let ids = vec![16_777_217, 9_007_199_254_740_993, 5];
    let schema = |kind: &str| format!("message schema {{ required int64 id{kind}; required int64 label; }}");
    let write = |kind: &str| {
        parquet(&file, &schema(kind), &[(Column::I64(ids.clone()), 0), (Column::I64(vec![0, 1, 0]), 0)]);
    };
    let read = |dtype, scale: &[(String, f64, f64)]| {
        let inputs = vec![InputShape { dtype, ..inputs(&[1]).remove(0) }];
        load(&spec("parquet", &file), &DataOptions { inputs, scale: scale.to_vec(), ..options(&[1], 2) })
    };
    for kind in ["", " (UINT_64)"] {
        write(kind);
        assert_eq!(read(DType::I64, &[]).unwrap().train.features()[0].integers(), ids);
        let scaled = read(DType::F32, &[("id".into(), 16_777_216.0, 0.5)]).unwrap();
        assert_eq!(scaled.train.features()[0].floats()[0], 2.0);
        assert_eq!(read(DType::F32, &[]).unwrap().train.features()[0].floats()[1], 9_007_199_254_740_993i64 as f32);
    }
    let table = "message schema { required float id; required int64 label; }";
    parquet(&file, table, &[(Column::F32(vec![1.0, 16_777_216.0, 2.0]), 0), (Column::I64(vec![0, 1, 0]), 0)]);
    let message = read(DType::I64, &[]).unwrap_err().to_string();
    assert!(
        message.contains("row 1 (counted from 0): column 'id'") && message.contains("write it as int64"),
        "{message}"
    );
    write(" (TIMESTAMP(NANOS,true))");
    let message = read(DType::F32, &[]).unwrap_err().to_string();
    assert!(message.contains("column 'id' holds dates, times"), "{message}");
}
