//! Messages over TLS: four bytes of length, little-endian, then a message of [`AggregatorRequest`] or [`Answer`]. Each
//! wait has a limit.

use crate::leader::Helper;
use crate::message::{AggregatorRequest, Answer};
use crate::party::Sizes;
use crate::tls::{Fingerprint, peer, server_name};
use crate::{Party, Refusal};
use rustls::{ClientConfig, ClientConnection, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A socket with a deadline for reads and writes.
pub(crate) struct Timed {
    socket: TcpStream,
    until: Instant,
}

impl Timed {
    pub(crate) fn new(socket: TcpStream, wait: Duration) -> Self {
        Self { socket, until: Instant::now() + wait }
    }

    /// Ends sending, and reads at most `most` bytes until the other side closes, within `wait`.
    pub(crate) fn drain(&mut self, most: u64, wait: Duration) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)?;
        self.until = Instant::now() + wait;
        io::copy(&mut self.take(most), &mut io::sink()).map(|_| ())
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left < Duration::from_millis(1) { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

/// Converts a timeout of the operating system to the common error.
fn timed<T>(result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    })
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        timed(self.socket.read(buffer))
    }
}

impl Write for Timed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        timed(self.socket.write(buffer))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// A TLS stream with deadlines.
pub(crate) trait Channel: Read + Write {
    /// Sets the deadline of reads and writes to `wait` from now.
    fn within(&mut self, wait: Duration);
}

impl Channel for StreamOwned<ServerConnection, Timed> {
    fn within(&mut self, wait: Duration) {
        self.sock.until = Instant::now() + wait;
    }
}

impl Channel for StreamOwned<ClientConnection, Timed> {
    fn within(&mut self, wait: Duration) {
        self.sock.until = Instant::now() + wait;
    }
}

/// Returns the time limit for a message of `len` bytes: 32 KiB per second, plus half a minute.
fn time_of(len: usize) -> Duration {
    Duration::from_secs(30 + (len as u64 >> 15))
}

