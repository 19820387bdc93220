//! The difference of two texts as a unified diff, bounded.
//!
//! The caller knows which parts changed, so nothing is compared but these. *Source*: the unified
//! format of POSIX `diff -u`, without the two lines of file names.

use crate::limits::{MAX_DIFF_LINE_CHARS, MAX_DIFF_LINES};
use crate::text_edits::ChangedPart;

/// The lines of context before and after a change.
const CONTEXT: usize = 3;

/// A difference, bounded in its lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnifiedDiff {
    /// Hunks as in `@@ -1,3 +1,4 @@`, each line ended by `\n`. Empty if nothing changed.
    pub text: String,
    /// The lines of the diff that were left out since there were too many.
    pub lines_left_out: usize,
    /// How many lines were added, changed or removed. A line that another one replaces counts once.
    pub changed_lines: usize,
}

/// How many lines lie between two marks.
const MARKED: usize = 64;

/// A text as lines with their terminators. The beginning of each 64th line is marked, so that a
/// text of short lines needs no more memory than its own.
struct Lines<'t> {
    text: &'t str,
    marks: Vec<usize>,
    count: usize,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        let after = memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1);
        let starts = std::iter::once(0).chain(after).filter(|at| *at < text.len());
        let (mut marks, mut count) = (Vec::new(), 0);
        for start in starts {
            if count % MARKED == 0 {
                marks.push(start);
            }
            count += 1;
        }
        Self { text, marks, count }
    }

    /// Returns the index of the line with a byte; the number of lines for the end of the text.
    fn line_of(&self, at: usize) -> usize {
        if at >= self.text.len() {
            return self.count;
        }
        let mark = self.marks.partition_point(|mark| *mark <= at).saturating_sub(1);
        let start = self.marks.get(mark).copied().unwrap_or(0);
        let between = self.text.as_bytes().get(start..at).unwrap_or_default();
        mark * MARKED + memchr::memchr_iter(b'\n', between).count()
    }

    fn is_start(&self, at: usize) -> bool {
        match at.checked_sub(1) {
            _ if at >= self.text.len() => self.text.is_empty() || self.text.ends_with('\n'),
            None => true,
            Some(before) => self.text.as_bytes().get(before) == Some(&b'\n'),
        }
    }

    fn get(&self, line: usize) -> Option<&'t str> {
        if line >= self.count {
            return None;
        }
        let start = *self.marks.get(line / MARKED)?;
        let mut lines = self.text.get(start..)?.split_inclusive('\n');
        lines.nth(line % MARKED)
    }
}

/// Changed lines: the old ones, and the new ones in their place, by index, ends exclusive.
#[derive(Clone, Debug)]
struct ChangedLines {
    old: [usize; 2],
    new: [usize; 2],
}

/// Makes the diff of two texts that differ in `changes` alone.
pub fn unified_diff(old: &str, new: &str, changes: &[ChangedPart]) -> UnifiedDiff {
    let (old, new) = (Lines::new(old), Lines::new(new));
    let mut writer = DiffWriter { text: String::new(), lines: 0, left_out: 0 };
    let mut hunk: Vec<ChangedLines> = Vec::new();
    let mut count = 0;
    for changed in changed_lines(&old, &new, changes) {
        let length = |[start, end]: [usize; 2]| end.saturating_sub(start);
        count += length(changed.old).max(length(changed.new));
        let is_near = hunk.last().is_some_and(|last| changed.old[0] <= last.old[1] + 2 * CONTEXT);
        if !is_near {
            writer.push_hunk(&old, &new, &hunk);
            hunk.clear();
        }
        hunk.push(changed);
    }
    writer.push_hunk(&old, &new, &hunk);
    UnifiedDiff { text: writer.text, lines_left_out: writer.left_out, changed_lines: count }
}

