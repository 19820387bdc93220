//! Sets or removes one property of a note, and keeps every other byte.
//!
//! The edit changes the lines of one key of the front matter. It is refused where those lines
//! cannot be changed safely. Afterwards the new front matter is parsed: it must be the old mapping
//! with this one change, or the edit is refused too.

mod entries;

use std::borrow::Cow;

use self::entries::{Entry, Form, Mapping, Node, OldScalar};
use super::dates;
use super::front_fences::{FrontFences, is_fence};
use crate::edit::EditError;
use crate::lines::{BOM, ResolvedLines, count_lines};

/// The longest name of a property that can be set, in bytes.
pub const MAX_PROPERTY_NAME_BYTES: usize = 256;

/// A value that a property can be set to.
#[derive(Clone, Debug, PartialEq)]
pub enum NewValue {
    /// A text, a number or a boolean.
    Scalar(NewScalar),
    /// A list of them.
    List(Vec<NewScalar>),
}

/// A scalar that front matter can have.
#[derive(Clone, Debug, PartialEq)]
pub enum NewScalar {
    /// A text, which is quoted where it would be read as something else.
    Text(String),
    /// A number or a boolean, as JSON spells it.
    Plain(String),
}

/// Sets the property `name` of a note to `value`, or removes it.
///
/// # Errors
/// [`EditError::FrontMatter`] with the lines to be edited by hand.
pub fn set_property(text: &str, name: &str, value: Option<&NewValue>) -> Result<String, EditError> {
    let (bom, text) = text.split_at(if text.starts_with(BOM) { BOM.len_utf8() } else { 0 });
    edit(text, name, value)
        .map(|edited| [bom, &edited].concat())
        .map_err(|Unsafe { why, lines }| EditError::front_matter(text, why, lines))
}

/// Why an edit is refused, and the lines concerned.
struct Unsafe {
    why: &'static str,
    lines: ResolvedLines,
}

fn edit(text: &str, name: &str, value: Option<&NewValue>) -> Result<String, Unsafe> {
    let first_line = text.split_inclusive('\n').next().unwrap_or_default();
    let eol = if first_line.ends_with("\r\n") { "\r\n" } else { "\n" };
    let Some(fences) = FrontFences::find(text) else {
        let why = if is_fence(first_line) {
            "the first line begins front matter that has no end"
        } else if value.is_none() {
            "the note has no front matter"
        } else {
            ""
        };
        return match value {
            Some(value) if why.is_empty() => {
                let written = Written::of(value, "", &[]);
                let front = entry("", name, (value, &written), eol);
                let edited = ["---", eol, &front, "---", eol, text].concat();
                checked(edited, &front, &[(name.to_owned(), written.nodes)])
            }
            _ => Err(why),
        }
        .map_err(|why| Unsafe { why, lines: ResolvedLines { start: 1, end: 2 } });
    };
    let front = fences.front(text);
    let lines_before_end = count_lines(text.get(..fences.end).unwrap_or_default());
    let all = ResolvedLines { start: 1, end: lines_before_end + 2 };
    let refused = |why| Unsafe { why, lines: all };
    let old = Mapping::parse(front).ok_or_else(|| {
        refused("the front matter is not one valid YAML mapping, or has a key twice")
    })?;
    let has_marker = front
        .lines()
        .any(|line| line.starts_with("---") || line.starts_with("...") || line.starts_with('%'));
    if has_marker {
        return Err(refused("the front matter has a marker of YAML documents"));
    }
    let index = old.entries.iter().position(|entry| entry.key == name);
    let mut expected = old.plain_entries();
    let new_front = match (index.and_then(|index| old.entries.get(index)), value) {
        (None, None) => return Err(refused("the front matter has no such property")),
        (None, Some(value)) => {
            let written = Written::of(value, front, &[]);
            let indent = " ".repeat(old.entries.first().map_or(0, |first| first.column));
            let entry = entry(&indent, name, (value, &written), eol);
            expected.push((name.to_owned(), written.nodes));
            front.to_owned() + &entry
        }
        (Some(found), _) => {
            let next = index.and_then(|index| old.entries.get(index + 1));
            let place = Place::of(front, found, next.map(|next| next.line_start)).map_err(
                |(why, range)| {
                    let line = |at: usize| {
                        let before = text.get(..fences.start + at).unwrap_or_default();
                        before.matches('\n').count() as u64 + 1
                    };
                    let end = line(range.end.max(range.start + 1) - 1) + 1;
                    Unsafe { why, lines: ResolvedLines { start: line(range.start), end } }
                },
            )?;
            let replacement = match value {
                None => {
                    expected.retain(|(key, _)| key != name);
                    String::new()
                }
                Some(value) => {
                    let written = Written::of(value, front, &found.scalars);
                    let replacement = place.with(value, &written, eol);
                    if let Some(slot) = expected.iter_mut().find(|(key, _)| key == name) {
                        slot.1 = written.nodes;
                    }
                    replacement
                }
            };
            let before = front.get(..place.lines.start).unwrap_or_default();
            let after = front.get(place.lines.end..).unwrap_or_default();
            [before, &replacement, after].concat()
        }
    };
    let before = text.get(..fences.start).unwrap_or_default();
    let after = text.get(fences.end..).unwrap_or_default();
    let edited = [before, &new_front, after].concat();
    checked(edited, &new_front, &expected).map_err(refused)
}

