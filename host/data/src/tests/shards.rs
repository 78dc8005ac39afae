//! A rank with a shard reads the same rows, in the memory of the shard.

use super::*;
use crate::{Batch, Chunk};
use damper_onnx::TensorRef;
use std::num::NonZeroUsize;
use std::ops::Range;

/// Returns the rows as a step reads them.
fn batch(split: &Split, rows: Range<usize>) -> Batch {
    let samples: Vec<u32> = rows.map(|row| row as u32).collect();
    let mut batch = Batch::new(split, NonZeroUsize::new(samples.len()).unwrap());
    batch.fill(split, Chunk { index: 0, samples: &samples }).unwrap();
    batch
}

fn assert_same(found: &Batch, wanted: &Batch, spec: &str) {
    let (TensorRef::F32(own), TensorRef::F32(other)) = (found.features(0), wanted.features(0)) else {
        panic!("{spec}")
    };
    assert!(own == other && found.labels() == wanted.labels() && found.weights() == wanted.weights(), "{spec}");
}

fn digest(split: &Split) -> Vec<u8> {
    let mut all = vec![];
    split.digest(&mut |bytes| all.extend_from_slice(bytes)).unwrap();
    all
}

/// Returns samples of `rows` rows in several kinds of files, with the options to read them.
fn files(folder: &TempDir, rows: usize) -> Vec<(String, DataOptions)> {
    let width = 24;
    let values = || (0..rows * width).map(|at| (at * 7 % 1009) as f64 / 8.0 - 50.0);
    let bytes: Vec<u8> = (0..rows * width).map(|at| (at * 7 % 256) as u8).collect();
    let of_rows: Vec<u8> = (0..rows).map(|at| (at % 3) as u8).collect();
    let labels = npy("|u1", false, &[rows], &of_rows);
    let labels_file = Some(put(folder, "y.npy", &labels));
    let singles = le(&values().map(|x| x as f32).collect::<Vec<_>>(), f32::to_le_bytes);
    let singles = npy("<f4", false, &[rows, width], &singles);
    let doubles = npy("<f8", false, &[rows, width], &le(&values().collect::<Vec<_>>(), f64::to_le_bytes));
    let extents = [rows as u32, 4, 6];
    put(folder, "train-images-idx3-ubyte", &idx_bytes(8, &extents, &bytes));
    put(folder, "train-labels-idx1-ubyte", &idx_bytes(8, &extents[..1], &of_rows));
    let mut csv = String::new();
    for (row, class) in of_rows.iter().enumerate() {
        let fields = (0..width).map(|column| format!("{},", (row * width + column) % 1009));
        csv.extend(fields.chain([format!("{class}\n")]));
    }
    let normalize = Some((0.5, 0.25).into());
    let plain = DataOptions { inputs: input(&[width]), ..DataOptions::default() };
    let of_npy = DataOptions { labels_file, ..plain.clone() };
    vec![
        (spec("npy", &put(folder, "x.npy", &singles)), of_npy.clone()),
        (
            spec("npy", &put(folder, "x.npy.gz", &gz(&doubles))),
            DataOptions { normalize: normalize.clone(), ..of_npy.clone() },
        ),
        (
            spec("npz", &put(folder, "d.npz", &npz(&[("x", doubles), ("y", labels)]))),
            DataOptions { unrounded: true, ..plain.clone() },
        ),
        (spec("idx", folder.path()), DataOptions { normalize, ..plain.clone() }),
        (spec("csv", &put(folder, "t.csv", csv.as_bytes())), DataOptions { header: Some(false), ..plain }),
    ]
}

#[test]
fn shards_are_the_rows_of_the_whole() {
    let folder = folder();
    for (spec, options) in files(&folder, 3000) {
        for test in [None, Some(TestSource::Fraction(0.25))] {
            let options = DataOptions { test, ..options.clone() };
            let whole = load(&spec, &options).unwrap();
            let rows = whole.train.len();
            for (shard, size) in [(0, 2), (2, 4), (3, 4)] {
                // In memory, and in a file.
                for memory in [u64::MAX, 0] {
                    let small = DataOptions { data_memory: Some(0), ..options.clone() }.of_shard();
                    let mut found = load(&spec, &small).unwrap();
                    assert_eq!(digest(&found.train), digest(&whole.train), "{spec}");
                    let held = shard * rows / size..(shard + 1) * rows / size;
                    found.train.keep_rows(held.clone());
                    found.train.load_rows(memory).unwrap();
                    assert_eq!((found.train.len(), found.train.held()), (rows, Some(held.clone())));
                    assert_same(&batch(&found.train, held.clone()), &batch(&whole.train, held), &spec);
                }
            }
        }
    }
}