/// Extends each change to whole lines, and joins those that share a line.
fn changed_lines(old: &Lines<'_>, new: &Lines<'_>, changes: &[ChangedPart]) -> Vec<ChangedLines> {
    let mut result: Vec<ChangedLines> = Vec::new();
    for part in changes {
        let mut lines = ChangedLines {
            old: [old.line_of(part.original.start), old.line_of(part.original.end)],
            new: [new.line_of(part.current.start), new.line_of(part.current.end)],
        };
        // The beginning of a line is the end of the lines before it, if it is one in both texts.
        let ends_lines = old.is_start(part.original.end) && new.is_start(part.current.end);
        if !ends_lines {
            let after = |lines: &Lines<'_>, line: usize| (line + 1).min(lines.count);
            lines.old[1] = after(old, lines.old[1]);
            lines.new[1] = after(new, lines.new[1]);
        }
        // A change at the end of a line without a terminator is one of that line.
        for (side, text, at) in
            [(&mut lines.old, old, part.original.start), (&mut lines.new, new, part.current.start)]
        {
            if side[0] == text.count && !text.is_start(at) {
                side[0] = side[0].saturating_sub(1);
            }
        }
        match result.last_mut() {
            Some(last) if lines.old[0] < last.old[1] || lines.new[0] < last.new[1] => {
                last.old[1] = last.old[1].max(lines.old[1]);
                last.new[1] = last.new[1].max(lines.new[1]);
            }
            _ => result.push(lines),
        }
    }
    for lines in &mut result {
        let is_equal = |one: usize, other: usize| old.get(one) == new.get(other);
        while lines.old[0] < lines.old[1]
            && lines.new[0] < lines.new[1]
            && is_equal(lines.old[0], lines.new[0])
        {
            lines.old[0] += 1;
            lines.new[0] += 1;
        }
        while lines.old[0] < lines.old[1]
            && lines.new[0] < lines.new[1]
            && is_equal(lines.old[1] - 1, lines.new[1] - 1)
        {
            lines.old[1] -= 1;
            lines.new[1] -= 1;
        }
    }
    result.retain(|lines| lines.old[0] < lines.old[1] || lines.new[0] < lines.new[1]);
    result
}

struct DiffWriter {
    text: String,
    lines: usize,
    left_out: usize,
}

