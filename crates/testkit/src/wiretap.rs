//! A relay before a server that keeps what clients send, as somebody on the network could.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The relay, which accepts no connection after it was dropped.
#[derive(Debug)]
pub struct Wiretap {
    /// The address that clients connect to.
    pub address: SocketAddr,
    ended: Arc<AtomicBool>,
    accepting: Option<JoinHandle<Vec<JoinHandle<Vec<u8>>>>>,
}

impl Wiretap {
    /// Relays connections to `server`.
    ///
    /// # Panics
    /// No port is free.
    pub fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let has_ended = Arc::clone(&ended);
        let accepting = std::thread::spawn(move || {
            let mut connections = Vec::new();
            for client in listener.incoming().map_while(Result::ok) {
                if has_ended.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(server) = TcpStream::connect(server) else { continue };
                let mut answers = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = io::copy(&mut answers.0, &mut answers.1);
                    let _ = answers.1.shutdown(Shutdown::Write);
                });
                connections.push(std::thread::spawn(move || listen(client, server)));
            }
            connections
        });
        Self { address, ended, accepting: Some(accepting) }
    }

    /// Returns what was sent on each connection, in the order of connections. Waits until the
    /// clients have hung up.
    ///
    /// # Panics
    /// A thread of the relay panicked.
    pub fn sent(mut self) -> Vec<Vec<u8>> {
        self.end().into_iter().map(|connection| connection.join().unwrap()).collect()
    }

    fn end(&mut self) -> Vec<JoinHandle<Vec<u8>>> {
        self.ended.store(true, Ordering::SeqCst);
        // The thread waits for a connection.
        drop(TcpStream::connect(self.address));
        self.accepting.take().and_then(|accepting| accepting.join().ok()).unwrap_or_default()
    }
}

/// Sends the server what the client sends, and keeps a copy.
fn listen(mut client: TcpStream, mut server: TcpStream) -> Vec<u8> {
    let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
    while let Some(bytes) = client.read(&mut buffer).ok().and_then(|count| buffer.get(..count)) {
        heard.extend_from_slice(bytes);
        if bytes.is_empty() || server.write_all(bytes).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Write);
    heard
}

impl Drop for Wiretap {
    fn drop(&mut self) {
        drop(self.end());
    }
}
