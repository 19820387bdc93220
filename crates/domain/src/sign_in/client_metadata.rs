//! What a client says about itself: in the document at its address, or in a registration.
//!
//! Nothing of it is proven but that the document is at its address, so what a person is shown is
//! cleaned, and only the redirect URIs decide anything. A logo is ignored: fetching it would tell
//! the client's host who is asked, and it proves nothing.
//!
//! *Source*: RFC 7591, section 2; draft-ietf-oauth-client-id-metadata-document-02, section 4.

use std::fmt;

use serde_json::{Map, Value};

use super::client_id_url::ClientIdUrl;
use super::redirect_uri::{BadRedirectUri, RedirectUri};
use crate::client_name::{self_named, unreserved};
use crate::unseen::is_unseen;

/// The most redirect URIs of a client. Clients have up to six.
pub const MAX_REDIRECT_URIS: usize = 16;
/// The longest name that is shown, in Unicode scalar values.
pub const MAX_CLIENT_NAME_CHARS: usize = 64;

/// The name of a client, safe to show to a person: one line without control characters, characters
/// that are not seen, and characters that turn the direction of writing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientName(String);

/// What a client says about itself, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientMetadata {
    /// The name; `None` if the client gave none, or nothing that can be seen.
    pub name: Option<ClientName>,
    /// The addresses to which answers may go; at least one.
    pub redirect_uris: Vec<RedirectUri>,
    /// Whether the client says that it can use a refresh token.
    pub uses_refresh_tokens: bool,
}

/// Why a client's description of itself cannot be used. Repeats nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadClientMetadata {
    /// The document names another identifier than its address.
    #[error("`client_id` in the document of a client must be the address of the document")]
    OtherClientId,
    /// The document has a secret that everybody can read.
    #[error("the document of a client contains no secret")]
    Secret,
    /// A member has another type than RFC 7591 says.
    #[error("`{0}` has the wrong type")]
    Type(&'static str),
    /// There are no redirect URIs, or more than [`MAX_REDIRECT_URIS`].
    #[error("`redirect_uris` must be a list of 1 to 16 addresses")]
    RedirectUriCount,
    /// A redirect URI of a registration is not accepted, or none of a document is.
    #[error("`redirect_uris`: {0}; no client was registered")]
    RedirectUri(#[from] BadRedirectUri),
    /// The client cannot prove itself in the way that this server knows.
    #[error(
        "this server knows public clients only: `token_endpoint_auth_method`, or one of \
         `token_endpoint_auth_methods_supported`, must be `none`"
    )]
    AuthMethod,
    /// The client does not use authorization codes.
    #[error("`grant_types` must have `authorization_code`, and `response_types` `code`")]
    Flow,
}

impl BadClientMetadata {
    /// Returns the error code of RFC 7591, section 3.2.2.
    pub fn code(self) -> &'static str {
        match self {
            Self::RedirectUriCount | Self::RedirectUri(_) => "invalid_redirect_uri",
            _ => "invalid_client_metadata",
        }
    }
}

impl ClientMetadata {
    /// Reads the document at `url`.
    ///
    /// Of the redirect URIs, those are kept that this server accepts. A published document is the
    /// same for all servers, and may name addresses that we do not know.
    ///
    /// # Errors
    /// Every [`BadClientMetadata`].
    pub fn from_document(
        url: &ClientIdUrl,
        document: &Map<String, Value>,
    ) -> Result<Self, BadClientMetadata> {
        if document.get("client_id").and_then(Value::as_str) != Some(url.as_str()) {
            return Err(BadClientMetadata::OtherClientId);
        }
        if document.contains_key("client_secret") {
            return Err(BadClientMetadata::Secret);
        }
        let method = text(document, "token_endpoint_auth_method")?;
        let methods = texts(document, "token_endpoint_auth_methods_supported")?;
        let is_public = method.is_none_or(|method| method == "none")
            || methods.is_some_and(|methods| methods.contains(&"none"));
        if !is_public {
            return Err(BadClientMetadata::AuthMethod);
        }
        let read: Vec<_> = redirect_uris(document)?.into_iter().map(RedirectUri::parse).collect();
        let refused = read.iter().find_map(|uri| uri.as_ref().err().copied());
        let redirect_uris: Vec<RedirectUri> = read.into_iter().flatten().collect();
        match refused {
            Some(error) if redirect_uris.is_empty() => Err(error.into()),
            _ => Self::with(document, redirect_uris),
        }
    }

