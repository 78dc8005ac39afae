//! The parent, which an enclave must not trust, and the platform, which it can. The parent has the enclave train over
//! restarts, and its output must be that of every board. Then it withholds, changes and replays the blobs that it
//! stores.

use damper_core::numerics::digest::Digest;
use damper_enclave_nitro::{Ask, ByteStream, LONGEST, ParentCall, Say, StreamAddress, receive, send};
use damper_enclave_run::EnclaveStatus;
use damper_firmware_program::line::ReportLine;
use damper_firmware_program::softmax::DIM;
use damper_firmware_program::{digits, train};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The trusted platform: a key service that has verified the attestation, and a counter that only increases.
#[derive(Clone)]
struct Machine {
    count: Arc<Mutex<u64>>,
    key: [u8; 32],
}

impl Machine {
    fn new(key: u8) -> Self {
        Self { count: Arc::default(), key: [key; 32] }
    }

    /// Returns the same platform with another count: a counter that was rolled back.
    fn at(&self, count: u64) -> Self {
        Self { count: Arc::new(Mutex::new(count)), key: self.key }
    }

    fn serve(&self, mut stream: Box<dyn ByteStream>) {
        while let Ok(Some(frame)) = receive(&mut *stream) {
            let mut count = self.count.lock().unwrap();
            *count += u64::from(frame == [Ask::Increment as u8]);
            let sent = if frame == [Ask::SealingKey as u8] {
                send(&mut *stream, &[&self.key])
            } else {
                send(&mut *stream, &[&count.to_le_bytes()])
            };
            // The enclave may end at any time.
            let Ok(()) = sent else { return };
        }
    }
}

/// The untrusted store: every blob that the parent ever received.
#[derive(Default)]
struct Shelf {
    ledgers: Vec<Vec<u8>>,
    states: Vec<Vec<u8>>,
}

