//! The program itself, started and stopped as a person or a client would.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio as Pipe};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::client::{Http, Lane, Stdio};

/// The folders of a server, and the path of its program.
#[derive(Clone, Debug)]
pub struct Rig {
    /// The path of the program.
    pub binary: PathBuf,
    /// The folder that is the space.
    pub root: PathBuf,
    /// The folder with keys and journal.
    pub state: PathBuf,
}

/// How long to wait for a line, longer than a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running `stile serve` or `stile gateway`.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The address that the server listens on.
    pub address: SocketAddr,
    log: Log,
}

/// A running `stile stdio` or `stile mcp` that several threads call at once.
#[derive(Debug)]
pub struct Piped {
    child: Child,
    lane: Lane,
    log: Log,
}

/// The standard error of a process, read continuously so that the process never blocks.
#[derive(Debug)]
struct Log {
    said: Arc<Said>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Said {
    text: Mutex<Vec<u8>>,
    /// Another line was read.
    more: Condvar,
}

impl Log {
    /// Collects the rest of `errors`, after the bytes `read` before.
    fn collect(mut errors: BufReader<ChildStderr>, read: Vec<u8>) -> Self {
        let said = Arc::new(Said { text: Mutex::new(read), more: Condvar::new() });
        let sink = Arc::clone(&said);
        let reader = std::thread::spawn(move || {
            let mut line = Vec::new();
            while errors.read_until(b'\n', &mut line).unwrap_or(0) > 0 {
                sink.text.lock().unwrap_or_else(PoisonError::into_inner).append(&mut line);
                sink.more.notify_all();
            }
        });
        Self { said, reader: Some(reader) }
    }

