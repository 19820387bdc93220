//! Every surface of a running server against every kind of caller: `docs/authorization.md`.
//!
//! The rows come from the lists in the code, so a new tool, resource, operation or route fails the
//! tests until [`NEEDS`] says who may use it. The outcome follows from [`Needs`] and from what the
//! caller holds, in [`expected`], which shares no code with the server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;
use stile_ladder::RECORD_TOOLS;
use stile_ladder::resources::TEMPLATES;
use stile_records::operation_declaration::{OperationDeclaration, OperationMethod};
use stile_records::operations::OPERATIONS;
use stile_server::auth::{MintRequest, Minter};
use stile_server::http::gateway_notes::NOTES_PATH;
use stile_server::http::metadata::{METADATA_PATH, METADATA_PATH_OF_ORIGIN};
use stile_server::http::v1::OPENAPI_PATH;
use stile_server::pages::frame::STYLE_PATH;
use stile_server::pages::sign_in_page::{SIGN_IN_PATH, SIGN_OUT_PATH};
use stile_server::sign_in::authorize::CONSENT_PATH;
use stile_server::sign_in::server_metadata::{
    AUTHORIZE_PATH, INTROSPECT_PATH, PUSH_PATH, REGISTER_PATH, REVOKE_PATH, TOKEN_PATH,
};
use stile_store::state::{StateDir, TokenKey, TokenStore};
use stile_testkit::client::{McpClient, Reply};
use stile_testkit::documents::assert_document;
use stile_testkit::hosted::{Lifecycle, Peer, message_of};
use stile_testkit::process::Rig;
use stile_tools::space::{SpaceTools, file_resource, list};

use crate::program::{contents, revoke};
use crate::records_kit::Kit;
use crate::source_tree::root;

/// What a surface needs of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    ValidToken,
    /// A scope that reads the path.
    Read,
    /// A scope that writes the path.
    Write,
    /// A grant, or the owner's token.
    Records,
    Owner,
    /// The owner's token, for an answer that changes nothing.
    OwnerReads,
}

/// Who may use which surface. This list is written by hand and independent of the server.
const NEEDS: &[(&str, Needs)] = &[
    ("file.list", Needs::Read),
    ("file.find", Needs::Read),
    ("file.search", Needs::Read),
    ("text.search", Needs::Read),
    ("file.read", Needs::Read),
    ("file.create", Needs::Write),
    ("file.append", Needs::Write),
    ("file.move", Needs::Write),
    ("file.copy", Needs::Write),
    ("file.remove", Needs::Write),
    ("folder.create", Needs::Write),
    ("folder.move", Needs::Write),
    ("folder.remove", Needs::Write),
    ("text.read", Needs::Read),
    ("text.gather", Needs::Read),
    ("text.edit", Needs::Write),
    ("text.replace", Needs::Write),
    ("text.insert", Needs::Write),
    ("text.append", Needs::Write),
    ("note.find", Needs::Read),
    ("note.links", Needs::Read),
    ("note.tags", Needs::Read),
    ("note.set_property", Needs::Write),
    ("get_note_outline", Needs::Read),
    ("get_document_tree", Needs::Read),
    ("get_metadata_facets", Needs::Read),
    ("get_section_source", Needs::Read),
    ("schema", Needs::Records),
    ("search", Needs::Records),
    ("query_records", Needs::Records),
    ("aggregate", Needs::Records),
    ("fetch", Needs::Records),
    ("read_record_field", Needs::Records),
    ("list://{+path}", Needs::Read),
    ("space:///{+path}", Needs::Read),
    ("pdpp://record/{handle}", Needs::Records),
    ("pdpp://field-window/{handle}", Needs::Records),
    ("POST /mcp", Needs::ValidToken),
    ("GET /mcp", Needs::ValidToken),
    ("DELETE /mcp", Needs::ValidToken),
    ("GET /health", Needs::Nothing),
    ("GET /ready", Needs::Nothing),
    ("GET /.well-known/oauth-protected-resource/mcp", Needs::Nothing),
    ("GET /.well-known/oauth-protected-resource", Needs::Nothing),
    ("GET /v1/openapi.json", Needs::Nothing),
    ("GET /api/v1/notes/{path}", Needs::Read),
    ("GET /v1/schema", Needs::Records),
    ("GET /v1/streams", Needs::Records),
    ("GET /v1/streams/{stream}", Needs::Records),
    ("GET /v1/streams/{stream}/records", Needs::Records),
    ("GET /v1/streams/{stream}/aggregate", Needs::Records),
    ("GET /v1/streams/{stream}/records/{id}", Needs::Records),
    ("DELETE /v1/streams/{stream}/records/{id}", Needs::Owner),
    ("DELETE /v1/streams/{stream}/records", Needs::Owner),
    ("GET /v1/streams/{stream}/records/{id}/field-window", Needs::Records),
    ("GET /v1/search", Needs::Records),
    ("POST /v1/ingest/{stream}", Needs::Owner),
    ("GET /v1/blobs/{blob_id}", Needs::Records),
    ("HEAD /v1/blobs/{blob_id}", Needs::Records),
    ("POST /v1/blobs", Needs::Owner),
    ("GET /v1/streams/{stream}/declaration", Needs::OwnerReads),
    ("PUT /v1/streams/{stream}/declaration", Needs::Owner),
    ("GET /v1/grants", Needs::OwnerReads),
    ("POST /v1/grants", Needs::Owner),
    ("GET /v1/grants/{grant_id}", Needs::OwnerReads),
    ("POST /v1/grants/{grant_id}/tokens", Needs::Owner),
    ("DELETE /v1/grants/{grant_id}/tokens/{jti}", Needs::Owner),
    ("DELETE /v1/grants/{grant_id}", Needs::Owner),
    ("POST /v1/introspect", Needs::OwnerReads),
];

