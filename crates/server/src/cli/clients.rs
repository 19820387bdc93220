//! The MCP clients that `stile connect` knows: where each keeps its servers, and in which form.
//!
//! The table is data, and each row names its source. No row was tried with the client itself:
//! docs/connect.md says so.

use std::path::PathBuf;

use stile_domain::client_file::FileFormat;

use crate::config::Environment;

/// How a client reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// The client sends requests to a running `stile serve`, with a token.
    Http,
    /// The client starts `stile stdio` itself, and needs no token.
    Stdio,
}

/// The value of one key of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Text(&'static str),
    Yes,
    Number(u32),
    EmptyTable,
    /// The address of the server.
    Url,
    /// A table with the header `Authorization`.
    Headers,
    /// The path of this program.
    Program,
    /// The arguments of this program.
    Arguments,
    /// The path of this program and its arguments in one list.
    CommandLine,
}

/// The keys of an entry, in their order.
type Shape = &'static [(&'static str, Part)];

/// A system on which clients keep their files at places of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Platform {
    Linux,
    MacOs,
    Windows,
}

impl Platform {
    pub(crate) const fn current() -> Self {
        if cfg!(target_os = "macos") {
            Self::MacOs
        } else if cfg!(windows) {
            Self::Windows
        } else {
            Self::Linux
        }
    }
}

/// A client and its configuration file.
pub(crate) struct ClientRow {
    /// The name on the command line, and in the token's claim `client`.
    pub(crate) name: &'static str,
    /// The name that people use.
    pub(crate) title: &'static str,
    /// Where the file is: `~` is the home folder, `{NAME:default}` a variable. The first file that
    /// exists is used, or else the first.
    linux: &'static [&'static str],
    macos: &'static [&'static str],
    windows: &'static [&'static str],
    pub(crate) format: FileFormat,
    /// The keys of the table that has the servers.
    pub(crate) table: &'static [&'static str],
    /// Another table that a newer version of the client reads, used if the file has it.
    pub(crate) newer_table: Option<&'static [&'static str]>,
    /// The entry of a server over HTTP; `None` if the file cannot hold one.
    pub(crate) http: Option<Shape>,
    /// The entry of a server that the client starts.
    pub(crate) stdio: Shape,
    /// The better way to reach the server.
    pub(crate) best: Transport,
    /// What to do for a change to take effect.
    pub(crate) after: &'static str,
    /// Where these facts come from.
    pub(crate) source: &'static str,
}

const COMMAND: Shape = &[("command", Part::Program), ("args", Part::Arguments)];
const TYPED_COMMAND: Shape =
    &[("type", Part::Text("stdio")), ("command", Part::Program), ("args", Part::Arguments)];
const TYPED_URL: Shape =
    &[("type", Part::Text("http")), ("url", Part::Url), ("headers", Part::Headers)];
const URL: Shape = &[("url", Part::Url), ("headers", Part::Headers)];

