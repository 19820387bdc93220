//! Helpers for reading responses: some servers send `null` where others leave a member out.

use serde::de::{Deserialize, DeserializeOwned, Deserializer};

use super::error::LadderError;
use super::list_items;

/// Parses a response.
///
/// # Errors
/// `provider_error` if the response does not follow the interface at `/v1`.
pub(super) fn parse<'t, T: Deserialize<'t>>(response: &'t str) -> Result<T, LadderError> {
    serde_json::from_str(response).map_err(|_| LadderError::invalid_response())
}

/// Parses a response with a list. Returns its items as JSON, and the other members.
///
/// # Errors
/// `provider_error` if the response does not follow the interface at `/v1`.
pub(super) fn parse_list<T: DeserializeOwned>(
    response: &str,
) -> Result<(Vec<&str>, T), LadderError> {
    let list = list_items::split(response).ok_or_else(LadderError::invalid_response)?;
    Ok((list.items, parse(&list.envelope)?))
}

/// Reads a member that may be absent or `null`, for `#[serde(default, deserialize_with =
/// "wire::null_as_default")]`.
///
/// # Errors
/// If the value is neither `null` nor of the type.
pub(super) fn null_as_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
