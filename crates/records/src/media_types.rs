//! The media types that answers name.

pub(crate) const TEXT: &str = "text/plain";
/// Any value that is not a text, rendered as JSON.
pub(crate) const JSON: &str = "application/json";
/// Bytes whose type is unknown, or on which the records disagree.
pub(crate) const OCTET_STREAM: &str = "application/octet-stream";
