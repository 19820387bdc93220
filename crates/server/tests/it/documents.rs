//! `docs/tools.md` and `docs/errors.md`, written from the declarations.

use std::fmt::Write as _;

use serde_json::Value;
use stile_domain::document::NoText;
use stile_domain::error::{EncodingFault, LineExcerpt, Refusal, Remedy};
use stile_domain::guard::{GUARDED_NAMES, Guarded};
use stile_domain::hash::ContentHash;
use stile_domain::path::{BadPath, SpacePath};
use stile_domain::records::problem::{BroadTerms, CursorProblem, Problem};
use stile_domain::scope::{Scope, Verb};
use stile_domain::tool_name::Spelling;
use stile_ladder::RECORD_TOOLS;
use stile_ladder::resources::TEMPLATES;
use stile_records::openapi;
use stile_records::operations::OPERATIONS;
use stile_testkit::documents::assert_document;
use stile_tools::definition::ToolDefinition;
use stile_tools::space::{HISTORY_TOOLS, SpaceTools, file_resource, list};
use stile_tools::tool::ToolEntry;

const WRITTEN: &str =
    "<!-- Written by a test from the code: run the tests with UPDATE_DOCS=1 to renew it. -->";

fn table(out: &mut String, schema: &Value) {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    out.push_str("| name | type | | what it is |\n|---|---|---|---|\n");
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let kind = match (&property["type"], &property["enum"]) {
            (_, Value::Array(words)) => words
                .iter()
                .map(|word| format!("`{}`", word.as_str().unwrap_or_default()))
                .collect::<Vec<_>>()
                .join(" or "),
            (Value::String(kind), _)
                if kind == "array" && property["items"]["type"] == "integer" =>
            {
                "two integers".to_owned()
            }
            (Value::String(kind), _) => kind.clone(),
            _ if property["anyOf"].is_array() => property["anyOf"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|choice| choice["type"].as_str().unwrap_or("any"))
                .collect::<Vec<_>>()
                .join(" or "),
            _ => "any".to_owned(),
        };
        let need = if required.contains(&name.as_str()) { "always" } else { "optional" };
        let description = property["description"].as_str().unwrap_or_default();
        let _ = writeln!(out, "| `{name}` | {kind} | {need} | {description} |");
    }
}

fn section(out: &mut String, tool: &ToolDefinition, needs: &str) {
    let hint = |name: &str, yes: bool| if yes { format!("`{name}`") } else { String::new() };
    let hints: Vec<String> = [
        hint("readOnlyHint", tool.read_only),
        hint("destructiveHint", tool.destructive),
        hint("idempotentHint", tool.idempotent),
    ]
    .into_iter()
    .filter(|hint| !hint.is_empty())
    .collect();
    let _ = writeln!(out, "\n## `{}`: {}\n", tool.name, tool.title);
    let _ = writeln!(out, "{}\n", tool.description);
    let hints = if hints.is_empty() { "none".to_owned() } else { hints.join(", ") };
    let _ = writeln!(out, "{needs} Hints that are true: {hints}.\n\nArguments:\n");
    table(out, &tool.input.clone().into());
    out.push_str("\nAnswer:\n\n");
    table(out, &(tool.output)()["anyOf"][0]);
}

/// Writes how many bytes each tool has in a list, since some clients put the whole list before each
/// question.
fn push_sizes(out: &mut String) {
    let definitions = |tools: &mut dyn Iterator<Item = ToolDefinition>| {
        let mut sizes: Vec<(String, usize)> = tools.map(listed_size).collect();
        sizes.sort();
        sizes
    };
    let files = definitions(&mut SpaceTools::built_in().map(ToolEntry::definition));
    let history = definitions(&mut HISTORY_TOOLS.iter().map(ToolEntry::definition));
    let records = definitions(&mut RECORD_TOOLS.iter().map(ToolEntry::definition));
    out.push_str(
        "\nSome clients put the whole list before each question. `tools/list` as it is sent has at most 24 KiB for files and \
         notes, 16 KiB for records and 32 KiB for both; tests hold this. The bytes of each tool, as JSON:\n\n| tool | bytes |\n|---|---|\n",
    );
    let total = |sizes: &[(String, usize)]| sizes.iter().map(|(_, bytes)| bytes).sum::<usize>();
    for (name, bytes) in files.iter().chain(&history).chain(&records) {
        let _ = writeln!(out, "| `{name}` | {bytes} |");
    }
    for (what, bytes) in [
        ("files and notes", total(&files)),
        ("with `--agent-undo`", total(&files) + total(&history)),
        ("records", total(&records)),
        ("all", total(&files) + total(&history) + total(&records)),
    ] {
        let _ = writeln!(out, "| {what} | {bytes} |");
    }
}