/// All clients, in the order of help.
pub(crate) const CLIENTS: &[ClientRow] = &[
    ClientRow {
        name: "claude-code",
        title: "Claude Code",
        linux: &["~/.claude.json"],
        macos: &["~/.claude.json"],
        windows: &["~/.claude.json"],
        format: FileFormat::Json,
        table: &["mcpServers"],
        newer_table: None,
        http: Some(TYPED_URL),
        stdio: TYPED_COMMAND,
        best: Transport::Http,
        after: "Start a new session of Claude Code; `/mcp` there shows the server.",
        source: "https://code.claude.com/docs/en/mcp (user scope)",
    },
    ClientRow {
        name: "claude-desktop",
        title: "Claude Desktop",
        linux: &["{XDG_CONFIG_HOME:~/.config}/Claude/claude_desktop_config.json"],
        macos: &["~/Library/Application Support/Claude/claude_desktop_config.json"],
        windows: &["{APPDATA:~/AppData/Roaming}/Claude/claude_desktop_config.json"],
        format: FileFormat::Json,
        table: &["mcpServers"],
        newer_table: None,
        // The file takes commands only. Remote servers are connectors with OAuth.
        http: None,
        stdio: COMMAND,
        best: Transport::Stdio,
        after: "Quit Claude Desktop and start it again; closing its window is not enough.",
        source: "https://modelcontextprotocol.io/quickstart/user; the Linux folder as in \
                 @sigyl-dev/cli 1.4.3, lib/claude-config",
    },
    ClientRow {
        name: "cursor",
        title: "Cursor",
        linux: &["~/.cursor/mcp.json"],
        macos: &["~/.cursor/mcp.json"],
        windows: &["~/.cursor/mcp.json"],
        format: FileFormat::Json,
        table: &["mcpServers"],
        newer_table: None,
        http: Some(URL),
        stdio: COMMAND,
        best: Transport::Http,
        after: "Restart Cursor, and switch the server on under Customize, MCPs.",
        source: "https://cursor.com/docs/mcp",
    },
    ClientRow {
        name: "vscode",
        title: "VS Code",
        linux: &["{XDG_CONFIG_HOME:~/.config}/Code/User/mcp.json"],
        macos: &["~/Library/Application Support/Code/User/mcp.json"],
        windows: &["{APPDATA:~/AppData/Roaming}/Code/User/mcp.json"],
        format: FileFormat::Json,
        table: &["servers"],
        newer_table: None,
        http: Some(TYPED_URL),
        stdio: TYPED_COMMAND,
        best: Transport::Http,
        after: "Run `MCP: List Servers` in VS Code and start the server there.",
        source: "https://code.visualstudio.com/docs/agents/reference/mcp-configuration; the \
                 folders as in NgoTaiCo/mcp-codebase-index, config/README.md",
    },
    ClientRow {
        name: "codex",
        title: "Codex",
        linux: &["{CODEX_HOME:~/.codex}/config.toml"],
        macos: &["{CODEX_HOME:~/.codex}/config.toml"],
        windows: &["{CODEX_HOME:~/.codex}/config.toml"],
        format: FileFormat::Toml,
        table: &["mcp_servers"],
        newer_table: None,
        http: Some(&[("url", Part::Url), ("http_headers", Part::Headers)]),
        stdio: COMMAND,
        best: Transport::Http,
        after: "Start a new session of Codex; `/mcp` there shows the server.",
        source: "https://developers.openai.com/codex/mcp; `http_headers` as in openai/codex, \
                 codex-rs/config/src/mcp_types.rs of rust-v0.159.3",
    },
    ClientRow {
        name: "gemini-cli",
        title: "Gemini CLI",
        linux: &["~/.gemini/settings.json"],
        macos: &["~/.gemini/settings.json"],
        windows: &["~/.gemini/settings.json"],
        format: FileFormat::Json,
        table: &["mcpServers"],
        newer_table: None,
        // `url` means the older transport with server-sent events.
        http: Some(&[("httpUrl", Part::Url), ("headers", Part::Headers)]),
        stdio: COMMAND,
        best: Transport::Http,
        after: "Start Gemini CLI again, in a folder that it trusts; `/mcp` there shows the server.",
        source: "https://geminicli.com/docs/tools/mcp-server/",
    },
    ClientRow {
        name: "windsurf",
        title: "Windsurf",
        linux: &["~/.codeium/windsurf/mcp_config.json"],
        macos: &["~/.codeium/windsurf/mcp_config.json"],
        windows: &["~/.codeium/windsurf/mcp_config.json"],
        format: FileFormat::Json,
        table: &["mcpServers"],
        newer_table: None,
        http: Some(&[("serverUrl", Part::Url), ("headers", Part::Headers)]),
        stdio: COMMAND,
        best: Transport::Http,
        after: "Refresh the MCP servers in Windsurf.",
        source: "https://docs.windsurf.com/windsurf/cascade/mcp; `serverUrl` as in \
                 github/github-mcp-server, docs/installation-guides/install-windsurf.md",
    },
    ClientRow {
        name: "zed",
        title: "Zed",
        linux: &["{XDG_CONFIG_HOME:~/.config}/zed/settings.json"],
        macos: &["~/.config/zed/settings.json"],
        windows: &["{APPDATA:~/AppData/Roaming}/Zed/settings.json"],
        format: FileFormat::Json,
        table: &["context_servers"],
        newer_table: None,
        http: Some(URL),
        stdio: &[("command", Part::Program), ("args", Part::Arguments), ("env", Part::EmptyTable)],
        best: Transport::Http,
        after: "Zed reads the change at once; the agent panel shows the server.",
        source: "https://zed.dev/docs/ai/mcp; the folders as in https://zed.dev/docs",
    },
    ClientRow {
        name: "opencode",
        title: "OpenCode",
        linux: &[
            "{XDG_CONFIG_HOME:~/.config}/opencode/opencode.json",
            "{XDG_CONFIG_HOME:~/.config}/opencode/opencode.jsonc",
        ],
        macos: &["~/.config/opencode/opencode.json", "~/.config/opencode/opencode.jsonc"],
        windows: &["~/.config/opencode/opencode.json", "~/.config/opencode/opencode.jsonc"],
        format: FileFormat::Json,
        // Both versions read this form. Only version 2 reads the newer one.
        table: &["mcp"],
        newer_table: Some(&["mcp", "servers"]),
        http: Some(&[
            ("type", Part::Text("remote")),
            ("url", Part::Url),
            ("headers", Part::Headers),
            ("enabled", Part::Yes),
        ]),
        stdio: &[
            ("type", Part::Text("local")),
            ("command", Part::CommandLine),
            ("enabled", Part::Yes),
        ],
        best: Transport::Http,
        after: "Start OpenCode again.",
        source: "https://opencode.ai/v1/docs/mcp-servers/ and \
                 https://opencode.ai/docs/migrate-v1/",
    },
    ClientRow {
        name: "goose",
        title: "Goose",
        linux: &["{XDG_CONFIG_HOME:~/.config}/goose/config.yaml"],
        macos: &["~/.config/goose/config.yaml"],
        windows: &["{APPDATA:~/AppData/Roaming}/Block/goose/config/config.yaml"],
        format: FileFormat::Yaml,
        table: &["extensions"],
        newer_table: None,
        http: Some(&[
            ("enabled", Part::Yes),
            ("type", Part::Text("streamable_http")),
            ("name", Part::Text("stile")),
            ("description", Part::Text("Your notes and files")),
            ("uri", Part::Url),
            ("headers", Part::Headers),
            ("timeout", Part::Number(300)),
        ]),
        stdio: &[
            ("enabled", Part::Yes),
            ("type", Part::Text("stdio")),
            ("name", Part::Text("stile")),
            ("description", Part::Text("Your notes and files")),
            ("cmd", Part::Program),
            ("args", Part::Arguments),
            ("timeout", Part::Number(300)),
        ],
        best: Transport::Http,
        after: "Start a new session of Goose.",
        source: "https://block.github.io/goose/docs/guides/config-files; `uri` as in \
                 block/goose, documentation/docs/guides/config-files.md",
    },
    ClientRow {
        name: "lm-studio",
        title: "LM Studio",
        linux: &["~/.lmstudio/mcp.json", "~/.cache/lm-studio/mcp.json"],
        macos: &["~/.lmstudio/mcp.json", "~/.cache/lm-studio/mcp.json"],
        windows: &["~/.lmstudio/mcp.json", "~/.cache/lm-studio/mcp.json"],
        format: FileFormat::Json,
        table: &["mcpServers"],
        newer_table: None,
        http: Some(URL),
        stdio: COMMAND,
        best: Transport::Http,
        after: "LM Studio reads the change at once; switch the server on under Program.",
        source: "https://lmstudio.ai/docs/app/mcp; the folder as in Stevertizz/fetch-url-mcp, \
                 README.md",
    },
];