/// Reads a message of at most `most` bytes, which starts within `wait`. Returns `None` at the end of the stream.
pub(crate) fn read(channel: &mut impl Channel, most: usize, wait: Duration) -> io::Result<Option<Vec<u8>>> {
    channel.within(wait);
    let mut len = [0; 4];
    if channel.read(&mut len[..1])? == 0 {
        return Ok(None);
    }
    channel.within(time_of(0));
    channel.read_exact(&mut len[1..])?;
    let len = u32::from_le_bytes(len) as usize;
    if len > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message that is too long"));
    }
    channel.within(time_of(len));
    // Memory grows with the received bytes.
    let mut bytes = vec![];
    channel.take(len as u64).read_to_end(&mut bytes)?;
    if bytes.len() == len { Ok(Some(bytes)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Writes a message.
pub(crate) fn write(channel: &mut impl Channel, bytes: &[u8]) -> io::Result<()> {
    channel.within(time_of(bytes.len()));
    let len = u32::try_from(bytes.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    channel.write_all(&len.to_le_bytes())?;
    channel.write_all(bytes)?;
    channel.flush()
}

/// Address of an aggregator, and its expected certificate.
pub struct AggregatorAddress {
    /// Host and port.
    pub address: String,
    /// Party that the certificate must name.
    pub party: Party,
    /// SHA-256 of its certificate, if only that certificate is accepted.
    pub fingerprint: Option<Fingerprint>,
    /// Certificate of this party, and the authority.
    pub config: Arc<ClientConfig>,
}

/// Limits on an answer.
#[derive(Clone, Copy)]
pub struct Patience {
    /// Maximum length of an answer, in bytes.
    pub most: usize,
    /// Maximum time until it starts.
    pub wait: Duration,
}

impl Patience {
    /// Returns the limits of a gateway.
    #[must_use]
    pub fn of_upload() -> Self {
        Self { most: 64, wait: Duration::from_secs(60) }
    }

    /// Returns the limits of a collector, which waits for `wait`.
    #[must_use]
    pub fn of_collect(plan: &damper_federation::FederationPlan, wait: Duration) -> Self {
        Self { most: Sizes::of_plan(plan).share, wait }
    }

    /// Returns the limits of the leader.
    #[must_use]
    pub fn of_leader(plan: &damper_federation::FederationPlan) -> Self {
        Self { most: Sizes::of_plan(plan).between, wait: Duration::from_secs(120) }
    }
}

const CONNECT: Duration = Duration::from_secs(20);

/// A connection to an aggregator.
pub struct Link(StreamOwned<ClientConnection, Timed>);

impl Link {
    /// Connects, and checks the aggregator's certificate.
    ///
    /// # Errors
    ///
    /// The server does not answer, or it is not the named aggregator.
    pub fn connect(to: &AggregatorAddress) -> io::Result<Self> {
        let addresses: Vec<SocketAddr> = to.address.to_socket_addrs()?.collect();
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        let mut connected = None;
        for address in addresses {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(socket) => {
                    connected = Some(socket);
                    break;
                }
                Err(error) => last = error,
            }
        }
        let socket = connected.ok_or(last)?;
        socket.set_nodelay(true)?;
        let name = server_name(to.party).ok_or(io::ErrorKind::InvalidInput)?;
        let connection = ClientConnection::new(to.config.clone(), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, Timed::new(socket, CONNECT));
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        let found = peer(stream.conn.peer_certificates());
        // The handshake checked the name. A certificate with the names of two parties belongs to neither.
        let fits = found.is_some_and(|(party, fingerprint)| {
            party == Some(to.party) && to.fingerprint.is_none_or(|wanted| wanted == fingerprint)
        });
        if fits { Ok(Self(stream)) } else { Err(io::Error::new(io::ErrorKind::InvalidData, "another certificate")) }
    }

    /// Sends a request, and returns the answer.
    ///
    /// # Errors
    ///
    /// The connection ends, or the answer is invalid.
    pub fn ask(&mut self, request: &AggregatorRequest, patience: Patience) -> io::Result<Answer> {
        self.ask_bytes(&request.to_bytes(), patience)
    }

    /// Sends `bytes` as a message, and returns the answer.
    ///
    /// # Errors
    ///
    /// The connection ends, or the answer is invalid.
    pub fn ask_bytes(&mut self, bytes: &[u8], patience: Patience) -> io::Result<Answer> {
        // A server that rejects a request does so at once, and may close before the request is written. Its answer
        // still counts.
        let sent = match write(&mut self.0, bytes) {
            Err(error) if !matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                return Err(error);
            }
            sent => sent,
        };
        let answer = read(&mut self.0, patience.most, patience.wait);
        let bytes = match (answer, sent) {
            (Ok(Some(bytes)), _) => bytes,
            (_, Err(error)) | (Err(error), Ok(())) => return Err(error),
            (Ok(None), Ok(())) => return Err(io::ErrorKind::UnexpectedEof.into()),
        };
        Answer::from_bytes(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not an answer"))
    }
}

/// The helper, over a connection that is restored after a break. Every request may be sent twice.
pub struct RemoteHelper {
    address: AggregatorAddress,
    patience: Patience,
    link: Mutex<Option<Link>>,
    log: fn(&str),
}

impl RemoteHelper {
    /// Creates the connection to the helper at `address`.
    #[must_use]
    pub fn new(address: AggregatorAddress, patience: Patience, log: fn(&str)) -> Self {
        Self { address, patience, link: Mutex::new(None), log }
    }
}

impl Helper for RemoteHelper {
    fn ask(&self, request: &AggregatorRequest) -> Result<Answer, Refusal> {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        // An idle connection is closed after a while, which is not a failure.
        if let Some(mut open) = link.take()
            && let Ok(answer) = open.ask(request, self.patience)
        {
            *link = Some(open);
            return told(answer);
        }
        match Link::connect(&self.address).and_then(|mut open| Ok((open.ask(request, self.patience)?, open))) {
            Ok((answer, open)) => {
                *link = Some(open);
                told(answer)
            }
            Err(error) => {
                (self.log)(&format!("helper {}: {error}", self.address.address));
                Err(Refusal::Peer)
            }
        }
    }
}

fn told(answer: Answer) -> Result<Answer, Refusal> {
    if let Answer::Refused(refusal) = answer { Err(refusal) } else { Ok(answer) }
}
