//! A client that knows nothing but the address of `/mcp`, and the owner's browser, both without any
//! code of the server.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_domain::percent::{decode_form, encode_component};
use stile_testkit::client::{Http, Reply};
use stile_testkit::process::{Rig, Server};

use crate::doors::binary;

/// A running server with a space of two notes.
pub struct Place {
    pub rig: Rig,
    pub server: Server,
    _folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// Starts the server with more arguments.
    pub fn with(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), binary());
        for (name, text) in [("work/plan.md", "the plan\n"), ("journal/day.md", "a day\n")] {
            let path = rig.root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let server = rig.serve(more);
        Self { rig, server, _folder: folder }
    }

    /// Stops the server, does something to its state, and starts it again at another port.
    pub fn restarted_after(self, change: impl FnOnce()) -> Self {
        let Self { rig, server, _folder } = self;
        server.stop();
        change();
        Self { server: rig.serve(&[]), rig, _folder }
    }

    /// Returns the address that a person gives a client.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.server.address)
    }

    /// Returns the address of a path of the server.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url().replace("/mcp", ""))
    }

    /// Opens a page of the server, and returns its words.
    pub fn text_at(&self, browser: &mut Browser, path: &str) -> String {
        text_of(&browser.get(&self.at(path)))
    }

    /// Sends the form of a page that goes to `action`, with these fields changed. An empty value
    /// leaves a field out.
    pub fn send(
        &self,
        browser: &mut Browser,
        page: &Reply,
        action: &str,
        changes: &[(&str, &str)],
    ) -> Reply {
        let mut fields = form_to(page, action).fields;
        for (name, value) in changes {
            fields.retain(|(known, _)| known != name);
            if !value.is_empty() {
                fields.push(((*name).to_owned(), (*value).to_owned()));
            }
        }
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        browser.post(&self.at(action), &fields)
    }

    /// Imports rows of JSON as a stream of a connection, with the key `id`.
    pub fn import(&self, connection: &str, stream: &str, rows: &str) {
        let file = self.rig.state.with_file_name(format!("{connection}-{stream}.jsonl"));
        std::fs::write(&file, rows).unwrap();
        let file = file.to_str().unwrap();
        let names = ["--connection", connection, "--stream", stream, "--key", "id"];
        self.stile(&[&["import", file][..], &names].concat());
    }

    /// Runs a command on the state of the server, and returns its standard output.
    pub fn stile(&self, arguments: &[&str]) -> String {
        let mut command = self.rig.command(arguments);
        let output = command.arg("--state").arg(&self.rig.state).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the link that the terminal prints, for a server at the address of `/mcp`.
    pub fn link(&self) -> String {
        let printed = self.stile(&["sign-in", "--address", &self.url().replace("/mcp", "")]);
        printed.lines().next().unwrap().to_owned()
    }

    /// Returns a browser in which the owner has signed in with a link of the terminal.
    pub fn signed_in_browser(&self) -> Browser {
        let mut browser = Browser::default();
        let page = browser.get(&self.link());
        let reply = browser.submit(&self.url(), &page, &[]);
        assert_eq!((reply.status, browser.cookies.len()), (303, 1), "{reply:?}");
        browser
    }
}

/// Sends a request to an `http` address on a connection of its own.
pub fn fetch(method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    fetch_with(method, url, headers, body.as_bytes())
}

/// [`fetch`] with a body that need not be text.
fn fetch_with(method: &str, url: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, target) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let target = if target.is_empty() { "/" } else { target };
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
    // The name stays in the head.
    let address = host.replace("localhost", "127.0.0.1").parse().unwrap();
    let mut client = Http::new(address, "");
    client.send(&[head.as_bytes(), body].concat()).unwrap()
}

