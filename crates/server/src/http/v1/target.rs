//! From a request's target to the endpoint that it is for, decoded once.
//!
//! A record key may be any text, so segments are split before they are decoded, and nothing is
//! normalised: a `..` is a segment like any other, and a slash that belongs to a key comes as
//! `%2F`.

use http::{Method, Uri};
use stile_domain::percent;
use stile_domain::records::problem::Problem;
use stile_records::calls::Call;
use stile_records::endpoints::{ENDPOINTS, Endpoint};
use stile_records::list::Address;

use super::method_name;

/// The most parameters of a request.
const MAX_PAIRS: usize = 200;

/// Why a target is for no endpoint.
pub(super) enum Wrong {
    /// Nothing has the path.
    NoPath,
    /// The path is one, with other methods.
    Method(&'static str),
    /// It does not decode.
    Problem(Problem),
}

/// The call that a request is.
pub(super) fn find(method: &Method, uri: &Uri) -> Result<Call, Wrong> {
    let path = uri.path();
    let matching: Vec<(&'static Endpoint, Vec<&str>)> = ENDPOINTS
        .iter()
        .filter_map(|endpoint| Some((endpoint, variables(endpoint.path, path)?)))
        .collect();
    let known = matching.iter().find(|(endpoint, _)| method_name(method) == Some(endpoint.method));
    let Some((endpoint, segments)) = known else {
        return Err(match matching.first() {
            None => Wrong::NoPath,
            Some(_) if matching.iter().any(|(endpoint, _)| endpoint.method == "delete") => {
                Wrong::Method("GET, DELETE")
            }
            Some((endpoint, _)) if endpoint.path.ends_with("{blob_id}") => {
                Wrong::Method("GET, HEAD")
            }
            Some((endpoint, _)) if endpoint.method == "post" => Wrong::Method("POST"),
            Some(_) => Wrong::Method("GET"),
        });
    };
    let wrong = |message: &str| {
        Wrong::Problem(Problem::InvalidRequest { param: None, message: message.to_owned() })
    };
    let decoded: Option<Vec<String>> =
        segments.iter().map(|segment| percent::decode(segment)).collect();
    let mut decoded =
        decoded.ok_or_else(|| wrong("the path is not percent-encoded UTF-8"))?.into_iter();
    // A path has a stream, a record or a blob, or both in this order.
    let stream = if endpoint.path.contains("{stream}") { decoded.next() } else { None };
    let query = uri.query().unwrap_or_default();
    let pairs = pairs(query)
        .ok_or_else(|| wrong("the query is not percent-encoded UTF-8 of at most 200 parameters"))?;
    Ok(Call {
        endpoint,
        stream: stream.unwrap_or_default(),
        key: decoded.next().unwrap_or_default(),
        pairs,
        address: Address { path: path.to_owned(), query: query.to_owned() },
    })
}

/// What stands in a path for the variables of a pattern; none where it is not of that pattern.
fn variables<'p>(pattern: &str, path: &'p str) -> Option<Vec<&'p str>> {
    let mut variables = Vec::new();
    let mut segments = path.split('/');
    for part in pattern.split('/') {
        let segment = segments.next()?;
        if part.starts_with('{') {
            variables.push(segment);
        } else if part != segment {
            return None;
        }
    }
    (segments.next().is_none() && variables.iter().all(|segment| !segment.is_empty()))
        .then_some(variables)
}

/// The parameters of a query, as forms write them (URL Standard, section 5.1).
fn pairs(query: &str) -> Option<Vec<(String, String)>> {
    let parts: Vec<&str> = query.split('&').filter(|part| !part.is_empty()).collect();
    if parts.len() > MAX_PAIRS {
        return None;
    }
    let pairs = parts.into_iter().map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        Some((percent::decode_form(name)?, percent::decode_form(value)?))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(method: &str, target: &str) -> String {
        let method: Method = method.parse().unwrap();
        match find(&method, &target.parse().unwrap()) {
            Ok(call) => {
                format!("{} {:?} {:?} {:?}", call.endpoint.id, call.stream, call.key, call.pairs)
            }
            Err(Wrong::NoPath) => "404".to_owned(),
            Err(Wrong::Method(allowed)) => format!("405 {allowed}"),
            Err(Wrong::Problem(problem)) => format!("{} {problem}", problem.code().1),
        }
    }

    #[test]
    fn every_path_is_an_endpoint_or_an_error() {
        let said: Vec<String> = [
            ("GET", "/v1/streams"),
            ("GET", "/v1/streams/"),
            ("GET", "/v1/streams/messages"),
            ("POST", "/v1/streams/messages"),
            (
                "GET",
                "/v1/streams/messages/records?limit=2&filter%5Ba%5D%5Bgte%5D=1+2%2B3&fields=a,b",
            ),
            ("GET", "/v1/streams/messages/records/a%2Fb%20%E4%B8%AD"),
            ("GET", "/v1/streams/messages/records/.."),
            ("GET", "/v1/streams/messages/records/%2E%2E"),
            ("GET", "/v1/streams/messages/records/a/b"),
            ("GET", "/v1/streams/messages/records/%5B%22a%22,%22b%22%5D/field-window?field=x"),
            ("DELETE", "/v1/streams/messages/records/a"),
            ("PUT", "/v1/streams/messages/records/a"),
            ("DELETE", "/v1/streams/messages/records"),
            ("PUT", "/v1/streams/messages/records"),
            ("GET", "/v1/streams/messages/aggregate?metric=count"),
            ("GET", "/v1/ingest/messages"),
            ("POST", "/v1/ingest/messages"),
            ("GET", "/v1/streams/messages/records/%"),
            ("GET", "/v1/streams/messages/records/%zz"),
            ("GET", "/v1/streams/messages/records/%ff"),
            ("GET", "/v1/streams?connection_id=%ff"),
            ("GET", "/v1/blobs/a%2Fb"),
            ("HEAD", "/v1/blobs/a?connection_id=c"),
            ("HEAD", "/v1/streams"),
            ("PUT", "/v1/blobs/a"),
            ("POST", "/v1/blobs"),
            ("GET", "/v1/blobs"),
            ("GET", "/v1/nothing"),
        ]
        .into_iter()
        .map(|(method, target)| format!("{method} {target}: {}", found(method, target)))
        .collect();
        insta::assert_snapshot!(said.join("\n"));
    }
}