/// Clients that run on the internet, with their names on the command line. They keep their servers
/// in an account, and no file of this machine has them.
pub(crate) const HOSTED: &[(&str, &str)] =
    &[("chatgpt", "ChatGPT"), ("claude-web", "Claude on the web")];

/// Other words that people type for a client, such as the command that starts it, with its name.
const OTHER_WORDS: &[(&str, &str)] = &[
    ("claude", "claude-code"),
    ("claude.ai", "claude-web"),
    ("code", "vscode"),
    ("copilot", "vscode"),
    ("gemini", "gemini-cli"),
];

/// Returns the name of a client as the tables have it, for one that a person typed: `Claude Code`
/// and `claude` are `claude-code`.
pub(crate) fn plain_name(typed: &str) -> String {
    let typed = typed.trim().to_lowercase().replace([' ', '_'], "-");
    let known = OTHER_WORDS.iter().find(|(word, _)| *word == typed);
    known.map_or(typed, |(_, name)| (*name).to_owned())
}

/// Returns what people type for the client with this name and title, beside the name.
pub(crate) fn other_words(name: &str, title: &'static str) -> Vec<String> {
    let words = OTHER_WORDS.iter().filter(|(_, known)| *known == name);
    let words = words.map(|(word, _)| (*word).to_owned());
    words.chain([title.to_owned(), plain_name(title)]).collect()
}