/// Returns the name of a tool as most clients see it, and its bytes in their list.
fn listed_size(tool: ToolDefinition) -> (String, usize) {
    let listed = stile_server::mcp::tool_definitions::listed(tool, Spelling::Underscored);
    (listed["name"].as_str().unwrap().to_owned(), listed.to_string().len())
}

#[test]
fn the_tools_page_matches_the_code() {
    let mut out = format!(
        "{WRITTEN}\n\n# Tools\n\nWhat an agent can call. Every tool refuses unknown arguments, answers within a bound, and \
         fills `structuredContent` beside one text block. This page has the canonical names. Clients list them with `_` for \
         `.`, as in `file_create`, unless they ask for dots (`?names=dotted`), and a call may use either. \
         A refused call has `isError: true` and the error object of [errors.md](errors.md), \
         but for the four tools that tell the structure of a note: theirs is `{{\"error\", \"code\": \"RUNTIME_ERROR\"}}`. \
         The six tools about records come last; a caller sees them whose token names a grant or is the owner's, if there is a record to see.\n"
    );
    push_sizes(&mut out);
    let mut tools: Vec<_> = SpaceTools::built_in().chain(HISTORY_TOOLS).collect();
    tools.sort_by_key(|tool| tool.name);
    for tool in &tools {
        let verb = if tool.read_only { "read" } else { "write" };
        let optional = HISTORY_TOOLS.iter().any(|optional| optional.name == tool.name);
        let setting = if optional { " Only with `--agent-undo`." } else { "" };
        let needs = format!("Needs a `{verb}` scope that covers `path`.{setting}");
        section(&mut out, &tool.definition(), &needs);
    }
    for (template, what) in [(list::TEMPLATE, "directory"), (file_resource::TEMPLATE, "file")] {
        let _ = writeln!(
            out,
            "\n## The resource `{}`\n\n{}\n\nNeeds a `read` scope that covers the {what}.",
            template.uri, template.description
        );
    }
    for tool in RECORD_TOOLS {
        section(&mut out, &tool.definition(), "Needs a token with a grant, or the owner's.");
    }
    for template in TEMPLATES {
        let needs = "Needs a token with a grant, or the owner's.";
        let _ = writeln!(
            out,
            "\n## The resource `{}`\n\n{}\n\n{needs}",
            template.uri, template.description
        );
    }
    assert_document("docs/tools.md", &out);
}

