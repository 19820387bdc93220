//! `text.search`: lines of files, wherever they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::error::Refusal;
use stile_domain::find::name_pattern::NameGlob;
use stile_domain::find::text_query::{LetterCase, QuerySyntax, TextQuery};
use stile_domain::hash::ContentHash;
use stile_domain::journal::CallTrace;
use stile_domain::limits::MAX_CONTEXT_LINES;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Gate, Permit, Walk};
use stile_domain::tool_name::ShownTools;
use stile_store::space::{SearchHit, SearchPage, Space, TextSearch};

use super::walking::{LeftOutFiles, continued_line, cursor_of, is_zero, whole_space};
use crate::answer::Answer;
use crate::definition::ToolGroup;
use crate::tool::{Output, Tool};

/// Find lines of text files. While `truncated`, go on with `next_cursor`, even if nothing was
/// found.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindText {
    /// What a line must contain, or a regular expression with `regex`.
    #[schemars(length(min = 1, max = 1024))]
    q: String,
    /// As `q` says.
    #[serde(default)]
    regex: bool,
    /// `smart` ignores case unless `q` has a capital letter.
    #[serde(default)]
    case: CaseArgument,
    /// In which folder or file.
    #[serde(default = "whole_space")]
    path: SpacePath,
    /// Only files that fit this glob, e.g. `*.md`.
    #[schemars(length(min = 1, max = 256))]
    glob: Option<String>,
    /// Lines to show around each hit.
    #[schemars(range(min = 0, max = 3))]
    #[serde(default)]
    context: usize,
    /// `next_cursor`.
    cursor: Option<String>,
}

/// Which letters count as equal.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum CaseArgument {
    #[default]
    Smart,
    Sensitive,
    Insensitive,
}

/// Lines that contain a text.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FoundLines {
    /// The hits by path and line, at most 100 at a time.
    hits: Vec<FoundLine>,
    /// How many files this call searched.
    files_searched: u64,
    /// How many files it did not.
    files_skipped: u64,
    /// Which, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<LeftOutFiles>,
    /// How many lines of more than 256 KiB a regular expression was tried on in parts, without a
    /// match: one of more than 64 KiB may have been missed.
    #[serde(skip_serializing_if = "is_zero")]
    lines_in_parts: u64,
    /// Whether files are left to be searched.
    truncated: bool,
    /// What to send as `cursor` to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A line that contains a text.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundLine {
    /// The file.
    path: SpacePath,
    /// The hash of the whole file, for a change.
    hash: ContentHash,
    /// The number of the line, from 1.
    line: u64,
    /// The page of a document.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<u64>,
    /// Where in the line, in characters from 1.
    column: u64,
    /// The line; at most 320 characters of it.
    text: String,
    /// Whether the line has more before `text`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut_before: bool,
    /// Whether the line has more after `text`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut_after: bool,
    /// The lines before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
    /// The lines after.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
}

impl From<SearchHit> for FoundLine {
    fn from(hit: SearchHit) -> Self {
        Self {
            path: hit.path,
            hash: hit.hash,
            line: hit.line,
            page: hit.page,
            column: hit.text.column,
            text: hit.text.text,
            cut_before: hit.text.cut_before,
            cut_after: hit.text.cut_after,
            before: hit.before,
            after: hit.after,
        }
    }
}

impl FoundLine {
    /// Adds the hit as lines of text: `12: the line`, and `11- the line before`.
    fn push_lines(&self, lines: &mut Vec<String>) {
        let first = self.line - (self.before.len() as u64).min(self.line);
        lines.extend(self.before.iter().zip(first..).map(|(text, line)| format!("{line}- {text}")));
        let (start, end) =
            (if self.cut_before { "…" } else { "" }, if self.cut_after { "…" } else { "" });
        let page = self.page.map(|page| format!(" (page {page})")).unwrap_or_default();
        lines.push(format!("{}{page}: {start}{}{end}", self.line, self.text));
        let next = self.line + 1;
        lines.extend(self.after.iter().zip(next..).map(|(text, line)| format!("{line}- {text}")));
    }
}

impl Output for FoundLines {
    fn hits(&self) -> Option<usize> {
        Some(self.hits.len())
    }

    /// Renders the hits under the path and the hash of their file, for a client that shows only
    /// text.
    fn render(self, names: ShownTools) -> serde_json::Result<Answer> {
        let skipped = match self.files_skipped {
            0 => String::new(),
            count => format!(", {count} skipped"),
        };
        let find = names.sentence(" `file.find` looks for names.");
        let mut lines = vec![match (self.hits.len(), self.truncated) {
            (0, false) => format!(
                "No line in {} files{skipped}. Try fewer words, or `regex`.{find}",
                self.files_searched
            ),
            (count, _) => format!("{count} hits in {} files{skipped}.", self.files_searched),
        }];
        let mut file = None;
        for hit in &self.hits {
            if file != Some(&hit.path) {
                lines.push(format!("\n{} hash {}", hit.path, hit.hash));
                file = Some(&hit.path);
            }
            hit.push_lines(&mut lines);
        }
        if self.lines_in_parts > 0 {
            lines.push(format!(
                "{} very long lines were searched in parts: a match of more than 64 KiB may be \
                 missing.",
                self.lines_in_parts
            ));
        }
        if !self.left_out.is_empty() {
            lines.push(String::new());
        }
        lines.extend(self.left_out.iter().map(LeftOutFiles::to_line));
        let continued = continued_line(self.next_cursor.as_ref());
        lines.extend(continued.map(|line| format!("\n{line}")));
        Answer::with_text(lines.join("\n"), &self)
    }
}

impl Tool for FindText {
    const NAME: &'static str = "text.search";
    const TITLE: &'static str = "Search text";
    const GROUP: ToolGroup = ToolGroup::Find;
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    const NEXT: &'static str = "Next: `text.read` with `lines` around the hit.";
    type Context = Space;
    type Permits = Permit<Walk>;
    type Output = FoundLines;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Walk>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(self, permit: Permit<Walk>, space: &Space) -> Result<FoundLines, Refusal> {
        let Self { q, regex, case, path, glob, context, cursor } = &self;
        if *context > MAX_CONTEXT_LINES {
            return Err(Refusal::invalid_argument("`context` must be 0 to 3"));
        }
        let query = format!("search {:?}", (q, regex, case, path.as_str(), glob, context));
        let cursor = cursor_of(cursor.as_deref(), &query)?;
        let syntax = if *regex { QuerySyntax::Regex } else { QuerySyntax::Literal };
        let case = match case {
            CaseArgument::Smart => LetterCase::Smart,
            CaseArgument::Sensitive => LetterCase::Sensitive,
            CaseArgument::Insensitive => LetterCase::Insensitive,
        };
        let wrong_glob = |error| Refusal::invalid_argument(format!("`glob` {error}"));
        let search = TextSearch {
            query: TextQuery::parse(q, syntax, case)
                .map_err(|error| Refusal::invalid_argument(error.to_string()))?,
            glob: glob.as_deref().map(NameGlob::parse).transpose().map_err(wrong_glob)?,
            context: *context,
        };
        let SearchPage { hits, files_searched, left_out, lines_in_parts, next } =
            space.search_text(permit, search, cursor).await?;
        Ok(FoundLines {
            hits: hits.into_iter().map(FoundLine::from).collect(),
            files_searched,
            files_skipped: left_out.iter().map(|left| left.count).sum(),
            left_out: left_out.into_iter().map(LeftOutFiles::from).collect(),
            lines_in_parts,
            truncated: next.is_some(),
            next_cursor: next.map(|next| next.encode(&query)),
        })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, None)
    }
}