    /// Reads a request to register a client.
    ///
    /// Every redirect URI must be acceptable. A client that asks for a secret is registered as a
    /// public client all the same: the response says so, and the standard lets a server choose.
    ///
    /// # Errors
    /// Every [`BadClientMetadata`] that does not concern a document.
    pub fn from_registration(request: &Map<String, Value>) -> Result<Self, BadClientMetadata> {
        text(request, "token_endpoint_auth_method")?;
        let redirect_uris = redirect_uris(request)?.into_iter().map(RedirectUri::parse);
        let redirect_uris = redirect_uris.collect::<Result<_, _>>()?;
        Self::with(request, redirect_uris)
    }

    fn with(
        members: &Map<String, Value>,
        redirect_uris: Vec<RedirectUri>,
    ) -> Result<Self, BadClientMetadata> {
        let grants = texts(members, "grant_types")?;
        let responses = texts(members, "response_types")?;
        let has = |list: &Option<Vec<&str>>, word: &str| {
            list.as_ref().is_none_or(|list| list.contains(&word))
        };
        if !has(&grants, "authorization_code") || !has(&responses, "code") {
            return Err(BadClientMetadata::Flow);
        }
        let uses_refresh_tokens = grants.is_some_and(|grants| grants.contains(&"refresh_token"));
        let name = text(members, "client_name")?.and_then(ClientName::clean);
        let name = name.map(|name| ClientName(unreserved(name.as_str()).into_owned()));
        Ok(Self { name, redirect_uris, uses_refresh_tokens })
    }

    /// Returns whether an answer may go to this address.
    pub fn allows(&self, requested: &RedirectUri) -> bool {
        self.redirect_uris.iter().any(|registered| registered.allows(requested))
    }
}

impl ClientName {
    /// Cleans a name; `None` if nothing of it can be seen.
    ///
    /// Longer names are cut to [`MAX_CLIENT_NAME_CHARS`], with an ellipsis.
    pub fn clean(text: &str) -> Option<Self> {
        let mut name = String::new();
        let visible = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c });
        for character in visible.filter(|c| !is_unseen(*c)) {
            if character != ' ' || !(name.is_empty() || name.ends_with(' ')) {
                name.push(character);
            }
        }
        let name = name.trim_end();
        match name.char_indices().nth(MAX_CLIENT_NAME_CHARS) {
            _ if name.is_empty() => None,
            None => Some(Self(name.to_owned())),
            Some(_) => {
                let kept = name.chars().take(MAX_CLIENT_NAME_CHARS - 1).collect::<String>();
                Some(Self(format!("{}…", kept.trim_end())))
            }
        }
    }

    /// Returns the cleaned name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the name that history and lists show of a client whose token names none and that calls
/// itself `name`; `None` if nothing of the name can be seen.
pub fn name_of_itself(name: &str) -> Option<String> {
    ClientName::clean(name).map(|name| self_named(name.as_str()))
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn redirect_uris(members: &Map<String, Value>) -> Result<Vec<&str>, BadClientMetadata> {
    let uris = texts(members, "redirect_uris")?.unwrap_or_default();
    if (1..=MAX_REDIRECT_URIS).contains(&uris.len()) {
        Ok(uris)
    } else {
        Err(BadClientMetadata::RedirectUriCount)
    }
}

/// Returns a member that is a text. A client that writes `null` has left the member out.
fn text<'a>(
    members: &'a Map<String, Value>,
    name: &'static str,
) -> Result<Option<&'a str>, BadClientMetadata> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(BadClientMetadata::Type(name)),
    }
}

