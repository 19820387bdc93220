//! Answers the plainest calls of the sessionless lifecycle without the SDK.
//!
//! Such a call has no session, asks for no progress and names no task. The SDK would make a
//! service, a task and several channels for it, and copy the answer from tree to tree
//! (docs/decisions/0011 has figures). Every call that differs in its body or its headers goes to
//! the SDK. A test holds that both ways give the same bytes.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header::ACCEPT};
use rmcp::model::{ClientCapabilities, Implementation};
use serde::Deserialize as _;
use serde_json::{Map, Value};
use stile_tools::answer::{Answer, Structured};
use stile_tools::toolset::{Caller, OnHangUp, UnknownTool};

use super::envelope::{self, Envelope};
use super::revisions::FIRST_SESSIONLESS;
use super::{resources, server_info};
use crate::config::AnswerForms;
use crate::service::Service;

const METHOD: &str = "tools/call";
const META: [&str; 3] = [
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
];

/// A call that can be answered here.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    id: &'a Value,
    name: &'a str,
    arguments: Value,
}

impl<'a> Call<'a> {
    /// Returns the call in a message, if the message and its headers have the plainest form.
    pub(crate) fn of(message: &'a Envelope, headers: &HeaderMap) -> Option<Self> {
        let (members, id) = (message.members(), message.id()?);
        if members.len() != 4 || message.method() != Some(METHOD) {
            return None;
        }
        let params = members.get("params")?.as_object()?;
        let name = params.get("name")?.as_str()?;
        let arguments = match params.get("arguments") {
            None => Value::Null,
            Some(arguments) => Value::Object(arguments.as_object()?.clone()),
        };
        let known = 2 + usize::from(params.contains_key("arguments"));
        let plain = params.len() == known && is_plain(params.get("_meta")?.as_object()?);
        (plain && headers_agree(headers, name)).then_some(Self { id, name, arguments })
    }
}

/// Returns whether `_meta` has the version, the client and the capabilities as the SDK reads them,
/// and nothing that asks for more than an answer.
fn is_plain(meta: &Map<String, Value>) -> bool {
    let [version, client, capabilities] = META.map(|name| meta.get(name));
    meta.len() == META.len()
        && version.and_then(Value::as_str) == Some(FIRST_SESSIONLESS)
        && client
            .is_some_and(|client| client.is_object() && Implementation::deserialize(client).is_ok())
        && capabilities.and_then(Value::as_object).is_some_and(|capabilities| {
            capabilities.is_empty() || ClientCapabilities::deserialize(capabilities).is_ok()
        })
}

/// Returns whether the headers repeat what the body says, each once and in one spelling.
fn headers_agree(headers: &HeaderMap, name: &str) -> bool {
    let is = |header: HeaderName, value: &str| {
        let mut values = headers.get_all(header).iter();
        values.next().map(HeaderValue::as_bytes) == Some(value.as_bytes())
            && values.next().is_none()
    };
    is(HeaderName::from_static("mcp-protocol-version"), FIRST_SESSIONLESS)
        && is(HeaderName::from_static("mcp-method"), METHOD)
        && is(HeaderName::from_static("mcp-name"), name)
        && is(ACCEPT, "application/json, text/event-stream")
        && !headers.keys().any(|header| header.as_str().starts_with("mcp-param-"))
}

/// Returns the answer to a call and its status; `None` for an unknown tool, which the SDK refuses.
/// Drops `held` when the call has ended.
pub(crate) async fn answer(
    call: Call<'_>,
    service: &Service,
    caller: &Caller,
    forms: AnswerForms,
    held: impl Send + 'static,
) -> Option<(StatusCode, String)> {
    let Call { id, name, arguments } = call;
    let answered = match service.on_hang_up(name) {
        OnHangUp::Drop => Ok(service.call(name, arguments, caller).await),
        // A client that hangs up does not stop a task of its own.
        OnHangUp::Finish => {
            let (service, caller, name) = (service.clone(), caller.clone(), name.to_owned());
            let call = async move {
                let answered = service.call(&name, arguments, &caller).await;
                drop(held);
                answered
            };
            tokio::spawn(call).await
        }
    };
    match answered {
        Ok(Ok(answer)) => Some((StatusCode::OK, response(id, &answer, forms))),
        Ok(Err(UnknownTool)) => None,
        // The call is not repeated, because it may have made its change.
        Err(_) => {
            let (message, data) = envelope::incident("a call panicked");
            let body = envelope::error(Some(id), envelope::INTERNAL_ERROR, &message, Some(data));
            Some((StatusCode::INTERNAL_SERVER_ERROR, body.to_string()))
        }
    }
}

fn response(id: &Value, answer: &Answer, forms: AnswerForms) -> String {
    let mut out = begun(id, answer);
    out.push_str("\"resultType\":\"complete\",");
    push_result(&mut out, answer, forms);
    out.push_str(",\"_meta\":");
    out.push_str(server_info::result_meta_text());
    out.push_str("}}");
    out
}

/// Returns the response to a call of a session, as the SDK writes it.
pub(crate) fn session_response(id: &Value, answer: &Answer, forms: AnswerForms) -> String {
    let mut out = begun(id, answer);
    push_result(&mut out, answer, forms);
    out.push_str("}}");
    out
}

fn begun(id: &Value, answer: &Answer) -> String {
    let mut out = String::with_capacity(answer.text.len() * 5 / 2 + 512);
    out.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    out.push_str(&id.to_string());
    out.push_str(",\"result\":{");
    out
}

/// Writes the members of a result that both lifecycles have.
fn push_result(out: &mut String, answer: &Answer, forms: AnswerForms) {
    out.push_str("\"content\":[");
    let has_text = forms.has_text(answer.failure.is_some());
    if has_text {
        out.push_str("{\"type\":\"text\",\"text\":");
        push_json(out, &answer.text);
        out.push('}');
    }
    let media = answer.media.clone().map(resources::media);
    let blocks = media.into_iter().chain(answer.links.iter().map(resources::link));
    for (index, block) in blocks.enumerate() {
        if has_text || index > 0 {
            out.push(',');
        }
        push_json(out, &block);
    }
    out.push(']');
    if forms != AnswerForms::Text {
        out.push_str(",\"structuredContent\":");
        match &answer.structured {
            Structured::SameAsText => out.push_str(&answer.text),
            Structured::Json(json) => out.push_str(json),
            Structured::Tree(value) => push_json(out, value),
        }
    }
    out.push_str(if answer.failure.is_some() { ",\"isError\":true" } else { ",\"isError\":false" });
}

fn push_json<T: serde::Serialize + ?Sized>(out: &mut String, value: &T) {
    // A string and a tree of values always have a spelling.
    out.push_str(&serde_json::to_string(value).unwrap_or_default());
}
