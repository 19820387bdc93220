//! What a client can take from the text of an answer and nothing else.

use serde_json::Value as Json;

use super::with;

/// What splits a text into lines for one client or another (Unicode Standard Annex 14, class BK and
/// its like).
const BREAKS: [char; 9] =
    ['\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}'];

/// The lines of a text, for the client that sees the most of them.
pub(super) fn of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| BREAKS.contains(&c) || c == '\u{2029}')
}

/// A line that names a next call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next {
    /// This one.
    Call { tool: String, args: Json, note: Option<String> },
    /// The same as before, but for these arguments.
    Again { tool: String, args: Json },
    /// `fetch`, with the identifier that the record's own line has.
    ThisId,
}

impl Next {
    /// What a line says, if it names a call in one of the forms that there are.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let rest = line.strip_prefix("next: ")?;
        if rest == "fetch with this id" {
            return Some(Self::ThisId);
        }
        let (tool, rest) = rest.split_once(' ')?;
        if !["schema", "search", "query_records", "fetch", "read_record_field"].contains(&tool) {
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
            (true, _) => Some(Self::Again { tool, args }),
            (false, _) => Some(Self::Call { tool, args, note }),
        }
    }

    /// The arguments of the call, after one with these; none where the record's own line has them.
    pub(super) fn args(self, asked: &Json) -> Option<Json> {
        match self {
            Self::Call { args, .. } => Some(args),
            Self::Again { args, .. } => Some(with(asked, args)),
            Self::ThisId => None,
        }
    }
}

/// The arguments of the call that the last such line of a text names, after one with these.
pub(super) fn onward(text: &str, asked: &Json) -> Option<Json> {
    of(text).filter_map(Next::parse).last()?.args(asked)
}

/// The JSON that a text begins with, and what comes after it.
pub(super) fn json_at_start(text: &str) -> Option<(Json, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Json>();
    let value = values.next()?.ok()?;
    Some((value, &text[values.byte_offset()..]))
}

/// The text of `read_record_field`, taken apart.
#[derive(Clone, Debug)]
pub(super) struct WindowText<'a> {
    pub(super) header: Json,
    pub(super) next: Option<Json>,
    pub(super) text: &'a str,
}

/// Takes it apart by what its first line says.
pub(super) fn window(text: &str) -> WindowText<'_> {
    let (header, rest) = text.split_once('\n').unwrap();
    let header: Json = serde_json::from_str(header).unwrap();
    assert_eq!(header["text_from_line"], if header["next_cursor"].is_null() { 2 } else { 3 });
    if header["next_cursor"].is_null() {
        return WindowText { header, next: None, text: rest };
    }
    let (line, rest) = rest.split_once('\n').unwrap();
    match Next::parse(line) {
        Some(Next::Call { tool, args, .. }) if tool == "read_record_field" => {
            WindowText { header, next: Some(args), text: rest }
        }
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn lines_are_taken_apart() {
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
        Some(Next::Again { tool: "search".to_owned(), args })
    );
    for bad in [
        "next: fetch",
        "next: fetch {",
        "next: fetch {} x",
        "next: delete {}",
        "next:fetch {}",
        "next: fetch 7",
    ] {
        assert_eq!(call(bad), None, "{bad}");
    }
}
