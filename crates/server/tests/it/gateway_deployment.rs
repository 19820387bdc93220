//! Gateways before servers that have the notes: all of it real but the identity provider.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};
use stile_testkit::client::{McpClient, Reply};
use stile_testkit::hosted::{AUDIENCE, Hosted, LIFECYCLES, Lifecycle, NOTE_TOOLS, Peer, refusal};
use stile_testkit::issuer::{Alg, Mint};
use stile_testkit::leaks::Canaries;
use stile_testkit::process::{Rig, Server};
use stile_testkit::upstream::{Behaviour, Reply as Note, Upstream};

const BINARY: &str = env!("CARGO_BIN_EXE_stile");

/// A vault: a server with notes, and the gateway before it.
struct Vault {
    rig: Rig,
    origin: Server,
    gateway: Server,
}

impl Vault {
    fn start(hosted: &Hosted, name: &str, origin: &[&str], gateway: &[&str]) -> Self {
        let rig = hosted.rig(name);
        for (path, heading) in
            [("inbox/one.md", "inbox"), ("work/plan.md", "plan"), ("private/diary.md", "diary")]
        {
            write(&rig, path, note(&format!("{heading}-of-{name}"), name));
        }
        let origin = hosted.origin(&rig, &[&["--vault", name], origin].concat());
        let gateway = hosted.gateway(&format!("http://{}", origin.address), gateway);
        Self { rig, origin, gateway }
    }

    /// The lines of the journal about reads over the route.
    fn journal(&self) -> Vec<Value> {
        // The first line makes the folder.
        let folder = std::fs::read_dir(self.rig.state.join("journal")).into_iter().flatten();
        let files = folder.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
        let lines: Vec<String> =
            files.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        let lines = lines
            .iter()
            .filter_map(|line| serde_json::from_str::<Value>(line.trim_end_matches('\0')).ok());
        lines.filter(|line| line["tool"] == "note").collect()
    }

    /// Every file of the space: when it was changed, and what is in it.
    fn tree(&self) -> BTreeMap<PathBuf, (SystemTime, Vec<u8>)> {
        let (mut found, mut left) = (BTreeMap::new(), vec![self.rig.root.clone()]);
        while let Some(path) = left.pop() {
            let about = std::fs::symlink_metadata(&path).unwrap();
            let bytes = if about.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            if about.is_dir() {
                left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            found.insert(path, (about.modified().unwrap(), bytes));
        }
        found
    }
}

/// A note that each of the tools tells `word` of.
fn note(word: &str, vault: &str) -> String {
    format!("---\ntitle: {word}\nproject: {word}\n---\n# {word}\n\nbody-of-{vault}\n")
}

fn write(rig: &Rig, path: &str, text: impl AsRef<[u8]>) {
    let file = rig.root.join(path);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

fn mint<'a>(hosted: &'a Hosted, vault: &str) -> Mint<'a> {
    hosted.issuer.mint("ann", AUDIENCE).vault(vault).scope("read:/")
}

