//! The fetcher against a TLS server of this machine, behind a network that the test makes up.

use std::collections::VecDeque;
use std::sync::Mutex;

use stile_testkit::upstream::tls::Protocol;
use stile_testkit::upstream::{Behaviour, Reply, Step, Upstream, tls::Certificate};

use super::*;

const HOST: &str = "client.example";
const URL: &str = "https://client.example/oauth/client.json";
const PUBLIC: &str = "93.184.216.34";

/// Says what names resolve to, connects everything to one server, and remembers what was asked.
#[derive(Clone)]
struct Network(Arc<Inner>);

struct Inner {
    /// The answers to come; the last is repeated.
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    server: SocketAddr,
    resolved: Mutex<Vec<String>>,
    connected: Mutex<Vec<SocketAddr>>,
}

impl Network {
    fn new(server: &Upstream, answers: &[&[&str]]) -> Self {
        let parse = |answer: &&[&str]| answer.iter().map(|it| it.parse().unwrap()).collect();
        Self(Arc::new(Inner {
            answers: Mutex::new(answers.iter().map(parse).collect()),
            server: server.address(),
            resolved: Mutex::default(),
            connected: Mutex::default(),
        }))
    }

    fn connected(&self) -> Vec<String> {
        self.0.connected.lock().unwrap().iter().map(ToString::to_string).collect()
    }
}

