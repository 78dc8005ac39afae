//! Tokenizer files and their tokens.

use super::*;

/// Writes `bytes.json` with changes into the folder.
fn changed(folder: &TempDir, name: &str, change: &dyn Fn(&mut serde_json::Value)) -> PathBuf {
    let mut json = serde_json::from_slice(&std::fs::read(tokenizer("bytes.json")).unwrap()).unwrap();
    change(&mut json);
    put(folder, name, &serde_json::to_vec(&json).unwrap())
}

// Expected rows are derived from the file by hand. A test below compares many texts with the Python package.
#[test]
fn sides_and_types_are_those_of_the_file() {
    let folder = folder();
    let path = put(&folder, "t.tsv", b"label\ttext\n1\tab\n0\tabcdefgh\n");
    let with = |padding: serde_json::Value, truncation: serde_json::Value| {
        let file = changed(&folder, "sides.json", &|json| {
            json["padding"] = padding.clone();
            json["truncation"] = truncation.clone();
        });
        let mut options = bytes(&["input_ids", "attention_mask", "token_type_ids"], 6);
        options.text.tokenizer = Some(file);
        options
    };
    let padding = |direction: &str, strategy: serde_json::Value| {
        serde_json::json!({"strategy": strategy, "direction": direction, "pad_to_multiple_of": 8, "pad_id": 7,
            "pad_type_id": 3, "pad_token": "!"})
    };
    let truncation = |direction: &str, length: usize| serde_json::json!({"direction": direction, "max_length": length, "strategy": "LongestFirst", "stride": 1});
    let rows = |options: &DataOptions| {
        let data = load(&spec("text", &path), options).unwrap();
        [0, 1, 2].map(|at| data.train.features()[at].integers().to_vec())
    };
    // Fixed padding does not count among the tokens that the file adds to a text.
    let left = with(padding("Left", serde_json::json!({"Fixed": 8})), truncation("Left", 128));
    assert_eq!(
        rows(&left),
        [
            vec![7, 7, 1, 100, 101, 2, 1, 104, 105, 106, 107, 2],
            vec![0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
            vec![3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ]
    );
    let right = with(padding("Right", "BatchLongest".into()), truncation("Left", 5));
    assert_eq!(
        rows(&right),
        [
            vec![1, 100, 101, 2, 7, 7, 1, 105, 106, 107, 2, 7],
            vec![1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0],
            vec![0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 3],
        ]
    );
    // The labels of a language model stay with their tokens.
    let lines = put(&folder, "t.txt", b"ab\nabcdefgh\n");
    let mut options = language_model(6);
    let again = with(padding("Left", serde_json::json!({"Fixed": 8})), truncation("Left", 128));
    options.text.tokenizer = again.text.tokenizer;
    let data = load(&spec("text", &lines), &options).unwrap();
    assert_eq!(data.train.features()[0].integers(), [7, 7, 1, 100, 101, 2, 103, 104, 105, 106, 107, 2]);
    assert_eq!(classes(data.train.labels()), [-100, -100, 100, 101, 2, -100, 104, 105, 106, 107, 2, -100]);

    let second = serde_json::json!({"direction": "Right", "max_length": 5, "strategy": "OnlySecond", "stride": 0});
    let message = refusal(&spec("text", &path), &with(serde_json::Value::Null, second));
    assert!(message.contains("only_second"), "{message}");
}

// White space at the ends belongs to a text, but a line end does not.
#[test]
fn texts_keep_their_white_space() {
    let folder = folder();
    for (name, rows) in [
        ("t.tsv", "label\ttext\n1\t a \n1\t\u{a0}\u{3000}\n"),
        ("t.csv", "label,text\r\n1,\" a \"\r\n1,\u{a0}\u{3000}\r\n"),
    ] {
        let path = put(&folder, name, rows.as_bytes());
        let data = load(&spec("text", &path), &bytes(&["x"], 8)).unwrap();
        let wanted = [ids(" a ", 8), ids("\u{a0}\u{3000}", 8)].concat();
        assert_eq!(data.train.features()[0].integers(), wanted, "{name}");
    }
    let path = put(&folder, "t.txt", b" a\t\r\n\r\n\n \n\x0bb\r");
    let data = load(&spec("text", &path), &language_model(8)).unwrap();
    let wanted = [" a\t", " ", "\x0bb\r"].map(|text| ids(text, 8)).concat();
    assert_eq!(data.train.features()[0].integers(), wanted);
}

// In the Python package, U+200C and U+200D are not word characters, but ² is.
#[test]
fn patterns_have_the_classes_of_the_package() {
    let folder = folder();
    let path = put(&folder, "t.tsv", "label\ttext\n1\ta\u{200d}\u{b2}b\n".as_bytes());
    let with = |pattern: &str| {
        let file = changed(&folder, "pattern.json", &|json| {
            json["normalizer"] = serde_json::json!({"type": "Sequence", "normalizers": [
                {"type": "Replace", "pattern": {"Regex": pattern}, "content": "."}]});
        });
        let mut options = bytes(&["x"], 9);
        options.text.tokenizer = Some(file);
        options
    };
    let data = load(&spec("text", &path), &with(r"\w")).unwrap();
    assert_eq!(data.train.features()[0].integers(), ids(".\u{200d}..", 9));
    let message = refusal(&spec("text", &path), &with(r"\X"));
    assert!(message.contains("pattern.json: its pattern") && message.contains(r"'\X'"), "{message}");
}

// The tokenizer file must exist, be complete and fit the model.
#[test]
fn tokenizer_must_exist_and_fit_model() {
    let folder = folder();
    let path = put(&folder, "t.tsv", b"label\ttext\n1\tab\n");
    let with = |tokenizer: Option<PathBuf>| {
        let mut options = bytes(&["x"], 5);
        options.text.tokenizer = tokenizer;
        options
    };
    assert!(refusal(&spec("text", &path), &with(None)).contains("`tokenizer`"));
    assert!(refusal(&spec("text", &path), &with(Some("nowhere.json".into()))).contains("nowhere.json"));
    let whole = std::fs::read(tokenizer("bytes.json")).unwrap();
    for len in (0..whole.len()).step_by(97) {
        let cut = put(&folder, "cut.json", &whole[..len]);
        assert!(refusal(&spec("text", &path), &with(Some(cut))).contains("cut.json"), "{len}");
    }
    // Without a padding entry, usual names are recognised.
    let json = String::from_utf8(whole).unwrap();
    let start = json.find("\"padding\":").unwrap();
    let end = start + json[start..].find('}').unwrap() + 1;
    let bare = [&json[..start], "\"padding\":null", &json[end..]].concat();
    let known = put(&folder, "known.json", bare.as_bytes());
    assert_eq!(load(&spec("text", &path), &with(Some(known))), load(&spec("text", &path), &bytes(&["x"], 5)));
    let unknown = put(&folder, "unknown.json", bare.replace("<pad>", "<nothing>").as_bytes());
    assert!(refusal(&spec("text", &path), &with(Some(unknown))).contains("no padding token"));

    let mut small = bytes(&["x"], 5);
    small.inputs[0].rows = Some(258);
    let message = refusal(&spec("text", &path), &small);
    assert!(message.contains("259 tokens") && message.contains("embeds 258"), "{message}");
    let mut small = language_model(5);
    small.labels = LabelKind::Classes { classes: Some(258), shape: Some(vec![5]) };
    assert!(refusal(&spec("text", &path), &small).contains("predicts 258"));
}

// The shipped tokenizers are as documented.
#[test]
fn shipped_tokenizers_match_docs() {
    let folder = folder();
    let path = put(&folder, "t.tsv", "label\ttext\n1\tA good film!\n0\té\n".as_bytes());
    let mut options = bytes(&["input_ids"], 8);
    options.text.tokenizer = Some(tokenizer("wordpiece.json"));
    options.inputs[0].rows = Some(4096);
    let data = load(&spec("text", &path), &options).unwrap();
    let ids = data.train.features()[0].integers();
    assert_eq!((ids[0], &ids[4..8]), (2, &[5, 3, 0, 0][..]), "[CLS] a good film ! [SEP] [PAD] [PAD]");
    assert_eq!((ids[8], ids[10], &ids[11..]), (2, 3, &[0; 5][..]));
    options.inputs[0].rows = Some(4095);
    assert!(refusal(&spec("text", &path), &options).contains("4096 tokens"));
}

// Ids, masks and types of 1,500 Unicode texts under 30 tokenizer files, as the Python package gives them
// (tokenizers/record.py). Line ends in texts are quoted in the table.
#[test]
fn tokens_are_those_of_the_python_package() {
    const BLOCK: usize = 50;
    let texts: Vec<String> = recorded(include_bytes!("../tokenizers/texts.json.gz"));
    let cases: Vec<serde_json::Value> = recorded(include_bytes!("../tokenizers/cases.json.gz"));
    assert_eq!((texts.len(), cases.len()), (1500, 30));
    let folder = folder();
    let rows: String = texts.iter().map(|text| format!("1,\"{}\"\n", text.replace('"', "\"\""))).collect();
    let path = put(&folder, "t.csv", format!("label,text\n{rows}").as_bytes());
    let mut wrong = Vec::new();
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let mut options = bytes(&["input_ids", "attention_mask", "token_type_ids"], 24);
        options.text.tokenizer = Some(put(&folder, "tokenizer.json", &serde_json::to_vec(&case["tokenizer"]).unwrap()));
        let data = match load(&spec("text", &path), &options) {
            Ok(data) => data,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        let columns = [0, 1, 2].map(|at| data.train.features()[at].integers());
        assert_eq!(columns[0].len(), texts.len() * 24);
        for (block, sum) in case["sums"].as_array().unwrap().iter().enumerate() {
            let mut crc = flate2::Crc::new();
            for text in block * BLOCK..(block + 1) * BLOCK {
                for column in columns {
                    column[text * 24..(text + 1) * 24].iter().for_each(|id| crc.update(&id.to_le_bytes()));
                }
            }
            if u64::from(crc.sum()) != sum.as_u64().unwrap() {
                wrong.push(format!(
                    "{name}: texts from {}, of which the first is {:?}",
                    block * BLOCK,
                    texts[block * BLOCK]
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn recorded<T: serde::de::DeserializeOwned>(packed: &[u8]) -> T {
    serde_json::from_reader(flate2::read::GzDecoder::new(packed)).unwrap()
}