/// Encodes a form or a query.
pub fn form(fields: &[(&str, &str)]) -> String {
    let pairs = fields
        .iter()
        .map(|(name, value)| format!("{}={}", encode_component(name), encode_component(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Returns a parameter of the query of an address.
pub fn parameter(url: &str, name: &str) -> Option<String> {
    let (_, query) = url.split_once('?')?;
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(found, _)| *found == name).and_then(|(_, value)| decode_form(value))
}

/// A browser without scripts, which keeps cookies and sends forms.
#[derive(Default)]
pub struct Browser {
    pub cookies: Vec<(String, String)>,
}

/// A form of a page: where it goes, and its fields with the values that the page gives them.
#[derive(Debug)]
pub struct PageForm {
    pub action: String,
    pub fields: Vec<(String, String)>,
    /// The names of all fields, those without a value too.
    pub names: BTreeSet<String>,
}

impl Browser {
    fn cookie(&self) -> String {
        let pairs: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join("; ")
    }

    fn keep_cookies(&mut self, reply: &Reply) {
        for (_, cookie) in reply.headers.iter().filter(|(name, _)| name == "set-cookie") {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            self.cookies.retain(|(known, _)| known != name);
            if !value.is_empty() {
                self.cookies.push((name.to_owned(), value.to_owned()));
            }
        }
    }

    /// Opens an address, without following a redirect.
    pub fn get(&mut self, url: &str) -> Reply {
        let reply = fetch("GET", url, &[("Cookie", &self.cookie())], "");
        self.keep_cookies(&reply);
        reply
    }

    /// Opens an address, and follows redirects that stay on the server.
    pub fn open(&mut self, url: &str) -> Reply {
        let mut reply = self.get(url);
        while let Some(location) = location(&reply).filter(|location| location.starts_with('/')) {
            let origin_end = url.find("//").unwrap() + 2;
            let host_end = url[origin_end..].find('/').map_or(url.len(), |at| origin_end + at);
            reply = self.get(&format!("{}{location}", &url[..host_end]));
        }
        reply
    }

    /// Sends fields to an address as the page of `origin_url` would.
    pub fn post(&mut self, url: &str, fields: &[(&str, &str)]) -> Reply {
        let origin = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        let headers = [
            ("Cookie", self.cookie()),
            ("Content-Type", "application/x-www-form-urlencoded".to_owned()),
            ("Origin", origin),
            ("Sec-Fetch-Site", "same-origin".to_owned()),
        ];
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let reply = fetch("POST", url, &headers, &form(fields));
        self.keep_cookies(&reply);
        reply
    }

    /// Sends a form with fields and one file, as a browser does.
    pub fn send_file(&mut self, url: &str, fields: &[(&str, &str)], file: (&str, &str)) -> Reply {
        self.send_files(url, fields, &[file])
    }

    /// Sends a form with several files.
    pub fn send_files<C: AsRef<[u8]>>(
        &mut self,
        url: &str,
        fields: &[(&str, &str)],
        files: &[(&str, C)],
    ) -> Reply {
        const BOUNDARY: &str = "----of-a-test-7f3a";
        let mut body = Vec::new();
        for (field, value) in fields {
            body.extend_from_slice(format!(
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{field}\"\r\n\r\n{value}\r\n"
            ).as_bytes());
        }
        for (name, content) in files {
            body.extend_from_slice(
                format!(
                    "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; \
                 filename=\"{name}\"\r\nContent-Type: application/octet-stream\r\n\r\n"
                )
                .as_bytes(),
            );
            body.extend_from_slice(content.as_ref());
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        let headers = [
            ("Cookie", self.cookie()),
            ("Content-Type", kind),
            ("Sec-Fetch-Site", "same-origin".to_owned()),
        ];
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        fetch_with("POST", url, &headers, &body)
    }

    /// Sends the form of a page, with these fields changed; an empty value leaves a field out.
    pub fn submit(&mut self, base: &str, page: &Reply, changes: &[(&str, &str)]) -> Reply {
        // A page may have several forms: the one that knows all these names is meant.
        let forms = forms_of(page);
        let knows = |form: &&PageForm| changes.iter().all(|(name, _)| form.names.contains(*name));
        let page = forms.iter().find(knows).unwrap_or(&forms[0]);
        let mut fields = page.fields.clone();
        for (name, value) in changes {
            fields.retain(|(known, _)| known != name);
            if !value.is_empty() {
                fields.push(((*name).to_owned(), (*value).to_owned()));
            }
        }
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let origin = base.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        self.post(&format!("{origin}{}", page.action), &fields)
    }
}

pub fn location(reply: &Reply) -> Option<&str> {
    reply.header("location")
}

pub fn text_of(reply: &Reply) -> String {
    String::from_utf8(reply.body.clone()).unwrap()
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    let (value, _) = rest.split_once('"')?;
    Some(
        value
            .replace("&quot;", "\"")
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&"),
    )
}

/// Reads the form of a page that goes to an address, as a browser would send it.
pub fn form_to(page: &Reply, action: &str) -> PageForm {
    let found = forms_of(page).into_iter().find(|form| form.action == action);
    found.unwrap_or_else(|| panic!("no form to {action} in {}", text_of(page)))
}

/// Reads the first form of a page, as a browser would send it.
pub fn form_of(page: &Reply) -> PageForm {
    forms_of(page).remove(0)
}

/// Reads the forms of a page, at least one.
pub fn forms_of(page: &Reply) -> Vec<PageForm> {
    let html = text_of(page);
    let forms: Vec<PageForm> = html
        .split("<form")
        .skip(1)
        .map(|rest| read_form(rest.split_once("</form>").unwrap().0))
        .collect();
    assert!(!forms.is_empty(), "no form in {html}");
    forms
}

fn read_form(form: &str) -> PageForm {
    let action = attribute(form, "action").unwrap();
    let (mut fields, mut names) = (Vec::new(), BTreeSet::new());
    // Whether the options of the last list have begun. The first counts, whatever its value is.
    let mut has_option = false;
    for tag in form.split('<').skip(1) {
        let name = attribute(tag, "name");
        names.extend(name.clone());
        if tag.starts_with("input") {
            let is_sent = !tag.contains("type=\"checkbox\"") || tag.contains(" checked");
            if let (Some(name), true) = (name, is_sent) {
                fields.push((name, attribute(tag, "value").unwrap_or_default()));
            }
        } else if tag.starts_with("textarea") {
            let text = tag.split_once('>').map(|(_, text)| text.to_owned());
            fields.extend(name.zip(text));
        } else if tag.starts_with("select") {
            fields.push((name.unwrap(), String::new()));
            has_option = false;
        } else if tag.starts_with("option") {
            let (_, value) = fields.last_mut().unwrap();
            if !has_option || tag.contains(" selected") {
                *value = attribute(tag, "value").unwrap();
            }
            has_option = true;
        }
    }
    fields.retain(|(_, value)| !value.is_empty());
    PageForm { action, fields, names }
}

/// A client of the authorization server, as an application has it.
pub struct ScriptedClient {
    /// The address that a person gave.
    pub url: String,
    /// The metadata of the authorization server that it found.
    pub server: Value,
    pub id: String,
    pub redirect: String,
    pub verifier: String,
}

pub const REDIRECT: &str = "https://client.example/callback";
const VERIFIER: &str = "a-verifier-of-a-test-that-is-long-enough-for-the-rule";

impl ScriptedClient {
    /// Finds the server from its answer to a call, and registers.
    pub fn connect(url: &str) -> Self {
        Self::connect_as(url, &json!({ "client_name": "Editor", "redirect_uris": [REDIRECT] }))
    }

    /// Registers with this metadata. Its first redirect address gets the answers.
    pub fn connect_as(url: &str, metadata: &Value) -> Self {
        let server = discover(url);
        let endpoint = server["registration_endpoint"].as_str().unwrap();
        let headers = [("Content-Type", "application/json")];
        let registered = fetch("POST", endpoint, &headers, &metadata.to_string());
        assert_eq!(registered.status, 201, "{registered:?}");
        let id = registered.json()["client_id"].as_str().unwrap().to_owned();
        let redirect = metadata["redirect_uris"][0].as_str().unwrap().to_owned();
        Self { url: url.to_owned(), server, id, redirect, verifier: VERIFIER.to_owned() }
    }

    /// Returns the address that it opens in the owner's browser, with more or other parameters.
    pub fn authorization_url(&self, changes: &[(&str, &str)]) -> String {
        let challenge = ContentHash::digest(self.verifier.as_bytes());
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(challenge.as_bytes());
        let mut fields = vec![
            ("response_type", "code"),
            ("client_id", &self.id),
            ("redirect_uri", &self.redirect),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("resource", &self.url),
            ("state", "the state"),
        ];
        for (name, value) in changes {
            fields.retain(|(known, _)| known != name);
            if !value.is_empty() {
                fields.push((name, value));
            }
        }
        format!("{}?{}", self.server["authorization_endpoint"].as_str().unwrap(), form(&fields))
    }

    /// Posts a form to an endpoint of the metadata.
    pub fn post(&self, endpoint: &str, fields: &[(&str, &str)]) -> Reply {
        let url = self.server[endpoint].as_str().unwrap();
        let headers = [("Content-Type", "application/x-www-form-urlencoded")];
        fetch("POST", url, &headers, &form(fields))
    }

    /// Exchanges a code.
    pub fn redeem(&self, code: &str) -> Reply {
        self.post(
            "token_endpoint",
            &[
                ("grant_type", "authorization_code"),
                ("client_id", &self.id),
                ("code", code),
                ("redirect_uri", &self.redirect),
                ("code_verifier", &self.verifier),
                ("resource", &self.url),
            ],
        )
    }

    /// Renews the access token.
    pub fn refresh(&self, token: &str) -> Reply {
        let fields =
            [("grant_type", "refresh_token"), ("client_id", &self.id), ("refresh_token", token)];
        self.post("token_endpoint", &fields)
    }

    /// Gives a token back.
    pub fn revoke(&self, token: &str) -> Reply {
        self.post("revocation_endpoint", &[("client_id", &self.id), ("token", token)])
    }

    /// Asks for a scope, and returns the code after the owner has allowed what the page proposes,
    /// with these fields of the form changed.
    pub fn code(&self, browser: &mut Browser, scope: &str, changes: &[(&str, &str)]) -> String {
        let page = browser.open(&self.authorization_url(&[("scope", scope)]));
        assert_eq!(page.status, 200, "{}", text_of(&page));
        let all: Vec<(&str, &str)> =
            changes.iter().copied().chain([("decision", "approve")]).collect();
        let answer = browser.submit(&self.url, &page, &all);
        let answer = location(&answer).unwrap_or_else(|| panic!("{}", text_of(&answer))).to_owned();
        assert!(answer.starts_with(&self.redirect), "{answer}");
        assert_eq!(parameter(&answer, "state").as_deref(), Some("the state"));
        assert_eq!(parameter(&answer, "iss"), self.server["issuer"].as_str().map(str::to_owned));
        parameter(&answer, "code").unwrap_or_else(|| panic!("{answer}"))
    }

    /// Asks for a scope, and returns the answer of the token endpoint.
    pub fn tokens(&self, browser: &mut Browser, scope: &str) -> Value {
        let code = self.code(browser, scope, &[]);
        let reply = self.redeem(&code);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }
}

/// Follows the standards from the answer to a call without a token to the metadata of the
/// authorization server.
pub fn discover(url: &str) -> Value {
    let headers = [("Content-Type", "application/json"), ("Accept", "application/json")];
    let refused = fetch("POST", url, &headers, "{}");
    assert_eq!(refused.status, 401, "{refused:?}");
    let challenge = refused.header("www-authenticate").unwrap();
    let (_, rest) = challenge.split_once("resource_metadata=\"").unwrap();
    let resource = fetch("GET", rest.split_once('"').unwrap().0, &[], "").json();
    assert_eq!(resource["resource"], url);
    let issuer = resource["authorization_servers"][0].as_str().unwrap();
    let server = fetch("GET", &format!("{issuer}/.well-known/oauth-authorization-server"), &[], "");
    let server = server.json();
    assert_eq!(server["issuer"], issuer);
    server
}

/// Reads a file as a client with this token, and returns the HTTP status and the answer.
pub fn read_file(place: &Place, token: &str, path: &str) -> (u16, Value) {
    let mut client = place.server.client(token);
    let arguments = json!({ "name": "text.read", "arguments": { "path": path } });
    let reply = client.post("tools/call", arguments).unwrap();
    (reply.status, reply.json())
}
