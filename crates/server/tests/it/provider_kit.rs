//! `stile mcp` as its client meets it, with all that it ever says kept for the leak check.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use serde_json::{Value, json};
use stile_testkit::client::{Lane, McpClient as _};
use stile_testkit::process::{Piped, Rig};

/// A running adapter.
pub struct Adapter {
    piped: Piped,
    lane: Lane,
    said: Vec<u8>,
}

/// A folder with a token in a file.
pub struct Desk {
    folder: tempfile::TempDir,
    pub rig: Rig,
}

impl Desk {
    pub fn new(token: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
        let desk = Self { folder, rig };
        desk.write_token(token);
        desk
    }

    /// Puts a token into the file, as another program does that renews it.
    pub fn write_token(&self, token: &str) {
        std::fs::write(self.token_file(), format!("{token}\n")).unwrap();
    }

    pub fn token_file(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Starts an adapter for the server at `url`.
    pub fn adapter(&self, url: &str, more: &[&str]) -> Adapter {
        let mut command =
            self.rig.command(&["mcp", "--log", "trace", "--provider", url, "--token-file"]);
        command.arg(self.token_file()).args(more);
        let piped = Piped::start(command);
        let lane = piped.client();
        Adapter { piped, lane, said: Vec::new() }
    }
}

impl Adapter {
    /// The answer to a request, whichever it is.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let answer = self.lane.request(method, params).unwrap();
        self.said.extend(answer.to_string().into_bytes());
        answer
    }

    /// The result of a call, refused or not.
    pub fn result(&mut self, tool: &str, arguments: Value) -> Value {
        let mut answer =
            self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert!(answer["result"].is_object(), "{tool}: {answer}");
        answer["result"].take()
    }

    /// The result of a call that must succeed.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.result(tool, arguments);
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result
    }

    /// The error of a call that must be refused.
    pub fn refused(&mut self, tool: &str, arguments: Value) -> Value {
        let mut result = self.result(tool, arguments);
        assert_eq!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"]["error"].take()
    }

    /// The text of a field, window after window, by the cursors; and how many windows there were.
    pub fn whole_field(&mut self, id: &str, field: &str, limit: u64) -> (String, usize) {
        let (mut text, mut windows) = (String::new(), 0);
        let mut arguments = json!({ "id": id, "field_path": field, "limit_chars": limit });
        loop {
            let result = self.call("read_record_field", arguments);
            let window = &result["structuredContent"]["window"];
            let shown = window["text"].as_str().unwrap();
            assert!(result["content"][0]["text"].as_str().unwrap().ends_with(shown));
            text += shown;
            windows += 1;
            let Some(cursor) = window["next_cursor"].as_str() else { return (text, windows) };
            arguments = json!({ "id": id, "field_path": field, "cursor": cursor });
        }
    }

    /// Ends its input; answers how it ended, all that it answered and all that it logged.
    pub fn end(self) -> (ExitStatus, Vec<u8>, Vec<u8>) {
        let Self { piped, lane, said } = self;
        drop(lane);
        let (status, log) = piped.stop();
        (status, said, log)
    }
}
