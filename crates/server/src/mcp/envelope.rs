//! Parses one JSON-RPC message, as far as the edge must understand it before the SDK gets it.
//!
//! The edge decides from the message itself which lifecycle the message belongs to and what it asks
//! for. A message that cannot be understood is answered here and never passed on, so that no odd
//! message evades a check. *Source*: JSON-RPC 2.0 §4 to §6 as MCP narrows it: no batches, ids are
//! strings or integers, `params` are objects.

use serde_json::{Map, Value, json};

use stile_domain::json::strict::{self, BadJson};

/// JSON-RPC: the bytes are not JSON.
pub const PARSE_ERROR: i32 = -32700;
/// JSON-RPC: the JSON is not a message.
pub const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC: the parameters do not fit the method.
pub const INVALID_PARAMS: i32 = -32602;
/// JSON-RPC: the server failed.
pub const INTERNAL_ERROR: i32 = -32603;
/// This server's own code, outside the reserved range: the token's scopes do not allow the call.
pub const INSUFFICIENT_SCOPE: i32 = -31403;
/// This server's own code, outside the reserved range: the session or the access of the caller
/// ended before the request was answered.
pub const ENDED: i32 = -31410;
/// The message of [`ENDED`].
pub const ENDED_TEXT: &str = "the session, or what it was allowed, ended before this request was \
    answered. A change that it asked for may have been made: begin a new session, and look before \
    you send the request again";

/// The method that begins the handshake.
pub const INITIALIZE: &str = "initialize";

/// The member of `_meta` in which a request of the sessionless lifecycle names its version.
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// One JSON object that has the shape of a JSON-RPC message.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    message: Map<String, Value>,
    is_rewritten: bool,
}

/// The error that answers bytes that are not a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Malformed {
    /// The JSON-RPC code of the error.
    pub code: i32,
    /// What is wrong. The text repeats nothing of the bytes.
    pub message: String,
    /// The id of the request, if it could be read.
    pub id: Option<Value>,
}

impl Malformed {
    /// Returns the JSON-RPC error answer.
    pub fn to_json(&self) -> Value {
        error(self.id.as_ref(), self.code, &self.message, None)
    }
}

/// Returns a JSON-RPC error answer. Without an id it has no member `id`, as MCP requires.
pub fn error(id: Option<&Value>, code: i32, message: &str, data: Option<Value>) -> Value {
    let body = match data {
        Some(data) => json!({ "code": code, "message": message, "data": data }),
        None => json!({ "code": code, "message": message }),
    };
    match id {
        Some(id) => json!({ "jsonrpc": "2.0", "id": id, "error": body }),
        None => json!({ "jsonrpc": "2.0", "error": body }),
    }
}

/// Returns the JSON-RPC error answer to a request whose session or access ended before the answer.
pub fn ended(id: Option<&Value>) -> Value {
    error(id, ENDED, ENDED_TEXT, None)
}

/// Logs a fault of this program. Returns the message and the data of the error, which name the
/// incident.
pub fn incident(what: &'static str) -> (String, Value) {
    let incident = stile_store::new_incident();
    tracing::error!(target: "stile::mcp", incident, what, "internal error");
    let message = format!(
        "the server failed (incident {incident}); if it fails again, give the user that number"
    );
    (message, json!({ "code": "internal", "incident": incident }))
}

