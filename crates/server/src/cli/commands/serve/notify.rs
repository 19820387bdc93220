//! Tells the service manager that the server is ready, alive, or about to stop.
//!
//! The messages are datagrams to the socket that `NOTIFY_SOCKET` names. Without that variable
//! nothing is sent. A message that cannot be sent is dropped: the manager then acts on its timeout.
//!
//! *Source*: sd_notify(3).

use std::time::Duration;

use crate::config::Environment;

/// Where the messages go.
#[derive(Clone, Debug)]
pub(super) struct Notifier {
    socket: Option<String>,
    /// How often the manager wants to hear from the server; half of its timeout.
    interval: Option<Duration>,
}

impl Notifier {
    pub(super) fn new(environment: Environment<'_>) -> Self {
        let number = |name: &str| environment(name)?.parse::<u64>().ok();
        let is_for_us = number("WATCHDOG_PID").is_none_or(|id| id == u64::from(std::process::id()));
        let timeout = number("WATCHDOG_USEC").filter(|micros| is_for_us && *micros > 0);
        Self {
            socket: environment("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()),
            interval: timeout.map(|micros| Duration::from_micros(micros / 2)),
        }
    }

    /// Says that the server accepts connections, and from then on that it is alive. The task that
    /// does so runs on the runtime of the server: when the runtime hangs, the manager hears nothing
    /// and starts the server again.
    pub(super) fn ready(&self) {
        self.send("READY=1\nSTATUS=accepting connections\n");
        let Some(interval) = self.interval.filter(|_| self.socket.is_some()) else { return };
        let notifier = self.clone();
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(interval);
            loop {
                ticks.tick().await;
                notifier.send("WATCHDOG=1\n");
            }
        });
    }

    /// Says that the server is about to end.
    pub(super) fn stopping(&self) {
        self.send("STOPPING=1\n");
    }

    #[cfg(unix)]
    fn send(&self, message: &str) {
        use std::os::unix::net::UnixDatagram;
        let Some(socket) = &self.socket else { return };
        let Ok(sender) = UnixDatagram::unbound() else { return };
        #[cfg(target_os = "linux")]
        if let Some(name) = socket.strip_prefix('@') {
            use std::os::linux::net::SocketAddrExt as _;
            use std::os::unix::net::SocketAddr;
            if let Ok(address) = SocketAddr::from_abstract_name(name) {
                let _ = sender.send_to_addr(message.as_bytes(), &address);
            }
            return;
        }
        let _ = sender.send_to(message.as_bytes(), socket);
    }

    #[cfg(not(unix))]
    fn send(&self, _: &str) {}
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 200];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[tokio::test]
    async fn the_manager_hears_that_the_server_is_ready_alive_and_stopping() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let environment = |name: &str| match name {
            "NOTIFY_SOCKET" => Some(path.clone()),
            "WATCHDOG_USEC" => Some("2000".to_owned()),
            _ => None,
        };
        let notifier = Notifier::new(&environment);
        notifier.ready();
        let mut heard = Vec::new();
        while heard.len() < 3 {
            tokio::task::yield_now().await;
            socket.set_nonblocking(true).unwrap();
            let mut buffer = [0; 200];
            if let Ok(length) = socket.recv(&mut buffer) {
                heard.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
            }
        }
        assert!(heard[0].starts_with("READY=1\n"), "{heard:?}");
        assert_eq!(heard[1..], ["WATCHDOG=1\n", "WATCHDOG=1\n"]);
        drop(heard);
        let quiet = Notifier { interval: None, ..notifier };
        socket.set_nonblocking(false).unwrap();
        quiet.stopping();
        let mut last = received(&socket);
        while last == "WATCHDOG=1\n" {
            last = received(&socket);
        }
        assert_eq!(last, "STOPPING=1\n");
        // Without a socket nothing is sent, and nothing fails.
        Notifier::new(&|_| None).stopping();
    }

    #[test]
    fn a_watchdog_of_another_process_is_none_of_ours() {
        let environment = |name: &str| match name {
            "WATCHDOG_USEC" => Some("2000".to_owned()),
            "WATCHDOG_PID" => Some("1".to_owned()),
            _ => None,
        };
        assert_eq!(Notifier::new(&environment).interval, None);
    }
}
