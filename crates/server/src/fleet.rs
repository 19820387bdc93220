//! The servers that share a database: how many there are, what they clean up, and whether this one
//! can be sent requests.
//!
//! Each server says every few seconds that it is there. Whoever has not said so for a while counts
//! as gone. So every server knows its part of what one user may do at all of them together.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stile_store::postgresql::{Database, PoolUse};
use stile_store::state::{ShortLived, StateError, TokenStore};
use tokio::time::timeout;

use crate::clock::{unix_seconds, wall_clock};

/// The kind of the rows that say that a server is there.
const KIND: &str = "server";
/// How often a server says that it is there.
const EVERY: Duration = Duration::from_secs(5);
/// How much longer the longest time between two rounds is than the shortest, so that servers that
/// started together do not all clean up together.
const JITTER: Duration = Duration::from_millis(1020);
/// How long a server counts after it said so, in seconds.
const COUNTS_SECONDS: i64 = 15;
/// How long a probe, or a server that stops, waits for the database.
const PROBE: Duration = Duration::from_secs(2);

/// The servers that share the database of this one.
#[derive(Debug)]
pub struct Fleet {
    tokens: Arc<TokenStore>,
    /// `None` in tests without a database on PostgreSQL.
    database: Option<Database>,
    /// The name of this server in the database.
    name: String,
    servers: AtomicUsize,
    /// Whether this server said that it goes. A heartbeat that is under way must not come after.
    has_left: Mutex<bool>,
}

impl Fleet {
    /// The servers with the database of `tokens`.
    pub fn new(tokens: Arc<TokenStore>, database: Option<Database>) -> Arc<Self> {
        let name = uuid::Uuid::new_v4().to_string();
        let (servers, has_left) = (AtomicUsize::new(1), Mutex::default());
        Arc::new(Self { tokens, database, name, servers, has_left })
    }

    /// A number of servers that nobody counts again.
    #[cfg(test)]
    pub(crate) fn of_servers(tokens: Arc<TokenStore>, servers: usize) -> Arc<Self> {
        let (name, servers) = (String::new(), AtomicUsize::new(servers));
        Arc::new(Self { tokens, database: None, name, servers, has_left: Mutex::default() })
    }

    /// The tables that all servers share.
    pub fn tokens(&self) -> &TokenStore {
        &self.tokens
    }

    /// Returns the number of servers, which is at least one.
    pub fn servers(&self) -> usize {
        self.servers.load(Ordering::Relaxed).max(1)
    }

    /// Returns the metrics of the database, in the text format of Prometheus.
    pub fn metrics(&self, pools: &[PoolUse]) -> String {
        let mut out = String::from(
            "# HELP stile_servers The servers that share the database.\n\
             # TYPE stile_servers gauge\n",
        );
        // Writing to a string cannot fail.
        let _ = writeln!(out, "stile_servers {}", self.servers());
        let mut series = |name: &str, kind: &str, help: &str, value: fn(&PoolUse) -> u64| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for pool in pools {
                let _ = writeln!(out, "{name}{{pool=\"{}\"}} {}", pool.name, value(pool));
            }
        };
        let help = "Open connections to the database.";
        series("stile_database_connections", "gauge", help, |pool| pool.open as u64);
        let help = "Open connections that no request uses.";
        series("stile_database_idle_connections", "gauge", help, |pool| pool.idle as u64);
        let help = "The most connections that are ever open.";
        series("stile_database_max_connections", "gauge", help, |pool| pool.most as u64);
        let help = "Requests that found no connection.";
        series("stile_database_refusals_total", "counter", help, |pool| pool.refusals);
        out
    }

    /// Says that this server is there until the future is dropped, and removes what has ended. Sets
    /// the clock of this process by the database's. An error is logged; the next round may pass.
    pub async fn keep_up(self: Arc<Self>) {
        loop {
            let fleet = Arc::clone(&self);
            let round = tokio::task::spawn_blocking(move || {
                if let Some(database) = &fleet.database {
                    database.close_worn_connections();
                    // A database that does not answer, or takes no writes, has its line in the log.
                    let Ok(condition) = database.look() else { return Ok(()) };
                    if condition.writes.refusal().is_some() {
                        return Ok(());
                    }
                }
                fleet.round(unix_seconds(wall_clock()))
            });
            if let Ok(Err(error)) = round.await {
                error.log("this server could not say that it is there");
            }
            tokio::time::sleep(EVERY - JITTER / 2 + jitter()).await;
        }
    }

    /// Says that this server is there at `now`, in UTC seconds, and counts the servers.
    fn round(&self, now: i64) -> Result<(), StateError> {
        let has_left = self.has_left.lock().unwrap_or_else(PoisonError::into_inner);
        if *has_left {
            return Ok(());
        }
        let here = ShortLived {
            kind: KIND,
            key: &self.name,
            owner: &self.name,
            value: "",
            ends: now.saturating_add(COUNTS_SECONDS),
        };
        self.tokens.keep_short_lived(here, 1, now)?;
        self.servers.store(self.tokens.count_short_lived(KIND, now)?, Ordering::Relaxed);
        self.tokens.remove_ended(now).map(drop)
    }

    /// Removes this server from the servers that are counted, for good. Waits two seconds for the
    /// database at most: without its word, the others stop to count this server by themselves.
    pub async fn leave(self: &Arc<Self>) {
        let fleet = Arc::clone(self);
        let removal = tokio::task::spawn_blocking(move || {
            let mut has_left = fleet.has_left.lock().unwrap_or_else(PoisonError::into_inner);
            *has_left = true;
            fleet.tokens.take_short_lived(KIND, &fleet.name, unix_seconds(wall_clock())).map(drop)
        });
        if !matches!(timeout(PROBE, removal).await, Ok(Ok(Ok(())))) {
            tracing::warn!(target: "stile::fleet", "the database did not hear that this server stops");
        }
    }

    /// Returns whether requests can be sent to this server: the database answers within two
    /// seconds, and the clocks agree. Also returns what is worth a word if they can.
    ///
    /// # Errors
    /// Why no requests can be sent, for the operator.
    pub async fn readiness(self: &Arc<Self>) -> Result<Option<&'static str>, String> {
        let Some(database) = self.database.clone() else { return Ok(None) };
        let probe = tokio::task::spawn_blocking(move || database.look());
        match timeout(PROBE, probe).await {
            Ok(Ok(Ok(condition))) => match condition.clock_fault() {
                Some(fault) => Err(fault),
                None => Ok(condition.writes.refusal()),
            },
            _ => Err("the database does not answer".to_owned()),
        }
    }
}

