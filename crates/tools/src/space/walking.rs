//! What the tools that walk a folder share: the cursor as an argument, and the time of a change as
//! a text.

use stile_domain::error::Refusal;
use stile_domain::facts::UnixNanos;
use stile_domain::find::walk_cursor::WalkCursor;
use stile_domain::path::SpacePath;
use stile_domain::records::instant::Instant;

/// Reads the argument `cursor`. `query` is all other arguments in any form that is the same for the
/// same arguments.
pub(super) fn cursor_of(text: Option<&str>, query: &str) -> Result<WalkCursor, Refusal> {
    match text {
        None => Ok(WalkCursor::default()),
        Some(text) => WalkCursor::decode(text, query)
            .map_err(|error| Refusal::invalid_argument(error.to_string())),
    }
}

/// Returns the folder that a walk goes through if the caller names none.
pub(super) fn whole_space() -> SpacePath {
    SpacePath::root()
}

/// Returns the time of a change as RFC 3339 in UTC, in whole seconds.
pub(super) fn modified_text(nanos: UnixNanos) -> String {
    Instant(nanos.div_euclid(1_000_000_000) * 1_000_000).to_rfc3339()
}

/// Reads the argument `name`, a date or a time.
pub(super) fn time_of(name: &str, text: Option<&str>) -> Result<Option<UnixNanos>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    let wrong = || {
        Refusal::invalid_argument(format!(
            "`{name}` must be a date or a time in UTC, such as `2026-03-01` or \
             `2026-03-01T08:00:00Z`"
        ))
    };
    let Instant(micros) = Instant::parse(text).ok_or_else(wrong)?;
    Ok(Some(micros.saturating_mul(1000)))
}
