//! TOML: an entry is a table with a header of its own, such as `[mcp_servers.stile]`.

use serde_json::Value;

use super::{CannotEdit, line_at, line_end};

pub(super) fn parse(text: &str) -> Result<Value, CannotEdit> {
    toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        CannotEdit::Syntax { format: "TOML", line: line_at(text, offset) }
    })
}

/// Adds the entry as a table at the end, or replaces the lines of the table.
pub(super) fn set(text: &str, path: &[&str], entry: &Value) -> Result<String, CannotEdit> {
    let end = line_end(text);
    let block = block(path, entry, end).ok_or(CannotEdit::NotAlone)?;
    if let Some((before, _, after)) = split(text, path) {
        return Ok(format!("{before}{block}{after}"));
    }
    let separator = match text {
        "" => String::new(),
        text if text.ends_with('\n') => end.to_owned(),
        _ => format!("{end}{end}"),
    };
    Ok(format!("{text}{separator}{block}"))
}

/// Removes the lines of the table, and one empty line before them.
pub(super) fn remove(text: &str, path: &[&str]) -> Result<String, CannotEdit> {
    let (before, _, after) = split(text, path).ok_or(CannotEdit::NotAlone)?;
    let shorter = before.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    let before = match shorter {
        Some(shorter) if shorter.is_empty() || shorter.ends_with('\n') => shorter,
        _ => before,
    };
    Ok(format!("{before}{after}"))
}

/// Splits a text before and after the lines of a table. Comments and empty lines at the end of the
/// table belong to what follows.
fn split<'t>(text: &'t str, path: &[&str]) -> Option<(&'t str, &'t str, &'t str)> {
    let (mut start, mut last, mut at) = (None, 0, 0);
    for line in text.split_inclusive('\n') {
        let header = header(line);
        if let Some(keys) = &header {
            let is_inside = keys.len() >= path.len() && keys.iter().zip(path).all(|(a, b)| a == b);
            match (is_inside, start) {
                (true, None) if keys.len() == path.len() => start = Some(at),
                (false, Some(_)) => break,
                _ => {}
            }
        }
        at += line.len();
        let content = line.trim();
        if start.is_some() && !content.is_empty() && !content.starts_with('#') {
            last = at;
        }
    }
    let start = start?;
    Some((text.get(..start)?, text.get(start..last)?, text.get(last..)?))
}

/// Returns the keys of a line that is the header of a table.
fn header(line: &str) -> Option<Vec<String>> {
    let line = line.trim_start();
    let inside = line.strip_prefix('[')?;
    let inside = inside.strip_prefix('[').unwrap_or(inside);
    // The value of the only key of the header, parsed as a document, names all keys.
    let (keys, _) = inside.split_once(']')?;
    let mut value: Value = toml::from_str(&format!("{keys} = 0")).ok()?;
    let mut found = Vec::new();
    while let Value::Object(table) = value {
        let (key, inner) = table.into_iter().next()?;
        found.push(key);
        value = inner;
    }
    Some(found)
}

fn block(path: &[&str], entry: &Value, end: &str) -> Option<String> {
    let keys: Vec<String> = path.iter().map(|name| key(name)).collect();
    let mut block = format!("[{}]{end}", keys.join("."));
    for (name, value) in entry.as_object()? {
        block += &format!("{} = {}{end}", key(name), inline(value)?);
    }
    Some(block)
}

fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if !name.is_empty() && name.chars().all(is_bare) {
        name.to_owned()
    } else {
        Value::from(name).to_string()
    }
}

/// Renders a value in one line. A JSON string is a TOML string.
fn inline(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(inline).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Object(table) => {
            let pairs = table
                .iter()
                .map(|(name, value)| Some(format!("{} = {}", key(name), inline(value)?)));
            format!("{{ {} }}", pairs.collect::<Option<Vec<_>>>()?.join(", "))
        }
        scalar => scalar.to_string(),
    })
}
