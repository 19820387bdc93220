//! The servers that share a database: how many there are, what they clean up, and whether the
//! database answers.
//!
//! Each server says every few seconds that it is there. Whoever has not said so for a while counts
//! as gone. So every server knows its part of what one user may do at all of them together.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use stile_store::postgresql::PoolUse;
use stile_store::state::{ShortLived, StateError, TokenStore};
use tokio::time::timeout;

use crate::clock::{unix_seconds, wall_clock};

/// The kind of the rows that say that a server is there.
const KIND: &str = "server";
/// How often a server says that it is there.
const EVERY: Duration = Duration::from_secs(5);
/// How long a server counts after it said so, in seconds.
const COUNTS_SECONDS: i64 = 15;
/// How long a probe waits for the database.
const PROBE: Duration = Duration::from_secs(2);

/// The servers that share the database of this one.
#[derive(Debug)]
pub struct Fleet {
    tokens: Arc<TokenStore>,
    /// The name of this server in the database.
    name: String,
    servers: AtomicUsize,
}

impl Fleet {
    /// The servers with the database of `tokens`.
    pub fn new(tokens: Arc<TokenStore>) -> Arc<Self> {
        let name = uuid::Uuid::new_v4().to_string();
        Arc::new(Self { tokens, name, servers: AtomicUsize::new(1) })
    }

    /// A number of servers that nobody counts again.
    #[cfg(test)]
    pub(crate) fn of_servers(tokens: Arc<TokenStore>, servers: usize) -> Arc<Self> {
        Arc::new(Self { tokens, name: String::new(), servers: AtomicUsize::new(servers) })
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

    /// Says that this server is there until the future is dropped, and removes what has ended. An
    /// error is logged; the next round may pass.
    pub async fn keep_up(self: Arc<Self>) {
        loop {
            let fleet = Arc::clone(&self);
            let round = tokio::task::spawn_blocking(move || fleet.round());
            if let Ok(Err(error)) = round.await {
                tracing::warn!(target: "stile::fleet", %error, "the database does not answer");
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    fn round(&self) -> Result<(), StateError> {
        let now = unix_seconds(wall_clock());
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

    /// Removes this server from the servers that are counted.
    pub fn leave(&self) {
        let _ = self.tokens.take_short_lived(KIND, &self.name, unix_seconds(wall_clock()));
    }

    /// Returns whether the database answers within two seconds.
    pub async fn is_ready(self: &Arc<Self>) -> bool {
        let fleet = Arc::clone(self);
        let probe = tokio::task::spawn_blocking(move || {
            fleet.tokens.count_short_lived(KIND, unix_seconds(wall_clock())).is_ok()
        });
        matches!(timeout(PROBE, probe).await, Ok(Ok(true)))
    }
}

#[cfg(test)]
mod tests {
    use stile_store::state::StateDir;

    use super::*;

    #[test]
    fn the_database_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap();
        let fleet = Fleet::new(Arc::new(tokens));
        let pool = PoolUse { name: "read", open: 3, idle: 1, most: 8, refusals: 7 };
        insta::assert_snapshot!(fleet.metrics(&[pool, PoolUse { name: "write", ..pool }]));
    }
}
