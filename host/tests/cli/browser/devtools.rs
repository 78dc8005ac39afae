//! A headless Chromium over the pipe of its DevTools protocol, which needs neither a port nor a socket.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Names of the program: Debian's, and those of other packages.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// Descriptors 3 and 4 are the protocol's. The browser writes other text to the standard output.
const PIPED: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null";
/// Longest wait for a message.
const WAIT: Duration = Duration::from_secs(60);

/// A running browser with one page.
pub(super) struct Browser {
    process: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: Option<String>,
    last: u64,
    _profile: TempDir,
}

/// Returns the installed program, if there is one.
pub(super) fn program() -> Option<&'static str> {
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    PROGRAMS.into_iter().find(runs)
}

impl Browser {
    /// Starts `program` with an empty page.
    pub(super) fn start(program: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args([
            "-c",
            PIPED,
            program,
            "--headless",
            "--remote-debugging-pipe",
            "--hide-scrollbars",
            "--disable-gpu",
        ]);
        // A container has no name spaces for the sandbox. The only pages are our own.
        command.args(["--no-sandbox", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions"]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("there is a shell");
        let to = process.stdin.take().unwrap();
        let mut messages = BufReader::new(process.stdout.take().unwrap());
        let (sender, from) = channel();
        thread::spawn(move || {
            let mut message = vec![];
            // A message ends with a zero byte.
            while messages.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let value = serde_json::from_slice(&message).expect("a message is JSON");
                message.clear();
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self { process, to, from, session: None, last: 0, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = Some(attached["sessionId"].as_str().unwrap().into());
        browser.call("Page.enable", json!({}));
        browser
    }

    fn next(&self) -> Value {
        self.from.recv_timeout(WAIT).expect("the browser answers within a minute")
    }

    /// Calls a method of the protocol, and returns its result.
    pub(super) fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        self.session.iter().for_each(|session| message["sessionId"] = json!(session));
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        loop {
            let mut answer = self.next();
            if answer["id"] == self.last {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].take();
            }
        }
    }

    /// Opens a file at a width and height in CSS pixels, in the colour scheme `light` or `dark`.
    pub(super) fn open(&mut self, file: &Path, (width, height): (u32, u32), scheme: &str) {
        let device = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", device);
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"media": "", "features": features}));
        self.call("Page.navigate", json!({"url": format!("file://{}", file.display())}));
        while self.evaluate("document.readyState") != "complete" || self.evaluate("location.protocol") != "file:" {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the value of an expression of JavaScript on the page.
    pub(super) fn evaluate(&mut self, expression: &str) -> Value {
        let mut answer = self
            .call("Runtime.evaluate", json!({"expression": expression, "returnByValue": true, "awaitPromise": true}));
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Returns the first screen as a PNG.
    pub(super) fn screenshot(&mut self) -> Vec<u8> {
        decoded(self.call("Page.captureScreenshot", json!({"format": "png"}))["data"].as_str().unwrap())
    }

    /// Returns the printed page as a PDF, on A4.
    pub(super) fn print(&mut self) -> Vec<u8> {
        let paper = json!({"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": false});
        decoded(self.call("Page.printToPDF", paper)["data"].as_str().unwrap())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Decodes Base64.
fn decoded(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = vec![];
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = four.iter().fold(0, |bits: u32, byte| bits << 6 | u32::from(value(*byte)));
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}

#[test]
fn base64_is_decoded() {
    for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")] {
        assert_eq!(decoded(text), bytes.as_bytes(), "{text}");
    }
    assert_eq!(decoded("+/8A"), [0xfb, 0xff, 0]);
}
