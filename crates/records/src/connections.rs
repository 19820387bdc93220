//! The connection that a request names, and the connections that an error names.

use stile_domain::records::problem::Problem;
use stile_store::records::RecordSource;

/// Returns whether a parameter names the connection.
pub(crate) fn is_connection(parameter: &str) -> bool {
    matches!(parameter, "connection_id" | "connector_instance_id")
}

/// Returns the one source of these.
///
/// # Errors
/// [`Problem::AmbiguousConnection`] if there are several.
pub(crate) fn only_source(sources: &[RecordSource]) -> Result<&RecordSource, Problem> {
    match sources {
        [source] => Ok(source),
        several => Err(Problem::AmbiguousConnection { connections: connection_names(several) }),
    }
}

pub(crate) fn connection_names<'s>(
    sources: impl IntoIterator<Item = &'s RecordSource>,
) -> Vec<String> {
    sources.into_iter().map(|source| source.connection().to_string()).collect()
}
