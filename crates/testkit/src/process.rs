//! The program itself, started and stopped as a person or a client would.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio as Pipe};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::client::{Http, Stdio};

/// Where a server keeps its files, and which program it is.
#[derive(Clone, Debug)]
pub struct Rig {
    /// The program.
    pub binary: PathBuf,
    /// The space.
    pub root: PathBuf,
    /// The state folder.
    pub state: PathBuf,
}

/// A running `stile serve`.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    log: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Rig {
    /// A rig below a folder: `space` and `state` in it.
    ///
    /// # Panics
    /// Where the folders cannot be made.
    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    pub fn below(folder: &Path, binary: impl Into<PathBuf>) -> Self {
        let rig = Self { binary: binary.into(), root: folder.join("space"), state: folder.join("state") };
        std::fs::create_dir_all(&rig.root).expect("the space can be made");
        rig
    }

    /// A command of the program that reads no settings of the person who runs the tests.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("STILE_") {
                command.env_remove(name);
            }
        }
        command.args(arguments);
        command
    }

    /// Starts `stile serve` on a free port and waits until it accepts connections.
    ///
    /// # Panics
    /// Where it does not start.
    #[expect(clippy::expect_used, clippy::panic, reason = "a rig that cannot be set up should say so at once")]
    pub fn serve(&self, more: &[&str]) -> Server {
        let mut command = self.command(&["serve"]);
        command.arg(&self.root).args(["--listen", "127.0.0.1:0", "--state"]).arg(&self.state).args(more);
        let mut child =
            command.stdin(Pipe::null()).stdout(Pipe::null()).stderr(Pipe::piped()).spawn().expect("the program starts");
        let mut errors = BufReader::new(child.stderr.take().expect("standard error is piped"));
        let log = Arc::new(Mutex::new(Vec::new()));
        let mut line = Vec::new();
        let address = loop {
            line.clear();
            if errors.read_until(b'\n', &mut line).unwrap_or(0) == 0 {
                let log = log.lock().unwrap_or_else(PoisonError::into_inner);
                panic!("the server did not start: {}", String::from_utf8_lossy(&log));
            }
            log.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&line);
            let text = String::from_utf8_lossy(&line);
            if let Some((_, address)) = text.split_once("listening on http://") {
                break address.trim().parse().expect("an address follows");
            }
        };
        let sink = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            let mut line = Vec::new();
            while errors.read_until(b'\n', &mut line).unwrap_or(0) > 0 {
                sink.lock().unwrap_or_else(PoisonError::into_inner).append(&mut line);
            }
        });
        Server { child, address, log, reader: Some(reader) }
    }

    /// Mints a token with the command line.
    ///
    /// # Panics
    /// Where that fails.
    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    pub fn token(&self, scopes: &[&str], more: &[&str]) -> String {
        let mut command = self.command(&["token", "--state"]);
        command.arg(&self.state).args(more);
        for scope in scopes {
            command.args(["--scope", scope]);
        }
        let output = command.output().expect("the program starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("a token is text").trim().to_owned()
    }

    /// Starts `stile stdio`; its errors go nowhere.
    ///
    /// # Panics
    /// Where it does not start.
    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    pub fn stdio(&self, more: &[&str]) -> Stdio {
        let mut command = self.command(&["stdio"]);
        command.arg(&self.root).arg("--state").arg(&self.state).args(more);
        let child = command.stdin(Pipe::piped()).stdout(Pipe::piped()).stderr(Pipe::null()).spawn();
        Stdio::new(child.expect("the program starts"))
    }
}

impl Server {
    /// A client with a token.
    pub fn client(&self, token: &str) -> Http {
        Http::new(self.address, token)
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as a power cut would, from the program's point of view.
    pub fn kill(mut self) -> Vec<u8> {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.take_log()
    }

    /// Asks it to end and waits; answers how it ended and all that it logged.
    ///
    /// # Panics
    /// Where it cannot be asked.
    #[expect(clippy::expect_used, reason = "a rig that cannot be torn down should say so at once")]
    pub fn stop(mut self) -> (ExitStatus, Vec<u8>) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("the server runs");
        let status = self.child.wait().expect("the server ends");
        (status, self.take_log())
    }

    fn take_log(&mut self) -> Vec<u8> {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
