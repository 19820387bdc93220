//! From the method and the target of a request to the operation that answers.
//!
//! Percent-encoding is decoded once. A record key may be any text, so the path is split before its
//! segments are decoded, and no path is normalised: `..` is a segment like any other, and a slash
//! within a key is sent as `%2F`.

use stile_domain::percent;
use stile_domain::records::problem::Problem;

use crate::operation_declaration::{OperationDeclaration, PathVariable};
use crate::request_target::RequestTarget;

/// The greatest number of parameters of a request.
const MAX_PARAMETERS: usize = 200;

/// Why no operation answers a request.
#[derive(Debug)]
pub enum RouteError {
    /// No operation has the path.
    UnknownPath,
    /// Operations have the path, with other methods.
    MethodNotAllowed {
        /// The methods of these operations, as the header `Allow` lists them.
        allowed: String,
    },
    /// The path or the query cannot be decoded.
    Undecodable(Problem),
}

/// Finds the operation for a request among `operations`. `path` and `query` are as they were sent.
pub fn route(
    operations: &[&'static OperationDeclaration],
    method: &str,
    path: &str,
    query: &str,
) -> Result<(&'static OperationDeclaration, RequestTarget), RouteError> {
    let matching: Vec<_> = operations
        .iter()
        .filter_map(|operation| Some((*operation, path_variables(operation.path, path)?)))
        .collect();
    let found = matching.iter().find(|(operation, _)| operation.method.name() == method);
    let Some((operation, variables)) = found else {
        if matching.is_empty() {
            return Err(RouteError::UnknownPath);
        }
        let allowed: Vec<&str> =
            matching.iter().map(|(operation, _)| operation.method.name()).collect();
        return Err(RouteError::MethodNotAllowed { allowed: allowed.join(", ") });
    };
    let undecodable = |message: &str| {
        RouteError::Undecodable(Problem::InvalidRequest {
            param: None,
            message: message.to_owned(),
        })
    };
    let mut target = RequestTarget {
        path: path.to_owned(),
        query: query.to_owned(),
        ..RequestTarget::default()
    };
    for (variable, segment) in variables {
        let text = percent::decode(segment)
            .ok_or_else(|| undecodable("the path is not percent-encoded UTF-8"))?;
        match variable {
            PathVariable::Stream => target.stream = text,
            PathVariable::RecordId | PathVariable::BlobId | PathVariable::TokenId => {
                target.key = text;
            }
            PathVariable::GrantId => target.grant = text,
        }
    }
    target.pairs = query_pairs(query).ok_or_else(|| {
        undecodable("the query is not percent-encoded UTF-8 of at most 200 parameters")
    })?;
    Ok((*operation, target))
}

/// Returns the variables of a declared path with their segments in `path`; `None` if `path` does
/// not have that form.
fn path_variables<'p>(declared: &str, path: &'p str) -> Option<Vec<(PathVariable, &'p str)>> {
    let mut variables = Vec::new();
    let mut segments = path.split('/');
    for part in declared.split('/') {
        let segment = segments.next()?;
        match PathVariable::parse(part) {
            Some(_) if segment.is_empty() => return None,
            Some(variable) => variables.push((variable, segment)),
            None if part != segment => return None,
            None => {}
        }
    }
    segments.next().is_none().then_some(variables)
}

/// Decodes the parameters of a query. *Source*: URL Standard, section 5.1.
fn query_pairs(query: &str) -> Option<Vec<(String, String)>> {
    let parts: Vec<&str> = query.split('&').filter(|part| !part.is_empty()).collect();
    if parts.len() > MAX_PARAMETERS {
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
    use crate::operations::OPERATIONS;

    fn routed(method: &str, target: &str) -> String {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match route(OPERATIONS, method, path, query) {
            Ok((operation, target)) => {
                format!("{} {:?} {:?} {:?}", operation.id, target.stream, target.key, target.pairs)
            }
            Err(RouteError::UnknownPath) => "404".to_owned(),
            Err(RouteError::MethodNotAllowed { allowed }) => format!("405 {allowed}"),
            Err(RouteError::Undecodable(problem)) => format!("{} {problem}", problem.code().1),
        }
    }

    #[test]
    fn every_path_leads_to_an_operation_or_an_error() {
        let routes: Vec<String> = [
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
            ("GET", "/v1/grants"),
            ("GET", "/v1/grants/grt_1"),
            ("DELETE", "/v1/grants/"),
            ("DELETE", "/v1/grants/grt_1/tokens/a-b"),
            ("GET", "/v1/grants/grt_1/tokens"),
            ("PUT", "/v1/streams/messages/declaration?connection_id=c"),
            ("GET", "/v1/introspect?token=x"),
        ]
        .into_iter()
        .map(|(method, target)| format!("{method} {target}: {}", routed(method, target)))
        .collect();
        insta::assert_snapshot!(routes.join("\n"));
    }

    #[test]
    fn every_variable_segment_of_a_declared_path_is_known() {
        for operation in OPERATIONS {
            for segment in operation.path.split('/').filter(|segment| segment.contains('{')) {
                assert!(PathVariable::parse(segment).is_some(), "{segment} of {}", operation.path);
            }
        }
    }
}
