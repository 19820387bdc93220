//! How long does a client wait for the program?
//!
//! Measures three pairs, each in the same run. First, from spawning `stile stdio` to its answer to
//! `tools/list`, beside spawning the program for its version alone. Second, the structure of a long
//! note on stdio, beside a read of the note's beginning. Third, a small read over HTTP through
//! every layer, beside a tool that answers a constant through the SDK alone on the same kind of
//! connection.
//!
//! The numbers include what the client costs, one thread on the same cores.

#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::process::Stdio;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;
use stile_testkit::bench::{Plan, compare, timed};
use stile_testkit::client::{Http, McpClient as _};
use stile_testkit::process::Rig;

/// A tool that answers a constant.
struct Constant;

impl ServerHandler for Constant {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut result = CallToolResult::structured(json!({ "content": "one\n" }));
        result.content = vec![ContentBlock::text("one")];
        Ok(result.into())
    }
}

/// Serves the SDK alone, with Nagle's algorithm off as this program has it, and returns the
/// address.
fn bare_sdk(runtime: &tokio::runtime::Runtime) -> std::net::SocketAddr {
    use axum::serve::ListenerExt as _;
    let handler = Arc::new(Constant);
    let config = StreamableHttpServerConfig::default().with_json_response(true);
    let service = StreamableHttpService::new(
        move || Ok(Arc::clone(&handler)),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let app = axum::Router::new().route_service("/mcp", service);
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let listener = listener.tap_io(|io| {
        let _ = io.set_nodelay(true);
    });
    runtime.spawn(async move { axum::serve(listener, app).await });
    address
}

fn main() {
    let plan = Plan::from_arguments();
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
    std::fs::write(rig.root.join("a.md"), "one\n").unwrap();

    compare(
        "spawn to tools/list on stdio",
        plan.rounds(40),
        || {
            let mut client = None;
            let time =
                timed(|| client.insert(rig.stdio(&[])).request("tools/list", json!({})).unwrap());
            client.unwrap().finish().unwrap();
            time
        },
        "spawn for --version",
        || timed(|| rig.command(&["--version"]).stdout(Stdio::null()).status().unwrap()),
    );

    // A note of about 300 KB. Its structure replaces a read of the whole note.
    let long: String = (0..3000)
        .map(|day| format!("## Day {day}\n\n{}\n\n", "Watered the ferns. ".repeat(4)))
        .collect();
    std::fs::write(rig.root.join("long.md"), long).unwrap();
    let (mut outliner, mut reader) = (rig.stdio(&[]), rig.stdio(&[]));
    compare(
        "sections of a 300 KB note on stdio",
        plan.rounds(200),
        || timed(|| outliner.tool("get_section_source", json!({ "path": "long.md" })).unwrap()),
        "text.read of its first 64 KiB",
        || timed(|| reader.tool("text.read", json!({ "path": "long.md" })).unwrap()),
    );

    let server = rig.serve(&["--rate-per-second", "1000000", "--rate-burst", "1000000"]);
    let mut ours = server.client(&rig.token(&["read:/"], &[]));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut theirs = Http::new(bare_sdk(&runtime), "none");
    for (what, name, arguments) in [
        ("read of a one-line note over HTTP", "text.read", json!({ "path": "/a.md" })),
        ("call that is refused by its arguments", "text.read", json!({ "path": 7 })),
    ] {
        compare(
            what,
            plan.rounds(3000),
            || timed(|| ours.tool(name, arguments.clone()).unwrap()),
            "constant through the SDK alone",
            || timed(|| theirs.tool("constant", json!({})).unwrap()),
        );
    }
    let (status, _) = server.stop();
    assert!(status.success());
}
