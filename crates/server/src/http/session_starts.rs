//! How sessions began that this process did not open, or that were idle for long.
//!
//! The SDK asks for it when a session is named that it does not know, and continues that session.
//! The endpoint has checked before whose the session is.

use std::sync::Arc;

use rmcp::model::{ClientCapabilities, Implementation, InitializeRequestParams};
use rmcp::transport::streamable_http_server::session::{
    SessionState, SessionStore, SessionStoreError,
};
use serde_json::Value;

use super::kept_sessions::KeptSessions;

/// The beginnings of the sessions in the state.
pub(super) struct SessionStarts {
    kept: Arc<KeptSessions>,
}

impl SessionStarts {
    /// Reads the beginnings from `kept`.
    pub(super) fn new(kept: Arc<KeptSessions>) -> Self {
        Self { kept }
    }
}

#[async_trait::async_trait]
impl SessionStore for SessionStarts {
    async fn load(&self, session: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let Some(session) = self.kept.find(session).await? else { return Ok(None) };
        // Nothing here asks what a client can do, or which version it has.
        let client = Implementation::new(session.client, "");
        let revision = serde_json::from_value(Value::String(session.revision))?;
        let begun = InitializeRequestParams::new(ClientCapabilities::default(), client)
            .with_protocol_version(revision);
        Ok(Some(SessionState::new(begun)))
    }

    /// Does nothing: the endpoint keeps a session, since it knows whose it is.
    async fn store(&self, _: &str, _: &SessionState) -> Result<(), SessionStoreError> {
        Ok(())
    }

    /// Does nothing: the endpoint ends a session.
    async fn delete(&self, _: &str) -> Result<(), SessionStoreError> {
        Ok(())
    }
}