/// Returns a note with new front matter after reading the note again.
///
/// The front matter must have the expected properties and end where it should. YAML reads no key
/// of more than 1,024 characters, so a longer name fails here.
fn checked(
    edited: String,
    front: &str,
    expected: &[(String, Vec<Node>)],
) -> Result<String, &'static str> {
    let parsed = Mapping::parse(front).map(|mapping| mapping.plain_entries());
    if parsed.is_none_or(|parsed| parsed != expected) {
        return Err("the YAML around this property cannot be changed safely");
    }
    match FrontFences::find(&edited).is_some_and(|found| found.front(&edited) == front) {
        true => Ok(edited),
        false => Err("the property would end the front matter"),
    }
}

/// A value as it is written: its text, or one text for each item, and its parts as YAML reads them.
struct Written {
    texts: Vec<String>,
    nodes: Vec<Node>,
}

impl Written {
    /// Writes a new value. A scalar that stays keeps its spelling in `front`, with its quotes.
    fn of(value: &NewValue, front: &str, old: &[OldScalar]) -> Self {
        let scalar = |one: &NewScalar| {
            let kept = old.iter().find(|old| old.is_kept_for(one));
            let spelled = kept.and_then(|old| front.get(old.place.clone()));
            // A value over several lines is not kept: its lines have an indentation of their own.
            if let (Some(old), Some(spelled)) = (kept, spelled.filter(|text| !text.contains('\n')))
            {
                let node = Node::Scalar { text: old.text.clone(), is_plain: old.is_plain };
                return (spelled.trim_end().to_owned(), node);
            }
            let is_text_now =
                matches!((value, old), (NewValue::Scalar(_), [one]) if one.is_quoted_date());
            let text = match one {
                NewScalar::Text(text) if is_date(text) && !is_text_now => text.into(),
                NewScalar::Text(text) => quoted(text),
                NewScalar::Plain(text) => text.into(),
            };
            let (NewScalar::Text(meant) | NewScalar::Plain(meant)) = one;
            let is_plain = !text.starts_with('"');
            (text.into_owned(), Node::Scalar { text: meant.clone(), is_plain })
        };
        match value {
            NewValue::Scalar(one) => {
                let (text, node) = scalar(one);
                Self { texts: vec![text], nodes: vec![node] }
            }
            NewValue::List(items) => {
                let (texts, items): (Vec<_>, Vec<_>) = items.iter().map(scalar).unzip();
                let nodes = [Node::ListStart].into_iter().chain(items).chain([Node::End]);
                Self { texts, nodes: nodes.collect() }
            }
        }
    }
}

