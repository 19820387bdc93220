//! A difference between two versions of a file, as one column or side by side.
//!
//! A sign stands before each line that was taken out or put in, so nothing is said by colour alone.

use maud::{Markup, html};
use stile_domain::unseen::shown as escaped;

use super::signed_in::Visit;

/// The most lines of a difference that a page shows.
const MAX_LINES: usize = 400;
/// The most characters of a line of a difference, and those that stand before the place in it that
/// changed.
const MAX_LINE: usize = 400;
const LEAD: usize = 60;

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
    let read: Vec<&str> = text.lines().skip(2).take(MAX_LINES).collect();
    let lines: Vec<Line> = shown_lines(&read)
        .into_iter()
        .map_while(|line| {
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

/// Returns lines as the page shows them. Of a long line that another one came in the place of, it
/// shows where the two begin to differ.
fn shown_lines(lines: &[&str]) -> Vec<Line> {
    let kinds: Vec<LineKind> = lines.iter().map(|line| kind_of(line)).collect();
    let mut others: Vec<Option<&str>> = vec![None; lines.len()];
    let mut at = 0;
    while at < lines.len() {
        let run = |of: LineKind, from: usize| {
            kinds.iter().skip(from).take_while(|kind| **kind == of).count()
        };
        let gone = run(LineKind::Gone, at);
        let new = run(LineKind::New, at + gone);
        for pair in 0..gone.min(new) {
            let pair = [at + pair, at + gone + pair];
            for [own, other] in [pair, [pair[1], pair[0]]] {
                if let Some(place) = others.get_mut(own) {
                    *place = lines.get(other).copied();
                }
            }
        }
        at += (gone + new).max(1);
    }
    let shown = lines.iter().zip(kinds).zip(others);
    shown.map(|((line, kind), other)| (kind, shown_line(line, other))).collect()
}

fn kind_of(line: &str) -> LineKind {
    match line.as_bytes().first() {
        Some(b'-') => LineKind::Gone,
        Some(b'+') => LineKind::New,
        Some(b'@') => LineKind::Place,
        _ => LineKind::Same,
    }
}

/// Returns a line as the page shows it, with how much of it is left out at its end, and whether
/// that differs from `other`.
fn shown_line(line: &str, other: Option<&str>) -> String {
    let (sign, text) = line.split_at_checked(1).unwrap_or(("", line));
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= MAX_LINE {
        return escaped(&line.replace('\t', "    ")).into_owned();
    }
    let other: Option<Vec<char>> =
        other.and_then(|other| other.get(1..)).map(|other| other.chars().collect());
    let alike = other.as_ref().map_or(0, |other| {
        characters.iter().zip(other).take_while(|(one, other)| one == other).count()
    });
    let first = alike.saturating_sub(LEAD);
    let part: String = characters.iter().skip(first).take(MAX_LINE).collect();
    let left = characters.get(first + MAX_LINE..).unwrap_or_default();
    let differs = other.is_some_and(|other| !other.ends_with(left));
    let before = if first > 0 { "… " } else { "" };
    let after = match (left.len(), differs) {
        (0, _) => String::new(),
        (count, false) => format!(" … and {count} more characters"),
        (count, true) => format!(" … and {count} more characters, which changed too"),
    };
    format!("{sign}{before}{}{after}", escaped(&part.replace('\t', "    ")))
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
    fn a_change_far_to_the_right_is_shown() {
        let long = |name: &str| format!("pay to: {} {name} today", "a".repeat(900));
        let text = format!("a\nb\n-{}\n+{}\n", long("Alice"), long("Mallory"));
        for form in [DiffForm::Inline, DiffForm::Beside] {
            let shown = difference(&text, form, 9_000).into_string();
            assert!(shown.contains("Alice today</del>"), "{shown}");
            assert!(shown.contains("Mallory today</ins>"), "{shown}");
            assert!(shown.contains(">-… aaa"), "{shown}");
        }
        let text = format!("a\nb\n-x{}1\n+y{}2\n", "a".repeat(900), "a".repeat(900));
        let shown = difference(&text, DiffForm::Inline, 9_000).into_string();
        assert_eq!(shown.matches("… and 502 more characters, which changed too").count(), 2);
        let text = format!("a\nb\n {}\n", "a".repeat(900));
        let shown = difference(&text, DiffForm::Inline, 9_000).into_string();
        assert!(shown.contains("… and 500 more characters</span>"), "{shown}");
    }

    #[test]
    fn side_by_side_the_lines_of_one_change_stand_in_one_row() {
        let text = "--- a\n+++ b\n@@ -1 +1 @@\n same\n-one\n-two\n+1\n same\n+new\n-x\n";
        let read: Vec<&str> = text.lines().skip(2).collect();
        let lines = shown_lines(&read);
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