    fn so_far(&self) -> Vec<u8> {
        self.said.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a line with these words, and returns the rest of the line.
    fn after(&self, words: &str) -> Option<String> {
        let find = |text: &[u8]| {
            let text = String::from_utf8_lossy(text);
            let (_, rest) = text.split_once(words)?;
            rest.split_once('\n').map(|(rest, _)| rest.trim().to_owned())
        };
        let text = self.said.text.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.said.more.wait_timeout_while(text, PATIENCE, |text| find(text).is_none());
        let (text, _) = waited.unwrap_or_else(PoisonError::into_inner);
        find(&text)
    }

    /// Returns all lines, once the process has ended.
    fn take(&mut self) -> Vec<u8> {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        std::mem::take(&mut *self.said.text.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Rig {
    /// Makes a rig with the folders `space` and `state` below `folder`.
    ///
    /// # Panics
    /// The folders cannot be made.
    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    pub fn below(folder: &Path, binary: impl Into<PathBuf>) -> Self {
        let rig =
            Self { binary: binary.into(), root: folder.join("space"), state: folder.join("state") };
        std::fs::create_dir_all(&rig.root).expect("the space can be made");
        rig
    }

    /// Returns the home folder of the program, which does not exist.
    pub fn home(&self) -> PathBuf {
        self.state.with_file_name("home")
    }

    /// Returns a command of the program that ignores the settings of whoever runs the tests.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("STILE_") {
                command.env_remove(name);
            }
        }
        command.env("HOME", self.home()).args(arguments);
        command
    }

    /// Starts `stile serve` on a free port and waits until it accepts connections.
    ///
    /// # Panics
    /// The process does not start.
    pub fn serve(&self, more: &[&str]) -> Server {
        let mut command = self.command(&["serve"]);
        command
            .arg(&self.root)
            .args(["--listen", "127.0.0.1:0", "--state"])
            .arg(&self.state)
            .args(more);
        Server::start(command)
    }

    /// Starts `stile gateway` on a free port and waits until it accepts connections. The gateway
    /// makes no key: mint a token before, which makes a key, or name the keys of an identity
    /// provider in `more`.
    ///
    /// # Panics
    /// The process does not start.
    pub fn gateway(&self, more: &[&str]) -> Server {
        Server::start(self.gateway_command(more))
    }

    /// Returns the command that [`gateway`](Self::gateway) runs, to change its environment.
    pub fn gateway_command(&self, more: &[&str]) -> Command {
        let mut command = self.command(&["gateway", "--listen", "127.0.0.1:0", "--state"]);
        command.arg(&self.state).args(more);
        command
    }

    /// Mints a token with the command line.
    ///
    /// # Panics
    /// The command line fails.
    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    pub fn token(&self, scopes: &[&str], more: &[&str]) -> String {
        let mut command = self.command(&["token", "--state"]);
        command.arg(&self.state).arg("--root").arg(&self.root).args(more);
        for scope in scopes {
            command.args(["--scope", scope]);
        }
        let output = command.output().expect("the program starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("a token is text").trim().to_owned()
    }

    /// Starts `stile stdio`, and discards its standard error.
    ///
    /// # Panics
    /// The process does not start.
    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    pub fn stdio(&self, more: &[&str]) -> Stdio {
        let mut command = self.command(&["stdio"]);
        command.arg(&self.root).arg("--state").arg(&self.state).args(more);
        let child = command.stdin(Pipe::piped()).stdout(Pipe::piped()).stderr(Pipe::null()).spawn();
        Stdio::new(child.expect("the program starts"))
    }

    /// Starts `stile stdio` for several threads, and collects its log.
    ///
    /// # Panics
    /// The process does not start.
    pub fn piped(&self, more: &[&str]) -> Piped {
        let mut command = self.command(&["stdio"]);
        command.arg(&self.root).arg("--state").arg(&self.state).args(more);
        Piped::start(command)
    }
}

impl Server {
    /// Starts a command that prints its address on standard error, and waits for the address.
    ///
    /// # Panics
    /// The process does not start.
    #[expect(
        clippy::expect_used,
        clippy::panic,
        reason = "a rig that cannot be set up should say so at once"
    )]
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Pipe::null())
            .stdout(Pipe::null())
            .stderr(Pipe::piped())
            .spawn()
            .expect("the program starts");
        let mut errors = BufReader::new(child.stderr.take().expect("standard error is piped"));
        let (mut log, mut line) = (Vec::new(), Vec::new());
        let address = loop {
            line.clear();
            if errors.read_until(b'\n', &mut line).unwrap_or(0) == 0 {
                let _ = child.wait();
                panic!("the server did not start: {}", String::from_utf8_lossy(&log));
            }
            log.extend_from_slice(&line);
            let text = String::from_utf8_lossy(&line);
            let url = text.split_once("listening on ").and_then(|(_, url)| url.split_once("://"));
            if let Some((_, address)) = url {
                break address.trim().parse().expect("an address follows");
            }
        };
        Self { child, address, log: Log::collect(errors, log) }
    }

    /// Returns the standard error so far. [`stop`](Self::stop) and [`kill`](Self::kill) return all
    /// of it.
    pub fn log_so_far(&self) -> Vec<u8> {
        self.log.so_far()
    }

    /// Waits for a line of standard error with these words, and returns the rest of the line.
    ///
    /// # Panics
    /// No such line comes.
    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    pub fn said_after(&self, words: &str) -> String {
        self.log.after(words).expect("the server says it")
    }

    /// Returns the address of the metrics, if started with `--metrics-listen 127.0.0.1:0`.
    ///
    /// # Panics
    /// The server has no metrics.
    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    pub fn metrics_address(&self) -> SocketAddr {
        let url = self.said_after("metrics on http://");
        url.trim_end_matches("/metrics").parse().expect("an address follows")
    }

    /// Returns a client that sends `token`.
    pub fn client(&self, token: &str) -> Http {
        Http::new(self.address, token)
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process, which sees the same as in a power cut.
    pub fn kill(mut self) -> Vec<u8> {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.log.take()
    }

    /// Asks the process to stop and waits. Returns its exit status and its log.
    ///
    /// # Panics
    /// The process cannot be signalled.
    #[expect(clippy::expect_used, reason = "a rig that cannot be torn down should say so at once")]
    pub fn stop(mut self) -> (ExitStatus, Vec<u8>) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("the server runs");
        let status = self.child.wait().expect("the server ends");
        (status, self.log.take())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Piped {
    /// Starts a command that speaks MCP over standard input and output, and collects its log.
    ///
    /// # Panics
    /// The process does not start.
    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    pub fn start(mut command: Command) -> Self {
        let child =
            command.stdin(Pipe::piped()).stdout(Pipe::piped()).stderr(Pipe::piped()).spawn();
        let mut child = child.expect("the program starts");
        let input = child.stdin.take().expect("standard input is piped");
        let output = child.stdout.take().expect("standard output is piped");
        let errors = BufReader::new(child.stderr.take().expect("standard error is piped"));
        Self { child, lane: Lane::new(input, output), log: Log::collect(errors, Vec::new()) }
    }

    /// Returns a client of this process.
    pub fn client(&self) -> Lane {
        self.lane.clone()
    }

    /// Kills the process, which sees the same as in a power cut.
    pub fn kill(mut self) -> Vec<u8> {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.log.take()
    }

    /// Closes the input of the process and waits. Returns its exit status and its log.
    ///
    /// # Panics
    /// The process cannot be waited for.
    #[expect(clippy::expect_used, reason = "a rig that cannot be torn down should say so at once")]
    pub fn stop(mut self) -> (ExitStatus, Vec<u8>) {
        self.lane.close();
        let status = self.child.wait().expect("the server ends");
        (status, self.log.take())
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
