//! What a client can learn from the text of an answer alone.

use serde_json::Value as Json;

use super::with;

/// Characters at which some clients split lines (Unicode Standard Annex 14, class BK and similar).
const BREAKS: [char; 9] =
    ['\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}'];

/// Splits a text as the client does that sees the most lines.
pub(super) fn of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| BREAKS.contains(&c) || c == '\u{2029}')
}

/// A line that names a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next {
    /// The call is written out.
    Call { tool: String, args: Json, note: Option<String> },
    /// The same call with another value of these arguments.
    SameCall { tool: String, args: Json },
    /// `fetch` with the identifier in the record's own line.
    ThisId,
}

impl Next {
    /// Parses a line; `None` if it names no call.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let rest = line.strip_prefix("next: ")?;
        if rest == "fetch with this id" {
            return Some(Self::ThisId);
        }
        let (tool, rest) = rest.split_once(' ')?;
        let tools =
            ["schema", "search", "query_records", "aggregate", "fetch", "read_record_field"];
        if !tools.contains(&tool) {
            return None;
        }
        let tool = tool.to_owned();
        let (again, rest) = match rest.strip_prefix("with the same arguments and ") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let (args, note) = json_at_start(rest)?;
        let note = match note {
            "" => None,
            note => Some(note.strip_prefix(" (")?.strip_suffix(')')?.to_owned()),
        };
        match (again, args.is_object()) {
            (_, false) => None,
            (true, _) => Some(Self::SameCall { tool, args }),
            (false, _) => Some(Self::Call { tool, args, note }),
        }
    }

    /// Returns the arguments of the call, given those of the call before; `None` if the record's
    /// own line has them.
    pub(super) fn args(self, asked: &Json) -> Option<Json> {
        match self {
            Self::Call { args, .. } => Some(args),
            Self::SameCall { args, .. } => Some(with(asked, args)),
            Self::ThisId => None,
        }
    }
}

/// Returns the arguments of the last call that a text names, given those of the call before.
pub(super) fn next_arguments(text: &str, asked: &Json) -> Option<Json> {
    of(text).filter_map(Next::parse).last()?.args(asked)
}

/// Splits a text after the JSON at its beginning.
pub(super) fn json_at_start(text: &str) -> Option<(Json, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Json>();
    let value = values.next()?.ok()?;
    Some((value, &text[values.byte_offset()..]))
}

/// The text of `read_record_field`, parsed.
#[derive(Clone, Debug)]
pub(super) struct WindowText<'a> {
    pub(super) header: Json,
    pub(super) next: Option<Json>,
    /// The references to bytes that the lines before the text name: paths and arguments of `fetch`.
    pub(super) references: Vec<(String, Json)>,
    pub(super) text: &'a str,
}

/// Parses the text by its first line.
pub(super) fn window(text: &str) -> WindowText<'_> {
    let (header, rest) = text.split_once('\n').unwrap();
    let header: Json = serde_json::from_str(header).unwrap();
    let (mut next, mut references, mut rest) = (None, Vec::new(), rest);
    for _ in 2..header["text_from_line"].as_u64().unwrap() {
        let (line, after) = rest.split_once('\n').unwrap();
        rest = after;
        match Next::parse(line) {
            Some(Next::Call { tool, args, note }) if tool == "fetch" => {
                references.push((path_of_bytes(note).unwrap(), args));
            }
            Some(Next::Call { tool, args, .. }) if tool == "read_record_field" => {
                assert!(next.replace(args).is_none(), "two ways on");
            }
            other => panic!("{line}: {other:?}"),
        }
    }
    assert_eq!(next.is_some(), header["next_cursor"].is_string());
    WindowText { header, next, references, text: rest }
}

/// Returns the path of the bytes that a call reads, from its note; `None` for another call.
pub(super) fn path_of_bytes(note: Option<String>) -> Option<String> {
    let (told, _) = json_at_start(note?.strip_prefix("bytes: ")?)?;
    Some(told["field_path"].as_str().unwrap().to_owned())
}

#[test]
fn next_lines_and_windows_are_parsed() {
    let call = |line: &str| Next::parse(line);
    assert_eq!(call("next: fetch with this id"), Some(Next::ThisId));
    let args = serde_json::json!({ "id": "a (b)" });
    let note = Some("1 of 2 fields shown".to_owned());
    assert_eq!(
        call("next: fetch {\"id\":\"a (b)\"} (1 of 2 fields shown)"),
        Some(Next::Call { tool: "fetch".to_owned(), args: args.clone(), note })
    );
    assert_eq!(
        call("next: search with the same arguments and {\"id\":\"a (b)\"}"),
        Some(Next::SameCall { tool: "search".to_owned(), args })
    );
    for bad in [
        "next: fetch", "next: fetch {", "next: fetch {} x", "next: delete {}", "next:fetch {}",
        "next: fetch 7",
    ] {
        assert_eq!(call(bad), None, "{bad}");
    }
}
