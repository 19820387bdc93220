//! A difference between two versions of a file, as one column or side by side.
//!
//! A sign stands before each line that was taken out or put in, so nothing is said by colour alone.

use maud::{Markup, html};
use stile_domain::unseen::shown_start;

use super::signed_in::Visit;

/// The most lines of a difference that a page shows.
const MAX_LINES: usize = 400;
/// The most characters of a line of a difference.
const MAX_LINE: usize = 400;

/// What the row around a line takes, in bytes.
const ROW_FRAME: usize = 20;

/// How a difference is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiffForm {
    /// In one column, as `diff -u` shows it.
    Inline,
    /// In two columns, the old version on the left.
    Beside,
}

impl DiffForm {
    /// Reads the form that the query names.
    pub(super) fn of(visit: &Visit<'_>) -> Self {
        if visit.text("view") == "beside" { Self::Beside } else { Self::Inline }
    }

    /// Returns the end of a query that names the form.
    pub(super) fn query(self) -> &'static str {
        match self {
            Self::Inline => "",
            Self::Beside => "&view=beside",
        }
    }

    /// Returns the links to both forms. `address` returns where a form is shown.
    pub(super) fn links(self, address: impl Fn(Self) -> String) -> Markup {
        html! {
            nav class="links" aria-label="How the difference is shown" {
                @for (form, words) in [(Self::Inline, "In one column"), (Self::Beside, "Side by side")] {
                    a href=(address(form)) aria-current=[(form == self).then_some("true")] {
                        (words)
                    }
                }
            }
        }
    }
}

/// What a line of a difference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineKind {
    Same,
    Gone,
    New,
    /// Where the lines that follow are.
    Place,
}

type Line = (LineKind, String);

/// Shows a difference as `diff -u` has it, in at most `bytes`.
pub(super) fn difference(text: &str, form: DiffForm, bytes: usize) -> Markup {
    // Side by side, a line that stayed is shown twice.
    let copies = if form == DiffForm::Beside { 2 } else { 1 };
    let mut room = bytes / copies;
    // The first two lines name the versions, which the heading does.
    let lines: Vec<Line> = text
        .lines()
        .skip(2)
        .take(MAX_LINES)
        .map_while(|line| {
            let line = shown_line(line);
            room = room.checked_sub(shown(&line).0.len() + ROW_FRAME)?;
            Some(line)
        })
        .collect();
    let all = text.lines().skip(2).count();
    html! {
        @match form {
            DiffForm::Inline => {
                div class="diff" role="region" aria-label="Difference" tabindex="0" {
                    @for line in &lines { (shown(line)) }
                }
            }
            DiffForm::Beside => {
                div class="diff two" role="region" aria-label="Difference, the old version first"
                    tabindex="0"
                {
                    @for [old, new] in beside(&lines) { div { (cell(old)) (cell(new)) } }
                }
            }
        }
        @if lines.len() < all { p class="muted" { "And " (all - lines.len()) " more lines." } }
    }
}

fn cell(line: Option<&Line>) -> Markup {
    html! {
        @match line {
            Some(line) => { (shown(line)) }
            None => span class="lacking" {},
        }
    }
}

fn shown((kind, line): &Line) -> Markup {
    html! {
        @match kind {
            LineKind::Gone => del { (line) },
            LineKind::New => ins { (line) },
            LineKind::Place => span class="place" { (line) },
            LineKind::Same => span class="same" { (line) },
        }
    }
}

/// Pairs the lines that were taken out with those that were put in for them.
fn beside(lines: &[Line]) -> Vec<[Option<&Line>; 2]> {
    let mut rows = Vec::new();
    let mut rest = lines;
    while let Some((first, after)) = rest.split_first() {
        if matches!(first.0, LineKind::Same | LineKind::Place) {
            rows.push([Some(first), Some(first)]);
            rest = after;
            continue;
        }
        let count =
            |of: LineKind, lines: &[Line]| lines.iter().take_while(|(kind, _)| *kind == of).count();
        let (gone, after) = rest.split_at(count(LineKind::Gone, rest));
        let (new, after) = after.split_at(count(LineKind::New, after));
        rows.extend((0..gone.len().max(new.len())).map(|at| [gone.get(at), new.get(at)]));
        rest = after;
    }
    rows
}

fn shown_line(line: &str) -> Line {
    let kind = match line.as_bytes().first() {
        Some(b'-') => LineKind::Gone,
        Some(b'+') => LineKind::New,
        Some(b'@') => LineKind::Place,
        _ => LineKind::Same,
    };
    (kind, shown_start(&line.replace('\t', "    "), MAX_LINE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_text_and_bounded() {
        let text = format!(
            "--- then\n+++ now\n@@ -1 +1 @@\n-<b>\u{202e}old\n+new\n{}",
            " same\n".repeat(MAX_LINES)
        );
        let shown = difference(&text, DiffForm::Inline, 40_000).into_string();
        assert!(shown.contains("<del>-&lt;b&gt;\\u{202e}old</del><ins>+new</ins>"), "{shown}");
        assert!(shown.contains("And 3 more lines."), "{shown}");
        let markup = format!("--- a\n+++ b\n{}", "-<<<<<<<<<<\n <<<<<<<<<<\n".repeat(500));
        for form in [DiffForm::Inline, DiffForm::Beside] {
            let shown = difference(&markup, form, 9_000).into_string();
            assert!(shown.len() < 9_500 && shown.contains("more lines."), "{}", shown.len());
        }
        let line = format!("a\nb\n+{}\n", "x".repeat(100_000));
        for form in [DiffForm::Inline, DiffForm::Beside] {
            let long = difference(&line, form, 9_000).into_string();
            assert!(long.len() < 1200, "{}", long.len());
        }
    }

    #[test]
    fn side_by_side_the_lines_of_one_change_stand_in_one_row() {
        let text = "--- a\n+++ b\n@@ -1 +1 @@\n same\n-one\n-two\n+1\n same\n+new\n-x\n";
        let lines: Vec<Line> = text.lines().skip(2).map(shown_line).collect();
        let rows = beside(&lines);
        let text = |line: Option<&Line>| line.map_or("", |(_, text)| text.as_str()).to_owned();
        let rows: Vec<[String; 2]> =
            rows.into_iter().map(|[old, new]| [text(old), text(new)]).collect();
        assert_eq!(
            rows,
            [
                ["@@ -1 +1 @@", "@@ -1 +1 @@"],
                [" same", " same"],
                ["-one", "+1"],
                ["-two", ""],
                [" same", " same"],
                ["", "+new"],
                ["-x", ""],
            ]
        );
    }
}
