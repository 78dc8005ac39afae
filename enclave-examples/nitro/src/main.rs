//! Private training in a Nitro enclave: `damper-enclave-nitro PARENT PLATFORM`. It waits for its parent at one address,
//! connects to the platform at the other, and answers until the parent ends the stream. It keeps one run in memory for
//! one parent.
//!
//! In an enclave: `vsock:4294967295:5000 vsock:3:5001`. `../../docs/enclaves.md` lists the simulated parts.

use damper_enclave_nitro::{Ask, ByteStream, ParentCall, Say, StreamAddress, receive, send};
use damper_enclave_run::{Enclave, EnclaveStatus, Platform, Refused, SEALED_LEDGER, SEALED_STATE};
use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;

struct Streams {
    parent: Box<dyn ByteStream>,
    platform: Box<dyn ByteStream>,
}

/// Streams to the parent and to the platform.
#[derive(Clone)]
struct Outside(Rc<RefCell<Streams>>);

/// Sends a frame and receives the answer to it.
fn ask(stream: &mut dyn ByteStream, parts: &[&[u8]]) -> Result<Vec<u8>, Refused> {
    send(stream, parts).map_err(|_| Refused)?;
    receive(stream).ok().flatten().ok_or(Refused)
}

impl Outside {
    fn platform<const N: usize>(&self, what: Ask) -> Result<[u8; N], Refused> {
        ask(&mut *self.0.borrow_mut().platform, &[&[what as u8]])?.try_into().map_err(|_| Refused)
    }

    fn parent(&self, what: Say, bytes: &[u8]) -> Result<Vec<u8>, Refused> {
        ask(&mut *self.0.borrow_mut().parent, &[&[what as u8], bytes])
    }
}

impl Platform for Outside {
    fn count(&mut self) -> Result<u64, Refused> {
        self.platform(Ask::Count).map(u64::from_le_bytes)
    }

    fn increment(&mut self) -> Result<u64, Refused> {
        self.platform(Ask::Increment).map(u64::from_le_bytes)
    }

    fn sealing_key(&mut self) -> Result<[u8; 32], Refused> {
        self.platform(Ask::SealingKey)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Refused> {
        getrandom::fill(bytes).map_err(|_| Refused)
    }

    fn put_ledger(&mut self, sealed: &[u8; SEALED_LEDGER]) -> Result<(), Refused> {
        if self.parent(Say::PutLedger, sealed)? == [1] { Ok(()) } else { Err(Refused) }
    }

    fn get_ledger(&mut self) -> Result<Option<[u8; SEALED_LEDGER]>, Refused> {
        let sealed = self.parent(Say::GetLedger, &[])?;
        if sealed.is_empty() { Ok(None) } else { sealed.try_into().map(Some).map_err(|_| Refused) }
    }
}

/// Answers a frame of the parent's. All output is released or sealed.
fn answer(run: &mut Option<Enclave<Outside>>, outside: &Outside, frame: &[u8]) -> Result<Vec<u8>, EnclaveStatus> {
    let (call, rest) = frame.split_first().ok_or(EnclaveStatus::Refused)?;
    let calls = [
        ParentCall::Provision,
        ParentCall::Resume,
        ParentCall::ResumeOlder,
        ParentCall::Step,
        ParentCall::Seal,
        ParentCall::Params,
        ParentCall::Report,
    ];
    let call = calls.into_iter().find(|known| *known as u8 == *call).ok_or(EnclaveStatus::Refused)?;
    if matches!(call, ParentCall::Provision | ParentCall::Resume | ParentCall::ResumeOlder) {
        *run = None;
        *run = Some(if call == ParentCall::Provision {
            Enclave::provision(outside.clone())?
        } else {
            let mut state: [u8; SEALED_STATE] = rest.try_into().map_err(|_| EnclaveStatus::NotAuthentic)?;
            Enclave::resume(outside.clone(), &mut state, call == ParentCall::ResumeOlder)?
        });
        return Ok(Vec::new());
    }
    let run = run.as_mut().ok_or(EnclaveStatus::Refused)?;
    Ok(match call {
        ParentCall::Step => {
            run.step()?;
            Vec::new()
        }
        ParentCall::Seal => {
            let mut state = [0; SEALED_STATE];
            run.seal(&mut state)?;
            state.to_vec()
        }
        ParentCall::Params => run.params().iter().flat_map(|param| param.to_le_bytes()).collect(),
        _ => [run.paid(), run.held_out_right()].iter().flat_map(|number| number.to_le_bytes()).collect(),
    })
}

fn serve(parent: &str, platform: &str) -> Result<(), Box<dyn std::error::Error>> {
    let (parent, platform): (StreamAddress, StreamAddress) = (parent.parse()?, platform.parse()?);
    let platform = platform.connect()?;
    let outside = Outside(Rc::new(RefCell::new(Streams { parent: parent.accept()?, platform })));
    let mut run = None;
    loop {
        let Some(frame) = receive(&mut *outside.0.borrow_mut().parent)? else { return Ok(()) };
        let (status, bytes) = match answer(&mut run, &outside, &frame) {
            Ok(bytes) => (EnclaveStatus::Ok, bytes),
            Err(status) => (status, Vec::new()),
        };
        send(&mut *outside.0.borrow_mut().parent, &[&[Say::Done as u8, status as u8], &bytes])?;
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [parent, platform] = &words[..] else {
        eprintln!("usage: damper-enclave-nitro PARENT PLATFORM; each is vsock:CID:PORT or unix:PATH");
        return ExitCode::from(2);
    };
    match serve(parent, platform) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
