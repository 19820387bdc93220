//! Finds the client of a request, and decides where its answer may go.

use stile_domain::sign_in::redirect_uri::RedirectUri;
use stile_store::state::{ClientRecord, StateError};

use super::settings::AuthorizationServer;

impl AuthorizationServer {
    /// Returns a client that may ask; `None` if it is unknown or was ended.
    ///
    /// # Errors
    /// [`StateError`] if the state cannot be read.
    pub fn client(&self, id: &str) -> Result<Option<ClientRecord>, StateError> {
        Ok(self.tokens().find_client(id)?.filter(|client| client.ended.is_none()))
    }
}

/// Returns the address where the answer of a request goes; `None` if the client has not registered
/// the address. A request may leave the address out if the client has exactly one.
pub fn redirect_of(client: &ClientRecord, requested: Option<&str>) -> Option<RedirectUri> {
    let registered = client.redirects.iter().filter_map(|uri| RedirectUri::parse(uri).ok());
    let Some(requested) = requested else {
        let mut registered = registered;
        let only = registered.next()?;
        return (client.redirects.len() == 1).then_some(only);
    };
    let requested = RedirectUri::parse(requested).ok()?;
    registered.into_iter().any(|uri| uri.allows(&requested)).then_some(requested)
}
