//! Wrong uses of data sets, with exact message and exit code. No files remain.

use super::data_files::*;
use super::{run, stderr};
use damper::data::FORMATS;
use std::fs;
use std::path::Path;

/// Cases, a line each: the exit code, a model, `--data`, more flags separated by spaces, and the message. Tabs separate
/// these fields. `DIR` is the folder of the files, `KINDS` lists the formats, and `#` starts a heading.
const CASES: &str = include_str!("wrong_data.tsv");

/// Writes every file of the cases.
fn write_files(folder: &Path) {
    linear(folder, "two", &[2], 2);
    linear(folder, "four", &[4], 2);
    linear(folder, "rgb", &[3, 8, 8], 2);
    linear(folder, "video", &[2, 3, 8, 8], 2);
    linear(folder, "cifar", &[3, 32, 32], 10);
    let put = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).unwrap();
    let rows = |first: &str, row: &str| [first, &row.repeat(120)].concat();
    put("good.csv", rows("a,b,y\n", "1,2,0\n3,4,1\n").as_bytes());
    put("semi.csv", rows("a;b;y\n", "1;2;0\n").as_bytes());
    put("counted.csv", rows("0,1,2\n", "1,2,0\n3,4,1\n").as_bytes());
    put("crlf.csv", rows("a,b,y\r\n1,2,0\r\n1,red,0\r\n", "3,4,1\r\n").as_bytes());
    put("large.csv", rows("a,b,y\n1e39,2,0\n", "3,4,1\n").as_bytes());
    put("decimal.csv", rows("a;b;y\n", "1,5;2;0\n").as_bytes());
    put("tab.csv", rows("a\tb\ty\n", "1\t2\t0\n").as_bytes());
    put("pipe.csv", rows("1|2|0\n", "1|2|1\n").as_bytes());
    put("names.csv", rows("a,b,y\n", "1,2,cat\n3,4,dog\n").as_bytes());
    put("colours.csv", rows("a,colour,y\n", "1,red,0\n3,blue,1\n").as_bytes());
    put("missing.csv", rows("a,b,y\n1,2,0\n1,,1\n", "1,2,0\n3,4,1\n").as_bytes());
    put("missing-label.csv", rows("a,b,y\n1,2,\n", "1,2,0\n").as_bytes());
    put("targets.csv", rows("a,b,y\n", "1,2,0.25\n").as_bytes());
    put("many-bad.csv", rows("a,b,y\n", "1,2,0\n1,nan,0\n").as_bytes());
    put("bad-class.csv", rows("a,b,y\n1,2,7\n", "1,2,0\n3,4,1\n").as_bytes());
    put("ragged.csv", rows("a,b,y\n1,2\n", "1,2,0\n").as_bytes());
    let zipped = gz(rows("a,b,y\n", "1,2,0\n").as_bytes());
    put("cut.csv.gz", &zipped[..zipped.len() / 2]);
    put("x.npy", &npy_f32(&[100, 3, 8, 8]));
    put("nhwc.npy", &npy_f32(&[100, 8, 8, 3]));
    put("turned.npy", &npy_f32(&[100, 8, 3, 8]));
    put("few.npy", &npy_f32(&[100, 3, 8, 7]));
    put("y.npy", &npy_labels(100, 2));
    put("short-y.npy", &npy_labels(99, 2));
    put("classes.txt", b"only one\n");
    put("cut.npy", &npy_f32(&[100, 3, 8, 8])[..500]);
    linear(folder, "single", &[2], 1);
    put("signs.csv", rows("a,b,y\n", "1,2,1\n3,4,-1\n").as_bytes());
    put("twice.csv", rows("y,a,y\n", "1,2,0\n").as_bytes());
    put("case.csv", rows("a,A,y\n", "1,2,0\n").as_bytes());
    put("other.csv", rows("a,c,y\n", "1,2,0\n3,4,1\n").as_bytes());
    put("capital.csv", rows("A,b,y\n", "1,2,0\n3,4,1\n").as_bytes());
    put("bare.csv", rows("", "5,2,0\n3,4,1\n").as_bytes());
    put("index.csv", rows(",a,y\n", "0,2,0\n").as_bytes());
    put("unnamed.csv", rows("Unnamed: 0,a,y\n", "0,2,0\n").as_bytes());
    put("thousands.csv", rows("a,b,y\n", "\"1,500\",2,0\n").as_bytes());
    put("comment.csv", rows("# made by hand\na,b,y\n", "1,2,0\n").as_bytes());
    put("space.csv", rows("a b y\n", "1 2 0\n").as_bytes());
    put("latin.csv", b"a,b,y\n1,\xe9,0\n");
    put("utf16.csv", b"\xff\xfea\0,\0b\0\n\0");
    put("packed.csv.bz2", b"BZh91AY&SY");
    put("packed.csv.xz", b"\xfd7zXZ\0\0\x04");
    put("packed.csv.zst", b"\x28\xb5\x2f\xfd\x04\0");
    put("packed.zip", b"PK\x03\x04\x14\0");
    put("text.npy", b"not an array, but a text");
    put("batch.tar", &tar(&[("readme.html", b"<html>".to_vec())]));
    put("short.tar", &tar(&[("cifar-10-batches-bin/data_batch_1.bin", cifar_binary(3)[..5000].to_vec())]));
    put("pickle.tar", &tar(&[("cifar-10-batches-py/data_batch_1", b"\x80\x02cos\nsystem\nU\x02ls\x85R.".to_vec())]));
    put("opcode.tar", &tar(&[("cifar-10-batches-py/data_batch_1", b"\x80\x02Pid\n.".to_vec())]));
    put("cifar.tar", &tar(&[("cifar-10-batches-bin/data_batch_1.bin", cifar_binary(30))]));
    let binary = |name: &'static str| (name, cifar_binary(3));
    put("gap.tar", &tar(&[binary("a/data_batch_1.bin"), binary("a/data_batch_3.bin")]));
    put("twice.tar", &tar(&[binary("a/data_batch_1.bin"), binary("b/data_batch_1.bin")]));
    put("forms.tar", &tar(&[binary("a/data_batch_1.bin"), ("b/data_batch_1", cifar_pickle(3))]));
    put("mixed.tar", &tar(&[binary("a/data_batch_1.bin"), binary("b/train.bin")]));
    put("no.tar", b"this is no archive, though its name says so");
    for (name, files) in [
        ("pets", &[("cat/1.png", png(8, 8, 3, 1)), ("dog/1.png", png(8, 8, 3, 2))][..]),
        ("sizes", &[("cat/1.png", png(8, 8, 3, 1)), ("dog/1.png", png(8, 9, 3, 2))]),
        ("three", &[("a/1.png", png(8, 8, 3, 1)), ("b/1.png", png(8, 8, 3, 2)), ("c/1.png", png(8, 8, 3, 2))]),
        ("broken", &[("cat/1.png", png(8, 8, 3, 1)), ("dog/1.png", png(8, 8, 3, 2)[..60].to_vec())]),
        ("other", &[("cat/1.png", png(8, 8, 3, 1)), ("cat/notes.txt", b"seen".to_vec())]),
        ("flat", &[("1.png", png(8, 8, 3, 1))]),
        ("nested", &[("cat/more/1.png", png(8, 8, 3, 1)), ("dog/1.png", png(8, 8, 3, 2))]),
        ("gif", &[("cat/1.png", b"GIF89a".to_vec())]),
        ("new", &[("train/cat/1.png", png(8, 8, 3, 1)), ("test/cow/1.png", png(8, 8, 3, 1))]),
    ] {
        for (file, bytes) in files {
            let path = folder.join(name).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }
    fs::create_dir_all(folder.join("empty")).unwrap();
    hugging_face(&folder.join("good.parquet"), vec![Some(png(8, 8, 3, 1)); 120], (0..120).map(|at| at % 2).collect());
    hugging_face(&folder.join("sizes.parquet"), vec![Some(png(9, 8, 3, 1)); 20], vec![0; 20]);
    hugging_face(&folder.join("paths.parquet"), vec![None; 20], vec![0; 20]);
    let text = |text: &str| Column::Bytes(vec![Some(text.into()); 120]);
    let table = "message schema { required float a; optional binary b (STRING); required int64 label; }";
    let numbers = || Column::F32(vec![1.0; 120]);
    let zeros = || Column::I64(vec![0; 120]);
    parquet(&folder.join("text.parquet"), table, &[(numbers(), 0), (text("red"), 1), (zeros(), 0)]);
    let dates = "message schema { required float a; required int64 day (TIMESTAMP_MILLIS); required int64 label; }";
    parquet(&folder.join("dates.parquet"), dates, &[(numbers(), 0), (zeros(), 0), (zeros(), 0)]);
    let pandas = "message schema { required float a; required int64 label; required int64 __index_level_0__; }";
    parquet(&folder.join("pandas.parquet"), pandas, &[(numbers(), 0), (zeros(), 0), (zeros(), 0)]);
    let names = "message schema { required float a; required float b; optional binary label (STRING); }";
    parquet(&folder.join("names.parquet"), names, &[(numbers(), 0), (numbers(), 0), (text("cat"), 1)]);
    let whole = fs::read(folder.join("text.parquet")).unwrap();
    put("cut.parquet", &whole[..whole.len() - 20]);
    put("no.parquet", b"PAR1 this is none, though its name says so PAR1");
}

