//! The structure of a note, from one end to the other: two clients and the command line, and no
//! other way.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output as Ran;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stile_domain::error::Refusal;
use stile_domain::journal::CallTrace;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Gate, Permit, Read};
use stile_domain::tool_name::ShownTools;
use stile_store::space::Space;
use stile_testkit::client::McpClient;
use stile_testkit::leaks::Canaries;
use stile_testkit::process::Rig;
use stile_tools::answer::Answer;
use stile_tools::space::SpaceTools;
use stile_tools::tool::{Output, Tool, ToolEntry};

use crate::support::{Ground, READ, Server, WRITE};

/// The tools, and the subcommands that call them.
const TOOLS: [(&str, &str); 4] = [
    ("get_note_outline", "outline"),
    ("get_document_tree", "tree"),
    ("get_metadata_facets", "facets"),
    ("get_section_source", "sections"),
];

const NOTE: &str = "---\ntitle: Plain\nproject: Garden\nsecret: canary-front-matter\n---\n\n# Heading of Ferns\n\n\
                    canary-body-text\n\n## \u{898b}\u{51fa}\u{3057}\n\n> ### Quoted\n\n`canary-code` <!-- canary-comment -->\n\n\
                    [a](canary-link) ![b](canary-image)\n";

struct Notes {
    rig: Rig,
    _folder: tempfile::TempDir,
}

impl Notes {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
        std::fs::create_dir(rig.root.join("inbox")).unwrap();
        std::fs::write(rig.root.join("inbox/one.md"), NOTE).unwrap();
        Self { rig, _folder: folder }
    }

    fn note(&self, command: &str, path: &str) -> Ran {
        let mut ran = self.rig.command(&["note", command, path, "--root"]);
        ran.arg(&self.rig.root).arg("--state").arg(&self.rig.state).output().unwrap()
    }

    fn tree(&self) -> Vec<(std::path::PathBuf, std::time::SystemTime, u64)> {
        let mut found = Vec::new();
        let mut left = vec![self.rig.root.clone()];
        while let Some(path) = left.pop() {
            let about = std::fs::metadata(&path).unwrap();
            found.push((path.clone(), about.modified().unwrap(), about.len()));
            if about.is_dir() {
                left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
        found.sort();
        found
    }
}

/// The one text block of a tool's answer.
fn text(caller: &mut dyn McpClient, tool: &str, arguments: Value) -> String {
    let response =
        caller.request("tools/call", json!({ "name": tool, "arguments": arguments })).unwrap();
    let result = &response["result"];
    assert_eq!(result["content"].as_array().map(Vec::len), Some(1), "{response}");
    let text = result["content"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(
        result["structuredContent"].to_string(),
        text,
        "both are the same, in the same order"
    );
    assert_eq!(result["isError"] == json!(true), text.starts_with("{\"error\""), "{response}");
    text
}

#[test]
fn two_clients_and_the_command_line_get_the_same_bytes() {
    let notes = Notes::new();
    let server = notes.rig.serve(&[]);
    let mut http = server.client(&notes.rig.token(&["read:/"], &[]));
    let mut other = server.client(&notes.rig.token(&["read:/inbox/"], &["--client", "editor"]));
    let mut stdio = notes.rig.stdio(&["--scope", "read:/"]);
    for (tool, command) in TOOLS {
        let first = text(&mut http, tool, json!({ "path": "inbox/one.md" }));
        assert!(first.starts_with("{\"schema\":\"knowtation."), "{first}");
        assert_eq!(text(&mut other, tool, json!({ "path": "inbox\\one.md" })), first);
        assert_eq!(text(&mut stdio, tool, json!({ "path": " inbox//one.md" })), first);
        let ran = notes.note(command, "inbox/one.md");
        assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
        assert_eq!(String::from_utf8(ran.stdout).unwrap(), format!("{first}\n"));

        for path in ["inbox/none.md", "../one.md", "inbox"] {
            let told = text(&mut http, tool, json!({ "path": path }));
            assert_eq!(text(&mut stdio, tool, json!({ "path": path })), told);
            let ran = notes.note(command, path);
            assert!(ran.status.code() == Some(1) && ran.stdout.is_empty(), "{ran:?}");
            assert_eq!(String::from_utf8(ran.stderr).unwrap(), format!("{told}\n"));
            let told: Value = serde_json::from_str(&told).unwrap();
            assert_eq!(told["code"], "RUNTIME_ERROR");
        }
    }
}

#[test]
fn a_refusal_for_scopes_is_403_and_reveals_nothing_of_what_exists() {
    let notes = Notes::new();
    let server = notes.rig.serve(&[]);
    let mut client = server.client(&notes.rig.token(&["read:/work/"], &[]));
    for (tool, _) in TOOLS {
        let [there, not] = ["inbox/one.md", "inbox/two.md"].map(|path| {
            let reply = client
                .post("tools/call", json!({ "name": tool, "arguments": { "path": path } }))
                .unwrap();
            assert_eq!(reply.status, 403);
            assert_eq!(reply.json()["error"]["code"], -31403);
            String::from_utf8(reply.body).unwrap().replace("one.md", "two.md")
        });
        let same = |text: &str| serde_json::from_str::<Value>(text).unwrap()["error"].clone();
        assert_eq!(same(&there), same(&not));
    }
}

#[test]
fn the_command_line_prints_errors_as_json() {
    let notes = Notes::new();
    let mut command =
        notes.rig.command(&["note", "outline", "a.md", "--root", "/nonexistent/space", "--state"]);
    let ran = command.arg(&notes.rig.state).output().unwrap();
    assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(2), &b""[..]));
    let told: Value = serde_json::from_slice(&ran.stderr).unwrap();
    assert_eq!(told["code"], "RUNTIME_ERROR");
    assert!(told["error"].as_str().unwrap().contains("/nonexistent/space"), "{told}");
}

