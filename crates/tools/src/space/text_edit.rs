//! `text.edit`: several replacements in one file, all or none.

use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::edit::{EditError, Within};
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::journal::CallTrace;
use stile_domain::limits::MAX_EDITS;
use stile_domain::lines::LineRange;
use stile_domain::path::{FilePath, SpacePath};
use stile_domain::permit::{Edit, Gate, Permit};
use stile_domain::text_diff::{UnifiedDiff, unified_diff};
use stile_domain::text_edits::{self, Occurrences, TextEdit};
use stile_domain::tool_name::ShownTools;
use stile_store::space::{NewText, Space};

use super::text_read::{stated_encoding, wanted_section};
use crate::answer::Answer;
use crate::tool::{Output, Tool};

/// Replace several texts in a file that you have read, as one change: all or none. Each `old` is
/// any text that occurs exactly once in what the edits before it left.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditText {
    /// Which file.
    path: FilePath,
    /// Its `hash`.
    hash: ContentHash,
    /// The replacements, in order.
    #[schemars(length(min = 1, max = 64))]
    edits: Vec<EditArgument>,
    /// Only check the edits and show the diff.
    #[serde(default)]
    dry_run: bool,
    /// As read.
    encoding: Option<String>,
}

/// One replacement.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditArgument {
    /// The text to replace, every character of it: a part of a line, or several lines.
    #[schemars(length(min = 1))]
    old: String,
    /// What takes its place; empty to delete it.
    new: String,
    /// `[start, end]` within which to look, as in `text.read`.
    lines: Option<LineRange>,
    /// The section within which to look, as in `text.read`.
    section: Option<String>,
    /// Replace each occurrence.
    #[serde(default)]
    all: bool,
}

/// A text file that was edited.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TextEdited {
    /// Its canonical path.
    path: SpacePath,
    /// The new hash, which the next change needs; with `dry_run` what it would be.
    hash: ContentHash,
    /// The new size.
    size_bytes: u64,
    /// How many lines it has now.
    total_lines: u64,
    /// Whether the file was written.
    written: bool,
    /// What changed, as a unified diff.
    diff: String,
    /// How many lines of the diff are left out at its end.
    #[serde(skip_serializing_if = "is_zero")]
    diff_lines_left_out: usize,
    #[serde(skip)]
    base: Option<ContentHash>,
    #[serde(skip)]
    changed_lines: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Output for TextEdited {
    /// Renders the diff as it is under one header line, for a client that shows only text.
    fn render(self, _: ShownTools) -> serde_json::Result<Answer> {
        let what = if self.written { "changed" } else { "not written, only checked" };
        let mut text = format!(
            "{} {what}, hash {}, {} lines\n{}",
            self.path, self.hash, self.total_lines, self.diff
        );
        if self.diff_lines_left_out > 0 {
            text.push_str(&format!("… {} more lines", self.diff_lines_left_out));
        }
        Answer::with_text(text, &self)
    }

    fn versions(&self) -> (Option<ContentHash>, Option<ContentHash>) {
        (self.base, self.written.then_some(self.hash))
    }

    fn changed_lines(&self) -> Option<u64> {
        self.written.then_some(self.changed_lines)
    }
}

/// Returns where to look for the text of an edit; `None` if the caller does not say.
pub(super) fn within(
    path: &SpacePath,
    lines: Option<LineRange>,
    section: Option<&str>,
) -> Result<Option<Within>, Refusal> {
    match (lines, section) {
        (Some(_), Some(_)) => {
            Err(Refusal::invalid_argument("`lines` and `section` exclude each other"))
        }
        (lines, None) => Ok(lines.map(Within::Lines)),
        (None, Some(section)) => wanted_section(path, section).map(Within::Section).map(Some),
    }
}

impl Tool for EditText {
    const NAME: &'static str = "text.edit";
    const TITLE: &'static str = "Edit text";
    const DESTRUCTIVE: bool = true;
    const IDEMPOTENT: bool = false;
    type Context = Space;
    type Permits = Permit<Edit>;
    type Output = TextEdited;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Edit>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(self, permit: Permit<Edit>, space: &Space) -> Result<TextEdited, Refusal> {
        let Self { path, hash, edits, dry_run, encoding } = self;
        if edits.is_empty() || edits.len() > MAX_EDITS {
            return Err(Refusal::invalid_argument("`edits` must have 1 to 64 members"));
        }
        if let Some(empty) = edits.iter().position(|edit| edit.old.is_empty()) {
            return Err(Refusal::invalid_argument(format!(
                "`edits[{empty}].old` must not be empty"
            )));
        }
        let written = NewText {
            encoding: stated_encoding(encoding.as_deref())?,
            is_ascii: edits.iter().all(|edit| edit.new.is_ascii()),
        };
        let edits: Vec<TextEdit> = edits
            .into_iter()
            .map(|edit| {
                Ok(TextEdit {
                    within: within(&path, edit.lines, edit.section.as_deref())?
                        .unwrap_or(LineRange::ALL.into()),
                    old: edit.old,
                    new: edit.new,
                    occurrences: if edit.all { Occurrences::Each } else { Occurrences::One },
                })
            })
            .collect::<Result<_, Refusal>>()?;
        let made: Arc<Mutex<Option<UnifiedDiff>>> = Arc::default();
        let shown = Arc::clone(&made);
        let max_bytes = space.limits().file_size;
        let plan = move |text: &str| {
            let edited = text_edits::apply(text, &edits, max_bytes).map_err(|failed| {
                EditError::Several { index: failed.index, error: Box::new(failed.error) }
            })?;
            let diff = unified_diff(text, &edited.text, &edited.changes);
            *shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(diff);
            Ok(edited.text)
        };
        let edited = if dry_run {
            space.try_edit(permit, hash, written, plan).await?
        } else {
            space.edit(permit, hash, written, ["lines", "old"], plan).await?
        };
        let diff = made.lock().unwrap_or_else(PoisonError::into_inner).take();
        let UnifiedDiff { text, lines_left_out, changed_lines } = diff.unwrap_or_default();
        Ok(TextEdited {
            path: path.into(),
            hash: edited.hash,
            size_bytes: edited.size_bytes,
            total_lines: edited.total_lines,
            written: !dry_run,
            diff: text,
            diff_lines_left_out: lines_left_out,
            base: Some(hash),
            changed_lines: changed_lines as u64,
        })
    }

    fn trace(&self) -> CallTrace {
        let trace = CallTrace::of_file(&self.path, Some(self.hash));
        if self.dry_run { trace.as_dry_run() } else { trace }
    }
}
