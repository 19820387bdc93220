//! Sends the first requests of a client, and says at which of them the way ends.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use serde_json::{Value, json};

use super::{Finding, FindingGrade};
use crate::cli::commands::stdio::BY_DOCTOR;
use crate::cli::compose::process::block_on;
use crate::cli::compose::settings_files::http_client;
use crate::config::Config;
use crate::mcp::revisions::NEWEST_WITH_SESSIONS;
use crate::outbound::{OutboundClient, OutboundError, OutboundLimits, OutboundResponse};

const LIMITS: OutboundLimits =
    OutboundLimits { total: Duration::from_secs(10), body_bytes: 4 << 20 };
const PATIENCE: Duration = Duration::from_secs(10);
/// The step that fails if nothing answers.
pub(super) const REACH: &str = "reach";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

fn request(id: u32, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn initialize() -> Value {
    let client = json!({ "name": "stile-doctor", "version": env!("CARGO_PKG_VERSION") });
    let params = json!({ "protocolVersion": NEWEST_WITH_SESSIONS, "capabilities": {}, "clientInfo": client });
    request(1, "initialize", params)
}

fn initialized() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
}

/// Returns the call of a tool of the list that only reads, and the name of the tool.
fn read_call(tools: &[Value]) -> Option<(Value, String)> {
    let named = |wanted: &str| {
        let names = tools.iter().filter_map(|tool| tool.get("name")?.as_str());
        names.map(str::to_owned).find(|name| name.replace('.', "_") == wanted)
    };
    let (name, arguments) = named("file_list")
        .map(|name| (name, json!({ "path": "/" })))
        .or_else(|| Some((named("schema")?, json!({}))))?;
    let params = json!({ "name": name, "arguments": arguments });
    Some((request(3, "tools/call", params), name))
}

/// Judges the answer to `initialize`, and names the server in the finding.
fn judged_start(answer: &Value) -> Finding {
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str);
    match (text("/result/serverInfo/name"), text("/result/protocolVersion")) {
        (Some(server), Some(revision)) => {
            Finding::good("start", format!("{server} answers, revision {revision}"))
        }
        _ => Finding::bad(
            "start",
            "the answer to `initialize` is not one of the protocol",
            "something other than stile answers there; check the address",
        ),
    }
}

fn judged_list(answer: &Value) -> Result<(Finding, Vec<Value>), Finding> {
    let tools = answer.pointer("/result/tools").and_then(Value::as_array).cloned();
    match tools {
        None => Err(Finding::bad(
            "tools/list",
            "the server did not list its tools",
            "look at what the server prints, with --log debug",
        )),
        Some(tools) if tools.is_empty() => Err(Finding::bad(
            "tools/list",
            "the list is empty: the token allows nothing that the server has",
            "connect the client with a --scope or a --grant",
        )),
        Some(tools) => {
            let shown = format!("{} tools", tools.len());
            Ok((Finding::good("tools/list", shown), tools))
        }
    }
}

fn judged_read(answer: &Value, name: &str) -> Finding {
    let is_error = answer.pointer("/result/isError").and_then(Value::as_bool);
    match (answer.get("result"), is_error) {
        (Some(_), None | Some(false)) => Finding::good("read", format!("`{name}` answers")),
        (Some(_), Some(true)) => {
            let code = answer.pointer("/result/structuredContent/code").and_then(Value::as_str);
            let code = code.unwrap_or("an error");
            Finding::warning(
                "read",
                format!("`{name}` refuses with {code}"),
                "docs/errors.md says what the code means",
            )
        }
        (None, _) => Finding::bad(
            "read",
            format!("`{name}` gives no result"),
            "look at what the server prints, with --log debug",
        ),
    }
}

/// Replays the first requests of a client over HTTP.
pub(super) fn http(config: &Config, url: &str, token: Option<&str>) -> Vec<Finding> {
    let client = match http_client(config) {
        Ok(client) => client,
        Err(failure) => {
            let text = failure.report().0;
            let mend = "correct the setting";
            return vec![Finding::bad(REACH, text.trim().trim_start_matches("error: "), mend)];
        }
    };
    let mut findings = Vec::new();
    let replayed = block_on(async {
        // The last finding is the one that ends the way.
        if let Err(last) = (Http { client, url, token }).replay(&mut findings).await {
            findings.push(last);
        }
        Ok(())
    });
    if replayed.is_err() {
        findings.push(Finding::bad(REACH, "no request could be sent", "run this again"));
    }
    findings
}

