//! What a role may list and call in the gateway, and that there is nothing else.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use stile_domain::role::Role;
use stile_domain::tool_name::Spelling;
use stile_testkit::client::McpClient;
use stile_testkit::hosted::{AUDIENCE, Hosted, LIFECYCLES, Lifecycle, NOTE_TOOLS, Peer, refusal};
use stile_testkit::issuer::Alg;
use stile_testkit::schema;
use stile_testkit::upstream::{Behaviour, Reply, Upstream};
use stile_tools::remote_notes::roles::is_tool_allowed;
use stile_tools::space::SpaceTools;

const BINARY: &str = env!("CARGO_BIN_EXE_stile");

fn upstream() -> Upstream {
    Upstream::start(Behaviour::always(Reply::note(
        &json!({ "title": "One", "project": "Garden" }),
        "# A\n\n## B\n",
    )))
}

/// Claims `role`, each with the role that it counts as.
fn claims() -> Vec<(Option<Value>, Role)> {
    let known = Role::ALL.map(|role| (Some(json!(role.as_str())), role));
    let others = [
        json!("owner"),
        json!("Admin"),
        json!("ADMIN"),
        json!(" admin"),
        json!("admin\n"),
        json!("viewer,admin"),
        json!(""),
        json!(7),
        json!(true),
        json!(null),
        json!(["admin"]),
        json!({ "role": "admin" }),
    ];
    let others = others.map(|claim| (Some(claim), Role::Viewer));
    [&known[..], &others[..], &[(None, Role::Viewer)]].concat()
}

fn token(hosted: &Hosted, role: Option<Value>) -> String {
    let mint = hosted.issuer.mint("ann", AUDIENCE);
    role.map_or(mint.clone(), |role| mint.claim("role", role)).token(Alg::Es256)
}

/// The names of all tools there are, under both spellings, and of some that there are not.
fn names() -> BTreeSet<String> {
    let listed = SpaceTools::built_in().map(|tool| tool.name);
    let spelled = listed.flat_map(|name| {
        [
            name.to_owned(),
            Spelling::Underscored.name(name).into_owned(),
            name.replace('_', "."),
            name.to_uppercase(),
        ]
    });
    spelled
        .chain(["", "no.such", "get_section_sources", "list", "note"].map(str::to_owned))
        .collect()
}

fn listed(peer: &mut Peer) -> Value {
    peer.request("tools/list", json!({})).unwrap()["result"]["tools"].clone()
}

fn listed_names(peer: &mut Peer) -> Vec<String> {
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    listed(peer).as_array().unwrap().iter().map(name).collect()
}

