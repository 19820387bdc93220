//! Every client of the survey in the decision record connects, with the identifier, the document,
//! the registration and the redirect address that it really uses.
//!
//! The documents come from a TLS server of the test, behind a network in which the names of the
//! clients lead there.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use stile_server::auth::{LocalVerifier, TokenUses};
use stile_server::http::{self, HttpOptions};
use stile_server::outbound::public_https::{PublicHttps, PublicNetwork};
use stile_server::owner_imports::uploads::Uploads;
use stile_server::service::Service;
use stile_server::sign_in::client_documents::ClientDocuments;
use stile_server::sign_in::routes::routes;
use stile_server::sign_in::secret::RandomSecret;
use stile_server::sign_in::settings::{AuthorizationServer, Owners, SignInSettings};
use stile_store::staged_uploads::UploadFolder;
use stile_store::state::{ClientKind, StateDir, TokenKey, TokenStore};
use stile_testkit::client::{Http, Reply};
use stile_testkit::upstream::{Behaviour, Received, Reply as Sent, Upstream};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::sign_in_kit::{Browser, ScriptedClient, discover, fetch, location, text_of};
use crate::sign_in_survey::{
    Known, Row, clients_that_register, clients_with_documents, document, with,
};
use crate::support::Ground;

const HOSTS: [&str; 6] =
    ["claude.ai", "chatgpt.com", "vscode.dev", "zed.dev", "opencode.ai", "client.example"];
const PUBLIC: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(93, 184, 216, 34));

/// A network in which every name has one address, and every address leads to one server.
#[derive(Clone)]
struct Network {
    server: SocketAddr,
    answer: Arc<Mutex<IpAddr>>,
}

impl PublicNetwork for Network {
    fn resolve(&self, _host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        std::future::ready(Ok(vec![*self.answer.lock().unwrap()])).boxed()
    }

    fn connect(&self, _address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> {
        TcpStream::connect(self.server).boxed()
    }
}

type Published = Arc<Mutex<BTreeMap<String, Sent>>>;

/// A server in this process that fetches documents, and the host of these documents.
struct Place {
    address: SocketAddr,
    tokens: Arc<TokenStore>,
    published: Published,
    host: Arc<Upstream>,
    network: Network,
    ground: Arc<Ground>,
    _runtime: Runtime,
}

impl Place {
    fn new() -> Self {
        let ground = Ground::real();
        std::fs::write(ground.root().join("plan.md"), "the plan\n").unwrap();
        let published = Published::default();
        let answers = Arc::clone(&published);
        let host = Upstream::start_tls_named(
            &HOSTS,
            Behaviour::notes(move |received: &Received| {
                let url = format!(
                    "https://{}{}",
                    received.header("host").unwrap_or_default(),
                    received.target
                );
                let found = answers.lock().unwrap().get(&url).cloned();
                found.unwrap_or_else(|| Sent::refusal(404, "nothing here"))
            }),
        );
        Self::start(Arc::new(ground), published, Arc::new(host))
    }

    /// Starts another server on the same space, state and documents.
    fn another(&self) -> Self {
        Self::start(Arc::clone(&self.ground), Arc::clone(&self.published), Arc::clone(&self.host))
    }

