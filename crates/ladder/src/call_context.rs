//! What a tool call works with: caller, arguments, budgets and resource server.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::Value as Json;
use stile_domain::json::text::ObjectText;
use stile_domain::permit::Principal;
use stile_domain::records::handle::{Handle, RecordPart};
use stile_domain::records::record_id::RecordId;
use stile_domain::records::request::ReadRequest;
use stile_domain::records::sealed_cursor::Binding;
use stile_domain::records::shown_records::{ShownRecords, StreamTally};
use stile_domain::tool_name::ShownTools;

use super::budget::Budgets;
use super::error::LadderError;
use super::json_members::json_object;
use super::port::{RecordServer, caller_name};
use super::text_lines::{escape_line_breaks, next_call};

/// The beginning of the addresses of records.
pub(super) const RECORD_URI: &str = "pdpp://record/";
/// The beginning of the addresses of parts of fields.
pub(super) const WINDOW_URI: &str = "pdpp://field-window/";

/// The longest call that continues a page and is written out. A longer one is described by what
/// differs.
const MAX_CALL_BYTES: usize = 400;

/// The caller, the arguments and the budgets of one call, and the server to ask.
pub struct CallContext {
    server: Arc<dyn RecordServer>,
    caller: Principal,
    arguments: Json,
    caller_name: Arc<str>,
    handle_binding: Binding,
    pub(super) budgets: Budgets,
    /// The records that the requests of this call showed.
    shown: Mutex<ShownRecords>,
    /// How the caller's list spells the tools that find files; `None` if the list has none.
    pub(super) file_tools: Option<ShownTools>,
}

impl CallContext {
    pub(super) fn new(
        server: Arc<dyn RecordServer>,
        budgets: Budgets,
        caller: Principal,
        arguments: Json,
    ) -> Self {
        let caller_name = caller_name(&caller);
        let handle_binding = Binding::new([caller_name.as_ref(), "handle"]);
        let (shown, file_tools) = (Mutex::default(), None);
        Self { server, caller, arguments, caller_name, handle_binding, budgets, shown, file_tools }
    }

    /// Sends a request to the resource server and returns its JSON.
    pub(super) async fn send(
        &self,
        request: impl Into<ReadRequest>,
    ) -> Result<String, LadderError> {
        Ok(self.server.send_counting(&self.caller, request.into(), &self.shown).await?)
    }

    /// Returns how many records of each stream the requests of this call showed.
    pub(super) fn shown(&self) -> Vec<StreamTally> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).tally()
    }

    /// Returns where to remember whether the server finds values within fields; `None` if it does.
    pub(super) fn finds_inner_values(&self) -> Option<&OnceLock<bool>> {
        self.server.finds_inner_values()
    }

    /// Returns a digest of the caller and of `parts`, to which a cursor is bound.
    pub(super) fn binding<'p>(&'p self, parts: impl IntoIterator<Item = &'p str>) -> Binding {
        Binding::new(std::iter::once(self.caller_name.as_ref()).chain(parts))
    }

    /// Returns the digest of the caller to which handles are bound.
    pub(super) fn handle_binding(&self) -> Binding {
        self.handle_binding
    }

    pub(super) fn seal(&self, plain: &[u8]) -> Result<String, LadderError> {
        Ok(self.server.seal(plain)?)
    }

    /// Opens sealed text; `None` if this server did not seal it.
    pub(super) fn unseal(&self, text: &str) -> Option<Vec<u8>> {
        self.server.unseal(text)
    }

    /// Returns the address of a part of a record.
    pub(super) fn uri(&self, id: &RecordId, part: RecordPart) -> Result<String, LadderError> {
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

    /// Returns the arguments of this call with another value for `name`, as compact JSON.
    pub(super) fn arguments_with(&self, name: &str, value: &Json) -> String {
        let mut arguments = ObjectText::new(512);
        for (other, value) in self.arguments.as_object().into_iter().flatten() {
            if other != name && !value.is_null() {
                arguments.put(other, value);
            }
        }
        arguments.put(name, value);
        arguments.finish()
    }

    /// Renders the text line that continues this call's list at a cursor.
    pub(super) fn next_page(&self, tool: &str, cursor: &str) -> String {
        let bytes = MAX_CALL_BYTES.max(cursor.len() + 120);
        self.same_call_within(bytes, tool, ("cursor", cursor.into()), "")
    }

    /// Renders the text line that names this call with another value of one argument.
    pub(super) fn same_call(&self, tool: &str, argument: (&str, Json), note: &str) -> String {
        self.same_call_within(MAX_CALL_BYTES, tool, argument, note)
    }

    fn same_call_within(
        &self,
        bytes: usize,
        tool: &str,
        (name, value): (&str, Json),
        note: &str,
    ) -> String {
        let arguments = self.arguments_with(name, &value);
        let written_out = escape_line_breaks(next_call(tool, &arguments, note));
        if written_out.len() <= bytes {
            return written_out;
        }
        let tool = format!("{tool} with the same arguments and");
        next_call(&tool, &json_object([(name, value)]), note)
    }
}
