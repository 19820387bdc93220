//! What is said of an answer that is no success, or of none at all.
//!
//! An error object of the resource server is handed on unchanged. Everything else is told in words
//! of our own, of the type `adapter_error`: nothing of a page, an address or the token is repeated.

use http::StatusCode;
use http::header::RETRY_AFTER;
use serde_json::{Map, Value as Json, json};
use stile_domain::records::request::ReadRequest;
use stile_ladder::port::{ErrorResponse, too_large};

use crate::outbound::{OutboundError, OutboundResponse};

/// The longest `Retry-After` that is repeated: a date has 29 characters.
const MAX_RETRY_AFTER: usize = 32;

/// What an answer with another status than 200 says. `token` is the one that was shown, and is not
/// repeated.
pub(super) fn of_answer(answered: &OutboundResponse, token: &str) -> ErrorResponse {
    let said = serde_json::from_slice::<Map<String, Json>>(&answered.body).ok();
    let declined = said
        .and_then(|said| of_body(answered.status, said))
        .filter(|said| !repeats(&said.error, token));
    let mut declined = declined.unwrap_or_else(|| of_status(answered.status));
    if answered.status == StatusCode::TOO_MANY_REQUESTS
        && let Some(when) = retry_after(answered)
        && let Some(Json::String(message)) = declined.error.get_mut("message")
    {
        message.push_str(&format!(" (Retry-After: {when})"));
    }
    declined
}

/// What an error body says, if it is one.
fn of_body(status: StatusCode, mut body: Map<String, Json>) -> Option<ErrorResponse> {
    let status_code = status.as_u16();
    match body.remove("error")? {
        Json::Object(mut error) => {
            // It may be missing, but is a text where it is there.
            if error.get("type").is_some_and(|kind| !kind.is_string()) {
                error.remove("type");
            }
            let is_whole = ["code", "message"]
                .iter()
                .all(|name| error.get(*name).is_some_and(Json::is_string));
            is_whole.then_some(ErrorResponse { status: status_code, error })
        }
        // RFC 6749, section 5.2, which servers of tokens use and RFC 6750 refers to.
        Json::String(code) => {
            let description = body.remove("error_description");
            let message = description.as_ref().and_then(Json::as_str);
            let message = message.map_or_else(|| told_of(status).1, str::to_owned);
            Some(adapter_error(status_code, &code, &message))
        }
        _ => None,
    }
}

/// Whether an error repeats the token, as a server may that quotes what it was sent.
fn repeats(error: &Map<String, Json>, token: &str) -> bool {
    fn holds(value: &Json, token: &str) -> bool {
        match value {
            Json::String(text) => text.contains(token),
            Json::Array(items) => items.iter().any(|item| holds(item, token)),
            Json::Object(members) => {
                members.iter().any(|(name, value)| name.contains(token) || holds(value, token))
            }
            _ => false,
        }
    }
    error.iter().any(|(name, value)| name.contains(token) || holds(value, token))
}

/// What a status alone says.
fn of_status(status: StatusCode) -> ErrorResponse {
    let (code, message) = told_of(status);
    adapter_error(status.as_u16(), code, &message)
}

fn told_of(status: StatusCode) -> (&'static str, String) {
    let number = status.as_u16();
    let (code, what) = match number {
        300..=399 => (
            "provider_redirects",
            "sends requests elsewhere, which are not followed; the user should give its final address as --provider",
        ),
        401 => (
            "token_refused",
            "refuses the token; the user should put a new one into the token file, which is read again then",
        ),
        403 => (
            "provider_forbids",
            "forbids this and does not say why; ask for something else, or ask the user",
        ),
        404 => (
            "provider_has_no_such_path",
            "has nothing at this path; where every call is answered so, the user should check --provider",
        ),
        429 => ("rate_limited", "is asked too often; wait before the next call"),
        500..=599 => {
            ("provider_failed", "failed; try again later, and tell the user if it goes on")
        }
        _ => ("provider_error", "gives an answer that is none of this interface's; tell the user"),
    };
    (code, format!("the resource server {what} (HTTP status {number})"))
}

