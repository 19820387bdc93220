//! Finds the client of a request, and decides where its answer may go.

use stile_domain::sign_in::redirect_uri::RedirectUri;
use stile_store::state::{ClientKind, ClientRecord, StateError};

use super::settings::AuthorizationServer;

impl AuthorizationServer {
    /// Returns a client that may ask; `None` if it is unknown. One whose access the owner has ended
    /// may ask again, and the owner decides again.
    ///
    /// # Errors
    /// [`StateError`] if the state cannot be read.
    pub fn client(&self, id: &str) -> Result<Option<ClientRecord>, StateError> {
        Ok(self.tokens().find_client(id)?.or_else(|| self.seals.open(id)))
    }
}

/// Returns the address where the answer of a request goes; `None` if the client has not registered
/// the address. A request may leave the address out if the client has exactly one.
pub fn redirect_of(client: &ClientRecord, requested: Option<&str>) -> Option<RedirectUri> {
    let parse = match client.kind {
        ClientKind::Added => RedirectUri::parse_of_owner,
        ClientKind::Registered | ClientKind::Document => RedirectUri::parse,
    };
    let registered = client.redirects.iter().filter_map(|uri| parse(uri).ok());
    let Some(requested) = requested else {
        let mut registered = registered;
        let only = registered.next()?;
        return (client.redirects.len() == 1).then_some(only);
    };
    let requested = parse(requested).ok()?;
    registered.into_iter().any(|uri| uri.allows(&requested)).then_some(requested)
}