/// Returns a member that is a list of texts. A client that writes `null` has left the member out.
fn texts<'a>(
    members: &'a Map<String, Value>,
    name: &'static str,
) -> Result<Option<Vec<&'a str>>, BadClientMetadata> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => {
            let items: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            items.map(Some).ok_or(BadClientMetadata::Type(name))
        }
        Some(_) => Err(BadClientMetadata::Type(name)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_client_that_calls_itself_as_this_program_does_is_marked() {
        let redirects = json!(["https://client.example/cb"]);
        let registered = |name: &str| {
            let request = members(json!({ "client_name": name, "redirect_uris": redirects }));
            ClientMetadata::from_registration(&request).unwrap().name.unwrap().to_string()
        };
        assert_eq!(registered("Command\u{200b} line"), "Command line (client)");
        assert_eq!(registered("x (self-named)"), "x (self-named) (client)");
        assert_eq!(registered("Claude"), "Claude");
    }

    const URL: &str = "https://claude.ai/oauth/claude-code-client-metadata";

    fn members(value: Value) -> Map<String, Value> {
        let Value::Object(members) = value else { panic!("{value}") };
        members
    }

    fn document() -> Map<String, Value> {
        members(json!({
            "client_id": URL,
            "client_name": "Claude Code",
            "client_uri": "https://claude.ai",
            "logo_uri": "https://claude.ai/logo.png",
            "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }))
    }

    fn read(document: &Map<String, Value>) -> Result<ClientMetadata, BadClientMetadata> {
        ClientMetadata::from_document(&ClientIdUrl::parse(URL).unwrap(), document)
    }

    fn changed(name: &str, value: Value) -> Map<String, Value> {
        let mut document = document();
        document.insert(name.to_owned(), value);
        document
    }

    fn allows(client: &ClientMetadata, text: &str) -> bool {
        client.allows(&RedirectUri::parse(text).unwrap())
    }

    #[test]
    fn a_document_is_read_and_its_loopback_addresses_allow_any_port() {
        let client = read(&document()).unwrap();
        assert_eq!(client.name.as_ref().map(ClientName::as_str), Some("Claude Code"));
        assert!(client.uses_refresh_tokens);
        assert!(allows(&client, "http://localhost:53001/callback"));
        assert!(allows(&client, "http://127.0.0.1:53001/callback"));
        assert!(!allows(&client, "http://[::1]:53001/callback"));
        assert!(!allows(&client, "https://claude.ai/api/mcp/auth_callback"));
    }

    #[test]
    fn a_document_that_names_another_client_is_refused() {
        for id in [json!(format!("{URL}/")), json!("https://evil.example/c.json"), json!(null)] {
            assert_eq!(read(&changed("client_id", id)), Err(BadClientMetadata::OtherClientId));
        }
        let mut nameless = document();
        nameless.remove("client_id");
        assert_eq!(read(&nameless), Err(BadClientMetadata::OtherClientId));
        assert_eq!(read(&changed("client_secret", json!("s"))), Err(BadClientMetadata::Secret));
    }

    #[test]
    fn a_document_must_allow_a_public_client() {
        let with = |method: Value, supported: Value| {
            let mut document = changed("token_endpoint_auth_method", method);
            document.insert("token_endpoint_auth_methods_supported".to_owned(), supported);
            read(&document).map(drop)
        };
        // What ChatGPT publishes: it prefers a key, and says that it needs none.
        assert_eq!(with(json!("private_key_jwt"), json!(["none", "private_key_jwt"])), Ok(()));
        assert_eq!(with(json!("none"), json!(null)), Ok(()));
        assert_eq!(with(json!(null), json!(null)), Ok(()));
        for method in ["private_key_jwt", "client_secret_post", "client_secret_basic", "NONE", ""] {
            let alone = with(json!(method), json!(null));
            assert_eq!(alone, Err(BadClientMetadata::AuthMethod), "{method}");
            let supported = with(json!(method), json!(["private_key_jwt"]));
            assert_eq!(supported, Err(BadClientMetadata::AuthMethod), "{method}");
        }
    }

    #[test]
    fn a_document_keeps_the_addresses_that_are_accepted() {
        let unknown = json!(["myapp://callback", "https://a.example/cb", "http://b.example/cb"]);
        let client = read(&changed("redirect_uris", unknown)).unwrap();
        assert_eq!(client.redirect_uris, [RedirectUri::parse("https://a.example/cb").unwrap()]);
        let none = read(&changed("redirect_uris", json!(["myapp://callback"]))).unwrap_err();
        assert_eq!(none, BadClientMetadata::RedirectUri(BadRedirectUri::Scheme));
    }

    #[test]
    fn a_registration_is_accepted_only_with_all_its_addresses() {
        let cursor = [
            "cursor://anysphere.cursor-mcp/oauth/callback",
            "https://www.cursor.com/agents/mcp/oauth/callback",
            "http://localhost:8787/callback",
        ];
        let register = |value| ClientMetadata::from_registration(&members(value));
        let request = json!({
            "client_name": "Cursor", "redirect_uris": cursor, "token_endpoint_auth_method": "none",
        });
        let client = register(request).unwrap();
        assert!(cursor.iter().all(|uri| allows(&client, uri)) && !client.uses_refresh_tokens);

        let error = |value| register(value).unwrap_err();
        let with_unknown = json!({ "redirect_uris": [cursor[0], "myapp://callback"] });
        assert_eq!(error(with_unknown).code(), "invalid_redirect_uri");
        let uris: Vec<_> =
            (0..=MAX_REDIRECT_URIS).map(|n| format!("http://localhost/{n}")).collect();
        for bad in [json!({}), json!({ "redirect_uris": [] }), json!({ "redirect_uris": uris })] {
            assert_eq!(error(bad), BadClientMetadata::RedirectUriCount);
        }
        for (name, value) in [
            ("redirect_uris", json!("http://localhost/cb")),
            ("redirect_uris", json!([1])),
            ("client_name", json!(["Cursor"])),
            ("grant_types", json!("authorization_code")),
            ("token_endpoint_auth_method", json!(1)),
        ] {
            let mut request = members(json!({ "redirect_uris": cursor }));
            request.insert(name.to_owned(), value);
            let error = ClientMetadata::from_registration(&request).unwrap_err();
            assert_eq!(error, BadClientMetadata::Type(name));
            assert_eq!(error.to_string(), format!("`{name}` has the wrong type"));
        }
    }

    #[test]
    fn a_client_that_asks_for_a_secret_is_registered_as_a_public_one() {
        for method in ["client_secret_post", "client_secret_basic", "private_key_jwt"] {
            let request = json!({
                "redirect_uris": ["https://claude.ai/api/mcp/auth_callback"],
                "token_endpoint_auth_method": method,
            });
            assert!(ClientMetadata::from_registration(&members(request)).is_ok());
        }
    }

    #[test]
    fn a_client_without_the_code_flow_is_refused() {
        for (name, value) in
            [("grant_types", json!(["client_credentials"])), ("response_types", json!(["token"]))]
        {
            assert_eq!(read(&changed(name, value)), Err(BadClientMetadata::Flow));
        }
    }

    #[test]
    fn a_name_cannot_pretend_with_characters_that_are_not_seen() {
        let clean = |text: &str| ClientName::clean(text).map(|name| name.as_str().to_owned());
        assert_eq!(clean(" Claude\n\tCode\u{a0} ").as_deref(), Some("Claude Code"));
        assert_eq!(clean("a\u{202e}edualC\u{2069}\u{0}").as_deref(), Some("aedualC"));
        assert_eq!(clean("C\u{200b}laude\u{e0041}").as_deref(), Some("Claude"));
        assert_eq!(clean("Überblick 日本").as_deref(), Some("Überblick 日本"));
        for unseen in ["", " \n", "\u{200f}\u{2066}", "\u{3164}"] {
            assert_eq!(clean(unseen), None);
        }
        let long = clean(&"x".repeat(MAX_CLIENT_NAME_CHARS + 1)).unwrap();
        assert!(long.ends_with("x…") && long.chars().count() == MAX_CLIENT_NAME_CHARS);
        let longest = "x".repeat(MAX_CLIENT_NAME_CHARS);
        assert_eq!(clean(&longest), Some(longest));
    }

    proptest! {
        #[test]
        fn a_cleaned_name_is_short_visible_and_stays_the_same(text in "\\PC{0,90}|[\\x00-\u{2fff}]{0,90}") {
            if let Some(name) = ClientName::clean(&text) {
                prop_assert!((1..=MAX_CLIENT_NAME_CHARS).contains(&name.as_str().chars().count()));
                prop_assert!(!name.as_str().chars().any(is_unseen));
                prop_assert!(!name.as_str().contains("  "));
                prop_assert_eq!(ClientName::clean(name.as_str()), Some(name));
            }
        }

        #[test]
        fn a_client_has_no_address_that_it_did_not_name(
            named in prop::collection::vec("(http|https|cursor)://[a-z.:0-9]{1,12}/[a-z]{0,3}", 0..20)
        ) {
            let request = members(json!({ "redirect_uris": named }));
            if let Ok(client) = ClientMetadata::from_registration(&request) {
                let kept = client.redirect_uris.iter().map(RedirectUri::as_str);
                let kept: Vec<&str> = kept.collect();
                prop_assert_eq!(kept, named);
            }
        }
    }
}
