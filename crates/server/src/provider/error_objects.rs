//! Maps HTTP errors and transport failures of the resource server to error objects.
//!
//! An error object of the resource server is returned unchanged. Everything else becomes an error
//! object of the type `adapter_error`, which repeats nothing of a page, an address or the token.

use http::StatusCode;
use http::header::RETRY_AFTER;
use serde_json::{Map, Value as Json, json};
use stile_domain::records::request::ReadRequest;
use stile_ladder::port::{ErrorResponse, too_large};

use crate::outbound::{OutboundError, OutboundResponse};

/// The longest `Retry-After` that is repeated, in bytes. A date has 29.
const MAX_RETRY_AFTER: usize = 32;

/// Maps a response whose status is not 200. `token` is the token that the request had, which the
/// error object never repeats.
pub(super) fn from_response(response: &OutboundResponse, token: &str) -> ErrorResponse {
    let body = serde_json::from_slice::<Map<String, Json>>(&response.body).ok();
    let declined = body
        .and_then(|body| from_body(response.status, body))
        .filter(|declined| !repeats(&declined.error, token));
    let mut declined = declined.unwrap_or_else(|| from_status(response.status));
    if response.status == StatusCode::TOO_MANY_REQUESTS
        && let Some(when) = retry_after(response)
        && let Some(Json::String(message)) = declined.error.get_mut("message")
    {
        message.push_str(&format!(" (Retry-After: {when})"));
    }
    declined
}

/// Returns the error object of a body; `None` if the body has none.
fn from_body(status: StatusCode, mut body: Map<String, Json>) -> Option<ErrorResponse> {
    let status_code = status.as_u16();
    match body.remove("error")? {
        Json::Object(mut error) => {
            // The type may be missing, and must be a string otherwise.
            if error.get("type").is_some_and(|kind| !kind.is_string()) {
                error.remove("type");
            }
            let is_complete = ["code", "message"]
                .iter()
                .all(|name| error.get(*name).is_some_and(Json::is_string));
            is_complete.then_some(ErrorResponse { status: status_code, error })
        }
        // The form of RFC 6749, section 5.2, which authorization servers use. RFC 6750 refers to
        // this form.
        Json::String(code) => {
            let description = body.remove("error_description");
            let message = description.as_ref().and_then(Json::as_str);
            let message = message.map_or_else(|| code_and_message(status).1, str::to_owned);
            Some(adapter_error(status_code, &code, &message))
        }
        _ => None,
    }
}

/// Returns whether an error object repeats the token. A server may quote what it received.
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

/// Maps a status without a usable body.
fn from_status(status: StatusCode) -> ErrorResponse {
    let (code, message) = code_and_message(status);
    adapter_error(status.as_u16(), code, &message)
}

fn code_and_message(status: StatusCode) -> (&'static str, String) {
    let number = status.as_u16();
    let (code, what) = match number {
        300..=399 => (
            "provider_redirects",
            "redirects requests, and redirects are not followed; the user should give its final \
             address as --provider",
        ),
        401 => (
            "token_refused",
            "refuses the token; the user should put a new one into the token file, which is read \
             again after a refusal",
        ),
        403 => (
            "provider_forbids",
            "forbids this and does not say why; ask for something else, or ask the user",
        ),
        404 => (
            "provider_has_no_such_path",
            "has nothing at this path; if every call gets this answer, the user should check \
             --provider",
        ),
        429 => ("rate_limited", "gets too many requests; wait before the next call"),
        500..=599 => {
            ("provider_failed", "failed; try again later, and tell the user if it goes on")
        }
        _ => ("provider_error", "gives an answer that this interface does not have; tell the user"),
    };
    (code, format!("the resource server {what} (HTTP status {number})"))
}

/// Maps a request that got no response.
pub(super) fn from_failure(failed: OutboundError) -> ErrorResponse {
    match failed {
        OutboundError::Timeout => adapter_error(
            504,
            "provider_timeout",
            "the resource server does not answer in time; try again, or ask for less",
        ),
        OutboundError::Unavailable => adapter_error(
            502,
            "provider_unreachable",
            "the resource server cannot be reached, or hung up before its answer was complete; \
             try again later, and tell the user if it goes on",
        ),
        OutboundError::TooLarge => too_large(),
        OutboundError::Encoded => adapter_error(
            502,
            "answer_encoded",
            "the resource server compressed its answer although the request did not allow that, \
             and the answer is not unpacked; tell the user",
        ),
        OutboundError::Status(status) => from_status(status),
    }
}

/// Maps a success whose body is not JSON.
pub(super) fn not_json() -> ErrorResponse {
    adapter_error(
        502,
        "answer_not_json",
        "the answer is not JSON, so it may not come from a resource server; the user should check \
         --provider",
    )
}

/// Maps a blob that the server redirects to another server, or more than once.
pub(super) fn blob_elsewhere() -> ErrorResponse {
    adapter_error(
        502,
        "blob_elsewhere",
        "the resource server keeps these bytes at another server, to which this program sends \
         nothing; read the record's other fields with `fetch`, and tell the user that this server \
         gives no bytes here",
    )
}

/// Maps a response that is not the range of a blob, from the address that a redirect named. The
/// error repeats nothing of the body, which may be that of another program.
pub(super) fn no_redirected_blob(response: &OutboundResponse) -> ErrorResponse {
    let number = response.status.as_u16();
    let message = format!(
        "the resource server redirects to an address that does not give these bytes (HTTP status \
         {number}); call again, since such addresses expire, and tell the user if it goes on"
    );
    adapter_error(502, "provider_failed", &message)
}