/// One of each refusal. The match makes a new variant fail to compile until it is listed.
fn samples() -> Vec<Refusal> {
    let path = SpacePath::parse("/notes/a.md").unwrap();
    let samples = vec![
        Refusal::InvalidPath { argument: "path".into(), why: BadPath::AboveRoot },
        Refusal::InvalidRange { argument: "lines".into(), total_lines: 12 },
        Refusal::invalid_argument("`hash` is missing"),
        Refusal::not_found(&path),
        Refusal::NotFound {
            path: path.clone(),
            list: "list:///notes".to_owned(),
            near: vec![
                SpacePath::parse("/notes/A.md").unwrap(),
                SpacePath::parse("/notes/a.txt").unwrap(),
            ],
        },
        Refusal::AlreadyExists { path: path.clone() },
        Refusal::not_a_file(&path),
        Refusal::NotADirectory { path: path.clone() },
        Refusal::SymlinkRefused { path: path.clone() },
        Refusal::MountRefused { path: path.clone() },
        Refusal::HardLinked { path: path.clone() },
        Refusal::NotPermitted { path: path.clone() },
        Refusal::ReadOnly { path: path.clone(), is_folder: false },
        Refusal::NotAppendable { path: path.clone() },
        Refusal::Guarded { path: path.clone(), guarded: Guarded::Secret },
        Refusal::Guarded { path: path.clone(), guarded: Guarded::Running },
        Refusal::RootMoved,
        Refusal::RootReplaced,
        Refusal::RootMissing,
        Refusal::Cancelled,
        Refusal::Busy { path: path.clone(), is_locked_by_other: false },
        Refusal::Busy { path: path.clone(), is_locked_by_other: true },
        Refusal::NotText {
            path: path.clone(),
            size_bytes: 3,
            hash: ContentHash::digest(&[0xff, 0xd8, 0]),
        },
        Refusal::NoDocumentText {
            path: path.clone(),
            size_bytes: 3,
            hash: ContentHash::digest(b"\xff\xfe\0"),
            why: NoText::Damaged,
        },
        Refusal::UnchangeableDocument {
            path: path.clone(),
            size_bytes: 3,
            hash: ContentHash::digest(b"\xff\xfe\0"),
        },
        Refusal::BadEncoding {
            path: path.clone(),
            encoding: "shift_jis".to_owned(),
            why: EncodingFault::Invalid,
        },
        Refusal::BadEncoding {
            path: path.clone(),
            encoding: "shift_jis".to_owned(),
            why: EncodingFault::Inexact,
        },
        Refusal::BadEncoding {
            path: path.clone(),
            encoding: "windows-1252".to_owned(),
            why: EncodingFault::Lacking,
        },
        Refusal::BadEncoding {
            path: path.clone(),
            encoding: "windows-1252".to_owned(),
            why: EncodingFault::Unrecognisable,
        },
        Refusal::BadEncoding {
            path: path.clone(),
            encoding: "windows-1252".to_owned(),
            why: EncodingFault::Guessed,
        },
        Refusal::BadEncoding {
            path: path.clone(),
            encoding: "utf-16le".to_owned(),
            why: EncodingFault::Unread,
        },
        Refusal::Stale { path: path.clone(), argument: "hash" },
        Refusal::NoMatch {
            path: path.clone(),
            argument: "old".into(),
            place: "in lines 3 to 4".to_owned(),
            hint: " It stands at line 9 instead.".to_owned(),
            lines: vec![
                LineExcerpt { line: 3, text: "Water the ferns.".to_owned() },
                LineExcerpt { line: 4, text: String::new() },
            ],
            elsewhere: vec![9],
        },
        Refusal::UnsafeFrontMatter {
            path: path.clone(),
            name: "name",
            why: "the value is a list or a mapping in brackets over several lines",
            first: 2,
            last: 3,
            lines: vec![
                LineExcerpt { line: 2, text: "tags: [a,".to_owned() },
                LineExcerpt { line: 3, text: "  b]".to_owned() },
            ],
        },
        Refusal::NoSuchText { path: path.clone(), first: 1, last: 12, total_lines: 12 },
        Refusal::NoSuchSection {
            path: path.clone(),
            argument: "section".into(),
            headings: vec![4, 18],
        },
        Refusal::AmbiguousSection {
            path: path.clone(),
            argument: "section".into(),
            headings: vec![8, 14],
            more: false,
        },
        Refusal::AmbiguousMatch {
            path: path.clone(),
            argument: "edits[1].old".into(),
            advice: "Narrow `lines` to the one you mean, add neighbouring text to `old`, or set \
                     `all`. No edit was made.",
            matches: vec![3, 9],
            more: false,
        },
        Refusal::FolderNotEmpty { path: path.clone() },
        Refusal::StaleFolder { path: path.clone() },
        Refusal::FolderTooLarge { path: path.clone() },
        Refusal::FolderNotKept { path: path.clone() },
        Refusal::TooLarge {
            path: path.clone(),
            limit_bytes: 67_108_864,
            advice: "Put the text into another file, or ask the user to raise the server's limit.",
        },
        Refusal::NoSpace { path: path.clone() },
        Refusal::NotKept { path: path.clone() },
        Refusal::NoVersion {
            path: path.clone(),
            why: "the history has no version 42 of this file".to_owned(),
        },
        Refusal::JournalFull,
        Refusal::UnknownOutcome { path: path.clone() },
        Refusal::InsufficientScope {
            needed: vec![Scope::needed(Verb::Write, &path)],
            granted: vec![Scope::everything(Verb::Read)],
        },
        Refusal::Internal { incident: 482_113_904_771 },
    ];
    for sample in &samples {
        match sample {
            Refusal::InvalidPath { .. }
            | Refusal::InvalidRange { .. }
            | Refusal::InvalidArgument { .. }
            | Refusal::NotFound { .. }
            | Refusal::AlreadyExists { .. }
            | Refusal::FolderNotEmpty { .. }
            | Refusal::StaleFolder { .. }
            | Refusal::FolderTooLarge { .. }
            | Refusal::FolderNotKept { .. }
            | Refusal::NotAFile { .. }
            | Refusal::NotADirectory { .. }
            | Refusal::SymlinkRefused { .. }
            | Refusal::MountRefused { .. }
            | Refusal::HardLinked { .. }
            | Refusal::NotPermitted { .. }
            | Refusal::ReadOnly { .. }
            | Refusal::NotAppendable { .. }
            | Refusal::Guarded { .. }
            | Refusal::RootMoved
            | Refusal::RootReplaced
            | Refusal::RootMissing
            | Refusal::Cancelled
            | Refusal::Busy { .. }
            | Refusal::NotText { .. }
            | Refusal::NoDocumentText { .. }
            | Refusal::UnchangeableDocument { .. }
            | Refusal::BadEncoding { .. }
            | Refusal::Stale { .. }
            | Refusal::NoMatch { .. }
            | Refusal::UnsafeFrontMatter { .. }
            | Refusal::NoSuchText { .. }
            | Refusal::NoSuchSection { .. }
            | Refusal::AmbiguousSection { .. }
            | Refusal::AmbiguousMatch { .. }
            | Refusal::TooLarge { .. }
            | Refusal::NoSpace { .. }
            | Refusal::NotKept { .. }
            | Refusal::NoVersion { .. }
            | Refusal::JournalFull
            | Refusal::UnknownOutcome { .. }
            | Refusal::InsufficientScope { .. }
            | Refusal::Internal { .. } => {}
        }
    }
    samples
}