impl OldScalar {
    /// Whether the scalar says what a new one says, so that it can stay as it is written.
    fn is_kept_for(&self, new: &NewScalar) -> bool {
        match new {
            NewScalar::Text(text) => {
                *text == self.text && (!self.is_plain || is_plain(text) || is_date(text))
            }
            NewScalar::Plain(text) => *text == self.text && self.is_plain,
        }
    }

    /// Whether the scalar is a date that its quotes make a text.
    fn is_quoted_date(&self) -> bool {
        !self.is_plain && is_date(&self.text)
    }
}

/// Whether YAML reads a text without quotes as a date or a timestamp.
fn is_date(text: &str) -> bool {
    !text.contains('\t') && dates::iso(text).is_some()
}

/// The lines of a member that can be changed.
struct Place<'f> {
    lines: std::ops::Range<usize>,
    /// The first line up to the colon.
    head: &'f str,
    /// The white space between the colon and the value.
    space: &'f str,
    /// What follows the value on the first line: white space and a comment.
    tail: &'f str,
    eol: &'f str,
    indent: &'f str,
    /// What stands before each item of the list that is there: its indentation, `-` and spaces.
    item_head: Option<&'f str>,
    was_flow: bool,
}

impl<'f> Place<'f> {
    /// Finds the lines of a member, or says why they cannot be changed and which they are.
    fn of(
        front: &'f str,
        entry: &Entry,
        next: Option<usize>,
    ) -> Result<Self, (&'static str, std::ops::Range<usize>)> {
        let limit = next.unwrap_or(front.len());
        let slice = |from: usize, to: usize| front.get(from..to).unwrap_or_default();
        let mut end = limit;
        // Blank lines and comments after the value stay.
        loop {
            let block = slice(entry.line_start, end);
            let without = block.strip_suffix('\n').unwrap_or(block);
            let Some(at) = without.rfind('\n') else { break };
            let last = without.get(at + 1..).unwrap_or_default();
            let sign = at + 1 + (last.len() - last.trim_start().len());
            let is_comment = match entry.form {
                Form::BlockScalar => last.starts_with('#'),
                _ => {
                    last.trim_start().starts_with('#') && !entry.is_quoted(entry.line_start + sign)
                }
            };
            if !is_comment && !last.trim().is_empty() {
                break;
            }
            end = entry.line_start + at + 1;
        }
        let lines = entry.line_start..end;
        let refused = |why| Err((why, lines.clone()));
        let text = slice(lines.start, lines.end);
        let first = text.split_inclusive('\n').next().unwrap_or_default();
        let rest = text.get(first.len()..).unwrap_or_default();
        if entry.is_marked {
            return refused("the property has an anchor, an alias or a tag");
        }
        if text.contains('\t') {
            return refused("the lines of the property have tabs");
        }
        let indent = slice(entry.line_start, entry.line_start + entry.column);
        if !indent.trim().is_empty() {
            return refused("the property does not begin its line");
        }
        let first_end = entry.line_start + first.trim_end_matches(['\n', '\r']).len();
        let gap = slice(entry.key_end, first_end);
        let colon = entry.key_end + (gap.len() - gap.trim_start_matches(' ').len());
        if slice(colon, colon + 1) != ":" {
            return refused("the property is not written as `name: value`");
        }
        let after = slice(colon + 1, first_end);
        let space_end = colon + 1 + (after.len() - after.trim_start_matches(' ').len());
        let is_here = (space_end..first_end).contains(&entry.value.start)
            && !slice(space_end, first_end).starts_with('#');
        let is_one_line = entry.value.end <= first_end;
        if entry.form == Form::Flow && !(is_here && is_one_line) {
            return refused("the value is a list or a mapping in brackets over several lines");
        }
        let rest_start = lines.start + first.len();
        let has_comment = rest.match_indices('#').any(|(at, _)| {
            let before = rest.get(..at).unwrap_or_default();
            (before.is_empty() || before.ends_with([' ', '\n']))
                && !entry.is_quoted(rest_start + at)
        });
        if entry.form != Form::BlockScalar && has_comment {
            return refused("the lines of the value have comments");
        }
        let tail_start = match entry.form {
            // The header of the block has no comment before the first ` #`.
            Form::BlockScalar => {
                let header = slice(space_end, first_end);
                space_end + header.find(" #").unwrap_or(header.len())
            }
            _ if is_here && is_one_line => entry.value.end,
            _ if is_here => first_end,
            _ => colon + 1,
        };
        let tail = slice(tail_start, first_end);
        if !tail.trim_start().is_empty() && !tail.trim_start().starts_with('#') {
            return refused("the YAML around this property cannot be changed safely");
        }
        let has_value = tail_start > colon + 1;
        Ok(Self {
            head: slice(entry.line_start, colon + 1),
            space: if has_value && space_end > colon + 1 {
                slice(colon + 1, space_end)
            } else {
                " "
            },
            tail,
            eol: front.get(first_end..entry.line_start + first.len()).unwrap_or("\n"),
            indent,
            item_head: entry.item_head(front),
            was_flow: entry.form == Form::Flow,
            lines,
        })
    }