// A dropped row is zeros in a file too.
#[test]
fn dropped_rows_have_one_digest_everywhere() {
    let folder = folder();
    let mut text: String = (0..300).map(|row| format!("{row},1,{}\n", row % 2)).collect();
    text += "7,x,1\n";
    let path = put(&folder, "t.csv", text.as_bytes());
    let options =
        DataOptions { on_bad_row: OnBadRow::Drop, header: Some(false), inputs: input(&[2]), ..DataOptions::default() };
    let whole = load(&spec("csv", &path), &options).unwrap();
    let stored = load(&spec("csv", &path), &DataOptions { data_memory: Some(0), ..options }).unwrap();
    assert!(stored.train.features()[0].floats().is_empty() && stored.train.is_null(300));
    assert_eq!(digest(&stored.train), digest(&whole.train));
    let mut loaded = stored.train;
    loaded.load_rows(u64::MAX).unwrap();
    assert_eq!(loaded, whole.train);
}

/// Returns the peak memory of this process in bytes.
#[cfg(target_os = "linux")]
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() << 10
}

/// Size of the readers' buffers, for any file size.
#[cfg(target_os = "linux")]
const BUFFERS: u64 = 8 << 20;

// Each file is read in a separate process: as a whole, and as the last of 4 shards.
#[cfg(target_os = "linux")]
#[test]
fn shard_is_read_in_its_own_memory() {
    const NAME: &str = "tests::shards::shard_is_read_in_its_own_memory";
    if let Ok(case) = std::env::var("DAMPER_SHARD_OF") {
        let (index, place) = case.split_once(' ').unwrap();
        let (size, place) = place.split_once(' ').unwrap();
        let size: usize = size.parse().unwrap();
        let (spec, options) = list(Path::new(place)).swap_remove(index.parse().unwrap());
        let before = peak();
        let mut data = load(&spec, &if size > 1 { options.of_shard() } else { options }).unwrap();
        if size > 1 {
            let rows = data.train.len();
            data.train.keep_rows((size - 1) * rows / size..rows);
            data.train.load_rows(u64::MAX).unwrap();
        }
        println!("peak {}", peak() - before);
        return;
    }
    let folder = folder();
    let rows = 600_000;
    let count = files(&folder, rows).len();
    for index in 0..count {
        let read = |size: usize| -> u64 {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", NAME, "--nocapture"]);
            child.env("DAMPER_SHARD_OF", format!("{index} {size} {}", folder.path().display()));
            let output = child.output().unwrap();
            let said =
                format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            let peak = said.lines().find_map(|line| line.split_once("peak ")).unwrap_or_else(|| panic!("{said}"));
            peak.1.parse().unwrap()
        };
        let (whole, shard) = (read(1), read(4));
        // Samples of 4 bytes per value, or 8 if they are rounded later, and a label.
        let samples = rows as u64 * (24 * if index == 2 { 8 } else { 4 });
        println!("file {index}: {} MiB as a whole, {} MiB as one of 4", whole >> 20, shard >> 20);
        let labels = 8 * rows as u64;
        assert!(
            shard <= samples / 4 + labels + BUFFERS,
            "file {index}: a shard of {} takes {shard}, all {whole}",
            samples / 4
        );
        assert!(shard < whole, "file {index}");
    }
}

/// Returns the existing [`files`].
#[cfg(target_os = "linux")]
fn list(folder: &Path) -> Vec<(String, DataOptions)> {
    let small = tempfile::tempdir_in(folder).unwrap();
    let there = |(spec, options): (String, DataOptions)| {
        let spec = spec.replace(small.path().to_str().unwrap(), folder.to_str().unwrap());
        (spec, DataOptions { labels_file: options.labels_file.map(|_| folder.join("y.npy")), ..options })
    };
    files(&small, 8).into_iter().map(there).collect()
}