#[test]
fn the_page_of_guarded_names_matches_the_code() {
    let mut out = format!(
        "{WRITTEN}\n\n# Guarded names\n\nA folder that a person shares often holds keys, and files that some program runs. Whatever the \
         scopes of a caller say, nobody reads or changes the first, and nobody changes the second: such a call is refused as \
         `guarded`. Listings show the names like all others; searches, resources and links leave the content out. A name counts \
         in any folder, whatever its case or its form of Unicode; what lies below a guarded folder is guarded too.\n\nThe owner lifts \
         the guard for a path and all below it: `--unguard /notes/.github` beside `--scope`, or the line that a client asks for \
         with the scope `unguard:/notes/.github` and that the owner ticks on the page.\n"
    );
    for (guarded, title) in
        [(Guarded::Secret, "Neither read nor changed"), (Guarded::Running, "Not changed")]
    {
        let _ = writeln!(out, "\n## {title}\n\n| name | why |\n|---|---|");
        for row in GUARDED_NAMES.iter().filter(|row| row.guarded == guarded) {
            let _ = writeln!(out, "| `{}` | {} |", row.pattern, row.reason);
        }
    }
    assert_document("docs/guarded-names.md", &out);
}

#[test]
fn the_errors_page_matches_the_code() {
    let mut out = format!(
        "{WRITTEN}\n\n# Errors\n\nWhat a refused call says. Programs go by `code`, which is stable; the message is for the \
         agent and may be reworded. A tool result has `isError: true`, the message as text and \
         `structuredContent: {{\"error\": {{\"code\", \"message\", …}}}}`. Over HTTP, `insufficient_scope` is a 403 whose \
         JSON-RPC error has the code -31403.\n\nNo refusal names a path of the machine, a secret or content, but for the lines \
         that a failed match shows to a caller who may read them.\n"
    );
    for refusal in samples() {
        let (code, remedy) = refusal.code();
        let who = match remedy {
            Remedy::Agent => "the agent, who corrects the call",
            Remedy::User => "the user",
            Remedy::Time => "nobody; it passes",
            Remedy::Operator => "whoever runs the server",
        };
        let message = refusal.message(Spelling::Dotted).replace('\n', "\n> ");
        let _ = writeln!(
            out,
            "\n## `{code}`\n\nWho must act: {who}.\n\n> {message}\n\n```json\n{}\n```",
            refusal.to_json(Spelling::Dotted)
        );
    }
    out.push_str(
        "\n# Errors of records\n\nWhat a refused request to `/v1` says, under `error`, beside its `request_id`. The status is \
         that of HTTP. A client is refused in the same words for what its grant hides and for what does not exist.\n",
    );
    for problem in problems() {
        // The tools show the same words.
        assert!(!problem.to_string().contains("/v1"), "{problem}");
        let (code, status) = problem.code();
        let _ = writeln!(
            out,
            "\n## `{code}` ({status})\n\n> {problem}\n\n```json\n{}\n```",
            Value::Object(problem.to_json())
        );
    }
    assert_document("docs/errors.md", &out);
}

