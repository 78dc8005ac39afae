//! Ctrl-C and SIGTERM: the first ends the run after its step, the second ends the process.

use crate::cli::Failure;
use crate::cli::session::caller;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of requests to stop the process.
pub(in crate::cli) struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// Starts listening. An embedding program handles signals itself, and requests a stop through its listener.
    pub(in crate::cli) fn listen() -> Result<Self, Failure> {
        if caller::is_active() {
            return Ok(Self(Arc::default()));
        }
        let number = Arc::new(AtomicUsize::new(0));
        #[cfg(not(target_family = "wasm"))]
        register(&number)?;
        Ok(Self(number))
    }

    /// Returns the exit code of a process that received a signal: 128 plus the signal's number, as in shells.
    pub(in crate::cli) fn code(&self) -> Option<u8> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(code(signal)),
        }
    }
}

/// WebAssembly has no signals. Its host ends the program.
#[cfg(not(target_family = "wasm"))]
fn register(number: &Arc<AtomicUsize>) -> Result<(), Failure> {
    use signal_hook::{consts, flag};

    let seen = Arc::new(std::sync::atomic::AtomicBool::new(false));
    for signal in [consts::SIGINT, consts::SIGTERM] {
        flag::register_conditional_shutdown(signal, code(signal as usize).into(), seen.clone())?;
        flag::register(signal, seen.clone())?;
        flag::register_usize(signal, number.clone(), signal as usize)?;
    }
    Ok(())
}

fn code(signal: usize) -> u8 {
    u8::try_from(128 + signal).unwrap_or(1)
}