/// What is said where no answer came.
pub(super) fn of_failure(failed: OutboundError) -> ErrorResponse {
    match failed {
        OutboundError::Timeout => adapter_error(
            504,
            "provider_timeout",
            "the resource server does not answer in time; try again, or ask for less",
        ),
        OutboundError::Unavailable => adapter_error(
            502,
            "provider_unreachable",
            "the resource server cannot be reached, or hung up before its answer was whole; try again later, and tell the \
             user if it goes on",
        ),
        OutboundError::TooLarge => too_large(),
        OutboundError::Encoded => adapter_error(
            502,
            "answer_encoded",
            "the resource server compressed its answer unasked, and it is not unpacked; tell the user",
        ),
        OutboundError::Status(status) => of_status(status),
    }
}

/// What is said of a success whose body is no JSON.
pub(super) fn not_json() -> ErrorResponse {
    adapter_error(
        502,
        "answer_not_json",
        "the resource server's answer is no JSON, so it may not be one; the user should check --provider",
    )
}

/// What is said of a request that no address has room for.
pub(super) fn too_long() -> ErrorResponse {
    adapter_error(
        414,
        "request_too_long",
        "the arguments are too long for one request; send fewer or shorter ones",
    )
}

fn adapter_error(status: u16, code: &str, message: &str) -> ErrorResponse {
    let error = json!({ "type": "adapter_error", "code": code, "message": message });
    ErrorResponse { status, error: error.as_object().cloned().unwrap_or_default() }
}

/// When to ask again: seconds or a date (RFC 9110, section 10.2.3).
fn retry_after(answered: &OutboundResponse) -> Option<String> {
    let value = answered.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let is_one = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" ,:-+".contains(&byte));
    let fits = is_one && !value.is_empty() && value.len() <= MAX_RETRY_AFTER;
    fits.then(|| {
        if value.bytes().all(|byte| byte.is_ascii_digit()) {
            format!("{value} s")
        } else {
            value.to_owned()
        }
    })
}

/// Whether a server may have refused a request for a parameter that it does not know. What codes it
/// has for that is its own affair; the status alone says that the request is wrong.
pub(super) fn is_of_parameters(declined: &ErrorResponse) -> bool {
    matches!(declined.status, 400 | 422)
}

/// Whether it names a parameter that this request has too, or its path, and so would be made of it
/// as well.
pub(super) fn is_of_one(declined: &ErrorResponse, ask: &ReadRequest) -> bool {
    let named = declined.error.get("param").and_then(Json::as_str);
    named.is_some_and(|named| {
        named == "stream" || ask.parameters.iter().any(|(name, _)| name == named)
    })
}

/// Whether it says no more than that something is wrong with a request.
pub(super) fn says_little(declined: &ErrorResponse) -> bool {
    let code = declined.code();
    let is_ours = declined.error.get("type").and_then(Json::as_str) == Some("adapter_error");
    let general = [
        "invalid_request",
        "bad_request",
        "unsupported_query",
        "invalid_query",
        "invalid_argument",
    ];
    is_ours || general.contains(&code) || code.contains("param")
}

/// Whether a refusal says who may not ask or what there is not, which is so whatever the parameters
/// are.
pub(super) fn is_of_what_is_there(declined: &ErrorResponse) -> bool {
    matches!(declined.status, 401 | 403 | 404 | 410)
}