struct Http<'a> {
    client: OutboundClient,
    url: &'a str,
    token: Option<&'a str>,
}

impl Http<'_> {
    async fn replay(&self, findings: &mut Vec<Finding>) -> Result<(), Finding> {
        let uri: Uri = self.url.parse().map_err(|_| {
            Finding::bad(REACH, "the address is not a URL", "connect the client again")
        })?;
        findings.push(self.discovery(&uri).await?);
        findings.push(self.refusal(&uri).await?);
        let Some(token) = self.token else { return Ok(()) };
        let bearer = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
            Finding::bad("authentication", "the token is not one", "connect the client again")
        })?;
        let mut headers = HeaderMap::from_iter([(AUTHORIZATION, bearer)]);
        let started = self.post(&uri, &headers, &initialize()).await?;
        findings.push(judged_status(&started)?);
        findings.push(judged_start(&message(&started)));
        if let Some(session) = started.headers.get(&SESSION) {
            headers.insert(SESSION, session.clone());
        }
        headers.insert(VERSION, HeaderValue::from_static(NEWEST_WITH_SESSIONS));
        self.post(&uri, &headers, &initialized()).await?;
        let listed = self.post(&uri, &headers, &request(2, "tools/list", json!({}))).await?;
        let (finding, tools) = judged_list(&message(&listed))?;
        findings.push(finding);
        let Some((call, name)) = read_call(&tools) else { return Ok(()) };
        let read = self.post(&uri, &headers, &call).await?;
        findings.push(match read.status {
            // The token has scopes for other paths than the root.
            StatusCode::FORBIDDEN => {
                Finding::good("read", "the root is outside of the token's scopes, as it should be")
            }
            _ => judged_read(&message(&read), &name),
        });
        Ok(())
    }

    async fn discovery(&self, uri: &Uri) -> Result<Finding, Finding> {
        let path = format!("/.well-known/oauth-protected-resource{}", uri.path());
        let address = with_path(uri, &path);
        let answer = self.client.exchange(address, HeaderMap::new(), LIMITS).await;
        let answer = answer.map_err(|error| self.unreached(error))?;
        match (answer.status, message(&answer).get("resource")) {
            (StatusCode::OK, Some(_)) => Ok(Finding::good("discovery", "the metadata is there")),
            (StatusCode::FORBIDDEN, _) => Err(Finding::bad(
                "discovery",
                "the server refuses the name in the address (403)",
                "name it with --allowed-hosts, or as --public-url",
            )),
            (status, _) => Err(Finding::bad(
                "discovery",
                format!("there is no metadata of a protected resource ({status})"),
                "something other than stile, or a proxy that hides `/.well-known`, answers there",
            )),
        }
    }

    /// Checks that a request without a token is refused, with the place of the metadata.
    async fn refusal(&self, uri: &Uri) -> Result<Finding, Finding> {
        let answer = self.post(uri, &HeaderMap::new(), &initialize()).await?;
        match answer.status {
            StatusCode::UNAUTHORIZED if answer.headers.contains_key(WWW_AUTHENTICATE) => {
                Ok(Finding::good("challenge", "a request without a token is refused (401)"))
            }
            status => Err(Finding::bad(
                "challenge",
                format!("a request without a token gets {status}, not 401"),
                "check the path of the address: it ends in `/mcp`",
            )),
        }
    }

    async fn post(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        body: &Value,
    ) -> Result<OutboundResponse, Finding> {
        let mut headers = headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(ACCEPT, both);
        let sent = self.client.post(uri.clone(), headers, body.to_string().into(), LIMITS).await;
        sent.map_err(|error| self.unreached(error))
    }

    fn unreached(&self, error: OutboundError) -> Finding {
        let url = self.url;
        match error {
            OutboundError::Timeout => Finding::bad(
                REACH,
                format!("{url} does not answer within 10 seconds"),
                "check the address, the firewall, and whether the server is stuck",
            ),
            _ if url.starts_with("https://") => Finding::bad(
                REACH,
                format!("nothing answers at {url}, or its certificate is not trusted"),
                "start `stile serve`; give a private authority with --ca-file",
            ),
            _ => Finding::bad(
                REACH,
                format!("nothing answers at {url}"),
                "start `stile serve`, or keep it running with `stile service install`",
            ),
        }
    }
}

