//! `GET /v1/streams/{stream}/records/{id}`: one record.

use stile_domain::records::problem::Problem;
use stile_store::records::{RecordRow, RecordSource};

use super::Reading;
use super::bounded::Cut;
use super::parameters::Parameters;
use super::related;
use super::render::{connection, connections, meta};
use super::sink::ResponseSink;

/// Puts a record.
///
/// # Errors
/// What the grant, the parameters or the database say against it.
pub fn detail(
    reading: Reading<'_>,
    stream: &str,
    key: &str,
    parameters: &Parameters,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let sources = reading.view.sources_of(stream, connection(parameters)?)?;
    related::owner_only(reading, parameters)?;
    let cut = Cut::new(parameters)?;
    let fields = related::fields_of(reading, &sources, parameters)?;
    let wanted = related::relations(reading, &sources, parameters, fields)?;
    let row = the_one(reading, &sources, key)?;
    wanted.put(reading, &sources, &row, &cut, (&mut related::Streams::new(), out))?;
    out.write(&format!(",\"meta\":{}}}", meta(parameters)));
    Ok(())
}

/// The one record with this key.
pub(super) fn the_one(
    reading: Reading<'_>,
    sources: &[RecordSource],
    key: &str,
) -> Result<RecordRow, Problem> {
    let mut rows = reading.view.find_by_key(sources, key)?;
    if rows.len() > 1 {
        let having =
            rows.iter().filter_map(|row| sources.get(row.source).cloned()).collect::<Vec<_>>();
        return Err(Problem::AmbiguousConnection { connections: connections(&having) });
    }
    rows.pop().ok_or(Problem::NotFound)
}
