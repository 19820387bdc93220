//! Refusals of edits: where the text that an edit names is not what the file holds.

use std::borrow::Cow;

use stile_domain::edit::EditError;
use stile_domain::error::Refusal;
use stile_domain::notes::MAX_NOTE_BYTES;
use stile_domain::notes::section::SectionFault;
use stile_domain::path::SpacePath;

pub(super) fn too_large_to_edit(path: &SpacePath, limit_bytes: u64) -> Refusal {
    Refusal::TooLarge {
        path: path.clone(),
        limit_bytes,
        advice: "Put the text into another file, or ask the user to raise the server's limit.",
    }
}

/// Maps an error of an edit to a refusal.
pub(super) fn explain(
    error: EditError,
    path: &SpacePath,
    [range, text]: [&'static str; 2],
    limit_bytes: u64,
) -> Refusal {
    let advice = "Narrow `lines` to the one you mean, or add neighbouring lines to `old`.";
    let (range, text) = (Cow::Borrowed(range), Cow::Borrowed(text));
    match error {
        EditError::TooLarge => too_large_to_edit(path, limit_bytes),
        EditError::Several { error, .. } if *error == EditError::TooLarge => {
            too_large_to_edit(path, limit_bytes)
        }
        EditError::Several { index, error } => {
            let [range, text] =
                ["lines", "old"].map(|name| Cow::Owned(format!("edits[{index}].{name}")));
            let advice = "Narrow `lines` to the one you mean, add neighbouring text to `old`, or \
                          set `all`. No edit was made.";
            explain_match(*error, path, range, text, "", advice)
        }
        error => explain_match(error, path, range, text, "as whole lines ", advice),
    }
}

/// Says why there is no one section as the caller names it.
pub(super) fn no_section(
    fault: SectionFault,
    path: &SpacePath,
    argument: Cow<'static, str>,
) -> Refusal {
    let path = path.clone();
    match fault {
        SectionFault::NoSuchSection { headings } => {
            Refusal::NoSuchSection { path, argument, headings }
        }
        SectionFault::Ambiguous { headings, more } => {
            Refusal::AmbiguousSection { path, argument, headings, more }
        }
        SectionFault::TooLarge => Refusal::TooLarge {
            path,
            limit_bytes: MAX_NOTE_BYTES,
            advice: "Name lines or a text instead of `section`.",
        },
    }
}

fn explain_match(
    error: EditError,
    path: &SpacePath,
    range: Cow<'static, str>,
    text: Cow<'static, str>,
    unit: &str,
    advice: &'static str,
) -> Refusal {
    match error {
        EditError::Section(fault) => {
            let argument = match range.strip_suffix(".lines") {
                Some(edit) => Cow::Owned(format!("{edit}.section")),
                None => Cow::Borrowed("section"),
            };
            no_section(fault, path, argument)
        }
        EditError::Range { total_lines } => Refusal::InvalidRange { argument: range, total_lines },
        EditError::Ambiguous { matches, more } => {
            Refusal::AmbiguousMatch { path: path.clone(), argument: text, advice, matches, more }
        }
        EditError::NoMatch { searched, lines, elsewhere, near_miss } => {
            let place = match searched.count() {
                1 => format!("{unit}at line {}", searched.start),
                _ => format!(
                    "{unit}in lines {} to {}",
                    searched.start,
                    searched.end.saturating_sub(1).max(searched.start)
                ),
            };
            let mut hint = match elsewhere.as_slice() {
                [] => String::new(),
                lines => {
                    let lines: Vec<String> = lines.iter().map(u64::to_string).collect();
                    format!(" It stands at line {} instead.", lines.join(", "))
                }
            };
            if let Some(near_miss) = near_miss {
                hint.push(' ');
                hint.push_str(&near_miss.advice(&text));
            }
            Refusal::NoMatch { path: path.clone(), argument: text, place, hint, lines, elsewhere }
        }
        EditError::FrontMatter { why, searched, lines } => Refusal::UnsafeFrontMatter {
            path: path.clone(),
            name: "name",
            why,
            first: searched.start,
            last: searched.end.saturating_sub(1).max(searched.start),
            lines,
        },
        EditError::Several { error, .. } => explain_match(*error, path, range, text, unit, advice),
        // `explain` has the limit, and answers this before.
        EditError::TooLarge => too_large_to_edit(path, u64::MAX),
    }
}