fn judged_status(started: &OutboundResponse) -> Result<Finding, Finding> {
    const STEP: &str = "authentication";
    match started.status {
        StatusCode::OK => Ok(Finding::good(STEP, "the token is accepted")),
        StatusCode::UNAUTHORIZED => Err(Finding::bad(
            STEP,
            "the server refuses the token (401)",
            "it is revoked, expired, or of another folder or state; connect the client again",
        )),
        StatusCode::FORBIDDEN => Err(Finding::bad(
            STEP,
            "the token does not allow the request (403)",
            "connect the client with a --scope or a --grant",
        )),
        status => Err(Finding::bad(
            STEP,
            format!("the server answers with {status}"),
            "look at what the server prints, with --log debug",
        )),
    }
}

fn with_path(uri: &Uri, path: &str) -> Uri {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = path.parse().ok();
    Uri::from_parts(parts).unwrap_or_default()
}

/// Returns the JSON of a response, which may be the one event of a stream.
fn message(response: &OutboundResponse) -> Value {
    let text = String::from_utf8_lossy(&response.body);
    serde_json::from_str(&text).unwrap_or_else(|_| {
        let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let messages = data.filter_map(|data| serde_json::from_str::<Value>(data.trim()).ok());
        let mut answers = messages.filter(|message| message.get("id").is_some());
        answers.next_back().unwrap_or_default()
    })
}

/// Starts the command of an entry and replays the first requests over its standard streams.
pub(super) fn command(words: &[String]) -> Vec<Finding> {
    let Some((program, arguments)) = words.split_first() else { return Vec::new() };
    let spawned = Command::new(program)
        .args(arguments)
        .env(BY_DOCTOR, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            return vec![Finding::bad(
                "command",
                format!("{program} cannot be started: {error}"),
                "install stile where the entry says, or connect the client again",
            )];
        }
    };
    let mut findings = vec![Finding::good("command", format!("{program} starts"))];
    if let Err(last) = talk(&mut child, words, &mut findings) {
        findings.push(last);
    }
    // The end of its input ends the program. The program is ended in case it hangs.
    drop(child.stdin.take());
    let _ = child.kill();
    let _ = child.wait();
    findings
}

fn talk(child: &mut Child, words: &[String], findings: &mut Vec<Finding>) -> Result<(), Finding> {
    let lines = lines_of(child);
    let silent = || {
        let shown = words.join(" ");
        Finding::bad(
            "start",
            "the command does not answer",
            format!("run it in a terminal and see what it prints: {shown}"),
        )
    };
    let mut ask = |message: &Value, has_answer: Answered| -> Result<Value, Finding> {
        let input = child.stdin.as_mut().ok_or_else(silent)?;
        writeln!(input, "{message}").and_then(|()| input.flush()).map_err(|_| silent())?;
        match has_answer {
            Answered::No => Ok(Value::Null),
            Answered::Yes => answer_in(&lines).ok_or_else(silent),
        }
    };
    let start = judged_start(&ask(&initialize(), Answered::Yes)?);
    let is_bad = start.outcome == FindingGrade::Bad;
    findings.push(start);
    if is_bad {
        return Ok(());
    }
    ask(&initialized(), Answered::No)?;
    let (finding, tools) = judged_list(&ask(&request(2, "tools/list", json!({})), Answered::Yes)?)?;
    findings.push(finding);
    if let Some((call, name)) = read_call(&tools) {
        findings.push(judged_read(&ask(&call, Answered::Yes)?, &name));
    }
    Ok(())
}

/// Whether a message gets an answer.
enum Answered {
    Yes,
    No,
}

/// Reads the lines of a program on a thread of its own, since a read cannot be given up.
fn lines_of(child: &mut Child) -> Receiver<String> {
    let (sender, lines) = channel();
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
    }
    lines
}

/// Returns the next message that answers a request.
fn answer_in(lines: &Receiver<String>) -> Option<Value> {
    loop {
        let message: Value = serde_json::from_str(&lines.recv_timeout(PATIENCE).ok()?).ok()?;
        if message.get("id").is_some() && message.get("method").is_none() {
            return Some(message);
        }
    }
}
