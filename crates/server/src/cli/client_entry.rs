//! Makes the entry of a client's configuration file, and reads one back.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use stile_domain::base64;
use stile_domain::client_file::{self, CannotEdit};
use stile_store::foreign_file::ForeignFile;
use stile_store::state::{StateError, TokenKind, TokenRecord, TokenStore};

use crate::cli::clients::{ClientRow, Part, Platform, Transport};
use crate::cli::failure::Failure;
use crate::config::Environment;

const BEARER: &str = "Bearer ";

/// What an entry says.
pub(crate) struct EntryValues {
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
}

impl EntryValues {
    /// Returns the entry as this client takes it; `None` if the client's file cannot hold one.
    pub(crate) fn entry(&self, client: &ClientRow, transport: Transport) -> Option<Value> {
        let pairs = client
            .shape(transport)?
            .iter()
            .map(|(key, part)| ((*key).to_owned(), self.value(part)));
        Some(Value::Object(pairs.collect::<Map<_, _>>()))
    }

    fn value(&self, part: &Part) -> Value {
        let command = || std::iter::once(&self.program).chain(&self.arguments);
        match part {
            Part::Text(text) => (*text).into(),
            Part::Yes => true.into(),
            Part::Number(number) => (*number).into(),
            Part::EmptyTable => json!({}),
            Part::Url => self.url.as_str().into(),
            Part::Headers => json!({ "Authorization": format!("{BEARER}{}", self.token) }),
            Part::Program => self.program.as_str().into(),
            Part::Arguments => json!(self.arguments),
            Part::CommandLine => command().map(|word| Value::from(word.as_str())).collect(),
        }
    }
}

/// What the entry of a client leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A server at an address, with the token of the entry if it has one.
    Http { url: String, token: Option<String> },
    /// A program with its arguments.
    Command(Vec<String>),
}

/// Reads what an entry leads to; `None` if it has neither an address nor a command.
pub(crate) fn target(entry: &Value) -> Option<Target> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
    let list = |key: &str| -> Vec<String> {
        let items = entry.get(key).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    if let Some(url) = ["url", "httpUrl", "serverUrl", "uri"].into_iter().find_map(text) {
        return Some(Target::Http { url, token: token(entry) });
    }
    let mut command = match ["command", "cmd"].into_iter().find_map(text) {
        Some(program) => vec![program],
        None => list("command"),
    };
    command.extend(list("args"));
    (!command.is_empty()).then_some(Target::Command(command))
}

/// What a command says that starts `stile stdio`.
pub(crate) struct StdioEntry<'w> {
    client: &'w str,
    root: Option<PathBuf>,
    /// The folder with the state; `None` for the one of the settings.
    pub(crate) state: Option<PathBuf>,
}

impl<'w> StdioEntry<'w> {
    /// Reads a command; `None` if it names no client. An entry of an earlier version names none.
    pub(crate) fn of(words: &'w [String]) -> Option<Self> {
        let client = value_after(words, "--client")?;
        let root = value_after(words, "stdio").map(PathBuf::from);
        let state = value_after(words, "--state").map(PathBuf::from);
        Some(Self { client, root, state })
    }

    /// Returns the records of the client: those of all folders, if the folder of the command is not
    /// known under its path.
    ///
    /// # Errors
    /// [`StateError`] if the state cannot be read.
    pub(crate) fn records(&self, tokens: &TokenStore) -> Result<Vec<TokenRecord>, StateError> {
        let space = tokens.spaces()?.into_iter().find(|space| space.path == self.root);
        let all = tokens.list()?.into_iter().filter(|record| {
            record.kind == TokenKind::Stdio
                && record.client.as_deref() == Some(self.client)
                && space.as_ref().is_none_or(|it| Some(&it.audience) == record.audience.as_ref())
        });
        Ok(all.collect())
    }

    /// Returns when the owner ended the client, in UTC seconds; `None` if the client may act, is
    /// not known, or belongs to another state than the one in the folder `state`.
    pub(super) fn ended(&self, tokens: &TokenStore, state: &Path) -> Option<i64> {
        if self.state.as_ref().is_some_and(|other| other != state) {
            return None;
        }
        let records = self.records(tokens).ok()?;
        let is_ended = records.iter().all(|record| record.revoked.is_some());
        records.iter().map(|record| record.revoked).max()?.filter(|_| is_ended)
    }

    /// The name of the client.
    pub(crate) fn client(&self) -> &'w str {
        self.client
    }
}

/// Returns the word after a flag.
fn value_after<'w>(words: &'w [String], flag: &str) -> Option<&'w str> {
    let (_, after) = words.split_at(words.iter().position(|word| word == flag)?);
    after.get(1).map(String::as_str)
}

/// Returns the bearer token of an entry.
pub(crate) fn token(entry: &Value) -> Option<String> {
    let headers = ["headers", "http_headers"].into_iter().find_map(|key| entry.get(key));
    headers?
        .as_object()?
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        .and_then(|(_, value)| value.as_str()?.strip_prefix(BEARER))
        .map(str::to_owned)
}

/// Returns the identifier of a token, without verifying the token.
pub(crate) fn identifier(token: &str) -> Option<String> {
    let claims = base64::from_url_safe(token.split('.').nth(1)?)?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    claims.get("jti")?.as_str().map(str::to_owned)
}

