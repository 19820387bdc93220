//! Reads the rows of a JSON file that are within an object, such as `messages` of an export of a
//! chat, or `chats/list/*/messages` of an export of all.
//!
//! The reader goes through the file once and keeps one row in memory. A path begins at the
//! outermost object and names a member at each step; `*` takes every member of an object or every
//! element of an array. The elements of the array at the path are the rows. Identifiers often
//! count anew in each chat, so each row gets the `id` and the `name` of the object that holds its
//! array, as `parent_id` and `parent_name`.
//!
//! *Source*: RFC 8259. The forms are those that Telegram, Google Takeout, browsers, Instagram and
//! Discord write.

use std::collections::HashMap;
use std::io::{self, BufRead};

use stile_domain::json::skipping::{Mark, ValueScanner};
use stile_domain::records::row::{self, ParsedRow};
use stile_domain::records::value::FieldValue;
use stile_domain::unseen::shown_start;
use stile_records::rows::line_source::LineSource;
use stile_records::rows::{DecodedRow, MAX_ROW_BYTES, RowBuffer, RowDecodeError, RowDecoder};

use super::json_text;
use crate::importer::{ImportRows, decoded_rows};
use crate::source::InputPath;

/// The field with the identifier of the object around a row's array.
pub const PARENT_ID: &str = "parent_id";
/// The field with the name of that object.
pub const PARENT_NAME: &str = "parent_name";

/// How many members a path names at most.
const MAX_PATH: usize = 16;
/// The longest name of a member, and the longest value of an identifier, in bytes.
const MAX_NAME_BYTES: usize = 4096;
/// Of how many levels arrays are looked at to guess which one holds the rows.
const GUESSED_LEVELS: usize = 6;
/// An array holds the rows if it has at least this share of the bytes of the file: three fifths.
const NEEDED: (u64, u64) = (3, 5);
/// The name of an array that holds the rows although the chats around it are most of the file, and
/// the share that it needs then, a tenth: nobody asks for chats as rows.
const MESSAGES: &str = "messages";
const OF_MESSAGES: u64 = 10;

/// Where the rows of a file are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowsPath(Vec<Segment>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Segment {
    Name(String),
    /// Each member or element.
    Any,
}

impl RowsPath {
    /// Parses a path such as `messages` or `chats/list/*/messages`. `None` if a part is empty or
    /// there are too many.
    pub fn parse(text: &str) -> Option<Self> {
        let segment = |part: &str| match part {
            "" => None,
            "*" => Some(Segment::Any),
            name => Some(Segment::Name(name.to_owned())),
        };
        let segments: Vec<Segment> = text.split('/').map(segment).collect::<Option<_>>()?;
        (segments.len() <= MAX_PATH).then_some(Self(segments))
    }
}

impl std::fmt::Display for RowsPath {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, segment) in self.0.iter().enumerate() {
            formatter.write_str(if index > 0 { "/" } else { "" })?;
            formatter.write_str(match segment {
                Segment::Name(name) => name,
                Segment::Any => "*",
            })?;
        }
        Ok(())
    }
}

/// Opens a file to read the rows at a path.
///
/// # Errors
/// The file cannot be opened.
pub fn open(path: &InputPath, rows: &RowsPath) -> io::Result<Box<dyn ImportRows>> {
    Ok(decoded_rows(path, WrappedRows::new(json_text::open(path)?, rows.clone())))
}

/// An object or array on the way to the rows.
#[derive(Debug)]
struct Level {
    is_object: bool,
    /// How many parts of the path lead here.
    matched: usize,
    /// Whether the elements are rows.
    holds_rows: bool,
    id: Option<FieldValue>,
    name: Option<FieldValue>,
}

/// A decoder for the rows at a path.
#[derive(Debug)]
pub struct WrappedRows<R> {
    json: JsonReader<R>,
    path: RowsPath,
    levels: Vec<Level>,
    has_begun: bool,
    has_ended: bool,
}

impl<R: BufRead> WrappedRows<R> {
    /// Reads a file from its first byte.
    pub fn new(reader: R, path: RowsPath) -> Self {
        Self::with_max_row_bytes(reader, path, MAX_ROW_BYTES)
    }

