//! The record that a caller names, by identifier or by handle.

use stile_domain::records::handle::{Handle, HandleKind, RecordPart};
use stile_domain::records::problem::CursorProblem;
use stile_domain::records::record_id::RecordId;
use stile_domain::records::sealed_cursor::Binding;

use super::call_context::{CallContext, RECORD_URI};
use super::error::LadderError;

/// A record that a caller named.
#[derive(Clone, Debug)]
pub(super) struct RecordReference {
    pub(super) id: RecordId,
    /// The caller that the handle was issued to, if a handle named the record. Compared after the
    /// read is authorised.
    pub(super) issued_to: Option<Binding>,
    /// The cursor within the handle, with which the record's fields continue.
    pub(super) cursor: Option<String>,
}

impl RecordReference {
    /// Parses an `id`, with the connection from `connection_id`.
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
            (Some(own), Some(given)) if own != given => {
                let message =
                    "`id` names another connection than `connection_id`; send one of them";
                return Err(LadderError::call(
                    "conflicting_connection_id", "connection_id", message,
                ));
            }
            (None, Some(given)) => id.connection = Some(given.to_owned()),
            _ => {}
        }
        Ok(Self { id, issued_to, cursor })
    }

    /// Checks that the handle was issued to this caller.
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

/// Opens a handle. Does not check the caller that the handle was issued to.
///
/// # Errors
/// [`CursorProblem::Malformed`]; [`CursorProblem::Mismatch`] for a handle of the other kind.
pub(super) fn open_handle(
    context: &CallContext,
    handle: &str,
    kind: HandleKind,
) -> Result<Handle, LadderError> {
    let plain = context.unseal(handle).ok_or(LadderError::Cursor(CursorProblem::Malformed))?;
    Handle::decode(&plain, kind).map_err(LadderError::Cursor)
}

/// Returns the record that a handle names.
pub(super) fn handle_record(handle: &Handle) -> RecordId {
    let connection = non_empty_connection(Some(handle.connection.clone()));
    RecordId { connection, stream: handle.stream.clone(), key: handle.key.clone() }
}

/// Returns the cursor with which a handle continues the record's fields.
pub(super) fn fields_cursor(part: RecordPart) -> Option<String> {
    match part {
        RecordPart::Fields { cursor } => cursor,
        RecordPart::Window(_) | RecordPart::Bytes { .. } => None,
    }
}

/// Returns a connection, or `None` if its name is empty.
pub(super) fn non_empty_connection(name: Option<String>) -> Option<String> {
    name.filter(|name| !name.is_empty())
}