impl Envelope {
    /// Reads one message.
    ///
    /// # Errors
    /// [`Malformed`], for what is not JSON (−32700), not one JSON-RPC message (−32600), or has
    /// parameters that are not an object (−32602).
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let malformed =
            |code, message: &str, id| Malformed { code, message: message.to_owned(), id };
        let value = strict::parse(bytes).map_err(|error| {
            let code = if error == BadJson::Syntax { PARSE_ERROR } else { INVALID_REQUEST };
            malformed(code, &error.to_string(), None)
        })?;
        let mut message = match value {
            Value::Object(message) => message,
            Value::Array(_) => {
                return Err(malformed(INVALID_REQUEST, "batches are not supported", None));
            }
            _ => return Err(malformed(INVALID_REQUEST, "the message is not an object", None)),
        };
        let id = message.get("id").filter(|id| is_id(id)).cloned();
        let invalid = |what: &str| malformed(INVALID_REQUEST, what, id.clone());
        if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(invalid("`jsonrpc` must be \"2.0\""));
        }
        if message.contains_key("id") && id.is_none() {
            return Err(invalid("`id` must be a string or an integer"));
        }
        match message.get("method") {
            Some(Value::String(_))
                if message.contains_key("result") || message.contains_key("error") =>
            {
                return Err(invalid("the message is both a request and a response"));
            }
            Some(Value::String(_)) => {}
            Some(_) => return Err(invalid("`method` must be a string")),
            None if !is_response(&message) => {
                return Err(invalid("the message is neither a request nor a response"));
            }
            None => {}
        }
        let is_rewritten = leave_out_nulls(&mut message);
        match message.get("params") {
            None => Ok(Self { message, is_rewritten }),
            // The SDK ignores optional parameters that do not parse.
            Some(Value::Object(params))
                if params.get("cursor").is_some_and(|cursor| !cursor.is_string()) =>
            {
                Err(malformed(INVALID_PARAMS, "`cursor` must be a string", id))
            }
            Some(Value::Object(_)) => Ok(Self { message, is_rewritten }),
            Some(_) => Err(malformed(INVALID_PARAMS, "`params` must be an object", id)),
        }
    }

    /// Returns the id; `None` for a notification.
    pub fn id(&self) -> Option<&Value> {
        self.message.get("id")
    }

    /// Returns the method; `None` for a response.
    pub fn method(&self) -> Option<&str> {
        self.message.get("method").and_then(Value::as_str)
    }

    /// Returns whether the message is a request, which asks for an answer.
    pub fn is_request(&self) -> bool {
        self.method().is_some() && self.id().is_some()
    }

    /// Returns the parameter with this name.
    pub fn param(&self, name: &str) -> Option<&Value> {
        self.message.get("params").and_then(|params| params.get(name))
    }

    /// Returns whether the message names its protocol version itself, and so belongs to no session.
    /// Headers do not decide this, because a header could contradict the message.
    pub fn is_sessionless(&self) -> bool {
        self.method() != Some(INITIALIZE) && self.names_version()
    }

    /// Returns whether the message names its protocol version itself.
    pub fn names_version(&self) -> bool {
        let version = self.param("_meta").and_then(|meta| meta.get(VERSION_KEY));
        version.is_some_and(Value::is_string)
    }

    /// Returns all members of the message.
    pub fn members(&self) -> &Map<String, Value> {
        &self.message
    }

    /// Returns whether the message differs from the bytes that it was read from: members that the
    /// client sent as null are left out.
    pub fn is_rewritten(&self) -> bool {
        self.is_rewritten
    }

    /// Returns the whole message as JSON.
    pub fn into_value(self) -> Value {
        Value::Object(self.message)
    }
}

/// Leaves out what a client sent as null in the parameters and their `_meta`, where the protocol
/// knows absent members only. Returns whether something changed. An `initialize` that names no
/// capabilities has none.
fn leave_out_nulls(message: &mut Map<String, Value>) -> bool {
    let is_initialize = message.get("method").and_then(Value::as_str) == Some(INITIALIZE);
    if message.get("params").is_some_and(Value::is_null) {
        message.remove("params");
        return true;
    }
    let Some(params) = message.get_mut("params").and_then(Value::as_object_mut) else {
        return false;
    };
    let mut is_changed = without_nulls(params);
    if let Some(meta) = params.get_mut("_meta").and_then(Value::as_object_mut) {
        is_changed |= without_nulls(meta);
    }
    if is_initialize && !params.contains_key("capabilities") {
        params.insert("capabilities".to_owned(), json!({}));
        is_changed = true;
    }
    is_changed
}

fn without_nulls(members: &mut Map<String, Value>) -> bool {
    let before = members.len();
    members.retain(|_, value| !value.is_null());
    members.len() < before
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64()
}