    fn with_max_row_bytes(reader: R, path: RowsPath, max_row_bytes: usize) -> Self {
        let json = JsonReader::new(reader, max_row_bytes);
        Self { json, path, levels: Vec::new(), has_begun: false, has_ended: false }
    }

    /// Reads up to the next row.
    fn next_row(&mut self) -> Result<Option<DecodedRow>, Fault> {
        if !std::mem::replace(&mut self.has_begun, true) {
            match self.json.peek()? {
                Some(b'{' | b'[') => self.enter(0),
                _ => return Err(Fault::Json("the file is neither an object nor an array")),
            }
        }
        loop {
            let Some((is_object, matched, holds_rows)) =
                self.levels.last().map(|level| (level.is_object, level.matched, level.holds_rows))
            else {
                return Ok(None);
            };
            let end = if is_object { b'}' } else { b']' };
            match self.json.peek()? {
                None => return Err(Fault::Json("the file ends before its last bracket")),
                Some(b',') => self.json.skip(),
                Some(byte) if byte == end => {
                    self.json.skip();
                    self.levels.pop();
                }
                Some(_) if holds_rows => {
                    return self.json.row().map(|row| Some(self.with_parent(row)));
                }
                Some(_) => {
                    if let Some(row) = self.member(is_object, matched)? {
                        return Ok(Some(row));
                    }
                }
            }
        }
    }

    /// Reads a member or an element on the way: enters it, keeps it, or skips it.
    fn member(&mut self, is_object: bool, matched: usize) -> Result<Option<DecodedRow>, Fault> {
        let name = if is_object { Some(self.json.name()?) } else { None };
        let first = self.json.peek()?;
        let is_nested = matches!(first, Some(b'{' | b'['));
        let segment = self.path.0.get(matched);
        // The array at the top takes no part of the path.
        let is_top_array = self.levels.len() == 1 && !is_object && segment != Some(&Segment::Any);
        let fits = match (segment, &name) {
            (Some(Segment::Any), _) => true,
            (Some(Segment::Name(wanted)), Some(name)) => wanted == name,
            _ => false,
        };
        if is_nested && is_top_array {
            self.enter(matched);
            return Ok(None);
        }
        if is_nested && fits {
            let is_last = matched + 1 == self.path.0.len();
            if is_last && first == Some(b'{') {
                let row = self.json.row()?;
                return Ok(Some(self.with_parent(row)));
            }
            self.enter(matched + 1);
            return Ok(None);
        }
        let kept = match name.as_deref() {
            Some("id" | "uuid") => self.levels.last_mut().map(|level| &mut level.id),
            Some("name" | "title") => self.levels.last_mut().map(|level| &mut level.name),
            _ => None,
        };
        match kept {
            Some(place) if !is_nested => *place = self.json.scalar()?,
            _ => self.json.skip_value()?,
        }
        Ok(None)
    }

    fn enter(&mut self, matched: usize) {
        let is_object = self.json.taken_bracket() == Some(b'{');
        let holds_rows = !is_object && matched == self.path.0.len();
        self.levels.push(Level { is_object, matched, holds_rows, id: None, name: None });
    }

    /// Adds the parent of a row: the nearest object on the way.
    fn with_parent(&self, mut decoded: DecodedRow) -> DecodedRow {
        let Ok(ParsedRow { fields, .. }) = &mut decoded.row else { return decoded };
        let parent = self.levels.iter().rev().find(|level| level.is_object);
        for (field, value) in [
            (PARENT_ID, parent.and_then(|level| level.id.clone())),
            (PARENT_NAME, parent.and_then(|level| level.name.clone())),
        ] {
            if let Some(value) = value.filter(|_| fields.iter().all(|(name, _)| name != field)) {
                fields.push((field.to_owned(), value));
            }
        }
        for (_, value) in fields.iter_mut().filter(|(name, _)| name == "text") {
            if let Some(text) = joined_text(value) {
                *value = FieldValue::Text(text);
            }
        }
        decoded
    }
}

impl<R: BufRead> RowDecoder for WrappedRows<R> {
    fn next(&mut self) -> io::Result<Option<DecodedRow>> {
        if self.has_ended {
            return Ok(None);
        }
        match self.next_row() {
            Ok(Some(row)) => Ok(Some(row)),
            Ok(None) => {
                self.has_ended = true;
                Ok(None)
            }
            Err(Fault::Read(error)) => Err(error),
            Err(Fault::Json(what)) => {
                self.has_ended = true;
                Ok(Some(DecodedRow::bad(self.json.line, RowDecodeError::Between(what))))
            }
        }
    }