/// What a caller holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    NoToken,
    /// A token that the server does not accept, whatever it claims.
    InvalidToken,
    /// A valid token whose scopes end beside the folder.
    Nothing,
    Read,
    Write,
    Grant,
    Owner,
    /// A valid token that may do everything, and the id of a session that another user opened.
    AnotherSession,
}

/// The callers, in the order of the columns of the page.
const CALLERS: [(&str, Holds); 12] = [
    ("no token", Holds::NoToken),
    ("malformed", Holds::InvalidToken),
    ("expired", Holds::InvalidToken),
    ("revoked", Holds::InvalidToken),
    ("another state", Holds::InvalidToken),
    ("another space", Holds::InvalidToken),
    ("beside", Holds::Nothing),
    ("read", Holds::Read),
    ("write", Holds::Write),
    ("grant", Holds::Grant),
    ("owner", Holds::Owner),
    ("another's session", Holds::AnotherSession),
];

/// Returns the outcome of a request: `ok` or the HTTP status of the refusal.
fn expected(needs: Needs, holds: Holds) -> &'static str {
    let suffices = match needs {
        Needs::Nothing => return "ok",
        Needs::ValidToken => true,
        Needs::Read => matches!(holds, Holds::Read | Holds::Write),
        Needs::Write => holds == Holds::Write,
        Needs::Records => matches!(holds, Holds::Grant | Holds::Owner),
        Needs::Owner | Needs::OwnerReads => holds == Holds::Owner,
    };
    match holds {
        Holds::NoToken | Holds::InvalidToken => "401",
        Holds::AnotherSession => "404",
        _ if suffices => "ok",
        _ => "403",
    }
}