impl DiffWriter {
    fn push_hunk(&mut self, old: &Lines<'_>, new: &Lines<'_>, hunk: &[ChangedLines]) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { return };
        let before = first.old[0].min(CONTEXT);
        let after = (old.count - last.old[1]).min(CONTEXT);
        let side = |start: usize, end: usize| {
            let (from, count) = (start - before, end + after - (start - before));
            // An empty side names the line before it.
            format!("{},{count}", if count == 0 { from } else { from + 1 })
        };
        let (old_side, new_side) =
            (side(first.old[0], last.old[1]), side(first.new[0], last.new[1]));
        self.push_line(&format!("@@ -{old_side} +{new_side} @@\n"));
        let mut at = first.old[0] - before;
        for lines in hunk {
            for line in at..lines.old[0] {
                self.push(' ', old, line);
            }
            for line in lines.old[0]..lines.old[1] {
                self.push('-', old, line);
            }
            for line in lines.new[0]..lines.new[1] {
                self.push('+', new, line);
            }
            at = lines.old[1];
        }
        for line in at..at + after {
            self.push(' ', old, line);
        }
    }

    fn push(&mut self, mark: char, lines: &Lines<'_>, line: usize) {
        if self.lines >= MAX_DIFF_LINES {
            let is_open = line + 1 == lines.count && !lines.text.ends_with('\n');
            self.left_out += 1 + usize::from(is_open);
            return;
        }
        let Some(text) = lines.get(line) else { return };
        let body = text.strip_suffix('\n').unwrap_or(text);
        let mut shown: String = body.chars().take(MAX_DIFF_LINE_CHARS).collect();
        if shown.len() < body.len() {
            shown.push('…');
        }
        self.push_line(&format!("{mark}{shown}\n"));
        if body.len() == text.len() {
            self.push_line("\\ No newline at end of file\n");
        }
    }

    fn push_line(&mut self, line: &str) {
        if self.lines < MAX_DIFF_LINES {
            self.text.push_str(line);
            self.lines += 1;
        } else {
            self.left_out += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::LineRange;
    use crate::text_edits::{Occurrences, TextEdit, apply};
    use proptest::prelude::*;

    fn edit(old: &str, new: &str) -> TextEdit {
        let (old, new) = (old.to_owned(), new.to_owned());
        TextEdit { old, new, within: LineRange::ALL.into(), occurrences: Occurrences::Each }
    }

    fn diff(text: &str, edits: &[TextEdit]) -> UnifiedDiff {
        let edited = apply(text, edits, u64::MAX).unwrap();
        unified_diff(text, &edited.text, &edited.changes)
    }

    #[test]
    fn a_diff_reads_as_people_know_it() {
        let text: String = (1..=30).map(|number| format!("line {number}\n")).collect();
        let edits =
            [edit("line 5\n", "five\nfive and a half\n"), edit("e 20\nline 21", "e 20, 21")];
        insta::assert_snapshot!(diff(&text, &edits).text, @r"
        @@ -2,7 +2,8 @@
         line 2
         line 3
         line 4
        -line 5
        +five
        +five and a half
         line 6
         line 7
         line 8
        @@ -17,8 +18,7 @@
         line 17
         line 18
         line 19
        -line 20
        -line 21
        +line 20, 21
         line 22
         line 23
         line 24
        ");
        insta::assert_snapshot!(diff("a\nb", &[edit("b", "b\nc")]).text, @r"
        @@ -1,2 +1,3 @@
         a
        -b
        \ No newline at end of file
        +b
        +c
        \ No newline at end of file
        ");
        assert_eq!(diff("a\n", &[edit("a", "a")]).text, "");
    }

    #[test]
    fn a_diff_is_bounded_and_counts_what_it_left_out() {
        let text = "x\n".repeat(1000);
        let UnifiedDiff { text, lines_left_out, .. } = diff(&text, &[edit("x", "y")]);
        assert_eq!(text.lines().count(), MAX_DIFF_LINES);
        assert_eq!(lines_left_out, 2001 - MAX_DIFF_LINES);
        let long = diff(&"x".repeat(1000), &[edit(&"x".repeat(1000), "y")]).text;
        assert!(long.lines().all(|line| line.chars().count() <= MAX_DIFF_LINE_CHARS + 2));
    }

    /// Applies a diff as a person would.
    fn patched(text: &str, diff: &str) -> String {
        let old: Vec<&str> = text.split_inclusive('\n').collect();
        let (mut new, mut at) = (String::new(), 0);
        let mut lines = diff.lines().peekable();
        while let Some(line) = lines.next() {
            let (mark, body) = line.split_at(1);
            let ends = lines.peek().is_some_and(|next| next.starts_with('\\'));
            match mark {
                "@" => {
                    let numbers = line.split(['-', ',', ' ']).nth(2).unwrap();
                    let count: usize = line.split(['-', ',', ' ']).nth(3).unwrap().parse().unwrap();
                    let from = numbers.parse::<usize>().unwrap() - usize::from(count > 0);
                    old[at..from].iter().for_each(|line| new.push_str(line));
                    at = from;
                }
                "\\" => {}
                "+" => new.push_str(&format!("{body}{}", if ends { "" } else { "\n" })),
                mark => {
                    assert_eq!(old[at].trim_end_matches('\n'), body);
                    if mark == " " {
                        new.push_str(old[at]);
                    }
                    at += 1;
                }
            }
        }
        old[at..].iter().for_each(|line| new.push_str(line));
        new
    }

    proptest! {
        #[test]
        fn a_diff_leads_from_the_old_text_to_the_new(
            text in "([ab]{0,2}\n|[ab]){0,24}",
            edits in proptest::collection::vec(("[ab\n]{1,3}", "[abc\n]{0,4}"), 1..4),
        ) {
            let edits: Vec<_> = edits.iter().map(|(old, new)| edit(old, new)).collect();
            if let Ok(edited) = apply(&text, &edits, u64::MAX) {
                let diff = unified_diff(&text, &edited.text, &edited.changes);
                if diff.lines_left_out == 0 {
                    prop_assert_eq!(patched(&text, &diff.text), edited.text, "{}", diff.text);
                }
            }
        }
    }
}
