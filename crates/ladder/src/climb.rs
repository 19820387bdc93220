//! One call on its way: who makes it, with which arguments, and the server that it asks.

use std::sync::Arc;

use serde_json::{Map, Value as Json};
use stile_domain::permit::Principal;
use stile_domain::records::handle::{Handle, RecordPart};
use stile_domain::records::record_id::RecordId;
use stile_domain::records::sealed_cursor::Binding;

use super::budget::Budgets;
use stile_domain::records::request::ReadRequest;

use super::port::{RecordServer, who};
use super::trouble::Trouble;

/// Where resources of records begin.
pub(super) const RECORD_URI: &str = "pdpp://record/";
/// Where resources of parts of fields begin.
pub(super) const WINDOW_URI: &str = "pdpp://field-window/";

/// One call.
pub(crate) struct Climb<'a> {
    server: &'a dyn RecordServer,
    caller: &'a Principal,
    arguments: &'a Json,
    who: Arc<str>,
    handles: Binding,
    pub(super) budgets: Budgets,
}

impl<'a> Climb<'a> {
    pub(super) fn new(
        server: &'a dyn RecordServer,
        budgets: Budgets,
        caller: &'a Principal,
        arguments: &'a Json,
    ) -> Self {
        let who = who(caller);
        let handles = Binding::new([who.as_ref(), "handle"]);
        Self { server, caller, arguments, who, handles, budgets }
    }

    /// Asks the resource server.
    pub(super) async fn ask(&self, ask: ReadRequest) -> Result<String, Trouble> {
        Ok(self.server.ask(self.caller, ask).await?)
    }

    /// A digest of for whom this is, and of what more is said.
    pub(super) fn binding<'p>(&'p self, parts: impl IntoIterator<Item = &'p str>) -> Binding {
        Binding::new(std::iter::once(self.who.as_ref()).chain(parts))
    }

    /// For whom handles are made.
    pub(super) fn handle_binding(&self) -> Binding {
        self.handles
    }

    /// Seals state.
    pub(super) fn seal(&self, plain: &[u8]) -> Result<String, Trouble> {
        Ok(self.server.seal(plain)?)
    }

    /// Opens sealed state.
    pub(super) fn unseal(&self, text: &str) -> Option<Vec<u8>> {
        self.server.unseal(text)
    }

    /// The address of a part of a record.
    pub(super) fn uri(&self, id: &RecordId, part: RecordPart) -> Result<String, Trouble> {
        let scheme =
            if matches!(part, RecordPart::Fields { .. }) { RECORD_URI } else { WINDOW_URI };
        let handle = Handle {
            caller: self.handle_binding(),
            connection: id.connection.clone().unwrap_or_default(),
            stream: id.stream.clone(),
            key: id.key.clone(),
            part,
        };
        Ok(format!("{scheme}{}", self.seal(&handle.encode())?))
    }

    /// The arguments of this call with another cursor, which go on with it.
    pub(super) fn arguments_with(&self, cursor: &str) -> Json {
        self.arguments_but("cursor", cursor.into())
    }

    /// The arguments of this call with another value of one.
    pub(super) fn arguments_but(&self, name: &str, value: Json) -> Json {
        let mut arguments: Map<String, Json> =
            self.arguments.as_object().cloned().unwrap_or_default();
        arguments.retain(|other, value| other != name && !value.is_null());
        arguments.insert(name.to_owned(), value);
        Json::Object(arguments)
    }
}
