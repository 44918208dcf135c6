//! A TLS connection whose two directions belong to two threads.
//!
//! The lock covers encryption and decryption alone. Nobody waits for the network with it, so a reader that waits for its
//! peer never stops a writer.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};

use super::Identity;

/// Bytes taken from the network at a time.
const CHUNK: usize = 1 << 17;

/// A connection after its handshake.
#[derive(Debug)]
pub(in crate::transfer::remote) struct Secured {
    reader: Reader,
    writer: Writer,
}

impl Secured {
    /// The handshake of the end that connected. `stream`'s time limits hold for it.
    ///
    /// # Errors
    /// The peer is gone or silent, speaks no TLS, or has another secret.
    pub(in crate::transfer::remote) fn connect(stream: TcpStream, identity: &Identity) -> io::Result<Self> {
        // Keys are pinned, so the name says nothing; it is not sent either.
        let name = ServerName::try_from("sluicegate").map_err(io::Error::other)?;
        let client = ClientConnection::new(Arc::clone(&identity.client), name).map_err(io::Error::other)?;
        Self::shake_hands(client.into(), stream)
    }

    /// The handshake of the end that listens.
    ///
    /// # Errors
    /// As for [`Self::connect`].
    pub(in crate::transfer::remote) fn accept(stream: TcpStream, identity: &Identity) -> io::Result<Self> {
        let server = ServerConnection::new(Arc::clone(&identity.server)).map_err(io::Error::other)?;
        Self::shake_hands(server.into(), stream)
    }

    fn shake_hands(mut tls: Connection, mut stream: TcpStream) -> io::Result<Self> {
        while tls.is_handshaking() {
            tls.complete_io(&mut stream).map_err(Identity::explain)?;
        }
        let tls = Arc::new(Mutex::new(tls));
        let writer = Writer { tls: Arc::clone(&tls), stream: stream.try_clone()?, sealed: Vec::new() };
        let reader = Reader { tls, stream, sealed: vec![0; CHUNK].into(), plain: Vec::new(), taken: 0 };
        Ok(Self { reader, writer })
    }

    /// The network connection, to end it with.
    pub(in crate::transfer::remote) fn stream(&self) -> &TcpStream {
        &self.reader.stream
    }

    pub(in crate::transfer::remote) fn split(self) -> (Reader, Writer) {
        (self.reader, self.writer)
    }
}

impl Read for Secured {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.reader.read(out)
    }
}

impl Write for Secured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