#[test]
fn the_note_tools_work_on_a_read_only_space_and_leave_it_unchanged() {
    use std::os::unix::fs::PermissionsExt as _;
    let notes = Notes::new();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap()
    };
    let root = notes.rig.root.clone();
    for (path, bits) in [("inbox/one.md", 0o444), ("inbox", 0o555), ("", 0o555)] {
        mode(&root.join(path), bits);
    }
    let before = notes.tree();
    for (_, command) in TOOLS {
        assert!(notes.note(command, "inbox/one.md").status.success());
        assert!(!notes.note(command, "inbox/none.md").status.success());
    }
    assert_eq!(notes.tree(), before, "the command line touches nothing, not even for a moment");
    // A server tries at its start what the folder can do; its calls touch nothing.
    let server = notes.rig.serve(&[]);
    let mut client = server.client(&notes.rig.token(&["write:/"], &[]));
    let before = notes.tree();
    for (tool, _) in TOOLS {
        text(&mut client, tool, json!({ "path": "inbox/one.md" }));
    }
    assert_eq!(notes.tree(), before);
    for path in ["", "inbox"] {
        mode(&root.join(path), 0o755);
    }
}

#[test]
fn the_next_call_of_one_client_sees_the_edit_of_another() {
    let notes = Notes::new();
    let server = notes.rig.serve(&[]);
    let mut writer = server.client(&notes.rig.token(&["write:/"], &[]));
    let mut reader = notes.rig.stdio(&["--scope", "read:/"]);
    let mut last = text(&mut reader, "get_section_source", json!({ "path": "inbox/one.md" }));
    for round in 0..5 {
        let hash =
            writer.tool("text.read", json!({ "path": "/inbox/one.md" })).unwrap()["hash"].clone();
        let heading = format!("\n\n# Round {round}");
        let edit = json!({ "path": "/inbox/one.md", "hash": hash, "content": heading });
        assert!(writer.tool("text.append", edit).unwrap()["hash"].is_string());
        let now = text(&mut reader, "get_section_source", json!({ "path": "inbox/one.md" }));
        assert!(now.contains(&format!("\"heading_text\":\"Round {round}\"")) && now != last);
        last = now;
    }
}

