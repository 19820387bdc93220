//! The journal for a person: which lines to show, and what each says in a sentence.

pub mod activity;
pub mod seen;
#[cfg(test)]
mod test_lines;
pub mod touched;
pub mod words;

use std::borrow::Cow;

use self::words::{listed, refusal_words, shown_of_stream};
use crate::client_name::{COMMAND_LINE, OWNER_PAGE, YOU_AT_TERMINAL, YOU_ON_PAGE, in_one_alphabet};
use crate::journal::JournalLine;
use crate::path::SpacePath;
use crate::unseen::shown;

/// Which lines of the journal to show. A line must fit all that is given.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// The name of a client, or of a user where a line names no client.
    pub client: Option<String>,
    /// The approvals and tokens of the client that is meant, whatever its name is.
    pub callers: Option<Vec<String>>,
    /// A path; lines about what is below fit, too.
    pub path: Option<SpacePath>,
    /// The canonical name of a tool or an operation.
    pub tool: Option<String>,
    /// Only lines of calls that were refused or failed.
    pub refused: bool,
}

impl AuditFilter {
    /// Returns whether to show a line.
    pub fn shows(&self, line: &JournalLine) -> bool {
        let about = |path: &SpacePath| {
            [&line.path, &line.to].into_iter().flatten().any(|named| path.covers(named))
        };
        let by = [&line.approval, &line.token];
        let is_of_client = match (&self.callers, &self.client) {
            (Some(callers), _) => by.into_iter().flatten().any(|by| callers.contains(by)),
            (None, Some(client)) => client == caller(line),
            (None, None) => true,
        };
        is_of_client
            && self.path.as_ref().is_none_or(about)
            && self.tool.as_deref().is_none_or(|tool| tool == line.tool)
            && (!self.refused || line.outcome != "ok")
    }
}

/// Returns who made a call: the client, or the user of a token that names no client.
pub fn caller(line: &JournalLine) -> &str {
    line.client.as_deref().or(line.subject.as_deref()).unwrap_or("stile")
}

/// Returns the name under which pages and commands show a caller to the owner: "you, on your page"
/// and "you, at the terminal" for the owner, and for a client its own name, in which invisible
/// characters are escaped, and letters of another alphabet that look like those beside them.
pub fn told_name(name: &str) -> Cow<'_, str> {
    match name {
        OWNER_PAGE => YOU_ON_PAGE.into(),
        COMMAND_LINE => YOU_AT_TERMINAL.into(),
        name => shown(&in_one_alphabet(name)).into_owned().into(),
    }
}

/// Whether a call only looks or also changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// The call reads, lists or searches.
    Read,
    /// The call changes files or records.
    Change,
    /// No caller made the call: the program reports an event.
    Event,
}

/// Returns what kind of call a line is about.
pub fn kind(line: &JournalLine) -> CallKind {
    if line.subject.is_none() && line.token.is_none() {
        return CallKind::Event;
    }
    match deed(&line.tool) {
        Some(deed) if deed.is_change && line.dry_run != Some(true) => CallKind::Change,
        _ => CallKind::Read,
    }
}

/// What a tool does, as the verb of a sentence.
struct Deed {
    tool: &'static str,
    verb: &'static str,
    is_change: bool,
}

const fn read(tool: &'static str, verb: &'static str) -> Deed {
    Deed { tool, verb, is_change: false }
}

const fn change(tool: &'static str, verb: &'static str) -> Deed {
    Deed { tool, verb, is_change: true }
}

