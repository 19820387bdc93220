//! What resource servers tell, as it is read: some write `null` where others leave a member out.

use serde::de::{Deserialize, Deserializer};

/// A member that may be missing, where `null` is the same: for `#[serde(default, deserialize_with =
/// "wire::null_as_default")]`.
///
/// # Errors
/// Where it is neither `null` nor what it should be.
pub(super) fn null_as_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