#[test]
fn the_text_of_a_note_occurs_only_in_its_fields() {
    let notes = Notes::new();
    let body = [
        "canary-front-matter", "canary-body-text", "canary-code", "canary-comment", "canary-link",
        "canary-image",
    ]
    .iter()
    .fold(Canaries::new(), |canaries, word| canaries.plant(word, word));
    let headings =
        Canaries::new().plant("heading", "Heading of Ferns").plant("slug", "heading-of-ferns");
    let server = notes.rig.serve(&["--log", "trace"]);
    let mut client = server.client(&notes.rig.token(&["read:/"], &[]));
    for (tool, command) in TOOLS {
        for arguments in [
            json!({ "path": "inbox/one.md" }),
            json!({ "path": "inbox/none.md" }),
            json!({ "path": "inbox/one.md", "x": 1 }),
        ] {
            let reply =
                client.post("tools/call", json!({ "name": tool, "arguments": arguments })).unwrap();
            body.assert_absent(tool, &reply.bytes());
            let head: String =
                reply.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
            headings.assert_absent("the headers", head.as_bytes());
        }
        let ran = notes.note(command, "inbox/one.md");
        body.assert_absent(command, &[ran.stdout, ran.stderr].concat());
    }
    let listed = client.post("tools/list", json!({})).unwrap();
    headings.assert_absent("the list of tools", &listed.bytes());
    let (_, log) = server.stop();
    let everywhere =
        |canaries: &Canaries, place: &str, bytes: &[u8]| canaries.assert_absent(place, bytes);
    let mut left = vec![notes.rig.state.clone()];
    let mut seen = 0;
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            everywhere(&body, "the state folder", &bytes);
            everywhere(&headings, "the state folder", &bytes);
            assert!(
                !String::from_utf8_lossy(&bytes).contains("inbox/one.md"),
                "the journal names no note"
            );
            seen += 1;
        }
    }
    assert!(seen > 0);
    everywhere(&body, "the log", &log);
    everywhere(&headings, "the log", &log);
}

/// An agent that is given these tools and `text.read` alone.
#[test]
fn an_agent_finds_a_fact_in_a_long_note_by_reading_little_of_it() {
    let notes = Notes::new();
    let mut long = String::from("# Garden book\n\n");
    for chapter in 0..40 {
        let filler = "Plants want water, light and patience. ".repeat(190);
        let name =
            if chapter == 27 { "Mulch for ferns".to_owned() } else { format!("Chapter {chapter}") };
        let fact = if chapter == 27 { "Use beech leaves, two hands deep.\n\n" } else { "" };
        long += &format!("## {name}\n\n{fact}{filler}\n\n");
    }
    assert!(long.len() > 290_000);
    std::fs::write(notes.rig.root.join("book.md"), &long).unwrap();
    let mut agent = notes.rig.stdio(&["--scope", "read:/", "--read-budget-bytes", "4096"]);
    let outline = agent.tool("get_note_outline", json!({ "path": "book.md" })).unwrap();
    let mut headings = outline["headings"].as_array().unwrap().iter();
    let heading = headings.find(|one| one["text"].as_str().unwrap().contains("ferns")).unwrap();
    let section = json!({ "path": "book.md", "section": heading["id"] });
    let read = agent.tool("text.read", section).unwrap();
    let content = read["content"].as_str().unwrap();
    assert!(content.starts_with("## Mulch for ferns\n\nUse beech leaves"), "{}", &content[..80]);
    assert!(content.len() < 5_000, "{} bytes of the note were read", content.len());
    assert!(!outline.to_string().contains("beech"));
}

