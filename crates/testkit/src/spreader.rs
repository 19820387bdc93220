//! A proxy that sends each connection to the next of several servers, as a balancer without sticky
//! routing does.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// The proxy, which stops when it is dropped.
#[derive(Debug)]
pub struct Spreader {
    /// The address that clients connect to.
    pub address: SocketAddr,
    ended: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Spreader {
    /// Spreads connections over these servers in turn.
    ///
    /// # Panics
    /// No port is free.
    pub fn over(servers: Vec<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let (next, has_ended) = (AtomicUsize::new(0), Arc::clone(&ended));
        let accepting = std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if has_ended.load(Ordering::Relaxed) {
                    return;
                }
                let at = next.fetch_add(1, Ordering::Relaxed) % servers.len();
                let Some(server) = servers.get(at) else { return };
                let Ok(server) = TcpStream::connect(server) else { continue };
                join(&client, &server);
            }
        });
        Self { address, ended, accepting: Some(accepting) }
    }
}

/// Copies both ways until either side closes.
fn join(client: &TcpStream, server: &TcpStream) {
    for (from, to) in [(client, server), (server, client)] {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

impl Drop for Spreader {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // The thread waits for a connection.
        drop(TcpStream::connect(self.address));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}
