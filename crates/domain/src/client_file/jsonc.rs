//! JSON with comments and trailing commas: where each entry begins and ends in the text.

use std::ops::Range;

use serde_json::{Map, Value};

use super::{CannotEdit, line_at, line_end};

/// The greatest depth of nested values. A configuration has less than ten levels.
const MAX_DEPTH: usize = 100;
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// A value and its place in the text, in bytes.
struct Node {
    span: Range<usize>,
    kind: Kind,
}

enum Kind {
    Object(Vec<Member>),
    Array(Vec<Node>),
    Scalar(Value),
}

struct Member {
    key: String,
    key_start: usize,
    value: Node,
    /// Where the comma after the value is; `None` if there is none.
    comma: Option<usize>,
}

impl Node {
    fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Object(members) => {
                let entries =
                    members.iter().map(|member| (member.key.clone(), member.value.to_value()));
                Value::Object(entries.collect::<Map<_, _>>())
            }
            Kind::Array(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Kind::Scalar(value) => value.clone(),
        }
    }
}

/// Returns the value of a text; an object without entries for an empty text.
pub(super) fn parse(text: &str) -> Result<Value, CannotEdit> {
    if is_blank(text) {
        return Ok(Value::Object(Map::new()));
    }
    Ok(document(text)?.to_value())
}

fn is_blank(text: &str) -> bool {
    text.trim_start_matches(BYTE_ORDER_MARK).trim().is_empty()
}

/// Adds or replaces the entry at a path.
pub(super) fn set(text: &str, path: &[&str], entry: &Value) -> Result<String, CannotEdit> {
    if is_blank(text) {
        return Ok(format!("{:#}\n", nested(path, entry)));
    }
    let root = document(text)?;
    let (mut table, mut rest) = (&root, path);
    while let Some((key, below)) = rest.split_first() {
        let Kind::Object(members) = &table.kind else { return Err(CannotEdit::NotAlone) };
        match members.iter().find(|member| member.key == *key) {
            Some(member) if below.is_empty() => {
                return Ok(replaced(text, &root, member, entry));
            }
            Some(member) => (table, rest) = (&member.value, below),
            None => return Ok(inserted(text, &root, table, members, key, &nested(below, entry))),
        }
    }
    Err(CannotEdit::NotAlone)
}

/// Removes the entry at a path, with the comma and the line end that belong to it.
pub(super) fn remove(text: &str, path: &[&str]) -> Result<String, CannotEdit> {
    let root = document(text)?;
    let (mut table, mut rest) = (&root, path);
    while let Some((key, below)) = rest.split_first() {
        let Kind::Object(members) = &table.kind else { return Err(CannotEdit::NotAlone) };
        let at = members.iter().position(|member| member.key == *key);
        let (at, member) =
            at.and_then(|at| Some((at, members.get(at)?))).ok_or(CannotEdit::NotAlone)?;
        if !below.is_empty() {
            (table, rest) = (&member.value, below);
            continue;
        }
        let previous = at.checked_sub(1).and_then(|before| members.get(before)?.comma);
        let start = removal_start(text, member.key_start, previous);
        let end = member.comma.map_or(member.value.span.end, |comma| comma + 1);
        let mut edits = vec![(start..end, String::new())];
        if let (None, Some(comma)) = (member.comma, previous) {
            edits.insert(0, (comma..comma + 1, String::new()));
        }
        return Ok(with_edits(text, &edits));
    }
    Err(CannotEdit::NotAlone)
}

/// Returns where the removal of a member begins. The line end or the blanks before a member go with
/// the member. `comma` is where the comma of the member before is.
fn removal_start(text: &str, key_start: usize, comma: Option<usize>) -> usize {
    if let Some(line) = line_start(text, key_start) {
        let before = text.get(..line).unwrap_or_default();
        let stripped = before.strip_suffix("\r\n").or(before.strip_suffix('\n'));
        return stripped.map_or(line, str::len);
    }
    let after_comma = comma.map(|comma| comma + 1).filter(|start| {
        text.get(*start..key_start).is_some_and(|between| between.trim().is_empty())
    });
    after_comma.unwrap_or(key_start)
}

/// Wraps an entry in the tables that a path names.
fn nested(path: &[&str], entry: &Value) -> Value {
    path.iter().rev().fold(entry.clone(), |inner, key| {
        Value::Object(Map::from_iter([((*key).to_owned(), inner)]))
    })
}

fn replaced(text: &str, root: &Node, member: &Member, entry: &Value) -> String {
    let rendered = match indentation(text, member.key_start) {
        Some(indent) => pretty(entry, indent, unit(text, root), line_end(text)),
        None => entry.to_string(),
    };
    with_edits(text, &[(member.value.span.clone(), rendered)])
}