fn locked(tls: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    tls.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What comes.
#[derive(Debug)]
pub(in crate::transfer::remote) struct Reader {
    tls: Arc<Mutex<Connection>>,
    stream: TcpStream,
    sealed: Box<[u8]>,
    plain: Vec<u8>,
    /// How much of `plain` has been handed out.
    taken: usize,
}

impl Reader {
    /// Decrypts `self.sealed[..len]` behind what is there. Says whether the peer has said that nothing more comes.
    fn open(&mut self, len: usize) -> io::Result<bool> {
        let mut tls = locked(&self.tls);
        let mut sealed = &self.sealed[..len];
        loop {
            // Bytes that came with the handshake are opened already.
            if !sealed.is_empty() {
                tls.read_tls(&mut sealed)?;
            }
            let state = tls.process_new_packets().map_err(io::Error::other)?;
            let before = self.plain.len();
            self.plain.resize(before + state.plaintext_bytes_to_read(), 0);
            if state.plaintext_bytes_to_read() > 0 {
                tls.reader().read_exact(&mut self.plain[before..])?;
            }
            if sealed.is_empty() {
                return Ok(state.peer_has_closed());
            }
        }
    }
}

impl Read for Reader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut len = 0;
        while self.taken == self.plain.len() {
            self.plain.clear();
            self.taken = 0;
            if self.open(len)? && self.plain.is_empty() {
                return Ok(0);
            }
            if self.plain.is_empty() {
                len = self.stream.read(&mut self.sealed)?;
                if len == 0 {
                    return Ok(0);
                }
            }
        }
        let count = out.len().min(self.plain.len() - self.taken);
        out[..count].copy_from_slice(&self.plain[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

/// What goes. Bytes are on the network when `write` returns.
#[derive(Debug)]
pub(in crate::transfer::remote) struct Writer {
    tls: Arc<Mutex<Connection>>,
    stream: TcpStream,
    sealed: Vec<u8>,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = {
            let mut tls = locked(&self.tls);
            let taken = tls.writer().write(bytes)?;
            while tls.wants_write() {
                tls.write_tls(&mut self.sealed)?;
            }
            taken
        };
        self.stream.write_all(&self.sealed)?;
        self.sealed.clear();
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use proptest::prelude::*;

    use super::*;
    use crate::transfer::remote::Secret;

    fn identity(secret: &str) -> Identity {
        Identity::of(&Secret::new(secret).unwrap()).unwrap()
    }

    /// Both ends of a connection, or what each says of the other.
    fn pair(listens: &'static str, connects: &'static str) -> (io::Result<Secured>, io::Result<Secured>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = std::thread::spawn(move || Secured::accept(listener.accept().unwrap().0, &identity(listens)));
        let connected = Secured::connect(TcpStream::connect(address).unwrap(), &identity(connects));
        (accepted.join().unwrap(), connected)
    }

    #[test]
    fn another_secret_is_told_to_both() {
        let (accepted, connected) = pair("known to both of them", "known to one of them");
        let why = connected.unwrap_err().to_string();
        assert!(why.contains("does not know the shared secret"), "{why}");
        let why = accepted.unwrap_err().to_string();
        assert!(why.contains("does it know the shared secret?"), "{why}");
    }

    #[test]
    fn nothing_is_sent_in_clear() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        // A wire-tapper that passes everything on.
        let tap = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tap.local_addr().unwrap();
        let tapped = std::thread::spawn(move || {
            let (mut from, mut to) = (tap.accept().unwrap().0, TcpStream::connect(to).unwrap());
            let (mut back_from, mut back_to) = (to.try_clone().unwrap(), from.try_clone().unwrap());
            std::thread::spawn(move || io::copy(&mut back_from, &mut back_to));
            let (mut seen, mut chunk) = (Vec::new(), [0; 4096]);
            while let Ok(count @ 1..) = from.read(&mut chunk) {
                seen.extend_from_slice(&chunk[..count]);
                to.write_all(&chunk[..count]).unwrap();
            }
            seen
        });
        let secret = "known to both of them";
        let accepted = std::thread::spawn(move || {
            let mut end = Secured::accept(listener.accept().unwrap().0, &identity(secret)).unwrap();
            let mut got = [0; 27];
            end.read_exact(&mut got).unwrap();
            got
        });
        let mut connected = Secured::connect(TcpStream::connect(address).unwrap(), &identity(secret)).unwrap();
        connected.write_all(b"what a client said in private").unwrap();
        assert_eq!(accepted.join().unwrap(), *b"what a client said in priva");
        drop(connected);
        let seen = tapped.join().unwrap();
        assert!(seen.len() > 29 && !seen.windows(7).any(|w| w == b"private"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        /// Both directions at once, in any pieces: everything arrives, in order.
        #[test]
        fn two_threads_at_each_end(pieces in prop::collection::vec(1usize..200_000, 1..12)) {
            let (accepted, connected) = pair("known to both of them", "known to both of them");
            let sent: Vec<Vec<u8>> = pieces.iter().enumerate().map(|(i, &n)| vec![i as u8; n]).collect();
            std::thread::scope(|scope| {
                for end in [accepted.unwrap(), connected.unwrap()] {
                    let (mut reader, mut writer) = end.split();
                    let sent = &sent;
                    scope.spawn(move || sent.iter().for_each(|piece| writer.write_all(piece).unwrap()));
                    scope.spawn(move || {
                        for piece in sent {
                            let mut got = vec![0; piece.len()];
                            reader.read_exact(&mut got).unwrap();
                            assert_eq!(&got, piece);
                        }
                    });
                }
            });
        }
    }
}
