//! Tests of connecting clients, with a home folder of their own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::*;

/// A home folder with a state folder in it.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Runs a command as the person with this home folder.
    fn stile(&self, line: &str) -> Result<String, String> {
        let home = self.0.path().to_str().unwrap().to_owned();
        let environment = |name: &str| match name {
            "HOME" => Some(home.clone()),
            "USER" => Some("ann".to_owned()),
            // Nothing listens here, whatever else runs on this machine.
            "STILE_LISTEN" => Some("127.0.0.1:1".to_owned()),
            _ => None,
        };
        let mut output = Vec::new();
        let arguments = std::iter::once("stile").chain(line.split(' ')).map(OsString::from);
        match crate::cli::commands::run(arguments, &environment, &mut output) {
            Ok(()) => Ok(String::from_utf8(output).unwrap()),
            Err(failure) => Err(failure.report().0),
        }
    }

    fn file(&self, client: &ClientRow) -> PathBuf {
        let home = self.0.path().to_str().unwrap().to_owned();
        let environment = |name: &str| (name == "HOME").then(|| home.clone());
        client.files(Platform::current(), &environment).unwrap().remove(0)
    }

    fn write(&self, client: &ClientRow, text: &str) {
        let file = self.file(client);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    fn text(&self, client: &ClientRow) -> String {
        std::fs::read_to_string(self.file(client)).unwrap()
    }

    fn entry(&self, client: &'static ClientRow) -> Value {
        let home = self.0.path().to_str().unwrap().to_owned();
        let environment = |name: &str| (name == "HOME").then(|| home.clone());
        ClientFile::read(client, "stile", &environment).unwrap().entry().unwrap().unwrap()
    }

    /// Returns the tokens, the newest last.
    fn tokens(&self) -> Vec<Value> {
        serde_json::from_str(&self.stile("token list --json").unwrap()).unwrap()
    }

    fn live(&self) -> usize {
        self.tokens().iter().filter(|token| token["state"] == "live").count()
    }
}