/// Whether a refusal is about one of these parameters.
pub(super) fn names_one(declined: &ErrorResponse, names: &[&str]) -> bool {
    let said = |member: &str| declined.error.get(member).and_then(Json::as_str).unwrap_or_default();
    names.iter().any(|name| said("param") == *name || said("message").contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue};

    fn answered(status: u16, body: &str, retry_after: Option<&'static str>) -> OutboundResponse {
        let headers = retry_after.map(|when| (RETRY_AFTER, HeaderValue::from_static(when)));
        let headers = HeaderMap::from_iter(headers);
        OutboundResponse {
            status: StatusCode::from_u16(status).unwrap(),
            headers,
            body: body.into(),
        }
    }

    fn told(status: u16, body: &str) -> ErrorResponse {
        of_answer(&answered(status, body, None), "the-token")
    }

    #[test]
    fn an_error_object_arrives_unchanged() {
        let error = json!({ "type": "t", "code": "c", "message": "m", "param": "p", "x": { "y": [1, null] } });
        let declined = told(418, &json!({ "error": error, "more": 1 }).to_string());
        assert_eq!((declined.status, Json::Object(declined.error)), (418, error));
    }

    #[test]
    fn a_type_that_is_no_text_is_left_out() {
        for kind in [json!(null), json!(7), json!({ "x": 1 })] {
            let declined = told(
                418,
                &json!({ "error": { "type": kind, "code": "c", "message": "m" } }).to_string(),
            );
            assert_eq!(Json::Object(declined.error), json!({ "code": "c", "message": "m" }));
        }
    }

    #[test]
    fn what_is_no_error_object_is_told_in_our_words() {
        let oauth = told(401, r#"{"error":"invalid_token","error_description":"it expired"}"#);
        assert_eq!(
            Json::Object(oauth.error),
            json!({
                "type": "adapter_error", "code": "invalid_token", "message": "it expired"
            })
        );
        for (status, body, code) in [
            (500, "<html>secret</html>", "provider_failed"),
            (500, "", "provider_failed"),
            (502, r#"{"error":{"code":"secret"#, "provider_failed"),
            (400, r#"{"error":{"code":7,"message":"secret"}}"#, "provider_error"),
            (400, r#"{"error":null}"#, "provider_error"),
            (400, r#"[{"error":{"code":"c","message":"secret"}}]"#, "provider_error"),
            (204, "", "provider_error"),
            (302, "secret", "provider_redirects"),
            (401, "secret", "token_refused"),
            (403, "secret", "provider_forbids"),
            (404, "secret", "provider_has_no_such_path"),
            (429, "secret", "rate_limited"),
        ] {
            let declined = told(status, body);
            assert_eq!((declined.status, declined.code()), (status, code), "{body}");
            assert_eq!(declined.error["type"], "adapter_error");
            assert!(!Json::Object(declined.error).to_string().contains("secret"), "{body}");
        }
    }

    #[test]
    fn security_a_token_that_a_server_repeats_goes_no_further() {
        for error in [
            json!({ "code": "c", "message": "no token the-token" }),
            json!({ "code": "the-token", "message": "m" }),
            json!({ "code": "c", "message": "m", "detail": [{ "the-token": 1 }] }),
            json!("the-token"),
        ] {
            let declined = told(401, &json!({ "error": error }).to_string());
            assert_eq!(declined.code(), "token_refused", "{error}");
            assert!(!Json::Object(declined.error).to_string().contains("the-token"));
        }
    }

    /// Whoever sees a code finds it in the documentation, with what to do.
    #[test]
    fn every_code_is_documented() {
        let page = include_str!("../../../../docs/mcp-provider.md");
        let statuses = (100..600).map(|number| of_status(StatusCode::from_u16(number).unwrap()));
        let failures = [
            OutboundError::Timeout,
            OutboundError::Unavailable,
            OutboundError::TooLarge,
            OutboundError::Encoded,
        ]
        .map(of_failure);
        for declined in statuses.chain(failures).chain([not_json(), too_long()]) {
            assert!(page.contains(&format!("| `{}` |", declined.code())), "{}", declined.code());
        }
    }

    #[test]
    fn when_to_ask_again_is_told() {
        let body = r#"{"error":{"code":"rate_limit_exceeded","message":"slower"}}"#;
        let message = |status, body, when| {
            of_answer(&answered(status, body, when), "the-token").error["message"].clone()
        };
        assert_eq!(message(429, body, Some("7")), "slower (Retry-After: 7 s)");
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(message(429, body, Some(date)), format!("slower (Retry-After: {date})"));
        assert_eq!(message(429, body, Some("<script>")), "slower");
        assert_eq!(message(429, body, None), "slower");
        assert_eq!(message(503, body, Some("7")), "slower");
        assert!(message(429, "", Some("7")).as_str().unwrap().ends_with("(Retry-After: 7 s)"));
    }
}