/// Adds a member at the end of a table.
fn inserted(
    text: &str,
    root: &Node,
    table: &Node,
    members: &[Member],
    key: &str,
    value: &Value,
) -> String {
    let key = Value::from(key).to_string();
    let source = text.get(table.span.clone()).unwrap_or_default();
    let is_one_line = !source.contains('\n');
    if let (true, Some(last)) = (is_one_line, members.last()) {
        let space = if text.contains('\n') { " " } else { "" };
        let member = format!("{space}{key}:{space}{value}");
        let (at, member) = match last.comma {
            Some(comma) => (comma + 1, format!("{member},")),
            None => (last.value.span.end, format!(",{member}")),
        };
        return with_edits(text, &[(at..at, member)]);
    }
    if !text.contains('\n') && table.span.start > root.span.start {
        // The file has one line, as programs write it.
        let at = table.span.start + 1;
        return with_edits(text, &[(at..at, format!("{key}:{value}"))]);
    }
    let (unit, end) = (unit(text, root), line_end(text));
    let outer = line_of(text, table.span.start);
    let own = members.iter().find_map(|member| indentation(text, member.key_start));
    let indent = own.map_or_else(|| format!("{outer}{unit}"), str::to_owned);
    let member = format!("{end}{indent}{key}: {}", pretty(value, &indent, unit, end));
    let Some(last) = members.last() else {
        let inside = source.get(1..source.len().saturating_sub(1)).unwrap_or_default();
        let closing = if inside.contains('\n') { String::new() } else { format!("{end}{outer}") };
        let at = table.span.start + 1;
        return with_edits(text, &[(at..at, member + &closing)]);
    };
    // A comment behind the last entry stays behind it.
    let value_end = last.value.span.end;
    let after = last.comma.map_or(value_end, |comma| comma + 1);
    let at = after + same_line_comments(text.get(after..).unwrap_or_default());
    match last.comma {
        Some(_) => with_edits(text, &[(at..at, member + ",")]),
        None => with_edits(text, &[(value_end..value_end, ",".to_owned()), (at..at, member)]),
    }
}

/// Returns the length of the comments at the beginning of a text that begin on its first line.
fn same_line_comments(text: &str) -> usize {
    let mut length = 0;
    loop {
        let rest = text.get(length..).unwrap_or_default();
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let comment = rest.get(blanks..).unwrap_or_default();
        let end = if comment.starts_with("//") {
            comment.find(['\n', '\r'])
        } else if comment.starts_with("/*") {
            comment.find("*/").map(|at| at + 2)
        } else {
            None
        };
        match end {
            Some(end) => length += blanks + end,
            None => return length,
        }
    }
}

/// Renders a value on several lines, as if its first line were indented by `indent`.
fn pretty(value: &Value, indent: &str, unit: &str, end: &str) -> String {
    let inner = format!("{indent}{unit}");
    let lines: Vec<String> = match value {
        Value::Object(table) if !table.is_empty() => table
            .iter()
            .map(|(key, value)| {
                let key = Value::from(key.as_str());
                format!("{inner}{key}: {}", pretty(value, &inner, unit, end))
            })
            .collect(),
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().map(|item| format!("{inner}{}", pretty(item, &inner, unit, end))).collect()
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(Value::to_string).collect();
            return format!("[{}]", items.join(", "));
        }
        scalar => return scalar.to_string(),
    };
    let (open, close) = if value.is_object() { ('{', '}') } else { ('[', ']') };
    format!("{open}{end}{}{end}{indent}{close}", lines.join(&format!(",{end}")))
}

/// Returns what one level of the file is indented by.
fn unit<'t>(text: &'t str, root: &Node) -> &'t str {
    let Kind::Object(members) = &root.kind else { return "  " };
    let first = members.iter().find_map(|member| indentation(text, member.key_start));
    first.filter(|indent| !indent.is_empty()).unwrap_or("  ")
}

/// Returns where the line of an offset begins, if only blanks are before the offset.
fn line_start(text: &str, offset: usize) -> Option<usize> {
    let before = text.get(..offset)?;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    before.get(start..)?.trim_matches([' ', '\t']).is_empty().then_some(start)
}

/// Returns the blanks before an offset, if nothing else is before the offset on its line.
fn indentation(text: &str, offset: usize) -> Option<&str> {
    text.get(line_start(text, offset)?..offset).filter(|_| text.contains('\n'))
}

/// Returns the blanks at the beginning of the line of an offset.
fn line_of(text: &str, offset: usize) -> &str {
    let before = text.get(..offset).unwrap_or_default();
    let line = before.get(before.rfind('\n').map_or(0, |at| at + 1)..).unwrap_or_default();
    line.get(..line.len() - line.trim_start_matches([' ', '\t']).len()).unwrap_or_default()
}