/// Ordered as the tools are in the list of tools.
const DEEDS: &[Deed] = &[
    change("file.append", "added bytes to"),
    change("file.copy", "copied"),
    change("file.create", "created"),
    read("file.find", "looked for names in"),
    read("file.history", "looked at earlier versions of"),
    read("file.list", "listed"),
    change("file.move", "moved"),
    read("file.read", "read"),
    change("file.remove", "removed"),
    change("file.restore", "restored"),
    read("file.search", "looked for words in"),
    change("folder.create", "made the folder"),
    change("folder.give", "brought back the folder"),
    change("folder.move", "moved the folder"),
    change("folder.remove", "removed the folder"),
    read("list", "listed"),
    read("note.find", "looked for notes in"),
    read("note.links", "looked at the links of"),
    read("note.tags", "looked at the tags of notes in"),
    change("note.set_property", "set a property of"),
    read("read", "read"),
    change("text.append", "added to"),
    change("text.edit", "changed"),
    change("text.insert", "added to"),
    read("text.gather", "read"),
    read("text.read", "read"),
    change("text.replace", "changed"),
    read("text.search", "searched the text of"),
    read("watch", "asked to be told of changes of"),
    read("get_document_tree", "read the tree of headings of a note"),
    read("get_metadata_facets", "read the facets of a note"),
    read("get_note_outline", "read the outline of a note"),
    read("get_section_source", "read the sections of a note"),
    read("schema", "looked at what records there are"),
    read("search", "searched records"),
    read("query_records", "listed records"),
    read("aggregate", "counted records or added them up"),
    read("fetch", "read a record"),
    read("read_record_field", "read a part of a record"),
    read("v1.getSchema", "looked at what records there are"),
    read("v1.listStreams", "looked at what records there are"),
    read("v1.getStream", "looked at what records there are"),
    read("v1.getDeclaration", "looked at what records there are"),
    read("v1.search", "searched records"),
    read("v1.listRecords", "listed records"),
    read("v1.aggregateRecords", "counted records or added them up"),
    read("v1.getRecord", "read a record"),
    read("v1.getFieldWindow", "read a part of a record"),
    read("v1.headBlob", "looked at a file of a record"),
    read("v1.getBlob", "read a file of a record"),
    read("v1.listGrants", "looked at the grants"),
    read("v1.getGrant", "looked at a grant"),
    read("v1.introspectToken", "looked at a token"),
    change("v1.ingestRecords", "stored or removed records"),
    change("v1.putBlob", "stored a file of records"),
    change("v1.putDeclaration", "declared what records are"),
    change("v1.deleteRecord", "removed a record"),
    change("v1.deleteRecords", "removed records"),
    change("v1.createGrant", "made a grant"),
    change("v1.createGrantToken", "made a token of a grant"),
    change("v1.revokeGrant", "revoked a grant"),
    change("v1.revokeGrantToken", "revoked a token of a grant"),
];

/// Returns whether the sentences have words for a tool or an operation.
pub fn has_words(tool: &str) -> bool {
    deed(tool).is_some()
}

fn deed(tool: &str) -> Option<&'static Deed> {
    DEEDS.iter().find(|deed| deed.tool == tool)
}

/// Says in a sentence what a line is about, without its time and without a final period.
///
/// *Shape*: `cursor changed 3 lines of /work/plan.md (call 42)`, `cursor would have changed
/// /work/plan.md, but it may not`, `cursor would have moved /a.md to /b.md (dry run, nothing was
/// changed)`. The number is what `stile undo` takes. Control characters of
/// names are replaced, so the sentence is one line.
pub fn sentence(line: &JournalLine) -> String {
    let is_dry = line.dry_run == Some(true);
    let would = if is_dry { "would have " } else { "" };
    let who = match caller(line) {
        name @ (OWNER_PAGE | COMMAND_LINE) => format!("{},", told_name(name)),
        name => name.to_owned(),
    };
    let path = line.path.as_ref().map(SpacePath::as_str);
    let to = line.to.as_ref().map(|to| format!(" to {}", to.as_str())).unwrap_or_default();
    let text = if kind(line) == CallKind::Event {
        event(line, path)
    } else if let Some(calls) = line.calls {
        let times = if calls == 1 { "time" } else { "times" };
        format!("{who} was refused {calls} more {times}: {}", reason(line))
    } else if line.outcome != "ok" {
        let below = if line.shortened == Some(true) { "a path below " } else { "" };
        let object = path.map(|path| format!(" {below}{path}")).unwrap_or_default();
        let called = format!("called {}", line.tool);
        let verb = deed(&line.tool).map_or(called.as_str(), |deed| deed.verb);
        let done = match path {
            Some(_) => format!("{verb}{object}"),
            None => without_object(&line.tool, verb),
        };
        format!("{who} would have {done}{to}, but {}", reason(line))
    } else {
        let object = path.map(|path| format!(" {path}")).unwrap_or_default();
        match (deed(&line.tool), line.changed_lines) {
            (Some(deed), Some(lines)) if deed.is_change && path.is_some() => {
                format!("{who} {would}{}{object}", counted(deed.verb, lines))
            }
            (Some(deed), _) => {
                format!("{who} {would}{}{object}{to}{}", deed.verb, shown_records(line))
            }
            (None, _) => format!("{who} called {}{object}{to}", line.tool),
        }
    };
    let call = line.call.map(|call| format!(" (call {call})")).unwrap_or_default();
    let is_only_shown = is_dry && line.outcome == "ok";
    let dry = if is_only_shown { " (dry run, nothing was changed)" } else { "" };
    let text = text + dry + &call;
    shown(&text).into_owned()
}

