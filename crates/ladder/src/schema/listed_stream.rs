//! The streams of a response, each with the connections that have it.

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::super::budget::{count_fitting, json_len};
use super::super::wire;

/// The most bytes of a primary key that is shown.
pub(super) const MAX_KEY_BYTES: usize = 1024;
/// The most connections of a stream that are named, and the most bytes of their names. The first
/// one is always named.
const MAX_NAMED: usize = 16;
const MAX_NAMED_BYTES: usize = 512;

#[derive(Deserialize)]
pub(super) struct WireConnector {
    #[serde(default, deserialize_with = "wire::null_as_default")]
    granted_connections: Vec<GrantedConnection>,
    connector_id: Option<String>,
    #[serde(default, deserialize_with = "wire::null_as_default")]
    pub(super) streams: Vec<Map<String, Json>>,
}

#[derive(Deserialize)]
pub(super) struct GrantedConnection {
    pub(super) connection_id: String,
}

/// The connections of a stream: their number, and the first names. There may be thousands.
pub(super) struct Connections {
    pub(super) named: Vec<String>,
    pub(super) count: usize,
}

/// A stream, with the connections of its connector.
pub(super) type ListedStream<'a> = (&'a Connections, &'a Map<String, Json>);

impl WireConnector {
    pub(super) fn connections(&self) -> Connections {
        let granted = || self.granted_connections.iter().map(|granted| &granted.connection_id);
        let all = || {
            granted()
                .chain(self.connector_id.iter().filter(|_| self.granted_connections.is_empty()))
        };
        let named = count_fitting(
            all().take(MAX_NAMED).map(|id| json_len(&id.as_str().into())),
            MAX_NAMED_BYTES,
        )
        .max(1);
        Connections { named: all().take(named).cloned().collect(), count: all().count() }
    }
}

pub(super) fn stream_name(stream: &Map<String, Json>) -> &str {
    stream.get("name").and_then(Json::as_str).unwrap_or_default()
}
