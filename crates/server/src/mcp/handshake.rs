//! The handshake of the lifecycle with sessions: the revision that both sides then use.

use rmcp::model::{InitializeRequestParams, ProtocolVersion};
use serde::Deserialize as _;
use serde_json::Value;

use super::envelope::{Envelope, INITIALIZE, INVALID_PARAMS, Malformed};
use super::revisions;

/// Returns the revision for a client that asked for `asked`: the same, if it has a handshake and is
/// supported. Clients of the first revisions get the oldest one that is supported, because they may
/// not know a newer one, and all others the newest.
pub(crate) fn agreed_version(asked: &ProtocolVersion) -> ProtocolVersion {
    match asked {
        asked if *asked <= revisions::OLDEST => revisions::OLDEST,
        _ => ProtocolVersion::V_2025_11_25,
    }
}

/// Returns the agreed revision and the name of the client; `None` for any message but an
/// `initialize`.
pub(crate) fn agreed(message: &Envelope) -> Option<(String, String)> {
    if message.method() != Some(INITIALIZE) {
        return None;
    }
    let params = message.members().get("params")?;
    let InitializeRequestParams { protocol_version, client_info, .. } =
        InitializeRequestParams::deserialize(params).ok()?;
    Some((agreed_version(&protocol_version).to_string(), client_info.name))
}

/// Returns the name that a message of the sessionless lifecycle gives its client.
pub(crate) fn calls_itself(message: &Envelope) -> Option<&str> {
    message.param("_meta")?.get("io.modelcontextprotocol/clientInfo")?.get("name")?.as_str()
}

/// Refuses an `initialize` whose parameters the SDK cannot read, and says what it must have. The
/// sessionless lifecycle has no such method, which the SDK says.
///
/// # Errors
/// The error to answer.
pub(crate) fn check(message: &Envelope) -> Result<(), Malformed> {
    if message.method() != Some(INITIALIZE) || !message.is_request() || message.names_version() {
        return Ok(());
    }
    let params = message.members().get("params").unwrap_or(&Value::Null);
    InitializeRequestParams::deserialize(params).map(drop).map_err(|_| Malformed {
        code: INVALID_PARAMS,
        message: "the parameters do not fit initialize: it must have `protocolVersion`, an object \
                  `capabilities`, and `clientInfo` with `name` and `version`"
            .to_owned(),
        id: message.id().cloned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> ProtocolVersion {
        serde_json::from_value(text.into()).unwrap()
    }

    #[test]
    fn the_first_revisions_get_the_oldest_supported_one_and_unknown_ones_the_newest() {
        for (asked, agreed) in [
            ("2024-11-05", "2025-06-18"),
            ("2025-03-26", "2025-06-18"),
            ("2025-06-18", "2025-06-18"),
            ("2025-11-25", "2025-11-25"),
            ("2026-07-28", "2025-11-25"),
            ("2099-01-01", "2025-11-25"),
        ] {
            assert_eq!(agreed_version(&version(asked)), version(agreed), "{asked}");
        }
    }
}
