//! A relay before a server that can fall silent, as a firewall does that forgets connections: the
//! bytes of the connections that are open then go nowhere, and nobody closes them. New connections
//! work.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// The relay, which accepts no connection after it was dropped.
#[derive(Debug)]
pub struct Silencer {
    /// The address that clients connect to.
    pub address: SocketAddr,
    /// How often the relay has fallen silent. A connection that began before is silent.
    silences: Arc<AtomicUsize>,
    ended: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Silencer {
    /// Relays connections to `server`.
    ///
    /// # Panics
    /// No port is free.
    pub fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (silences, ended) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (of_relay, has_ended) = (Arc::clone(&silences), Arc::clone(&ended));
        let accepting = std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if has_ended.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(server) = TcpStream::connect(server) else { continue };
                let began = of_relay.load(Ordering::SeqCst);
                let ways =
                    [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)];
                for (from, to) in ways {
                    let silences = Arc::clone(&of_relay);
                    std::thread::spawn(move || relay(from, to, began, &silences));
                }
            }
        });
        Self { address, silences, ended, accepting: Some(accepting) }
    }

    /// Lets the connections that are open now fall silent, for good.
    pub fn fall_silent(&self) {
        self.silences.fetch_add(1, Ordering::SeqCst);
    }
}

/// Sends on what comes from one side, and nothing once the connection is silent.
fn relay(mut from: TcpStream, mut to: TcpStream, began: usize, silences: &AtomicUsize) {
    let mut buffer = [0; 4096];
    let is_silent = || silences.load(Ordering::SeqCst) != began;
    while let Some(bytes) = from.read(&mut buffer).ok().and_then(|count| buffer.get(..count)) {
        if is_silent() {
            if bytes.is_empty() {
                return;
            }
        } else if bytes.is_empty() || to.write_all(bytes).is_err() {
            let _ = to.shutdown(Shutdown::Write);
            return;
        }
    }
}

impl Drop for Silencer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // The thread waits for a connection.
        drop(TcpStream::connect(self.address));
        drop(self.accepting.take().map(JoinHandle::join));
    }
}
