//! Clients whose identifier is the address of their document: the document is fetched before such a
//! client's request is read, and what it says is stored as a client.
//!
//! Only requests with which a sign-in begins come here, and a token is made from what is stored. So
//! nobody waits for another host while tokens are made, and a client that is known stays known
//! while its document cannot be fetched.

use std::sync::Arc;

use stile_domain::sign_in::client_id_url::ClientIdUrl;
use stile_domain::sign_in::client_metadata::{ClientMetadata, ClientName};
use stile_store::state::{ClientKind, ClientRecord};

use super::client_documents::{AskedBy, DocumentError};
use super::oauth_error::{OAuthError, OAuthErrorCode};
use super::settings::AuthorizationServer;
use super::web_request::WebRequest;
use crate::pages::browser_session::BrowserSession;

impl AuthorizationServer {
    /// Fetches the document of a client if its identifier is an address, and stores what it says.
    /// Does nothing for other identifiers, or if this server fetches no documents.
    ///
    /// # Errors
    /// The identifier is no address that is fetched; the document could not be fetched and the
    /// client is not known; or the document does not describe the client.
    pub async fn refresh_client(
        self: &Arc<Self>,
        id: &str,
        request: &WebRequest,
    ) -> Result<(), OAuthError> {
        let Some(documents) = self.settings.documents.as_ref() else { return Ok(()) };
        if !ClientIdUrl::is_address(id) {
            return Ok(());
        }
        let refuse = |why: String| {
            OAuthError::new(OAuthErrorCode::InvalidClient, why.replace(['`', '"', '\\'], ""))
        };
        let url = ClientIdUrl::parse(id).map_err(|bad| refuse(bad.to_string()))?;
        let is_known = {
            let (server, url) = (Arc::clone(self), url.clone());
            let request = request.clone();
            // The state is on the disk.
            let known = tokio::task::spawn_blocking(move || server.is_known(&url, &request));
            known.await.unwrap_or_default()
        };
        let asked_by = if is_known {
            AskedBy::Known
        } else {
            self.take_turn(&request.address)?;
            AskedBy::Stranger(&request.address)
        };
        let looked_up = documents.look_up(&url, asked_by).await;
        let server = Arc::clone(self);
        // The state is on the disk.
        let stored = tokio::task::spawn_blocking(move || match looked_up {
            Ok(metadata) => server.store_document(&url, &metadata),
            Err(DocumentError::NotFetched(error)) => {
                tracing::debug!(%error, "the document of a client was not fetched");
                let known = server.client(url.as_str()).map_err(OAuthError::of_state)?;
                known.map(drop).ok_or_else(|| refuse(error.to_string()))
            }
            Err(error @ DocumentError::Refused(_)) => Err(refuse(error.to_string())),
        });
        stored.await.unwrap_or_else(|error| Err(OAuthError::of_state(error)))
    }

    /// Returns whether the owner has approved the client of a document, or sends the request.
    fn is_known(&self, url: &ClientIdUrl, request: &WebRequest) -> bool {
        let client = self.tokens().find_client(url.as_str()).ok().flatten();
        client.is_some_and(|client| client.used.is_some())
            || BrowserSession::of(self, request).is_some()
    }

    /// Stores what a document says, if that is not stored yet.
    fn store_document(
        &self,
        url: &ClientIdUrl,
        metadata: &ClientMetadata,
    ) -> Result<(), OAuthError> {
        let known = self.tokens().find_client(url.as_str()).map_err(OAuthError::of_state)?;
        let name = metadata.name.as_ref().map_or(url.host(), ClientName::as_str);
        let redirects: Vec<String> =
            metadata.redirect_uris.iter().map(|uri| uri.as_str().to_owned()).collect();
        if known.is_some_and(|known| known.name == name && known.redirects == redirects) {
            return Ok(());
        }
        let client = ClientRecord {
            id: url.as_str().to_owned(),
            kind: ClientKind::Document,
            name: name.to_owned(),
            redirects,
            created: self.now(),
            used: None,
            ended: None,
        };
        self.tokens().store_client(&client).map_err(OAuthError::of_state)
    }
}