/// Maps a request whose address would be too long.
pub(super) fn request_too_long() -> ErrorResponse {
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

/// Returns when to send the next request: seconds or a date (RFC 9110, section 10.2.3).
fn retry_after(response: &OutboundResponse) -> Option<String> {
    let value = response.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let is_printable =
        value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" ,:-+".contains(&byte));
    let fits = is_printable && !value.is_empty() && value.len() <= MAX_RETRY_AFTER;
    fits.then(|| {
        if value.bytes().all(|byte| byte.is_ascii_digit()) {
            format!("{value} s")
        } else {
            value.to_owned()
        }
    })
}

/// Returns whether the server may have refused a request because of a parameter that it does not
/// know. Servers have different codes for that, so only the status counts.
pub(super) fn may_be_about_parameters(declined: &ErrorResponse) -> bool {
    matches!(declined.status, 400 | 422)
}

/// Returns whether the error names a parameter of `request`, or its path. The server would then
/// refuse `request` too.
pub(super) fn names_parameter_of(declined: &ErrorResponse, request: &ReadRequest) -> bool {
    let named = declined.error.get("param").and_then(Json::as_str);
    named.is_some_and(|named| named == "stream" || request.parameter(named).is_some())
}

/// Returns whether the error says only that something is wrong with the request.
pub(super) fn is_unspecific(declined: &ErrorResponse) -> bool {
    let code = declined.code();
    let is_adapter_error =
        declined.error.get("type").and_then(Json::as_str) == Some("adapter_error");
    let general = [
        "invalid_request", "bad_request", "unsupported_query", "invalid_query", "invalid_argument",
    ];
    is_adapter_error || general.contains(&code) || code.contains("param")
}

/// Returns whether the error is about the caller's access or about something that does not exist.
/// The parameters make no difference to such an error.
pub(super) fn is_about_access(declined: &ErrorResponse) -> bool {
    matches!(declined.status, 401 | 403 | 404 | 410)
}

/// Returns whether the error names one of these parameters.
pub(super) fn names_any(declined: &ErrorResponse, names: &[&str]) -> bool {
    let text = |member: &str| declined.error.get(member).and_then(Json::as_str).unwrap_or_default();
    names.iter().any(|name| text("param") == *name || text("message").contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue};

    fn response(status: u16, body: &str, retry_after: Option<&'static str>) -> OutboundResponse {
        let headers = retry_after.map(|when| (RETRY_AFTER, HeaderValue::from_static(when)));
        let headers = HeaderMap::from_iter(headers);
        OutboundResponse {
            status: StatusCode::from_u16(status).unwrap(),
            headers,
            body: body.into(),
        }
    }

    fn declined(status: u16, body: &str) -> ErrorResponse {
        from_response(&response(status, body, None), "the-token")
    }

    #[test]
    fn an_error_object_of_the_server_is_returned_unchanged() {
        let extra = json!({ "y": [1, null] });
        let error = json!({ "type": "t", "code": "c", "message": "m", "param": "p", "x": extra });
        let declined = declined(418, &json!({ "error": error, "more": 1 }).to_string());
        assert_eq!((declined.status, Json::Object(declined.error)), (418, error));
    }

    #[test]
    fn a_type_that_is_not_a_string_is_left_out() {
        for kind in [json!(null), json!(7), json!({ "x": 1 })] {
            let declined = declined(
                418,
                &json!({ "error": { "type": kind, "code": "c", "message": "m" } }).to_string(),
            );
            assert_eq!(Json::Object(declined.error), json!({ "code": "c", "message": "m" }));
        }
    }

    #[test]
    fn a_body_without_an_error_object_becomes_an_adapter_error() {
        let oauth = declined(401, r#"{"error":"invalid_token","error_description":"it expired"}"#);
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
            let declined = declined(status, body);
            assert_eq!((declined.status, declined.code()), (status, code), "{body}");
            assert_eq!(declined.error["type"], "adapter_error");
            assert!(!Json::Object(declined.error).to_string().contains("secret"), "{body}");
        }
    }

    #[test]
    fn a_token_that_the_server_repeats_is_not_returned() {
        for error in [
            json!({ "code": "c", "message": "no token the-token" }),
            json!({ "code": "the-token", "message": "m" }),
            json!({ "code": "c", "message": "m", "detail": [{ "the-token": 1 }] }),
            json!("the-token"),
        ] {
            let declined = declined(401, &json!({ "error": error }).to_string());
            assert_eq!(declined.code(), "token_refused", "{error}");
            assert!(!Json::Object(declined.error).to_string().contains("the-token"));
        }
    }

    /// The page explains each code, and says what to do.
    #[test]
    fn every_code_is_documented() {
        let page = include_str!("../../../../docs/mcp-provider.md");
        let statuses = (100..600).map(|number| from_status(StatusCode::from_u16(number).unwrap()));
        let failures = [
            OutboundError::Timeout,
            OutboundError::Unavailable,
            OutboundError::TooLarge,
            OutboundError::Encoded,
        ]
        .map(from_failure);
        for declined in
            statuses.chain(failures).chain([not_json(), request_too_long(), blob_elsewhere()])
        {
            assert!(page.contains(&format!("| `{}` |", declined.code())), "{}", declined.code());
        }
    }

    #[test]
    fn an_error_for_too_many_requests_says_when_to_retry() {
        let body = r#"{"error":{"code":"rate_limit_exceeded","message":"slower"}}"#;
        let message = |status, body, when| {
            from_response(&response(status, body, when), "the-token").error["message"].clone()
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