    /// Returns the lines with another value.
    fn with(&self, value: &NewValue, written: &Written, eol: &str) -> String {
        let Self { head, space, tail, indent, .. } = self;
        let eol = if self.eol.is_empty() { eol } else { self.eol };
        match value {
            NewValue::List(items) if !items.is_empty() && !self.was_flow => {
                let item_head =
                    self.item_head.map_or_else(|| format!("{indent}  - "), str::to_owned);
                [*head, *tail, eol, &item_lines(&item_head, written, eol)].concat()
            }
            value => [*head, *space, &inline(value, written), *tail, eol].concat(),
        }
    }
}

/// Returns the lines of a new member.
fn entry(indent: &str, name: &str, (value, written): (&NewValue, &Written), eol: &str) -> String {
    let key = quoted(name);
    match value {
        NewValue::List(items) if !items.is_empty() => {
            let items = item_lines(&format!("{indent}  - "), written, eol);
            [indent, &key, ":", eol, &items].concat()
        }
        value => [indent, &key, ": ", &inline(value, written), eol].concat(),
    }
}

fn item_lines(head: &str, written: &Written, eol: &str) -> String {
    written.texts.iter().flat_map(|text| [head, text, eol]).collect()
}

fn inline(value: &NewValue, written: &Written) -> String {
    let texts = written.texts.join(", ");
    if matches!(value, NewValue::List(_)) { format!("[{texts}]") } else { texts }
}

/// Characters that are no controls and that YAML cannot have as they are, or might take for the end
/// of a line.
const SPECIAL: [char; 5] = ['\u{2028}', '\u{2029}', BOM, '\u{fffe}', '\u{ffff}'];

/// Returns a text as YAML, in double quotes unless it needs none.
fn quoted(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return text.into();
    }
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            c if c.is_control() || SPECIAL.contains(&c) => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(c)));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted.into()
}

