//! What strangers say before anybody has signed in: redirect URIs, addresses of documents, and
//! descriptions of clients.
//!
//! An input is text: lines of redirect URIs, of which the second is the one of a request. If the
//! input is a JSON object, it is the description of a client, too.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};
use stile_domain::sign_in::client_id_url::ClientIdUrl;
use stile_domain::sign_in::client_metadata::{
    ClientMetadata, ClientName, MAX_CLIENT_NAME_CHARS, MAX_REDIRECT_URIS,
};
use stile_domain::sign_in::redirect_uri::{RedirectKind, RedirectUri};

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.split('\n');
    let (registered, sent) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    a_redirect_uri_is_read_as_a_browser_reads_it(registered);
    a_registered_uri_allows_itself_and_other_loopback_ports(registered, sent);
    an_address_of_a_document_is_a_plain_one(registered);
    a_name_is_clean(registered);
    if let Ok(Value::Object(members)) = serde_json::from_slice(input) {
        a_client_has_only_addresses_that_it_named(&members);
    }
});

/// The parts of an address of the form `scheme://authority/path?query`, taken apart by hand.
fn parts(text: &str) -> (&str, &str, &str) {
    let (scheme, after) = text.split_once(':').expect("it was accepted");
    // An address with a scheme of a program's own may have no authority: RFC 8252, 7.1.
    let Some(after) = after.strip_prefix("//") else { return (scheme, "", after) };
    let end = after.find(['/', '?', '#', '\\']).unwrap_or(after.len());
    let (authority, rest) = after.split_at(end);
    (scheme, authority, rest)
}

/// A browser's parser drops tabs and line breaks, turns `\` into `/`, decodes and lowers hosts, and
/// removes dot segments. An address in which it could do none of that has one reading.
fn a_redirect_uri_is_read_as_a_browser_reads_it(text: &str) {
    let Ok(uri) = RedirectUri::parse(text) else { return };
    assert_eq!(uri.as_str(), text);
    assert!(text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\#<>\"^`{|}".contains(&byte)));
    let (scheme, authority, rest) = parts(text);
    // The case of a scheme counts for nothing (RFC 3986, section 3.1).
    let is_scheme = uri.host().eq_ignore_ascii_case(scheme);
    let scheme = &*scheme.to_ascii_lowercase();
    // What stands behind a program's own scheme is for that program to read.
    let is_own = uri.kind() == RedirectKind::Native && is_scheme;
    let is_plain = !authority.contains(['@', '%']) && authority == authority.to_ascii_lowercase();
    assert!(is_own || is_plain);
    let host = match uri.kind() {
        RedirectKind::Native if is_scheme => uri.host(),
        RedirectKind::Native => authority,
        _ if authority.starts_with('[') => &authority[..=authority.find(']').expect("a bracket")],
        _ => authority.split(':').next().expect("a part"),
    };
    assert_eq!(uri.host(), host);
    match uri.kind() {
        RedirectKind::Web => assert_eq!(scheme, "https"),
        RedirectKind::Loopback => {
            assert_eq!(scheme, "http");
            assert!(["localhost", "127.0.0.1", "[::1]"].contains(&host));
        }
        RedirectKind::Native => {
            assert!(!["http", "https", "javascript", "data", "file"].contains(&scheme));
        }
    }
    let path = rest.split('?').next().expect("a part").to_ascii_lowercase().replace("%2e", ".");
    assert!(is_own || path.split('/').all(|segment| segment != "." && segment != ".."));
    // The answer goes to the same place, whatever is in it.
    let answer = uri.with_parameters(&[("code", "a/../b?#@evil.example"), ("state", "\r\n")]);
    assert!(answer.starts_with(text) && answer.bytes().all(|byte| byte.is_ascii_graphic()));
    assert_eq!(parts(&answer).1, authority);
    let (_, query) = answer.split_once('?').expect("parameters stand in a query");
    let own = text.split_once('?').map_or("", |(_, query)| query);
    assert!(query.starts_with(own) && query.contains("code=") && query.contains("state="));
}

fn a_registered_uri_allows_itself_and_other_loopback_ports(registered: &str, sent: &str) {
    let Ok(registered) = RedirectUri::parse(registered) else { return };
    assert!(registered.allows(&registered));
    let Ok(sent) = RedirectUri::parse(sent) else { return };
    assert_eq!(registered.allows(&sent), sent.allows(&registered));
    if !registered.allows(&sent) || registered == sent {
        return;
    }
    assert_eq!((registered.kind(), sent.kind()), (RedirectKind::Loopback, RedirectKind::Loopback));
    assert_eq!(registered.host(), sent.host());
    let target = |uri: &RedirectUri| {
        let rest = parts(uri.as_str()).2;
        if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") }
    };
    assert_eq!(target(&registered), target(&sent));
}

fn an_address_of_a_document_is_a_plain_one(text: &str) {
    let Ok(url) = ClientIdUrl::parse(text) else { return };
    assert_eq!(format!("https://{}{}", url.host(), url.path()), text);
    assert!(url.host().contains('.') && !url.host().contains([':', '@', '%', '[']));
    assert!(url.path().starts_with('/') && !url.path().contains(['?', '#', '\\']));
    let last = url.host().rsplit('.').next().expect("a label");
    assert!(!last.bytes().all(|byte| byte.is_ascii_digit()), "an address of the network");
    assert!(RedirectUri::parse(text).is_ok_and(|uri| uri.kind() == RedirectKind::Web));
}

fn a_name_is_clean(text: &str) {
    let Some(name) = ClientName::clean(text) else { return };
    let shown = name.as_str();
    assert!((1..=MAX_CLIENT_NAME_CHARS).contains(&shown.chars().count()));
    assert!(!shown.chars().any(|c| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c)));
    assert!(!shown.contains("  ") && shown.trim() == shown);
    assert_eq!(ClientName::clean(shown).as_ref(), Some(&name));
}

fn a_client_has_only_addresses_that_it_named(members: &Map<String, Value>) {
    let named = |uri: &RedirectUri| {
        let list = members["redirect_uris"].as_array().expect("it was read");
        list.iter().any(|named| named.as_str() == Some(uri.as_str()))
    };
    if let Ok(client) = ClientMetadata::from_registration(members) {
        let list = members["redirect_uris"].as_array().expect("it was read");
        assert_eq!(client.redirect_uris.len(), list.len());
        assert!(client.redirect_uris.iter().all(named));
    }
    let id = members.get("client_id").and_then(Value::as_str).unwrap_or_default();
    if let Ok(url) = ClientIdUrl::parse(id)
        && let Ok(client) = ClientMetadata::from_document(&url, members)
    {
        assert!((1..=MAX_REDIRECT_URIS).contains(&client.redirect_uris.len()));
        assert!(client.redirect_uris.iter().all(named));
        let other = ClientIdUrl::parse("https://other.example/client").expect("it is an address");
        assert!(url == other || ClientMetadata::from_document(&other, members).is_err());
    }
}