    fn consumed(&self) -> u64 {
        self.json.source.consumed()
    }
}

/// Joins a text that is written in pieces, as Telegram does: strings, and objects with a `type` and
/// a `text`. `None` for any other value, also for a list of strings alone.
fn joined_text(value: &FieldValue) -> Option<String> {
    let FieldValue::Json(json) = value else { return None };
    let mut text = String::new();
    let mut has_object = false;
    for item in row::items(json)? {
        match item {
            FieldValue::Text(piece) => text.push_str(&piece),
            FieldValue::Json(json) => {
                let members = row::members(&json)?;
                let member = |wanted: &str| {
                    members.iter().find_map(|(name, value)| match value {
                        FieldValue::Text(text) if name == wanted => Some(text.as_str()),
                        _ => None,
                    })
                };
                member("type")?;
                text.push_str(member("text")?);
                has_object = true;
            }
            _ => return None,
        }
    }
    has_object.then_some(text)
}

/// Guesses where the rows are: in the deepest array of objects that has most bytes of the file. An
/// array at the top holds the rows itself, unless it has a single element. `None` if nothing stands
/// out, or if the file is not JSON.
///
/// # Errors
/// The reader failed.
pub fn guess(reader: impl BufRead) -> io::Result<Option<RowsPath>> {
    let mut json = JsonReader::new(reader, 0);
    let mut arrays: HashMap<Vec<Segment>, u64> = HashMap::new();
    let measured = measure(&mut json, &mut Vec::new(), &mut arrays);
    match measured {
        Err(Fault::Read(error)) => return Err(error),
        Err(Fault::Json(_)) => return Ok(None),
        Ok(()) => {}
    }
    let total = json.source.consumed();
    let is_most = |bytes: u64| bytes * NEEDED.1 >= total * NEEDED.0;
    let candidates = arrays.iter().filter(|(path, bytes)| !path.is_empty() && is_most(**bytes));
    let deepest = candidates.max_by_key(|(path, bytes)| (path.len(), **bytes));
    let Some((deepest, _)) = deepest else { return Ok(None) };
    let is_of_messages = |(path, bytes): &(&Vec<Segment>, &u64)| {
        path.len() > deepest.len()
            && path.starts_with(deepest)
            && matches!(path.last(), Some(Segment::Name(name)) if name == MESSAGES)
            && **bytes * OF_MESSAGES >= total
    };
    let within = arrays.iter().filter(is_of_messages).max_by_key(|(_, bytes)| **bytes);
    Ok(Some(RowsPath(within.map_or(deepest, |(path, _)| path).clone())))
}

/// Returns the members of a file that is one object, for a person who looks for its rows: what can
/// be said with `--rows`. `None` if the file is none.
///
/// # Errors
/// The reader failed.
pub fn members(reader: impl BufRead) -> io::Result<Option<ObjectMembers>> {
    let mut json = JsonReader::new(reader, 0);
    match members_of(&mut json) {
        Ok(found) => Ok(found),
        Err(Fault::Read(error)) => Err(error),
        Err(Fault::Json(_)) => Ok(None),
    }
}

/// The names of the members of an object that can hold rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectMembers {
    /// Those that are arrays.
    pub arrays: Vec<String>,
    /// Those that are objects.
    pub objects: Vec<String>,
    /// How many members are neither.
    pub others: u64,
}

impl ObjectMembers {
    /// Says what the file is and how to import it, for a person at a command line.
    pub fn advice(&self) -> String {
        const SHOWN: usize = 6;
        let list = |names: &[String]| {
            let shown: Vec<String> = names
                .iter()
                .take(SHOWN)
                .map(|name| format!("`{}`", shown_start(name, 40)))
                .collect();
            let more = names.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{}{more}", shown.join(", "))
        };
        match (self.arrays.as_slice(), self.objects.as_slice()) {
            ([first, ..], _) => format!(
                "it is a JSON object, and which of its lists holds the rows is not clear: {}. Say it with \
                 --rows, such as --rows {}",
                list(&self.arrays),
                shown_start(first, 40)
            ),
            ([], [_, _, ..]) if self.others == 0 => format!(
                "it is a JSON object whose members are objects: {}. If each is a row, add --rows '*'; if \
                 one holds the rows, name the way to them, such as --rows name/messages",
                list(&self.objects)
            ),
            ([], [first, ..]) => format!(
                "it is a JSON object without a list at its top, with the object(s) {}. Name the way to the \
                 rows with --rows, such as --rows {}/messages",
                list(&self.objects),
                shown_start(first, 40)
            ),
            ([], []) => "it is one JSON object without lists, so it is a single row. Put it on one line and \
                         import it with --format jsonl"
                .to_owned(),
        }
    }
}

