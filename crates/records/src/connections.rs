//! The connection that a request names, and the connections that an error names.

use stile_domain::records::problem::Problem;
use stile_store::records::RecordSource;

use crate::parameters::Parameters;

/// Returns whether a parameter names the connection.
pub(crate) fn is_connection(parameter: &str) -> bool {
    matches!(parameter, "connection_id" | "connector_instance_id")
}

/// Returns the connection that the request names as `connection_id` or by that parameter's old
/// name.
///
/// # Errors
/// [`Problem::InvalidRequest`] if the request sends both names with different values.
pub(crate) fn requested_connection(parameters: &Parameters) -> Result<Option<&str>, Problem> {
    let (name, alias) =
        (parameters.text("connection_id"), parameters.text("connector_instance_id"));
    if let (Some(name), Some(alias)) = (name, alias)
        && name != alias
    {
        let message = "`connection_id` and `connector_instance_id` are one parameter and differ; send one of them";
        return Problem::refuse("connection_id", message);
    }
    Ok(name.or(alias))
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
