//! What clients said when they opened sessions, for the other servers that share a database.
//!
//! The SDK asks for it when a session is named that it does not know, and continues that session.

use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::streamable_http_server::session::{
    SessionState, SessionStore, SessionStoreError,
};
use stile_store::state::{ShortLived, StateError, TokenStore};

use crate::clock::{unix_seconds, wall_clock};
use crate::fleet::Fleet;

/// The kind of the rows that have what a client said.
pub const KIND: &str = "session start";
/// The most sessions whose beginnings are kept under one key, which is the session itself.
const MOST: usize = 1;

/// The beginnings of sessions in the database.
pub struct SessionStarts {
    fleet: Arc<Fleet>,
    idle: Duration,
}

impl SessionStarts {
    /// Keeps each beginning as long as its session may be idle.
    pub fn new(fleet: Arc<Fleet>, idle: Duration) -> Self {
        Self { fleet, idle }
    }

    async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&TokenStore) -> Result<T, StateError> + Send + 'static,
    ) -> Result<T, SessionStoreError> {
        let fleet = Arc::clone(&self.fleet);
        Ok(tokio::task::spawn_blocking(move || ask(fleet.tokens())).await??)
    }
}

#[async_trait::async_trait]
impl SessionStore for SessionStarts {
    async fn load(&self, session: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let session = session.to_owned();
        let now = unix_seconds(wall_clock());
        let found = self.ask(move |tokens| tokens.find_short_lived(KIND, &session, now)).await?;
        Ok(found.map(|(text, _)| serde_json::from_str(&text)).transpose()?)
    }

    async fn store(&self, session: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        let (session, value) = (session.to_owned(), serde_json::to_string(state)?);
        let now = unix_seconds(wall_clock());
        let idle = i64::try_from(self.idle.as_secs()).unwrap_or(i64::MAX);
        let ends = now.saturating_add(idle);
        self.ask(move |tokens| {
            let owner = &session;
            let new = ShortLived { kind: KIND, key: &session, owner, value: &value, ends };
            tokens.keep_short_lived(new, MOST, now).map(drop)
        })
        .await
    }

    async fn delete(&self, session: &str) -> Result<(), SessionStoreError> {
        let session = session.to_owned();
        let now = unix_seconds(wall_clock());
        self.ask(move |tokens| tokens.take_short_lived(KIND, &session, now).map(drop)).await
    }
}