fn members_of<R: BufRead>(json: &mut JsonReader<R>) -> Result<Option<ObjectMembers>, Fault> {
    if json.peek()? != Some(b'{') {
        return Ok(None);
    }
    json.skip();
    let mut found = ObjectMembers::default();
    loop {
        match json.peek()? {
            None => return Err(Fault::Json("the file ends before its last bracket")),
            Some(b'}') => return Ok(Some(found)),
            Some(b',') => json.skip(),
            Some(_) => {
                let name = json.name()?;
                match json.peek()? {
                    Some(b'[') => found.arrays.push(name),
                    Some(b'{') => found.objects.push(name),
                    _ => found.others += 1,
                }
                json.skip_value()?;
            }
        }
    }
}

/// Measures the arrays of objects below a value, whose first bracket is the next byte.
fn measure<R: BufRead>(
    json: &mut JsonReader<R>,
    path: &mut Vec<Segment>,
    arrays: &mut HashMap<Vec<Segment>, u64>,
) -> Result<(), Fault> {
    let first = json.peek()?;
    let begun = json.position;
    if path.len() >= GUESSED_LEVELS || !matches!(first, Some(b'{' | b'[')) {
        return json.skip_value();
    }
    let is_object = first == Some(b'{');
    let end = if is_object { b'}' } else { b']' };
    json.skip();
    let is_top = path.is_empty();
    let (mut elements, mut holds_objects) = (0_u64, false);
    loop {
        match json.peek()? {
            None => return Err(Fault::Json("the file ends before its last bracket")),
            Some(b',') => json.skip(),
            Some(byte) if byte == end => {
                json.skip();
                break;
            }
            Some(byte) => {
                elements += 1;
                holds_objects |= byte == b'{';
                if is_top && !is_object {
                    // A long array at the top holds the rows itself.
                    if elements > 1 {
                        arrays.clear();
                        return Ok(());
                    }
                    measure(json, path, arrays)?;
                    continue;
                }
                path.push(if is_object { Segment::Name(json.name()?) } else { Segment::Any });
                let measured = measure(json, path, arrays);
                path.pop();
                measured?;
            }
        }
    }
    if !is_object && holds_objects && arrays.len() < 10_000 {
        *arrays.entry(path.clone()).or_default() += json.position - begun;
    }
    Ok(())
}

