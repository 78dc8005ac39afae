//! Wrong uses of data sets: each with its exact message and exit code, and nothing is left behind.

use super::data_files::*;
use super::{run, stderr};
use std::fs;
use std::path::Path;

/// A model, `--data`, more flags, the message and the exit code. `DIR` is the folder of the files.
type Case = (&'static str, &'static str, &'static [&'static str], &'static str, i32);

/// Every file that the cases name.
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

const CASES: &[Case] = &[
    // The kind and the path.
    (
        "two",
        "DIR/good.csv",
        &[],
        "DIR/good.csv: give KIND:PATH, such as csv:DIR/good.csv; KIND is one of idx, csv, npz, npy, images, cifar, parquet, text",
        1,
    ),
    (
        "two",
        "parket:DIR/good.parquet",
        &[],
        "parket:DIR/good.parquet: unknown kind 'parket': use one of idx, csv, npz, npy, images, cifar, parquet, text",
        1,
    ),
    ("two", "csv:DIR/none.csv", &[], "DIR/none.csv: there is no such file: correct the path", 1),
    ("two", "csv:DIR/pets", &[], "DIR/pets: is a folder: name a file in it", 1),
    // What separates fields.
    ("two", "csv:DIR/semi.csv", &[], "DIR/semi.csv: its fields are not separated by ',': give --delimiter ';'", 1),
    ("two", "csv:DIR/tab.csv", &[], "DIR/tab.csv: its fields are not separated by ',': give --delimiter tab", 1),
    ("two", "csv:DIR/pipe.csv", &[], "DIR/pipe.csv: its fields are not separated by ',': give --delimiter '|'", 1),
    (
        "two",
        "csv:DIR/good.csv",
        &["--delimiter", ";"],
        "DIR/good.csv: its fields are not separated by ';': give --delimiter ','",
        1,
    ),
    (
        "two",
        "csv:DIR/decimal.csv",
        &["--delimiter", ";"],
        "DIR/decimal.csv: line 2: column 'a' is not a number: write 1,5 with a decimal point",
        1,
    ),
    (
        "two",
        "csv:DIR/good.csv",
        &["--delimiter", ";;"],
        "invalid value ';;' for '--delimiter <CHARACTER>': give one character, such as ';', or tab",
        2,
    ),
    ("rgb", "npy:DIR/x.npy", &["--delimiter", ";"], "--delimiter: is for csv, text; leave it out", 2),
    ("two", "csv:DIR/cut.csv.gz", &[], "DIR/cut.csv.gz: is truncated: fetch or export the file again", 1),
    (
        "two",
        "csv:DIR/ragged.csv",
        &[],
        "DIR/ragged.csv: line 2: has 2 fields where the first line has 3: correct the line",
        1,
    ),
    (
        "two",
        "csv:DIR/twice.csv",
        &["--label-column", "y"],
        "DIR/twice.csv: has two columns 'y', 0 and 2 (counted from 0): rename or take out one of them",
        1,
    ),
    (
        "two",
        "csv:DIR/case.csv",
        &[],
        "DIR/case.csv: columns 'a' and 'A', 0 and 1 (counted from 0), differ by case alone: rename one",
        1,
    ),
    (
        "two",
        "csv:DIR/good.csv",
        &["--test", "csv:DIR/other.csv"],
        "DIR/other.csv: has other columns than DIR/good.csv: it lacks 'b', and has besides 'c': rename them, or use files that belong together",
        1,
    ),
    (
        "two",
        "csv:DIR/good.csv",
        &["--test", "csv:DIR/capital.csv"],
        "DIR/capital.csv: has other columns than DIR/good.csv: it lacks 'a', and has besides 'A' (names that differ by case are other names): rename them, or use files that belong together",
        1,
    ),
    (
        "two",
        "csv:DIR/good.csv",
        &["--test", "csv:DIR/bare.csv"],
        "DIR/bare.csv: its first line names no columns, and DIR/good.csv names them: write the names into the first line of both, or of neither",
        1,
    ),
    (
        "two",
        "csv:DIR/bare.csv",
        &["--test", "csv:DIR/good.csv"],
        "DIR/good.csv: its columns have names, and those of DIR/bare.csv have none: write the names into the first line of both, or of neither",
        1,
    ),
    (
        "two",
        "csv:DIR/index.csv",
        &[],
        "DIR/index.csv: column 0 (counted from 0) has no name: take it out (in pandas write with index=False), or name it",
        1,
    ),
    (
        "two",
        "csv:DIR/unnamed.csv",
        &[],
        "DIR/unnamed.csv: column 0 (counted from 0) is 'Unnamed: 0', numbers of rows: take it out (in pandas write with index=False), or name it",
        1,
    ),
    (
        "two",
        "csv:DIR/thousands.csv",
        &[],
        "DIR/thousands.csv: line 2: column 'a' is not a number: write 1,500 without separators of thousands, and with a decimal point",
        1,
    ),
    ("two", "csv:DIR/comment.csv", &[], "DIR/comment.csv: line 1: is a comment: take it out", 1),
    ("two", "csv:DIR/space.csv", &[], "DIR/space.csv: its fields are not separated by ',': give --delimiter ' '", 1),
    ("two", "csv:DIR/latin.csv", &[], "DIR/latin.csv: line 2: is not UTF-8 text: save the file as UTF-8", 1),
    ("two", "csv:DIR/utf16.csv", &[], "DIR/utf16.csv: is UTF-16 text: save it as UTF-8", 1),
    ("two", "csv:DIR/packed.csv.bz2", &[], "DIR/packed.csv.bz2: is compressed by bzip2: unpack it, or use gzip", 1),
    ("two", "csv:DIR/packed.csv.xz", &[], "DIR/packed.csv.xz: is compressed by xz: unpack it, or use gzip", 1),
    ("two", "csv:DIR/packed.csv.zst", &[], "DIR/packed.csv.zst: is compressed by Zstandard: unpack it, or use gzip", 1),
    (
        "two",
        "csv:DIR/packed.zip",
        &[],
        "DIR/packed.zip: is a zip archive: unpack it, or if it is one of arrays use npz",
        1,
    ),
    // Numbers, and the first line.
    (
        "two",
        "csv:DIR/counted.csv",
        &[],
        "DIR/counted.csv: line 1: has the numbers 0 to 2, which are names of columns or a row: give --header yes or no",
        1,
    ),
    (
        "two",
        "csv:DIR/good.csv",
        &["--header", "maybe"],
        "invalid value 'maybe' for '--header <yes|no>': give yes or no",
        2,
    ),
    (
        "two",
        "csv:DIR/crlf.csv",
        &[],
        "DIR/crlf.csv: line 3: column 'b' is not a number: correct the row, or list the column's values with --categories",
        1,
    ),
    (
        "two",
        "csv:DIR/large.csv",
        &[],
        "DIR/large.csv: line 2: column 'a' is 1e39, too large for float32: scale it, or correct the row, or use --on-bad-row drop",
        1,
    ),
    (
        "two",
        "csv:DIR/good.csv",
        &["--scale", "y=1,2"],
        "--scale y: the labels are classes or from 0 to 1, which are not scaled; leave it out, or use --loss mse",
        2,
    ),
    (
        "rgb",
        "npy:DIR/x.npy",
        &["--labels", "DIR/y.npy", "--scale", "price=1,2"],
        "--scale price: these samples have no columns; use --normalize, or labels=MEAN,STD for the labels",
        2,
    ),
    // Labels.
    (
        "two",
        "csv:DIR/twice.csv",
        &[],
        "DIR/twice.csv: has two columns 'y', 0 and 2 (counted from 0): rename or take out one of them",
        1,
    ),
    (
        "single",
        "csv:DIR/signs.csv",
        &["--loss", "bce-with-logits"],
        "DIR/signs.csv: line 3: the label -1 is not from 0 to 1: use 0 and 1, or --loss mse if the labels are measures",
        1,
    ),
    (
        "single",
        "csv:DIR/good.csv",
        &[],
        "--loss softmax-cross-entropy: the model's output has one number where classes are, and of one class nothing is learned; use \
         bce-with-logits, or mse",
        2,
    ),
    (
        "two",
        "csv:DIR/names.csv",
        &[],
        "DIR/names.csv: line 2: column 'y', the label, is not a number: list the names of the classes with --classes, or correct the row",
        1,
    ),
    (
        "two",
        "csv:DIR/names.csv",
        &["--classes", "cat,cow"],
        "DIR/names.csv: line 3: the label 'dog' is not in --classes: correct the row or the list",
        1,
    ),
    (
        "two",
        "csv:DIR/names.csv",
        &["--classes", "cat,dog,cow"],
        "--classes cat,dog,cow: 3 classes, and the model has 2; list its classes, or train a model with more outputs",
        2,
    ),
    (
        "two",
        "csv:DIR/names.csv",
        &["--classes", "cat,cat"],
        "--classes cat,cat: 'cat' is named twice (entry 2); name each class once",
        2,
    ),
    (
        "two",
        "csv:DIR/names.csv",
        &["--classes", "cat"],
        "invalid value 'cat' for '--classes <NAME,NAME,...|FILE>': give names with commas between them, or a file with one a line; there is no such file",
        2,
    ),
    (
        "two",
        "csv:DIR/names.csv",
        &["--classes", "DIR/classes.txt"],
        "invalid value 'DIR/classes.txt' for '--classes <NAME,NAME,...|FILE>': give two names or more, none of them empty",
        2,
    ),
    (
        "two",
        "csv:DIR/good.csv",
        &["--label-column", "z"],
        "DIR/good.csv: has no column 'z': name one of 'a', 'b', 'y', or a number from 0 to 2",
        1,
    ),
    (
        "two",
        "csv:DIR/missing-label.csv",
        &[],
        "DIR/missing-label.csv: line 2: column 'y', the label, is not a number but missing: correct the row",
        1,
    ),
    (
        "two",
        "csv:DIR/targets.csv",
        &[],
        "DIR/targets.csv: line 2: the label 0.25 is not one of the model's classes 0 to 1: correct the row, or use --loss mse if the labels are measures",
        1,
    ),
    (
        "two",
        "csv:DIR/bad-class.csv",
        &[],
        "DIR/bad-class.csv: line 2: the label 7 is not one of the model's classes 0 to 1: train a model with more outputs, or correct the row",
        1,
    ),
    // Columns.
    (
        "four",
        "csv:DIR/good.csv",
        &[],
        "DIR/good.csv: samples of shape [2] do not fit the model's input 'x' of shape [4]: use other data, or export the model for this shape",
        1,
    ),
    (
        "two",
        "csv:DIR/colours.csv",
        &[],
        "DIR/colours.csv: line 2: column 'colour' is not a number: correct the row, or list the column's values with --categories",
        1,
    ),
    (
        "two",
        "csv:DIR/colours.csv",
        &["--categories", "colour=red,green"],
        "DIR/colours.csv: line 3: column 'colour': 'blue' is not in --categories: correct the row or the list",
        1,
    ),
    (
        "four",
        "csv:DIR/colours.csv",
        &["--categories", "colour=red,green,black"],
        "DIR/colours.csv: line 3: column 'colour': 'blue' is not in --categories: correct the row or the list",
        1,
    ),
    (
        "two",
        "csv:DIR/colours.csv",
        &["--categories", "hue=red,blue"],
        "DIR/colours.csv: has no column 'hue': name one of 'a', 'colour', 'y', or a number from 0 to 2",
        1,
    ),
    (
        "two",
        "csv:DIR/colours.csv",
        &["--categories", "y=0,1"],
        "--categories y: is the label's column; name a feature",
        2,
    ),
    (
        "two",
        "csv:DIR/colours.csv",
        &["--categories", "colour"],
        "invalid value 'colour' for '--categories <COLUMN=VALUE,VALUE,...>': give COLUMN=VALUE,VALUE,...",
        2,
    ),
    (
        "two",
        "csv:DIR/colours.csv",
        &["--categories", "colour=red,red"],
        "invalid value 'colour=red,red' for '--categories <COLUMN=VALUE,VALUE,...>': give two different values or more, each once",
        2,
    ),
    (
        "two",
        "csv:DIR/good.csv",
        &["--scale", "a=1,0"],
        "--scale a=1,0: give a finite mean and a standard deviation above 0",
        2,
    ),
    (
        "two",
        "csv:DIR/good.csv",
        &["--scale", "a=1,2", "--scale", "a=1,2"],
        "--scale a: this column is a list of categories or is scaled already; name it once",
        2,
    ),
    (
        "two",
        "csv:DIR/good.csv",
        &["--scale", "a"],
        "invalid value 'a' for '--scale <COLUMN=MEAN,STD>': give COLUMN=MEAN,STD",
        2,
    ),
    (
        "two",
        "csv:DIR/good.csv",
        &["--normalize", "1,2,3:1,1,1"],
        "--normalize 1,2,3:1,1,1: 3 means for samples of shape [2]; give one for all, or one for each of the 2 columns",
        2,
    ),
    (
        "two",
        "csv:DIR/good.csv",
        &["--normalize", "1,2:1,0"],
        "--normalize 1,2:1,0: give finite means and standard deviations above 0",
        2,
    ),
    (
        "two",
        "csv:DIR/good.csv",
        &["--normalize", "1,2:1"],
        "invalid value '1,2:1' for '--normalize <MEAN,STD>': '1,2:1': give MEAN,STD, or MEAN,MEAN,...:STD,STD,...",
        2,
    ),
    // Bad rows.
    (
        "two",
        "csv:DIR/missing.csv",
        &[],
        "DIR/missing.csv: line 3: column 'b' is not a number but missing: correct the row, or use --on-bad-row drop",
        1,
    ),
    (
        "two",
        "csv:DIR/many-bad.csv",
        &["--on-bad-row", "drop"],
        "--on-bad-row drop: more than 1 % of the rows of DIR/many-bad.csv are bad; the first is DIR/many-bad.csv: line 3: column 'b' is NaN: correct the row",
        2,
    ),
    // Held-out rows.
    (
        "two",
        "csv:DIR/good.csv",
        &["--test", "1.5"],
        "invalid value '1.5' for '--test <FRACTION|KIND:PATH>': '1.5': give a fraction between 0 and 1, or KIND:PATH",
        2,
    ),
    (
        "two",
        "csv:DIR/good.csv",
        &["--test", "0.001"],
        "csv:DIR/good.csv: --test 0.001 of 240 rows leaves a split empty: give another fraction",
        2,
    ),
    (
        "two",
        "csv:DIR/good.csv",
        &["--stratify", "public-classes"],
        "--stratify: divides the rows that --test FRACTION holds out by class; give a fraction, or leave it out",
        2,
    ),
    (
        "two",
        "csv:DIR/good.csv",
        &["--stratify", "yes", "--test", "0.2"],
        "invalid value 'yes' for '--stratify <public-classes>'",
        2,
    ),
    (
        "two",
        "csv:DIR/good.csv",
        &["--stratify", "public-classes", "--test", "0.2", "--loss", "mse"],
        "--stratify: divides by class, and these labels are not classes; leave it out",
        2,
    ),
    (
        "two",
        "csv:DIR/bad-class.csv",
        &["--stratify", "public-classes", "--test", "0.2", "--on-bad-row", "drop"],
        "DIR/bad-class.csv: line 2: has no class, and --stratify takes the class of every row to be known: correct the row",
        1,
    ),
    // Shapes of arrays.
    (
        "rgb",
        "npy:DIR/nhwc.npy",
        &["--labels", "DIR/y.npy"],
        "DIR/nhwc.npy: samples of shape [8, 8, 3] do not fit the model's input 'x' of shape [3, 8, 8]: its channels are on the last axis; give --layout nhwc, which moves them to the front",
        1,
    ),
    (
        "rgb",
        "npy:DIR/x.npy",
        &["--labels", "DIR/y.npy", "--layout", "nhwc"],
        "DIR/x.npy: samples of shape [3, 8, 8] do not fit the model's input 'x' of shape [3, 8, 8]: its channels are on the first axis; leave out --layout nhwc",
        1,
    ),
    (
        "rgb",
        "npy:DIR/turned.npy",
        &["--labels", "DIR/y.npy"],
        "DIR/turned.npy: samples of shape [8, 3, 8] do not fit the model's input 'x' of shape [3, 8, 8]: transpose the array, or export the model for this shape",
        1,
    ),
    (
        "rgb",
        "npy:DIR/few.npy",
        &["--labels", "DIR/y.npy"],
        "DIR/few.npy: samples of shape [3, 8, 7] do not fit the model's input 'x' of shape [3, 8, 8]: use other data, or export the model for this shape",
        1,
    ),
    (
        "rgb",
        "npy:DIR/x.npy",
        &["--labels", "DIR/y.npy", "--layout", "hwc"],
        "invalid value 'hwc' for '--layout <nchw|nhwc>': 'hwc': use nchw or nhwc",
        2,
    ),
    // npy.
    ("rgb", "npy:DIR/x.npy", &[], "--labels: npy holds one array; name the file of the labels, such as y.npy", 2),
    (
        "rgb",
        "npy:DIR/x.npy",
        &["--labels", "DIR/short-y.npy"],
        "DIR/short-y.npy: has the shape [99] where DIR/x.npy has 100 rows: use files that belong together",
        1,
    ),
    (
        "rgb",
        "npz:DIR/x.npy",
        &[],
        "DIR/x.npy: is one array, as numpy.save writes it: use npy:DIR/x.npy, and --labels for the array of labels",
        1,
    ),
    (
        "rgb",
        "npy:DIR/cut.npy",
        &["--labels", "DIR/y.npy"],
        "DIR/cut.npy: declares the shape [100, 3, 8, 8], more than the file can hold: fetch or export the file again",
        1,
    ),
    (
        "rgb",
        "npy:DIR/text.npy",
        &["--labels", "DIR/y.npy"],
        "DIR/text.npy: is not a .npy file: save the array with numpy.save",
        1,
    ),
    ("two", "csv:DIR/good.csv", &["--labels", "DIR/y.npy"], "--labels: is for npy; leave it out", 2),
    // Folders of images.
    ("rgb", "images:DIR/none", &[], "DIR/none: there is no such folder: correct the path", 1),
    ("rgb", "images:DIR/good.csv", &[], "DIR/good.csv: is a file: name the folder of the class folders", 1),
    (
        "rgb",
        "images:DIR/empty",
        &[],
        "DIR/empty: holds no class folders: name a folder that holds one folder a class",
        1,
    ),
    (
        "rgb",
        "images:DIR/flat",
        &[],
        "DIR/flat/1.png: lies beside the class folders: put it into the folder of its class, or name the folder above",
        1,
    ),
    (
        "rgb",
        "images:DIR/sizes",
        &[],
        "DIR/sizes: row 1 (counted from 0): DIR/sizes/dog/1.png: the image has 8 x 9 pixels (height x width) where the model takes 8 x 8: give --resize crop or stretch, or resize the images first",
        1,
    ),
    (
        "rgb",
        "images:DIR/three",
        &[],
        "DIR/three: has 3 class folders, and the model has 2 classes: name the folder above the classes, or train a model with more outputs",
        1,
    ),
    (
        "rgb",
        "images:DIR/broken",
        &[],
        "DIR/broken: row 1 (counted from 0): DIR/broken/dog/1.png: the image is corrupt (unexpected end of file): fetch or export it again, or use --on-bad-row drop",
        1,
    ),
    (
        "rgb",
        "images:DIR/other",
        &[],
        "DIR/other/cat/notes.txt: is no .png, .jpg or .jpeg file: take it out of the class folder",
        1,
    ),
    (
        "rgb",
        "images:DIR/nested",
        &[],
        "DIR/nested/cat/more: is a folder: put image files themselves into the folder of their class",
        1,
    ),
    (
        "rgb",
        "images:DIR/gif",
        &[],
        "DIR/gif: row 0 (counted from 0): DIR/gif/cat/1.png: the file is neither PNG nor JPEG: convert it",
        1,
    ),
    (
        "rgb",
        "images:DIR/new",
        &[],
        "DIR/new/test: the class 'cow' is not one of those of DIR/new/train, 'cat': rename it, take it away, or train with it",
        1,
    ),
    (
        "rgb",
        "images:DIR/pets",
        &["--classes", "cat,cow"],
        "DIR/pets: the class 'dog' is not one of those of --classes, 'cat', 'cow': rename it, take it away, or train with it",
        1,
    ),
    ("rgb", "images:DIR/pets", &["--layout", "nhwc"], "--layout: is for idx, csv, npz, npy, parquet; leave it out", 2),
    (
        "rgb",
        "images:DIR/pets",
        &["--loss", "mse"],
        "--loss: folders of images are classes; use softmax-cross-entropy, or npz for other labels",
        2,
    ),
    (
        "video",
        "images:DIR/pets",
        &[],
        "DIR/pets/cat/1.png: the model's input of shape [2, 3, 8, 8] takes no images of 1 or 3 channels: use other data, or export the model for them",
        1,
    ),
    // CIFAR.
    (
        "cifar",
        "cifar:DIR/pets",
        &[],
        "DIR/pets: holds no batch of CIFAR (data_batch_1 or train, with .bin or without): name the folder or the archive as published",
        1,
    ),
    (
        "cifar",
        "cifar:DIR/batch.tar",
        &[],
        "DIR/batch.tar: holds no batch of CIFAR (data_batch_1 or train, with .bin or without): name the folder or the archive as published",
        1,
    ),
    (
        "cifar",
        "cifar:DIR/no.tar",
        &[],
        "DIR/no.tar: is not a readable .tar or .tar.gz archive: fetch or export the file again",
        1,
    ),
    (
        "cifar",
        "cifar:DIR/short.tar",
        &[],
        "DIR/short.tar, data_batch_1.bin: has 5000 bytes, not a number of images of 3073 or 3074: fetch or export the file again",
        1,
    ),
    (
        "cifar",
        "cifar:DIR/pickle.tar",
        &[],
        "DIR/pickle.tar, data_batch_1: holds no array of bytes 'data' with its labels: fetch or export the file again",
        1,
    ),
    (
        "cifar",
        "cifar:DIR/opcode.tar",
        &[],
        "DIR/opcode.tar, data_batch_1: is not a Python batch of CIFAR that can be read (it has the opcode 0x50, which such batches do not): fetch or export the file again",
        1,
    ),
    (
        "cifar",
        "cifar:DIR/cifar.tar",
        &["--label-column", "coarse"],
        "--label-column coarse: CIFAR-10 has one kind of labels; leave it out",
        2,
    ),
    (
        "cifar",
        "cifar:DIR/cifar.tar",
        &["--label-column", "name"],
        "--label-column name: CIFAR-100 has the labels fine and coarse; name one of them",
        2,
    ),
    (
        "rgb",
        "cifar:DIR/cifar.tar",
        &[],
        "DIR/cifar.tar: samples of shape [3, 32, 32] do not fit the model's input 'x' of shape [3, 8, 8]: use other data, or export the model for this shape",
        1,
    ),
    (
        "cifar",
        "cifar:DIR/gap.tar",
        &[],
        "DIR/gap.tar: holds data_batch_3 and no data_batch_2: fetch or export the file again",
        1,
    ),
    ("cifar", "cifar:DIR/twice.tar", &[], "DIR/twice.tar, data_batch_1.bin: is there twice: take one of them out", 1),
    (
        "cifar",
        "cifar:DIR/forms.tar",
        &[],
        "DIR/forms.tar: holds data_batch_1 and data_batch_1.bin, the same images twice: take one of the versions out",
        1,
    ),
    (
        "cifar",
        "cifar:DIR/mixed.tar",
        &[],
        "DIR/mixed.tar: holds data_batch_1.bin of CIFAR-10 and train.bin of CIFAR-100: take one of the data sets out",
        1,
    ),
    // Parquet.
    (
        "rgb",
        "parquet:DIR/sizes.parquet",
        &[],
        "DIR/sizes.parquet: row 0 (counted from 0): the image has 9 x 8 pixels (height x width) where the model takes 8 x 8: give --resize crop or stretch, or resize the images first",
        1,
    ),
    (
        "rgb",
        "parquet:DIR/good.parquet",
        &["--label-column", "kind"],
        "DIR/good.parquet: has no column 'kind': name one of 'label', or a number from 0 to 0",
        1,
    ),
    (
        "two",
        "parquet:DIR/text.parquet",
        &[],
        "DIR/text.parquet: row 0 (counted from 0): column 'b' is not a number: correct the row, or list the column's values with --categories",
        1,
    ),
    (
        "rgb",
        "parquet:DIR/paths.parquet",
        &[],
        "DIR/paths.parquet: row 0: the image has no bytes: write the data set with its images in it, not with their paths",
        1,
    ),
    (
        "two",
        "parquet:DIR/pandas.parquet",
        &[],
        "DIR/pandas.parquet: column 2 (counted from 0) is '__index_level_0__', numbers of rows: take it out (in pandas write with index=False), or name it",
        1,
    ),
    (
        "two",
        "parquet:DIR/dates.parquet",
        &[],
        "DIR/dates.parquet: column 'day' holds dates, times, decimals, half floats or fixed bytes: write it as float32 or int64",
        1,
    ),
    (
        "two",
        "parquet:DIR/names.parquet",
        &[],
        "DIR/names.parquet: row 0 (counted from 0): column 'label', the label, is not a number: list the names of the classes with --classes, or correct the row",
        1,
    ),
    (
        "two",
        "parquet:DIR/cut.parquet",
        &[],
        "DIR/cut.parquet: is not a Parquet file that can be read (Invalid Parquet file. Corrupt footer): fetch or export the file again",
        1,
    ),
    (
        "two",
        "parquet:DIR/no.parquet",
        &[],
        "DIR/no.parquet: is not a Parquet file that can be read (EOF: Parquet file too small. Size is 47 but need 544174888): fetch or export the file again",
        1,
    ),
    (
        "two",
        "parquet:DIR/pets",
        &[],
        "DIR/pets: holds no .parquet files of a training split: name the folder that does, or a file",
        1,
    ),
    // Memory.
    (
        "rgb",
        "npy:DIR/x.npy",
        &["--labels", "DIR/y.npy", "--data-memory", "1", "--cache", "DIR/none"],
        "DIR/none: cannot hold the rows beyond --data-memory (No such file or directory); name a folder with room by --cache",
        1,
    ),
    (
        "two",
        "csv:DIR/good.csv",
        &["--data-memory", "much"],
        "invalid value 'much' for '--data-memory <SIZE>': unknown unit; give a number with KiB, MiB or GiB, such as 512MiB",
        2,
    ),
];

#[test]
fn wrong_data_is_refused_in_exact_words() {
    let guard = tempfile::tempdir().unwrap();
    let folder = guard.path();
    write_files(folder);
    let dir = folder.to_str().unwrap();
    let here = |text: &str| text.replace("DIR", dir);
    let out = folder.join("run");
    let mut wrong = String::new();
    for (model, data, flags, message, code) in CASES {
        let mut args = vec!["train".into(), here(&format!("DIR/{model}.onnx")), "--data".into(), here(data)];
        args.extend(["--out".into(), out.display().to_string()]);
        let common = "--epsilon 3 --delta 1e-3 --batch-size 8 --epochs 1 --lr 0.1 --backend tract --quiet";
        args.extend(common.split(' ').map(String::from));
        args.extend(flags.iter().map(|flag| here(flag)));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = run(&args);
        let first = stderr(&output).lines().next().unwrap_or_default().replace(dir, "DIR");
        let found = first.strip_prefix("error: ").unwrap_or(&first);
        if found != *message || output.status.code() != Some(*code) {
            wrong += &format!("{data} {flags:?}: {:?}\n{found}\n", output.status.code());
        }
        assert!(!out.exists(), "{data} {flags:?}: {}", out.display());
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(CASES.len() >= 40);
}
