//! One gateway before the servers of several vaults.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use stile_testkit::hosted::{AUDIENCE, Hosted, LIFECYCLES, Lifecycle, NOTE_TOOLS, Peer, refusal};
use stile_testkit::issuer::Alg;
use stile_testkit::process::Server;
use stile_testkit::upstream::{Behaviour, Reply, Upstream};

const BINARY: &str = env!("CARGO_BIN_EXE_stile");

/// Longer than anything here may take, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that has a note, in which the title names the vault.
fn titled(vault: &str) -> Upstream {
    let note = Reply::note(&json!({}), &format!("# Note of {vault}\n"));
    Upstream::start(Behaviour::always(note))
}

/// A gateway before the servers of two vaults, which have an audience each.
struct Place {
    hosted: Hosted,
    garden: Upstream,
    kitchen: Upstream,
    gateway: Server,
}

impl Place {
    fn new(more: &[&str]) -> Self {
        let hosted = Hosted::new(BINARY);
        let (garden, kitchen) = (titled("garden"), titled("kitchen"));
        let own = format!("kitchen={}", kitchen.url());
        let audiences = "garden=https://garden.example,kitchen=https://kitchen.example";
        let flags = ["--upstream", &own, "--upstream-audience", audiences];
        let first = format!("garden={}", garden.url());
        let gateway = hosted.gateway(&first, &[&flags, more].concat());
        Self { hosted, garden, kitchen, gateway }
    }

    /// A token of `subject` for a vault and its server.
    fn token(&self, subject: &str, vault: &str) -> String {
        let audiences = json!([AUDIENCE, format!("https://{vault}.example")]);
        let mint = self.hosted.issuer.mint(subject, AUDIENCE).vault(vault).expires_in(3000);
        mint.claim("aud", audiences).token(Alg::Es256)
    }

    fn peer(&self, subject: &str, vault: &str, lifecycle: Lifecycle) -> Peer {
        Peer::open(&self.gateway, &self.token(subject, vault), lifecycle)
    }
}

#[test]
fn each_vault_is_read_from_its_own_upstream_and_no_other() {
    let place = Place::new(&[]);
    for lifecycle in LIFECYCLES {
        for (vault, own, other) in
            [("garden", &place.garden, &place.kitchen), ("kitchen", &place.kitchen, &place.garden)]
        {
            let mut peer = place.peer("ann", vault, lifecycle);
            let named = if vault == "garden" { "kitchen" } else { "garden" };
            // The caller cannot choose the vault.
            peer.headers = vec![("X-Vault-Id".to_owned(), named.to_owned())];
            for (tool, _) in NOTE_TOOLS {
                let told = peer.told(tool, "a.md");
                assert!(!told.contains("UPSTREAM_ERROR"), "{told}");
            }
            assert!(peer.told("get_note_outline", "a.md").contains(&format!("Note of {vault}")));
            let received = own.take_requests();
            assert_eq!(received.len(), NOTE_TOOLS.len() + 1);
            assert!(received.iter().all(|read| read.values("x-vault-id") == [vault]));
            assert!(other.take_requests().is_empty());
        }
    }
}

#[test]
fn a_token_goes_to_the_upstream_of_its_vault_only_if_it_is_for_that_one() {
    let place = Place::new(&[]);
    for audiences in [json!(AUDIENCE), json!([AUDIENCE, "https://kitchen.example"])] {
        let mint = place.hosted.issuer.mint("ann", AUDIENCE).vault("garden");
        let token = mint.claim("aud", audiences).token(Alg::Es256);
        let mut peer = Peer::open(&place.gateway, &token, Lifecycle::Sessionless);
        assert_eq!(peer.told("get_note_outline", "a.md"), refusal("Upstream 403"));
    }
    assert_eq!(place.garden.connections() + place.kitchen.connections(), 0);
}

#[test]
fn each_upstream_gets_the_gateways_token_for_its_vault() {
    let hosted = Hosted::new(BINARY);
    let (garden, kitchen) = (titled("garden"), titled("kitchen"));
    let files = ["garden", "kitchen"]
        .map(|vault| format!("{vault}={}", hosted.file(vault, &format!("token-for-{vault}"))));
    let flags = [
        "--upstream",
        &format!("kitchen={}", kitchen.url()),
        "--upstream-credential",
        "own",
        "--upstream-token-file",
        &files[0],
        "--upstream-token-file",
        &files[1],
    ];
    let gateway = hosted.gateway(&format!("garden={}", garden.url()), &flags);
    for (vault, upstream) in [("garden", &garden), ("kitchen", &kitchen)] {
        let token = hosted.issuer.mint("ann", AUDIENCE).vault(vault).scope("read:/");
        let mut peer = Peer::open(&gateway, &token.token(Alg::Es256), Lifecycle::Sessionless);
        assert!(peer.told("get_note_outline", "a.md").contains(vault));
        let received = upstream.take_requests();
        assert_eq!(received[0].values("authorization"), [format!("Bearer token-for-{vault}")]);
    }
}

