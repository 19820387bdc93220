//! What does a call through the gateway cost?
//!
//! Measures three things. First, the processor time of the gateway's process for one call of a
//! tool, beside that of a process that only forwards requests to the same note store with the same
//! HTTP library; the two take turns within one run. Second, how much the gateway's memory grows
//! over ten thousand calls. Third, the memory of a session. Tokens are signed with ES256, the more
//! expensive of the two algorithms, and verified again for each call.
//!
//! The numbers do not say how long a call takes, because that depends on the note store. They do
//! not include TLS, which neither process uses here.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::body::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use stile_testkit::bench::Plan;
use stile_testkit::client::{Http, McpClient as _};
use stile_testkit::issuer::{Alg, Issuer};
use stile_testkit::process::Rig;
use stile_testkit::upstream::{Behaviour, Reply, Upstream};

/// Clients that call at once. A server that is idle between two calls would also pay for sleeping
/// and waking up.
const CALLERS: usize = 16;
const AUDIENCE: &str = "https://gateway.example.org/mcp";

fn main() {
    if let Some(upstream) =
        std::env::args().skip_while(|argument| argument != "--forward-to").nth(1)
    {
        return forward(upstream);
    }
    let plan = Plan::from_arguments();
    // A note as people write notes: eight headings, and about four kilobytes of text.
    let body: String = (1..=8)
        .map(|day| {
            format!(
                "## Day {day}\n\n{}\n\n",
                "Watered the ferns, and let the moss alone. ".repeat(12)
            )
        })
        .collect();
    let store =
        Upstream::start(Behaviour::always(Reply::note(&json!({ "title": "Garden" }), &body)));
    let issuer = Issuer::start();
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
    let (url, keys, issued_by) = (store.url(), issuer.jwks_url(), issuer.url());
    let mut arguments =
        vec!["--upstream", &url, "--jwks", &keys, "--issuer", &issued_by, "--audience", AUDIENCE];
    arguments.extend([
        "--rate-per-second", "1000000", "--rate-burst", "1000000", "--sessions-per-subject",
        "100000",
    ]);
    let gateway = rig.gateway(&arguments);
    let token = issuer.mint("ann", AUDIENCE).role("viewer").token(Alg::Es256);

    let mut proxy = Command::new(std::env::current_exe().unwrap());
    let mut proxy = proxy
        .args(["--forward-to", &url])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(proxy.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let through: SocketAddr = line.trim().parse().unwrap();

    let (rounds, calls) = (plan.rounds(8), plan.rounds(200));
    let read = format!(
        "GET /api/v1/notes/garden%2Fferns.md HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    );
    let mut callers: Vec<Http> = (0..CALLERS).map(|_| gateway.client(&token)).collect();
    let mut readers: Vec<Http> = (0..CALLERS).map(|_| Http::new(through, &token)).collect();
    let mut call = || {
        at_once(&mut callers, calls, |client| {
            let answer =
                client.tool("get_section_source", json!({ "path": "garden/ferns.md" })).unwrap();
            assert!(answer.get("schema").is_some(), "{answer}");
        });
    };
    let mut forward = || {
        at_once(&mut readers, calls, |client| {
            assert_eq!(client.send(read.as_bytes()).unwrap().status, 200)
        })
    };
    call();
    forward();
    let grown_from = resident_kib(gateway.id());
    let mut ratios = Vec::new();
    for _ in 0..rounds {
        let ours = processor_time_during(gateway.id(), &mut call);
        let theirs = processor_time_during(proxy.id(), &mut forward);
        store.take_requests();
        ratios.push((ours.as_secs_f64() / theirs.as_secs_f64(), ours, theirs));
    }
    let calls = calls * CALLERS;
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((ratio, ours, theirs)) = ratios.get(ratios.len() / 2) {
        let each = |time: &Duration| *time / u32::try_from(calls).unwrap();
        println!(
            "processor time of a call through the gateway {:?}   \
             of a request that is only forwarded {:?}   ratio {ratio:.2}",
            each(ours),
            each(theirs)
        );
    }
    println!(
        "grown over {} calls: {} KiB, to {} KiB",
        rounds * calls,
        resident_kib(gateway.id()).saturating_sub(grown_from),
        resident_kib(gateway.id())
    );

    let sessions = plan.rounds(1_000);
    let before = resident_kib(gateway.id());
    let open: Vec<_> = (0..sessions)
        .map(|_| {
            let mut client = gateway.client(&token);
            let opened = client.send(&initialize(&token)).unwrap();
            assert!(opened.header("mcp-session-id").is_some(), "{}", opened.status);
            client
        })
        .collect();
    let grown = resident_kib(gateway.id()).saturating_sub(before);
    println!(
        "memory of a session, its connection included: {} KiB over {sessions}",
        grown / sessions as u64
    );
    drop(open);
    end(&mut proxy);
    let (status, _) = gateway.stop();
    assert!(status.success());
}

/// Returns a request that opens a session.
fn initialize(token: &str) -> Vec<u8> {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "bench", "version": "1" }
    });
    let body =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Lets every client do the same work `times` times, all clients at once.
fn at_once(clients: &mut [Http], times: usize, work: impl Fn(&mut Http) + Sync) {
    std::thread::scope(|scope| {
        for client in clients {
            scope.spawn(|| (0..times).for_each(|_| work(client)));
        }
    });
}

fn end(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Returns the processor time that a process spends during `work`, in its own code and in the
/// kernel.
fn processor_time_during(pid: u32, work: impl FnOnce()) -> Duration {
    let before = processor_time(pid);
    work();
    processor_time(pid).saturating_sub(before)
}

fn processor_time(pid: u32) -> Duration {
    // `schedstat` counts nanoseconds for each thread; `stat` counts hundredths of a second.
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_task = |task: std::io::Result<std::fs::DirEntry>| -> u64 {
        let text =
            std::fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or_default()
    };
    Duration::from_nanos(tasks.map(of_task).sum())
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Forwards every request to `upstream`. Runs as a process of its own.
fn forward(upstream: String) {
    // Standard input closes when the benchmark ends, in whatever way. This process ends then too.
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async move {
        let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (client, upstream) = (client.clone(), upstream.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let uri = format!("{upstream}{}", request.uri());
                let mut forwarded = Request::new(Empty::new());
                *forwarded.uri_mut() = uri.parse().unwrap();
                *forwarded.headers_mut() = request.headers().clone();
                let client = client.clone();
                async move {
                    let response: Response<Incoming> = client.request(forwarded).await.unwrap();
                    Ok::<_, Infallible>(response)
                }
            });
            tokio::spawn(async move {
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
}