/// One thing that a caller can ask of the server.
#[derive(Clone, Copy)]
enum Surface {
    Tool(&'static str),
    /// A template of resources.
    Resource(&'static str),
    /// A method of `/mcp`.
    Mcp(&'static str),
    /// A GET of a route that is no operation of `/v1`.
    Route(&'static str),
    Operation(&'static OperationDeclaration),
}

impl Surface {
    /// Returns all surfaces, in the order of the rows of the page.
    fn all() -> Vec<Self> {
        let tools = SpaceTools::built_in().map(|tool| tool.name);
        let tools = tools.chain(RECORD_TOOLS.iter().map(|tool| tool.name)).map(Self::Tool);
        let of_files = [list::TEMPLATE, file_resource::TEMPLATE].into_iter();
        let templates = of_files.chain(TEMPLATES).map(|template| {
            let std::borrow::Cow::Borrowed(uri) = template.uri else {
                panic!("the template {} is not one of the code", template.uri)
            };
            Self::Resource(uri)
        });
        let routes =
            ["/health", "/ready", METADATA_PATH, METADATA_PATH_OF_ORIGIN, OPENAPI_PATH, NOTES_PATH];
        tools
            .chain(templates)
            .chain(["POST", "GET", "DELETE"].map(Self::Mcp))
            .chain(routes.map(Self::Route))
            .chain(OPERATIONS.iter().copied().map(Self::Operation))
            .collect()
    }

    fn name(self) -> String {
        match self {
            Self::Tool(name) | Self::Resource(name) => name.to_owned(),
            Self::Mcp(method) => format!("{method} /mcp"),
            Self::Route(path) => format!("GET {path}"),
            Self::Operation(operation) => format!("{} {}", operation.method.name(), operation.path),
        }
    }

    fn needs(self) -> Needs {
        let name = self.name();
        let row = NEEDS.iter().find(|(surface, _)| *surface == name);
        row.unwrap_or_else(|| {
            panic!(
                "nobody has declared who may use `{name}`: add it to `NEEDS` in \
                 tests/it/authorization.rs, and a request that succeeds to `Ground`"
            )
        })
        .1
    }

    /// Returns whether the request can carry the id of a session.
    fn has_sessions(self) -> bool {
        matches!(self, Self::Tool(_) | Self::Resource(_) | Self::Mcp(_))
    }
}

const NOTE: &str = "the heron was here\nsecond line\n";
/// The folder that is there at first, and the one that a request makes.
const NOTE_FOLDERS: [&str; 2] = ["notes/deep", "notes/made"];
const USER: &str = "ann";
const BLOB: &str = "bytes of a record";
const NEW_BLOB: &str = "bytes that nobody has stored";

/// Returns the name of a blob with these bytes.
fn blob_id(bytes: &str) -> String {
    let hash = ContentHash::digest(bytes.as_bytes()).to_string();
    format!("sha256-{}", hash.rsplit(':').next().unwrap())
}

/// Everything that a request can change.
#[derive(PartialEq)]
struct Touchable {
    files: BTreeMap<String, Vec<u8>>,
    records: Value,
    new_blob: u16,
    declaration: Value,
    grants: Value,
    tokens: BTreeMap<String, Option<i64>>,
}

/// Returns the identifier that a token names.
fn jti_of(token: &str) -> String {
    let claims = token.split('.').nth(1).unwrap();
    let claims = URL_SAFE_NO_PAD.decode(claims).unwrap();
    serde_json::from_slice::<Value>(&claims).unwrap()["jti"].as_str().unwrap().to_owned()
}

/// A running server with a note and two records, and a token of each caller.
struct Ground {
    kit: Kit,
    tokens: BTreeMap<&'static str, String>,
    /// The clients that need a session keep it for all calls.
    peers: BTreeMap<&'static str, Vec<(Lifecycle, Peer)>>,
    /// Addresses of resources, each from an answer to its caller.
    addresses: BTreeMap<(&'static str, String), String>,
    /// A grant that no caller uses, and the identifier of its token.
    spare: (String, String),
    files: BTreeMap<String, Vec<u8>>,
}

impl Ground {
    fn new() -> Self {
        let kit = Kit::new();
        let rig = &kit.rig;
        std::fs::create_dir_all(rig.root.join("notes/deep")).unwrap();
        std::fs::write(rig.root.join("notes/a.md"), NOTE).unwrap();
        let files = contents(&rig.root);
        let mut ground = Self {
            tokens: BTreeMap::new(),
            peers: BTreeMap::new(),
            addresses: BTreeMap::new(),
            spare: Default::default(),
            files,
            kit,
        };
        ground.store_records();
        ground.spare = ground.kit.client(&["--stream", "messages"]);
        ground.spare.1 = jti_of(&ground.spare.1);
        ground.tokens = ground.mint();
        ground.open();
        ground
    }

    /// Stores the records and the blob of the first one, which may have been removed.
    fn store_records(&self) {
        let stored = self
            .kit
            .send("POST", "/v1/blobs", &self.kit.owner, "Content-Type: image/png\r\n", BLOB);
        assert!(stored.status < 300, "{stored:?}");
        let body = format!("The heron. {}", "And so on. ".repeat(900));
        // The second record exposes a blob that is not stored yet.
        let rows = [("m1", BLOB), ("m2", NEW_BLOB)].map(|(id, blob)| {
            let (kind, blob) = ("image/png", blob_id(blob));
            let file = json!({ "blob_id": blob, "mime_type": kind, "fetch_url": "/" });
            let at = "2026-01-05T10:00:00Z";
            json!({ "data": { "id": id, "sent_at": at, "body": body, "file": file } })
        });
        self.kit.ingest("messages", "chat", &rows);
    }

    /// Mints a token for each caller. The tokens that the server must not accept claim everything.
    fn mint(&self) -> BTreeMap<&'static str, String> {
        let rig = &self.kit.rig;
        let expired = self.expired();
        let all = &["--owner", "--user", USER];
        let foreign = Rig { state: self.kit.folder.path().join("elsewhere"), ..rig.clone() };
        let beside = Rig { root: self.kit.folder.path().join("private"), ..rig.clone() };
        std::fs::create_dir(&beside.root).unwrap();
        let (grant, _) = self.kit.client(&["--stream", "messages"]);
        let user = &["--user", USER];
        BTreeMap::from([
            ("no token", String::new()),
            ("malformed", "nonsense".to_owned()),
            ("expired", expired),
            ("revoked", rig.token(&["write:/"], all)),
            ("another state", foreign.token(&["write:/"], all)),
            ("another space", beside.token(&["write:/"], all)),
            ("beside", rig.token(&["write:/note", "write:/other/", "write:/notes/b.md"], user)),
            ("read", rig.token(&["read:/notes/"], user)),
            ("write", rig.token(&["write:/notes/"], user)),
            ("grant", rig.token(&[], &["--grant", &grant, "--user", USER])),
            ("owner", rig.token(&[], all)),
            ("another's session", rig.token(&["write:/"], all)),
        ])
    }

    fn expired(&self) -> String {
        let state = StateDir::open(&self.kit.rig.state).unwrap();
        let (key, tokens) = (TokenKey::open(&state).unwrap(), TokenStore::open(&state).unwrap());
        let audience = tokens.only_space().unwrap().unwrap();
        let order = MintRequest {
            subject: USER.to_owned(),
            scopes: Scopes::from_claim("write:/"),
            client: None,
            records: RecordsClaim::Owner,
            life: Duration::from_secs(60),
        };
        let minter = Minter { key: &key, tokens: &tokens, audience: &audience };
        minter.mint(&order, SystemTime::now() - Duration::from_secs(120)).unwrap().token
    }

    /// Opens the sessions, then revokes the token that is to be revoked in the middle of its own.
    fn open(&mut self) {
        const SESSION: Lifecycle = Lifecycle::Session("2025-11-25");
        let server = &self.kit.server;
        let bob = self.kit.rig.token(&["write:/"], &["--owner", "--user", "bob"]);
        for (caller, holds) in CALLERS {
            let token = self.tokens[caller].as_str();
            let opener = match holds {
                Holds::AnotherSession => &bob,
                Holds::NoToken | Holds::InvalidToken if caller != "revoked" => {
                    &self.tokens["write"]
                }
                _ => token,
            };
            let mut session = Peer::open(server, opener, SESSION);
            token.clone_into(&mut session.token);
            let sessionless = Peer::open(server, token, Lifecycle::Sessionless);
            let mut peers = vec![(SESSION, session)];
            // A session id on a request without session means nothing.
            if holds != Holds::AnotherSession {
                peers.push((Lifecycle::Sessionless, sessionless));
            }
            self.peers.insert(caller, peers);
        }
        revoke(&self.kit.rig, &self.tokens["revoked"]);
        for caller in ["grant", "owner"] {
            let (_, peer) = self.peers.get_mut(caller).unwrap().last_mut().unwrap();
            let found = peer.tool("search", json!({ "q": "heron" })).unwrap();
            let fetched = peer.tool("fetch", json!({ "id": found["results"][0]["id"] })).unwrap();
            let told = format!("{found}{fetched}");
            for template in TEMPLATES {
                let prefix = template.uri.trim_end_matches("{handle}");
                let address = told.split('"').find(|text| text.starts_with(prefix));
                let address = address.unwrap_or_else(|| panic!("no {prefix} in {told}"));
                self.addresses.insert((caller, template.uri.into_owned()), address.to_owned());
            }
        }
    }

    /// Returns the arguments of a call that succeeds for a caller who may make it.
    fn arguments(&self, tool: &str) -> Value {
        let hash = ContentHash::digest(NOTE.as_bytes());
        let (path, second) = ("/notes/a.md", "second line");
        let id = "chat/messages:m1";
        match tool {
            "file.list" => json!({ "path": "/notes/deep" }),
            "file.find" => json!({ "path": "/notes/deep", "pattern": "*" }),
            "file.search" | "text.search" => json!({ "path": "/notes/a.md", "q": "heron" }),
            "file.create" => json!({ "path": "/notes/new.md", "content": "new" }),
            "file.append" => json!({ "path": path, "hash": hash, "content": "x" }),
            "file.move" | "file.copy" => {
                json!({ "path": path, "hash": hash, "to": "/notes/moved.md" })
            }
            "file.remove" => json!({ "path": path, "hash": hash }),
            "folder.create" => json!({ "path": "/notes/made" }),
            "folder.move" => {
                let empty = ContentHash::digest(b"");
                json!({ "path": "/notes/deep", "hash": empty, "to": "/notes/made" })
            }
            "folder.remove" => json!({ "path": "/notes/deep" }),
            "text.edit" => {
                let edits = json!([{ "old": "second", "new": "x" }]);
                json!({ "path": path, "hash": hash, "edits": edits })
            }
            "file.read" => json!({ "path": path }),
            "text.read" => json!({ "path": path }),
            "text.replace" => {
                json!({ "path": path, "hash": hash, "lines": [1, 0], "old": second, "new": "x" })
            }
            "text.insert" => {
                json!({ "path": path, "hash": hash, "line": 2, "anchor": second, "content": "x" })
            }
            "text.append" => json!({ "path": path, "hash": hash, "content": "x" }),
            "note.find" => json!({ "path": "/notes/deep", "tag": "a" }),
            "note.set_property" => {
                json!({ "path": path, "hash": hash, "name": "a", "value": 1 })
            }
            "note.links" => json!({ "path": path }),
            "note.tags" => json!({ "path": "/notes/deep" }),
            "text.gather" => json!({ "items": [{ "path": path }] }),
            "get_note_outline"
            | "get_document_tree"
            | "get_metadata_facets"
            | "get_section_source" => json!({ "path": "notes/a.md" }),
            "schema" => json!({}),
            "search" => json!({ "q": "heron" }),
            "query_records" => json!({ "stream": "messages" }),
            "aggregate" => json!({ "stream": "messages", "metric": "count" }),
            "fetch" => json!({ "id": id }),
            "read_record_field" => json!({ "id": id, "field_path": "body" }),
            unknown => panic!("add arguments with which `{unknown}` succeeds to this list"),
        }
    }

    /// Returns an address of a resource, which the caller may read if anybody may.
    fn address(&self, template: &str, caller: &'static str) -> String {
        if template == list::TEMPLATE.uri {
            return "list:///notes".to_owned();
        }
        if template == file_resource::TEMPLATE.uri {
            return "space:///notes/a.md".to_owned();
        }
        let of = |caller| self.addresses.get(&(caller, template.to_owned()));
        let address = of(caller).or_else(|| of("owner"));
        let add = || panic!("add an address of a resource of `{template}` to `Ground`");
        address.unwrap_or_else(add).clone()
    }

    /// Returns the method, the target, further headers and the body of a request that succeeds.
    fn request(&self, surface: Surface) -> (&'static str, String, String, String) {
        let operation = match surface {
            Surface::Operation(operation) => operation,
            Surface::Route(path) => {
                let headers = format!("X-Vault-Id: default\r\nX-User-Id: {USER}\r\n");
                return ("GET", path.replace("{path}", "notes%2Fa.md"), headers, String::new());
            }
            Surface::Tool(_) | Surface::Resource(_) | Surface::Mcp(_) => {
                panic!("{} has a client of its own", surface.name())
            }
        };
        let path = operation
            .path
            .replace("{stream}", "messages")
            .replace("{id}", "m1")
            .replace("{blob_id}", &blob_id(BLOB))
            .replace("{grant_id}", &self.spare.0)
            .replace("{jti}", &self.spare.1);
        let query = match (operation.method, operation.path) {
            (_, "/v1/search") => "?q=heron",
            (_, "/v1/streams/{stream}/aggregate") => "?metric=count",
            (_, "/v1/streams/{stream}/records/{id}/field-window") => "?field=body",
            (_, "/v1/ingest/{stream}") => "?connection_id=chat",
            _ => "",
        };
        let json = "Content-Type: application/json\r\n";
        let (headers, body) = match (operation.method, operation.path) {
            (OperationMethod::Post, "/v1/blobs") => {
                ("Content-Type: image/png\r\n", NEW_BLOB.to_owned())
            }
            (OperationMethod::Post, "/v1/grants") => {
                let grant =
                    json!({ "client": { "client_id": "c" }, "streams": [{ "name": "messages" }] });
                (json, grant.to_string())
            }
            (OperationMethod::Post, "/v1/grants/{grant_id}/tokens") => (json, String::new()),
            (OperationMethod::Post, "/v1/introspect") => {
                let form = "Content-Type: application/x-www-form-urlencoded\r\n";
                (form, format!("token={}", self.kit.owner))
            }
            (OperationMethod::Put, _) => {
                let mut declaration = self.declaration()["declaration"].take();
                declaration["remark"] = "declared anew".into();
                (json, declaration.to_string())
            }
            (OperationMethod::Post, _) => (
                "Content-Type: application/x-ndjson\r\n",
                "{\"data\":{\"id\":\"m3\",\"sent_at\":\"2026-02-05T10:00:00Z\"}}\n".to_owned(),
            ),
            _ => ("", String::new()),
        };
        (operation.method.name(), format!("{path}{query}"), headers.to_owned(), body)
    }

    fn declaration(&self) -> Value {
        self.kit.get("/v1/streams/messages/declaration", &self.kit.owner).json()
    }

    /// Returns everything that a refused request must leave as it was.
    fn state(&self) -> Touchable {
        let mut records = self.kit.get("/v1/streams/messages/records", &self.kit.owner).json();
        let records = records["data"].take();
        let new = self.kit.get(&format!("/v1/blobs/{}", blob_id(NEW_BLOB)), &self.kit.owner);
        let grants = self.kit.get("/v1/grants", &self.kit.owner).json();
        let state = StateDir::open(&self.kit.rig.state).unwrap();
        let tokens = TokenStore::open(&state).unwrap().list().unwrap();
        let tokens = tokens.into_iter().map(|token| (token.jti, token.revoked));
        let mut files = contents(&self.kit.rig.root);
        let folders = NOTE_FOLDERS.iter().filter(|folder| self.kit.rig.root.join(folder).is_dir());
        files.extend(folders.map(|folder| (format!("{folder}/"), Vec::new())));
        Touchable {
            files,
            records,
            new_blob: new.status,
            declaration: self.declaration(),
            grants,
            tokens: tokens.collect(),
        }
    }

    /// Undoes what a request changed that succeeded.
    fn restore(&self) {
        for file in contents(&self.kit.rig.root).keys() {
            if !self.files.contains_key(file) {
                std::fs::remove_file(file).unwrap();
            }
        }
        for (file, bytes) in &self.files {
            std::fs::write(file, bytes).unwrap();
        }
        let [deep, made] = NOTE_FOLDERS.map(|folder| self.kit.rig.root.join(folder));
        std::fs::create_dir_all(deep).unwrap();
        let _ = std::fs::remove_dir(made);
        self.store_records();
    }

    /// Makes the requests of a caller to a surface, one for each lifecycle, and returns their
    /// outcomes.
    fn outcomes(&mut self, surface: Surface, caller: &'static str) -> Vec<String> {
        let (method, params) = match surface {
            Surface::Tool(tool) => {
                ("tools/call", json!({ "name": tool, "arguments": self.arguments(tool) }))
            }
            Surface::Resource(template) => {
                ("resources/read", json!({ "uri": self.address(template, caller) }))
            }
            Surface::Mcp("POST") => ("tools/list", json!({})),
            Surface::Mcp(method) => return vec![self.stream_or_end(method, caller)],
            Surface::Route(_) | Surface::Operation(_) => return vec![self.plain(surface, caller)],
        };
        let mut peers = self.peers.remove(caller).unwrap();
        let mut outcomes = Vec::new();
        for (lifecycle, peer) in &mut peers {
            let before = self.state();
            let reply = peer.post(method, params.clone()).unwrap();
            let message = message_of(&reply);
            if reply.status == 200 {
                let result = &message["result"];
                let failed = result.is_null() || result["isError"] == true;
                outcomes.push(if failed { message.to_string() } else { "ok".to_owned() });
            } else {
                if reply.status == 403 {
                    assert_eq!(message.pointer("/error/code"), Some(&json!(-31403)), "{message}");
                }
                outcomes.push(reply.status.to_string());
                self.assert_challenge(surface, &reply, caller);
            }
            let name = format!("{} with {caller}, {lifecycle:?}", surface.name());
            self.assert_touched(&name, surface.needs(), before, outcomes.last().unwrap());
        }
        self.peers.insert(caller, peers);
        outcomes
    }

    /// Opens the event stream of a session, or ends the session.
    fn stream_or_end(&self, method: &str, caller: &str) -> String {
        let (_, peer) = &self.peers[caller][0];
        let mut head = self.head(method, "/mcp", &peer.token);
        let session = peer.session.as_deref().unwrap();
        let _ = write!(
            head,
            "Accept: text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n\
             Mcp-Session-Id: {session}\r\n\r\n"
        );
        let mut stream = TcpStream::connect(self.kit.server.address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut line = [0; 12];
        stream.read_exact(&mut line).unwrap();
        match &line[9..] {
            b"200" | b"204" => "ok".to_owned(),
            status => String::from_utf8_lossy(status).into_owned(),
        }
    }

    fn head(&self, method: &str, target: &str, token: &str) -> String {
        let address = self.kit.server.address;
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\n");
        if !token.is_empty() {
            let _ = write!(head, "Authorization: Bearer {token}\r\n");
        }
        head
    }

    fn plain(&self, surface: Surface, caller: &str) -> String {
        let (method, target, headers, body) = self.request(surface);
        let before = self.state();
        let head = self.head(method, &target, &self.tokens[caller]);
        let request = format!("{head}{headers}Content-Length: {}\r\n\r\n{body}", body.len());
        let reply = self.kit.server.client("").send(request.as_bytes()).unwrap();
        let outcome = match reply.status {
            200..=299 => "ok".to_owned(),
            status => status.to_string(),
        };
        if outcome != "ok" {
            self.assert_challenge(surface, &reply, caller);
        }
        let name = format!("{} with {caller}", surface.name());
        self.assert_touched(&name, surface.needs(), before, &outcome);
        outcome
    }

    /// Checks that a refusal says what kind of token would help.
    fn assert_challenge(&self, surface: Surface, reply: &Reply, caller: &str) {
        let name = format!("{} with {caller}: {reply:?}", surface.name());
        let challenge = reply.header("www-authenticate").unwrap_or_default();
        let says = |error: &str| challenge.contains(&format!("error=\"{error}\""));
        // A scope would not help where records are refused under `/v1`.
        let is_operation = matches!(surface, Surface::Operation(_));
        if reply.status == 401 {
            assert!(challenge.starts_with("Bearer ") && !says("insufficient_scope"), "{name}");
            assert_eq!(says("invalid_token"), !self.tokens[caller].is_empty(), "{name}");
        } else if reply.status == 403 && !is_operation {
            assert!(challenge.starts_with("Bearer ") && says("insufficient_scope"), "{name}");
        }
    }

    /// Checks that a request changed something if and only if it succeeded and changes things.
    fn assert_touched(&self, name: &str, needs: Needs, before: Touchable, outcome: &str) {
        let changes = outcome == "ok" && matches!(needs, Needs::Write | Needs::Owner);
        assert_eq!(self.state() != before, changes, "{name}: {outcome}");
        if changes {
            self.restore();
        }
    }
}

/// The paths of the authorization server and its pages, with the names of their constants.
const SIGN_IN: &[(&str, &str, &str)] = &[
    ("/.well-known/oauth-authorization-server", "METADATA_PATH", "everybody"),
    ("/.well-known/openid-configuration", "OPENID_PATH", "everybody"),
    (AUTHORIZE_PATH, "AUTHORIZE_PATH", "a browser with the request of a known client"),
    (REGISTER_PATH, "REGISTER_PATH", "everybody, at a limited rate; gives no access"),
    (PUSH_PATH, "PUSH_PATH", "a known client"),
    (TOKEN_PATH, "TOKEN_PATH", "a known client with its code or refresh token"),
    (REVOKE_PATH, "REVOKE_PATH", "a known client, for its own tokens"),
    (INTROSPECT_PATH, "INTROSPECT_PATH", "the owner, with a token of `stile token --owner`"),
    (CONSENT_PATH, "CONSENT_PATH", "the owner, with a session; decides with the token of its form"),
    (SIGN_IN_PATH, "SIGN_IN_PATH", "everybody; opens a session for what proves the owner"),
    (SIGN_OUT_PATH, "SIGN_OUT_PATH", "the owner, with a session"),
    ("/sign-in/password", "PASSWORD_PATH", "everybody, with growing delays after failures"),
    ("/sign-in/passkey", "PASSKEY_PATH", "everybody, at a limited rate"),
    ("/sign-in/provider", "PROVIDER_PATH", "everybody; leads to the identity provider"),
    ("/sign-in/provider/callback", "CALLBACK_PATH", "the browser that came from there"),
    ("/pages/design", "DESIGN_PATH", "everybody"),
    ("/owner", "OWNER_PATH", "everybody; leads to the next one"),
    ("/owner/clients", "ACCESS_PATH", OWNER),
    ("/owner/clients/end", "access_page::END_PATH", FORM),
    ("/owner/clients/narrow", "access_page::NARROW_PATH", FORM),
    ("/owner/clients/take-away", "access_page::TAKE_AWAY_PATH", FORM),
    ("/owner/clients/edit", "EDIT_PATH", OWNER_DECIDES),
    ("/owner/clients/revoke-token", "access_page::REVOKE_TOKEN_PATH", FORM),
    ("/owner/clients/revoke-grant", "access_page::REVOKE_GRANT_PATH", FORM),
    ("/owner/activity", "ACTIVITY_PATH", SOLE_OWNER),
    ("/owner/activity/live", "LIVE_PATH", SOLE_OWNER),
    ("/owner/activity/call", "CALL_PATH", SOLE_OWNER),
    ("/owner/undo", "UNDO_PATH", SOLE_OWNER_DECIDES),
    ("/owner/files", "FILES_PATH", SOLE_OWNER),
    ("/owner/file", "FILE_PATH", SOLE_OWNER_DECIDES),
    ("/owner/connect", "CONNECT_PATH", SOLE_OWNER),
    ("/owner/connect/token", "MAKE_TOKEN_PATH", SOLE_OWNER_DECIDES),
    ("/owner/connect/import-token", "MAKE_IMPORT_TOKEN_PATH", SOLE_OWNER_DECIDES),
    ("/owner/records", "RECORDS_PATH", SOLE_OWNER),
    ("/owner/grant", "GRANT_PATH", SOLE_OWNER_DECIDES),
    ("/owner/import", "IMPORT_PATH", SOLE_OWNER_DECIDES),
    ("/owner/import/progress", "IMPORT_PROGRESS_PATH", SOLE_OWNER),
    ("/owner/import/store", "STORE_IMPORT_PATH", SOLE_OWNER_DECIDES),
    ("/owner/import/forget", "FORGET_IMPORT_PATH", SOLE_OWNER_DECIDES),
    ("/owner/health", "HEALTH_PATH", SOLE_OWNER),
    ("/owner/health/backup", "BACKUP_PATH", ONE_OWNER_DECIDES),
    ("/owner/health/backup/progress", "BACKUP_PROGRESS_PATH", SOLE_OWNER),
    ("/owner/account", "ACCOUNT_PATH", OWNER),
    ("/owner/account/passkeys", "account_page::REGISTER_PATH", FORM),
    ("/owner/account/passkeys/remove", "account_page::REMOVE_PASSKEY_PATH", FORM),
    ("/owner/account/password", "account_page::SET_PASSWORD_PATH", SETS_PASSWORD),
    ("/owner/account/sessions/end-one", "account_page::END_SESSION_PATH", FORM),
    ("/owner/account/sessions/end", "account_page::END_SESSIONS_PATH", FORM),
    ("/pages/app.webmanifest", "MANIFEST_PATH", "everybody"),
    ("/pages/icon.svg", "ICON_PATH", "everybody"),
    ("/pages/passkey.js", "PASSKEY_SCRIPT_PATH", "everybody"),
    ("/pages/page.js", "PAGE_SCRIPT_PATH", "everybody"),
    (STYLE_PATH, "STYLE_PATH", "everybody"),
];

const OWNER: &str = "the owner, with a session";
const OWNER_DECIDES: &str = "the owner, with a session; changes with the token of its form";
const SOLE_OWNER: &str = "the owner of a space, with a session";
const SOLE_OWNER_DECIDES: &str =
    "the owner of a space, with a session; changes with the token of its form";
const ONE_OWNER_DECIDES: &str =
    "the one owner of a server, with a session and the token of its form";
const SETS_PASSWORD: &str =
    "the owner, with a session, the token of its form and the present password, if there is one";
const FORM: &str = "the owner, with a session and the token of its form";

#[test]
fn the_page_of_callers_knows_every_route_of_signing_in() {
    let path = root().join("crates/server/src/sign_in/routes.rs");
    let code = std::fs::read_to_string(path).unwrap();
    let names = code.split(".route(").skip(1).filter_map(|rest| rest.split(',').next());
    // The metadata is at several addresses, in a loop.
    let named: BTreeSet<&str> = names
        .filter(|name| name.ends_with("_PATH"))
        .chain(["METADATA_PATH", "OPENID_PATH"])
        .collect();
    assert_eq!(named, SIGN_IN.iter().map(|(_, name, _)| *name).collect(), "add it to `SIGN_IN`");
}

/// Returns the page with the table of what is expected.
fn page(surfaces: &[Surface]) -> String {
    let mut out =
        "<!-- Written by a test from the code: run the tests with UPDATE_DOCS=1 to renew it. -->\n\n\
         # Who may use what\n\n\
         The test `every_surface_refuses_every_caller_but_the_right_ones` makes each of these \
         requests to a running server, and checks that a refused one changes no file, record, \
         declaration, grant or token. The rows come from the lists in the code.\n\n\
         The requests are about the folder `/notes/`, and about one stream. `ok` is a success. A \
         number is the HTTP status of the refusal.\n\n\
         - *invalid*: the token is malformed, expired, revoked (also in the middle of its session), \
         of another state folder, or of another space of the same state. The test tries each.\n\
         - *beside*: the scopes `write:/note`, `write:/other/` and `write:/notes/b.md`.\n\
         - *read*, *write*: the scope `read:/notes/` or `write:/notes/`.\n\
         - *grant*: a grant of the stream. *owner*: a token of `--owner` without scopes.\n\
         - *session*: a token that may do everything, with the id of a session that another user \
         opened. A dash marks what has no sessions.\n\n\
         MCP requests are made with a session and without one. Over standard input and output, a \
         refusal is a tool error or a resource error instead of 403; the test \
         `scopes_decide_over_standard_input_and_output_as_over_http` holds that.\n\n"
            .to_owned();
    // The callers with invalid tokens share a column.
    let columns: Vec<(&str, Holds)> = CALLERS
        .into_iter()
        .filter(|(caller, holds)| *holds != Holds::InvalidToken || *caller == "malformed")
        .collect();
    let headings = columns.iter().map(|(caller, _)| match *caller {
        "malformed" => "invalid",
        "another's session" => "session",
        caller => caller,
    });
    let headings: Vec<&str> = headings.collect();
    let _ = writeln!(out, "| surface | {} |", headings.join(" | "));
    let _ = writeln!(out, "|{}", "---|".repeat(columns.len() + 1));
    for surface in surfaces {
        let cells = columns.iter().map(|(_, holds)| {
            let applies = *holds != Holds::AnotherSession || surface.has_sessions();
            if applies { expected(surface.needs(), *holds) } else { "–" }
        });
        let cells: Vec<&str> = cells.collect();
        let _ = writeln!(out, "| `{}` | {} |", surface.name(), cells.join(" | "));
    }
    out.push_str(
        "\n## Signing in\n\n\
         A token opens no page, and a session of a browser opens nothing but pages; the test \
         `a_token_opens_no_page_and_a_session_opens_nothing_else` holds that. \
         [Signing in](owner-sign-in.md) says how the owner gets a session.\n\n\
         | path | who may use it |\n|---|---|\n",
    );
    for (path, _, who) in SIGN_IN {
        let _ = writeln!(out, "| `{path}` | {who} |");
    }
    out
}

#[test]
fn every_surface_refuses_every_caller_but_the_right_ones() {
    let surfaces = Surface::all();
    let mut ground = Ground::new();
    // The end of a session comes last, since each caller has one.
    let (ends, others): (Vec<Surface>, Vec<Surface>) =
        surfaces.iter().partition(|surface| matches!(surface, Surface::Mcp("DELETE")));
    let mut wrong = Vec::new();
    for surface in others.into_iter().chain(ends) {
        for (caller, holds) in CALLERS {
            if holds == Holds::AnotherSession && !surface.has_sessions() {
                continue;
            }
            let expected = expected(surface.needs(), holds);
            for outcome in ground.outcomes(surface, caller) {
                if outcome != expected {
                    let name = surface.name();
                    wrong.push(format!("{name} with {caller}: {outcome}, not {expected}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_page_of_callers_has_a_row_for_every_surface() {
    let surfaces = Surface::all();
    assert_document("docs/authorization.md", &page(&surfaces));
    let names: BTreeSet<String> = surfaces.iter().map(|surface| surface.name()).collect();
    assert_eq!(names.len(), surfaces.len(), "two surfaces have one name");
    for (surface, _) in NEEDS {
        assert!(names.contains(*surface), "`NEEDS` names `{surface}`, which does not exist");
    }
}

#[test]
fn the_page_of_callers_knows_every_route() {
    let path = root().join("crates/server/src/http/server.rs");
    let code = std::fs::read_to_string(path).unwrap();
    let routes: BTreeSet<&str> =
        code.split(".route(").skip(1).filter_map(|rest| rest.split(',').next()).collect();
    let known = [
        "metadata::MCP_PATH",
        "\"/health\"",
        "\"/ready\"",
        "metadata::METADATA_PATH",
        "metadata::METADATA_PATH_OF_ORIGIN",
        // The same under other addresses that people give to their clients.
        "metadata::MCP_PATH_WITH_SLASH",
        "metadata::ROOT_PATH",
        "metadata::METADATA_PATH_WITH_SLASH",
        "metadata::METADATA_PATH_OF_ROOT",
        // The style of the page at `/`.
        "STYLE_PATH",
        "NOTES_PATH",
        "RECORDS_PATH",
        "OPENAPI_PATH",
        // On a port of its own, for whoever can connect.
        "\"/metrics\"",
    ];
    assert_eq!(routes, known.into(), "a new route needs a line in `Surface::all` and in this list");
}

#[test]
fn scopes_decide_over_standard_input_and_output_as_over_http() {
    let ground = Ground::new();
    for (caller, holds, scopes) in [
        ("beside", Holds::Nothing, &["write:/note", "write:/other/", "write:/notes/b.md"][..]),
        ("read", Holds::Read, &["read:/notes/"]),
        ("write", Holds::Write, &["write:/notes/"]),
    ] {
        let flags = scopes.iter().flat_map(|scope| ["--scope", *scope]);
        let flags: Vec<&str> = flags.chain(["--owner", "--client", caller]).collect();
        let mut client = ground.kit.rig.stdio(&flags);
        // The start records the client among the tokens.
        client.request("ping", json!({})).unwrap();
        for surface in Surface::all() {
            let needs = surface.needs();
            // With `--owner`, the client sees the records as their owner.
            let expected = match needs {
                Needs::Records => "ok",
                _ => expected(needs, holds),
            };
            let (method, params) = match surface {
                Surface::Tool(tool) => {
                    ("tools/call", json!({ "name": tool, "arguments": ground.arguments(tool) }))
                }
                Surface::Resource(template) if needs == Needs::Read => {
                    ("resources/read", json!({ "uri": ground.address(template, caller) }))
                }
                _ => continue,
            };
            let before = ground.state();
            let message = client.request(method, params).unwrap();
            let is_ok = message["result"].is_object() && message["result"]["isError"] != true;
            let name = format!("{} with {caller} over stdio: {message}", surface.name());
            assert_eq!(is_ok, expected == "ok", "{name}");
            if !is_ok {
                assert!(message.to_string().contains("scope"), "{name}");
            }
            ground.assert_touched(&name, needs, before, if is_ok { "ok" } else { "refused" });
        }
        assert!(client.finish().unwrap().success());
    }
}