/// Applies edits, which are in the order of the text.
fn with_edits(text: &str, edits: &[(Range<usize>, String)]) -> String {
    let mut edited = String::with_capacity(text.len());
    let mut at = 0;
    for (range, replacement) in edits {
        edited += text.get(at..range.start).unwrap_or_default();
        edited += replacement;
        at = range.end;
    }
    edited + text.get(at..).unwrap_or_default()
}

fn document(text: &str) -> Result<Node, CannotEdit> {
    let mut reader = Reader { text, at: 0 };
    if text.starts_with(BYTE_ORDER_MARK) {
        reader.at = BYTE_ORDER_MARK.len();
    }
    reader.skip_blanks()?;
    let node = reader.value(0)?;
    reader.skip_blanks()?;
    if reader.peek().is_some() { Err(reader.fault()) } else { Ok(node) }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn fault(&self) -> CannotEdit {
        CannotEdit::Syntax { format: "JSON", line: line_at(self.text, self.at) }
    }

    fn skip_blanks(&mut self) -> Result<(), CannotEdit> {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
            let comment = rest.get(blanks..).unwrap_or_default();
            let length = if comment.starts_with("//") {
                comment.find('\n').unwrap_or(comment.len())
            } else if comment.starts_with("/*") {
                let end = comment.get(2..).and_then(|inside| inside.find("*/"));
                end.map(|at| at + 4).ok_or_else(|| self.fault())?
            } else {
                self.at += blanks;
                return Ok(());
            };
            self.at += blanks + length;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, CannotEdit> {
        if depth > MAX_DEPTH {
            return Err(self.fault());
        }
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{') => Kind::Object(self.members(depth)?),
            Some(b'[') => Kind::Array(self.items(depth)?),
            Some(b'"') => Kind::Scalar(Value::String(self.string()?)),
            _ => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
                let rest = self.rest();
                let length = rest.len() - rest.trim_start_matches(is_part).len();
                let word = rest.get(..length).unwrap_or_default();
                let value = serde_json::from_str(word).map_err(|_| self.fault())?;
                self.at += length;
                Kind::Scalar(value)
            }
        };
        Ok(Node { span: start..self.at, kind })
    }

    fn string(&mut self) -> Result<String, CannotEdit> {
        let rest = self.rest();
        let mut is_escaped = true;
        let closing = rest.bytes().position(|byte| {
            let closes = byte == b'"' && !is_escaped;
            // The first quote opens the string.
            is_escaped = byte == b'\\' && !is_escaped;
            closes
        });
        let end = closing.map(|at| at + 1).ok_or_else(|| self.fault())?;
        let string = serde_json::from_str(rest.get(..end).unwrap_or_default());
        let string = string.map_err(|_| self.fault())?;
        self.at += end;
        Ok(string)
    }

    /// Reads the members of an object from its opening to its closing brace.
    fn members(&mut self, depth: usize) -> Result<Vec<Member>, CannotEdit> {
        let mut members: Vec<Member> = Vec::new();
        self.at += 1;
        loop {
            self.skip_blanks()?;
            if self.peek() == Some(b'}') {
                self.at += 1;
                return Ok(members);
            }
            let has_comma = members.last().is_none_or(|member| member.comma.is_some());
            if self.peek() != Some(b'"') || !has_comma {
                return Err(self.fault());
            }
            let key_start = self.at;
            let key = self.string()?;
            if members.iter().any(|member| member.key == key) {
                return Err(CannotEdit::Twice { name: key });
            }
            self.skip_blanks()?;
            if self.peek() != Some(b':') {
                return Err(self.fault());
            }
            self.at += 1;
            self.skip_blanks()?;
            let value = self.value(depth + 1)?;
            let comma = self.comma()?;
            members.push(Member { key, key_start, value, comma });
        }
    }

    fn items(&mut self, depth: usize) -> Result<Vec<Node>, CannotEdit> {
        let mut items = Vec::new();
        let mut has_comma = true;
        self.at += 1;
        loop {
            self.skip_blanks()?;
            if self.peek() == Some(b']') {
                self.at += 1;
                return Ok(items);
            }
            if !has_comma {
                return Err(self.fault());
            }
            items.push(self.value(depth + 1)?);
            has_comma = self.comma()?.is_some();
        }
    }

    fn comma(&mut self) -> Result<Option<usize>, CannotEdit> {
        self.skip_blanks()?;
        if self.peek() != Some(b',') {
            return Ok(None);
        }
        self.at += 1;
        Ok(Some(self.at - 1))
    }
}
