//! A resource server that fails in ways that it should not: each is an answer, with an incident
//! where nobody expected it, and the next call is answered as if nothing had been.

use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::request::ReadRequest;
use stile_domain::role::Role;
use stile_domain::scope::Scopes;
use stile_ladder::Ladder;
use stile_ladder::port::{ErrorResponse, RecordServer};
use stile_server::auth::{
    IdentityClaims, TokenRejected, TokenVerifier, VaultClaim, VerifiedCaller,
};
use stile_server::http::{self, HttpOptions};
use stile_server::mcp::handler::CallerSource;
use stile_server::mcp::presentation::Presentation;
use stile_server::service::Service;
use stile_server::stdio;
use stile_testkit::client::McpClient;
use stile_testkit::hosted::{LIFECYCLES, Peer, message_of};
use stile_tools::toolset::Caller;
use tokio::sync::oneshot;

use crate::support::{call, initialize, request};

/// What nobody may see.
const CANARY: &str = "the content of a record";

/// Panics wherever it is asked, and opens every address as one of a record.
struct Panics;

impl RecordServer for Panics {
    fn send<'a>(
        &'a self,
        _: &'a Principal,
        request: ReadRequest,
    ) -> BoxFuture<'a, Result<String, ErrorResponse>> {
        if request.pairs().iter().any(|(_, value)| value == "at once") {
            panic!("{CANARY}");
        }
        Box::pin(async { panic!("{CANARY}") })
    }

    fn seal(&self, _: &[u8]) -> Result<String, ErrorResponse> {
        panic!("{CANARY}")
    }

    fn unseal(&self, _: &str) -> Option<Vec<u8>> {
        panic!("{CANARY}")
    }
}

fn principal(records: RecordsClaim) -> Principal {
    Principal::assert_verified("ann", Some("t1"), None, Scopes::none(), records)
}

/// Believes everybody: `owner` is the owner, and everybody else nobody.
struct Everybody;

impl TokenVerifier for Everybody {
    fn verify<'a>(
        &'a self,
        token: &'a str,
    ) -> BoxFuture<'a, Result<VerifiedCaller, TokenRejected>> {
        let records = if token == "owner" { RecordsClaim::Owner } else { RecordsClaim::None };
        let (vault, role) = (VaultClaim::None, Role::Viewer);
        let identity = IdentityClaims {
            issuer: None,
            actor: "ann".into(),
            vault,
            role,
            audiences: Vec::new(),
        };
        let expires = SystemTime::now() + Duration::from_secs(3600);
        Box::pin(std::future::ready(Ok(VerifiedCaller {
            principal: principal(records),
            identity,
            expires,
        })))
    }
}

fn incident_of(error: &Value) {
    assert_eq!(error["code"], "api_error", "{error}");
    assert!(error["incident"].is_u64(), "{error}");
    assert!(!error.to_string().contains(CANARY), "{error}");
}