/// A fresh instance, whose process ends with this value.
struct Instance {
    process: Child,
    stream: Box<dyn ByteStream>,
    /// The ledger that the parent returns.
    ledger: Option<Vec<u8>>,
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits at the platform's address in a thread, and starts the enclave with both.
fn instance(machine: &Machine, parent: &str, platform: &str) -> Instance {
    let (machine, address): (_, StreamAddress) = (machine.clone(), platform.parse().unwrap());
    thread::spawn(move || machine.serve(address.accept().unwrap()));
    let program = env!("CARGO_BIN_EXE_damper-enclave-nitro");
    let at: StreamAddress = parent.parse().unwrap();
    // The enclave ends if the platform does not wait at its address yet.
    for _ in 0..500 {
        let mut process = Command::new(program).args([parent, platform]).stderr(Stdio::null()).spawn().unwrap();
        for _ in 0..500 {
            if let Ok(stream) = at.connect() {
                return Instance { process, stream, ledger: None };
            }
            if process.try_wait().unwrap().is_some() {
                break;
            }
            thread::sleep(Duration::from_millis(2));
        }
        let _ = process.kill();
        let _ = process.wait();
    }
    panic!("{program} does not answer at {parent}");
}

fn start(machine: &Machine, ledger: Option<&Vec<u8>>) -> Instance {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("damper-nitro-{}-{number}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let at = |name: &str| format!("unix:{}", folder.join(name).display());
    let mut instance = instance(machine, &at("parent"), &at("platform"));
    instance.ledger = ledger.cloned();
    // Both streams are open, so the names are not needed any more.
    std::fs::remove_dir_all(&folder).unwrap();
    instance
}

impl Instance {
    /// Makes a call, during which the enclave may ask for the shelf.
    fn call(&mut self, shelf: &mut Shelf, call: ParentCall, bytes: &[u8]) -> Result<Vec<u8>, u8> {
        send(&mut *self.stream, &[&[call as u8], bytes]).unwrap();
        loop {
            let frame = receive(&mut *self.stream).unwrap().expect("the enclave answers");
            let (say, rest) = frame.split_first().unwrap();
            match *say {
                said if said == Say::Done as u8 => {
                    let (status, bytes) = rest.split_first().unwrap();
                    return if *status == EnclaveStatus::Ok as u8 { Ok(bytes.to_vec()) } else { Err(*status) };
                }
                said if said == Say::PutLedger as u8 => {
                    shelf.ledgers.push(rest.to_vec());
                    self.ledger = Some(rest.to_vec());
                    send(&mut *self.stream, &[&[1]]).unwrap();
                }
                _ => send(&mut *self.stream, &[self.ledger.as_deref().unwrap_or_default()]).unwrap(),
            }
        }
    }

    fn seal(&mut self, shelf: &mut Shelf) {
        let state = self.call(shelf, ParentCall::Seal, &[]).unwrap();
        shelf.states.push(state);
    }

    /// Returns the steps charged, and the correctly classified held-out digits.
    fn report(&mut self, shelf: &mut Shelf) -> (u32, u32) {
        let bytes = self.call(shelf, ParentCall::Report, &[]).unwrap();
        let [charged, right] = [0, 4].map(|at| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()));
        (charged, right)
    }
}

fn changed(blob: &[u8]) -> Vec<u8> {
    let mut blob = blob.to_vec();
    blob[7] ^= 1;
    blob
}

/// Trains with a restart after every seven steps. Returns its output, and the blobs that the parent stores.
fn trained(machine: &Machine) -> (String, Shelf) {
    let mut shelf = Shelf::default();
    let mut enclave = start(machine, None);
    enclave.call(&mut shelf, ParentCall::Provision, &[]).unwrap();
    enclave.seal(&mut shelf);
    let mut said = Ok(Vec::new());
    let mut restarts = 0;
    while said.is_ok() {
        let (newest, ledger) = (shelf.states.last().unwrap().clone(), shelf.ledgers.last().cloned());
        enclave = start(machine, ledger.as_ref());
        restarts += 1;
        enclave.call(&mut shelf, ParentCall::Resume, &newest).unwrap();
        for _ in 0..7 {
            said = enclave.call(&mut shelf, ParentCall::Step, &[]);
            if said.is_err() {
                break;
            }
            enclave.seal(&mut shelf);
        }
    }
    assert_eq!((said, restarts), (Err(EnclaveStatus::BudgetSpent as u8), 6));
    let (steps, right) = enclave.report(&mut shelf);
    let params = enclave.call(&mut shelf, ParentCall::Params, &[]).unwrap();
    let params: Vec<f32> = params.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
    let lines = [
        ReportLine::Start {
            model: "softmax",
            method: "dp-sgd",
            dim: DIM as u32,
            samples: digits::TRAIN,
            private: false,
        },
        ReportLine::BudgetSpent { steps },
        ReportLine::HeldOut { right, samples: digits::held_out().count() as u32 },
        ReportLine::Params(Digest::of(&params).value()),
    ];
    (lines.map(|line| format!("{line}\n")).concat(), shelf)
}

#[test]
fn trains_and_refuses_an_untrusted_parent() {
    let machine = Machine::new(7);
    let (said, mut shelf) = trained(&machine);
    assert_eq!(said, include_str!("../../../firmware-examples/expected/train.txt"));

    let (newest, ledger) = (shelf.states.last().unwrap().clone(), shelf.ledgers.last().cloned());
    let (old, ledgers) = (shelf.states[20].clone(), shelf.ledgers.clone());
    let mut refuses = |what: &str,
                       why: EnclaveStatus,
                       machine: &Machine,
                       ledger: Option<&Vec<u8>>,
                       call: ParentCall,
                       bytes: &[u8]| {
        let answer = start(machine, ledger).call(&mut shelf, call, bytes);
        assert_eq!(answer, Err(why as u8), "{what}");
    };
    let some = ledger.as_ref();
    refuses("an older state", EnclaveStatus::Stale, &machine, some, ParentCall::Resume, &old);
    refuses("a changed state", EnclaveStatus::NotAuthentic, &machine, some, ParentCall::Resume, &changed(&newest));
    refuses("a state that was cut", EnclaveStatus::NotAuthentic, &machine, some, ParentCall::Resume, &newest[1..]);
    let spoilt = changed(some.unwrap());
    refuses("a changed ledger", EnclaveStatus::NotAuthentic, &machine, Some(&spoilt), ParentCall::Resume, &newest);
    refuses("no ledger", EnclaveStatus::Ledger, &machine, None, ParentCall::Resume, &newest);
    refuses("a second provisioning", EnclaveStatus::Ledger, &machine, some, ParentCall::Provision, &[]);
    refuses("a step without a run", EnclaveStatus::Refused, &machine, some, ParentCall::Step, &[]);
    let other = Machine { count: machine.count.clone(), key: [8; 32] };
    refuses("another machine", EnclaveStatus::NotAuthentic, &other, some, ParentCall::Resume, &newest);
    refuses("a counter that was put back", EnclaveStatus::Counter, &machine.at(3), some, ParentCall::Resume, &newest);
    for ledger in &ledgers {
        let mut enclave = start(&machine, Some(ledger));
        enclave.call(&mut shelf, ParentCall::ResumeOlder, &old).unwrap();
        assert_eq!(enclave.report(&mut shelf).0, train::BUDGET);
        assert_eq!(enclave.call(&mut shelf, ParentCall::Step, &[]), Err(EnclaveStatus::BudgetSpent as u8));
    }
}

// A crash between charge and release burns the step, and of two instances one is closed.
#[test]
fn crash_burns_the_step_and_twins_are_closed() {
    let (machine, mut shelf) = (Machine::new(7), Shelf::default());
    let mut enclave = start(&machine, None);
    enclave.call(&mut shelf, ParentCall::Provision, &[]).unwrap();
    for _ in 0..10 {
        enclave.call(&mut shelf, ParentCall::Step, &[]).unwrap();
    }
    enclave.seal(&mut shelf);
    enclave.call(&mut shelf, ParentCall::Step, &[]).unwrap();
    let (state, ledger) = (shelf.states[0].clone(), shelf.ledgers.last().cloned());
    let mut twin = start(&machine, ledger.as_ref());
    assert_eq!(twin.call(&mut shelf, ParentCall::Resume, &state), Err(EnclaveStatus::Stale as u8));
    twin.call(&mut shelf, ParentCall::ResumeOlder, &state).unwrap();
    assert_eq!(twin.report(&mut shelf).0, 11);
    twin.call(&mut shelf, ParentCall::Step, &[]).unwrap();
    assert_eq!(enclave.call(&mut shelf, ParentCall::Step, &[]), Err(EnclaveStatus::Counter as u8));
}

// A frame that is too long ends the stream and is not read.
#[test]
fn long_frames_are_not_read() {
    let mut enclave = start(&Machine::new(7), None);
    let len = u32::try_from(LONGEST + 1).unwrap().to_le_bytes();
    std::io::Write::write_all(&mut enclave.stream, &len).unwrap();
    assert!(matches!(receive(&mut *enclave.stream), Ok(None) | Err(_)));
    assert_eq!(enclave.process.wait().unwrap().code(), Some(1));
}

// The same frames over AF_VSOCK, if the machine has its loopback.
#[test]
fn vsock_carries_the_same_frames() {
    let (parent, platform) = ("vsock:1:5000", "vsock:1:5001");
    if let Err(error) = vsock::VsockListener::bind_with_cid_port(1, 5002) {
        println!("skipped: frames over vsock, because this machine has no loopback of it: {error}");
        return;
    }
    let (mut shelf, mut enclave) = (Shelf::default(), instance(&Machine::new(7), parent, platform));
    enclave.call(&mut shelf, ParentCall::Provision, &[]).unwrap();
    enclave.call(&mut shelf, ParentCall::Step, &[]).unwrap();
    assert_eq!(enclave.report(&mut shelf).0, 1);
}
