//! Server of an aggregator: a thread for each connection, so that a slow client delays no other client. The number of
//! connections is bounded, in total and for each certificate.

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

/// Maximum number of connections before their client certificate is checked, and the time limit for each.
const STRANGERS: usize = 256;
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Maximum number of connections, and of connections of one certificate.
const CONNECTIONS: usize = 256;
const OF_ONE: usize = 16;
/// Maximum number of bytes that are read from a rejected client.
const UNREAD: u64 = 1 << 20;
/// Maximum time that a client may be idle.
const SILENCE: Duration = Duration::from_secs(60);

struct Server {
    service: Service,
    config: Arc<ServerConfig>,
    /// The leader's certificate, if only that certificate is accepted.
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
        // Count first, then check. The drop reverts the count if there are too many.
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

/// Serves clients of `listener` until the process ends. With `leader`, only that certificate is the leader's.
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
    // A leader that lost its folder gets the missing state at once.
    server.wake();
    loop {
        match listener.accept() {
            Ok((socket, _)) => {
                // Further clients wait in the operating system's queue, at most for the time of a handshake.
                let stranger = loop {
                    match Stranger::admit(&server.strangers) {
                        Some(stranger) => break stranger,
                        None => thread::sleep(Duration::from_millis(10)),
                    }
                };
                let server = server.clone();
                let spawned = thread::Builder::new().spawn(move || {
                    // A client that disconnects or breaks a rule ends only its own connection.
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

/// Sends an error, and reads the client's data meanwhile. A socket that closes with unread data is reset, and the error
/// may be lost.
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
        // A rejected client counts as unchecked until it disconnects.
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
