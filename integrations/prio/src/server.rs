//! An aggregator's server: a thread for each connection, so that nobody waits for a slow client. Their number is bounded, in all and for each
//! certificate.

use crate::link::{Timed, read, write};
use crate::party::{Party, Service};
use crate::tls::{Fingerprint, peer};
use crate::{Answer, Refusal};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Connections whose client has not yet shown its certificate, at most, and the time that each has.
const STRANGERS: usize = 256;
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections at most, and those of one certificate.
const CONNECTIONS: usize = 256;
const OF_ONE: usize = 16;
/// Bytes that are still read of a client that is turned away, at most.
const UNREAD: u64 = 1 << 20;
/// The time that a client may be silent.
const SILENCE: Duration = Duration::from_secs(60);

struct Server {
    service: Service,
    config: Arc<ServerConfig>,
    /// The leader's certificate, if no other will do.
    leader: Option<Fingerprint>,
    strangers: Arc<AtomicUsize>,
    clients: Mutex<HashMap<Fingerprint, usize>>,
    /// Wakes the leader's verification.
    stored: Option<SyncSender<()>>,
}

/// Counts a connection until it is dropped.
struct Stranger(Arc<AtomicUsize>);

impl Stranger {
    fn admit(strangers: &Arc<AtomicUsize>) -> Option<Self> {
        // Counted before it is looked at, and given back if there are too many.
        let stranger = Self(strangers.clone());
        (strangers.fetch_add(1, Ordering::Relaxed) < STRANGERS).then_some(stranger)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Client<'a>(&'a Mutex<HashMap<Fingerprint, usize>>, Fingerprint);

impl<'a> Client<'a> {
    fn admit(clients: &'a Mutex<HashMap<Fingerprint, usize>>, fingerprint: Fingerprint) -> Option<Self> {
        let mut counts = clients.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = counts.values().sum();
        let of_one = counts.entry(fingerprint).or_default();
        if all >= CONNECTIONS || *of_one >= OF_ONE {
            return None;
        }
        *of_one += 1;
        Some(Self(clients, fingerprint))
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.1);
            }
        }
    }
}

/// Answers whoever connects to `listener`, until the process ends. With `leader`, no other certificate is the leader's.
pub fn serve(listener: &TcpListener, service: Service, config: Arc<ServerConfig>, leader: Option<Fingerprint>) -> ! {
    let (stored, work) = sync_channel(1);
    let is_leader = matches!(service, Service::Leader(_));
    let server = Arc::new(Server {
        service,
        config,
        leader,
        strangers: Arc::new(AtomicUsize::new(0)),
        clients: Mutex::new(HashMap::new()),
        stored: is_leader.then_some(stored),
    });
    let verifier = server.clone();
    thread::spawn(move || {
        while work.recv().is_ok() {
            if let Service::Leader(leader) = &verifier.service
                && let Err(refusal) = leader.verify_ready()
            {
                leader.aggregator().say(&format!("verification waits for the next report: {refusal}"));
            }
        }
    });
    // A leader that lost its folder learns at once what it has forgotten.
    server.wake();
    loop {
        match listener.accept() {
            Ok((socket, _)) => {
                // Others wait in the system's queue meanwhile, for a handshake's time at most.
                let stranger = loop {
                    match Stranger::admit(&server.strangers) {
                        Some(stranger) => break stranger,
                        None => thread::sleep(Duration::from_millis(10)),
                    }
                };
                let server = server.clone();
                let spawned = thread::Builder::new().spawn(move || {
                    // A client that goes away or breaks a rule ends its own connection.
                    let _ = server.serve(socket, stranger);
                });
                if spawned.is_err() {
                    thread::sleep(Duration::from_millis(100));
                }
            }
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Refuses, and reads what the client sends meanwhile: a socket that is closed before that is reset, and the refusal may be lost.
fn turn_away(stream: &mut StreamOwned<ServerConnection, Timed>, refusal: Refusal) -> io::Result<()> {
    write(stream, &Answer::Refused(refusal).to_bytes())?;
    stream.conn.send_close_notify();
    stream.flush()?;
    stream.sock.drain(UNREAD, HANDSHAKE)
}

impl Server {
    fn wake(&self) {
        if let Some(stored) = &self.stored {
            let _ = stored.try_send(());
        }
    }

    fn serve(&self, socket: TcpStream, stranger: Stranger) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let connection = ServerConnection::new(self.config.clone()).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, Timed::new(socket, HANDSHAKE));
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        let (party, fingerprint) = peer(stream.conn.peer_certificates()).ok_or(io::ErrorKind::InvalidData)?;
        let is_stand_in = party == Some(Party::Leader) && self.leader.is_some_and(|leader| leader != fingerprint);
        // Who is turned away counts as a stranger until it has gone.
        let Some(party) = party.filter(|_| !is_stand_in) else {
            return turn_away(&mut stream, Refusal::Certificate);
        };
        let Some(_client) = Client::admit(&self.clients, fingerprint) else {
            return turn_away(&mut stream, Refusal::Busy);
        };
        drop(stranger);
        let most = party.most_bytes(self.service.aggregator());
        while let Some(bytes) = read(&mut stream, most, SILENCE)? {
            let answer = self.service.answer(party, &bytes);
            drop(bytes);
            if party == Party::Gateway && answer == Answer::Done {
                self.wake();
            }
            write(&mut stream, &answer.to_bytes())?;
        }
        Ok(())
    }
}
