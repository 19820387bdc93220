//! What the tools that walk a folder share: the cursor, times and the order as arguments, and the
//! time of a change as a text.

use schemars::JsonSchema;
use serde::Deserialize;
use stile_domain::error::Refusal;
use stile_domain::facts::UnixNanos;
use stile_domain::find::time_bound::TimeBound;
use stile_domain::find::walk_cursor::WalkCursor;
use stile_domain::path::SpacePath;
use stile_domain::records::instant::Instant;
use stile_store::space::FoundOrder;

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

/// Reads the argument `name`: a date, a time or an age.
pub(super) fn bound_of(name: &str, text: Option<&str>) -> Result<Option<TimeBound>, Refusal> {
    let wrong = || {
        Refusal::invalid_argument(format!(
            "`{name}` must be a date or a time in UTC, such as `2026-03-01` or \
             `2026-03-01T08:00:00Z`, or an age such as `7d`, `12h` or `90m`"
        ))
    };
    text.map(|text| TimeBound::parse(text).ok_or_else(wrong)).transpose()
}

/// In which order a walk shows what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum OrderArgument {
    /// Files that were changed last first.
    Newest,
}

/// Returns the order that a caller asks for.
pub(super) fn order_of(order: Option<OrderArgument>) -> FoundOrder {
    match order {
        Some(OrderArgument::Newest) => FoundOrder::Newest,
        None => FoundOrder::Usual,
    }
}