/// One of each problem. The match makes a new variant fail to compile until it is listed.
fn problems() -> Vec<Problem> {
    let (stream, field, param) = ("messages".to_owned(), "body".to_owned(), "fields".to_owned());
    let connections = vec!["gmail-work".to_owned(), "gmail-home".to_owned()];
    let problems = vec![
        Problem::invalid("limit", "`limit` must be a whole number from 1 to 100"),
        Problem::InvalidWindow {
            param: "q",
            message: "`q` is a text of 1 to 1024 characters".to_owned(),
        },
        Problem::InvalidFieldPath,
        Problem::InvalidCursor(CursorProblem::Malformed),
        Problem::InvalidCursor(CursorProblem::Mismatch),
        Problem::InvalidCursor(CursorProblem::Stale),
        Problem::InvalidChangesSince(CursorProblem::Malformed),
        Problem::InvalidChangesSince(CursorProblem::Mismatch),
        Problem::InvalidFieldsCursor(CursorProblem::Malformed),
        Problem::InvalidFieldsCursor(CursorProblem::Mismatch),
        Problem::InvalidFieldsCursor(CursorProblem::Stale),
        Problem::UnknownField { field: field.clone(), param: param.clone() },
        Problem::InvalidDeclaration { message: "`primary_key` must be a list of texts".to_owned() },
        Problem::UnsupportedVersion { supported: "2026-04-06" },
        Problem::InsufficientScope { message: "this needs a token of the owner" },
        Problem::StreamNotAllowed { stream: stream.clone(), connection: None },
        Problem::FieldNotGranted { field: field.clone(), param },
        Problem::GrantExpired,
        Problem::GrantRevoked,
        Problem::GrantInvalid,
        Problem::GrantConsumed,
        Problem::NotFound,
        Problem::StreamNotFound { stream, connection: Some("gmail".to_owned()) },
        Problem::GrantNotFound,
        Problem::TokenNotFound,
        Problem::FieldNotFound { field: field.clone() },
        Problem::QueryNotFound,
        Problem::AmbiguousConnection { connections: connections.clone() },
        Problem::AmbiguousSchema { connections },
        Problem::FieldNotText { field: field.clone() },
        Problem::FieldNotBinary { field },
        Problem::BlobNotFound,
        Problem::BlobTooLarge,
        Problem::RangeNotSatisfiable { bytes: 48_213 },
        Problem::ChangesExpired,
        Problem::InvalidExpand {
            param: "expand".to_owned(),
            message: "`replies` is no relation of this stream".to_owned(),
        },
        Problem::InvalidSort { message: "`sort` is `sent_at` or `-sent_at`".to_owned() },
        Problem::TooManyGroups { param: "group_by" },
        Problem::NumberTooLong,
        Problem::SearchTooBroad { terms: BroadTerms::Several },
        Problem::QueryTooBroad,
        Problem::Busy,
        Problem::NotStored,
        Problem::TakesNoWrites,
        Problem::MayBeStored,
        Problem::ShareUsedUp { share: "database readers" },
        Problem::Full,
        Problem::Corrupt,
        Problem::Internal { incident: 482_113_904_771 },
    ];
    for problem in &problems {
        match problem {
            Problem::InvalidRequest { .. }
            | Problem::InvalidWindow { .. }
            | Problem::InvalidFieldPath
            | Problem::InvalidCursor(_)
            | Problem::InvalidChangesSince(_)
            | Problem::InvalidFieldsCursor(_)
            | Problem::UnknownField { .. }
            | Problem::InvalidDeclaration { .. }
            | Problem::UnsupportedVersion { .. }
            | Problem::InsufficientScope { .. }
            | Problem::StreamNotAllowed { .. }
            | Problem::FieldNotGranted { .. }
            | Problem::GrantExpired
            | Problem::GrantRevoked
            | Problem::GrantInvalid
            | Problem::GrantConsumed
            | Problem::NotFound
            | Problem::StreamNotFound { .. }
            | Problem::GrantNotFound
            | Problem::TokenNotFound
            | Problem::FieldNotFound { .. }
            | Problem::QueryNotFound
            | Problem::AmbiguousConnection { .. }
            | Problem::AmbiguousSchema { .. }
            | Problem::FieldNotText { .. }
            | Problem::FieldNotBinary { .. }
            | Problem::BlobNotFound
            | Problem::BlobTooLarge
            | Problem::RangeNotSatisfiable { .. }
            | Problem::ChangesExpired
            | Problem::InvalidExpand { .. }
            | Problem::InvalidSort { .. }
            | Problem::TooManyGroups { .. }
            | Problem::NumberTooLong
            | Problem::SearchTooBroad { .. }
            | Problem::QueryTooBroad
            | Problem::Busy
            | Problem::NotStored
            | Problem::TakesNoWrites
            | Problem::MayBeStored
            | Problem::ShareUsedUp { .. }
            | Problem::Full
            | Problem::Corrupt
            | Problem::Internal { .. } => {}
        }
    }
    problems
}