    fn start(ground: Arc<Ground>, published: Published, host: Arc<Upstream>) -> Self {
        let network = Network { server: host.address(), answer: Arc::new(Mutex::new(PUBLIC)) };
        let documents = PublicHttps::new(network.clone(), Some(host.authority())).unwrap();
        let state = ground.root().parent().unwrap().join("state");
        let state = StateDir::open(&state).unwrap();
        let (key, tokens) =
            (TokenKey::open(&state).unwrap(), Arc::new(TokenStore::open(&state).unwrap()));
        let audience = tokens.space_of(&ground.root()).unwrap().audience;
        let verifier = LocalVerifier::new(&key, &audience, Arc::clone(&tokens), SystemTime::now);
        let verifier = Arc::new(verifier);
        let server = AuthorizationServer::new(SignInSettings {
            key,
            tokens: Arc::clone(&tokens),
            audience,
            public_url: None,
            verifier: Arc::clone(&verifier),
            owners: Owners::One { records: None, space: None },
            folders: Arc::new(|_, _| Vec::new()),
            connectable: Vec::new(),
            access_life: Duration::from_secs(3600),
            documents: Some(ClientDocuments::new(documents)),
            clock: SystemTime::now,
            uses: TokenUses::new(Arc::clone(&tokens)),
            provider: None,
            uploads: Uploads::new(UploadFolder::open(&state).unwrap()),
            fleet: None,
        });
        let sign_in = routes(&Arc::new(server.unwrap()));
        let options = HttpOptions {
            listen: ([127, 0, 0, 1], 0).into(),
            sign_in: Some(sign_in),
            ..HttpOptions::default()
        };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build();
        let runtime = runtime.unwrap();
        let (listening, address) = std::sync::mpsc::channel();
        runtime.spawn(http::serve(
            options,
            Service::of_space(ground.tools.clone()),
            verifier,
            std::future::pending(),
            move |address| listening.send(address).unwrap(),
        ));
        let address = address.recv().unwrap();
        Self { address, tokens, published, host, network, ground, _runtime: runtime }
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    fn publish(&self, url: &str, reply: Sent) {
        self.published.lock().unwrap().insert(url.to_owned(), reply);
    }

    /// Returns a browser in which the owner is signed in.
    fn browser(&self) -> Browser {
        let code = RandomSecret::draw().unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let now = i64::try_from(now.as_secs()).unwrap();
        self.tokens.record_link(&code.digest(), "ann", now).unwrap();
        let mut browser = Browser::default();
        let origin = self.url().replace("/mcp", "");
        let page = browser.open(&format!("{origin}/sign-in"));
        let signed_in = browser.submit(&self.url(), &page, &[("code", code.reveal())]);
        assert!(signed_in.status < 400 && !browser.cookies.is_empty(), "{signed_in:?}");
        browser
    }

    /// Returns a client with an identifier and a redirect address.
    fn client(&self, id: &str, redirect: &str) -> ScriptedClient {
        let url = self.url();
        ScriptedClient {
            server: discover(&url),
            url,
            id: id.to_owned(),
            redirect: redirect.to_owned(),
            verifier: "a-verifier-of-a-test-that-is-long-enough-for-the-rule".to_owned(),
        }
    }

    fn register(&self, registration: &Value) -> Reply {
        let endpoint = discover(&self.url())["registration_endpoint"].as_str().unwrap().to_owned();
        let headers = [("Content-Type", "application/json")];
        fetch("POST", &endpoint, &headers, &registration.to_string())
    }
}

/// Reads a file as a client with this token.
fn read_file(place: &Place, token: &str) -> (u16, Value) {
    let mut client = Http::new(place.address, token);
    let arguments = json!({ "name": "text.read", "arguments": { "path": "/plan.md" } });
    let reply = client.post("tools/call", arguments).unwrap();
    (reply.status, reply.json())
}

/// Connects as an application does, from the authorization request to a tool call.
fn connects(place: &Place, browser: &mut Browser, row: &Row, id: &str, redirect: &str) {
    let client = place.client(id, redirect);
    let page = browser.open(&client.authorization_url(&[("scope", row.scope)]));
    let words = text_of(&page);
    assert_eq!(page.status, 200, "{}: {words}", row.name);
    assert!(words.contains(row.name.split(',').next().unwrap()), "{}: {words}", row.name);
    // The browser follows the answer only to where the page says that it may.
    let policy = page.header("content-security-policy").unwrap();
    let target = redirect.split("://").next().unwrap();
    assert!(policy.contains(&format!(" {target}:")), "{}: {policy}", row.name);
    let code = client.code(browser, row.scope, &[]);
    let answer = client.redeem(&code);
    assert_eq!(answer.status, 200, "{}: {answer:?}", row.name);
    let token = answer.json()["access_token"].as_str().unwrap().to_owned();
    let (status, read) = read_file(place, &token);
    assert_eq!(status, 200, "{}: {read}", row.name);
    assert!(read.to_string().contains("the plan"), "{}: {read}", row.name);
}

/// Tries the neighbours of a client's addresses: the browser stays here each time.
fn refuses_neighbours(place: &Place, browser: &mut Browser, row: &Row, id: &str) {
    for redirect in row.refused {
        let page = browser.get(&place.client(id, redirect).authorization_url(&[]));
        assert_eq!((page.status, location(&page)), (400, None), "{}: {redirect}", row.name);
    }
}

#[test]
fn every_client_that_publishes_a_document_connects_and_nobody_else_in_its_name() {
    let place = Place::new();
    let mut browser = place.browser();
    for row in clients_with_documents() {
        let Known::Document(url, document) = &row.known else { panic!("{}", row.name) };
        place.publish(url, Sent::json(200, document));
        for redirect in row.redirects {
            connects(&place, &mut browser, &row, url, redirect);
        }
        refuses_neighbours(&place, &mut browser, &row, url);
        // Later requests use what was fetched.
        let fetches = place.host.take_requests();
        assert_eq!(fetches.len(), 1, "{}: {fetches:?}", row.name);
    }
}

#[test]
fn every_client_that_registers_connects_and_nobody_else_in_its_name() {
    let place = Place::new();
    let mut browser = place.browser();
    for row in clients_that_register() {
        let Known::Registered(registration) = &row.known else { panic!("{}", row.name) };
        let registered = place.register(registration);
        assert_eq!(registered.status, 201, "{}: {registered:?}", row.name);
        let registered = registered.json();
        assert_eq!(registered["redirect_uris"], registration["redirect_uris"]);
        assert_eq!(registered["token_endpoint_auth_method"], "none");
        assert_eq!(registered.get("client_secret"), None);
        let id = registered["client_id"].as_str().unwrap();
        for redirect in row.redirects {
            connects(&place, &mut browser, &row, id, redirect);
        }
        refuses_neighbours(&place, &mut browser, &row, id);
    }
    assert_eq!(place.host.connections(), 0);
}

#[test]
fn a_registration_with_one_address_that_is_refused_registers_nothing() {
    let place = Place::new();
    for redirect in
        ["myapp://callback", "http://evil.example/cb", "javascript://a.example/x", "intent:/a"]
    {
        let redirects = ["http://localhost/callback", redirect];
        let refused = place.register(&json!({ "client_name": "X", "redirect_uris": redirects }));
        assert_eq!(
            (refused.status, &refused.json()["error"]),
            (400, &json!("invalid_redirect_uri"))
        );
    }
    assert!(place.tokens.clients().unwrap().is_empty());
}

const CLIENT: &str = "https://client.example/oauth/client.json";
const CALLBACK: &str = "https://client.example/callback";

/// Returns the answer to a request of the client with a document.
fn asks(place: &Place, id: &str) -> Reply {
    let url = place.client(id, CALLBACK).authorization_url(&[]);
    Browser::default().get(&url)
}

fn is_asked(reply: &Reply) -> bool {
    location(reply).is_some_and(|location| location.starts_with("/consent"))
}

#[test]
fn a_document_that_cannot_be_used_leads_nowhere_and_says_why() {
    let good = document(CLIENT, "Client", &[CALLBACK]);
    let lying = document("https://claude.ai/oauth/client.json", "Claude", &[CALLBACK]);
    let with_key = with(good.clone(), json!({ "token_endpoint_auth_method": "private_key_jwt" }));
    let huge = with(good.clone(), json!({ "padding": "x".repeat(64 * 1024) }));
    for (reply, words) in [
        (Sent::json(200, &lying), "must be the address of the document"),
        (Sent::json(200, &with_key), "public clients only"),
        (Sent::json(200, &huge), "longer than 64 KiB"),
        (Sent::json(403, &good), "status 403"),
        (Sent::json(200, &good).with_header("Location", CALLBACK), ""),
        (Sent::json(302, &good).with_header("Location", CALLBACK), "status 302"),
        (Sent::bytes(200, "text/html", good.to_string()), "is not JSON"),
        (Sent::bytes(200, "application/json", "<html>"), "is not JSON"),
    ] {
        let place = Place::new();
        place.publish(CLIENT, reply);
        let asked = asks(&place, CLIENT);
        if words.is_empty() {
            assert!(is_asked(&asked), "{asked:?}");
            continue;
        }
        assert_eq!((asked.status, location(&asked)), (400, None), "{words}");
        assert!(text_of(&asked).contains(words), "{words}: {}", text_of(&asked));
        assert!(place.tokens.clients().unwrap().is_empty());
    }
}

#[test]
fn an_identifier_that_leads_inside_is_not_fetched() {
    let place = Place::new();
    for id in [
        "http://client.example/oauth/client.json",
        "https://client.example:8443/oauth/client.json",
        "https://client.example/",
        "https://127.0.0.1/client.json",
        "https://169.254.169.254/latest/meta-data",
        "https://localhost/client.json",
        "https://[::1]/client.json",
        "https://me@client.example/client.json",
        "https://client.example/a/../client.json",
        "https://client.example/client.json?a=b",
        "file:///etc/passwd",
    ] {
        let asked = asks(&place, id);
        assert_eq!((asked.status, location(&asked)), (400, None), "{id}");
    }
    // A name that leads inside is not connected to either.
    place.publish(CLIENT, Sent::json(200, &document(CLIENT, "Client", &[CALLBACK])));
    *place.network.answer.lock().unwrap() = "10.0.0.1".parse().unwrap();
    let asked = asks(&place, CLIENT);
    assert!(text_of(&asked).contains("not on the public network"), "{}", text_of(&asked));
    assert_eq!((asked.status, place.host.connections()), (400, 0));
}

#[test]
fn a_pushed_request_fetches_the_document_of_its_client_too() {
    let place = Place::new();
    place.publish(CLIENT, Sent::json(200, &document(CLIENT, "Client", &[CALLBACK])));
    let push = |id: &str| {
        let client = place.client(id, CALLBACK);
        let url = client.authorization_url(&[]);
        let endpoint = client.server["pushed_authorization_request_endpoint"].as_str().unwrap();
        let headers = [("Content-Type", "application/x-www-form-urlencoded")];
        fetch("POST", endpoint, &headers, url.split_once('?').unwrap().1)
    };
    let pushed = push(CLIENT);
    assert_eq!(pushed.status, 201, "{pushed:?}");
    let reference = pushed.json()["request_uri"].as_str().unwrap().to_owned();
    let client = place.client(CLIENT, CALLBACK);
    let fields = crate::sign_in_kit::form(&[("client_id", CLIENT), ("request_uri", &reference)]);
    let endpoint = client.server["authorization_endpoint"].as_str().unwrap();
    assert!(is_asked(&Browser::default().get(&format!("{endpoint}?{fields}"))));
    let refused = push("https://client.example/oauth/none.json");
    assert_eq!((refused.status, &refused.json()["error"]), (401, &json!("invalid_client")));
    assert!(refused.json()["error_description"].as_str().unwrap().contains("status 404"));
}

#[test]
fn a_client_that_is_known_connects_while_its_document_cannot_be_fetched() {
    let place = Place::new();
    let mut browser = place.browser();
    place.publish(CLIENT, Sent::json(200, &document(CLIENT, "Client", &[CALLBACK])));
    let client = place.client(CLIENT, CALLBACK);
    let tokens = client.tokens(&mut browser, "read:/");
    let stored = place.tokens.find_client(CLIENT).unwrap().unwrap();
    assert_eq!((stored.kind, stored.redirects), (ClientKind::Document, vec![CALLBACK.to_owned()]));

    // Another process, which has nothing in memory, on the same state.
    place.publish(CLIENT, Sent::refusal(403, "not for clouds"));
    let again = place.another();
    assert!(is_asked(&asks(&again, CLIENT)));
    let other = place.client(CLIENT, "https://evil.example/callback");
    assert_eq!(browser.get(&other.authorization_url(&[])).status, 400);

    // A token is renewed without any fetch.
    let fetches = place.host.take_requests().len();
    assert_eq!(client.refresh(tokens["refresh_token"].as_str().unwrap()).status, 200);
    assert_eq!((fetches, place.host.take_requests().len()), (2, 0));
}
