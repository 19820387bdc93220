//! A real server of PostgreSQL for tests: its own folder, its own socket, no network. A test of TLS
//! starts one that also listens on a port of 127.0.0.1.
//!
//! All tests of a process share one server, which stops with the last test that uses it. A guard, a
//! process that waits for the end of a pipe, stops the server even if the tests are killed. Where
//! the machine has no PostgreSQL, a test says so on standard error and does nothing. With
//! `STILE_REQUIRE_POSTGRES=1` that is a failure.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tempfile::TempDir;

use crate::upstream::tls::Pair;

/// The user that owns all databases and that programs connect as. It may make no further databases
/// or users, and row-level security holds for it.
const USER: &str = "stile";
/// The name of a role that owns nothing, for servers that have a role of their own.
pub const SERVERS_ROLE: &str = "Stile's servers";
/// The user that may do everything, for whom row-level security does not hold.
const SUPERUSER: &str = "postgres";

/// The password of the user that owns all databases. Only connections over the network need it.
pub const PASSWORD: &str = "canary-of-the-password";

/// A running server of PostgreSQL, which stops when it is dropped.
#[derive(Debug)]
pub struct PostgresServer {
    folder: TempDir,
    programs: PathBuf,
    /// The port of the network, which also names the socket. The default port is not listened on.
    port: u16,
    databases: AtomicU32,
    guard: Child,
}

/// A database of a test, which is removed when dropped.
#[derive(Debug)]
pub struct TestDatabase {
    server: Arc<PostgresServer>,
    name: String,
}