/// Returns a random time, at most [`JITTER`].
fn jitter() -> Duration {
    let [byte, ..] = uuid::Uuid::new_v4().into_bytes();
    JITTER * u32::from(byte) / u32::from(u8::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use stile_store::postgresql::Database;
    use stile_store::state::StateDir;
    use stile_testkit::postgres::{PostgresServer, TestDatabase};

    use super::*;
    use crate::http::rate_limit::RateLimit;

    /// Returns how many requests of one user a server accepts at once, of 12 that all servers
    /// together accept.
    fn accepted(server: &Arc<Fleet>) -> usize {
        let (limit, now) =
            (RateLimit::new(12, 12).shared_by(Some(Arc::clone(server))), Instant::now());
        (0..12).filter(|_| limit.take("ann", now).is_ok()).count()
    }

    fn server_on(database: &TestDatabase) -> Arc<Fleet> {
        let opened = Database::open(&database.address()).unwrap();
        Fleet::new(Arc::new(TokenStore::on(&opened)), Some(opened))
    }

    fn leave(server: &Arc<Fleet>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(server.leave());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stops_waits_two_seconds_for_the_database_at_most() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap();
        let fleet = Fleet::of_servers(Arc::new(tokens), 1);
        // A heartbeat that waits for the database.
        let ((locks, locked), (ends, end)) = (mpsc::channel(), mpsc::channel::<()>());
        let waiting = Arc::clone(&fleet);
        let heartbeat = std::thread::spawn(move || {
            let _held = waiting.has_left.lock();
            locks.send(()).unwrap();
            let _ = end.recv();
        });
        locked.recv().unwrap();
        let mut leaving = std::pin::pin!(fleet.leave());
        assert!(futures::poll!(&mut leaving).is_pending());
        tokio::time::advance(PROBE - Duration::from_millis(1)).await;
        assert!(futures::poll!(&mut leaving).is_pending());
        tokio::time::advance(Duration::from_millis(2)).await;
        assert!(futures::poll!(&mut leaving).is_ready());
        drop(ends);
        heartbeat.join().unwrap();
    }

    #[test]
    fn a_server_counts_from_its_first_heartbeat_until_it_leaves_or_is_silent_for_15_seconds() {
        let test = "a_server_counts_from_its_first_heartbeat_until_it_leaves_or_is_silent";
        let Some(postgres) = PostgresServer::shared(test) else { return };
        let database = postgres.database();
        let [one, two, three] = [(); 3].map(|()| server_on(&database));
        let seen = |server: &Arc<Fleet>, now: i64| {
            server.round(now).unwrap();
            (server.servers(), accepted(server))
        };
        assert_eq!(seen(&one, 1000), (1, 12));
        assert_eq!(seen(&two, 1001), (2, 6), "a server that starts counts those that are there");
        assert_eq!((one.servers(), accepted(&one)), (1, 12), "until its next heartbeat");
        assert_eq!(seen(&one, 1005), (2, 6), "the others count a server that started");
        assert_eq!(seen(&three, 1006), (3, 4));
        assert_eq!(seen(&one, 1010), (3, 4));
        // Two says nothing more, as if it was killed.
        assert_eq!(seen(&one, 1015), (3, 4));
        assert_eq!(seen(&one, 1016), (2, 6), "15 seconds after its last heartbeat it is gone");
        assert_eq!(seen(&three, 1017), (2, 6));
        // A server that was only cut off from the database counts again.
        assert_eq!(seen(&two, 1018), (3, 4));
        leave(&two);
        assert_eq!(seen(&one, 1018), (2, 6), "a server that stops is gone at once");
        leave(&three);
        three.round(1019).unwrap();
        assert_eq!(seen(&one, 1019), (1, 12));
        let rows = "SELECT count(*) FROM stile_access.short_lived WHERE kind = 'server'";
        assert_eq!(database.run(rows).trim(), "1", "what ended is removed");
    }

    #[test]
    fn the_database_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap();
        let fleet = Fleet::new(Arc::new(tokens), None);
        let pool = PoolUse { name: "read", open: 3, idle: 1, most: 8, refusals: 7 };
        insta::assert_snapshot!(fleet.metrics(&[pool, PoolUse { name: "write", ..pool }]));
    }
}