#[test]
fn wrong_data_is_refused_in_exact_words() {
    let guard = tempfile::tempdir().unwrap();
    let folder = guard.path();
    write_files(folder);
    let dir = folder.to_str().unwrap();
    let here = |text: &str| text.replace("DIR", dir);
    let kinds = FORMATS.iter().filter(|format| format.path.is_some()).map(|format| format.names[0]);
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    let out = folder.join("run");
    let mut wrong = String::new();
    let mut cases = 0;
    for line in CASES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let [code, model, data, flags, message] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        cases += 1;
        let mut args = vec!["train".into(), here(&format!("DIR/{model}.onnx")), "--data".into(), here(data)];
        args.extend(["--out".into(), out.display().to_string()]);
        let common = "--epsilon 3 --delta 1e-3 --batch-size 8 --epochs 1 --lr 0.1 --backend tract --quiet";
        args.extend(common.split(' ').map(String::from));
        args.extend(flags.split_whitespace().map(here));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = run(&args);
        let first = stderr(&output).lines().next().unwrap_or_default().replace(dir, "DIR").replace(&kinds, "KINDS");
        let found = first.strip_prefix("error: ").unwrap_or(&first);
        if found != message || output.status.code() != code.parse().ok() {
            wrong += &format!("{data} {flags}: {:?}\n{found}\n", output.status.code());
        }
        assert!(!out.exists(), "{data} {flags}: {}", out.display());
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(cases >= 122);
}