/// Returns an entry with its keys in the order in which [`EntryValues::entry`] makes them. The
/// parser of TOML sorts the keys.
fn in_order(client: &ClientRow, entry: Value) -> Value {
    let Value::Object(mut left) = entry else { return entry };
    let shapes = [Transport::Http, Transport::Stdio].map(|transport| client.shape(transport));
    let keys = shapes.into_iter().flatten().flatten().map(|(key, _)| *key);
    let mut ordered: Map<String, Value> =
        keys.filter_map(|key| left.shift_remove_entry(key)).collect();
    ordered.extend(left);
    Value::Object(ordered)
}

/// The configuration file of a client on this machine.
pub(crate) struct ClientFile {
    pub(crate) client: &'static ClientRow,
    pub(crate) file: ForeignFile,
    /// The keys that lead to the entry.
    path: Vec<&'static str>,
    name: String,
}

impl ClientFile {
    /// Reads the file of a client.
    pub(crate) fn read(
        client: &'static ClientRow,
        name: &str,
        environment: Environment<'_>,
    ) -> Result<Self, Failure> {
        let files = client
            .files(Platform::current(), environment)
            .ok_or_else(|| Failure::Usage("there is no home folder: HOME is not set".to_owned()))?;
        let path = files.iter().find(|file| is_there(file)).or(files.first());
        let path = path.cloned().unwrap_or_default();
        let file = ForeignFile::read(&path).map_err(|error| cannot("read", &path, &error))?;
        let newer = client.newer_table.filter(|table| {
            let found = client_file::find(client.format, file.text().unwrap_or_default(), table);
            found.is_ok_and(|table| table.is_some_and(|table| table.is_object()))
        });
        let path = newer.unwrap_or(client.table).to_vec();
        Ok(Self { client, file, path, name: name.to_owned() })
    }

    /// The path of the file for messages.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    fn keys(&self) -> Vec<&str> {
        self.path.iter().copied().chain([self.name.as_str()]).collect()
    }

    fn text(&self) -> &str {
        self.file.text().unwrap_or_default()
    }

    /// Returns the entry of the file.
    pub(crate) fn entry(&self) -> Result<Option<Value>, Failure> {
        let found = client_file::find(self.client.format, self.text(), &self.keys());
        Ok(self.judged(found)?.map(|entry| in_order(self.client, entry)))
    }

    /// Returns the text of the file with an entry.
    pub(crate) fn with(&self, entry: &Value) -> Result<String, Failure> {
        self.judged(client_file::set(self.client.format, self.text(), &self.keys(), entry))
    }

    /// Returns the text of the file without the entry.
    pub(crate) fn without(&self) -> Result<String, Failure> {
        self.judged(client_file::remove(self.client.format, self.text(), &self.keys()))
    }

    /// Renders an entry as the only one of a file.
    pub(crate) fn rendered(&self, entry: &Value) -> Result<String, Failure> {
        self.judged(client_file::set(self.client.format, "", &self.keys(), entry))
    }

    /// Returns the text that the file had before the entry was added: the copy beside the file, if
    /// adding the entry to it gives exactly the present file. `Some(None)` if there was no file.
    pub(crate) fn text_before(&self, entry: &Value) -> Option<Option<String>> {
        let (format, keys) = (self.client.format, self.keys());
        let gives_this = |before: &str| {
            client_file::find(format, before, &keys) == Ok(None)
                && client_file::set(format, before, &keys, entry).as_deref() == Ok(self.text())
        };
        let copy = ForeignFile::read(&self.file.copy_path()).ok();
        match copy.as_ref().and_then(ForeignFile::text) {
            Some(before) if gives_this(before) => Some(Some(before.to_owned())),
            Some(_) => None,
            None => gives_this("").then_some(None),
        }
    }

    /// Adds to an error that the file was left alone, and what can be done by hand.
    fn judged<T>(&self, edited: Result<T, CannotEdit>) -> Result<T, Failure> {
        edited.map_err(|error| {
            let ClientRow { name, title, .. } = self.client;
            Failure::Failed(format!(
                "{}: {error}; the file was left as it is. Mend it, or add the entry by hand: \
                 `stile connect {name} --show-token` prints the entry with a token for {title}",
                self.path().display()
            ))
        })
    }
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Returns the failure of an operation on a client's file.
pub(crate) fn cannot(doing: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("cannot {doing} {}: {error}", path.display()))
}

/// Returns a path without links at its end, as another program can use it from any folder.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::clients::CLIENTS;
    use super::*;

    #[test]
    fn every_shape_leads_back_to_what_it_was_made_of() {
        let values = EntryValues {
            url: "http://127.0.0.1:9999/mcp".to_owned(),
            token: "a.b.c".to_owned(),
            program: "/opt/stile".to_owned(),
            arguments: vec!["stdio".to_owned(), "/my notes".to_owned()],
        };
        let http = Target::Http { url: values.url.clone(), token: Some("a.b.c".to_owned()) };
        let command = ["/opt/stile", "stdio", "/my notes"].map(str::to_owned).to_vec();
        for client in CLIENTS {
            let entry = values.entry(client, Transport::Http);
            if let Some(entry) = entry {
                assert_eq!(target(&entry), Some(http.clone()), "{}", client.name);
            }
            let entry = values.entry(client, Transport::Stdio).unwrap();
            assert_eq!(target(&entry), Some(Target::Command(command.clone())), "{}", client.name);
            assert_eq!(token(&entry), None);
        }
        assert_eq!(target(&json!({ "type": "http" })), None);
        assert_eq!(identifier("not.a.token"), None);
    }
}
