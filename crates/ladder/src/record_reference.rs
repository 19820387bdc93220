//! Which record a caller names, in one of the ways that there are.

use stile_domain::records::handle::{Handle, HandleKind, RecordPart};
use stile_domain::records::problem::CursorProblem;
use stile_domain::records::record_id::RecordId;
use stile_domain::records::sealed_cursor::Binding;

use super::call_context::{CallContext, RECORD_URI};
use super::error::LadderError;

/// A record that a caller named.
#[derive(Clone, Debug)]
pub(super) struct RecordReference {
    /// Which.
    pub(super) id: RecordId,
    /// For whom the address was made that named it, if it was one. Looked at once the read was
    /// allowed.
    pub(super) issued_to: Option<Binding>,
    /// Where that address goes on with the record's fields, if it does.
    pub(super) cursor: Option<String>,
}

impl RecordReference {
    /// The record of an `id`, with the connection that is said beside it.
    ///
    /// # Errors
    /// `invalid_id` and `conflicting_connection_id`, before anything is read.
    pub(super) fn parse(
        context: &CallContext,
        id: &str,
        connection: Option<&str>,
    ) -> Result<Self, LadderError> {
        let (mut id, issued_to, cursor) = match id.strip_prefix(RECORD_URI) {
            Some(handle) => {
                let handle = open_handle(context, handle, HandleKind::Record)?;
                (handle_record(&handle), Some(handle.caller), fields_cursor(handle.part))
            }
            None => {
                let id = RecordId::parse(id)
                    .map_err(|bad| LadderError::call("invalid_id", "id", format!("`id` {bad}")))?;
                (id, None, None)
            }
        };
        match (&id.connection, connection) {
            (Some(own), Some(said)) if own != said => {
                let message =
                    "`id` names another connection than `connection_id`; send one of them";
                return Err(LadderError::call(
                    "conflicting_connection_id",
                    "connection_id",
                    message,
                ));
            }
            (None, Some(said)) => id.connection = Some(said.to_owned()),
            _ => {}
        }
        Ok(Self { id, issued_to, cursor })
    }

    /// Whether the address was made for this caller.
    ///
    /// # Errors
    /// [`CursorProblem::Mismatch`].
    pub(super) fn check_caller(&self, context: &CallContext) -> Result<(), LadderError> {
        match self.issued_to {
            Some(issued_to) if issued_to != context.handle_binding() => {
                Err(LadderError::Cursor(CursorProblem::Mismatch))
            }
            _ => Ok(()),
        }
    }
}

/// What an address stands for; for whom it was made is not looked at yet.
///
/// # Errors
/// [`CursorProblem::Malformed`] or, of an address of the other kind, [`CursorProblem::Mismatch`].
pub(super) fn open_handle(
    context: &CallContext,
    handle: &str,
    kind: HandleKind,
) -> Result<Handle, LadderError> {
    let plain = context.unseal(handle).ok_or(LadderError::Cursor(CursorProblem::Malformed))?;
    Handle::decode(&plain, kind).map_err(LadderError::Cursor)
}

/// The record of an address.
pub(super) fn handle_record(handle: &Handle) -> RecordId {
    let connection = non_empty_connection(Some(handle.connection.clone()));
    RecordId { connection, stream: handle.stream.clone(), key: handle.key.clone() }
}

/// Where an address goes on with a record's fields.
pub(super) fn fields_cursor(part: RecordPart) -> Option<String> {
    match part {
        RecordPart::Fields { cursor } => cursor,
        RecordPart::Window(_) | RecordPart::Bytes { .. } => None,
    }
}

/// A connection as a server or an address names it; one without a name is none.
pub(super) fn non_empty_connection(name: Option<String>) -> Option<String> {
    name.filter(|name| !name.is_empty())
}
