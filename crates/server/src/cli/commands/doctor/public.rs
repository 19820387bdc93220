//! `stile doctor --public`: tries whether clients reach a server at its public address, as far as
//! one machine can tell.
//!
//! It sends the requests that a client sends before anybody has signed in, and no token. Each check
//! prints one line: what is so, or what is wrong and what to change.

use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;

use http::header::{ACCEPT, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use serde_json::Value;
use stile_domain::sign_in::public_address::is_public_address;

use crate::cli::compose::process;
use crate::cli::compose::settings_files::http_client_with;
use crate::cli::failure::Failure;
use crate::cli::invocation::Invocation;
use crate::http::metadata::{MCP_PATH, METADATA_PATH};
use crate::outbound::{OutboundClient, OutboundError, OutboundLimits, OutboundResponse};

/// The limits of one request.
const LIMITS: OutboundLimits =
    OutboundLimits { total: Duration::from_secs(10), body_bytes: 256 * 1024 };
/// The port of an address over TLS that names none.
const HTTPS_PORT: u16 = 443;
/// How long a connection is waited for.
const CONNECT: Duration = Duration::from_secs(5);
/// The paths of the metadata of an authorization server, the first of which is the standard's.
const ISSUER_PATHS: [&str; 2] =
    ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"];

/// What a check found.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    /// All is well.
    Good(String),
    /// Clients connect, but not from everywhere.
    Limited(String),
    /// Clients cannot connect, and what to change.
    Bad(String),
}

use Finding::{Bad, Good, Limited};

/// Checks the address that was given, and prints what is found.
pub(super) fn run(Invocation { matches, output, .. }: Invocation<'_>) -> Result<(), Failure> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let public = text("public").unwrap_or_default().trim_end_matches('/');
    let address = PublicAddress::parse(public)?;
    let client = http_client_with(text("ca_file").map(Path::new), CONNECT)?;
    let findings = process::block_on(async { Ok(examine(&client, &address).await) })?;
    let mut bad = 0;
    for finding in &findings {
        let (word, text) = match finding {
            Good(text) => ("ok", text),
            Limited(text) => ("note", text),
            Bad(text) => ("bad", text),
        };
        bad += usize::from(word == "bad");
        writeln!(output, "{word:<5} {text}")?;
    }
    if bad == 0 { Ok(()) } else { Err(Failure::Failed(format!("{bad} of the checks failed"))) }
}

/// The origin of a server.
struct PublicAddress {
    origin: String,
    host: String,
    port: u16,
}

impl PublicAddress {
    fn parse(text: &str) -> Result<Self, Failure> {
        let usage = || {
            Failure::Usage(
                "--public must be an origin, as in https://notes.example.org: what clients are \
                 given, without /mcp"
                    .to_owned(),
            )
        };
        let uri: Uri = text.parse().map_err(|_| usage())?;
        let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.host()) else {
            return Err(usage());
        };
        let port = match scheme {
            "https" => uri.port_u16().unwrap_or(HTTPS_PORT),
            "http" => uri.port_u16().unwrap_or(80),
            _ => return Err(usage()),
        };
        if uri.path() != "/" || uri.query().is_some() || text.contains('@') {
            return Err(usage());
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { origin: text.to_owned(), host, port })
    }

    /// The host as an address has it: an IPv6 address in brackets.
    fn shown_host(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }

    fn is_https(&self) -> bool {
        self.origin.starts_with("https:")
    }
}