#[test]
fn every_section_is_read_to_its_end_by_its_id() {
    let notes = Notes::new();
    let filler = "Water the ferns.\n".repeat(100);
    let text = format!(
        "---\ntitle: x\n---\n# Same\n\n{filler}\n## Same\n\nsecond\n\n# `code` [a](u)\n\nthird"
    );
    std::fs::write(notes.rig.root.join("a.md"), &text).unwrap();
    let mut agent = notes.rig.stdio(&["--scope", "read:/", "--read-budget-bytes", "1KiB"]);
    let sections = agent.tool("get_section_source", json!({ "path": "a.md" })).unwrap();
    let mut pieces = Vec::new();
    for section in sections["sections"].as_array().unwrap() {
        let mut arguments = json!({ "path": "/a.md", "section": section["section_id"] });
        let mut piece = String::new();
        loop {
            let read = agent.tool("text.read", arguments).unwrap();
            piece += read["content"].as_str().unwrap();
            let Some(cursor) = read.get("next_cursor") else { break };
            arguments = json!({ "path": "/a.md", "cursor": cursor });
        }
        pieces.push(piece);
    }
    let second = "## Same\n\nsecond\n\n".to_owned();
    let first = format!("# Same\n\n{filler}\n{second}");
    assert_eq!(pieces, [first, second, "# `code` [a](u)\n\nthird".to_owned()]);

    let found = json!({ "path": "/a.md", "section": "h1-same-0001", "q": "SECOND" });
    assert_eq!(agent.tool("text.read", found).unwrap()["match_line"], 109);
    for (arguments, code) in [
        (json!({ "section": "h1-same-0002" }), "no_match"),
        (json!({ "section": "b-md:h1-same-0001" }), "no_match"),
        (json!({ "section": "h1-same-0001", "q": "third" }), "no_match"),
        (json!({ "section": "h1-same-0001", "lines": [1, 2] }), "invalid_argument"),
        (json!({ "section": "h1-same-0001", "cursor": "x" }), "invalid_argument"),
    ] {
        let mut arguments = arguments;
        arguments["path"] = json!("/a.md");
        let call = json!({ "name": "text.read", "arguments": arguments });
        let refused = agent.request("tools/call", call).unwrap();
        let error = &refused["result"]["structuredContent"]["error"];
        assert_eq!(error["code"], code, "{refused}");
    }
}

/// The tools whose schema says that they answer with sections, headings or what is derived of
/// them.
fn telling_structure(tools: impl Iterator<Item = &'static ToolEntry<Space>>) -> BTreeSet<String> {
    fn tells(schema: &Value) -> bool {
        match schema {
            Value::Object(keywords) => keywords.iter().any(|(name, value)| {
                let named = ["heading", "section", "outline", "snippet"]
                    .iter()
                    .any(|word| name.contains(word));
                named
                    || (name == "const" && value.to_string().contains("knowtation."))
                    || tells(value)
            }),
            Value::Array(items) => items.iter().any(tells),
            _ => false,
        }
    }
    let telling = tools.filter(|tool| tells(&Value::Object((tool.definition().output)())));
    telling.map(|tool| tool.name.to_owned()).collect()
}

fn the_four() -> BTreeSet<String> {
    TOOLS.iter().map(|(tool, _)| (*tool).to_owned()).collect()
}

/// What a fifth tool would look like.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Fifth {
    path: SpacePath,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Headings {
    first_heading: String,
}

impl Output for Headings {
    fn render(self, _: ShownTools) -> serde_json::Result<Answer> {
        Answer::json(&self)
    }
}

impl Tool for Fifth {
    const NAME: &'static str = "test.fifth";
    const TITLE: &'static str = "Tell a heading";
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    type Context = Space;
    type Error = Refusal;
    type Permits = Permit<Read>;
    type Output = Headings;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Read>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(self, permit: Permit<Read>, space: &Space) -> Result<Headings, Refusal> {
        let first_heading = space
            .derive(permit, 1 << 20, |text| text.lines().next().unwrap_or("").to_owned())
            .await?;
        Ok(Headings { first_heading })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, None)
    }
}

async fn listed(server: &Server, method: &str) -> Value {
    server.sessionless(WRITE, method, json!({})).await.json()["result"].clone()
}

#[test]
fn only_the_four_note_tools_answer_sections_or_headings() {
    assert_eq!(telling_structure(SpaceTools::built_in()), the_four());

    // The test would see a fifth.
    static FIFTH: [ToolEntry<Space>; 1] = [ToolEntry::new::<Fifth>()];
    let telling = telling_structure(SpaceTools::built_in().chain(&FIFTH));
    assert_eq!(telling.difference(&the_four()).collect::<Vec<_>>(), ["test.fifth"]);
}

