//! Runs the commands of the book as written on its pages: `docs/SUMMARY.md` lists the pages, and README.md is another
//! page.
//!
//! A page is one session. Its blocks run in order in one temporary folder, with the built `damper` first in `PATH` and
//! the repository's `onnx-models` next to them:
//!
//! - ` ```sh ` runs, and fails the test if a command in it fails. A block ` ```text ` right after it is its standard
//!   output, in which `...` stands for any text.
//! - ` ```python ` runs if Python has damper and torch. The blocks up to the next ` ```sh ` are one program.
//! - ` ```sh,skip-REASON ` does not run ([`REASONS`]), and is printed as skipped.
//! - `<!-- before … -->` holds commands that readers do not see.
//!
//! `DAMPER_BOOK=resume,tutorials` runs the pages with one of these in their path, and prints the output of their
//! commands.

#![cfg(unix)]

#[path = "book/page.rs"]
mod page;
#[path = "book/session.rs"]
mod session;

use page::{Block, Code, Page};
use session::ShellSession;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// Reasons why a block does not run, by the word after `skip-`.
const REASONS: [(&str, &str); 7] = [
    ("board", "needs a board's toolchain, or QEMU; `.ci/run firmware` runs it"),
    ("build", "builds or tests the project; CI does"),
    ("data", "needs data that is not in the repository"),
    ("excerpt", "is a part of a program"),
    ("gpu", "needs a GPU"),
    ("install", "changes the machine"),
    ("long", "takes minutes"),
];

