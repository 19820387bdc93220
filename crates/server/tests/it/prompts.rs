//! Prompts and the owner's instructions, as clients get them.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use stile_server::config::ToolNames;
use tempfile::TempDir;

use crate::support::{NOTHING, READ, Server, WRITE, initialize, request};

fn names(answer: &Value) -> Vec<&str> {
    let prompts = answer["result"]["prompts"].as_array().unwrap_or_else(|| panic!("{answer}"));
    prompts.iter().map(|prompt| prompt["name"].as_str().unwrap()).collect()
}

fn get(name: &str, arguments: Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

#[tokio::test]
async fn the_programs_own_prompts_are_offered_with_their_tools_in_both_lifecycles() {
    let server = Server::start().await;
    let session = server.open(WRITE).await;
    let all = ["answer-from-notes", "file-this-note", "weekly-review"];
    let listed =
        server.in_session(WRITE, &session, &request(1, "prompts/list", json!({}))).await.json();
    assert_eq!(names(&listed), all);
    for (token, expected) in
        [(WRITE, &all[..]), (READ, &["answer-from-notes", "weekly-review"]), (NOTHING, &[])]
    {
        let listed = server.sessionless(token, "prompts/list", json!({})).await.json();
        assert_eq!(names(&listed), expected, "{token}");
    }
    let values = get("answer-from-notes", json!({ "question": "When do herons {{path}}?" }));
    let modern = server.sessionless(READ, "prompts/get", values.clone()).await.json();
    let session = server.open(READ).await;
    let body = request(1, "prompts/get", values);
    let legacy = server.in_session(READ, &session, &body).await.json();
    for answer in [&modern, &legacy] {
        let message = &answer["result"]["messages"][0];
        assert_eq!(message["role"], "user", "{answer}");
        let text = message["content"]["text"].as_str().unwrap();
        assert!(text.contains("\n\nWhen do herons {{path}}?\n\n"), "{text}");
    }
    assert_eq!(modern["result"]["messages"], legacy["result"]["messages"]);
}

#[tokio::test]
async fn a_prompt_names_tools_as_the_caller_is_shown_them() {
    for spelling in [ToolNames::Dotted, ToolNames::Underscored] {
        let server = Server::with(|options| options.presentation.names = spelling).await;
        let tools = server.sessionless(READ, "tools/list", json!({})).await.json();
        let shown: Vec<&str> = tools["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        let review = get("weekly-review", json!({}));
        let review = server.sessionless(READ, "prompts/get", review).await.json();
        let text = review["result"]["messages"][0]["content"]["text"].as_str().unwrap();
        let mut named = 0;
        for name in text.split('`').skip(1).step_by(2) {
            if name.starts_with("file") || name.starts_with("text") {
                named += 1;
                assert!(shown.contains(&name), "{spelling:?} {name}");
            }
        }
        assert!(named >= 3, "{text}");
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_and_unknown_prompts_are_invalid_parameters() {
    let server = Server::start().await;
    for (params, said) in [
        (get("none", json!({})), "there is no prompt of that name; see `prompts/list`"),
        (get("file-this-note", json!({ "path": "/a" })), "there is no prompt of that name"),
        (get("answer-from-notes", json!({})), "the prompt needs the argument `question`"),
        (
            get("answer-from-notes", json!({ "question": "x", "evil": "y" })),
            "there is an argument that the prompt does not have; it has: `question`",
        ),
        (get("answer-from-notes", json!({ "question": 7 })), "the value of `question`"),
        (json!({}), "the parameters do not fit prompts/get"),
    ] {
        let answer = server.sessionless(READ, "prompts/get", params).await.json();
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(said) && !message.contains("evil"), "{message}");
    }
    let cursor = server.sessionless(READ, "prompts/list", json!({ "cursor": "x" })).await.json();
    assert_eq!(cursor["error"]["code"], -32602, "{cursor}");
}

#[tokio::test]
async fn the_path_of_a_prompt_is_completed_within_the_scopes() {
    let server = Server::start().await;
    fs::create_dir_all(server.root().join("work")).unwrap();
    fs::write(server.root().join("work/plan.md"), "x").unwrap();
    let ask = |prompt: &str, argument: &str, begun: &str| {
        json!({
            "ref": { "type": "ref/prompt", "name": prompt },
            "argument": { "name": argument, "value": begun }
        })
    };
    for (token, argument, begun, values) in [
        (READ, "path", "/wo", json!(["/work/"])),
        (READ, "path", "work/", json!(["work/plan.md"])),
        (READ, "since", "/wo", json!([])),
        ("ann;-;read:/other/;3600", "path", "/work/", json!([])),
    ] {
        let params = ask("weekly-review", argument, begun);
        let found = server.sessionless(token, "completion/complete", params).await.json();
        assert_eq!(found["result"]["completion"]["values"], values, "{token} {argument} {begun}");
    }
    let unknown = ask("none", "path", "/");
    let refused = server.sessionless(READ, "completion/complete", unknown).await.json();
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

/// Folders for a space, a state, prompts and instructions.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["space", "prompts"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, flags: &[(&str, &Path)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stile"));
        command.arg("stdio").arg(self.at("space")).arg("--state").arg(self.at("state"));
        for (flag, path) in flags {
            command.arg(flag).arg(path);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts the program, asks, and returns the answers and the end.
    fn ask(&self, flags: &[(&str, &Path)], requests: &[Value]) -> (Vec<Value>, Output) {
        let mut child = self.command(flags).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut answers = Vec::new();
        for request in requests {
            // A program that refused to start reads nothing.
            let _ = writeln!(input, "{request}");
            let mut line = String::new();
            if request.get("id").is_some() && output.read_line(&mut line).unwrap() > 0 {
                answers.push(serde_json::from_str(&line).unwrap());
            }
        }
        drop(input);
        (answers, child.wait_with_output().unwrap())
    }
}

fn opening() -> [Value; 2] {
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    [initialize("2025-11-25", "x"), initialized]
}

#[test]
fn the_owners_prompts_and_instructions_come_first_and_are_read_when_asked() {
    let place = Place::new();
    let file = place.at("i.txt");
    fs::write(&file, "Speak of herons. Never file.move them.\n").unwrap();
    fs::write(place.at("prompts/weekly-review.md"), "Mine: `file.find`, /file.find").unwrap();
    let greet =
        "---\ndescription: Greets\narguments:\n  - name: who\n    required: true\n---\nHi {{who}}";
    fs::write(place.at("prompts/greet me.md"), greet).unwrap();
    fs::write(place.at("prompts/broken.md"), "").unwrap();
    symlink(&file, place.at("prompts/link.md")).unwrap();
    let folder = place.at("prompts");
    let flags: [(&str, &Path); 2] = [("--prompts", &folder), ("--instructions", &file)];
    let [first, second] = opening();
    let requests = [
        first,
        second,
        request(1, "prompts/list", json!({})),
        request(2, "prompts/get", get("weekly-review", json!({}))),
        request(3, "prompts/get", get("greet-me", json!({ "who": "Ann" }))),
    ];
    let (answers, end) = place.ask(&flags, &requests);
    let instructions = answers[0]["result"]["instructions"].as_str().unwrap();
    assert!(
        instructions
            .starts_with("Speak of herons. Never file_move them.\n\nFiles of the user's space")
    );
    let expected = ["answer-from-notes", "file-this-note", "greet-me", "weekly-review"];
    assert_eq!(names(&answers[1]), expected);
    let listed = &answers[1]["result"]["prompts"][2];
    assert_eq!(
        *listed,
        json!({
            "name": "greet-me", "description": "Greets",
            "arguments": [{ "name": "who", "required": true }],
        })
    );
    let text = |answer: &Value| answer["result"]["messages"][0]["content"]["text"].clone();
    assert_eq!(text(&answers[2]), "Mine: `file_find`, /file.find", "as the client is shown it");
    assert_eq!(text(&answers[3]), "Hi Ann");
    let said = String::from_utf8(end.stderr).unwrap();
    assert!(said.contains("\"broken.md\" has no text, so it is left out"), "{said}");
}

#[test]
fn the_start_refuses_texts_in_the_space_and_instructions_that_are_too_long() {
    let place = Place::new();
    let inside = place.at("space/prompts");
    fs::create_dir(&inside).unwrap();
    let link = place.at("link");
    symlink(place.at("space"), &link).unwrap();
    let note = place.at("space/i.txt");
    fs::write(&note, "x").unwrap();
    let long = place.at("long.txt");
    fs::write(&long, "x".repeat(2049)).unwrap();
    let absent = place.at("absent");
    let around = place.folder.path().to_owned();
    for (flag, path, said) in [
        ("--prompts", &inside, "lie in one another"),
        ("--prompts", &link.join("prompts"), "lie in one another"),
        ("--prompts", &around, "lie in one another"),
        ("--prompts", &absent, "cannot be used"),
        ("--prompts", &long, "cannot be used"),
        ("--instructions", &note, "lie in one another"),
        ("--instructions", &link.join("i.txt"), "lie in one another"),
        ("--instructions", &long, "more than 2048 bytes"),
        ("--instructions", &absent, "cannot be used"),
    ] {
        let (answers, end) = place.ask(&[(flag, path)], &opening());
        let stderr = String::from_utf8(end.stderr).unwrap();
        assert!(!end.status.success() && answers.is_empty(), "{flag} {path:?}");
        assert!(stderr.contains(said), "{flag} {path:?}: {stderr}");
    }
}
