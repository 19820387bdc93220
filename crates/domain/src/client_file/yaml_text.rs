//! YAML: an entry is an indented block below the key of its table, such as `extensions:`.
//!
//! Only a table at the top of a document in block style is edited. Every other form is refused.

use serde_json::{Map, Value};

use super::{CannotEdit, line_at, line_end};

pub(super) fn parse(text: &str) -> Result<Value, CannotEdit> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Value::Object(Map::new()));
    }
    serde_saphyr::from_str(text).map_err(|error| CannotEdit::Syntax {
        format: "YAML",
        line: error.location().map_or_else(|| line_at(text, 0), |at| at.line() as usize),
    })
}

/// Adds the entry at the end of its table, or replaces the lines of the entry.
pub(super) fn set(text: &str, path: &[&str], entry: &Value) -> Result<String, CannotEdit> {
    let [table, name] = path else { return Err(CannotEdit::NotAlone) };
    let end = line_end(text);
    let Some(block) = Block::find(text, table) else {
        let separator = if text.is_empty() || text.ends_with('\n') { "" } else { end };
        return Ok(format!("{text}{separator}{table}:{end}{}", rendered(name, entry, "  ", end)));
    };
    let rendered = rendered(name, entry, block.indent, end);
    let (start, stop) = block.entry(name).unwrap_or((block.end, block.end));
    let before = text.get(..start).unwrap_or_default();
    let separator = if before.ends_with('\n') { "" } else { end };
    Ok(format!("{before}{separator}{rendered}{}", text.get(stop..).unwrap_or_default()))
}

/// Removes the lines of the entry. The key of the table goes with its last entry.
pub(super) fn remove(text: &str, path: &[&str]) -> Result<String, CannotEdit> {
    let [table, name] = path else { return Err(CannotEdit::NotAlone) };
    let block = Block::find(text, table).ok_or(CannotEdit::NotAlone)?;
    let (start, stop) = block.entry(name).ok_or(CannotEdit::NotAlone)?;
    let is_only = start == block.start && stop == block.end;
    let start = if is_only { block.key } else { start };
    let (before, after) = (text.get(..start), text.get(stop..));
    Ok(format!("{}{}", before.unwrap_or_default(), after.unwrap_or_default()))
}

/// The lines below a key at the top of a document. Offsets are in bytes.
struct Block<'t> {
    text: &'t str,
    /// Where the line of the key begins.
    key: usize,
    /// Where the first line below the key begins.
    start: usize,
    /// Where the last line that belongs to the table ends.
    end: usize,
    /// What the entries are indented by.
    indent: &'t str,
}

impl<'t> Block<'t> {
    fn find(text: &'t str, table: &str) -> Option<Self> {
        let mut found: Option<Self> = None;
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let start = at;
            at += line.len();
            let content = line.trim();
            let indent = indent_of(line);
            match &mut found {
                None if indent.is_empty() && is_key(content, table) => {
                    found = Some(Self { text, key: start, start: at, end: at, indent: "  " });
                }
                None => {}
                Some(_) if content.is_empty() || content.starts_with('#') => {}
                Some(_) if indent.is_empty() => break,
                Some(block) => {
                    if block.end == block.start {
                        block.indent = indent;
                    }
                    block.end = at;
                }
            }
        }
        found
    }

    /// Returns where the lines of an entry begin and end.
    fn entry(&self, name: &str) -> Option<(usize, usize)> {
        let (mut start, mut end, mut at) = (None, 0, self.start);
        for line in self.text.get(self.start..self.end)?.split_inclusive('\n') {
            let content = line.trim();
            let is_content = !content.is_empty() && !content.starts_with('#');
            let is_key_line = is_content && indent_of(line) == self.indent;
            match start {
                None if is_key_line && is_key(content, name) => start = Some(at),
                Some(_) if is_key_line => break,
                _ => {}
            }
            at += line.len();
            if start.is_some() && is_content {
                end = at;
            }
        }
        Some((start?, end))
    }
}

fn indent_of(line: &str) -> &str {
    line.get(..line.len() - line.trim_start_matches(' ').len()).unwrap_or_default()
}

/// Returns whether a line is a key without a value on the same line.
fn is_key(content: &str, name: &str) -> bool {
    let quoted = [name.to_owned(), format!("\"{name}\""), format!("'{name}'")];
    quoted.iter().any(|key| {
        let rest = content.strip_prefix(key.as_str()).and_then(|rest| rest.strip_prefix(':'));
        rest.is_some_and(|rest| rest.trim().is_empty() || rest.trim_start().starts_with('#'))
    })
}

/// Renders an entry in block style. A JSON string is a YAML string.
fn rendered(name: &str, entry: &Value, indent: &str, end: &str) -> String {
    match entry {
        Value::Object(table) if !table.is_empty() => {
            let inner = format!("{indent}  ");
            let lines: String =
                table.iter().map(|(key, value)| rendered(key, value, &inner, end)).collect();
            format!("{indent}{name}:{end}{lines}")
        }
        other => format!("{indent}{name}: {other}{end}"),
    }
}
