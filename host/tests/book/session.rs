//! Folder of a page, and the programs that run in it.

use super::page::{Block, Code};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time limit of a block.
const PATIENCE: Duration = Duration::from_secs(900);

/// Separator between the outputs of two blocks of one Python program.
const CUT: &str = "\u{1}\n";

pub struct ShellSession {
    folder: TempDir,
    path: OsString,
}

impl ShellSession {
    pub fn new(root: &Path, damper: &Path) -> Self {
        let folder = TempDir::new().unwrap();
        let tools = folder.path().join(".tools");
        fs::create_dir(&tools).unwrap();
        symlink(damper, tools.join("damper")).unwrap();
        symlink(root.join("onnx-models"), folder.path().join("onnx-models")).unwrap();
        let mut path = tools.into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        Self { folder, path }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("PATH", &self.path).stdin(Stdio::null());
        command
    }

    /// Runs blocks of one language as one program, and compares its output with the page.
    ///
    /// # Errors
    ///
    /// The first block's line, and the problem.
    pub fn run(&mut self, blocks: &[Block], aloud: bool) -> Result<(), String> {
        let line = blocks[0].line;
        let mut command = match blocks[0].code {
            Code::Shell => {
                let mut command = self.command("sh");
                command.args(["-eu", "-c", &blocks[0].text]);
                command
            }
            Code::Python => {
                let cut = format!("\nprint({:?}, end='')\n", CUT).replace("\\u{1}", "\\x01");
                let program: Vec<_> = blocks.iter().map(|block| block.text.as_str()).collect();
                fs::write(self.folder.path().join(".page.py"), program.join(&cut)).unwrap();
                let mut command = self.command("python3");
                command.arg(".page.py");
                command
            }
        };
        let (status, said, errors) = self.finish(&mut command);
        if aloud {
            println!("{errors}{said}");
        }
        if status != "exit status: 0" {
            return Err(format!("{line}: {status}\n{}\n{errors}{said}", blocks[0].text));
        }
        for (block, said) in blocks.iter().zip(said.split(CUT)) {
            if let Some(output) = block.output.as_deref().filter(|output| !matches(output, said)) {
                return Err(format!("{}: other output\n--- the page\n{output}--- the command\n{said}", block.line));
            }
        }
        Ok(())
    }

    /// Waits for a program, with a time limit. Returns status, standard output and standard error.
    fn finish(&self, command: &mut Command) -> (String, String, String) {
        let file = |name| self.folder.path().join(name);
        let open = |path: PathBuf| File::create(path).unwrap();
        let mut child = command.stdout(open(file(".out"))).stderr(open(file(".err"))).spawn().unwrap();
        let start = Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status.to_string(),
                None if start.elapsed() > PATIENCE => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    break format!("not done after {} s", PATIENCE.as_secs());
                }
                None => thread::sleep(Duration::from_millis(20)),
            }
        };
        let read = |name| String::from_utf8_lossy(&fs::read(file(name)).unwrap()).into_owned();
        (status, read(".out"), read(".err"))
    }
}

pub fn python_has_damper() -> bool {
    let mut probe = Command::new("python3");
    probe.args(["-c", "import damper, torch"]);
    probe.output().is_ok_and(|output| output.status.success())
}

/// Returns true if `said` matches `pattern`, in which `...` stands for any text. Spaces at the ends of lines are
/// ignored.
fn matches(pattern: &str, said: &str) -> bool {
    let tidy = |text: &str| text.trim_end().lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    let (pattern, said) = (tidy(pattern), tidy(said));
    let mut pieces = pattern.split("...");
    let Some(mut rest) = said.strip_prefix(pieces.next().unwrap()) else { return false };
    let mut pieces: Vec<_> = pieces.collect();
    let Some(end) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(end)
}