/// Returns what a refused call would have done where its line names no path: `removed a file`.
fn without_object(tool: &str, verb: &str) -> String {
    let thing = match tool {
        "file.find" | "file.list" | "file.search" | "note.find" | "note.tags" | "list" => {
            "a folder"
        }
        "read" => "a file",
        _ if tool.starts_with("folder.") => return verb.replace("the folder", "a folder"),
        _ if ["file.", "text.", "note."].iter().any(|of| tool.starts_with(of)) => "a file",
        _ => return verb.to_owned(),
    };
    format!("{verb} {thing}")
}

/// Says what a call was shown of files and of records, as the end of its sentence.
fn shown_records(line: &JournalLine) -> String {
    const NAMED: usize = 3;
    if let Some(hits) = line.hits {
        return format!(": {hits} hit{}", if hits == 1 { "" } else { "s" });
    }
    let named = line.records.iter().take(NAMED);
    let mut parts: Vec<String> = named
        .map(|shown| shown_of_stream(shown.records, &shown.stream, &shown.connection))
        .collect();
    if line.records.len() > NAMED {
        parts.push("records of other streams".to_owned());
    }
    if parts.is_empty() { String::new() } else { format!(": {}", listed(&parts)) }
}

/// Says why a call was refused, as the end of a sentence.
fn reason(line: &JournalLine) -> String {
    let incident = line.incident.map(|incident| format!(" (incident {incident})"));
    match refusal_words(&line.outcome) {
        Some(words) => format!("{words}{}", incident.unwrap_or_default()),
        None => format!("the answer was an error ({})", line.outcome),
    }
}

/// Puts the number of lines into the verb of a change.
fn counted(verb: &str, lines: u64) -> String {
    let noun = if lines == 1 { "line" } else { "lines" };
    match verb {
        "added to" => format!("added {lines} {noun} to"),
        verb => format!("{verb} {lines} {noun} of"),
    }
}

/// Says what an event is that no call caused.
fn event(line: &JournalLine, path: Option<&str>) -> String {
    let by = line.client.as_ref().map(|client| format!(" by {client}")).unwrap_or_default();
    match (line.tool.as_str(), path) {
        (_, None) if line.calls.is_some() => {
            let calls = line.calls.unwrap_or_default();
            format!("stile counts {calls} more reports ({}){by}", line.outcome)
        }
        ("conflict_copy", Some(path)) => {
            format!("stile kept a save of another program as {path}")
        }
        (tool, Some(path)) => format!("stile reports {tool} of {path}{by}"),
        (tool, None) => format!("stile reports {tool}{by}"),
    }
}

#[cfg(test)]
mod tests {
    use super::test_lines::line;
    use super::*;
    use crate::history::past_change::ChangeNumber;
    use crate::records::shown_records::StreamTally;

