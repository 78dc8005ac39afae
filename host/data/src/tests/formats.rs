//! The table of formats, and the messages and docs that follow from it. A new format does not change any test here.

use super::*;

/// Formats, each with a word of its unit of privacy.
const KNOWN: [(&str, &str); 10] = [
    ("idx", "IDX"),
    ("csv", "CSV"),
    ("npz", "NPZ"),
    ("npy", "NPY"),
    ("images", "folder"),
    ("folder", "folder"),
    ("cifar", "CIFAR"),
    ("parquet", "Parquet"),
    ("text", "text"),
    ("memory", "program"),
];

fn written_by_hand() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().filter(|format| format.path.is_some())
}

// Each format has its own unit of privacy, which includes the label if there is one.
#[test]
fn each_format_names_its_unit() {
    for labels in [LabelKind::None, LabelKind::default()] {
        let options = DataOptions { labels, ..DataOptions::default() };
        for format in FORMATS {
            let unit = format.unit_of_privacy(&options);
            let own = |(name, word): &(&str, &str)| format.names.contains(name) == unit.contains(word);
            assert!(KNOWN.iter().all(own), "{:?}: {unit}", format.names);
            let is_labelled = unit.contains("label") || unit.contains("class");
            assert!(format.names[0] == "text" || is_labelled == (options.labels != LabelKind::None), "{unit}");
            let is_own = |other: &Format| other.names == format.names || other.unit_of_privacy(&options) != unit;
            assert!(FORMATS.iter().all(is_own), "{unit}");
        }
    }
}

#[test]
fn names_and_ends_are_of_one_format() {
    let mut all: Vec<_> = FORMATS.iter().flat_map(|format| format.names.iter().chain(format.ends)).collect();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
}