#[test]
fn a_vault_without_an_upstream_is_refused_and_nothing_is_sent() {
    let place = Place::new(&[]);
    for token in [place.token("ann", "shed"), place.token("ann", "Garden"), unnamed_of(&place)] {
        for lifecycle in LIFECYCLES {
            let mut peer = Peer::new(place.gateway.address, &token, lifecycle);
            let call = json!({ "name": "get_note_outline", "arguments": { "path": "a.md" } });
            for reply in [peer.initialize().unwrap(), peer.post("tools/call", call).unwrap()] {
                assert_eq!((reply.status, &reply.json()["error"]), (403, &json!("no_upstream")));
                assert!(reply.header("mcp-session-id").is_none());
            }
        }
    }
    assert_eq!(place.garden.connections() + place.kitchen.connections(), 0);

    // One server may have the vaults that are not named, and that of tokens that name none.
    let others = titled("others");
    let place = Place::new(&["--upstream", &others.url(), "--upstream-audience", AUDIENCE]);
    for token in [place.token("ann", "shed"), unnamed_of(&place)] {
        let mut peer = Peer::open(&place.gateway, &token, Lifecycle::Sessionless);
        assert!(peer.told("get_note_outline", "a.md").contains("Note of others"));
    }
    let mut peer = place.peer("ann", "garden", Lifecycle::Sessionless);
    assert!(peer.told("get_note_outline", "a.md").contains("Note of garden"));
    let received = others.requests();
    let vaults: Vec<_> = received.iter().flat_map(|read| read.values("x-vault-id")).collect();
    assert_eq!(vaults, ["shed", "default"]);
}

/// A token that names no vault.
fn unnamed_of(place: &Place) -> String {
    place.hosted.issuer.mint("ann", AUDIENCE).token(Alg::Es256)
}

#[test]
fn an_upstream_that_is_down_or_silent_keeps_no_call_to_another_waiting() {
    let place = Place::new(&["--upstream-timeout-seconds", "600"]);
    let garden = |subject: &str| {
        let mut peer = place.peer(subject, "garden", Lifecycle::Sessionless);
        let began = Instant::now();
        assert!(peer.told("get_note_outline", "a.md").contains("Note of garden"));
        assert!(began.elapsed() < PATIENCE);
    };
    place.kitchen.set(Behaviour::Refuse);
    let mut peer = place.peer("ann", "kitchen", Lifecycle::Sessionless);
    assert_eq!(peer.told("get_note_outline", "a.md"), refusal("Upstream unavailable"));
    garden("ann");

    // More calls than one server gets at once, each of which waits for an answer or for its turn.
    place.kitchen.set(Behaviour::Silence);
    let subjects = ["ann", "bob", "cleo", "dan"];
    std::thread::scope(|scope| {
        for subject in subjects {
            for _ in 0..40 {
                let mut peer = place.peer(subject, "kitchen", Lifecycle::Sessionless);
                let call = json!({ "name": "get_note_outline", "arguments": { "path": "a.md" } });
                scope.spawn(move || peer.post("tools/call", call));
            }
        }
        let began = Instant::now();
        while place.kitchen.requests().len() < 45 {
            assert!(began.elapsed() < PATIENCE, "{}", place.kitchen.requests().len());
            std::thread::yield_now();
        }
        for subject in [&subjects[..], &["eve"]].concat() {
            garden(subject);
        }
        // Ends the calls.
        place.kitchen.set(Behaviour::Refuse);
    });
}

#[test]
fn a_gateway_prints_which_server_has_which_vault() {
    let place = Place::new(&[]);
    let (garden, kitchen) = (place.garden.url(), place.kitchen.url());
    let (_, log) = place.gateway.stop();
    let log = String::from_utf8(log).unwrap();
    for line in [
        format!("notes of the vault garden come from {garden}\n"),
        format!("notes of the vault kitchen come from {kitchen}\n"),
        "notes of every other vault are refused\n".to_owned(),
    ] {
        assert!(log.contains(&line), "{log}");
    }
}

#[test]
fn settings_for_a_vault_without_an_upstream_of_its_own_are_refused_at_the_start() {
    let hosted = Hosted::new(BINARY);
    let trust = hosted.trust();
    let trust: Vec<&str> = trust.iter().map(String::as_str).collect();
    let url = "http://127.0.0.1:1";
    let garden = format!("garden={url}");
    let file = format!("garden={}", hosted.file("token", "own-token"));
    for (flags, words) in [
        (
            &["--upstream", &garden, "--upstream-audience", "shed=https://shed.example"][..],
            "--upstream-audience names the vault `shed`, which has no --upstream of its own",
        ),
        (
            &["--upstream", url, "--upstream-token-file", &file, "--upstream-credential", "own"],
            "--upstream-token-file names the vault `garden`, which has no --upstream of its own",
        ),
        (
            &[
                "--upstream", url, "--upstream", &garden, "--upstream-token-file", &file,
                "--upstream-credential", "own",
            ],
            "--upstream-credential own needs --upstream-token-file, a file",
        ),
        (
            &["--upstream", &garden, "--upstream-credential", "own"],
            "--upstream-credential own needs --upstream-token-file for the vault `garden`, a file",
        ),
        (&["--upstream", &garden, "--upstream", &garden], "names the vault `garden` twice"),
        (&[], "--upstream is missing"),
        (&["--upstream", url, "--upstream-path-scopes", "no"], "is only used with"),
    ] {
        let rig = hosted.rig("gateway");
        let mut command = rig.command(&["gateway", "--listen", "127.0.0.1:0"]);
        let ran = command.args(&trust).args(flags).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
}
