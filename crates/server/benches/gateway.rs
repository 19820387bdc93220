//! What does a call through the gateway cost?
//!
//! Measured, in turns within one run: the processor time of the gateway's process for a call of a
//! tool, beside that of a process which only hands requests on to the same note store with the same
//! HTTP library; how much the gateway grows over ten thousand calls; what a session costs in
//! memory. Tokens are signed with ES256, the dearer of the two, and verified anew for each call.
//!
//! What the numbers do not say: how long a call takes, which depends on the note store; and TLS,
//! which neither speaks here.

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
use stile_testkit::client::{Caller as _, Http};
use stile_testkit::issuer::{Alg, Issuer};
use stile_testkit::process::Rig;
use stile_testkit::upstream::{Behaviour, Reply, Upstream};

/// Clients that call at once: a server that is idle between two calls pays for falling asleep and
/// waking up.
const CALLERS: usize = 16;
const AUDIENCE: &str = "https://gateway.example.org/mcp";

fn main() {
    if let Some(upstream) =
        std::env::args().skip_while(|argument| argument != "--hand-on-to").nth(1)
    {
        return hand_on(upstream);
    }
    let plan = Plan::from_arguments();
    // A note as people write them: eight headings, and some four kilobytes of text.
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
        "--rate-per-second",
        "1000000",
        "--rate-burst",
        "1000000",
        "--sessions-per-subject",
        "100000",
    ]);
    let gateway = rig.gateway(&arguments);
    let token = issuer.mint("ann", AUDIENCE).role("viewer").token(Alg::Es256);

    let mut proxy = Command::new(std::env::current_exe().unwrap());
    let mut proxy = proxy
        .args(["--hand-on-to", &url])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(proxy.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let through: SocketAddr = line.trim().parse().unwrap();

    let (rounds, calls) = (plan.rounds(8), plan.rounds(200));
    let read = format!(
        "GET /api/v1/notes/garden%2Fferns.md HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    let mut callers: Vec<Http> = (0..CALLERS).map(|_| gateway.client(&token)).collect();
    let mut readers: Vec<Http> = (0..CALLERS).map(|_| Http::new(through, &token)).collect();
    let mut call = || {
        at_once(&mut callers, calls, |client| {
            let told =
                client.tool("get_section_source", json!({ "path": "garden/ferns.md" })).unwrap();
            assert!(told.get("schema").is_some(), "{told}");
        });
    };
    let mut hand_on = || {
        at_once(&mut readers, calls, |client| {
            assert_eq!(client.send(read.as_bytes()).unwrap().status, 200)
        })
    };
    call();
    hand_on();
    let grown_from = resident(gateway.id());
    let mut ratios = Vec::new();
    for _ in 0..rounds {
        let ours = spent(gateway.id(), &mut call);
        let theirs = spent(proxy.id(), &mut hand_on);
        store.take_requests();
        ratios.push((ours.as_secs_f64() / theirs.as_secs_f64(), ours, theirs));
    }
    let calls = calls * CALLERS;
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((ratio, ours, theirs)) = ratios.get(ratios.len() / 2) {
        let each = |time: &Duration| *time / u32::try_from(calls).unwrap();
        println!(
            "processor time of a call through the gateway {:?}   of a request that is only handed on {:?}   ratio {ratio:.2}",
            each(ours),
            each(theirs)
        );
    }
    println!(
        "grown over {} calls: {} KiB, to {} KiB",
        rounds * calls,
        resident(gateway.id()).saturating_sub(grown_from),
        resident(gateway.id())
    );

    let sessions = plan.rounds(1_000);
    let before = resident(gateway.id());
    let open: Vec<_> = (0..sessions)
        .map(|_| {
            let mut client = gateway.client(&token);
            let opened = client.send(&initialize(&token)).unwrap();
            assert!(opened.header("mcp-session-id").is_some(), "{}", opened.status);
            client
        })
        .collect();
    let grown = resident(gateway.id()).saturating_sub(before);
    println!(
        "memory of a session, its connection included: {} KiB over {sessions}",
        grown / sessions as u64
    );
    drop(open);
    end(&mut proxy);
    let (status, _) = gateway.stop();
    assert!(status.success());
}

/// A request that opens a session.
fn initialize(token: &str) -> Vec<u8> {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" }
    });
    let body =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Each client does the same so many times, all at once.
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

/// The processor time that a process spends meanwhile, in its own code and in the kernel for it.
fn spent(pid: u32, work: impl FnOnce()) -> Duration {
    let before = processor_time(pid);
    work();
    processor_time(pid).saturating_sub(before)
}

fn processor_time(pid: u32) -> Duration {
    // In nanoseconds, for each thread; `stat` counts in hundredths of a second.
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_task = |task: std::io::Result<std::fs::DirEntry>| -> u64 {
        let text =
            std::fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or_default()
    };
    Duration::from_nanos(tasks.map(of_task).sum())
}

/// Resident memory in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Hands every request on to `upstream`, as a process of its own.
fn hand_on(upstream: String) {
    // However the benchmark ends, this process goes with it.
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
                let mut handed = Request::new(Empty::new());
                *handed.uri_mut() = uri.parse().unwrap();
                *handed.headers_mut() = request.headers().clone();
                let client = client.clone();
                async move {
                    let response: Response<Incoming> = client.request(handed).await.unwrap();
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