impl PublicNetwork for Network {
    fn resolve(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.0.resolved.lock().unwrap().push(host.to_owned());
        let mut answers = self.0.answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        std::future::ready(answer.ok_or_else(|| io::ErrorKind::NotFound.into())).boxed()
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> {
        self.0.connected.lock().unwrap().push(address);
        TcpStream::connect(self.0.server).boxed()
    }
}

fn fetcher(server: &Upstream, network: &Network) -> PublicHttps {
    PublicHttps::new(network.clone(), Some(server.authority())).unwrap()
}

async fn fetch(fetcher: &PublicHttps) -> Result<FetchedDocument, FetchError> {
    fetcher.fetch(&ClientIdUrl::parse(URL).unwrap()).await
}

fn document() -> Reply {
    Reply::bytes(200, "application/json", "{}")
}

/// Fetches once from a server at a public address.
async fn fetch_from(behaviour: Behaviour) -> Result<FetchedDocument, FetchError> {
    let server = Upstream::start_tls_named(&[HOST], behaviour);
    fetch(&fetcher(&server, &Network::new(&server, &[&[PUBLIC]]))).await
}

#[tokio::test]
async fn a_document_is_fetched_with_one_plain_request() {
    let reply = document().with_header("Cache-Control", "public, max-age=60");
    let server = Upstream::start_tls_named(&[HOST], Behaviour::always(reply));
    let network = Network::new(&server, &[&[PUBLIC]]);
    let fetched = fetch(&fetcher(&server, &network)).await.unwrap();
    assert_eq!(fetched, FetchedDocument { bytes: b"{}".to_vec(), max_age: Some(60) });
    assert_eq!(*network.0.resolved.lock().unwrap(), [HOST]);
    assert_eq!(network.connected(), [format!("{PUBLIC}:443")]);
    let requests = server.requests();
    assert_eq!((requests.len(), requests[0].method.as_str()), (1, "GET"));
    assert_eq!(requests[0].target, "/oauth/client.json");
    assert_eq!(requests[0].names(), ["host", "accept", "user-agent"]);
    assert_eq!(requests[0].values("host"), [HOST]);
}

#[tokio::test]
async fn a_host_with_any_address_that_is_not_public_is_not_connected_to() {
    let server = Upstream::start_tls_named(&[HOST], Behaviour::always(document()));
    for answer in [
        &["127.0.0.1"][..],
        &["10.1.2.3"],
        &["169.254.169.254"],
        &["100.64.0.1"],
        &["192.168.1.1"],
        &["224.0.0.1"],
        &["::1"],
        &["fe80::1"],
        &["fd00::1"],
        &["::ffff:93.184.216.34"],
        &["64:ff9b::a00:1"],
        &[PUBLIC, "127.0.0.1"],
        &["2606:4700::1111", PUBLIC, "::1"],
    ] {
        let network = Network::new(&server, &[answer]);
        assert_eq!(fetch(&fetcher(&server, &network)).await, Err(FetchError::NotPublic));
        assert_eq!(network.connected(), Vec::<String>::new(), "{answer:?}");
    }
    assert_eq!(server.connections(), 0);
    let nothing = Network::new(&server, &[&[]]);
    assert_eq!(fetch(&fetcher(&server, &nothing)).await, Err(FetchError::Unreachable));
}

#[tokio::test]
async fn a_name_server_that_changes_its_answer_changes_nothing() {
    let server = Upstream::start_tls_named(&[HOST], Behaviour::always(document()));
    let network = Network::new(&server, &[&[PUBLIC], &["127.0.0.1"]]);
    let fetcher = fetcher(&server, &network);
    assert!(fetch(&fetcher).await.is_ok());
    // The first answer was asked for once and used; the second is judged anew.
    assert_eq!(fetch(&fetcher).await, Err(FetchError::NotPublic));
    assert_eq!(network.connected(), [format!("{PUBLIC}:443")]);
    assert_eq!(network.0.resolved.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let elsewhere = Upstream::start(Behaviour::always(document()));
    for code in [301, 302, 303, 307, 308] {
        for location in [elsewhere.url(), "/other".to_owned(), URL.to_owned()] {
            let server =
                Upstream::start_tls_named(&[HOST], Behaviour::redirect(code, location.clone()));
            let network = Network::new(&server, &[&[PUBLIC]]);
            let fetched = fetch(&fetcher(&server, &network)).await;
            assert_eq!(fetched, Err(FetchError::Status(code)), "{location}");
            assert_eq!(server.requests().len(), 1);
        }
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn only_a_short_json_document_with_status_200_is_taken() {
    for status in [201, 204, 304, 403, 404, 500, 503] {
        let fetched = fetch_from(Behaviour::always(Reply::bytes(status, "application/json", "")));
        assert_eq!(fetched.await, Err(FetchError::Status(status)));
    }
    for kind in ["text/html", "application/javascript", "text/json", "", "application/jsonp"] {
        let fetched = fetch_from(Behaviour::always(Reply::bytes(200, kind, "{}")));
        assert_eq!(fetched.await, Err(FetchError::NotJson), "{kind}");
    }
    for kind in ["application/json; charset=utf-8", "Application/JSON", "application/x+json"] {
        assert!(fetch_from(Behaviour::always(Reply::bytes(200, kind, "{}"))).await.is_ok());
    }
    let two = document().with_header("Content-Type", "text/html");
    assert_eq!(fetch_from(Behaviour::always(two)).await, Err(FetchError::NotJson));
    let encoded = document().with_header("Content-Encoding", "gzip");
    assert_eq!(fetch_from(Behaviour::always(encoded)).await, Err(FetchError::NotJson));
    let of = |bytes: usize| Reply::bytes(200, "application/json", "a".repeat(bytes));
    let longest = fetch_from(Behaviour::always(of(MAX_CLIENT_DOCUMENT_BYTES))).await.unwrap();
    assert_eq!(longest.bytes.len(), MAX_CLIENT_DOCUMENT_BYTES);
    let longer = fetch_from(Behaviour::always(of(MAX_CLIENT_DOCUMENT_BYTES + 1))).await;
    assert_eq!(longer, Err(FetchError::TooLarge));
}

#[tokio::test]
async fn an_endless_document_is_cut_off() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
    let steps =
        vec![Step::Send(head.into()), Step::Repeat(vec![b'a'; 4096], Duration::from_millis(1))];
    assert_eq!(fetch_from(Behaviour::steps(steps)).await, Err(FetchError::TooLarge));
    let head = "HTTP/1.1 200 OK\r\nA: ";
    let steps =
        vec![Step::Send(head.into()), Step::Repeat(vec![b'a'; 4096], Duration::from_millis(1))];
    assert_eq!(fetch_from(Behaviour::steps(steps)).await, Err(FetchError::Unreachable));
}

#[tokio::test]
async fn a_slow_host_is_given_up() {
    let drip = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n".to_vec();
    for behaviour in [
        Behaviour::Silence,
        Behaviour::Deaf,
        Behaviour::steps(vec![Step::Drip(drip, Duration::from_millis(20))]),
    ] {
        let server = Upstream::start_tls_named(&[HOST], behaviour.clone());
        let fetcher = fetcher(&server, &Network::new(&server, &[&[PUBLIC]]));
        let fetcher = fetcher.with_time_limit(Duration::from_millis(300));
        assert_eq!(fetch(&fetcher).await, Err(FetchError::TimedOut), "{behaviour:?}");
    }
}

#[tokio::test]
async fn a_host_without_a_good_certificate_for_its_name_gets_no_request() {
    use Certificate::{Expired, Good, NotYetValid, OtherAuthority, OtherName};
    for certificate in [Good, Expired, NotYetValid, OtherAuthority, OtherName] {
        let server =
            Upstream::start_tls(Protocol::Http1, certificate, Behaviour::always(document()));
        let fetched = fetch(&fetcher(&server, &Network::new(&server, &[&[PUBLIC]]))).await;
        assert_eq!(fetched, Err(FetchError::Unreachable), "{certificate:?}");
        assert!(server.requests().is_empty());
    }
    let plain = Upstream::start(Behaviour::always(document()));
    let network = Network::new(&plain, &[&[PUBLIC]]);
    // It waits for more than the greeting of TLS.
    let fetcher = PublicHttps::new(network, None).unwrap();
    let fetcher = fetcher.with_time_limit(Duration::from_millis(300));
    assert_eq!(fetch(&fetcher).await, Err(FetchError::TimedOut));
    assert!(plain.requests().is_empty());
}

#[tokio::test]
async fn a_fetch_ends_its_connection() {
    let server = Upstream::start_tls_named(&[HOST], Behaviour::always(document()));
    let fetcher = fetcher(&server, &Network::new(&server, &[&[PUBLIC]]));
    fetch(&fetcher).await.unwrap();
    fetch(&fetcher).await.unwrap();
    assert_eq!(server.connections(), 2);
}

#[test]
fn how_long_a_response_may_be_kept_is_read_from_all_its_directives() {
    let age = |values: &[&str]| {
        let headers = values.iter().map(|it| (CACHE_CONTROL, it.parse().unwrap()));
        max_age(&HeaderMap::from_iter(headers.collect::<Vec<_>>()))
    };
    assert_eq!(age(&[]), None);
    assert_eq!(age(&["public"]), None);
    assert_eq!(age(&["public, Max-Age=60"]), Some(60));
    assert_eq!(age(&["max-age=60, no-store"]), Some(0));
    assert_eq!(age(&["no-cache"]), Some(0));
    assert_eq!(age(&["max-age=x"]), None);
}