/// The port that names the socket of a server without a network.
const DEFAULT_PORT: u16 = 5432;

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
        let server = Arc::new(Self::start_new(programs_for(test)?));
        *shared = Arc::downgrade(&server);
        Some(server)
    }

    /// Starts a server that no other test uses, so that a test may stop it. `None` as for
    /// [`PostgresServer::shared`].
    pub fn own(test: &str) -> Option<Arc<Self>> {
        Some(Arc::new(Self::start_new(programs_for(test)?)))
    }

    /// Starts a server that also listens on a port of 127.0.0.1. Connections there need
    /// [`PASSWORD`], and TLS if there is a certificate; without one the server has no TLS. `None`
    /// as for [`PostgresServer::shared`].
    pub fn on_network(test: &str, certificate: Option<&Pair>) -> Option<Arc<Self>> {
        let mut server = Self::initialized(programs_for(test)?);
        let way = if certificate.is_some() { "hostssl" } else { "host" };
        let access = format!("local all all trust\n{way} all {USER} 127.0.0.1/32 scram-sha-256\n");
        std::fs::write(server.data().join("pg_hba.conf"), access).unwrap();
        if let Some(pair) = certificate {
            let key = server.data().join("server.key");
            std::fs::write(server.data().join("server.crt"), &pair.certificate).unwrap();
            std::fs::write(&key, &pair.key).unwrap();
            std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
            hand_over(&key);
            server.configure("ssl = on");
        }
        server.configure("listen_addresses = '127.0.0.1'");
        // Another process may take the port before the server does.
        let mut attempts = 0..20;
        while server.port == DEFAULT_PORT || !server.starts() {
            assert!(attempts.next().is_some(), "PostgreSQL does not start");
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            server.port = free.local_addr().unwrap().port();
            server.configure(&format!("port = {}", server.port));
        }
        server.make_user();
        Some(Arc::new(server))
    }

    fn start_new(programs: PathBuf) -> Self {
        let server = Self::initialized(programs);
        server.start();
        server.make_user();
        server
    }

    /// Makes the folder of a server that listens to its socket alone.
    fn initialized(programs: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        hand_over(folder.path());
        let guard = guard(&programs.join("pg_ctl"), folder.path());
        let (port, databases) = (DEFAULT_PORT, AtomicU32::new(0));
        let server = Self { folder, programs, port, databases, guard };
        let options =
            ["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"];
        run(server.command("initdb").args(options).arg(server.data()));
        server.configure(&format!(
            "listen_addresses = ''\nunix_socket_directories = '{}'\nfsync = off\n\
             max_connections = 200\nlog_line_prefix = '%d:'\nshared_buffers = 16MB\n\
             autovacuum = off",
            server.folder.path().display()
        ));
        server
    }

    /// Appends lines to the server's settings. The last line about a setting counts.
    fn configure(&self, lines: &str) {
        let file = self.data().join("postgresql.conf");
        let mut file = std::fs::OpenOptions::new().append(true).open(file).unwrap();
        writeln!(file, "{lines}").unwrap();
    }

    fn make_user(&self) {
        let statement = format!(
            "CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'; CREATE ROLE \"{SERVERS_ROLE}\" LOGIN"
        );
        run(self.client("psql").args(["-q", "-X", "-d", "postgres", "-c", &statement]));
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
        assert!(self.starts(), "PostgreSQL does not start");
    }

    /// Starts the server. Returns whether it runs.
    fn starts(&self) -> bool {
        let log = self.folder.path().join("log");
        let mut command = self.command("pg_ctl");
        command.arg("-D").arg(self.data()).arg("-l").arg(log).args(["-w", "start"]);
        succeeds(&mut command)
    }

    /// Stops the server at once, as if its machine failed.
    pub fn stop(&self) {
        run(self.command("pg_ctl").arg("-D").arg(self.data()).args(["-m", "immediate", "stop"]));
    }

    /// Lets the server, which is stopped, start as a replica: it only reads until it is promoted by
    /// `pg_promote()`.
    pub fn make_replica(&self) {
        let signal = self.data().join("standby.signal");
        std::fs::write(&signal, "").unwrap();
        hand_over(&signal);
    }

    /// The address that a server of [`PostgresServer::on_network`] listens on.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
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
        command.args(["-p", &self.port.to_string()]);
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

    /// The address of the database, for [`SERVERS_ROLE`].
    pub fn servers_address(&self) -> String {
        self.address_for(&SERVERS_ROLE.replace('\'', "%27").replace(' ', "%20"))
    }

    /// The address of the database, for a user who skips row-level security.
    pub fn superuser_address(&self) -> String {
        self.address_for(SUPERUSER)
    }

    fn address_for(&self, user: &str) -> String {
        let folder = self.server.folder.path().to_string_lossy().replace('/', "%2F");
        format!("postgres://{user}@{folder}:{}/{}", self.server.port, self.name)
    }

    /// The address of the database over the network, for the user that owns it. `host` may name
    /// another port, and `settings` follow the question mark.
    pub fn network_address(&self, host: &str, settings: &str) -> String {
        format!("postgres://{USER}:{PASSWORD}@{host}/{}?{settings}", self.name)
    }

    /// The server of the database.
    pub fn server(&self) -> &PostgresServer {
        &self.server
    }

    /// Overwrites the head of a page of a table, in each file that has rows which match a
    /// condition, while the server is stopped. The page is in the middle of those that have such
    /// rows.
    ///
    /// # Panics
    /// No row matches.
    pub fn break_pages(&self, table: &str, condition: &str) {
        let files = self.run(&format!(
            "CHECKPOINT; SELECT pg_relation_filepath(tableoid), (min(page) + max(page)) / 2 \
             FROM (SELECT tableoid, split_part(trim(both '()' from ctid::text), ',', 1)::int AS page \
             FROM {table} WHERE {condition}) AS rows GROUP BY tableoid"
        ));
        assert!(!files.trim().is_empty(), "no row matches");
        self.server.stop();
        for line in files.lines() {
            let (file, page) = line.split_once('|').unwrap();
            let path = self.server.data().join(file);
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            let page: u64 = page.parse().unwrap();
            file.write_all_at(&[0xa5; 512], page * 8192).unwrap();
        }
        self.server.start();
    }

    /// Logs each statement of connections that begin from now on.
    pub fn log_statements(&self) {
        self.run(&format!("ALTER DATABASE {} SET log_statement = 'all'", self.name));
    }

    /// Logs the plan of each statement of connections that begin from now on.
    pub fn log_plans(&self) {
        let name = &self.name;
        self.run(&format!(
            "ALTER DATABASE {name} SET session_preload_libraries = 'auto_explain'; \
             ALTER DATABASE {name} SET auto_explain.log_min_duration = 0"
        ));
    }

    /// Returns the logged plans, each with its statement. [`TestDatabase::log_plans`] begins it.
    pub fn logged_plans(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.server.folder.path().join("log")).unwrap();
        let mut plans: Vec<String> = Vec::new();
        let mut is_own = false;
        for line in log.lines() {
            match line.strip_prefix('\t') {
                Some(more) if is_own => {
                    if let Some(plan) = plans.last_mut() {
                        plan.push_str(more);
                        plan.push('\n');
                    }
                }
                Some(_) => {}
                None => {
                    let own = line.strip_prefix(&*self.name);
                    is_own = own.is_some_and(|own| own.starts_with(":LOG:  duration: "));
                    is_own &= line.ends_with("plan:");
                    plans.extend(is_own.then(String::new));
                }
            }
        }
        plans
    }

    /// Returns how many statements of this database the server has logged.
    pub fn logged_statements(&self) -> usize {
        self.logged_statements_with("")
    }

    /// Returns how many statements with these words the server has logged for this database.
    pub fn logged_statements_with(&self, words: &str) -> usize {
        let log = std::fs::read_to_string(self.server.folder.path().join("log")).unwrap();
        let is_own = |line: &&str| {
            let own = line.strip_prefix(&*self.name).and_then(|line| line.strip_prefix(":LOG:  "));
            own.is_some_and(|own| own.starts_with("execute ") || own.starts_with("statement: "))
        };
        log.lines().filter(is_own).filter(|line| line.contains(words)).count()
    }

    /// Returns the last statements that the server has logged for this database, each once with how
    /// often it ran, the most frequent first.
    pub fn last_statements(&self, count: usize) -> String {
        let log = std::fs::read_to_string(self.server.folder.path().join("log")).unwrap();
        let own = |line: &str| {
            let own = line.strip_prefix(&*self.name)?.strip_prefix(":LOG:  ")?;
            let (_, text) = own.strip_prefix("execute ").and_then(|own| own.split_once(": "))?;
            Some(text.to_owned())
        };
        let mut counts = std::collections::BTreeMap::<String, usize>::new();
        for text in log.lines().rev().filter_map(own).take(count) {
            *counts.entry(text).or_default() += 1;
        }
        let mut lines: Vec<(usize, String)> =
            counts.into_iter().map(|(text, count)| (count, text)).collect();
        lines.sort_unstable_by(|a, b| b.cmp(a));
        lines.iter().map(|(count, text)| format!("{count} x {text}\n")).collect()
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

/// PgBouncer before a database, which ends when it is dropped.
#[derive(Debug)]
pub struct PgBouncer {
    process: Child,
    address: String,
    _folder: TempDir,
}

impl PgBouncer {
    /// Starts PgBouncer before a database of [`PostgresServer::on_network`], with this `pool_mode`.
    /// `None` as for [`PostgresServer::shared`], if there is no PgBouncer.
    pub fn before(test: &str, database: &TestDatabase, mode: &str) -> Option<Self> {
        let program = Path::new("/usr/sbin/pgbouncer");
        if !program.is_file() {
            skip(test, "PgBouncer");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        hand_over(folder.path());
        let server = database.server().address();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let users = folder.path().join("users");
        std::fs::write(&users, format!("\"{USER}\" \"{PASSWORD}\"\n")).unwrap();
        let settings = folder.path().join("pgbouncer.ini");
        let name = &database.name;
        let text = format!(
            "[databases]\n{name} = host={} port={} dbname={name}\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = plain\nauth_file = {}\npool_mode = {mode}\n",
            server.ip(),
            server.port(),
            users.display(),
        );
        std::fs::write(&settings, text).unwrap();
        let mut command = as_other_user(program);
        command.arg("-q").arg(&settings).current_dir(folder.path());
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = process.spawn().unwrap();
        let host = format!("127.0.0.1:{port}");
        let began = std::time::Instant::now();
        while std::net::TcpStream::connect(&host).is_err() {
            assert!(began.elapsed().as_secs() < 60, "PgBouncer does not start");
        }
        let address = database.network_address(&host, "sslmode=disable");
        Some(Self { process, address, _folder: folder })
    }

    /// The address of the database through PgBouncer, for the user that owns it.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let mut command = self.server.client("dropdb");
        command.args(["--force", &self.name]).stdout(Stdio::null()).stderr(Stdio::null());
        let _ = command.status();
    }
}

/// Returns the folder with the programs of PostgreSQL. `None`, after a line about the test, if
/// there is none.
fn programs_for(test: &str) -> Option<PathBuf> {
    let found = programs();
    if found.is_none() {
        skip(test, "PostgreSQL");
    }
    found
}

/// Says that a test does nothing, since this machine lacks a program.
fn skip(test: &str, program: &str) {
    let is_required = std::env::var_os("STILE_REQUIRE_POSTGRES").is_some();
    assert!(!is_required, "{test} needs {program}, which was not found");
    // The print macros would be captured.
    let line = format!("SKIPPED {test}: there is no {program} on this machine\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
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

/// Gives a file to the user that the server runs as.
fn hand_over(path: &Path) {
    if let Some((uid, gid)) = other_user() {
        std::os::unix::fs::chown(path, Some(uid), Some(gid)).unwrap();
    }
}

fn run(command: &mut Command) {
    let program = command.get_program().to_owned();
    assert!(succeeds(command), "{:?}", OsStr::new(&program));
}

fn succeeds(command: &mut Command) -> bool {
    // A pipe would stay open as long as the server runs.
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