/// Returns the client with this name or title, in any case.
pub(crate) fn named(name: &str) -> Option<&'static ClientRow> {
    let name = plain_name(name);
    CLIENTS.iter().find(|client| client.name == name || plain_name(client.title) == name)
}

/// Returns the title of the hosted client with this name or title, in any case.
pub(crate) fn hosted(name: &str) -> Option<&'static str> {
    let name = plain_name(name);
    let mut found =
        HOSTED.iter().filter(|(known, title)| *known == name || plain_name(title) == name);
    found.next().map(|(_, title)| *title)
}

impl ClientRow {
    /// Returns the places of the file, the likeliest first; `None` if there is no home folder.
    pub(crate) fn files(
        &self,
        platform: Platform,
        environment: Environment<'_>,
    ) -> Option<Vec<PathBuf>> {
        let templates = match platform {
            Platform::Linux => self.linux,
            Platform::MacOs => self.macos,
            Platform::Windows => self.windows,
        };
        templates.iter().map(|template| home_place(template, environment)).collect()
    }

    /// Returns the keys of an entry over a transport; `None` if the file cannot hold one.
    pub(crate) fn shape(&self, transport: Transport) -> Option<Shape> {
        match transport {
            Transport::Http => self.http,
            Transport::Stdio => Some(self.stdio),
        }
    }
}

/// Returns the path of a template; `None` if there is no home folder.
pub(crate) fn home_place(template: &str, environment: Environment<'_>) -> Option<PathBuf> {
    let set = |name: &str| environment(name).filter(|value| !value.is_empty());
    let home = || set("HOME").or_else(|| set("USERPROFILE"));
    let in_home = |text: &str| match text.strip_prefix("~/") {
        Some(rest) => Some(PathBuf::from(home()?).join(rest)),
        None => Some(PathBuf::from(text)),
    };
    let Some((name, rest)) = template.strip_prefix('{').and_then(|rest| rest.split_once(':'))
    else {
        return in_home(template);
    };
    let (default, file) = rest.split_once("}/")?;
    Some(set(name).map_or_else(|| in_home(default), |set| Some(PathBuf::from(set)))?.join(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everywhere(variables: &[(&str, &str)]) -> String {
        let environment = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let mut all = String::new();
        for client in CLIENTS {
            for platform in [Platform::Linux, Platform::MacOs, Platform::Windows] {
                for file in client.files(platform, &environment).unwrap() {
                    all += &format!("{} {platform:?} {}\n", client.name, file.display());
                }
            }
        }
        all
    }

    #[test]
    fn each_client_has_a_place_on_each_system() {
        insta::assert_snapshot!(everywhere(&[("HOME", "/home/ann")]));
        let moved = everywhere(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c"), ("CODEX_HOME", "/x")]);
        assert!(moved.contains("vscode Linux /c/Code/User/mcp.json\n"), "{moved}");
        assert!(moved.contains("codex MacOs /x/config.toml\n"), "{moved}");
        let no_home = named("cursor").unwrap().files(Platform::Linux, &|_| None);
        assert_eq!(no_home, None);
    }

    #[test]
    fn a_client_is_known_by_its_command_and_its_title() {
        for (typed, name) in [
            ("claude", "claude-code"),
            ("Gemini", "gemini-cli"),
            ("vs-code", "vscode"),
            ("VS Code", "vscode"),
            ("lm studio", "lm-studio"),
        ] {
            assert_eq!(named(typed).map(|client| client.name), Some(name), "{typed}");
        }
        assert_eq!(hosted("claude.ai"), Some("Claude on the web"));
        let rows = CLIENTS.iter().map(|client| client.name);
        let names: Vec<&str> = rows.chain(HOSTED.iter().map(|(name, _)| *name)).collect();
        for (word, name) in OTHER_WORDS {
            assert!(names.contains(name) && !names.contains(word), "{word}");
        }
    }

    #[test]
    fn every_row_has_a_name_of_its_own_and_a_source() {
        for (index, client) in CLIENTS.iter().enumerate() {
            let is_plain = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(client.name.chars().all(is_plain), "{}", client.name);
            assert!(client.source.starts_with("https://"), "{}", client.name);
            assert!(client.after.ends_with('.') && !client.title.is_empty());
            assert!(client.shape(client.best).is_some());
            assert!(CLIENTS[..index].iter().all(|other| other.name != client.name));
        }
    }
}