/// Commands by which the pages run damper. The tests have already built it, in its smallest form and in full.
const RUN: [&str; 2] = ["cargo run --release -p damper --no-default-features --", "cargo run --release -p damper --"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Returns the pages in the order of the book.
fn pages() -> Vec<String> {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let listed = summary.lines().filter_map(|line| Some(line.split_once("](")?.1.split_once(')')?.0));
    let pages: Vec<_> = ["README.md".into()].into_iter().chain(listed.map(|page| format!("docs/{page}"))).collect();
    assert!(pages.len() > 10, "docs/SUMMARY.md lists the pages");
    pages
}

#[derive(Default)]
struct Tally {
    ran: usize,
    skipped: BTreeMap<String, usize>,
    failed: Vec<String>,
}

/// Runs a page to its end, or to the first block that fails.
fn play(name: &str, tally: &Mutex<Tally>, python: bool, aloud: bool) {
    let note = |what: Result<usize, String>| {
        let mut tally = tally.lock().unwrap();
        match what {
            Ok(blocks) => tally.ran += blocks,
            Err(problem) => tally.failed.push(format!("{name}:{problem}")),
        }
    };
    let page = fs::read_to_string(root().join(name)).map_err(|error| format!(" {error}"));
    let page = page.map(|text| RUN.iter().fold(text, |text, run| text.replace(run, "damper")));
    let page = page.and_then(|text| Page::parse(&text, &REASONS.map(|(word, _)| word)));
    let page = match page {
        Ok(page) => page,
        Err(problem) => return note(Err(problem)),
    };
    let mut session = ShellSession::new(&root(), Path::new(env!("CARGO_BIN_EXE_damper")));
    let mut blocks = page.blocks.as_slice();
    while let [first, rest @ ..] = blocks {
        let is_program = first.code == Code::Python && first.skip.is_none();
        let alike = 1 + if is_program { page::leading_python(rest) } else { 0 };
        let (now, later) = blocks.split_at(alike);
        blocks = later;
        let skip = |why: String| *tally.lock().unwrap().skipped.entry(why).or_default() += alike;
        match (first.code, &first.skip) {
            (_, Some(reason)) => {
                let (_, why) = REASONS.iter().find(|(word, _)| word == reason).unwrap();
                skip(format!("{name}: {why}"));
            }
            (Code::Python, None) if !python => skip(format!("{name}: Python has no damper or no torch")),
            _ => {
                let start = Instant::now();
                let result = session.run(now, aloud);
                if aloud {
                    println!("{name}:{}: {:.1} s", first.line, start.elapsed().as_secs_f64());
                }
                let failed = result.is_err();
                note(result.map(|()| alike));
                if failed {
                    return;
                }
            }
        }
    }
}

#[test]
fn commands_run_and_say_what_the_book_says() {
    let chosen = std::env::var("DAMPER_BOOK").ok();
    let is_chosen =
        |page: &String| chosen.as_ref().is_none_or(|parts| parts.split(',').any(|part| page.contains(part)));
    let pages: Vec<_> = pages().into_iter().filter(is_chosen).collect();
    let python = session::python_has_damper();
    let (tally, queue) = (Mutex::new(Tally::default()), Mutex::new(pages.iter()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, |cores| cores.get().min(4)) {
            scope.spawn(|| {
                while let Some(page) = { queue.lock().unwrap().next() } {
                    play(page, &tally, python, chosen.is_some());
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap();
    for (why, blocks) in &tally.skipped {
        let need = if why.contains("torch") { "damper-python" } else { "book" };
        damper_testing::skip(need, format_args!("{blocks} blocks of {why}"));
    }
    let skipped: usize = tally.skipped.values().sum();
    println!("{} pages: {} blocks ran, {skipped} skipped", pages.len(), tally.ran);
    assert!(tally.failed.is_empty(), "\n{}", tally.failed.join("\n\n"));
    assert!(tally.ran > 0, "no block ran");
}

/// Returns the result of a page of these lines. The error is without the page's name.
fn said_of(text: &str) -> Result<(), String> {
    let page = Page::parse(text, &["long"])?;
    let mut session = ShellSession::new(&root(), Path::new(env!("CARGO_BIN_EXE_damper")));
    page.blocks
        .iter()
        .filter(|block| block.skip.is_none())
        .try_for_each(|block| session.run(std::slice::from_ref(block), false))
}

#[test]
fn wrong_pages_fail() {
    let fails = |text: &str, with: &str| {
        let problem = said_of(text).expect_err(text);
        assert!(problem.contains(with), "{text}: {problem}");
    };
    fails("```sh\ndamper no-such-command\n```\n", "1: exit status: 2");
    fails("\n```sh\nfalse\ntrue\n```\n", "2: exit status: 1");
    fails("```sh\necho one\n```\n\n```text\ntwo\n```\n", "other output");
    fails("```sh\necho one two three\n```\n\n```text\none ... four\n```\n", "other output");
    fails("```sh,skip-mood\ndamper --version\n```\n", "no such reason");
    fails("```bash\ndamper --version\n```\n", "a block in `bash`");
    fails("```\ndamper --version\n```\n", "a block in ``");
    fails("text\n\n    damper --version\n", "3: an indented command");
    fails("```sh\ndamper --version\n", "never ends");
    fails("<!-- before\nfalse\n-->\n", "1: exit status: 1");
}

#[test]
fn right_pages_pass() {
    let passes = |text: &str| said_of(text).expect(text);
    passes("```sh\ndamper --version\n```\n\n```text\ndamper ...\n```\n");
    passes("```sh\necho a\necho b\necho c\n```\n```text\na\n...\nc\n```\n");
    passes("<!-- before\necho data > file\n-->\n```sh\ncat file\nls onnx-models/digits-mlp.onnx\n```\n");
    passes("```sh,skip-long\nfalse\n```\n\n```text\nno output of what does not run\n```\n");
    passes("```sh\necho one\n```\n\nA picture follows.\n\n```text\n -> two\n```\n");
}

#[test]
fn blocks_hold_their_lines() {
    let text = "1. item\n\n   ```sh\n   one\n     two\n   ```\n";
    let page = Page::parse(text, &[]).unwrap();
    let code = "one\n  two\n".into();
    assert_eq!(page.blocks, [Block { line: 3, code: Code::Shell, text: code, skip: None, output: None }]);
}