fn is_response(message: &Map<String, Value>) -> bool {
    match (message.get("result"), message.get("error")) {
        (Some(result), None) => result.is_object() && message.contains_key("id"),
        (None, Some(error)) => {
            error.get("code").is_some_and(Value::is_i64)
                && error.get("message").is_some_and(Value::is_string)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Result<(), (i32, Option<Value>)> {
        Envelope::parse(text.as_bytes())
            .map(drop)
            .map_err(|malformed| (malformed.code, malformed.id))
    }

    #[test]
    fn messages_are_told_from_what_only_looks_like_one() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, Ok(())),
            (r#"{"jsonrpc":"2.0","id":"a","method":"ping","params":{}}"#, Ok(())),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, Ok(())),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Ok(())),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#, Ok(())),
            ("{", Err((PARSE_ERROR, None))),
            ("[]", Err((INVALID_REQUEST, None))),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, Err((INVALID_REQUEST, None))),
            ("7", Err((INVALID_REQUEST, None))),
            ("{}", Err((INVALID_REQUEST, None))),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, Err((INVALID_REQUEST, Some(1.into())))),
            (r#"{"id":1,"method":"ping"}"#, Err((INVALID_REQUEST, Some(1.into())))),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, Err((INVALID_REQUEST, None))),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, Err((INVALID_REQUEST, None))),
            (r#"{"jsonrpc":"2.0","id":9e99,"method":"ping"}"#, Err((INVALID_REQUEST, None))),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, Err((INVALID_REQUEST, None))),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, Err((INVALID_REQUEST, Some(1.into())))),
            (r#"{"jsonrpc":"2.0","id":1}"#, Err((INVALID_REQUEST, Some(1.into())))),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
                Err((INVALID_REQUEST, Some(1.into()))),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
                Err((INVALID_REQUEST, Some(1.into()))),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
                Err((INVALID_PARAMS, Some(1.into()))),
            ),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"a"}}"#, Ok(())),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":7}}"#,
                Err((INVALID_PARAMS, Some(1.into()))),
            ),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","id":2}"#, Err((INVALID_REQUEST, None))),
        ] {
            assert_eq!(code(text), expected, "{text}");
        }
    }

    #[test]
    fn parameters_that_are_null_are_as_if_absent() {
        for (sent, read) in [
            (r#""method":"tools/list","params":null"#, r#""method":"tools/list""#),
            (
                r#""method":"tools/list","params":{"cursor":null,"_meta":{"progressToken":null}}"#,
                r#""method":"tools/list","params":{"_meta":{}}"#,
            ),
            (
                r#""method":"tools/call","params":{"name":"a","arguments":{"b":null}}"#,
                r#""method":"tools/call","params":{"name":"a","arguments":{"b":null}}"#,
            ),
            (
                r#""method":"initialize","params":{"capabilities":null}"#,
                r#""method":"initialize","params":{"capabilities":{}}"#,
            ),
            (
                r#""method":"initialize","params":{}"#,
                r#""method":"initialize","params":{"capabilities":{}}"#,
            ),
        ] {
            let whole = |members: &str| format!(r#"{{"jsonrpc":"2.0","id":1,{members}}}"#);
            let message = Envelope::parse(whole(sent).as_bytes()).unwrap();
            assert_eq!(message.is_rewritten(), sent != read, "{sent}");
            let expected: Value = serde_json::from_str(&whole(read)).unwrap();
            assert_eq!(message.into_value(), expected, "{sent}");
        }
    }

    #[test]
    fn the_lifecycle_is_read_from_the_message_and_initialize_always_has_a_session() {
        let sessionless = |method: &str, meta: &str| {
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"_meta":{meta}}}}}"#
            );
            Envelope::parse(text.as_bytes()).unwrap().is_sessionless()
        };
        let version = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        assert!(sessionless("tools/list", version));
        assert!(!sessionless("initialize", version));
        assert!(!sessionless("tools/list", "{}"));
        assert!(!sessionless("tools/list", r#"{"io.modelcontextprotocol/protocolVersion":7}"#));
    }
}
