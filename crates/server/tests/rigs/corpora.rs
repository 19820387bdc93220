//! Hostile texts and JSON go through every argument of every tool, every kind of resource, and
//! every parameter and body of every operation of `/v1`.
//!
//! Law: the server answers each call, no answer is the server's own failure or names a folder of
//! the machine, nothing appears beside the space, and the server serves on. A short run gives each
//! argument a part of the corpus, and all arguments together the whole.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};
use stile_records::operation_declaration::OperationMethod;
use stile_records::operations::OPERATIONS;
use stile_testkit::chance::scaled;
use stile_testkit::client::{Http, Reply};
use stile_testkit::leaks::Canaries;
use stile_testkit::process::{Rig, Server};

use crate::doors::binary;

/// Ways to write a path that leads out, as lists of traversal attacks have them, put together from
/// their parts.
fn traversals() -> Vec<String> {
    let ups = [
        "..", "%2e%2e", "%252e%252e", "..;", ".%00.", "\u{ff0e}\u{ff0e}", "..%c0%af", "....", ". .",
    ];
    let separators = ["/", "\\", "%2f", "%5c", "//", "/./", "\u{2215}", "%c0%af"];
    let mut paths: Vec<String> = ups
        .iter()
        .flat_map(|up| separators.iter().map(move |separator| [up, *separator].concat()))
        .flat_map(|step| [1, 3].map(|times| format!("{}outside.md", step.repeat(times))))
        .collect();
    for path in [
        "/etc/passwd", "C:\\outside.md", "C:/outside.md", "\\\\host\\share\\a", "//host/share/a",
        "file:///etc/passwd", "/proc/self/root/etc/passwd", "/dev/zero", "~/outside.md",
        "$HOME/outside.md", "a/../../outside.md", "/a.md/..", "/a.md/", "/a.md\0.txt", "/CON",
        "/NUL.md", "/a:stream", "/.stile-x", "/\u{202e}dm.a", "/e\u{301}.md", "", "/", ".", "..",
    ] {
        paths.push(path.to_owned());
    }
    paths
}

/// Texts that programs have taken for something else: numbers, code, formats, markup, commands.
fn naughty() -> Vec<String> {
    let mut texts: Vec<String> = [
        "null",
        "undefined",
        "NaN",
        "Infinity",
        "-0",
        "1e999",
        "0x10",
        "1_000",
        "٣",
        "true",
        "[]",
        "{}",
        "__proto__",
        "constructor",
        "%s%n%x",
        "%d",
        "{0}",
        "${7*7}",
        "{{7*7}}",
        "<%= 7 %>",
        "' OR 1=1 --",
        "\"; DROP TABLE records; --",
        "1); VACUUM; --",
        "*",
        "\"",
        "\"\"",
        "'",
        "`",
        "NEAR(a b)",
        "a AND",
        "OR",
        "NOT",
        "a*b*",
        "-",
        "--",
        "a:b",
        ":",
        "^a",
        "(",
        ")",
        "((((",
        "<script>alert(1)</script>",
        "]]>",
        "<!--",
        "&#0;",
        "; rm -rf /",
        "$(id)",
        "`id`",
        "| cat",
        "\u{0}",
        "\u{7}",
        "\u{1b}[2J",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "\u{200b}",
        "\u{202e}abc",
        "\u{fffd}",
        "\u{1f469}\u{200d}\u{1f469}\u{200d}\u{1f467}",
        "Z\u{351}\u{36b}\u{343}",
        "ß",
        "İ",
        "ﷺ",
        "\u{10ffff}",
        "\r\nX-Injected: 1",
        "a\tb",
        " ",
        "\n",
        "sha256:",
        "list:///",
        "pdpp://record/x",
        "2026-13-45T99:99:99Z",
        "9223372036854775808",
    ]
    .map(str::to_owned)
    .into();
    texts.extend(["a", "\u{1f600}", "(", "a "].map(|unit| unit.repeat(5_000)));
    texts
}