/// Goes through the checks in the order in which a client depends on them, until one shows that the
/// next cannot succeed.
async fn examine(client: &OutboundClient, address: &PublicAddress) -> Vec<Finding> {
    let name = (address.host.clone(), address.port);
    let resolved = tokio::task::spawn_blocking(move || name.to_socket_addrs()).await;
    let resolved: io::Result<Vec<IpAddr>> = match resolved {
        Ok(Ok(found)) => Ok(found.map(|found| found.ip()).collect()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let mut findings = vec![judge_addresses(&address.host, resolved.ok().as_deref())];
    if matches!(findings.last(), Some(Bad(_))) {
        return findings;
    }
    if !address.is_https() {
        findings.push(Limited(
            "the address is plain HTTP: only clients on this machine can sign in; the others need \
             https (docs/network.md)"
                .to_owned(),
        ));
    }
    findings.extend(judge_port(address));
    let health = get(client, address, "/health").await;
    findings.push(judge_health(address, &health));
    if matches!(findings.last(), Some(Bad(_))) {
        return findings;
    }
    let challenge = get(client, address, MCP_PATH).await;
    findings.push(judge_challenge(&address.origin, &challenge));
    let resource = get(client, address, METADATA_PATH).await;
    let (finding, issuer) = judge_resource(&address.origin, &resource);
    findings.push(finding);
    let Some(issuer) = issuer else { return findings };
    if issuer != address.origin {
        findings.push(Limited(
            "tokens come from another server; `stile doctor` does not examine it".to_owned(),
        ));
        return findings;
    }
    for path in ISSUER_PATHS {
        let metadata = get(client, address, path).await;
        findings.push(judge_issuer(&issuer, path, &metadata));
    }
    findings
}

type Answer = Result<OutboundResponse, OutboundError>;

async fn get(client: &OutboundClient, address: &PublicAddress, path: &str) -> Answer {
    let uri: Uri =
        format!("{}{path}", address.origin).parse().map_err(|_| OutboundError::Unavailable)?;
    let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
    client.exchange(uri, headers, LIMITS).await
}

fn judge_addresses(host: &str, addresses: Option<&[IpAddr]>) -> Finding {
    let Some(addresses) = addresses.filter(|addresses| !addresses.is_empty()) else {
        return Bad(format!(
            "the name {host} has no address; add an A or AAAA record where the domain is managed, \
             and wait until it is known"
        ));
    };
    let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let list = list.join(", ");
    if addresses.iter().copied().all(is_public_address) {
        Good(format!("{host} is {list}, on the public network"))
    } else {
        Limited(format!(
            "{host} is {list} as this machine sees it, which is not on the public network: \
             programs on this network connect, clients in the cloud (Claude on the web, ChatGPT) \
             only if the name has a public address elsewhere"
        ))
    }
}

/// Judges the port of an address over TLS; `None` if every client calls it.
///
/// *Source*: hosted Claude connects to port 443 and to no other
/// (github.com/anthropics/claude-ai-mcp/issues/85, github.com/home-assistant/core/issues/153820).
fn judge_port(address: &PublicAddress) -> Option<Finding> {
    (address.is_https() && address.port != HTTPS_PORT).then(|| {
        Limited(format!(
            "the address names port {}, and hosted clients (Claude on the web and on the phone) \
             call port 443 only: let the router, the proxy or the tunnel lead port 443 to the \
             server, and give clients https://{} without a port",
            address.port,
            address.shown_host()
        ))
    })
}

fn judge_health(address: &PublicAddress, answer: &Answer) -> Finding {
    let trusted = if address.is_https() { " with a trusted certificate" } else { "" };
    match answer {
        Ok(answer) if answer.status == StatusCode::OK && json(answer).get("version").is_some() => {
            Good(format!("the server answers at {}{trusted}", address.origin))
        }
        Ok(answer) if answer.status == StatusCode::SERVICE_UNAVAILABLE => {
            Bad("the server answers, but its space cannot be changed; GET /health says why"
                .to_owned())
        }
        Ok(answer) if answer.status == StatusCode::FORBIDDEN => Bad(format!(
            "the server refuses the name; start it with --public-url {}, and let a proxy send on \
             `Host`",
            address.origin
        )),
        Ok(answer) => Bad(format!(
            "something else than Stile answers, with status {}; see what listens on port {}, or \
             what the proxy or tunnel leads to",
            answer.status.as_u16(),
            address.port
        )),
        Err(OutboundError::Timeout) => Bad(format!(
            "no answer within 10 s; let port {} through the firewall, and forward it to this \
             machine",
            address.port
        )),
        Err(_) if address.is_https() => Bad(format!(
            "no answer over TLS on port {}: nothing listens there, or its certificate is not \
             trusted, expired or for another name; `curl -v {}/health` says which",
            address.port, address.origin
        )),
        Err(_) => Bad(format!("nothing answers on port {}", address.port)),
    }
}

fn judge_challenge(origin: &str, answer: &Answer) -> Finding {
    let expected = format!("resource_metadata=\"{origin}{METADATA_PATH}\"");
    match answer {
        Ok(answer) if answer.status == StatusCode::UNAUTHORIZED => {
            let challenge = answer.headers.get(WWW_AUTHENTICATE);
            let challenge = challenge.and_then(|it| it.to_str().ok()).unwrap_or_default();
            if challenge.contains(&expected) {
                Good("/mcp asks for a token and says where to get one".to_owned())
            } else if challenge.is_empty() {
                Bad("/mcp answers 401 without WWW-Authenticate; let the proxy send that header on"
                    .to_owned())
            } else {
                Bad(format!(
                    "/mcp names another address in WWW-Authenticate than {origin}; start the \
                     server with --public-url {origin}"
                ))
            }
        }
        Ok(answer) => Bad(format!(
            "/mcp answers without a token with status {} instead of 401",
            answer.status.as_u16()
        )),
        Err(_) => Bad("/mcp does not answer".to_owned()),
    }
}

/// Judges the metadata of the resource, and returns the server that it names for tokens.
fn judge_resource(origin: &str, answer: &Answer) -> (Finding, Option<String>) {
    let document = match answer {
        Ok(answer) if answer.status == StatusCode::OK => json(answer),
        _ => return (Bad(format!("{METADATA_PATH} does not answer")), None),
    };
    let resource = document.get("resource").and_then(Value::as_str).unwrap_or_default();
    if resource != format!("{origin}{MCP_PATH}") {
        let finding = Bad(format!(
            "{METADATA_PATH} describes another address than {origin}{MCP_PATH}; start the server \
             with --public-url {origin}"
        ));
        return (finding, None);
    }
    let issuer = document.pointer("/authorization_servers/0").and_then(Value::as_str);
    match issuer {
        Some(issuer) => (
            Good(format!("{METADATA_PATH} is true and names a server for tokens")),
            Some(issuer.to_owned()),
        ),
        None => (
            Limited(
                "the server names no server for tokens: only clients that take a token of \
                 `stile token` connect"
                    .to_owned(),
            ),
            None,
        ),
    }
}

fn judge_issuer(issuer: &str, path: &str, answer: &Answer) -> Finding {
    let document = match answer {
        Ok(answer) if answer.status == StatusCode::OK => json(answer),
        _ => return Bad(format!("{path} does not answer, so clients cannot sign in")),
    };
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("issuer") != issuer {
        return Bad(format!("`issuer` in {path} is not {issuer}; clients refuse such a document"));
    }
    for endpoint in ["authorization_endpoint", "token_endpoint"] {
        if !text(endpoint).starts_with(&format!("{issuer}/")) {
            return Bad(format!("`{endpoint}` in {path} is not at {issuer}"));
        }
    }
    let has = |name: &str, word: &str| {
        let list = document.get(name).and_then(Value::as_array);
        list.is_some_and(|list| list.iter().any(|item| item == word))
    };
    if !has("code_challenge_methods_supported", "S256") {
        return Bad(format!("{path} does not name the method S256, so clients do not sign in"));
    }
    if document.get("client_id_metadata_document_supported") != Some(&Value::Bool(true)) {
        return Limited(format!(
            "{path} is true, but the server fetches no documents of clients: start it with \
             --public-url {issuer}"
        ));
    }
    Good(format!("{path} is true"))
}

fn json(answer: &OutboundResponse) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ORIGIN: &str = "https://notes.example.org";

    fn answer(status: u16, body: &Value) -> Answer {
        let status = StatusCode::from_u16(status).unwrap();
        Ok(OutboundResponse { status, headers: HeaderMap::new(), body: body.to_string().into() })
    }

    fn challenged(challenge: &str) -> Answer {
        let mut answer = answer(401, &json!({})).unwrap();
        answer.headers.insert(WWW_AUTHENTICATE, challenge.parse().unwrap());
        Ok(answer)
    }

    fn is_bad(finding: &Finding) -> bool {
        matches!(finding, Bad(_))
    }

    #[test]
    fn an_address_is_an_origin() {
        let port = |text: &str| PublicAddress::parse(text).map(|it| (it.host, it.port)).ok();
        assert_eq!(port(ORIGIN), Some(("notes.example.org".to_owned(), 443)));
        assert_eq!(port("http://[::1]:8080"), Some(("::1".to_owned(), 8080)));
        for text in ["", "notes.example.org", "ftp://a.example", "https://a.example/mcp"] {
            assert_eq!(port(text), None, "{text}");
        }
        assert_eq!(port("https://me@a.example"), None);
    }

    #[test]
    fn a_port_that_hosted_clients_do_not_call_is_named() {
        let judge = |text: &str| judge_port(&PublicAddress::parse(text).unwrap());
        assert_eq!(judge(ORIGIN), None);
        assert_eq!(judge("https://notes.example.org:443"), None);
        assert_eq!(judge("http://127.0.0.1:9999"), None, "plain HTTP has a finding of its own");
        for text in ["https://notes.example.org:9999", "https://[2001:db8::1]:8443"] {
            let Some(Limited(said)) = judge(text) else { panic!("{text}") };
            assert!(said.contains("call port 443 only"), "{said}");
        }
    }

    #[test]
    fn a_private_address_limits_who_connects() {
        let judge = |texts: &[&str]| {
            let addresses: Vec<IpAddr> = texts.iter().map(|it| it.parse().unwrap()).collect();
            judge_addresses("a.example", Some(&addresses))
        };
        assert!(matches!(judge(&["93.184.216.34"]), Good(_)));
        assert!(matches!(judge(&["93.184.216.34", "10.0.0.1"]), Limited(_)));
        assert!(is_bad(&judge(&[])) && is_bad(&judge_addresses("a.example", None)));
    }

    #[test]
    fn whatever_answers_instead_of_the_server_is_named() {
        let address = PublicAddress::parse(ORIGIN).unwrap();
        let judge = |answer: Answer| judge_health(&address, &answer);
        let healthy = json!({ "status": "ok", "version": "1" });
        assert!(matches!(judge(answer(200, &healthy)), Good(_)));
        for bad in [answer(200, &json!({})), answer(503, &healthy), answer(403, &json!({}))] {
            assert!(is_bad(&judge(bad)));
        }
        for error in [OutboundError::Timeout, OutboundError::Unavailable] {
            assert!(is_bad(&judge(Err(error))));
        }
    }

    #[test]
    fn a_challenge_must_name_the_address_that_clients_use() {
        let judge = |answer: Answer| judge_challenge(ORIGIN, &answer);
        let named = |origin: &str| {
            challenged(&format!("Bearer resource_metadata=\"{origin}{METADATA_PATH}\""))
        };
        assert!(matches!(judge(named(ORIGIN)), Good(_)));
        assert!(is_bad(&judge(named("http://127.0.0.1:9999"))));
        assert!(is_bad(&judge(answer(401, &json!({})))) && is_bad(&judge(answer(200, &json!({})))));
    }

    #[test]
    fn documents_must_describe_the_address_that_clients_use() {
        let resource = |resource: &str, servers: Value| {
            let document = json!({ "resource": resource, "authorization_servers": servers });
            judge_resource(ORIGIN, &answer(200, &document))
        };
        let (finding, issuer) = resource("https://notes.example.org/mcp", json!([ORIGIN]));
        assert!(matches!(finding, Good(_)) && issuer.as_deref() == Some(ORIGIN));
        assert!(matches!(resource("https://notes.example.org/mcp", json!([])).0, Limited(_)));
        assert!(is_bad(&resource("http://notes.example.org/mcp", json!([ORIGIN])).0));

        let document = json!({
            "issuer": ORIGIN,
            "authorization_endpoint": format!("{ORIGIN}/oauth/authorize"),
            "token_endpoint": format!("{ORIGIN}/oauth/token"),
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": true,
        });
        let judge = |document: &Value| judge_issuer(ORIGIN, "/p", &answer(200, document));
        assert!(matches!(judge(&document), Good(_)));
        for (name, value) in [
            ("issuer", json!("https://notes.example.org/")),
            ("authorization_endpoint", json!("https://notes.example.org.evil.example/a")),
            ("token_endpoint", json!(null)),
            ("code_challenge_methods_supported", json!(["plain"])),
        ] {
            let mut changed = document.clone();
            changed[name] = value;
            assert!(is_bad(&judge(&changed)), "{name}");
        }
        let mut without = document.clone();
        without["client_id_metadata_document_supported"] = json!(false);
        assert!(matches!(judge(&without), Limited(_)));
        assert!(is_bad(&judge_issuer(ORIGIN, "/p", &answer(404, &json!({})))));
    }
}