#[test]
fn every_role_lists_and_calls_exactly_the_tools_of_the_table_in_both_lifecycles() {
    let hosted = Hosted::new(BINARY);
    let upstream = upstream();
    let gateway = hosted.gateway(&upstream.url(), &[]);
    let notes = NOTE_TOOLS.map(|(tool, _)| tool);
    for (claim, role) in claims() {
        let allowed: Vec<String> =
            names().into_iter().filter(|name| is_tool_allowed(name, role)).collect();
        assert_eq!(allowed, notes, "{role:?}");
        let token = token(&hosted, claim.clone());
        for lifecycle in LIFECYCLES {
            let mut peer = Peer::open(&gateway, &token, lifecycle);
            assert_eq!(listed_names(&mut peer), notes, "{claim:?} {lifecycle:?}");
            let unknown = peer.call("no.such", &json!({ "path": "a.md" }))["error"].clone();
            assert_eq!(unknown["code"], -32602);
            for name in names() {
                let result = peer.call(&name, &json!({ "path": "a.md" }));
                let reads = upstream.take_requests().len();
                if notes.contains(&name.as_str()) {
                    assert_eq!(
                        (&result["isError"], reads),
                        (&json!(false), 1),
                        "{name} {claim:?}: {result}"
                    );
                } else {
                    assert_eq!(
                        (&result["error"], reads),
                        (&unknown, 0),
                        "{name} {claim:?}: {result}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_gateway_has_no_resource_template_prompt_or_completion() {
    let hosted = Hosted::new(BINARY);
    let upstream = upstream();
    let gateway = hosted.gateway(&upstream.url(), &[]);
    let token =
        hosted.issuer.mint("ann", AUDIENCE).role("admin").scope("write:/").token(Alg::Es256);
    for lifecycle in LIFECYCLES {
        let mut peer = Peer::open(&gateway, &token, lifecycle);
        let said = match lifecycle {
            Lifecycle::Session(_) => peer.greeting["result"].clone(),
            Lifecycle::Sessionless => {
                peer.request("server/discover", json!({})).unwrap()["result"].clone()
            }
        };
        let capabilities = said["capabilities"].as_object().unwrap();
        assert_eq!(capabilities.keys().collect::<Vec<_>>(), ["tools"], "{said}");
        for (method, of) in [
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
            ("prompts/list", "prompts"),
        ] {
            let answer = peer.request(method, json!({})).unwrap();
            let is_none =
                answer["error"]["code"] == json!(-32601) || answer["result"][of] == json!([]);
            assert!(is_none, "{lifecycle:?} {method}: {answer}");
        }
        for uri in [
            "list:///",
            "list:///inbox",
            "note:///a.md",
            "knowtation://section_source/a.md",
            "file:///a.md",
            "",
        ] {
            let answer = peer.request("resources/read", json!({ "uri": uri })).unwrap();
            let told = answer["error"]["data"]["code"] == json!("not_found")
                || answer["error"]["code"] == json!(-32601);
            assert!(told && answer["result"].is_null(), "{lifecycle:?} {uri}: {answer}");
        }
        let prompt = peer.request("prompts/get", json!({ "name": "a.md" })).unwrap();
        assert!(prompt["error"].is_object(), "{prompt}");
        let complete = json!({ "ref": { "type": "ref/prompt", "name": "a" }, "argument": { "name": "path", "value": "a" } });
        let completed = peer.request("completion/complete", complete).unwrap();
        let is_none = completed["error"].is_object()
            || completed["result"]["completion"]["values"] == json!([]);
        assert!(is_none, "{completed}");
    }
    assert!(upstream.requests().is_empty(), "nothing but a tool reads");
}

#[test]
fn the_gateway_lists_the_same_tools_to_every_caller() {
    let hosted = Hosted::new(BINARY);
    let upstream = upstream();
    let plain = hosted.gateway(&upstream.url(), &[]);
    let underscored = hosted.gateway(&upstream.url(), &["--tool-names", "underscored"]);
    let shown = listed(&mut Peer::open(&plain, &token(&hosted, None), Lifecycle::Sessionless));
    insta::assert_snapshot!("tools_gateway", serde_json::to_string_pretty(&shown).unwrap());
    let refusing_dots =
        hosted.issuer.mint("bob", AUDIENCE).claim("client", "Claude Desktop").role("admin");
    for token in
        [refusing_dots.scope("write:/").token(Alg::Rs256), token(&hosted, Some(json!("editor")))]
    {
        for lifecycle in LIFECYCLES {
            for gateway in [&plain, &underscored] {
                assert_eq!(
                    listed(&mut Peer::open(gateway, &token, lifecycle)),
                    shown,
                    "{lifecycle:?}"
                );
            }
        }
    }
    let mut peer = Peer::open(&plain, &token(&hosted, None), Lifecycle::Sessionless);
    let reply = peer.post("tools/list", json!({})).unwrap();
    assert!(reply.body.len() < 24 * 1024);
    assert_eq!(reply.json()["result"]["cacheScope"], "private");
    assert_eq!(reply.json()["result"]["ttlMs"], 0);
}

#[test]
fn the_input_is_exactly_one_path() {
    let hosted = Hosted::new(BINARY);
    let upstream = upstream();
    let gateway = hosted.gateway(&upstream.url(), &[]);
    for lifecycle in LIFECYCLES {
        let mut peer = Peer::open(&gateway, &token(&hosted, None), lifecycle);
        let tools = listed(&mut peer);
        for tool in tools.as_array().unwrap() {
            let name = tool["name"].as_str().unwrap();
            let input = &tool["inputSchema"];
            let properties: Vec<&String> =
                input["properties"].as_object().unwrap().keys().collect();
            assert_eq!(properties, ["path"], "{name}");
            assert_eq!(
                (&input["required"], &input["additionalProperties"]),
                (&json!(["path"]), &json!(false))
            );
            assert_eq!(input["properties"]["path"]["type"], "string");
            assert_eq!(tool["annotations"]["readOnlyHint"], true);
            let mut told =
                |arguments: Value| peer.call(name, &arguments)["structuredContent"].to_string();
            for option in [
                "vault", "vault_id", "vaultId", "X-Vault-Id", "user", "user_id", "userId",
                "canisterUserId", "role", "body", "snippet", "search", "filter", "rank",
                "provider", "scooling", "classroom", "resource", "uri", "persist", "line_range",
                "lines", "byte_offset", "offset", "summary", "paths", "Path", "token", "truncated",
                "",
            ] {
                assert_eq!(
                    told(json!({ "path": "a.md", option: "x" })),
                    refusal("Invalid arguments"),
                    "{option}"
                );
                assert_eq!(
                    told(json!({ "path": "a.md", option: null })),
                    refusal("Invalid arguments"),
                    "{option}"
                );
            }
            for path in [
                json!(null),
                json!(7),
                json!(true),
                json!(["a.md"]),
                json!({ "path": "a.md" }),
                json!(""),
            ] {
                assert_eq!(told(json!({ "path": path })), refusal("Invalid path"), "{path}");
            }
            assert_eq!(told(json!({})), refusal("Invalid path"));
            assert_eq!(told(json!(null)), refusal("Invalid path"));
        }
    }
    assert!(upstream.requests().is_empty(), "what is refused is never asked for");
}

#[test]
fn an_unsafe_path_is_refused_before_any_request_and_never_repeated() {
    let hosted = Hosted::new(BINARY);
    let upstream = upstream();
    let gateway = hosted.gateway(&upstream.url(), &[]);
    let mut peer = Peer::open(&gateway, &token(&hosted, None), Lifecycle::Sessionless);
    for (tool, _) in NOTE_TOOLS {
        for path in [
            "", " ", "\t\n", "/", "//", "/Users/ann/private.md", "\\\\server\\share\\a.md",
            "\\a.md", "C:/Users/ann/private.md", "c:\\private.md", "C:private.md", "..", "../a.md",
            "a/../../b.md", "a/..", "a\\..\\b.md", " ../a.md", "\u{a0}/etc/passwd",
            "\u{feff}/etc/passwd", "a/\u{0}.md",
        ] {
            assert_eq!(peer.told(tool, path), refusal("Invalid path"), "{path:?}");
        }
        assert!(upstream.take_requests().is_empty());
        for (path, target) in [
            ("a.md", "a.md"),
            ("  inbox\\one.md ", "inbox%2Fone.md"),
            ("inbox//one.md", "inbox%2Fone.md"),
            ("inbox/a b?c#d%2e.md", "inbox%2Fa%20b%3Fc%23d%252e.md"),
            ("a/.../b.md", "a%2F...%2Fb.md"),
        ] {
            let told: Value = serde_json::from_str(&peer.told(tool, path)).unwrap();
            let asked = upstream.take_requests();
            let targets: Vec<&str> = asked.iter().map(|request| request.target.as_str()).collect();
            assert_eq!(targets, [format!("/api/v1/notes/{target}")], "{path}");
            assert_eq!(
                told["path"].as_str(),
                asked[0].note().as_deref(),
                "the path is the one that was asked for"
            );
        }
    }
}

#[test]
fn every_answer_of_the_gateway_fits_its_advertised_schema() {
    let hosted = Hosted::new(BINARY);
    let upstream = upstream();
    let gateway = hosted.gateway(&upstream.url(), &[]);
    let mut peer = Peer::open(&gateway, &token(&hosted, None), Lifecycle::Session("2025-11-25"));
    let tools = listed(&mut peer);
    let behaviours = [
        Behaviour::always(Reply::note(&json!({}), "")),
        Behaviour::always(Reply::note(&json!(null), "no heading")),
        Behaviour::always(Reply::note(
            &json!({ "title": "T", "tags": ["a", 2], "date": "2025-01-02" }),
            "# A\n# A\n",
        )),
        Behaviour::always(Reply::note(
            &json!({ "title": ["x"], "tags": "one, two" }),
            &"## H\n".repeat(600),
        )),
        Behaviour::always(Reply::refusal(404, "canary")),
        Behaviour::always(Reply::bytes(200, "text/html", "<html>")),
        Behaviour::CloseAtOnce,
        Behaviour::Refuse,
    ];
    let mut outcomes = BTreeSet::new();
    for behaviour in behaviours {
        upstream.set(behaviour);
        for tool in tools.as_array().unwrap() {
            for arguments in [
                json!({ "path": "a/b.md" }),
                json!({ "path": "/a" }),
                json!({ "path": "a", "b": 1 }),
            ] {
                let result = peer.call(tool["name"].as_str().unwrap(), &arguments);
                let fits = schema::check(&tool["outputSchema"], &result["structuredContent"]);
                assert_eq!(fits, Ok(()), "{result}");
                outcomes.insert(
                    result["structuredContent"]["error"].as_str().unwrap_or("none").to_owned(),
                );
            }
        }
    }
    let seen: Vec<&str> = outcomes.iter().map(String::as_str).collect();
    let expected = [
        "Invalid arguments", "Invalid path", "Upstream 404", "Upstream invalid response",
        "Upstream unavailable", "none",
    ];
    assert_eq!(seen, expected);
}

/// Notes in which the two ways could come apart, if they did: the front matter travels as JSON in
/// one of them.
const NOTES: [(&str, &str); 14] = [
    ("plain.md", "# A\n\ntext\n\n## B\n\n# A\n"),
    ("empty.md", ""),
    (
        "inbox/front.md",
        "---\ntitle: Front\ntags: [a, 2, 1.50, true, ~]\nproject: Garden\ndate: 2025-03-01\n---\n# A\n",
    ),
    (
        "inbox/dates.md",
        "---\ndate: '2025-03-01'\nupdated: 2025-03-01T10:00:00Z\ntime: 10:30\n---\n\nSetext\n===\n",
    ),
    (
        "numbers.md",
        "---\ntitle: 007\nproject: 1e3\ntags: 0x1F\ncausal_chain_id: 1_000\nentity: [.5, 1., -0]\n---\n",
    ),
    ("words.md", "---\ntitle: yes\nproject: null\ntags: ~\nentity: [on, True, NULL]\n---\n# No\n"),
    ("twice.md", "---\ntitle: A\ntitle: B\n---\n# A\n"),
    ("broken.md", "---\ntitle: [unclosed\n---\n# A\n"),
    ("open.md", "---\ntitle: never closed\n# A\n"),
    ("crlf.md", "---\r\ntitle: Windows\r\n---\r\n\r\n# A\r\n\r\n```\r\n# not\r\n```\r\n"),
    ("mark.md", "\u{feff}---\ntitle: Mark\n---\n# A\n"),
    ("list.md", "---\n- a\n- b\n---\n# A\n"),
    (
        "folder with space/\u{898b}\u{51fa}\u{3057} \u{1f680}.md",
        "# \u{898b}\u{51fa}\u{3057}\n\n> ## Quoted \"x\" \\ <b>\n\n\u{7}\n",
    ),
    ("100%/a%2fb?c#d&e+f.md", "   \n\n# trailing   #  \n\n  \n\u{a0}\n"),
];

#[test]
fn the_gateway_answers_the_same_bytes_as_the_upstreams_command_line() {
    let hosted = Hosted::new(BINARY);
    let rig = hosted.rig("origin");
    for (path, text) in NOTES {
        let file = rig.root.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let origin = hosted.origin(&rig, &[]);
    let gateway = hosted.gateway(&format!("http://{}", origin.address), &[]);
    let token = hosted.issuer.mint("ann", AUDIENCE).scope("read:/").token(Alg::Es256);
    let mut peers = LIFECYCLES.map(|lifecycle| Peer::open(&gateway, &token, lifecycle));
    for (path, _) in NOTES {
        for (tool, command) in NOTE_TOOLS {
            let mut note = rig.command(&["note", command, path, "--root"]);
            let ran = note.arg(&rig.root).arg("--state").arg(&rig.state).output().unwrap();
            assert!(ran.status.success(), "{path} {ran:?}");
            let expected = String::from_utf8(ran.stdout).unwrap();
            for peer in &mut peers {
                assert_eq!(format!("{}\n", peer.told(tool, path)), expected, "{path}");
            }
        }
    }
}
