//! What the tools that walk a folder share: the cursor, times and the order as arguments, the time
//! of a change as a text, and what was not looked into.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::error::Refusal;
use stile_domain::facts::UnixNanos;
use stile_domain::find::time_bound::TimeBound;
use stile_domain::find::walk_cursor::WalkCursor;
use stile_domain::path::SpacePath;
use stile_domain::records::instant::Instant;
use stile_store::space::{FoundOrder, LeftOut, LeftOutReason};

use crate::answer::Answer;

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

// The order in which a walk shows what it found. Without descriptions, so that the schema is plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum OrderArgument {
    Newest,
}

/// Returns the order that a caller asks for.
pub(super) fn order_of(order: Option<OrderArgument>) -> FoundOrder {
    match order {
        Some(OrderArgument::Newest) => FoundOrder::Newest,
        None => FoundOrder::Usual,
    }
}

/// Files that were not looked into for one reason.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LeftOutFiles {
    /// `not_text`; `too_long`; `unreadable`, also while a file changes; `no_path`, a name that no
    /// path can hold; or `not_finished`: go on with `next_cursor`. If nothing fits, also the
    /// condition that left them out: `q`, by a phrase or `-word`; `kinds`; `modified`.
    why: &'static str,
    count: u64,
    /// Whether there may be more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    at_least: bool,
    /// The first of them; of `no_path` its folder.
    first: SpacePath,
}

impl From<LeftOut> for LeftOutFiles {
    fn from(left: LeftOut) -> Self {
        let why = match left.why {
            LeftOutReason::NotText => "not_text",
            LeftOutReason::TooLong => "too_long",
            LeftOutReason::Unreadable => "unreadable",
            LeftOutReason::NoPath => "no_path",
            LeftOutReason::NotFinished => "not_finished",
            LeftOutReason::Terms => "q",
            LeftOutReason::Kinds => "kinds",
            LeftOutReason::Modified => "modified",
        };
        Self { why, count: left.count, at_least: left.is_at_least, first: left.first }
    }
}

impl LeftOutFiles {
    /// Whether a condition of the question left the files out.
    pub(super) fn is_unfit(&self) -> bool {
        ["q", "kinds", "modified"].contains(&self.why)
    }

    /// Returns one line of text: `not_text: 3, first /photos/a.png`.
    pub(super) fn to_line(&self) -> String {
        let more = if self.at_least { "+" } else { "" };
        format!("{}: {}{more}, first {}", self.why, self.count, self.first)
    }
}

/// Says how a list goes on that has more.
pub(super) fn continued_line(next_cursor: Option<&String>) -> Option<String> {
    let say = |cursor| format!("truncated: continue with the same arguments and cursor {cursor}");
    next_cursor.map(say)
}

/// Makes the answer of a walk: the lines, a line about entries that no path can name, and one that
/// says how to go on where the walk did not come to its end.
pub(super) fn walked_answer(
    mut lines: Vec<String>,
    unnameable: u64,
    next_cursor: Option<&String>,
    structure: &impl Serialize,
) -> serde_json::Result<Answer> {
    lines.extend((unnameable > 0).then(|| format!("Names that no path can hold: {unnameable}.")));
    lines.extend(continued_line(next_cursor));
    Answer::with_text(lines.join("\n"), structure)
}

/// Says how many notes were passed over, behind a count; nothing if none was.
pub(super) fn skipped_words(skipped: u64) -> String {
    match skipped {
        0 => String::new(),
        count => format!(", {count} skipped"),
    }
}

/// Whether an answer leaves out a count.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
pub(super) fn is_zero(count: &u64) -> bool {
    *count == 0
}