/// Whether YAML reads a text as the same text without quotes. Such a text begins with a letter and
/// has no YAML syntax in it, and no YAML parser reads it as a boolean, a number or a null.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 10] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan"];
    let is_safe = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '_' | '-' | '/' | '.');
    text.starts_with(char::is_alphabetic)
        && text.chars().all(is_safe)
        && !text.ends_with(' ')
        && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> NewValue {
        NewValue::Scalar(NewScalar::Text(text.to_owned()))
    }

    fn list(items: &[&str]) -> NewValue {
        NewValue::List(items.iter().map(|item| NewScalar::Text((*item).to_owned())).collect())
    }

    fn front(front: &str, name: &str, value: Option<NewValue>) -> String {
        let note = format!("---\n{front}---\nbody\n");
        match set_property(&note, name, value.as_ref()) {
            Ok(edited) => {
                let edited = edited.strip_prefix("---\n").unwrap();
                edited.strip_suffix("---\nbody\n").unwrap().to_owned()
            }
            Err(EditError::FrontMatter { why, searched, .. }) => {
                format!("{} to {}: {why}", searched.start, searched.end)
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_value_is_replaced_and_its_comment_stays() {
        for (old, new) in [
            ("a: 1\nb: 2 # two\n", "a: 1\nb: x # two\n"),
            ("b:   'x y'   # two\na: 1\n", "b:   x   # two\na: 1\n"),
            ("b:\n# next\na: 1\n", "b: x\n# next\na: 1\n"),
            ("b: # why\na: 1\n", "b: x # why\na: 1\n"),
            ("b:\n  - 1\n  - 2\n\n# next\na: 1\n", "b: x\n\n# next\na: 1\n"),
            ("b:\n- 1\n- 2\na: 1\n", "b: x\na: 1\n"),
            ("b: | # text\n  # one\n  two\na: 1\n", "b: x # text\na: 1\n"),
            ("b: one\n  two\na: 1\n", "b: x\na: 1\n"),
            ("\"b\" : [1, 2] # l\n", "\"b\" : x # l\n"),
            ("  a: 1\n  b: 2\n", "  a: 1\n  b: x\n"),
        ] {
            assert_eq!(front(old, "b", Some(text("x"))), new, "{old}");
        }
    }

    #[test]
    fn a_list_keeps_its_form() {
        assert_eq!(front("b: [1] # c\n", "b", Some(list(&["x", "1"]))), "b: [x, \"1\"] # c\n");
        assert_eq!(front("b:\n- y\na: 1\n", "b", Some(list(&["x"]))), "b:\n- x\na: 1\n");
        assert_eq!(front("b: 1 # c\n", "b", Some(list(&["x"]))), "b: # c\n  - x\n");
        assert_eq!(front("b: 1\n", "b", Some(list(&[]))), "b: []\n");
    }

    #[test]
    fn a_list_keeps_its_indentation_and_the_spelling_of_items_that_stay() {
        for (old, new) in [
            ("b:\n- a\n- b\n", "b:\n- a\n- c d\n"),
            ("b:\n    -  a\n    -  b\n", "b:\n    -  a\n    -  c d\n"),
            ("b:\n  - 'a'\n  - \"b\"\n", "b:\n  - 'a'\n  - c d\n"),
            ("b: ['a', b] # why\n", "b: ['a', c d] # why\n"),
            ("b: a\n", "b:\n  - a\n  - c d\n"),
            ("b:\n  - x: 1\n", "b:\n  - a\n  - c d\n"),
        ] {
            assert_eq!(front(old, "b", Some(list(&["a", "c d"]))), new, "{old}");
        }
        assert_eq!(front("b: [1, '2']\n", "b", Some(list(&["1", "2"]))), "b: [\"1\", '2']\n");
        assert_eq!(front("b: 'x'\n", "b", Some(text("x"))), "b: 'x'\n");
    }

    #[test]
    fn a_date_is_written_as_a_date_unless_the_note_has_it_as_a_text() {
        for (old, date, new) in [
            ("b: 2024-01-01\n", "2024-02-02", "b: 2024-02-02\n"),
            ("b: x\n", "2024-02-02T10:00:00Z", "b: 2024-02-02T10:00:00Z\n"),
            ("a: 1\n", "2024-02-02 10:00:00", "a: 1\nb: 2024-02-02 10:00:00\n"),
            ("b: '2024-01-01'\n", "2024-02-02", "b: \"2024-02-02\"\n"),
            ("b: 2024-01-01\n", "2024-2-2", "b: \"2024-2-2\"\n"),
            ("b: 2024-01-01\n", "10:30", "b: \"10:30\"\n"),
        ] {
            assert_eq!(front(old, "b", Some(text(date))), new, "{old}");
        }
        let dates = list(&["2024-01-01", "2024-01-02"]);
        assert_eq!(
            front("b: [\"2024-01-01\"]\n", "b", Some(dates)),
            "b: [\"2024-01-01\", 2024-01-02]\n"
        );
    }

    #[test]
    fn a_property_is_added_at_the_end_and_removed_with_its_lines() {
        assert_eq!(front("a: 1\n", "b c", Some(text("x: y"))), "a: 1\nb c: \"x: y\"\n");
        assert_eq!(front("  a: 1\n", "b", Some(list(&["x"]))), "  a: 1\n  b:\n    - x\n");
        assert_eq!(front("", "b", Some(text("true"))), "b: \"true\"\n");
        assert_eq!(front("a: 1\nb:\n  - x\n# c\nd: 2\n", "b", None), "a: 1\n# c\nd: 2\n");
        assert_eq!(front("b: 1\n", "b", None), "");
    }

    #[test]
    fn front_matter_is_made_where_there_is_none() {
        let set = |note: &str| set_property(note, "a", Some(&text("x"))).unwrap();
        assert_eq!(set("body"), "---\na: x\n---\nbody");
        assert_eq!(set("\u{feff}one\r\ntwo"), "\u{feff}---\r\na: x\r\n---\r\none\r\ntwo");
        assert_eq!(set("---\r\nb: 1\r\n---"), "---\r\nb: 1\r\na: x\r\n---");
        assert_eq!(set("\u{feff}---\na: 1\n---\n"), "\u{feff}---\na: x\n---\n");
        assert!(set_property("---\nopen", "a", Some(&text("x"))).is_err());
    }

    #[test]
    fn what_cannot_be_changed_safely_is_refused_with_its_lines() {
        for (old, lines) in [
            ("a: 1\nb: &x 1\nc: *x\n", "3 to 4"),
            ("a: &x 1\nb: *x\n", "3 to 4"),
            ("b: !!str 1\n", "2 to 3"),
            ("b: [1,\n  2]\n", "2 to 4"),
            ("b:\n  [1]\n", "2 to 4"),
            ("b: 1\nb: 2\n", "1 to 5"),
            ("b:\t1\n", "2 to 3"),
            ("b:\n  - 1 # one\n  - 2\n", "2 to 5"),
            ("? b\n: 1\n", "2 to 4"),
            ("{b: 1}\n", "2 to 3"),
            ("a: [\n", "1 to 4"),
            ("- b\n", "1 to 4"),
        ] {
            let refused = front(old, "b", Some(text("x")));
            assert!(refused.starts_with(lines), "{old}: {refused}");
        }
        assert!(front("a: 1\n", "b", None).contains("no such property"));
    }

    #[test]
    fn a_name_that_is_no_key_when_it_is_quoted_is_refused() {
        let value = text("x");
        for note in ["", "a note\n", "---\na: 1\n---\n"] {
            assert!(set_property(note, &"\u{1}".repeat(170), Some(&value)).is_ok(), "{note}");
            assert!(set_property(note, &"\u{1}".repeat(171), Some(&value)).is_err(), "{note}");
        }
    }

    #[test]
    fn a_number_sign_in_quotes_is_not_a_comment() {
        for (old, new) in [
            ("b:\n  - \"bb # c\"\n  - 'it''s # d'\na: 1\n", "b: x\na: 1\n"),
            ("b: \"one\n  # two\"\na: 1\n", "b: x\na: 1\n"),
            ("b:\n  - \"bb\" # c\n", "2 to 4: the lines of the value have comments"),
            ("b:\n  # c\n  - \"b\"\n", "2 to 5: the lines of the value have comments"),
        ] {
            assert_eq!(front(old, "b", Some(text("x"))), new, "{old}");
        }
    }

    fn entry_text() -> impl Strategy<Value = String> {
        let value = prop::sample::select(vec![
            " 1", " x y # why", " 'q # q'", " \"d\"", "", " # c", " [a, 'b'] # l", " {x: 1}",
            "\n  - a\n  - b", "\n- a\n- b", "\n  x: 1\n  y: [2]", " |\n  # one\n\n  two",
            " >-\n  one\n  two", " one\n  two", " \"one\n  two\"", " [a,\n  b]", " &k 1", " *k",
            " |+\n  one\n", "\n  - a # c\n  - b", "   007   ",
        ]);
        let after = prop::sample::select(vec!["\n", "\n\n", "\n# note\n", "\n  # note\n"]);
        (value, after).prop_map(|(value, after)| format!(":{value}{after}"))
    }

    /// Texts of the characters that YAML gives a meaning.
    fn syntax_text() -> impl Strategy<Value = String> {
        prop_oneof![
            "[ #:'\"a1,\\\\\\[\\]{}&*!|>%@`\t\n-]{0,8}",
            "\\PC{0,4}",
            "\\PC{0,3} # \\PC{0,3}"
        ]
    }

    fn any_value() -> impl Strategy<Value = NewValue> {
        prop_oneof![
            syntax_text().prop_map(|one| text(&one)),
            prop::collection::vec(syntax_text(), 0..4).prop_map(|items| {
                NewValue::List(items.into_iter().map(NewScalar::Text).collect())
            }),
        ]
    }

    proptest! {
        /// What one edit wrote, the next one can change. What it added, the next one can remove.
        #[test]
        fn a_property_that_was_set_can_be_set_again(
            entries in prop::collection::vec(entry_text(), 0..3),
            name in "(k1|[ #:'\"a\\[-]{1,5})",
            first in any_value(),
            second in any_value(),
        ) {
            let parts = entries.iter().enumerate().map(|(index, rest)| format!("k{index}{rest}"));
            let note = format!("---\n{}---\nbody\n", parts.collect::<String>());
            if let Ok(edited) = set_property(&note, &name, Some(&first)) {
                let again = set_property(&edited, &name, Some(&second));
                prop_assert!(again.is_ok(), "{edited:?} {again:?}");
                if name != "k1" {
                    let removed = set_property(&again.unwrap(), &name, None);
                    prop_assert_eq!(removed, Ok(note), "{:?}", edited);
                }
            }
        }

        /// Each other member keeps its lines byte for byte, in the same order.
        #[test]
        fn every_other_byte_is_kept(
            entries in prop::collection::vec(entry_text(), 0..5),
            at in 0usize..6,
            value in prop_oneof![
                Just(None),
                "\\PC{0,6}".prop_map(|t| Some(text(&t))),
                prop::collection::vec("\\PC{0,4}", 0..3).prop_map(|items| {
                    Some(NewValue::List(items.into_iter().map(NewScalar::Text).collect()))
                }),
            ],
            is_crlf in any::<bool>(),
            body in "(x|---|\n|#){0,5}",
        ) {
            let key = |index: usize| format!("k{index}");
            let at = at.min(entries.len());
            let parts: Vec<String> =
                entries.iter().enumerate().map(|(index, rest)| key(index) + rest).collect();
            let ending =
                |text: &str| if is_crlf { text.replace("\n", "\r\n") } else { text.to_owned() };
            let parts: Vec<String> = parts.iter().map(|part| ending(part)).collect();
            let (open, close) = (ending("---\n"), ending("---\n") + &body);
            let note = [open.as_str(), &parts.concat(), &close].concat();
            if let Ok(edited) = set_property(&note, &key(at), value.as_ref()) {
                let before = [open.as_str(), &parts[..at].concat()].concat();
                let others = parts.get(at + 1..).unwrap_or_default().concat();
                let after = [others, close].concat();
                prop_assert!(edited.starts_with(&before), "{note:?} {edited:?}");
                prop_assert!(edited.ends_with(&after), "{note:?} {edited:?}");
                // In a block of text an indented comment is a part of the text.
                let comments = |text: &str| text.matches("\n# note").count();
                prop_assert_eq!(comments(&edited), comments(&note));
                // A second time changes nothing.
                if value.is_some() {
                    let again = set_property(&edited, &key(at), value.as_ref());
                    prop_assert_eq!(again, Ok(edited));
                }
            }
        }
    }
}