#[tokio::test]
async fn no_resource_template_prompt_or_route_answers_sections_or_headings() {
    let server = Server::on(Ground::real(), |_| {}).await;
    let names = |value: &Value, of: &str, name: &str| -> Vec<String> {
        value[of]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item[name].as_str().unwrap().to_owned())
            .collect()
    };
    let resources = listed(&server, "resources/list").await;
    assert!(
        names(&resources, "resources", "uri").iter().all(|uri| uri.starts_with("list://")),
        "{resources}"
    );
    let templates = listed(&server, "resources/templates/list").await;
    assert_eq!(
        names(&templates, "resourceTemplates", "uriTemplate"),
        ["list://{+path}", "space:///{+path}"]
    );
    let prompts = server.sessionless(READ, "prompts/list", json!({})).await.json();
    for prompt in prompts["result"]["prompts"].as_array().unwrap() {
        let text = prompt.to_string().to_lowercase();
        assert!(!text.contains("section") && !text.contains("outline"), "{prompt}");
    }
    for uri in [
        "section:///a.md",
        "sections:///a.md",
        "note:///a.md",
        "knowtation://section_source/a.md",
        "file:///a.md",
        "space:///a.md?section=x",
        "space:///a.md#x",
    ] {
        let answer = server.sessionless(READ, "resources/read", json!({ "uri": uri })).await.json();
        assert!(answer["error"].is_object(), "{uri}: {answer}");
    }
    for target in [
        "/notes/a.md", "/api/notes/a.md", "/section-source?path=a.md", "/outline?path=a.md",
        "/openapi.json",
    ] {
        assert_eq!(server.connect().await.get(target, READ, &[]).await.status, 404, "{target}");
    }
}

/// Every word of the server's source that adds a route. A new one is a decision, and this is where
/// it is seen.
#[test]
fn the_server_has_exactly_these_routes() {
    let mut routes = Vec::new();
    let mut left = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(path) = left.pop() {
        if path.ends_with("sign_in/routes.rs") {
            // Pages and addresses of signing in, which know nothing of notes.
            continue;
        }
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = std::fs::read_to_string(&path).unwrap();
            for word in [".route(", ".route_service(", ".nest(", ".nest_service(", ".merge("] {
                let found = source
                    .match_indices(word)
                    .filter_map(|(at, _)| source[at + word.len()..].split(',').next());
                routes.extend(found.map(|route| format!("{word}{}", route.trim())));
            }
        }
    }
    routes.sort();
    let metadata = [
        ".route(metadata::MCP_PATH",
        ".route(metadata::MCP_PATH_WITH_SLASH",
        ".route(metadata::METADATA_PATH",
        ".route(metadata::METADATA_PATH_OF_ORIGIN",
        ".route(metadata::METADATA_PATH_OF_ROOT",
        ".route(metadata::METADATA_PATH_WITH_SLASH",
        ".route(metadata::ROOT_PATH",
    ];
    // A whole note for a gateway, which is a read like `text.read`; counts, on an address of their
    // own; and records, of which none is a note's: nothing of a heading or a section is derived
    // from one.
    let others = [
        ".merge(routes).route(OPENAPI_PATH",
        ".route(\"/health\"",
        ".route(\"/metrics\"",
        ".route(\"/ready\"",
        ".route(NOTES_PATH",
        ".route(OPENAPI_PATH",
        ".route(RECORDS_PATH",
        ".route(STYLE_PATH",
    ];
    routes.retain(|route| {
        !route.starts_with(".merge(routes);") && !route.starts_with(".merge(sign_in)")
    });
    assert_eq!(routes, [&others[..], &metadata].concat());
}

#[test]
fn only_the_note_command_prints_sections_or_headings() {
    let notes = Notes::new();
    let commands = |arguments: &[&str]| -> Vec<String> {
        let ran = notes.rig.command(&[arguments, &["--help"]].concat()).output().unwrap();
        let help = String::from_utf8(ran.stdout).unwrap();
        let (_, list) = help.split_once("Commands:\n").unwrap();
        let lines = list.lines().take_while(|line| !line.is_empty());
        lines
            .filter(|line| !line.starts_with("    "))
            .map(|line| line.split_whitespace().next().unwrap().to_owned())
            .collect()
    };
    // `show`, `diff` and `search` print the owner's own text, and nothing that is derived from it
    // but the title of a note.
    assert_eq!(
        commands(&[]),
        [
            "serve", "stdio", "gateway", "mcp", "note", "search", "token", "sign-in", "client",
            "connect", "disconnect", "doctor", "service", "update", "space", "cache",
            "migrate-store", "completions", "owner", "person", "database", "history", "show",
            "diff", "restore", "undo", "import", "connections", "streams", "records", "declare",
            "export", "backup", "restore-backup", "grant", "audit", "activity", "config"
        ]
    );
    assert_eq!(commands(&["note"]), TOOLS.map(|(_, command)| command));
}