/// Why a file cannot be read on.
#[derive(Debug)]
enum Fault {
    Read(io::Error),
    Json(&'static str),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// Reads JSON value by value.
#[derive(Debug)]
struct JsonReader<R> {
    source: LineSource<R>,
    /// The line of the next byte, 1-based.
    line: u64,
    /// How many bytes were read.
    position: u64,
    held: RowBuffer,
}

impl<R: BufRead> JsonReader<R> {
    fn new(reader: R, max_row_bytes: usize) -> Self {
        let (source, held) = (LineSource::new(reader), RowBuffer::new(max_row_bytes));
        Self { source, line: 1, position: 0, held }
    }

    /// Returns the next byte that is not white space, without taking it.
    fn peek(&mut self) -> Result<Option<u8>, Fault> {
        loop {
            let buffer = self.source.fill()?;
            let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
            let spaces = buffer.iter().take_while(is_space).count();
            let lines =
                memchr::memchr_iter(b'\n', buffer.get(..spaces).unwrap_or_default()).count();
            let next = buffer.get(spaces).copied();
            let is_end = buffer.is_empty();
            self.line += lines as u64;
            self.take(spaces);
            if next.is_some() || is_end {
                return Ok(next);
            }
        }
    }

    fn take(&mut self, count: usize) {
        self.position += count as u64;
        self.source.consume(count);
    }

    /// Takes the byte that was peeked.
    fn skip(&mut self) {
        self.take(1);
    }

    /// Takes the bracket that was peeked, and returns it.
    fn taken_bracket(&mut self) -> Option<u8> {
        let bracket = self.source.fill().ok().and_then(|buffer| buffer.first().copied());
        self.skip();
        bracket
    }

    /// Reads the name of a member and the colon behind it.
    fn name(&mut self) -> Result<String, Fault> {
        if self.peek()? != Some(b'"') {
            return Err(Fault::Json("the name of a member is missing"));
        }
        let mut bytes = Vec::new();
        self.value(&mut |part| {
            let room = MAX_NAME_BYTES.saturating_sub(bytes.len()).min(part.len());
            bytes.extend_from_slice(part.get(..room).unwrap_or_default());
        })?;
        let name = serde_json::from_slice(&bytes)
            .map_err(|_| Fault::Json("the name of a member is not a string, or too long"))?;
        if self.peek()? != Some(b':') {
            return Err(Fault::Json("a `:` is missing behind the name of a member"));
        }
        self.skip();
        Ok(name)
    }

    /// Reads a string, a number or another scalar; `None` if it is long or null.
    fn scalar(&mut self) -> Result<Option<FieldValue>, Fault> {
        let mut bytes = b"{\"v\":".to_vec();
        let mut is_long = false;
        self.value(&mut |part| {
            is_long |= bytes.len() + part.len() > MAX_NAME_BYTES;
            if !is_long {
                bytes.extend_from_slice(part);
            }
        })?;
        bytes.push(b'}');
        let parsed = row::parse(&bytes).ok().filter(|_| !is_long);
        let value = parsed.and_then(|parsed| Some(parsed.fields.into_iter().next()?.1));
        Ok(value.filter(|value| *value != FieldValue::Null))
    }

    /// Reads a value as a row.
    fn row(&mut self) -> Result<DecodedRow, Fault> {
        let begun = self.line;
        let mut held = std::mem::replace(&mut self.held, RowBuffer::new(0));
        let read = self.value(&mut |part| held.add(part));
        let decoded = held.finish(begun, b"");
        self.held = held;
        read.map(|()| decoded)
    }

    fn skip_value(&mut self) -> Result<(), Fault> {
        self.value(&mut |_| ())
    }

    /// Passes the bytes of the next value to `part`.
    fn value(&mut self, part: &mut dyn FnMut(&[u8])) -> Result<(), Fault> {
        let (mut scan, mut is_begun) = (ValueScanner::default(), false);
        loop {
            let buffer = self.source.fill()?;
            if buffer.is_empty() {
                return if is_begun && scan.is_outermost() {
                    Ok(())
                } else {
                    Err(Fault::Json("the file ends within a value"))
                };
            }
            let ended = scan.next(buffer).map(|(at, mark)| match mark {
                Mark::Outside(_) => at,
                Mark::StringEnd | Mark::Closed => at + 1,
            });
            let count = ended.unwrap_or(buffer.len());
            let bytes = buffer.get(..count).unwrap_or_default();
            part(bytes);
            is_begun |= !bytes.trim_ascii().is_empty();
            self.line += memchr::memchr_iter(b'\n', bytes).count() as u64;
            self.take(count);
            match ended {
                Some(_) if !is_begun => return Err(Fault::Json("a value is missing")),
                Some(_) => return Ok(()),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::decoder_properties::decode_all;

    fn rows(text: &str, path: &str) -> Vec<Json> {
        let path = RowsPath::parse(path).unwrap();
        let rows = |size| {
            let reader = BufReader::with_capacity(size, text.as_bytes());
            decode_all(WrappedRows::new(reader, path.clone()))
        };
        let decoded = rows(4096);
        assert_eq!(decoded, rows(1));
        let json = |decoded: &DecodedRow| match &decoded.row {
            Ok(row) => serde_json::from_str(&row::to_json(&row.fields)).unwrap(),
            Err(bad) => json!(bad.code()),
        };
        decoded.iter().map(json).collect()
    }

    fn guessed(text: &str) -> Option<String> {
        guess(text.as_bytes()).unwrap().map(|path| path.to_string())
    }

    const ALL: &str = r#"{"chats":{"list":[
        {"name":"Ann","id":1,"messages":[{"id":1,"text":"hello there, how are the ferns today"},{"id":2,"text":["see ",{"type":"link","text":"x.org"}]}]},
        {"messages":[{"id":1,"text":"another chat that is long enough too","tags":["a","b"]}],"id":2,"name":"Bob"}]}}"#;

    #[test]
    fn rows_are_found_at_a_path_and_know_their_parent() {
        assert_eq!(
            rows(ALL, "chats/list/*/messages"),
            [
                json!({ "id": 1, "text": "hello there, how are the ferns today", "parent_id": 1, "parent_name": "Ann" }),
                json!({ "id": 2, "text": "see x.org", "parent_id": 1, "parent_name": "Ann" }),
                json!({ "id": 1, "text": "another chat that is long enough too", "tags": ["a", "b"] }),
            ]
        );
        assert_eq!(
            rows(r#"{"a":{"x":{"n":1},"y":{"n":2}}}"#, "a/*"),
            [json!({ "n": 1 }), json!({ "n": 2 })]
        );
        assert_eq!(
            rows(r#"[{"id":"c","m":[{"n":1}]}]"#, "m"),
            [json!({ "n": 1, "parent_id": "c" })]
        );
        assert_eq!(
            rows(r#"{"m":[{"n":1},2,{"n":3}]}"#, "m"),
            [json!({ "n": 1 }), json!("not_an_object"), json!({ "n": 3 })]
        );
        assert_eq!(rows(r#"{"m":[{"n":1}"#, "m"), [json!({ "n": 1 }), json!("invalid_json")]);
        assert_eq!(rows(r#"{"other":[1]}"#, "m"), Vec::<Json>::new());
        assert_eq!(rows("12", "m"), [json!("invalid_json")]);
        for (text, path) in [("", None), ("a//b", None), ("a/*/b", Some("a/*/b")), ("*", Some("*"))]
        {
            assert_eq!(RowsPath::parse(text).map(|path| path.to_string()).as_deref(), path);
        }
    }

    #[test]
    fn an_object_without_rows_that_stand_out_says_what_can_be_said() {
        let advice = |text: &str| {
            members(text.as_bytes()).unwrap().map(|found| found.advice()).unwrap_or_default()
        };
        for (text, part) in [
            (
                r#"{"friends":[{"n":1}],"foes":[{"m":1}]}"#,
                "`friends`, `foes`. Say it with --rows, such as --rows friends",
            ),
            (r#"{"a":{"n":1},"b":{"n":2}}"#, "--rows '*'"),
            (r#"{"v":1,"data":{"rows":[]}}"#, "--rows data/messages"),
            (r#"{"v":1,"w":"x"}"#, "--format jsonl"),
        ] {
            assert!(advice(text).contains(part), "{}", advice(text));
        }
        assert_eq!((advice("[1]"), advice("{\"a\":")), (String::new(), String::new()));
    }

    #[test]
    fn the_array_that_holds_nearly_all_is_guessed() {
        assert_eq!(guessed(ALL).as_deref(), Some("chats/list/*/messages"));
        let few = r#"{"about": "a long text about what is in it", "chats": {"list": [{"name": "Ann",
            "type": "personal_chat", "id": 5, "messages": [{"id": 1, "text": "hello to you all"}]},
            {"name": "Bob", "type": "personal_chat", "id": 6, "messages": [{"id": 1}]}]}}"#;
        assert_eq!(guessed(few).as_deref(), Some("chats/list/*/messages"));
        let one =
            r#"{"name":"Ann","messages":[{"id":1,"text":"a long enough text of a message"}]}"#;
        assert_eq!(guessed(one).as_deref(), Some("messages"));
        assert_eq!(guessed(&format!("[{one}]")).as_deref(), Some("messages"));
        assert_eq!(guessed(&format!("[{one},{one}]")), None, "the elements are rows");
        for text in ["", "{}", "[]", "[1,2]", r#"{"a":1,"b":"x"}"#, "{\"a\":[{\"n\":1}", "nonsense"]
        {
            assert_eq!(guessed(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_alike_whatever_the_buffer(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"m\"", "\"id\"", "1", "\"", "\\", " ", "\n", "é",
            ]), 0..40),
        ) {
            let text = pieces.concat();
            let _ = guess(text.as_bytes()).unwrap();
            for path in ["m", "*/m", "*"] {
                let _ = rows(&text, path);
            }
        }
    }
}