#[test]
fn messages_are_whole_sentences_about_the_present() {
    for refusal in samples() {
        let message = refusal.message(Spelling::Dotted);
        assert!(
            !message.contains("  ") && !message.replace("`..`", "").contains(".."),
            "{message}"
        );
        let says_state = [
            "othing was", "is as it was", "may or may not", "whether it happened",
            "Nothing was looked up",
        ];
        assert!(says_state.iter().any(|words| message.contains(words)), "{message}");
    }
}

/// Collects the descriptions and the summaries of an OpenAPI document.
fn descriptions(json: &Value, all: &mut Vec<String>) {
    match json {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(text) if name == "description" || name == "summary" => {
                        all.push(text.clone());
                    }
                    value => descriptions(value, all),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| descriptions(item, all)),
        _ => {}
    }
}

#[test]
fn no_text_of_the_interface_at_v1_names_a_tool_or_an_argument_of_one() {
    let parameters: Vec<&str> = OPERATIONS
        .iter()
        .flat_map(|operation| operation.parameters)
        .map(|parameter| parameter.name)
        .collect();
    let mut foreign: Vec<String> = Vec::new();
    for tool in RECORD_TOOLS {
        let definition = tool.definition();
        let arguments = definition.input["properties"].as_object().unwrap().keys();
        foreign.push(definition.name.to_owned());
        foreign.extend(arguments.filter(|name| !parameters.contains(&name.as_str())).cloned());
    }
    let mut texts: Vec<String> = problems().iter().map(Problem::to_string).collect();
    descriptions(&openapi::document("0", OPERATIONS), &mut texts);
    assert!(texts.len() > 100, "{}", texts.len());
    for text in texts {
        let named =
            text.split('`').skip(1).step_by(2).find(|part| foreign.iter().any(|name| part == name));
        assert_eq!(named, None, "{text}");
    }
}
