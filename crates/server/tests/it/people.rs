//! People who each have a space and records of their own: what their operator and they themselves
//! do with these, and that nobody reaches what another one has.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stile_testkit::client::{Http, Reply};
use stile_testkit::issuer::Issuer;
use stile_testkit::issuer::openid::CLIENT_ID;
use stile_testkit::postgres::{PostgresServer, SERVERS_ROLE, TestDatabase};
use stile_testkit::process::{Rig, Server};

use crate::sign_in_kit::{Browser, ScriptedClient, fetch, form_to, location, parameter, text_of};

const AUDIENCE: &str = "https://notes.example/mcp";
const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";
const FORM: &str = "application/x-www-form-urlencoded";

/// A server that gives each person a space, and its operator.
struct Hosted {
    folder: tempfile::TempDir,
    database: TestDatabase,
    server: Server,
    issuer: Option<Issuer>,
}

/// Makes the tables as their owner, for servers with a role of their own.
fn prepare(rig: &Rig, database: &TestDatabase) {
    let mut command = rig.command(&["database", "prepare", "--servers-role", SERVERS_ROLE]);
    let done = command.env("STILE_DATABASE", database.address()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(said.contains(&format!("`{SERVERS_ROLE}` reads and writes their rows")), "{said}");
}

impl Hosted {
    /// Starts a server whose people get tokens and links of the operator. `None` without
    /// PostgreSQL.
    fn start(test: &str) -> Option<Self> {
        Self::with(test, None)
    }

    /// Starts a server whose people sign in at an identity provider.
    fn start_with_provider(test: &str) -> Option<Self> {
        Self::with(test, Some(Issuer::start()))
    }

    fn with(test: &str, issuer: Option<Issuer>) -> Option<Self> {
        let database = PostgresServer::shared(test)?.database();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("people")).unwrap();
        let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
        prepare(&rig, &database);
        let server = Self::serve((&rig, folder.path()), &database, issuer.as_ref());
        Some(Self { folder, database, server, issuer })
    }

    fn serve(
        (rig, folder): (&Rig, &Path),
        database: &TestDatabase,
        issuer: Option<&Issuer>,
    ) -> Server {
        let mut command = rig.command(&["serve", "--listen", "127.0.0.1:0", "--spaces"]);
        command.arg(folder.join("people"));
        command.arg("--state").arg(folder.join("server"));
        if let Some(issuer) = issuer {
            command.args(["--jwks", &issuer.jwks_url(), "--issuer", &issuer.url()]);
            command.args(["--audience", AUDIENCE, "--sign-in-client", CLIENT_ID]);
        }
        command.env("STILE_DATABASE", database.servers_address());
        Server::start(command)
    }

    /// Stops the server, does `work`, and starts the server again. Returns what the first one said.
    fn stopped_for(self, work: impl FnOnce(&Path)) -> (Self, String) {
        let Self { folder, database, server, issuer } = self;
        let (_, log) = server.stop();
        work(folder.path());
        let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
        let server = Self::serve((&rig, folder.path()), &database, issuer.as_ref());
        (Self { folder, database, server, issuer }, String::from_utf8(log).unwrap())
    }

    /// Returns the answer of a tool to a client with this token.
    fn call(&self, token: &str, tool: &str, arguments: &Value) -> Value {
        let call = json!({ "name": tool, "arguments": arguments });
        let reply = Http::new(self.server.address, token).post("tools/call", call).unwrap();
        assert_eq!(reply.status, 200, "{}", text_of(&reply));
        reply.json()["result"].clone()
    }

    /// Calls a tool until its refusal has these words. A server relies on its last look at a folder
    /// for a second.
    fn call_until(&self, token: &str, words: &str) {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let answer = self.call(token, "file.list", &json!({}));
            if answer["isError"] == true && answer.to_string().contains(words) {
                return;
            }
            assert!(Instant::now() < until, "{answer}");
        }
    }

    fn people(&self) -> PathBuf {
        self.folder.path().join("people")
    }

    fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.run_at(&self.database.servers_address(), arguments)
    }

    fn run_at(&self, address: &str, arguments: &[&str]) -> Output {
        let rig = Rig::below(self.folder.path(), env!("CARGO_BIN_EXE_stile"));
        let mut command = rig.command(arguments);
        command.arg("--state").arg(self.folder.path().join("desk"));
        command.env("STILE_DATABASE", address);
        if let Some(issuer) = &self.issuer {
            command.env("STILE_ISSUER", issuer.url());
        }
        command.output().unwrap()
    }

    /// Runs a command of the operator that must succeed, and returns what it prints.
    fn stile(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Makes a person with two records.
    fn person(&self, name: &str) -> String {
        let id = self.stile(&["person", "add", name]);
        let rows = self.folder.path().join("rows.jsonl");
        let row = |key: &str| json!({ "id": key, "text": format!("the heron of {name}") });
        std::fs::write(&rows, format!("{}\n{}\n", row("1"), row("2"))).unwrap();
        let file = rows.to_str().unwrap();
        let of = ["import", file, "--connection", "mail", "--stream", "letters", "--person", name];
        self.stile(&of);
        id
    }

    fn grant(&self, name: &str) -> String {
        let of = ["grant", "create", "--client", "agent", "--stream", "letters", "--person", name];
        self.stile(&of)
    }

    fn send(&self, method: &str, path: &str, token: &str, body: (&str, &str)) -> Reply {
        let authorization = format!("Bearer {token}");
        let headers = [("Authorization", authorization.as_str()), ("Content-Type", body.0)];
        fetch(method, &(self.url() + path), &headers, body.1)
    }

    fn get(&self, token: &str, path: &str) -> Reply {
        self.send("GET", path, token, (JSON, ""))
    }

    /// Returns the texts of the letters that a token reads.
    fn letters(&self, token: &str) -> Vec<String> {
        let reply = self.get(token, "/v1/streams/letters/records");
        assert_eq!(reply.status, 200, "{}", text_of(&reply));
        let listed = reply.json();
        let records = listed["data"].as_array().unwrap().iter();
        records.map(|record| record["data"]["text"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns a browser in which a person signed in with a link of the operator.
    fn browser(&self, name: &str) -> Browser {
        let printed = self.stile(&["sign-in", "--address", &self.url(), "--person", name]);
        let mut browser = Browser::default();
        let page = browser.get(printed.lines().next().unwrap());
        let reply = browser.submit(&self.url(), &page, &[]);
        assert_eq!(reply.status, 303, "{}", text_of(&reply));
        browser
    }

    /// Returns a browser in which a person signed in at the identity provider.
    fn browser_of_provider(&self, name: &str) -> Browser {
        self.issuer.as_ref().unwrap().openid().person(name, None);
        let mut browser = Browser::default();
        let page = text_of(&browser.open(&format!("{}/owner/clients", self.url())));
        let (_, rest) = page.split_once("href=\"/sign-in/provider").unwrap();
        let query = rest.split_once('"').unwrap().0.replace("&amp;", "&");
        let leads = browser.get(&format!("{}/sign-in/provider{query}", self.url()));
        let back = fetch("GET", location(&leads).unwrap(), &[], "");
        browser.open(location(&back).unwrap());
        browser
    }

    fn page(&self, browser: &mut Browser, path: &str) -> String {
        let page = browser.get(&format!("{}/owner/{path}", self.url()));
        assert_eq!(page.status, 200, "{path}: {}", text_of(&page));
        text_of(&page)
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the search of an agent over MCP.
fn agent_searches(hosted: &Hosted, token: &str) -> Value {
    let call = json!({ "name": "search", "arguments": { "q": "heron" } });
    Http::new(hosted.server.address, token).post("tools/call", call).unwrap().json()
}

#[test]
fn a_person_owns_records_and_an_agent_reads_them_until_the_grant_ends() {
    let test = "a_person_owns_records_and_an_agent_reads_them_until_the_grant_ends";
    let Some(hosted) = Hosted::start(test) else { return };
    for name in ["ann", "bob"] {
        hosted.person(name);
    }
    let grant = hosted.grant("ann");
    let token = hosted.stile(&["token", "--person", "ann", "--grant", &grant]);
    assert_eq!(hosted.letters(&token), ["the heron of ann", "the heron of ann"]);
    let found = agent_searches(&hosted, &token).to_string();
    assert!(found.contains("the heron of ann") && !found.contains("bob"), "{found}");
    // The owner of the records learns of the token, and another owner does not.
    let owner = |name| hosted.stile(&["token", "--person", name, "--owner"]);
    let (ann, bob) = (owner("ann"), owner("bob"));
    for path in ["/v1/introspect", "/oauth/introspect"] {
        let asks = |owner: &str| {
            let reply = hosted.send("POST", path, owner, (FORM, &format!("token={token}")));
            assert_eq!(reply.status, 200, "{}", text_of(&reply));
            reply.json()["active"].clone()
        };
        assert_eq!((asks(&ann), asks(&bob)), (json!(true), json!(false)), "{path}");
    }
    // Nobody makes a token of a grant that is another's, or revokes it.
    let stolen = hosted.run(&["token", "--person", "bob", "--grant", &grant]);
    assert!(!stolen.status.success(), "{}", said(&stolen));
    let forged = hosted.send("POST", &format!("/v1/grants/{grant}/tokens"), &bob, (JSON, "{}"));
    assert_eq!(forged.status, 404, "{}", text_of(&forged));
    let foreign = hosted.send("DELETE", &format!("/v1/grants/{grant}"), &bob, (JSON, ""));
    assert_eq!(foreign.status, 404, "{}", text_of(&foreign));
    let jti = hosted.stile(&["token", "list", "--person", "ann", "--json"]);
    let jti: Value = serde_json::from_str(&jti).unwrap();
    let jti = jti.as_array().unwrap().iter().find(|row| row["grant"] == grant.as_str()).unwrap();
    let path = format!("/v1/grants/{grant}/tokens/{}", jti["jti"].as_str().unwrap());
    assert_eq!(hosted.send("DELETE", &path, &bob, (JSON, "")).status, 404);
    assert_eq!(hosted.letters(&token).len(), 2);
    // The page of the person shows the grant and revokes it; the page of another one does neither.
    let (mut of_ann, mut of_bob) = (hosted.browser("ann"), hosted.browser("bob"));
    assert!(hosted.page(&mut of_ann, "clients").contains(&grant));
    assert!(!hosted.page(&mut of_bob, "clients").contains(&grant));
    let revoke = |browser: &mut Browser| {
        let page = browser.get(&format!("{}/owner/clients", hosted.url()));
        let csrf =
            form_to(&page, "/sign-out").fields.iter().find(|it| it.0 == "csrf").unwrap().1.clone();
        let url = format!("{}/owner/clients/revoke-grant", hosted.url());
        let reply = browser.post(&url, &[("id", &grant), ("csrf", &csrf)]);
        location(&reply).unwrap_or_else(|| panic!("{}", text_of(&reply))).to_owned()
    };
    assert_eq!(revoke(&mut of_bob), "/owner/clients?done=gone");
    assert_eq!(hosted.letters(&token).len(), 2);
    let listed = || hosted.stile(&["client", "list"]);
    assert!(
        listed().contains(&format!("may see the records of the grant {grant}")),
        "{}",
        listed()
    );
    assert_eq!(revoke(&mut of_ann), "/owner/clients?done=grant-revoked");
    assert!(!listed().contains(&grant), "of all people, too: {}", listed());
    assert_eq!(hosted.get(&token, "/v1/streams/letters/records").status, 403);
}

#[test]
fn a_person_of_a_provider_lets_a_client_see_records_and_ends_that() {
    let test = "a_person_of_a_provider_lets_a_client_see_records_and_ends_that";
    let Some(hosted) = Hosted::start_with_provider(test) else { return };
    for name in ["ann", "bob"] {
        hosted.person(name);
    }
    let (mut of_ann, mut of_bob) =
        (hosted.browser_of_provider("ann"), hosted.browser_of_provider("bob"));
    // No claim of the provider makes an owner.
    let issuer = hosted.issuer.as_ref().unwrap();
    let claim = issuer.mint("ann", AUDIENCE).scope("read:/").claim("records", json!("owner"));
    let claimed = claim.token(stile_testkit::issuer::Alg::Es256);
    assert_eq!(hosted.get(&claimed, "/v1/streams/letters/records").status, 403);
    let client = ScriptedClient::connect(&format!("{}/mcp", hosted.url()));
    let detail = json!([{
        "type": "https://pdpp.dev/data-access", "streams": [{ "name": "letters" }],
        "purpose_description": "to answer letters", "access_mode": "continuous",
    }]);
    let url = client
        .authorization_url(&[("scope", "read:/"), ("authorization_details", &detail.to_string())]);
    let page = of_ann.open(&url);
    assert!(text_of(&page).contains("the heron of ann"), "{}", text_of(&page));
    let answer = of_ann.submit(&hosted.url(), &page, &[("decision", "approve")]);
    let code = parameter(location(&answer).unwrap(), "code").unwrap();
    let tokens = client.redeem(&code).json();
    let access = tokens["access_token"].as_str().unwrap_or_else(|| panic!("{tokens}"));
    assert_eq!(hosted.letters(access), ["the heron of ann", "the heron of ann"]);
    let found = agent_searches(&hosted, access).to_string();
    assert!(found.contains("the heron of ann") && !found.contains("bob"), "{found}");
    // Each sees what they approved, whatever the role.
    assert!(hosted.page(&mut of_ann, "clients").contains("End this access"));
    assert!(!hosted.page(&mut of_bob, "clients").contains("End this access"));
    // A call comes into the journal of its person.
    // The line comes into the database within about a second.
    while !hosted.page(&mut of_ann, "activity?days=2").contains("Editor") {}
    assert!(!hosted.page(&mut of_bob, "activity?days=2").contains("Editor"));
    for path in ["files", "connect", "health", "account"] {
        let shown = hosted.page(&mut of_ann, path);
        assert!(!shown.contains(hosted.folder.path().to_str().unwrap()), "{path}: {shown}");
    }
    let page = of_ann.get(&format!("{}/owner/clients", hosted.url()));
    let end = form_to(&page, "/owner/clients/end");
    let fields: Vec<(&str, &str)> =
        end.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let ended = of_ann.post(&format!("{}/owner/clients/end", hosted.url()), &fields);
    assert_eq!(location(&ended), Some("/owner/clients?done=ended"));
    assert_eq!(hosted.get(access, "/v1/streams/letters/records").status, 401);
    // The grant that was made for the client has ended with it.
    let grants: Value =
        serde_json::from_str(&hosted.stile(&["grant", "list", "--person", "ann", "--json"]))
            .unwrap();
    assert_eq!(grants[0]["status"], "revoked", "{grants}");
}

#[test]
fn a_command_without_a_person_changes_nothing_and_says_how_to_name_one() {
    let test = "a_command_without_a_person_changes_nothing_and_says_how_to_name_one";
    let Some(hosted) = Hosted::start(test) else { return };
    let rows = hosted.folder.path().join("rows.jsonl");
    std::fs::write(&rows, "{\"id\":\"1\"}\n").unwrap();
    let file = rows.to_str().unwrap();
    let counts = || {
        let of = |table: &str| format!("(SELECT count(*) FROM {table})");
        let tables = ["stile.tenants", "stile.records", "stile.grants", "stile_access.tokens"];
        hosted.database.run(&format!("SELECT {}", tables.map(of).join(" || ' ' || ")))
    };
    let before = counts();
    for command in [
        "import FILE --connection c --stream s",
        "connections",
        "streams",
        "records show s 1",
        "declare --connection c --stream s --show",
        "export --to out",
        "grant create --client a --stream s",
        "grant list",
        "grant show 12345678",
        "grant revoke 12345678",
        "token --scope read:/",
        "token --owner",
        "sign-in",
        "history",
        "show a.md@42",
        "diff a.md",
        "restore a.md",
        "undo --client agent --since 1h",
        "note outline a.md",
    ] {
        let words: Vec<&str> =
            command.split(' ').map(|word| if word == "FILE" { file } else { word }).collect();
        let output = hosted.run(&words);
        let told = said(&output) + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{command}: {told}");
        assert!(told.contains("--person"), "{command}: {told}");
        let mut of_nobody = words.clone();
        of_nobody.extend(["--person", "nobody"]);
        let output = hosted.run(&of_nobody);
        let told = said(&output) + &String::from_utf8_lossy(&output.stdout);
        assert!(told.contains("no person `nobody`"), "{command}: {told}");
    }
    let mistyped = hosted.run(&["token", "--user", "nobody", "--scope", "read:/"]);
    assert_eq!(mistyped.status.code(), Some(2), "{}", said(&mistyped));
    assert!(said(&mistyped).contains("no person `nobody`"), "{}", said(&mistyped));
    for (command, instead) in [
        ("connect cursor", "stile token --person"),
        ("owner password --remove", "stile sign-in --person"),
        ("owner passkeys", "stile sign-in --person"),
    ] {
        let output = hosted.run(&command.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2), "{command}: {}", said(&output));
        assert!(said(&output).contains(instead), "{command}: {}", said(&output));
    }
    assert_eq!(counts(), before, "no command wrote to a tenant that nobody named");
}

#[test]
fn the_operator_undoes_and_audits_for_one_person() {
    let test = "the_operator_undoes_and_audits_for_one_person";
    let Some(hosted) = Hosted::start(test) else { return };
    for name in ["ann", "bob"] {
        hosted.stile(&["person", "add", name]);
        let of = ["token", "--person", name, "--scope", "write:/", "--client", "agent"];
        let token = hosted.stile(&of);
        let note = json!({ "path": format!("/{name}.md"), "content": "written by an agent\n" });
        let call = json!({ "name": "file.create", "arguments": note });
        let reply = Http::new(hosted.server.address, &token).post("tools/call", call).unwrap();
        assert_eq!(reply.json()["result"]["isError"], false, "{}", reply.json());
    }
    let spaces = hosted.people();
    let of = |person: &'static str, words: &[&'static str]| {
        let mut all = words.to_vec();
        all.extend(["--person", person, "--spaces", spaces.to_str().unwrap()]);
        hosted.stile(&all)
    };
    let listed = of("ann", &["history"]);
    assert!(listed.contains("ann.md") && !listed.contains("bob.md"), "{listed}");
    of("ann", &["undo", "--client", "agent", "--since", "1h", "--yes"]);
    let listed: Value = serde_json::from_str(&hosted.stile(&[
        "person",
        "list",
        "--json",
        "--spaces",
        spaces.to_str().unwrap(),
    ]))
    .unwrap();
    let folder = |name: &str| {
        let person = listed.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        spaces.join(person["id"].as_str().unwrap()).join("notes").join(format!("{name}.md"))
    };
    assert!(!folder("ann").exists() && folder("bob").exists());
    // The lines come into the database within about a second, and each person has their own.
    let told = loop {
        let told = hosted.stile(&["audit", "--person", "ann"]);
        if told.lines().count() >= 2 {
            break told;
        }
    };
    assert!(told.contains("ann.md") && !told.contains("bob.md"), "{told}");
    let mut of_bob = hosted.browser("bob");
    let shown = hosted.page(&mut of_bob, "activity?days=2");
    assert!(shown.contains("bob.md") && !shown.contains("ann.md"), "{shown}");
}

/// Puts a copy of a folder in its place, as a restore from a backup does: another file number.
fn restore_from_a_copy(folder: &Path) {
    let away = folder.with_extension("away");
    std::fs::rename(folder, &away).unwrap();
    let copied = std::process::Command::new("cp").arg("-a").args([&away, folder]).status();
    assert!(copied.unwrap().success());
}

#[test]
fn a_restored_folder_of_a_person_is_adopted_by_the_operator_alone() {
    let test = "a_restored_folder_of_a_person_is_adopted_by_the_operator_alone";
    let Some(hosted) = Hosted::start(test) else { return };
    let people = hosted.people();
    let spaces = people.to_str().unwrap();
    let [ann, bob] = ["ann", "bob"].map(|name| hosted.person(name));
    let [of_ann, of_bob] = ["ann", "bob"].map(|name| {
        let of = ["token", "--person", name, "--scope", "write:/", "--client", "agent"];
        hosted.stile(&of)
    });
    let owner = hosted.stile(&["token", "--person", "ann", "--owner"]);
    let note = json!({ "path": "/a.md", "content": "one\n" });
    for token in [&of_ann, &of_bob] {
        assert_eq!(hosted.call(token, "file.create", &note)["isError"], false);
    }
    let (hosted, _) = hosted.stopped_for(|_| restore_from_a_copy(&people.join(&ann)));
    // No call reads or changes a file, the records go on, and other people's files do.
    let read = json!({ "path": "/a.md" });
    for (tool, arguments) in [("text.read", &read), ("file.create", &note)] {
        let refused = hosted.call(&of_ann, tool, arguments);
        assert_eq!(refused["isError"], true, "{refused}");
        let said = refused["content"][0]["text"].as_str().unwrap();
        assert!(said.contains("Nothing was read or written"), "{said}");
        assert!(said.contains("`stile space adopt`"), "{said}");
    }
    assert_eq!(hosted.call(&of_bob, "text.read", &read)["isError"], false);
    assert_eq!(hosted.letters(&owner), ["the heron of ann", "the heron of ann"]);
    // The person, the operator's commands and the doctor say so.
    let mut browser = hosted.browser("ann");
    for page in ["health", "file?path=/a.md"] {
        let said = text_of(&browser.get(&format!("{}/owner/{page}", hosted.url())));
        assert!(said.contains("Another folder is at the place of your files"), "{said}");
    }
    let undo = ["undo", "--client", "agent", "--person", "ann", "--spaces", spaces, "--yes"];
    let refused = hosted.run(&undo);
    let advice = format!("stile space adopt --person {ann}");
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains(&advice), "{}", said(&refused));
    let known = || hosted.stile(&["person", "list"]).lines().count();
    let before = known();
    let doctor = hosted.run(&["doctor", "--spaces", spaces]);
    assert_eq!(known(), before, "the user who runs the doctor is no person of the server");
    let told = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(told.contains("stile space adopt --person ID") && told.contains(&ann), "{told}");
    assert!(!told.contains(&bob), "{told}");
    // Both folders and what opens the new one are shown, and nothing is done without a word.
    let adopt = ["space", "adopt", "--person", "ann", "--spaces", spaces];
    let plan = hosted.stile(&adopt);
    for shown in
        ["old folder: number ", "with 1 file of", "of the old folder", "of agent, `write:/`"]
    {
        assert!(plan.contains(shown), "{shown}: {plan}");
    }
    assert!(plan.ends_with("Nothing was changed. Add --yes to do this."), "{plan}");
    assert_eq!(hosted.call(&of_ann, "text.read", &read)["isError"], true);
    hosted.stile(&[&adopt[..], &["--yes"]].concat());
    assert_eq!(hosted.call(&of_ann, "text.read", &read)["isError"], false);
    hosted.stile(&undo);
    assert!(!people.join(&ann).join("notes/a.md").exists(), "the history went on");
    assert!(hosted.stile(&adopt).contains("nothing to adopt"));
    let told = hosted.stile(&["doctor", "--spaces", spaces]);
    assert!(told.contains("have the folders that were served"), "{told}");
    let (_, log) = hosted.stopped_for(|_| ());
    assert!(log.contains("the folder of a person") && log.contains(&ann), "{log}");
}

#[test]
fn the_folder_of_another_person_is_not_adopted() {
    let Some(hosted) = Hosted::start("the_folder_of_another_person_is_not_adopted") else { return };
    let people = hosted.people();
    let [ann, bob] = ["ann", "bob"].map(|name| hosted.person(name));
    let note = json!({ "path": "/a.md", "content": "one\n" });
    let [of_ann, of_bob] = ["ann", "bob"].map(|name| {
        let token = hosted.stile(&["token", "--person", name, "--scope", "write:/"]);
        assert_eq!(hosted.call(&token, "file.create", &note)["isError"], false);
        token
    });
    let adopt = ["space", "adopt", "--person", "bob", "--yes", "--spaces"];
    let adopt = [&adopt[..], &[people.to_str().unwrap()]].concat();
    let [ann_folder, bob_folder] = [&ann, &bob].map(|id| people.join(id));
    let refuse = |hosted: &Hosted| {
        let refused = hosted.run(&adopt);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(said(&refused).contains(&ann), "{}", said(&refused));
        let call = hosted.call(&of_bob, "text.read", &json!({ "path": "/a.md" }));
        assert_eq!(call["isError"], true, "{call}");
    };
    // A link to the folder of ann, and a copy of it with the old versions of her files.
    let (hosted, _) = hosted.stopped_for(|_| {
        std::fs::rename(&bob_folder, bob_folder.with_extension("away")).unwrap();
        std::fs::create_dir(&bob_folder).unwrap();
        std::os::unix::fs::symlink(ann_folder.join("notes"), bob_folder.join("notes")).unwrap();
    });
    refuse(&hosted);
    let (hosted, _) = hosted.stopped_for(|_| {
        std::fs::remove_dir_all(&bob_folder).unwrap();
        let mut copy = std::process::Command::new("cp");
        assert!(copy.arg("-a").args([&ann_folder, &bob_folder]).status().unwrap().success());
    });
    refuse(&hosted);
    let read = json!({ "path": "/a.md" });
    assert_eq!(hosted.call(&of_ann, "text.read", &read)["isError"], false);
}

#[test]
fn all_of_a_person_is_exported_and_removed_with_the_own_folder_alone() {
    let test = "all_of_a_person_is_exported_and_removed_with_the_own_folder_alone";
    let Some(hosted) = Hosted::start(test) else { return };
    let people = hosted.people();
    let [ann, bob] = ["ann", "bob"].map(|name| people.join(hosted.person(name)));
    let note = json!({ "path": "/a.md", "content": "one\n" });
    for name in ["ann", "bob"] {
        let token = hosted.stile(&["token", "--person", name, "--scope", "write:/"]);
        assert_eq!(hosted.call(&token, "file.create", &note)["isError"], false);
    }
    let to = hosted.folder.path().join("export");
    let export = ["person", "export", "bob", "--to", to.to_str().unwrap(), "--spaces"];
    let commands = [&export[..], &["person", "remove", "bob", "--yes", "--spaces"]]
        .map(|command| [command, &[people.to_str().unwrap()]].concat());
    let (hosted, _) = hosted.stopped_for(|_| ());
    let away = bob.with_extension("away");
    let refuse = |what: &str, words: &str| {
        for command in &commands {
            let refused = hosted.run(command);
            assert_eq!(refused.status.code(), Some(2), "{what}: {}", said(&refused));
            assert!(said(&refused).contains(words), "{what}: {}", said(&refused));
        }
    };
    std::fs::rename(&bob, &away).unwrap();
    refuse("no folder", "is missing");
    std::os::unix::fs::symlink(&away, &bob).unwrap();
    refuse("a link", "symbolic link");
    std::fs::remove_file(&bob).unwrap();
    let mut copy = std::process::Command::new("cp");
    assert!(copy.arg("-a").args([&ann, &bob]).status().unwrap().success());
    refuse("a copy of another folder", "is another one");
    assert!(!to.exists() && away.join("notes/a.md").exists());
    std::fs::remove_dir_all(&bob).unwrap();
    std::fs::rename(&away, &bob).unwrap();
    for command in &commands {
        let done = hosted.run(command);
        assert!(done.status.success(), "{}", said(&done));
    }
    assert!(to.join("space/notes/a.md").exists() && !bob.exists());
    assert!(ann.join("notes/a.md").exists());
}

#[test]
fn a_command_about_the_files_of_a_person_names_the_user_whose_they_are() {
    let test = "a_command_about_the_files_of_a_person_names_the_user_whose_they_are";
    let Some(hosted) = Hosted::start(test) else { return };
    let ann = hosted.person("ann");
    let token = hosted.stile(&["token", "--person", "ann", "--scope", "write:/"]);
    let note = json!({ "path": "/a.md", "content": "one\n" });
    assert_eq!(hosted.call(&token, "file.create", &note)["isError"], false);
    let folder = hosted.people().join(&ann);
    let given = std::process::Command::new("chown").args(["-R", "nobody"]).arg(&folder).status();
    if !given.is_ok_and(|given| given.success()) {
        println!("SKIPPED: only a superuser gives a folder to another user");
        return;
    }
    let spaces = hosted.people();
    for command in [&["undo", "--since", "1h", "--yes"][..], &["space", "adopt"], &["history"]] {
        let of = ["--person", "ann", "--spaces", spaces.to_str().unwrap()];
        let refused = hosted.run(&[command, &of].concat());
        let told = said(&refused);
        assert_eq!(refused.status.code(), Some(2), "{command:?}: {told}");
        assert!(told.contains("the user `nobody`") && told.contains("sudo -u"), "{told}");
        assert!(!told.contains("another state folder"), "{told}");
    }
}

#[test]
fn a_folder_of_a_person_that_is_gone_is_not_replaced_by_an_empty_one() {
    let test = "a_folder_of_a_person_that_is_gone_is_not_replaced_by_an_empty_one";
    let Some(hosted) = Hosted::start(test) else { return };
    let ann = hosted.person("ann");
    let token = hosted.stile(&["token", "--person", "ann", "--scope", "write:/"]);
    let owner = hosted.stile(&["token", "--person", "ann", "--owner"]);
    assert_eq!(hosted.call(&token, "file.list", &json!({}))["isError"], false);
    let folder = hosted.people().join(&ann);
    let away = hosted.folder.path().join("away");
    let (hosted, _) = hosted.stopped_for(|_| std::fs::rename(&folder, &away).unwrap());
    // Files are refused in words that say so, and records go on.
    let refused = hosted.call(&token, "file.list", &json!({}));
    assert_eq!(refused["isError"], true, "{refused}");
    let said = refused["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("is missing") && said.contains("puts it back"), "{said}");
    assert_eq!(hosted.letters(&owner), ["the heron of ann", "the heron of ann"]);
    let mut browser = hosted.browser("ann");
    let page = text_of(&browser.get(&format!("{}/owner/health", hosted.url())));
    assert!(page.contains("The folder of your files is missing"), "{page}");
    assert!(!folder.exists(), "nothing is made in its place");
    // The same folder at its place again needs no word.
    std::fs::rename(&away, &folder).unwrap();
    assert_eq!(hosted.call(&token, "file.list", &json!({}))["isError"], false);
    // It can also go while it is served.
    std::fs::rename(&folder, &away).unwrap();
    hosted.call_until(&token, "is missing");
    assert_eq!(hosted.letters(&owner), ["the heron of ann", "the heron of ann"]);
    std::fs::rename(&away, &folder).unwrap();
    assert_eq!(hosted.call(&token, "file.list", &json!({}))["isError"], false);
    // A file in the place of the folder, or of the one around it, is no folder either.
    for place in [folder.join("notes"), folder.clone()] {
        std::fs::rename(&place, &away).unwrap();
        std::fs::write(&place, "no folder").unwrap();
        hosted.call_until(&token, "is missing");
        assert_eq!(hosted.letters(&owner), ["the heron of ann", "the heron of ann"]);
        std::fs::remove_file(&place).unwrap();
        std::fs::rename(&away, &place).unwrap();
        assert_eq!(hosted.call(&token, "file.list", &json!({}))["isError"], false);
    }
    // Also where the person was never served a file.
    let bob = hosted.person("bob");
    let owner = hosted.stile(&["token", "--person", "bob", "--owner"]);
    std::fs::write(hosted.people().join(&bob), "no folder").unwrap();
    assert_eq!(hosted.letters(&owner), ["the heron of bob", "the heron of bob"]);
    let (_, log) = hosted.stopped_for(|_| ());
    assert!(log.contains("was served and is not there") && log.contains(&ann), "{log}");
}

#[test]
fn a_server_that_runs_takes_up_a_folder_that_was_adopted() {
    let test = "a_server_that_runs_takes_up_a_folder_that_was_adopted";
    let Some(hosted) = Hosted::start(test) else { return };
    let ann = hosted.person("ann");
    let token = hosted.stile(&["token", "--person", "ann", "--scope", "write:/"]);
    let note = json!({ "path": "/a.md", "content": "one\n" });
    assert_eq!(hosted.call(&token, "file.create", &note)["isError"], false);
    let spaces = hosted.people();
    let adopt =
        ["space", "adopt", "--person", "ann", "--spaces", spaces.to_str().unwrap(), "--yes"];
    // All of the folder came back, or its files alone, beside the history that the server holds.
    for replaced in [spaces.join(&ann), spaces.join(&ann).join("notes")] {
        restore_from_a_copy(&replaced);
        hosted.call_until(&token, "is another one than before");
        let adopted = hosted.stile(&adopt);
        assert!(adopted.contains("old folder: "), "{adopted}");
        let read = hosted.call(&token, "text.read", &json!({ "path": "/a.md" }));
        assert_eq!(read["isError"], false, "{read}");
        std::fs::remove_dir_all(replaced.with_extension("away")).unwrap();
    }
    let note = json!({ "path": "/b.md", "content": "two\n" });
    assert_eq!(hosted.call(&token, "file.create", &note)["isError"], false);
    assert!(spaces.join(&ann).join("notes/b.md").exists(), "it is written where the owner looks");
}

#[test]
fn a_start_makes_nobody_and_no_folder() {
    let test = "a_start_makes_nobody_and_no_folder";
    let Some(hosted) = Hosted::start(test) else { return };
    let (hosted, _) = hosted.stopped_for(|_| ());
    let made: Vec<_> = std::fs::read_dir(hosted.people()).unwrap().collect();
    assert!(made.is_empty(), "{made:?}");
    let listed = hosted.stile(&["person", "list", "--json"]);
    assert!(!listed.contains("\"id\""), "{listed}");
    // Once there is somebody, their folder is for the user of the server alone.
    let ann = hosted.person("ann");
    let token = hosted.stile(&["token", "--person", "ann", "--scope", "read:/"]);
    assert_eq!(hosted.call(&token, "file.list", &json!({}))["isError"], false);
    let mode = std::fs::metadata(hosted.people().join(&ann)).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o700);
}

#[test]
fn all_of_a_person_is_exported_and_removed_and_others_stay() {
    let test = "all_of_a_person_is_exported_and_removed_and_others_stay";
    let Some(hosted) = Hosted::start(test) else { return };
    let (ann, bob) = (hosted.person("ann"), hosted.person("bob"));
    let grant = hosted.grant("ann");
    let token =
        hosted.stile(&["token", "--person", "ann", "--grant", &grant, "--scope", "write:/"]);
    let of_bob = hosted.stile(&["token", "--person", "bob", "--owner", "--scope", "write:/"]);
    for token in [&token, &of_bob] {
        let note = json!({ "path": "/mine.md", "content": "a note\n" });
        let call = json!({ "name": "file.create", "arguments": note });
        let reply = Http::new(hosted.server.address, token).post("tools/call", call).unwrap();
        assert_eq!(reply.json()["result"]["isError"], false, "{}", reply.json());
    }
    assert_eq!(hosted.letters(&token).len(), 2);
    let spaces = hosted.people();
    let spaces = spaces.to_str().unwrap();
    let to = hosted.folder.path().join("of-ann");
    hosted.browser("ann");
    hosted.stile(&["person", "export", "ann", "--spaces", spaces, "--to", to.to_str().unwrap()]);
    let read = |path: &str| std::fs::read_to_string(to.join(path)).unwrap();
    assert_eq!(read("space/notes/mine.md"), "a note\n");
    let access: Value = serde_json::from_str(&read("access.json")).unwrap();
    assert_eq!(access["person"]["name"], "ann");
    assert_eq!(access["grants"][0]["id"], grant.as_str(), "{access}");
    assert_eq!(access["grants"].as_array().unwrap().len(), 1, "{access}");
    assert_eq!(access["tokens"][0]["grant"], grant.as_str(), "{access}");
    assert_eq!(access["browser_sessions"].as_array().unwrap().len(), 1, "{access}");
    assert!(to.join("records").read_dir().unwrap().next().is_some());
    let rows = |id: &str| {
        let of = format!("(SELECT number FROM stile.tenants WHERE id = '{id}')");
        hosted.database.run(&format!("SELECT count(*) FROM stile.records WHERE tenant = {of}"))
    };
    let lines_of = |name: &str| {
        let said = format!(r#""subject":"{name}""#);
        let lines =
            "SELECT count(*) FROM stile_access.journal_lines WHERE encode(line, 'escape') LIKE";
        hosted.database.run(&format!("{lines} '%{said}%'")).trim().parse::<usize>().unwrap()
    };
    let in_files = |name: &str| {
        let files = hosted.folder.path().join("server/journal").read_dir().unwrap();
        let texts = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
        let said = format!(r#""subject":"{name}""#);
        texts.map(|text| text.matches(&said).count()).sum::<usize>()
    };
    // A server copies its lines after the answer.
    let begun = std::time::Instant::now();
    while lines_of("ann") < in_files("ann") {
        assert!(begun.elapsed().as_secs() < 60, "the lines are not copied");
        std::thread::yield_now();
    }
    let plan = hosted.stile(&["person", "remove", "ann", "--spaces", spaces]);
    assert!(plan.contains("Nothing was changed") && plan.contains("2 records"), "{plan}");
    assert!(plan.contains("lines of the journal") && lines_of("ann") >= 2, "{plan}");
    assert_eq!(rows(&ann).trim(), "2");
    hosted.stile(&["person", "remove", "ann", "--spaces", spaces, "--yes"]);
    assert_eq!(lines_of("ann"), 0);
    assert!(lines_of("bob") >= 1);
    let verified = hosted.stile(&["audit", "verify"]);
    assert!(verified.contains("lines were removed by the owner"), "{verified}");
    assert_eq!((rows(&ann).trim(), rows(&bob).trim()), ("0", "2"));
    let left = "SELECT count(*) FROM stile.tenants UNION ALL SELECT count(*) FROM stile.grants";
    assert_eq!(hosted.database.run(left).split_whitespace().collect::<Vec<_>>(), ["2", "0"]);
    assert!(!hosted.people().join(&ann).exists() && hosted.people().join(&bob).exists());
    assert_eq!(hosted.get(&token, "/v1/streams").status, 401);
    assert_eq!(hosted.letters(&of_bob), ["the heron of bob", "the heron of bob"]);
}

/// Returns the names that follow `CREATE TABLE` in a text of SQL.
fn tables_of(sql: &str) -> impl Iterator<Item = &str> {
    let named = sql.split("CREATE TABLE ").skip(1).map(|rest| rest.split_whitespace().next());
    named
        .flatten()
        .filter(|name| *name != "%I")
        .map(|name| name.trim_start_matches("stile_access."))
}

#[test]
fn the_guide_says_of_each_table_whether_an_export_of_a_person_has_it() {
    let guide = include_str!("../../../../docs/postgresql.md");
    let section = guide.split("## What an export of a person has").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let of_records = include_str!("../../../store/src/postgresql/schema.sql");
    let of_access = include_str!("../../../store/src/state/tables.sql");
    let all: Vec<&str> = tables_of(of_records).chain(tables_of(of_access)).collect();
    assert!(all.len() > 30, "{all:?}");
    for table in all {
        assert!(section.contains(&format!("`{table}`")), "{table}");
    }
}

#[test]
fn the_list_names_people_by_issuer_and_subject_and_a_command_finds_them_by_both() {
    let test = "the_list_names_people_by_issuer_and_subject";
    let Some(hosted) = Hosted::start(test) else { return };
    let ids = ["ann", "bob"].map(|name| hosted.stile(&["person", "add", name]));
    let other = hosted.stile(&["person", "add", "ann", "--issuer", "https://id.example"]);
    let listed: Value = serde_json::from_str(&hosted.stile(&["person", "list", "--json"])).unwrap();
    let named = |person: &Value| {
        ["id", "name", "issuer"].map(|member| person[member].as_str().unwrap().to_owned())
    };
    let named: Vec<_> = listed.as_array().unwrap().iter().map(named).collect();
    let texts = |texts: [&str; 3]| texts.map(str::to_owned);
    let expected = [
        texts([&ids[0], "ann", "stile"]),
        texts([&ids[1], "bob", "stile"]),
        texts([&other, "ann", "https://id.example"]),
    ];
    assert_eq!(named, expected);
    let shown = hosted.stile(&["person", "list"]);
    assert!(shown.contains("ISSUER") && shown.contains("https://id.example"), "{shown}");
    let unknown = hosted.run(&["person", "show", "ann", "--issuer", "https://other.example"]);
    assert!(said(&unknown).contains("--issuer"), "{}", said(&unknown));
    // Nobody called yet, so no token names them, and the person is found all the same.
    let found: Value = serde_json::from_str(&hosted.stile(&["person", "show", &other])).unwrap();
    assert_eq!((&found["name"], &found["issuer"]), (&json!("ann"), &json!("https://id.example")));
}

#[test]
fn a_restored_database_gives_every_tenant_another_lineage() {
    let test = "a_restored_database_gives_every_tenant_another_lineage";
    let Some(hosted) = Hosted::start(test) else { return };
    for name in ["ann", "bob"] {
        hosted.person(name);
    }
    let lineages = || {
        let all = "SELECT encode(lineage, 'hex') FROM stile.history ORDER BY tenant";
        let all = hosted.database.run(all);
        all.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let before = lineages();
    let told = hosted.stile(&["database", "restored"]);
    let after = lineages();
    assert_eq!((before.len(), after.len()), (3, 3), "two people and the operator");
    assert!(before.iter().all(|lineage| !after.contains(lineage)), "{before:?} {after:?}");
    assert!(told.contains("3 tenants"), "{told}");
    let owner = hosted.stile(&["token", "--person", "ann", "--owner"]);
    assert_eq!(hosted.letters(&owner).len(), 2);
}

#[test]
fn a_session_makes_a_token_that_imports_into_one_stream_and_does_nothing_else() {
    let test = "a_session_makes_a_token_that_imports_into_one_stream_and_does_nothing_else";
    let Some(hosted) = Hosted::start(test) else { return };
    hosted.person("ann");
    let mut browser = hosted.browser("ann");
    let page = browser.get(&format!("{}/owner/connect", hosted.url()));
    let fields = [("connection", "bank"), ("stream", "payments")];
    let form = form_to(&page, "/owner/connect/import-token");
    let mut fields = fields.to_vec();
    fields.extend(form.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let made = browser.post(&format!("{}/owner/connect/import-token", hosted.url()), &fields);
    let html = text_of(&made);
    let (_, rest) = html.split_once("id=\"made-token\"").unwrap_or_else(|| panic!("{html}"));
    let token = rest.split_once('>').unwrap().1.split_once('<').unwrap().0.to_owned();
    let row = json!({ "id": "1", "text": "rent" }).to_string() + "\n";
    let send = |path: &str| hosted.send("POST", path, &token, (NDJSON, &row)).status;
    assert_eq!(send("/v1/ingest/payments?connection_id=bank"), 200);
    for elsewhere in [
        "/v1/ingest/letters?connection_id=mail",
        "/v1/ingest/payments?connection_id=mail",
        "/v1/ingest/payments",
        "/v1/ingest/payments?connection_id=bank&connector_instance_id=mail",
    ] {
        assert_eq!(send(elsewhere), 403, "{elsewhere}");
    }
    // A row that names another stream is not stored there.
    let other = json!({ "stream": "letters", "data": { "id": "9", "text": "forged" } });
    let path = "/v1/ingest/payments?connection_id=bank";
    let rejected = hosted.send("POST", path, &token, (NDJSON, &(other.to_string() + "\n")));
    assert_ne!(rejected.json()["records_accepted"], json!(1), "{}", rejected.json());
    for (method, path) in [
        ("GET", "/v1/streams"),
        ("GET", "/v1/streams/payments/records"),
        ("GET", "/v1/grants"),
        ("POST", "/v1/grants"),
        ("DELETE", "/v1/streams/payments/records/1?connection_id=bank"),
        ("PUT", "/v1/streams/payments/declaration?connection_id=bank"),
    ] {
        let reply = hosted.send(method, path, &token, (JSON, ""));
        assert!([403, 404].contains(&reply.status), "{method} {path}: {}", text_of(&reply));
    }
    let delete = json!({ "op": "delete", "key": "1" }).to_string() + "\n";
    let rejected = hosted.send("POST", path, &token, (NDJSON, &delete)).json();
    assert_eq!(rejected["rejections"][0]["code"], "insufficient_scope", "{rejected}");
    let found = agent_searches(&hosted, &token);
    assert!(!found.to_string().contains("heron"), "{found}");
    let mut agent = Http::new(hosted.server.address, &token);
    let listed = agent.post("tools/list", json!({})).unwrap().json();
    let shows = |name: &str| listed["result"]["tools"].to_string().contains(&format!("\"{name}\""));
    assert!(!shows("fetch") && !shows("query_records"), "what reads is not offered: {listed}");
    let owner = hosted.stile(&["token", "--person", "ann", "--owner"]);
    let stored = hosted.get(&owner, "/v1/streams/payments/records").json();
    assert_eq!(stored["data"].as_array().unwrap().len(), 1, "{stored}");
    assert_eq!(hosted.letters(&owner).len(), 2);
}

/// A database with one owner, and commands about it.
struct Sole {
    rig: Rig,
    database: TestDatabase,
    _folder: tempfile::TempDir,
}

impl Sole {
    fn new(test: &str) -> Option<Self> {
        let database = PostgresServer::shared(test)?.database();
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
        Some(Self { rig, database, _folder: folder })
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.rig.command(arguments);
        command.arg("--state").arg(&self.rig.state);
        command.env("STILE_DATABASE", self.database.address());
        command
    }
}

#[test]
fn nobody_makes_people_where_one_owner_has_records() {
    let Some(sole) = Sole::new("nobody_makes_people_where_one_owner_has_records") else { return };
    let file = sole.rig.root.with_file_name("rows.jsonl");
    std::fs::write(&file, "{\"id\":\"1\",\"body\":\"ferns\"}\n").unwrap();
    let import = ["import", file.to_str().unwrap(), "--connection", "mail", "--stream", "letters"];
    assert!(sole.command(&import).output().unwrap().status.success());
    let people = sole.rig.root.with_file_name("people");
    std::fs::create_dir(&people).unwrap();
    let people = people.to_str().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--spaces", people];
    for refused in [&["person", "add", "ann"][..], &serve] {
        let output = sole.command(refused).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{refused:?}: {}", said(&output));
        assert!(said(&output).contains("records of one owner"), "{}", said(&output));
    }
    let streams = sole.command(&["streams"]).output().unwrap();
    assert!(String::from_utf8_lossy(&streams.stdout).contains("letters"), "{}", said(&streams));
}

#[test]
fn a_server_of_one_owner_opens_no_page_to_people_that_its_database_gets() {
    let test = "a_server_of_one_owner_opens_no_page_to_people_that_its_database_gets";
    let Some(sole) = Sole::new(test) else { return };
    let mut serve = sole.command(&["serve", "--listen", "127.0.0.1:0"]);
    serve.arg(&sole.rig.root);
    let server = Server::start(serve);
    assert!(sole.command(&["person", "add", "ann"]).output().unwrap().status.success());
    let link = sole.command(&["sign-in", "--person", "ann"]).output().unwrap();
    let link = String::from_utf8(link.stdout).unwrap();
    let code = parameter(link.lines().next().unwrap(), "code").unwrap();
    let url = format!("http://{}", server.address);
    let mut browser = Browser::default();
    let page = browser.get(&format!("{url}/sign-in"));
    browser.submit(&url, &page, &[("code", &code)]);
    for path in ["/owner/files", "/owner/health", "/owner/clients", "/owner/account"] {
        let answer = browser.get(&format!("{url}{path}"));
        let leads_to = location(&answer).unwrap_or_default();
        assert!(leads_to.starts_with("/sign-in"), "{path}: {answer:?}");
    }
}

#[test]
fn each_person_imports_on_the_page_into_records_of_their_own() {
    let Some(hosted) = Hosted::start("each_person_imports_on_the_page") else { return };
    for name in ["ann", "bob"] {
        hosted.person(name);
    }
    let url = format!("{}/owner/import", hosted.url());
    let mut browsers = ["ann", "bob"].map(|name| hosted.browser(name));
    for (browser, name) in browsers.iter_mut().zip(["ann", "bob"]) {
        let page = browser.get(&url);
        let form = form_to(&page, "/sign-out");
        let csrf = form.fields.iter().find(|(name, _)| name == "csrf").unwrap().1.clone();
        let rows = format!("id,text\n1,the wren of {name}\n");
        assert_eq!(browser.send_file(&url, &[("csrf", &csrf)], ("birds.csv", &rows)).status, 303);
    }
    for (browser, (own, other)) in browsers.iter_mut().zip([("ann", "bob"), ("bob", "ann")]) {
        let page = browser.get(&format!("{url}?connection=garden&stream=birds"));
        let html = text_of(&page);
        let wren_of = |name: &str| html.contains(&format!("the wren of {name}"));
        assert!(wren_of(own) && !wren_of(other), "{html}");
        let fields = form_to(&page, "/owner/import/store").fields;
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(browser.post(&format!("{url}/store"), &fields).status, 303);
        let ended = loop {
            let page = text_of(&browser.get(&url));
            if !page.contains("data-progress") {
                break page;
            }
            std::thread::yield_now();
        };
        assert!(ended.contains("1 new row"), "{ended}");
        let token = hosted.stile(&["token", "--person", own, "--owner"]);
        let listed = hosted.get(&token, "/v1/streams/birds/records").json();
        assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
        assert_eq!(listed["data"][0]["data"]["text"], format!("the wren of {own}"), "{listed}");
        // Backups are the operator's.
        let page = text_of(&browser.get(&format!("{}/owner/health", hosted.url())));
        assert!(!page.contains("/owner/health/backup"), "{page}");
    }
}

#[test]
fn a_server_needs_tables_that_its_role_may_use_and_doctor_says_if_the_role_may_do_more() {
    let test =
        "a_server_needs_tables_that_its_role_may_use_and_doctor_says_if_the_role_may_do_more";
    let Some(hosted) = Hosted::start(test) else { return };
    let said = |address: &str, arguments: &[&str]| {
        let output = hosted.run_at(address, arguments);
        let all = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(all).unwrap())
    };
    hosted.person("ann");
    let (_, told) = said(&hosted.database.servers_address(), &["doctor"]);
    assert!(told.contains("reads and writes rows, and changes no table"), "{told}");
    let (_, told) = said(&hosted.database.address(), &["doctor"]);
    assert!(told.contains("owns the tables") && told.contains("--servers-role"), "{told}");
    let empty = PostgresServer::shared(test).unwrap().database();
    for arguments in
        [&["person", "list"][..], &["serve", "--listen", "127.0.0.1:0", "--spaces", "."]]
    {
        let (done, told) = said(&empty.servers_address(), arguments);
        assert!(!done && told.contains("stile database prepare --servers-role"), "{told}");
    }
    let (done, told) = said(&empty.address(), &["database", "prepare", "--servers-role", "nobody"]);
    assert!(!done && told.contains("`nobody`") && told.contains("make it"), "{told}");
}