/// Returns a file of a person with comments, other servers and an odd layout.
fn used(client: &ClientRow) -> String {
    let table = client.table.join(".");
    match client.format {
        stile_domain::client_file::FileFormat::Json => format!(
            "{{\n    // mine\n    \"theme\" : \"dark\",\n    \"{table}\": {{\n        \
             \"other\": {{ \"url\": \"u\" }} // keep\n    }},\n    \"last\":[1,2]\n}}\n"
        ),
        stile_domain::client_file::FileFormat::Toml => {
            format!("# mine\nmodel   = \"o\"\n\n[{table}.other] # keep\ncommand = \"g\"\n")
        }
        stile_domain::client_file::FileFormat::Yaml => format!(
            "# mine\nMODE:   auto\n{table}:\n  other: # keep\n    enabled: true\n\nLAST: 1\n"
        ),
    }
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn each_client_gets_an_entry_in_a_new_file_and_the_file_goes_again() {
    for client in CLIENTS {
        let home = Home::new();
        let name = client.name;
        let shown = home.stile(&format!("connect {name}")).unwrap();
        assert!(!home.file(client).exists() && home.live() == 0, "{shown}");
        let said = home.stile(&format!("connect {name} --write")).unwrap();
        assert!(said.contains(client.after), "{said}");
        let with = home.text(client);
        let entry = home.entry(client);
        match client.best {
            Transport::Http => {
                let token = token_of(&entry).unwrap();
                assert!(!said.contains(&token) && !shown.contains("eyJ"));
                let jti = identifier(&token).unwrap();
                let row = home.tokens().remove(0);
                assert_eq!((&row["jti"], &row["client"]), (&json!(jti), &json!(name)));
                assert_eq!(row["scopes"], "write:/");
                #[cfg(unix)]
                assert_eq!(mode(&home.file(client)), 0o600);
            }
            Transport::Stdio => {
                let args = entry["args"].as_array().unwrap();
                let at = args.iter().position(|word| word == "--client").unwrap();
                assert_eq!(args[at + 1], name);
                let row = home.tokens().remove(0);
                assert_eq!((&row["client"], &row["transport"]), (&json!(name), &json!("stdio")));
                assert_eq!((&row["scopes"], &row["expires"]), (&json!("write:/"), &Value::Null));
                assert!(said.contains("Claude Desktop may read, change, make and remove all files, and sees no records"), "{said}");
            }
        }
        let again = home.stile(&format!("connect {name} --write")).unwrap();
        assert!(again.contains("connected already"), "{again}");
        assert_eq!(home.text(client), with);
        home.stile(&format!("disconnect {name}")).unwrap();
        assert!(!home.file(client).exists(), "{name}");
        assert_eq!(home.live(), 0);
    }
}

#[test]
fn each_clients_used_file_is_restored_byte_for_byte() {
    for client in CLIENTS {
        let home = Home::new();
        let name = client.name;
        let before = used(client);
        home.write(client, &before);
        home.stile(&format!("connect {name} --scope read:/ --write")).unwrap();
        let with = home.text(client);
        for line in before.lines().filter(|line| !line.contains("\"other\"")) {
            assert!(with.lines().any(|other| other == line), "{line} is missing in {with}");
        }
        let copy = home.file(client).with_file_name(format!(
            "{}.before-stile",
            home.file(client).file_name().unwrap().to_str().unwrap()
        ));
        assert_eq!(std::fs::read_to_string(&copy).unwrap(), before);
        // Other rights: a new entry, and for a token the end of the old one.
        home.stile(&format!("connect {name} --scope write:/notes/ --write")).unwrap();
        assert_ne!(home.text(client), with);
        assert_eq!(home.live(), 1);
        home.stile(&format!("disconnect {name}")).unwrap();
        assert_eq!(home.text(client), before, "{name}");
        assert_eq!(home.live(), 0);
        let nothing = home.stile(&format!("disconnect {name}")).unwrap();
        assert!(nothing.contains("nothing was changed"), "{nothing}");
    }
}

#[test]
fn what_changed_since_stays_when_a_client_is_disconnected() {
    for client in CLIENTS {
        let home = Home::new();
        home.write(client, &used(client));
        home.stile(&format!("connect {} --write", client.name)).unwrap();
        let changed = home.text(client).replacen("mine", "mine, and newer", 1);
        home.write(client, &changed);
        home.stile(&format!("disconnect {}", client.name)).unwrap();
        assert_eq!(home.text(client), used(client).replacen("mine", "mine, and newer", 1));
    }
}

#[test]
fn a_file_that_cannot_be_edited_is_left_alone_and_no_token_is_made() {
    for (name, text) in [
        ("cursor", "{\n  \"mcpServers\": {\n"),
        ("cursor", "{\"mcpServers\": []}"),
        ("zed", "{\"context_servers\": {}, \"context_servers\": {}}"),
        ("codex", "mcp_servers = { other = { command = \"g\" } }\n"),
        ("goose", "extensions: { other: { enabled: true } }\n"),
    ] {
        let (home, client) = (Home::new(), named(name).unwrap());
        home.write(client, text);
        let error = home.stile(&format!("connect {name} --write")).unwrap_err();
        assert!(error.contains("was left as it is") && error.contains("--show-token"), "{error}");
        assert_eq!(home.text(client), text);
        assert!(home.tokens().is_empty());
        let shown = home.stile(&format!("connect {name} --show-token"));
        if client.format != stile_domain::client_file::FileFormat::Json {
            assert!(shown.unwrap().contains("Bearer eyJ"));
        }
    }
}

#[test]
fn an_entry_says_what_was_asked_for() {
    let home = Home::new();
    let error = home.stile("connect claude-desktop --transport http --write").unwrap_err();
    assert!(error.contains("cannot hold a server over HTTP"), "{error}");
    let notes = home.0.path().join("notes");
    std::fs::create_dir(&notes).unwrap();
    let notes = notes.to_str().unwrap();
    let more = format!("--scope read:/a --deny /a/b --root {notes} --write");
    home.stile(&format!("connect claude-desktop {more}")).unwrap();
    let args = home.entry(named("claude-desktop").unwrap())["args"].clone();
    let wanted =
        ["stdio", notes, "--scope", "read:/a", "--deny", "/a/b", "--client", "claude-desktop"];
    assert_eq!(args, json!(wanted));
    home.stile("connect codex --public-url https://notes.example.org --write").unwrap();
    let url = home.entry(named("codex").unwrap())["url"].clone();
    assert_eq!(url, "https://notes.example.org/mcp");
    home.stile("connect cursor --tool-names dotted --listen 127.0.0.1:8080 --write").unwrap();
    assert_eq!(
        home.entry(named("cursor").unwrap())["url"],
        "http://127.0.0.1:8080/mcp?names=dotted"
    );
}

#[test]
fn a_newer_open_code_file_gets_its_entry_in_the_newer_table() {
    let (home, client) = (Home::new(), named("opencode").unwrap());
    home.write(client, "{\n  \"mcp\": {\n    \"servers\": {}\n  }\n}\n");
    home.stile("connect opencode --write").unwrap();
    let value: Value = serde_json::from_str(&home.text(client)).unwrap();
    assert_eq!(value["mcp"]["servers"]["stile"]["type"], "remote");
    home.stile("disconnect opencode").unwrap();
    assert_eq!(home.text(client), "{\n  \"mcp\": {\n    \"servers\": {}\n  }\n}\n");
}

#[test]
fn all_clients_are_listed_with_where_they_lead() {
    let home = Home::new();
    home.write(named("zed").unwrap(), "{ broken");
    home.write(named("gemini-cli").unwrap(), "{}");
    home.stile("connect cursor --write").unwrap();
    let folder = home.0.path().to_str().unwrap();
    let listed = home.stile("connect").unwrap().replace(folder, "~");
    #[cfg(target_os = "linux")]
    insta::assert_snapshot!(listed);
    let json: Vec<Value> = serde_json::from_str(&home.stile("connect --json").unwrap()).unwrap();
    assert_eq!(json.len(), CLIENTS.len());
    assert!(!listed.contains("eyJ"));
}
