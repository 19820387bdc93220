//! Messages of a client: what the edge takes for one thing is that thing for every other reader
//! too.
//!
//! An input is what a client sends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rmcp::model::{ClientJsonRpcMessage, NumberOrString};
use serde_json::Value;
use stile_domain::json::strict::{self as json, BadJson, MAX_DEPTH};
use stile_fuzz::Shape;
use stile_server::mcp::envelope::{
    Envelope, INVALID_PARAMS, INVALID_REQUEST, Malformed, PARSE_ERROR,
};

fuzz_target!(|input: &[u8]| {
    let read = json::parse(input);
    what_is_read_is_all_that_can_be_read(input, &read);
    let envelope = Envelope::parse(input);
    match read {
        Ok(value) => a_message_is_what_the_contract_calls_one(&value, envelope),
        Err(why) => {
            let malformed = envelope.expect_err("what is no JSON is no message");
            let code = if why == BadJson::Syntax { PARSE_ERROR } else { INVALID_REQUEST };
            assert_eq!((malformed.code, &malformed.id), (code, &None));
            an_answer_says_what_is_wrong(&malformed);
        }
    }
});

fn what_is_read_is_all_that_can_be_read(input: &[u8], read: &Result<Value, BadJson>) {
    let Shape { depth, repeats } = Shape::of(input);
    let ambiguous = repeats || depth > MAX_DEPTH;
    match (serde_json::from_slice::<Value>(input), read) {
        (Ok(value), Ok(read)) => {
            assert!(!ambiguous, "{depth} levels, repeated names: {repeats}");
            assert_eq!(*read, value);
            // Equality passes over the order of names and the sign of zero.
            assert_eq!(read.to_string(), value.to_string());
        }
        (Ok(_), Err(why)) => assert!(ambiguous && *why == BadJson::Ambiguous, "{why:?}"),
        (Err(_), Err(why)) => assert!(ambiguous || *why == BadJson::Syntax, "{why:?}"),
        (Err(error), Ok(_)) => panic!("it is read though {error}"),
    }
}

fn a_message_is_what_the_contract_calls_one(value: &Value, envelope: Result<Envelope, Malformed>) {
    match (slow_message(value), envelope) {
        (Ok(()), Ok(envelope)) => {
            assert_eq!(envelope.id(), value.get("id"));
            assert_eq!(envelope.method().map(Value::from).as_ref(), value.get("method"));
            assert_eq!(
                envelope.is_request(),
                value.get("method").is_some() && value.get("id").is_some()
            );
            let version = value.pointer("/params/_meta/io.modelcontextprotocol~1protocolVersion");
            let named =
                version.is_some_and(Value::is_string) && envelope.method() != Some("initialize");
            assert_eq!(envelope.is_sessionless(), named);
            the_sdk_takes_it_for_the_same(&envelope);
            // What an old client leaves out of its handshake is added, and a null counts as
            // nothing.
            if envelope.method() != Some("initialize") && !value.to_string().contains("null") {
                assert_eq!(
                    envelope.into_value().to_string(),
                    value.to_string(),
                    "it is passed on as it came"
                );
            }
        }
        (Err((code, id)), Err(malformed)) => {
            assert_eq!((malformed.code, malformed.id.as_ref()), (code, id), "{malformed:?}");
            an_answer_says_what_is_wrong(&malformed);
        }
        (slow, envelope) => panic!("{envelope:?} where the contract says {slow:?}"),
    }
}

/// JSON-RPC 2.0 without batches: else the code, and the id where there is one.
fn slow_message(value: &Value) -> Result<(), (i32, Option<&Value>)> {
    let member = |name: &str| value.as_object().and_then(|message| message.get(name));
    let id = member("id").filter(|id| id.is_string() || id.is_i64());
    let params = member("params");
    let is_call = member("method").is_some_and(Value::is_string)
        && member("result").is_none()
        && member("error").is_none();
    let is_result = member("result").is_some_and(Value::is_object)
        && member("error").is_none()
        && member("id").is_some();
    let is_error = member("result").is_none()
        && member("error")
            .is_some_and(|error| error["code"].is_i64() && error["message"].is_string());
    let is_answer = member("method").is_none() && (is_result || is_error);
    if member("jsonrpc") != Some(&"2.0".into()) || member("id") != id || !(is_call || is_answer) {
        return Err((INVALID_REQUEST, id));
    }
    let fit = params.is_none_or(|params| {
        params.is_object() && params.get("cursor").is_none_or(Value::is_string)
    });
    if fit { Ok(()) } else { Err((INVALID_PARAMS, id)) }
}

/// Whatever was checked of a request has to be true of what the SDK then handles.
fn the_sdk_takes_it_for_the_same(envelope: &Envelope) {
    let id = |id: &NumberOrString| Some(serde_json::to_value(id).expect("an id is JSON"));
    match serde_json::from_value::<ClientJsonRpcMessage>(envelope.clone().into_value()) {
        Ok(ClientJsonRpcMessage::Request(request)) => {
            assert_eq!(envelope.id(), id(&request.id).as_ref());
            assert_eq!(envelope.method(), Some(request.request.method()));
        }
        Ok(ClientJsonRpcMessage::Notification(_)) => {
            assert!(envelope.method().is_some() && envelope.id().is_none());
        }
        Ok(ClientJsonRpcMessage::Response(response)) => {
            assert_eq!((envelope.method(), envelope.id()), (None, id(&response.id).as_ref()));
        }
        Ok(ClientJsonRpcMessage::Error(error)) => {
            assert_eq!(
                (envelope.method(), envelope.id()),
                (None, error.id.as_ref().and_then(id).as_ref())
            );
        }
        // It is then refused, which is no fault.
        Err(_) => {}
    }
}

fn an_answer_says_what_is_wrong(malformed: &Malformed) {
    let answer = malformed.to_json();
    assert_eq!(answer.get("id"), malformed.id.as_ref());
    assert_eq!(
        (&answer["jsonrpc"], &answer["error"]["code"]),
        (&"2.0".into(), &malformed.code.into())
    );
    assert!(!malformed.message.is_empty() && malformed.message.len() < 100, "{malformed:?}");
}