// The name of a path, the files in a folder and a tokenizer determine the kind.
#[test]
fn paths_without_kinds_get_them() {
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str, files: &[&str]| {
        let path = folder.path().join(name);
        for file in files {
            let file = path.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        path.display().to_string()
    };
    let mnist = made("mnist", &["train-images-idx3-ubyte.gz", "README.md"]);
    let cifar = made("cifar", &["data_batch_1.bin", "batches.meta.txt"]);
    let inside = made("above", &["cifar-10-batches-py/data_batch_1"]);
    let pictures = made("pictures", &["train/cat/a.png", "classes.txt"]);
    let tables = made("tables", &["train-0.parquet", "test-0.parquet"]);
    let texts = made("texts", &["train.tsv", "dev.tsv"]);
    let mixed = made("mixed", &["a.parquet", "train-images-idx3-ubyte"]);
    let none = DataOptions::default();
    let tokenizer = Some(PathBuf::from("t.json"));
    let text = DataOptions { text: TextOptions { tokenizer, ..TextOptions::default() }, ..DataOptions::default() };
    for (path, options, kind) in [
        ("train-images-idx3-ubyte.gz", &none, "idx"),
        ("a.csv", &none, "csv"),
        ("a.csv.gz", &none, "csv"),
        ("a.tsv", &none, "csv"),
        ("a.tsv", &text, "text"),
        ("a.csv", &text, "text"),
        ("a.txt", &none, "text"),
        ("a.npz", &none, "npz"),
        ("a.npy", &none, "npy"),
        ("a.parquet", &none, "parquet"),
        ("a.tar.gz", &none, "cifar"),
        (&mnist, &none, "idx"),
        (&cifar, &none, "cifar"),
        (&inside, &none, "cifar"),
        (&pictures, &none, "images"),
        (&tables, &none, "parquet"),
        (&texts, &text, "text"),
    ] {
        assert_eq!(with_kind(path, options).unwrap(), format!("{kind}:{path}"));
    }
    for given in ["csv:a.dat", "text:a.csv", "memory:train"] {
        assert_eq!(with_kind(given, &none).unwrap(), given);
    }
    for path in ["a.tgz", "nothing", &mixed, &texts, "kind:a.dat", "parket:a.parquet"] {
        let message = with_kind(path, &none).unwrap_err().to_string();
        assert!(message.contains("KIND") || message.contains("unknown kind"), "{message}");
    }
}

// Without arrays of a program, the kind is unknown.
#[test]
fn memory_is_of_programs_alone() {
    let message = refusal("memory:train", &DataOptions::default());
    assert!(message.contains("unknown kind 'memory': use one of idx, csv"), "{message}");
}

#[test]
fn settings_name_the_formats_that_read_them() {
    let some = || Some(PathBuf::new());
    let none = DataOptions::default;
    let list = || vec![("a".into(), vec![])];
    let classes = Some(vec!["a".into(), "b".into()]);
    let given = [
        ("delimiter", DataOptions { delimiter: Some(b';'), ..none() }, "csv, text"),
        ("classes", DataOptions { classes, ..none() }, "idx, csv, npz, npy, images, folder, cifar, parquet, text"),
        ("categories", DataOptions { categories: list(), ..none() }, "csv, parquet"),
        ("scale", DataOptions { scale: vec![("a".into(), 0.0, 1.0)], ..none() }, "idx, csv, npz, npy, parquet"),
        ("labels", DataOptions { labels_file: some(), ..none() }, "npy"),
        ("test_labels", DataOptions { test_labels_file: some(), ..none() }, "npy"),
        ("layout", DataOptions { layout: ChannelLayout::Nhwc, ..none() }, "idx, csv, npz, npy, parquet"),
        ("resize", DataOptions { resize: Some(Resize::Crop), ..none() }, "images, folder, parquet"),
        ("image_cache", DataOptions { image_cache: some(), ..none() }, "images, folder, parquet"),
        ("raw_bytes", DataOptions { raw_bytes: true, ..none() }, "idx, csv, npz, npy, images, folder, cifar, parquet"),
    ];
    let unknown = |format: &Format| {
        format.settings.iter().find(|name| given.iter().all(|(setting, ..)| setting != *name)).is_some()
    };
    assert!(!FORMATS.iter().any(unknown), "a setting that is never refused");
    for (setting, options, kinds) in given {
        let problem = refusal("tar:x", &options);
        let list =
            problem.strip_prefix(&format!("`{setting}`: is for ")).and_then(|rest| rest.strip_suffix("; leave it out"));
        let list: Vec<_> =
            list.unwrap().split(", ").filter(|kind| KNOWN.iter().any(|(known, _)| known == kind)).collect();
        assert_eq!(list.join(", "), kinds, "{setting}");
        for (kind, _) in KNOWN {
            let message = refusal(&format!("{kind}:/nonexistent"), &options);
            // Arrays of a program also read some settings, which messages do not list.
            let is_hidden = kind == "memory" && ["classes", "scale", "layout"].contains(&setting);
            assert_eq!(message != problem, list.contains(&kind) || is_hidden, "{kind}: {message}");
        }
    }
}

/// Returns the table of formats for a page. A format with a section on the page has a link to it.
fn table(page: &str) -> String {
    let mut text = "| kind | PATH | test split | one sample |\n| --- | --- | --- | --- |\n".to_owned();
    for format in written_by_hand() {
        let link = |name: &&str| match page.contains(&format!("\n## `{name}`\n")) {
            true => format!("[`{name}`](#{name})"),
            false => format!("`{name}`"),
        };
        let names = format.names.iter().map(link).collect::<Vec<_>>().join(", ");
        // Pages show settings as flags.
        let path = format.path.unwrap_or_default().replace('|', " or ").replace(" `", " `--");
        let gzip = if format.gzip { ", also gzipped" } else { "" };
        let (test, unit) = (format.test_split.unwrap_or("–"), format.unit_of_privacy(&DataOptions::default()));
        text += &format!("| {names} | {path}{gzip} | {test} | {unit} |\n");
    }
    text
}

#[test]
fn docs_have_each_format() {
    const FROM: &str = "<!-- formats: DAMPER_WRITE_DOCS=1 cargo test -p damper-data docs_have writes this table -->\n";
    const TO: &str = "<!-- formats: end -->\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/data.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(FROM).unwrap();
    let (_, after) = rest.split_once(TO).unwrap();
    let made = format!("{before}{FROM}{}{TO}{after}", table(&page));
    if std::env::var_os("DAMPER_WRITE_DOCS").is_some() {
        std::fs::write(&path, made).unwrap();
        return;
    }
    assert!(made == page, "docs/data.md lists other formats: run with DAMPER_WRITE_DOCS=1");
}