/// JSON of every other kind, at the edges of each.
fn values() -> Vec<Value> {
    let nested = (0..100).fold(json!(1), |inner, _| json!([inner]));
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e308),
        json!([]),
        json!({}),
        json!([null]),
        json!([[], {}]),
        json!([-1, -1]),
        json!([u64::MAX, 0]),
        json!([1, 2, 3]),
        json!({ "": "" }),
        json!({ "a": { "gte": {} } }),
        json!({ "$ref": "#" }),
        nested,
    ]
}

/// The corpus, and which of it an argument gets.
struct Corpus {
    values: Vec<Value>,
    /// One value in so many is for one argument.
    step: usize,
    next: usize,
}

impl Corpus {
    fn new() -> Self {
        let texts = traversals().into_iter().chain(naughty()).map(Value::from);
        let values: Vec<Value> = texts.chain(values()).collect();
        let step = values.len() / scaled(16, values.len());
        Self { values, step, next: 0 }
    }

    /// The values for the next argument. Neighbours in the order of arguments get other ones.
    fn for_next(&mut self) -> Vec<Value> {
        self.next += 1;
        self.values.iter().skip(self.next % self.step).step_by(self.step).cloned().collect()
    }
}

/// What a well-meant call of a tool has in an argument.
fn usual(name: &str) -> Value {
    match name {
        "path" => json!("/a.md"),
        "hash" => json!("0".repeat(64)),
        "content" | "old" | "new" | "q" => json!("one"),
        "stream" => json!("mail"),
        "id" => json!("own/mail:a"),
        "field_path" => json!("body"),
        "metric" => json!("count"),
        _ => json!("utf-8"),
    }
}

struct Calls<'a> {
    server: &'a Server,
    token: &'a str,
    client: Http,
    canaries: Canaries,
    answered: usize,
}

impl Calls<'_> {
    /// Sends one request and asserts the law of its answer.
    fn sent(&mut self, what: &str, send: impl Fn(&mut Http) -> std::io::Result<Reply>) -> Reply {
        let reply = self.client.twice(send);
        let what: String = what.chars().take(300).collect();
        let reply = reply.unwrap_or_else(|error| panic!("{what}: {error}"));
        let body = String::from_utf8_lossy(&reply.body);
        let short: String = body.chars().take(600).collect();
        assert!((200..500).contains(&reply.status), "{what}: {} {short}", reply.status);
        assert!(!body.contains("\"incident\""), "{what}: {short}");
        self.canaries.assert_absent(&what, &reply.bytes());
        self.answered += 1;
        reply
    }

    fn call(&mut self, tool: &str, arguments: &Value) {
        let params = json!({ "name": tool, "arguments": arguments });
        self.sent(&params.to_string(), |client| client.post("tools/call", params.clone()));
    }

    fn request(&mut self, method: &str, target: &str, body: &[u8]) {
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.server.address,
            self.token,
            body.len(),
        );
        let bytes = [head.as_bytes(), body].concat();
        self.sent(&format!("{method} {target}"), |client| client.send(&bytes));
    }

    fn give_to_tools(&mut self, corpus: &mut Corpus) {
        let list = self.sent("tools/list", |client| client.post("tools/list", json!({}))).json();
        let tools = list["result"]["tools"].as_array().unwrap();
        assert!(tools.len() >= 16, "{}", tools.len());
        for tool in tools {
            let (name, schema) = (tool["name"].as_str().unwrap(), &tool["inputSchema"]);
            let required = schema["required"].as_array().into_iter().flatten();
            let usual: Map<String, Value> = required
                .filter_map(Value::as_str)
                .map(|key| (key.to_owned(), usual(key)))
                .collect();
            for key in schema["properties"].as_object().unwrap().keys() {
                for value in corpus.for_next() {
                    let mut arguments = usual.clone();
                    arguments.insert(key.clone(), value);
                    self.call(name, &arguments.into());
                }
            }
            for arguments in corpus.for_next() {
                self.call(name, &arguments);
            }
        }
    }

    fn give_to_resources(&mut self, corpus: &mut Corpus) {
        for start in ["list:///", "pdpp://record/", "pdpp://field-window/", ""] {
            for value in corpus.for_next() {
                let params = json!({ "uri": format!("{start}{}", text_of(&value)) });
                let what = params.to_string();
                // The address is also a header, which takes no such text.
                if what.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                    self.sent(&what, |client| client.post("resources/read", params.clone()));
                }
            }
        }
    }

    fn give_to_operations(&mut self, corpus: &mut Corpus) {
        for operation in OPERATIONS {
            let method = operation.method.name();
            let path = filled(operation.path, "mail");
            if operation.method == OperationMethod::Delete {
                continue;
            }
            for parameter in operation.parameters {
                for value in corpus.for_next() {
                    let value = escaped(&text_of(&value));
                    // A longer head is refused as a whole.
                    if value.len() < 6_000 {
                        let target = format!("{path}?{}={value}", parameter.name);
                        self.request(method, &target, b"");
                    }
                }
            }
            for value in corpus.for_next() {
                let value = escaped(&text_of(&value));
                if operation.path.contains('{') && value.len() < 6_000 && !value.is_empty() {
                    self.request(method, &filled(operation.path, &value), b"");
                }
            }
            if operation.method == OperationMethod::Post {
                for value in corpus.for_next() {
                    self.request(method, &path, text_of(&value).as_bytes());
                    let line = json!({ "id": "x", "data": value }).to_string();
                    self.request(method, &path, line.as_bytes());
                }
            }
        }
    }
}

