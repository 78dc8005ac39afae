//! Aggregators, gateways and collectors as processes, with certificates from the README's commands.

use crate::federation::Federation;
use damper_federation::{Asked, Envelope};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

const COMMAND: &str = env!("CARGO_BIN_EXE_damper-prio");

/// Returns the first commands of the README after the heading `heading`.
fn commands_of(heading: &str) -> String {
    let readme = include_str!("../../README.md");
    let (_, section) = readme.split_once(heading).unwrap();
    let (_, rest) = section.split_once("```sh\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

/// Creates an authority and the parties' certificates in `folder`.
pub fn make_certificates(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let script = commands_of("## Make certificates");
    let made = Command::new("sh").args(["-e", "-c", &script]).current_dir(folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Creates a certificate with these subject alternative names.
pub fn make_certificate(folder: &Path, file: &str, names: &str) {
    let script = format!(
        "openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={file} -keyout {file}.key -out {file}.csr && \
         printf 'subjectAltName={names}\\n' >{file}.ext && \
         openssl x509 -req -in {file}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile {file}.ext -out {file}.crt"
    );
    let made = Command::new("sh").args(["-e", "-c", &script]).current_dir(folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// A running aggregator. A drop kills it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Files of a federation, and its two aggregators.
pub struct Machines {
    pub folder: PathBuf,
    pub of: Federation,
    /// Addresses of the leader and the helper, which stay the same over restarts.
    pub addresses: [String; 2],
    running: Mutex<[Option<Running>; 2]>,
    /// Additional flags of the two.
    pub more: [Vec<String>; 2],
}

const ROLES: [&str; 2] = ["leader", "helper"];
pub const LEADER: usize = 0;
pub const HELPER: usize = 1;

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

impl Machines {
    pub fn new(folder: &Path, of: Federation) -> Self {
        make_certificates(&folder.join("certificates"));
        fs::write(folder.join("plan.json"), of.plan.to_json()).unwrap();
        let words: Vec<u8> = [0.5f32; crate::support::DIM].iter().flat_map(|word| word.to_le_bytes()).collect();
        fs::write(folder.join("params"), words).unwrap();
        let addresses = [(); 2].map(|()| {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().to_string()
        });
        let this =
            Self { folder: folder.into(), of, addresses, running: Mutex::new([None, None]), more: [vec![], vec![]] };
        this.restart(HELPER);
        this.restart(LEADER);
        this
    }

    /// Returns the flags for a certificate.
    pub fn tls(&self, folder: &str, party: &str) -> Vec<String> {
        let at = |name: String| self.folder.join(folder).join(name).display().to_string();
        let ca = self.folder.join("certificates/ca.crt").display().to_string();
        ["--ca".into(), ca, "--cert".into(), at(format!("{party}.crt")), "--key".into(), at(format!("{party}.key"))]
            .into()
    }

    /// Runs the command with only these arguments.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments, &[]).output().unwrap()
    }

    fn command(&self, arguments: &[&str], tls: &[String]) -> Command {
        let mut command = Command::new(COMMAND);
        command.args(arguments).args(tls).current_dir(&self.folder);
        command
    }

    /// Starts an aggregator. The error is its output if it does not start.
    fn start(&self, role: usize) -> Result<Running, String> {
        let name = ROLES[role];
        let listen = &self.addresses[role];
        let mut arguments =
            vec!["aggregator", "--role", name, "--plan", "plan.json", "--listen", listen, "--folder", name];
        if role == LEADER {
            arguments.extend(["--peer", &self.addresses[HELPER]]);
        }
        arguments.extend(self.more[role].iter().map(String::as_str));
        let file = self.folder.join(format!("{name}.log"));
        let log = fs::File::options().create(true).append(true).open(&file).unwrap();
        let mut command = self.command(&arguments, &self.tls("certificates", name));
        let mut child = Running(command.stdout(Stdio::piped()).stderr(log).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.contains("listens on") { Ok(child) } else { Err(fs::read_to_string(&file).unwrap()) }
    }

    /// Kills an aggregator, if it runs.
    pub fn kill(&self, role: usize) {
        self.running.lock().unwrap()[role] = None;
    }

    /// Restarts an aggregator by a kill.
    pub fn restart(&self, role: usize) {
        let mut running = self.running.lock().unwrap();
        running[role] = None;
        // Another process may have the port for a moment.
        for _ in 0..50 {
            match self.start(role) {
                Ok(started) => {
                    running[role] = Some(started);
                    return;
                }
                Err(log) if log.contains("in use") => thread::sleep(Duration::from_millis(100)),
                Err(log) => panic!("{log}"),
            }
        }
        panic!("{}: its port is taken", self.addresses[role]);
    }

    /// Uploads the update of a device by a gateway that is killed after `wait`.
    pub fn upload_killed(&self, device: u64, round: u32, wait: Duration) {
        let mut command = self.upload_command(device, round, &self.tls("certificates", "gateway"), &[]);
        let child = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        thread::sleep(wait);
        drop(child);
    }

    fn with_servers(&self, mut arguments: Vec<String>, round: u32, tls: &[String]) -> Command {
        arguments.extend(["--plan", "plan.json", "--round", &round.to_string()].map(String::from));
        if round > 0 {
            arguments.extend(["--params", "params"].map(String::from));
        }
        arguments.extend(["--leader", &self.addresses[0], "--helper", &self.addresses[1]].map(String::from));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.command(&arguments, tls)
    }

    /// Uploads the update of a device, by its gateway.
    pub fn upload(&self, device: u64, round: u32) -> Output {
        self.upload_as(device, round, &self.tls("certificates", "gateway"), &[])
    }

    pub fn upload_as(&self, device: u64, round: u32, tls: &[String], more: &[&str]) -> Output {
        self.upload_command(device, round, tls, more).output().unwrap()
    }

    fn upload_command(&self, device: u64, round: u32, tls: &[String], more: &[&str]) -> Command {
        let file = self.folder.join(format!("{device}.upd"));
        let update = self.of.update(device, round);
        // The device signs its update itself, as the command does.
        let signed = Envelope::seal(
            &Asked::new(&self.of.plan, round, self.of.request(round)),
            device,
            &update,
            self.of.key(device),
        );
        fs::write(&file, if device == 1 { signed } else { update }).unwrap();
        let (folder, key) = (format!("gateway-{device}"), format!("member-{device}.key"));
        let update = format!("{device}.upd");
        let mut arguments = vec!["upload", "--update", &update, "--key-of-member", &key, "--folder", &folder];
        arguments.extend(more);
        self.with_servers(arguments.into_iter().map(String::from).collect(), round, tls)
    }

    /// Collects a round. Returns the sum if it exists.
    pub fn collect(&self, round: u32) -> Result<Vec<u8>, String> {
        self.collect_as(round, &self.tls("certificates", "collector"), "a.sum")
    }

    pub fn collect_as(&self, round: u32, tls: &[String], out: &str) -> Result<Vec<u8>, String> {
        let file = self.folder.join(out);
        let _ = fs::remove_file(&file);
        let arguments = ["collect", "--wait", "60", "--out", out].map(String::from);
        let output = self.with_servers(arguments.into(), round, tls).output().unwrap();
        assert_eq!(output.status.success(), file.exists());
        if output.status.success() { Ok(fs::read(file).unwrap()) } else { Err(text(&output)) }
    }
}
