//! A proxy that sends each connection to the next of several servers, as a balancer without sticky
//! routing does.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// The proxy, which stops when it is dropped.
#[derive(Debug)]
pub struct Spreader {
    /// The address that clients connect to.
    pub address: SocketAddr,
    ended: Arc<AtomicBool>,
    tell: Option<mpsc::Sender<Vec<SocketAddr>>>,
    accepting: Option<JoinHandle<()>>,
}

impl Spreader {
    /// Takes a port. Connections wait until [`Spreader::spread_over`] names servers.
    ///
    /// # Panics
    /// No port is free.
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let has_ended = Arc::clone(&ended);
        let (tell, told) = mpsc::channel::<Vec<SocketAddr>>();
        let accepting = std::thread::spawn(move || {
            let Ok(servers) = told.recv() else { return };
            let mut servers = servers.iter().cycle();
            for client in listener.incoming().map_while(Result::ok) {
                if has_ended.load(Ordering::Relaxed) {
                    return;
                }
                let Some(server) = servers.next() else { return };
                let Ok(server) = TcpStream::connect(server) else { continue };
                join(&client, &server);
            }
        });
        Self { address, ended, tell: Some(tell), accepting: Some(accepting) }
    }

    /// Spreads connections over these servers in turn.
    pub fn spread_over(&self, servers: Vec<SocketAddr>) {
        if let Some(tell) = &self.tell {
            let _ = tell.send(servers);
        }
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

impl Default for Spreader {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Spreader {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        drop(self.tell.take());
        // The thread waits for a connection.
        drop(TcpStream::connect(self.address));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}