#[test]
fn no_hostile_text_or_json_in_any_argument_breaks_a_call() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::below(folder.path(), binary());
    std::fs::write(rig.root.join("a.md"), "# A\n\none two\n").unwrap();
    std::fs::write(folder.path().join("outside.md"), "outside canary").unwrap();
    import(&rig);
    let server = rig.serve(&["--rate-per-second", "1000000", "--rate-burst", "1000000"]);
    let token = rig.token(&["write:/"], &["--owner"]);
    let before = names_of(folder.path());
    let canaries = Canaries::new()
        .plant("the file outside", "outside canary")
        .plant("the folder", &folder.path().display().to_string());
    let client = server.client(&token);
    let mut calls = Calls { server: &server, token: &token, client, canaries, answered: 0 };
    let mut corpus = Corpus::new();
    calls.give_to_tools(&mut corpus);
    calls.give_to_resources(&mut corpus);
    calls.give_to_operations(&mut corpus);
    println!("{} hostile values, {} calls", corpus.values.len(), calls.answered);
    assert_eq!(names_of(folder.path()), before);
    let read = json!({ "name": "schema", "arguments": {} });
    let reply = calls.sent("a proper call", |client| client.post("tools/call", read.clone()));
    assert_eq!(reply.json()["result"]["isError"], false);
    assert!(server.stop().0.success());
}

/// Imports one record into the stream `mail`.
fn import(rig: &Rig) {
    let file = rig.state.with_file_name("rows.jsonl");
    let mut out = std::fs::File::create(&file).unwrap();
    writeln!(out, "{}", json!({ "id": "a", "body": "one heron" })).unwrap();
    let mut command = rig.command(&["import"]);
    command.arg(&file).args(["--stream", "mail", "--connection", "own", "--state"]);
    assert!(command.arg(&rig.state).output().unwrap().status.success());
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn names_of(folder: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

/// A path of an operation with `stream` for its stream, and a name for every other variable.
fn filled(path: &str, stream: &str) -> String {
    let segments = path.split('/').map(|segment| match segment {
        "{stream}" => stream,
        variable if variable.starts_with('{') => "a",
        fixed => fixed,
    });
    segments.collect::<Vec<_>>().join("/")
}

/// Every byte that is neither a letter nor a digit as `%XX`.
fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
