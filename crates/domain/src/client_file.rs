//! Changes one entry of another program's configuration file and keeps every other byte.
//!
//! A client of Stile keeps its servers in a file of its own, as JSON with or without comments, TOML
//! or YAML. An edit here is a change of text at one place. Afterwards the new text is parsed, and
//! the edit is refused unless the whole document is the old one with that one entry changed. So a
//! file whose form no editor here foresaw is left alone.

mod jsonc;
mod toml_text;
mod yaml_text;

use serde_json::{Map, Value};

/// The form of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// JSON, with comments and commas at the end of lists if the program takes those.
    Json,
    /// TOML, as Codex uses it.
    Toml,
    /// YAML, as Goose uses it.
    Yaml,
}

impl FileFormat {
    /// The name of the format in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Toml => "TOML",
            Self::Yaml => "YAML",
        }
    }
}

/// Why a file is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotEdit {
    /// The file is damaged, or of another format.
    #[error("line {line} is not valid {format}")]
    Syntax {
        /// The name of the expected format.
        format: &'static str,
        /// The line of the fault, from 1.
        line: usize,
    },
    /// Something other than a table has the name of the table of servers.
    #[error("`{name}` is not a table of entries")]
    NotATable {
        /// The dotted name of the table.
        name: String,
    },
    /// One table has two entries of one name, and programs differ in which of the two they use.
    #[error("`{name}` occurs twice")]
    Twice {
        /// The name that occurs twice.
        name: String,
    },
    /// The entry is written in a way that the editor cannot change alone.
    #[error("the entry cannot be changed there without changing something else")]
    NotAlone,
}

/// Returns the entry at a path of keys; `None` if there is none. An empty text has no entries.
///
/// # Errors
/// [`CannotEdit`] if the text does not parse.
pub fn find(format: FileFormat, text: &str, path: &[&str]) -> Result<Option<Value>, CannotEdit> {
    let mut value = parse(format, text)?;
    for key in path {
        match value.get_mut(*key) {
            Some(inner) => value = inner.take(),
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

/// Returns the text with an entry added or replaced. The result is the same text if the entry is
/// there already.
///
/// # Errors
/// [`CannotEdit`] if the text does not parse, or if the entry cannot be changed alone.
pub fn set(
    format: FileFormat,
    text: &str,
    path: &[&str],
    entry: &Value,
) -> Result<String, CannotEdit> {
    let before = parse(format, text)?;
    let mut wanted = before.clone();
    insert(&mut wanted, path, entry)?;
    if before == wanted {
        return Ok(text.to_owned());
    }
    let edited = match format {
        FileFormat::Json => jsonc::set(text, path, entry),
        FileFormat::Toml => toml_text::set(text, path, entry),
        FileFormat::Yaml => yaml_text::set(text, path, entry),
    }?;
    checked(format, edited, &wanted)
}

/// Returns the text without an entry. A table that becomes empty stays. The result is the same text
/// if there is no such entry.
///
/// # Errors
/// [`CannotEdit`] if the text does not parse, or if the entry cannot be removed alone.
pub fn remove(format: FileFormat, text: &str, path: &[&str]) -> Result<String, CannotEdit> {
    let before = parse(format, text)?;
    let mut wanted = before.clone();
    let Some((last, tables)) = path.split_last() else { return Ok(text.to_owned()) };
    let table = tables.iter().try_fold(&mut wanted, |value, key| value.get_mut(*key));
    let Some(table) = table.and_then(Value::as_object_mut) else { return Ok(text.to_owned()) };
    if table.shift_remove(*last).is_none() {
        return Ok(text.to_owned());
    }
    let edited = match format {
        FileFormat::Json => jsonc::remove(text, path),
        FileFormat::Toml => toml_text::remove(text, path),
        FileFormat::Yaml => yaml_text::remove(text, path),
    }?;
    checked(format, edited, &wanted)
}

/// Returns the edited text if it means what is wanted.
fn checked(format: FileFormat, edited: String, wanted: &Value) -> Result<String, CannotEdit> {
    let means = parse(format, &edited).map(without_empty_tables);
    if means == Ok(without_empty_tables(wanted.clone())) {
        Ok(edited)
    } else {
        Err(CannotEdit::NotAlone)
    }
}

/// Returns a document without tables that have no entry. A TOML table and a YAML mapping are gone
/// with their last entry.
fn without_empty_tables(value: Value) -> Value {
    let Value::Object(table) = value else { return value };
    let kept = table.into_iter().map(|(key, value)| (key, without_empty_tables(value)));
    let is_empty = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
    Value::Object(kept.filter(|(_, value)| !is_empty(value)).collect())
}

fn parse(format: FileFormat, text: &str) -> Result<Value, CannotEdit> {
    match format {
        FileFormat::Json => jsonc::parse(text),
        FileFormat::Toml => toml_text::parse(text),
        FileFormat::Yaml => yaml_text::parse(text),
    }
}

fn insert(document: &mut Value, path: &[&str], entry: &Value) -> Result<(), CannotEdit> {
    let mut value = document;
    for (depth, key) in path.iter().enumerate() {
        // A YAML key without a value is a table that has no entries yet.
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        let name = || path.get(..depth).unwrap_or_default().join(".");
        let table = value.as_object_mut().ok_or_else(|| CannotEdit::NotATable { name: name() })?;
        value = table.entry(*key).or_insert(Value::Null);
    }
    *value = entry.clone();
    Ok(())
}

/// Returns the number of a line, from 1, by an offset in bytes.
fn line_at(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Returns how the lines of a text end.
fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

#[cfg(test)]
mod tests;