const CALLS: [(&str, &str); 4] = [
    ("schema", "{}"),
    ("search", r#"{"q":"at once"}"#),
    ("search", r#"{"q":"later"}"#),
    ("fetch", r#"{"id":"pdpp://record/x"}"#),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_an_incident_over_http() {
    let options = HttpOptions { listen: ([127, 0, 0, 1], 0).into(), ..HttpOptions::default() };
    let (stop, stopped) = oneshot::channel::<()>();
    let (listening, address) = oneshot::channel();
    let service = Service::new(Ladder::new(Panics), None);
    let until = async move { drop(stopped.await) };
    let served =
        tokio::spawn(http::serve(options, service, Arc::new(Everybody), until, move |address| {
            listening.send(address).unwrap();
        }));
    let address = address.await.unwrap();
    let asked = tokio::task::spawn_blocking(move || {
        for lifecycle in LIFECYCLES {
            let mut peer = Peer::new(address, "owner", lifecycle);
            if lifecycle != stile_testkit::hosted::Lifecycle::Sessionless {
                let reply = peer.initialize().unwrap();
                peer.session = reply.header("mcp-session-id").map(str::to_owned);
                assert!(message_of(&reply)["result"]["capabilities"]["tools"].is_object());
            }
            for (tool, arguments) in CALLS {
                let arguments: Value = serde_json::from_str(arguments).unwrap();
                let result = peer.call(tool, &arguments);
                assert_eq!(result["isError"], true, "{result}");
                incident_of(&result["structuredContent"]["error"]);
            }
            let read = peer.request("resources/read", json!({ "uri": "pdpp://record/x" })).unwrap();
            assert_eq!(read["error"]["code"], -32603);
            incident_of(&read["error"]["data"]);
            let listed = peer.request("tools/list", json!({})).unwrap();
            assert_eq!(
                listed["result"]["tools"].as_array().map(Vec::len),
                Some(6),
                "the ladder and nothing else"
            );
        }
    });
    asked.await.unwrap();
    stop.send(()).unwrap();
    served.await.unwrap().unwrap();
}

/// A server on a pair of pipes, for one caller.
struct Pipes {
    input: PipeWriter,
    output: BufReader<PipeReader>,
}

impl Pipes {
    fn start(records: RecordsClaim) -> Self {
        let (their_input, input) = std::io::pipe().unwrap();
        let (output, their_output) = std::io::pipe().unwrap();
        let their_output =
            tokio::net::unix::pipe::Sender::from_owned_fd(their_output.into()).unwrap();
        let service = Service::new(Ladder::new(Panics), None);
        tokio::spawn(stdio::serve_on(
            their_input,
            their_output,
            service,
            CallerSource::Fixed(Box::new(Caller::local(principal(records)))),
            Presentation::default(),
        ));
        let mut pipes = Self { input, output: BufReader::new(output) };
        assert!(pipes.ask(&initialize("2025-11-25", "test"))["result"].is_object());
        writeln!(
            pipes.input,
            "{}",
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
        )
        .unwrap();
        pipes
    }

    fn ask(&mut self, message: &Value) -> Value {
        writeln!(self.input, "{message}").unwrap();
        let mut line = String::new();
        tokio::task::block_in_place(|| self.output.read_line(&mut line)).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_an_incident_over_stdio() {
    let mut pipes = Pipes::start(RecordsClaim::Owner);
    for (id, (tool, arguments)) in (1..).zip(CALLS) {
        let answer = pipes.ask(&call(id, tool, serde_json::from_str(arguments).unwrap()));
        assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(id), &json!(true)));
        incident_of(&answer["result"]["structuredContent"]["error"]);
    }
    let read = pipes.ask(&request(9, "resources/read", json!({ "uri": "pdpp://field-window/x" })));
    incident_of(&read["error"]["data"]);
    assert_eq!(pipes.ask(&request(10, "ping", json!({})))["result"], json!({}));
}

/// Nothing is asked of the resource server, or these would be incidents.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_a_claim_on_stdio_is_a_tool_error() {
    let mut pipes = Pipes::start(RecordsClaim::None);
    assert_eq!(pipes.ask(&request(1, "tools/list", json!({})))["result"]["tools"], json!([]));
    assert_eq!(
        pipes.ask(&request(2, "resources/templates/list", json!({})))["result"]["resourceTemplates"],
        json!([])
    );
    for (id, (tool, arguments)) in (3..).zip(CALLS) {
        let answer = pipes.ask(&call(id, tool, serde_json::from_str(arguments).unwrap()));
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert_eq!(
            answer["result"]["structuredContent"]["error"]["code"], "insufficient_scope",
            "{answer}"
        );
    }
    for uri in ["pdpp://record/x", "pdpp://field-window/x"] {
        let read = pipes.ask(&request(9, "resources/read", json!({ "uri": uri })));
        assert_eq!(
            (&read["error"]["code"], &read["error"]["data"]["code"]),
            (&json!(-32602), &json!("insufficient_scope"))
        );
    }
}
