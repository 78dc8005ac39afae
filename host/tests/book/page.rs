//! Blocks of a Markdown page.

use std::iter::Peekable;
use std::str::Lines;

/// Languages of blocks that show a file or a program, and are not commands.
const SHOWN: [&str; 9] = ["c", "csv", "diff", "json", "rust", "text", "toml", "tsv", "yaml"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Shell,
    Python,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Line of the fence, from 1.
    pub line: usize,
    pub code: Code,
    pub text: String,
    /// Reason why it does not run.
    pub skip: Option<String>,
    /// Expected output.
    pub output: Option<String>,
}

#[derive(Debug)]
pub struct Page {
    pub blocks: Vec<Block>,
}

/// Returns the number of blocks at the start that are Python and run.
pub fn leading_python(blocks: &[Block]) -> usize {
    blocks.iter().take_while(|block| block.code == Code::Python && block.skip.is_none()).count()
}

impl Page {
    /// Parses the blocks of `text`. Only `reasons` are valid for skipping a block.
    ///
    /// # Errors
    ///
    /// A line, and the problem there.
    pub fn parse(text: &str, reasons: &[&str]) -> Result<Self, String> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut lines = text.lines().enumerate().peekable();
        // Index of the block whose output may follow.
        let mut last = None;
        let mut after_blank = true;
        while let Some((at, line)) = lines.next() {
            let number = at + 1;
            if line.trim() == "<!-- before" {
                let text = until(&mut lines, 0, |line| line.trim() == "-->").ok_or(format!("{number}: never ends"))?;
                blocks.push(Block { line: number, code: Code::Shell, text, skip: None, output: None });
                last = None;
            } else if let Some(info) = line.trim_start().strip_prefix("```") {
                let indent = line.len() - line.trim_start().len();
                let text =
                    until(&mut lines, indent, |line| line.trim() == "```").ok_or(format!("{number}: never ends"))?;
                let mut words = info.split(',').map(str::trim);
                let language = words.next().unwrap_or_default();
                let skip = words.find_map(|word| word.strip_prefix("skip-")).map(str::to_owned);
                if let Some(reason) = skip.as_deref().filter(|reason| !reasons.contains(reason)) {
                    return Err(format!("{number}: no such reason to skip a block: {reason}"));
                }
                let code = match language {
                    "sh" => Code::Shell,
                    "python" => Code::Python,
                    "text" => {
                        if let Some(block) = last.take() {
                            let block: &mut Block = &mut blocks[block];
                            block.output = Some(text);
                        }
                        continue;
                    }
                    _ if SHOWN.contains(&language) => {
                        last = None;
                        continue;
                    }
                    _ => return Err(format!("{number}: a block in `{language}`: neither `sh` nor one that is shown")),
                };
                last = Some(blocks.len());
                blocks.push(Block { line: number, code, text, skip, output: None });
            } else if !line.trim().is_empty() {
                last = None;
                if after_blank && line.starts_with("    ") && line.trim_start().starts_with("damper ") {
                    return Err(format!("{number}: an indented command: give it a fence"));
                }
            }
            after_blank = line.trim().is_empty();
        }
        Ok(Self { blocks })
    }
}

/// Returns the lines before the line that `ends`, each without `indent` spaces.
fn until(
    lines: &mut Peekable<std::iter::Enumerate<Lines<'_>>>,
    indent: usize,
    ends: impl Fn(&str) -> bool,
) -> Option<String> {
    let mut text = String::new();
    for (_, line) in lines {
        if ends(line) {
            return Some(text);
        }
        let spaces = line.len() - line.trim_start().len();
        text.push_str(&line[indent.min(spaces)..]);
        text.push('\n');
    }
    None
}
