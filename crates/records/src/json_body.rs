//! The short bodies of the owner's requests: JSON documents and forms.

use std::io::{self, BufRead};

use serde::de::DeserializeOwned;
use stile_domain::records::problem::Problem;
use stile_store::files;

use crate::grant_document::MAX_GRANT_DOCUMENT_BYTES;

/// Reads a body to its end.
///
/// # Errors
/// [`Problem::InvalidRequest`] if the body is too long or breaks off.
pub(crate) fn read_body(mut body: &mut dyn BufRead) -> Result<Vec<u8>, Problem> {
    files::read_short(&mut body, MAX_GRANT_DOCUMENT_BYTES).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => invalid_body(format!(
            "the body has more than {MAX_GRANT_DOCUMENT_BYTES} bytes; nothing was changed"
        )),
        _ => invalid_body("the body ended before it was whole; nothing was changed, send it again"),
    })
}

/// Parses a JSON body; an empty one has no members.
///
/// # Errors
/// [`Problem::InvalidRequest`] if a member is unknown, missing or malformed.
pub(crate) fn parse_object<T: DeserializeOwned + Default>(bytes: &[u8]) -> Result<T, Problem> {
    if bytes.trim_ascii().is_empty() {
        return Ok(T::default());
    }
    // A list would be taken for the members in their order.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(invalid_body("the body is not a JSON object; nothing was changed"));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| invalid_body(format!("the body: {error}; nothing was changed")))
}

pub(crate) fn invalid_body(message: impl Into<String>) -> Problem {
    Problem::InvalidRequest { param: None, message: message.into() }
}