    #[test]
    fn a_line_is_a_sentence() {
        let moved = JournalLine {
            to: Some(SpacePath::parse("/b.md").unwrap()),
            ..line("file.move", Some("/a.md"))
        };
        let edited = |lines| JournalLine {
            changed_lines: Some(lines),
            call: Some(ChangeNumber(40)),
            ..line("text.edit", Some("/a.md"))
        };
        let refused =
            JournalLine { outcome: "stale".to_owned(), ..line("text.replace", Some("/a.md")) };
        let records = JournalLine {
            records: vec![StreamTally {
                connection: "mail".to_owned(),
                stream: "messages".to_owned(),
                records: 25,
            }],
            ..line("query_records", None)
        };
        let odd = JournalLine {
            client: Some(COMMAND_LINE.to_owned()),
            outcome: "made_up".to_owned(),
            ..line("odd", None)
        };
        let many = JournalLine { calls: Some(1204), ..refused.clone() };
        let deep = JournalLine { shortened: Some(true), ..refused.clone() };
        let user = JournalLine { client: None, ..line("text.read", Some("/a.md")) };
        let dry_move = JournalLine { dry_run: Some(true), ..moved.clone() };
        let dry_edit = JournalLine { dry_run: Some(true), call: None, ..edited(3) };
        let event = JournalLine {
            subject: None,
            client: None,
            ..line("conflict_copy", Some("/a (conflict).md"))
        };
        let caused = JournalLine {
            subject: None,
            outcome: "no_room".to_owned(),
            ..line("history_not_kept", Some("/a.md"))
        };
        let more = JournalLine { path: None, calls: Some(7), ..caused.clone() };
        let hostile = JournalLine { client: Some("a\u{1b}[2J\nb".to_owned()), ..user.clone() };
        let sentences: Vec<String> = [
            moved,
            edited(1),
            edited(3),
            JournalLine { changed_lines: Some(2), ..line("text.append", Some("/log")) },
            refused,
            many,
            deep,
            user,
            line("get_note_outline", None),
            records,
            JournalLine { client: Some(OWNER_PAGE.to_owned()), ..edited(1) },
            odd,
            dry_move,
            dry_edit,
            event,
            caused,
            more,
            hostile,
        ]
        .iter()
        .map(sentence)
        .collect();
        insta::assert_snapshot!(sentences.join("\n"), @r"
        cursor moved /a.md to /b.md
        cursor changed 1 line of /a.md (call 40)
        cursor changed 3 lines of /a.md (call 40)
        cursor added 2 lines to /log
        cursor would have changed /a.md, but it had changed since the client read it
        cursor was refused 1204 more times: it had changed since the client read it
        cursor would have changed a path below /a.md, but it had changed since the client read it
        ann read /a.md
        cursor read the outline of a note
        cursor listed records: 25 messages of mail
        you, on your page, changed 1 line of /a.md (call 40)
        you, at the terminal, would have called odd, but the answer was an error (made_up)
        cursor would have moved /a.md to /b.md (dry run, nothing was changed)
        cursor would have changed 3 lines of /a.md (dry run, nothing was changed)
        stile kept a save of another program as /a (conflict).md
        stile reports history_not_kept of /a.md by cursor
        stile counts 7 more reports (no_room) by cursor
        a\u{1b}[2J\u{a}b read /a.md
        ");
    }

    #[test]
    fn a_refused_call_that_names_no_path_has_an_object() {
        for (tool, done) in [
            ("file.remove", "removed a file"),
            ("file.find", "looked for names in a folder"),
            ("folder.create", "made a folder"),
            ("query_records", "listed records"),
            ("odd", "called odd"),
        ] {
            let refused = JournalLine { outcome: "stale".to_owned(), ..line(tool, None) };
            let start = format!("cursor would have {done}, but ");
            assert!(sentence(&refused).starts_with(&start), "{}", sentence(&refused));
        }
    }

    #[test]
    fn a_filter_shows_what_fits_all_of_it() {
        let moved = JournalLine {
            to: Some(SpacePath::parse("/work/b.md").unwrap()),
            ..line("file.move", Some("/a.md"))
        };
        let filter = |client: Option<&str>, path: Option<&str>, tool: Option<&str>, refused| {
            let path = path.map(|path| SpacePath::parse(path).unwrap());
            let (client, tool) = (client.map(str::to_owned), tool.map(str::to_owned));
            AuditFilter { client, callers: None, path, tool, refused }.shows(&moved)
        };
        assert!(filter(None, None, None, false));
        assert!(filter(Some("cursor"), Some("/work"), Some("file.move"), false));
        assert!(!filter(Some("ann"), None, None, false), "the client is named");
        assert!(!filter(None, Some("/wor"), None, false), "whole components");
        assert!(!filter(None, None, Some("file.copy"), false));
        assert!(!filter(None, None, None, true));
    }
}
