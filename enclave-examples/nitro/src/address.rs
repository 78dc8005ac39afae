//! Addresses of streams: `vsock:CID:PORT` in an enclave, or `unix:PATH` to imitate it.

use std::io::{Read, Result, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use vsock::{VsockListener, VsockStream};

/// An address of a stream.
#[derive(Clone, Debug)]
pub enum StreamAddress {
    /// A port of a context. Context 3 is the enclave's parent, and 4294967295 is any.
    Vsock(u32, u32),
    /// A socket of this machine.
    Unix(PathBuf),
}

impl FromStr for StreamAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(path.into()));
        }
        let numbers = text.strip_prefix("vsock:").and_then(|numbers| numbers.split_once(':'));
        let parsed = numbers.and_then(|(cid, port)| Some(Self::Vsock(cid.parse().ok()?, port.parse().ok()?)));
        parsed.ok_or("an address must be vsock:CID:PORT or unix:PATH")
    }
}

/// Bytes in both directions.
pub trait ByteStream: Read + Write {}

impl<S: Read + Write> ByteStream for S {}

impl StreamAddress {
    /// Waits for one peer.
    ///
    /// # Errors
    ///
    /// The machine has no such address.
    pub fn accept(&self) -> Result<Box<dyn ByteStream>> {
        Ok(match self {
            Self::Vsock(cid, port) => Box::new(VsockListener::bind_with_cid_port(*cid, *port)?.accept()?.0),
            Self::Unix(path) => Box::new(UnixListener::bind(path)?.accept()?.0),
        })
    }

    /// Connects to a waiting peer.
    ///
    /// # Errors
    ///
    /// No peer waits there.
    pub fn connect(&self) -> Result<Box<dyn ByteStream>> {
        Ok(match self {
            Self::Vsock(cid, port) => Box::new(VsockStream::connect_with_cid_port(*cid, *port)?),
            Self::Unix(path) => Box::new(UnixStream::connect(path)?),
        })
    }
}
