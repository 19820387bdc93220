//! A real server of PostgreSQL for tests: its own folder, its own socket, no network.
//!
//! All tests of a process share one server, which stops with the last test that uses it. A guard, a
//! process that waits for the end of a pipe, stops the server even if the tests are killed. Where
//! the machine has no PostgreSQL, a test says so on standard error and does nothing. With
//! `STILE_REQUIRE_POSTGRES=1` that is a failure.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tempfile::TempDir;

/// The user that owns all databases and that programs connect as. It may make no further databases
/// or users, and row-level security holds for it.
const USER: &str = "stile";
/// The user that may do everything, for whom row-level security does not hold.
const SUPERUSER: &str = "postgres";

/// A running server of PostgreSQL, which stops when it is dropped.
#[derive(Debug)]
pub struct PostgresServer {
    folder: TempDir,
    programs: PathBuf,
    databases: AtomicU32,
    guard: Child,
}

/// A database of a test, which is removed when dropped.
#[derive(Debug)]
pub struct TestDatabase {
    server: Arc<PostgresServer>,
    name: String,
}

/// The users that may run the server if the tests run as root, as names in `/etc/passwd`.
const USERS: [&str; 2] = ["postgres", "nobody"];

impl PostgresServer {
    /// Returns the server of this process. `None`, after a line about it, if there is no
    /// PostgreSQL.
    pub fn shared(test: &str) -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<PostgresServer>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            return Some(server);
        }
        let Some(programs) = programs() else {
            let is_required = std::env::var_os("STILE_REQUIRE_POSTGRES").is_some();
            assert!(!is_required, "{test} needs PostgreSQL, and no `initdb` was found");
            // The print macros would be captured.
            let line = format!("SKIPPED {test}: there is no PostgreSQL on this machine\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
            return None;
        };
        let server = Arc::new(Self::start_new(programs));
        *shared = Arc::downgrade(&server);
        Some(server)
    }

    /// Starts a server that no other test uses, so that a test may stop it. `None` as for
    /// [`PostgresServer::shared`].
    pub fn own(test: &str) -> Option<Arc<Self>> {
        let shared = Self::shared(test)?;
        Some(Arc::new(Self::start_new(shared.programs.clone())))
    }

    fn start_new(programs: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        if let Some((uid, gid)) = other_user() {
            run(Command::new("chown").arg(format!("{uid}:{gid}")).arg(folder.path()));
        }
        let guard = guard(&programs.join("pg_ctl"), folder.path());
        let server = Self { folder, programs, databases: AtomicU32::new(0), guard };
        let options =
            ["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"];
        run(server.command("initdb").args(options).arg(server.data()));
        server.start();
        run(server.client("createuser").args(["--no-superuser", "--no-createdb", USER]));
        server
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Makes a command that does not run as root.
    fn command(&self, program: &str) -> Command {
        let mut command = as_other_user(&self.programs.join(program));
        command.current_dir(self.folder.path());
        command
    }

    /// Starts the server again.
    pub fn start(&self) {
        let folder = self.folder.path().display();
        let options = format!(
            "-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off \
             -c max_connections=200 -c log_line_prefix=%d: -c shared_buffers=16MB -c autovacuum=off"
        );
        let log = self.folder.path().join("log");
        let mut command = self.command("pg_ctl");
        command.arg("-D").arg(self.data()).arg("-l").arg(log);
        run(command.args(["-w", "-o", &options, "start"]));
    }

    /// Stops the server at once, as if its machine failed.
    pub fn stop(&self) {
        run(self.command("pg_ctl").arg("-D").arg(self.data()).args(["-m", "immediate", "stop"]));
    }

    /// Makes an empty database.
    pub fn database(self: &Arc<Self>) -> TestDatabase {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        run(self.client("createdb").args(["-O", USER, &name]));
        TestDatabase { server: Arc::clone(self), name }
    }

    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.arg("-h").arg(self.folder.path()).args(["-U", SUPERUSER]);
        command
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

impl TestDatabase {
    /// The address of the database, for the user that owns it.
    pub fn address(&self) -> String {
        self.address_for(USER)
    }

    /// The address of the database, for a user who skips row-level security.
    pub fn superuser_address(&self) -> String {
        self.address_for(SUPERUSER)
    }

    fn address_for(&self, user: &str) -> String {
        let folder = self.server.folder.path().to_string_lossy().replace('/', "%2F");
        format!("postgres://{user}@{folder}/{}", self.name)
    }

    /// Logs each statement of connections that begin from now on.
    pub fn log_statements(&self) {
        self.run(&format!("ALTER DATABASE {} SET log_statement = 'all'", self.name));
    }

    /// Returns how many statements of this database the server has logged.
    pub fn logged_statements(&self) -> usize {
        let log = std::fs::read_to_string(self.server.folder.path().join("log")).unwrap();
        let is_own = |line: &&str| {
            let own = line.strip_prefix(&*self.name).and_then(|line| line.strip_prefix(":LOG:  "));
            own.is_some_and(|own| own.starts_with("execute ") || own.starts_with("statement: "))
        };
        log.lines().filter(is_own).count()
    }

    /// Runs statements in the database, on the rows of all tenants, and returns what they print, a
    /// row a line.
    pub fn run(&self, statements: &str) -> String {
        let mut command = self.server.client("psql");
        command.args(["-v", "ON_ERROR_STOP=1", "-q", "-X", "-A", "-t", "-d", &self.name]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        child.stdin.take().unwrap().write_all(statements.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{statements}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let mut command = self.server.client("dropdb");
        command.args(["--force", &self.name]).stdout(Stdio::null()).stderr(Stdio::null());
        let _ = command.status();
    }
}

/// Returns the folder with the programs of PostgreSQL.
fn programs() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&paths).collect();
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        let mut versions: Vec<PathBuf> =
            versions.flatten().map(|version| version.path().join("bin")).collect();
        versions.sort();
        folders.extend(versions.into_iter().rev());
    }
    let has = |folder: &Path, program: &str| folder.join(program).is_file();
    let all = ["initdb", "pg_ctl", "createuser", "createdb", "dropdb", "psql"];
    folders.into_iter().find(|folder| all.iter().all(|program| has(folder, program)))
}

/// Returns the numbers of the user and the group that the server runs as, if this is root.
fn other_user() -> Option<(u32, u32)> {
    let own = Command::new("id").arg("-u").output().ok()?;
    if own.stdout != b"0\n" {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let ids = |wanted: &&str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(wanted))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    USERS.iter().find_map(ids)
}

/// Makes a command that does not run as root.
fn as_other_user(program: &Path) -> Command {
    let Some((uid, gid)) = other_user() else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={uid}")).arg(format!("--regid={gid}"));
    command.arg("--clear-groups").arg(program);
    command
}

/// Starts the process that stops the server when its standard input ends.
fn guard(pg_ctl: &Path, folder: &Path) -> Child {
    let script = r#"read -r _; "$1" -D "$2/data" -m immediate stop; rm -rf -- "$2""#;
    let mut command = as_other_user(Path::new("sh"));
    command.args(["-c", script, "guard"]).arg(pg_ctl).arg(folder).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn run(command: &mut Command) {
    // A pipe would stay open as long as the server runs.
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    let program = command.get_program().to_owned();
    assert!(status.is_ok_and(|status| status.success()), "{:?}", OsStr::new(&program));
}
