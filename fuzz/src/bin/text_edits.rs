//! Several edits of a text, and their diff: both are what a slow and obvious way makes of them.
//!
//! An input can be typed: a text, and then an old and a new passage for each edit, with `|` between
//! them. A `~` is a line break. An old passage that begins with `*` replaces each occurrence.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stile_domain::edit::EditError;
use stile_domain::limits::{MAX_DIFF_LINE_CHARS, MAX_DIFF_LINES};
use stile_domain::lines::LineRange;
use stile_domain::text_diff::unified_diff;
use stile_domain::text_edits::{EditedText, Occurrences, TextEdit, apply};

/// The longest text that an edit may make.
const MAX_BYTES: u64 = 4096;

fuzz_target!(|input: &[u8]| {
    // Line endings and marks are tried in the target `edit`.
    let input = String::from_utf8_lossy(input).replace('~', "\n").replace(['\r', '\u{feff}'], "");
    let mut fields = input.split('|');
    let text = fields.next().unwrap_or_default();
    let mut edits = Vec::new();
    while let (Some(old), Some(new)) = (fields.next(), fields.next()) {
        let (old, occurrences) = match old.strip_prefix('*') {
            Some(old) => (old, Occurrences::Each),
            None => (old, Occurrences::One),
        };
        if !old.is_empty() && edits.len() < 64 {
            let (old, new) = (old.to_owned(), new.to_owned());
            edits.push(TextEdit { old, new, within: LineRange::ALL.into(), occurrences });
        }
    }
    let fast = apply(text, &edits, MAX_BYTES);
    match slow_apply(text, &edits) {
        Ok(slow) => {
            let EditedText { text: new, changes } = fast.expect("the slow way makes it");
            assert_eq!(new, slow);
            let (mut built, mut end) = (String::new(), 0);
            for part in &changes {
                assert!(part.original.start >= end);
                built.push_str(&text[end..part.original.start]);
                assert_eq!(built.len(), part.current.start);
                built.push_str(&new[part.current.clone()]);
                end = part.original.end;
            }
            built.push_str(&text[end..]);
            assert_eq!(built, new);
            let diff = unified_diff(text, &new, &changes);
            let lines: Vec<&str> = diff.text.split_terminator('\n').collect();
            assert!(lines.len() <= MAX_DIFF_LINES);
            assert!(lines.iter().all(|line| line.chars().count() <= MAX_DIFF_LINE_CHARS + 30));
            assert_eq!(diff.text.is_empty(), text == new);
            if diff.lines_left_out == 0 {
                let starting =
                    |mark: char| lines.iter().filter(|line| line.starts_with(mark)).count();
                let count = |text: &str| text.split_inclusive('\n').count();
                assert_eq!(count(&new) + starting('-'), count(text) + starting('+'));
            }
        }
        Err(index) => {
            let failed = fast.expect_err("the slow way fails");
            assert_eq!(failed.index, index);
            assert!(!matches!(failed.error, EditError::Range { .. } | EditError::Several { .. }));
        }
    }
});

/// Makes the edits by trying every place. Fails with the index of the edit that fails.
fn slow_apply(text: &str, edits: &[TextEdit]) -> Result<String, usize> {
    let mut text = text.to_owned();
    for (index, edit) in edits.iter().enumerate() {
        let starts_at =
            |at: &usize| text.get(*at..).is_some_and(|rest| rest.starts_with(&edit.old));
        let count = (0..text.len()).filter(starts_at).count();
        if count == 0 || count > 1 && edit.occurrences == Occurrences::One {
            return Err(index);
        }
        text = text.replace(&edit.old, &edit.new);
        if text.len() as u64 > MAX_BYTES {
            return Err(index);
        }
    }
    Ok(text)
}