#[test]
fn every_role_calls_every_tool_in_its_own_vault_and_learns_of_no_other() {
    let hosted = Hosted::new(BINARY);
    let vaults = ["garden", "kitchen"].map(|name| (name, Vault::start(&hosted, name, &[], &[])));
    let secrets =
        Canaries::new().plant("body", "body-of-garden").plant("other body", "body-of-kitchen");
    for (name, vault) in &vaults {
        let (other, elsewhere) = vaults.iter().find(|(other, _)| other != name).unwrap();
        for role in ["viewer", "editor", "evaluator", "admin", "owner"] {
            let token = mint(&hosted, name).role(role).token(Alg::Es256);
            for lifecycle in LIFECYCLES {
                let mut peer = Peer::open(&vault.gateway, &token, lifecycle);
                let mut foreign = Peer::open(&elsewhere.gateway, &token, lifecycle);
                for (tool, _) in NOTE_TOOLS {
                    let told = peer.told(tool, "inbox/one.md");
                    assert!(told.contains(&format!("inbox-of-{name}")), "{told}");
                    assert!(!told.contains(other), "{told}");
                    secrets.assert_absent(tool, told.as_bytes());
                    // Whether or not there is such a note over there.
                    for path in ["inbox/one.md", "inbox/none.md", "inbox"] {
                        assert_eq!(
                            foreign.told(tool, path),
                            refusal("Upstream 404"),
                            "{role} {path}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn one_call_reads_once_and_changes_nothing() {
    let hosted = Hosted::new(BINARY);
    let vault = Vault::start(&hosted, "garden", &[], &[]);
    let token = mint(&hosted, "garden").token(Alg::Es256);
    let before = vault.tree();
    let mut reads = 0;
    for lifecycle in LIFECYCLES {
        let mut peer = Peer::open(&vault.gateway, &token, lifecycle);
        peer.request("tools/list", json!({})).unwrap();
        assert_eq!(vault.journal().len(), reads, "opening and listing read nothing");
        for (tool, _) in NOTE_TOOLS {
            for (path, outcome) in [("inbox/one.md", "ok"), ("inbox/none.md", "not_found")] {
                peer.told(tool, path);
                reads += 1;
                let journal = vault.journal();
                assert_eq!(journal.len(), reads);
                let last = journal.last().unwrap();
                assert_eq!(
                    (&last["subject"], &last["outcome"]),
                    (&json!("ann"), &json!(outcome)),
                    "{last}"
                );
                assert_eq!(last["path"], format!("/{path}"));
                assert!(last["token"].is_string());
            }
            peer.told(tool, "../one.md");
            assert_eq!(vault.journal().len(), reads, "a refused path is not asked for");
        }
    }
    assert_eq!(vault.tree(), before);
}

#[test]
fn one_call_makes_one_request_and_never_asks_for_a_list() {
    let hosted = Hosted::new(BINARY);
    let upstream = Upstream::start(Behaviour::always(Note::note(&json!({}), "# A\n")));
    let gateway = hosted.gateway(&upstream.url(), &[]);
    let token = mint(&hosted, "garden").token(Alg::Es256);
    let behaviours = [
        Behaviour::always(Note::note(&json!({}), "# A\n")),
        Behaviour::always(Note::refusal(404, "none")),
        Behaviour::always(Note::refusal(503, "later").with_header("Retry-After", "0")),
        Behaviour::always(Note::bytes(200, "application/json", "{")),
        Behaviour::cut_in_body(),
    ];
    for behaviour in behaviours {
        upstream.set(behaviour);
        for lifecycle in LIFECYCLES {
            let mut peer = Peer::open(&gateway, &token, lifecycle);
            for (tool, _) in NOTE_TOOLS {
                peer.told(tool, "inbox/one.md");
                let asked = upstream.take_requests();
                let [asked] = asked.as_slice() else { panic!("{} requests", asked.len()) };
                assert_eq!(
                    (asked.method.as_str(), asked.target.as_str()),
                    ("GET", "/api/v1/notes/inbox%2Fone.md")
                );
                assert!(asked.body.is_empty());
            }
        }
    }
}

#[test]
fn the_next_call_sees_edits_and_deletions() {
    let hosted = Hosted::new(BINARY);
    let vault = Vault::start(&hosted, "garden", &[], &[]);
    let mut peer = Peer::open(
        &vault.gateway,
        &mint(&hosted, "garden").token(Alg::Es256),
        Lifecycle::Session("2025-11-25"),
    );
    for (tool, _) in NOTE_TOOLS {
        let first = peer.told(tool, "inbox/one.md");
        for round in 0..3 {
            write(&vault.rig, "inbox/one.md", note(&format!("round-{round}"), "garden"));
            let told = peer.told(tool, "inbox/one.md");
            assert!(told.contains(&format!("round-{round}")), "{told}");
            assert_eq!(
                peer.told(tool, "inbox/one.md"),
                told,
                "an unchanged note tells the same bytes"
            );
        }
        std::fs::remove_file(vault.rig.root.join("inbox/one.md")).unwrap();
        assert_eq!(peer.told(tool, "inbox/one.md"), refusal("Upstream 404"));
        write(&vault.rig, "inbox/one.md", note("inbox-of-garden", "other"));
        assert_eq!(peer.told(tool, "inbox/one.md"), first);
    }
}

#[test]
fn the_server_with_the_notes_decides_on_scopes() {
    let hosted = Hosted::new(BINARY);
    let vault = Vault::start(&hosted, "garden", &[], &[]);
    let scoped = |scope: &str| {
        hosted.issuer.mint("ann", AUDIENCE).vault("garden").scope(scope).token(Alg::Es256)
    };
    assert_scopes_bind(&vault, scoped);
}

/// Asserts which notes a caller may read through the gateway of a vault, for each `scope` claim.
fn assert_scopes_bind(vault: &Vault, scoped: impl Fn(&str) -> String) {
    for (scope, allowed) in [
        ("read:/", &["inbox/one.md", "work/plan.md", "private/diary.md"][..]),
        ("write:/", &["inbox/one.md", "work/plan.md", "private/diary.md"]),
        ("read:/work/", &["work/plan.md"]),
        ("read:/work/* read:/inbox/one.md", &["work/plan.md", "inbox/one.md"]),
        ("read:/WORK/", &[]),
        ("read:/work", &["work/plan.md"]),
        ("read:/wor", &[]),
        ("read:/work/ nonsense", &[]),
        ("", &[]),
    ] {
        let mut peer = Peer::open(&vault.gateway, &scoped(scope), Lifecycle::Session("2025-11-25"));
        for path in ["inbox/one.md", "work/plan.md", "private/diary.md", "private/none.md"] {
            for (tool, _) in NOTE_TOOLS {
                let told = peer.told(tool, path);
                if allowed.contains(&path) {
                    assert!(told.starts_with("{\"schema\""), "{scope} {path} {told}");
                } else if path == "private/none.md" && ["read:/", "write:/"].contains(&scope) {
                    assert_eq!(told, refusal("Upstream 404"));
                } else {
                    assert_eq!(
                        told,
                        refusal("Upstream 403"),
                        "{scope} {path}: the same whether or not it is there"
                    );
                }
            }
        }
    }
}

#[test]
fn with_an_identity_provider_only_the_gateway_has_note_tools() {
    let hosted = Hosted::new(BINARY);
    let vault = Vault::start(&hosted, "garden", &[], &[]);
    let local = vault.rig.serve(&[]);
    let mut files: Vec<_> =
        stile_tools::space::FILE_TOOLS.iter().map(|tool| tool.name.replace('.', "_")).collect();
    files.sort();
    let token =
        hosted.issuer.mint("ann", AUDIENCE).role("admin").scope("write:/").token(Alg::Es256);
    for lifecycle in LIFECYCLES {
        let mut hosted = Peer::open(&vault.origin, &token, lifecycle);
        let mut own = Peer::open(&local, &vault.rig.token(&["write:/"], &[]), lifecycle);
        let listed = |peer: &mut Peer| -> Vec<String> {
            let tools = peer.request("tools/list", json!({})).unwrap()["result"]["tools"].clone();
            tools
                .as_array()
                .unwrap()
                .iter()
                .map(|tool| tool["name"].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(listed(&mut hosted), files);
        let all = listed(&mut own);
        for (tool, _) in NOTE_TOOLS {
            assert!(all.iter().any(|name| name == tool));
            assert_eq!(
                hosted.call(tool, &json!({ "path": "inbox/one.md" }))["error"]["code"],
                -32602
            );
            assert!(own.told(tool, "inbox/one.md").starts_with("{\"schema\""));
        }
    }
}

#[test]
fn only_the_shared_secret_opens_the_route() {
    let hosted = Hosted::new(BINARY);
    let secret = hosted.file("secret", "gateway-secret-5c2a");
    let wrong = hosted.file("wrong", "gateway-secret-5c2b");
    let vault = Vault::start(
        &hosted,
        "garden",
        &["--gateway-secret-file", &secret],
        &["--gateway-secret-file", &secret],
    );
    let upstream = format!("http://{}", vault.origin.address);
    let (without, with_wrong) = (
        hosted.gateway(&upstream, &[]),
        hosted.gateway(&upstream, &["--gateway-secret-file", &wrong]),
    );
    let token = mint(&hosted, "garden").token(Alg::Es256);
    for (tool, _) in NOTE_TOOLS {
        let told = |gateway| {
            Peer::open(gateway, &token, Lifecycle::Sessionless).told(tool, "inbox/one.md")
        };
        assert!(told(&vault.gateway).contains("inbox-of-garden"));
        assert_eq!(told(&without), refusal("Upstream 403"));
        assert_eq!(told(&with_wrong), refusal("Upstream 403"));
    }
    assert_eq!(vault.journal().len(), NOTE_TOOLS.len(), "without the secret nothing is read");
}

#[test]
fn a_gateway_with_its_own_credential_reads_in_the_users_names() {
    let hosted = Hosted::new(BINARY);
    let own = hosted
        .issuer
        .mint("the-gateway", AUDIENCE)
        .scope("read:/inbox/")
        .expires_in(3000)
        .token(Alg::Rs256);
    let file = hosted.file("token", &own);
    let flags = [
        "--upstream-credential", "own", "--upstream-token-file", &file, "--upstream-audience",
        "https://else",
    ];
    let vault = Vault::start(&hosted, "garden", &["--trust-gateway", "the-gateway"], &flags);
    // The user may read every note, and the gateway may not.
    let user =
        hosted.issuer.mint("ann", AUDIENCE).vault("garden").scope("read:/").token(Alg::Es256);
    for lifecycle in LIFECYCLES {
        let mut peer = Peer::open(&vault.gateway, &user, lifecycle);
        for (tool, _) in NOTE_TOOLS {
            assert!(peer.told(tool, "inbox/one.md").contains("inbox-of-garden"));
            assert_eq!(peer.told(tool, "private/diary.md"), refusal("Upstream 403"));
        }
        let elsewhere = hosted.issuer.mint("ann", AUDIENCE).vault("kitchen").scope("read:/");
        let elsewhere = elsewhere.token(Alg::Es256);
        let mut peer = Peer::open(&vault.gateway, &elsewhere, lifecycle);
        assert_eq!(peer.told("get_note_outline", "inbox/one.md"), refusal("Upstream 404"));
    }
    assert!(vault.journal().iter().all(|line| line["subject"] == "ann"));

    // Another gateway's subject, and an origin that trusts nobody.
    for trust in [&[][..], &["--trust-gateway", "another"], &["--trust-gateway", "ann"]] {
        let rig = hosted.rig("distrustful");
        write(&rig, "inbox/one.md", "# A\n");
        let origin = hosted.origin(&rig, &[&["--vault", "garden"], trust].concat());
        let gateway = hosted.gateway(&format!("http://{}", origin.address), &flags);
        let mut peer = Peer::open(&gateway, &user, Lifecycle::Sessionless);
        assert_eq!(
            peer.told("get_note_outline", "inbox/one.md"),
            refusal("Upstream 403"),
            "{trust:?}"
        );
    }

    let upstream = Upstream::start(Behaviour::always(Note::note(&json!({}), "# A\n")));
    let gateway = hosted.gateway(&upstream.url(), &flags);
    Peer::open(&gateway, &user, Lifecycle::Sessionless).told("get_note_outline", "a.md");
    let asked = upstream.take_requests();
    assert_eq!(asked[0].values("authorization"), [format!("Bearer {own}")]);
    assert_eq!(asked[0].values("x-user-id"), ["ann"]);
}

/// Flags of a gateway that sends its own token, which may read every note.
fn own_credential(hosted: &Hosted) -> Vec<String> {
    let own = hosted.issuer.mint("the-gateway", AUDIENCE).scope("read:/").expires_in(3000);
    let file = hosted.file("token", &own.token(Alg::Es256));
    ["--upstream-credential", "own", "--upstream-token-file", &file].map(str::to_owned).to_vec()
}

#[test]
fn the_path_scopes_of_a_caller_bind_a_gateway_with_its_own_credential() {
    let hosted = Hosted::new(BINARY);
    let own = own_credential(&hosted);
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let trust = ["--trust-gateway", "the-gateway"];
    let vault = Vault::start(&hosted, "garden", &trust, &own);
    let scoped = |scope: &str| {
        // Such a token need not be for the server with the notes.
        hosted.issuer.mint("ann", AUDIENCE).vault("garden").scope(scope).token(Alg::Es256)
    };
    assert_scopes_bind(&vault, scoped);

    // A note out of scope is refused before anything is sent.
    let upstream = Upstream::start(Behaviour::always(Note::note(&json!({}), "# A\n")));
    let gateway = hosted.gateway(&upstream.url(), &own);
    for lifecycle in LIFECYCLES {
        let mut peer = Peer::open(&gateway, &scoped("read:/work/ write:/b"), lifecycle);
        for path in ["a.md", "works/a.md", "Work/a.md", "work", "work ", "b/../a.md", "b.md"] {
            for (tool, _) in NOTE_TOOLS {
                let told = peer.told(tool, path);
                let named = if path == "b/../a.md" { "Invalid path" } else { "Upstream 403" };
                let is_read = path.trim() == "work";
                assert_eq!(told == refusal(named), !is_read, "{path}: {told}");
            }
        }
    }
    let targets: Vec<String> =
        upstream.take_requests().into_iter().map(|request| request.target).collect();
    assert!(targets.iter().all(|target| target == "/api/v1/notes/work"), "{targets:?}");
}

#[test]
fn a_gateway_leaves_path_scopes_to_its_upstream_only_if_its_operator_says_so() {
    let hosted = Hosted::new(BINARY);
    let own = own_credential(&hosted);
    let mut flags: Vec<&str> = own.iter().map(String::as_str).collect();
    flags.extend(["--upstream-path-scopes", "no"]);
    let vault = Vault::start(&hosted, "garden", &["--trust-gateway", "the-gateway"], &flags);
    let user = hosted.issuer.mint("ann", AUDIENCE).vault("garden").scope("").token(Alg::Es256);
    let mut peer = Peer::open(&vault.gateway, &user, Lifecycle::Sessionless);
    assert!(peer.told("get_note_outline", "private/diary.md").contains("diary-of-garden"));
}

#[test]
fn one_gateway_reads_two_vaults_from_the_servers_that_have_them() {
    let hosted = Hosted::new(BINARY);
    let [garden, kitchen] = ["garden", "kitchen"].map(|name| Vault::start(&hosted, name, &[], &[]));
    let of = |name: &str, vault: &Vault| format!("{name}=http://{}", vault.origin.address);
    let gateway = hosted.gateway(&of("garden", &garden), &["--upstream", &of("kitchen", &kitchen)]);
    for lifecycle in LIFECYCLES {
        for name in ["garden", "kitchen"] {
            let token = mint(&hosted, name).scope("read:/work/").token(Alg::Es256);
            let mut peer = Peer::open(&gateway, &token, lifecycle);
            for (tool, _) in NOTE_TOOLS {
                assert!(peer.told(tool, "work/plan.md").contains(&format!("plan-of-{name}")));
                assert_eq!(peer.told(tool, "inbox/one.md"), refusal("Upstream 403"));
            }
        }
    }
    for vault in [&garden, &kitchen] {
        assert_eq!(vault.journal().len(), 2 * LIFECYCLES.len() * NOTE_TOOLS.len());
    }
}

/// A read over the route itself, with these headers and no others.
fn read(origin: &Server, method: &str, target: &str, headers: &[(&str, &str)]) -> Reply {
    let headers: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request =
        format!("{method} {target} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", origin.address);
    origin.client("").send(request.as_bytes()).unwrap()
}

/// What a read is answered with, and what code, that comes with these headers.
type Case<'a> = (u16, &'a str, Vec<(&'a str, &'a str)>);

#[test]
fn the_route_refuses_headers_that_contradict_its_token() {
    let hosted = Hosted::new(BINARY);
    let secret = hosted.file("secret", "gateway-secret-5c2a");
    let vault = Vault::start(&hosted, "garden", &["--gateway-secret-file", &secret], &[]);
    let bearer = |mint: Mint<'_>| format!("Bearer {}", mint.token(Alg::Es256));
    let good = bearer(mint(&hosted, "garden"));
    let authorization = ("Authorization", good.as_str());
    let (vault_id, user, gateway) =
        (("X-Vault-Id", "garden"), ("X-User-Id", "ann"), ("X-Gateway-Auth", "gateway-secret-5c2a"));
    let expired = bearer(mint(&hosted, "garden").claim("iat", 1).expires_in(-60));
    let narrow = bearer(hosted.issuer.mint("ann", AUDIENCE).scope("read:/work/"));
    let bob = bearer(hosted.issuer.mint("bob", AUDIENCE).scope("read:/"));
    let foreign = bearer(hosted.issuer.mint("ann", "https://else").scope("read:/"));
    // Users of one vault who come around the gateway and say that they are of another.
    let kitchen = bearer(mint(&hosted, "kitchen"));
    let both = bearer(
        hosted
            .issuer
            .mint("ann", AUDIENCE)
            .claim("vault", json!(["garden", "kitchen"]))
            .scope("read:/"),
    );
    let of_none = bearer(hosted.issuer.mint("ann", AUDIENCE).scope("read:/"));
    let cases: Vec<Case<'_>> = vec![
        (200, "", vec![authorization, vault_id, user, gateway]),
        (200, "", vec![gateway, user, vault_id, ("authorization", &good)]),
        (200, "", vec![("Authorization", &of_none), vault_id, user, gateway]),
        (404, "not_found", vec![("Authorization", &kitchen), vault_id, user, gateway]),
        (404, "not_found", vec![("Authorization", &both), vault_id, user, gateway]),
        (401, "unauthorized", vec![vault_id, user, gateway]),
        (401, "unauthorized", vec![("Authorization", "Bearer none"), vault_id, user, gateway]),
        (401, "unauthorized", vec![("Authorization", &expired), vault_id, user, gateway]),
        (401, "unauthorized", vec![("Authorization", &foreign), vault_id, user, gateway]),
        (401, "unauthorized", vec![authorization, authorization, vault_id, user, gateway]),
        (403, "gateway_required", vec![authorization, vault_id, user]),
        (403, "gateway_required", vec![authorization, vault_id, user, gateway, gateway]),
        (
            403,
            "gateway_required",
            vec![authorization, vault_id, user, ("X-Gateway-Auth", "gateway-secret-5c2b")],
        ),
        (
            403,
            "gateway_required",
            vec![authorization, vault_id, user, ("X-Gateway-Auth", "gateway-secret-5c2")],
        ),
        (403, "gateway_required", vec![authorization, vault_id, user, ("X-Gateway-Auth", "")]),
        (
            403,
            "gateway_required",
            vec![authorization, ("X-Vault-Id", "kitchen"), ("X-User-Id", "bob")],
        ),
        (404, "not_found", vec![authorization, user, gateway]),
        (404, "not_found", vec![authorization, ("X-Vault-Id", "kitchen"), user, gateway]),
        (404, "not_found", vec![authorization, ("X-Vault-Id", "Garden"), user, gateway]),
        (404, "not_found", vec![authorization, ("X-Vault-Id", ""), user, gateway]),
        (404, "not_found", vec![authorization, ("X-Vault-Id", "garden, garden"), user, gateway]),
        (404, "not_found", vec![authorization, vault_id, vault_id, user, gateway]),
        (404, "not_found", vec![authorization, vault_id, ("x-vault-id", "kitchen"), user, gateway]),
        (403, "other_user", vec![authorization, vault_id, gateway]),
        (403, "other_user", vec![authorization, vault_id, ("X-User-Id", "bob"), gateway]),
        (403, "other_user", vec![authorization, vault_id, ("X-User-Id", "Ann"), gateway]),
        (403, "other_user", vec![authorization, vault_id, ("X-User-Id", ""), gateway]),
        (403, "other_user", vec![authorization, vault_id, user, user, gateway]),
        (403, "other_user", vec![authorization, vault_id, user, ("x-user-id", "bob"), gateway]),
        (403, "other_user", vec![("Authorization", &bob), vault_id, user, gateway]),
        (403, "insufficient_scope", vec![("Authorization", &narrow), vault_id, user, gateway]),
    ];
    let target = "/api/v1/notes/inbox%2Fone.md";
    for (status, code, headers) in &cases {
        let reply = read(&vault.origin, "GET", target, headers);
        assert_eq!(reply.status, *status, "{headers:?} {reply:?}");
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        if *status == 200 {
            assert_eq!(
                reply.json()["frontmatter"],
                json!({ "title": "inbox-of-garden", "project": "inbox-of-garden" })
            );
            assert_eq!(reply.json()["body"], "# inbox-of-garden\n\nbody-of-garden");
            assert_eq!(reply.json()["path"], "inbox/one.md");
        } else {
            assert_eq!(reply.json()["error"], *code, "{headers:?}");
            assert!(!String::from_utf8_lossy(&reply.bytes()).contains("of-garden"));
            // Nothing tells a note that is there from one that is not.
            let absent = read(&vault.origin, "GET", "/api/v1/notes/inbox%2Ftwo.md", headers);
            let words =
                |reply: &Reply| String::from_utf8_lossy(&reply.body).replace("two.md", "one.md");
            assert_eq!((absent.status, words(&absent)), (reply.status, words(&reply)));
        }
        let head = read_head(&vault.origin, target, headers);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert!(head.ends_with("\r\n\r\n"), "a HEAD has no body: {head}");
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            let more = [headers.as_slice(), &[("Content-Length", "0")]].concat();
            assert_eq!(read(&vault.origin, method, target, &more).status, 405, "{method}");
        }
    }
    let challenge = read(&vault.origin, "GET", target, &cases.last().unwrap().2);
    let expected = format!(
        "Bearer error=\"insufficient_scope\", error_description=\"the token does not cover this \
         call, which needs all of these scopes\", scope=\"read:/inbox/one.md\", \
         resource_metadata=\"http://{}/.well-known/oauth-protected-resource\"",
        vault.origin.address
    );
    assert_eq!(challenge.header("www-authenticate"), Some(expected.as_str()));
}

/// All that a `HEAD` is answered with, until the server closes.
fn read_head(origin: &Server, target: &str, headers: &[(&str, &str)]) -> String {
    use std::io::{Read as _, Write as _};
    let headers: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut stream = std::net::TcpStream::connect(origin.address).unwrap();
    let request = format!(
        "HEAD {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}\r\n",
        origin.address
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_route_reads_only_notes_of_the_space() {
    let hosted = Hosted::new(BINARY);
    let vault = Vault::start(&hosted, "garden", &[], &[]);
    let rig = &vault.rig;
    std::fs::write(hosted.folder().join("outside.md"), "# outside-canary\n").unwrap();
    write(rig, "binary.md", b"# A\n\xff\xfe");
    write(rig, "large.md", vec![b'a'; 4 * 1024 * 1024 + 1]);
    write(rig, "full.md", vec![b'a'; 4 * 1024 * 1024]);
    write(rig, "100%25/%2e%2e%2fone.md", "# odd\n");
    write(rig, "a b?c#d&e+f.md", "# odd\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink(hosted.folder().join("outside.md"), rig.root.join("link.md")).unwrap();
        symlink(hosted.folder(), rig.root.join("way")).unwrap();
        symlink("one.md", rig.root.join("inbox/near.md")).unwrap();
    }
    let bearer = format!("Bearer {}", mint(&hosted, "garden").token(Alg::Es256));
    let headers =
        [("Authorization", bearer.as_str()), ("X-Vault-Id", "garden"), ("X-User-Id", "ann")];
    let before = vault.tree();
    for (status, segment) in [
        (200, "inbox%2Fone.md"),
        (200, "inbox%2fone.md"),
        (200, "%69nbox%2Fone%2Emd"),
        (200, "inbox%2F%2Fone.md"),
        (200, "inbox%5Cone.md"),
        (200, "%20inbox%2Fone.md%20"),
        (200, "full.md"),
        (200, "a%20b%3Fc%23d%26e%2Bf.md"),
        (200, "a%20b%3Fc%23d%26e+f.md"),
        (200, "100%2525%2F%252e%252e%252fone.md"),
        (404, "inbox/one.md"),
        (404, "inbox%2Fone.md/"),
        (404, "inbox%2FOne.md"),
        (404, "inbox%2Fnone.md"),
        (404, "none%2Fone.md"),
        (404, "inbox%2Fone.md%2Fone.md"),
        (404, "inbox"),
        (404, "inbox%2F"),
        (404, "binary.md"),
        (404, "link.md"),
        (404, "way%2Foutside.md"),
        (404, "inbox%2Fnear.md"),
        (404, "%252e%252e%252foutside.md"),
        (404, "..%252foutside.md"),
        (404, ""),
        (404, "../../../health"),
        (413, "large.md"),
        (400, ".."),
        (400, "%2e%2e"),
        (400, "..%2foutside.md"),
        (400, "%2e%2e%2f%2e%2e%2foutside.md"),
        (400, "%2E%2E%5Coutside.md"),
        (400, "inbox%2f..%2f..%2foutside.md"),
        (400, "inbox%2F..%2Fwork%2Fplan.md"),
        (400, "%2Fetc%2Fpasswd"),
        (400, "%5C%5Cserver%5Cshare"),
        (400, "C%3A%2Foutside.md"),
        (400, "c:outside.md"),
        (400, "%20"),
        (400, "a%00.md"),
        (400, "a%0A.md"),
        (400, "%ff.md"),
        (400, "%c0%ae%c0%ae%c0%afoutside.md"),
    ] {
        let target = format!("/api/v1/notes/{segment}");
        let reply = read(&vault.origin, "GET", &target, &headers);
        assert_eq!(
            reply.status,
            status,
            "{segment}: {}",
            String::from_utf8_lossy(&reply.body[..reply.body.len().min(300)])
        );
        let text = String::from_utf8_lossy(&reply.body);
        assert!(!text.contains("outside-canary"));
        if status != 200 && !segment.contains('/') && !segment.is_empty() {
            let code = match status {
                400 => "invalid_path",
                404 => "not_found",
                _ => "too_large",
            };
            assert_eq!(reply.json()["error"], code, "{segment}");
            assert!(
                !text.contains("outside") && !text.contains(&*hosted.folder().to_string_lossy()),
                "{text}"
            );
        }
        if !segment.contains('/') && !segment.is_empty() {
            let nobody = read(&vault.origin, "GET", &target, &headers[1..]);
            assert_eq!(nobody.status, 401, "{segment}: who asks comes before what is asked for");
        }
    }
    assert_eq!(vault.tree(), before);
    let outcomes: Vec<Value> = vault.journal().iter().map(|line| line["outcome"].clone()).collect();
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == json!("ok")).count(), 10);
    assert!(outcomes.contains(&json!("too_large")) && outcomes.contains(&json!("not_found")));
}

#[test]
fn no_other_route_leads_to_a_note() {
    let hosted = Hosted::new(BINARY);
    let vault = Vault::start(&hosted, "garden", &[], &[]);
    let bearer = format!("Bearer {}", mint(&hosted, "garden").role("admin").token(Alg::Es256));
    let headers =
        [("Authorization", bearer.as_str()), ("X-Vault-Id", "garden"), ("X-User-Id", "ann")];
    for target in [
        "/api/v1/notes", "/api/v1/notes/", "/api/v1/", "/api/v1/notes?list", "/api/v2/notes/a.md",
        "/v1/notes/a.md",
    ] {
        assert_eq!(read(&vault.origin, "GET", target, &headers).status, 404, "{target}");
    }
    // The gateway has no notes to give.
    for target in ["/api/v1/notes/inbox%2Fone.md", "/api/v1/notes", "/metrics"] {
        assert_eq!(read(&vault.gateway, "GET", target, &headers).status, 404, "{target}");
    }
    // `/` is `/mcp`.
    for target in ["/", "/mcp"] {
        assert_eq!(read(&vault.gateway, "GET", target, &headers).status, 400, "{target}");
    }
    assert!(Path::new(&vault.rig.root).exists());
}
