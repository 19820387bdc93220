//! The page "who may do what", and the forms that narrow and end it.

use std::collections::{BTreeSet, HashMap};

use axum::body::Body;
use http::{Response, StatusCode};
use stile_domain::percent::encode_component;
use stile_domain::records::grant::{Grant, StreamGrant};
use stile_domain::records::instant::Instant;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_domain::sign_in::asked_access::{rights, sentence};
use stile_domain::sign_in::redirect_uri::RedirectUri;
use stile_store::records::{GrantRecord, GrantStatus};
use stile_store::state::{AuthorizationRecord, StateError, TokenKind, TokenRecord};

use super::access_view::{AccessView, AuthorizationRow, GrantRow, KEPT_FIELD, RightRow, TokenRow};
use super::browser_session::BrowserSession;
use super::frame::{ACCESS_PATH, PageFrame, SIGN_IN_PATH, redirect};
use crate::auth::signed_in_owner;
use crate::sign_in::parameters::FormParameters;
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

pub use super::access_view::{END_PATH, NARROW_PATH, REVOKE_GRANT_PATH, REVOKE_TOKEN_PATH};

/// What the page says after a form: the word in the address and the sentence.
const NOTICES: [(&str, &str); 5] = [
    ("ended", "The access is ended. The client is refused from its next request on."),
    ("narrowed", "The access is narrowed. The client's next request is held to it."),
    ("revoked", "The token is revoked. It is refused from the next request on."),
    ("grant-revoked", "The grant is revoked. It is refused from the next request on."),
    ("gone", "There was nothing to change: it had ended already."),
];

/// A right that a form may keep has a number below this.
const MAX_RIGHTS: usize = 64;

/// Why the page cannot be shown or changed.
enum AccessPageError {
    /// The state fails.
    State(StateError),
    /// The records fail.
    Records,
}

impl From<StateError> for AccessPageError {
    fn from(error: StateError) -> Self {
        Self::State(error)
    }
}

/// Shows the page, or sends a browser without a session to sign in first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    let Some(session) = BrowserSession::of(server, request) else {
        return redirect(&format!("{SIGN_IN_PATH}?return_to={}", encode_component(ACCESS_PATH)));
    };
    let query = FormParameters::parse(&request.query).unwrap_or_default();
    let done = query.get("done").unwrap_or_default();
    let notice = NOTICES.iter().find(|(word, _)| *word == done).map(|(_, sentence)| *sentence);
    let csrf_token = session.csrf_token();
    let view = match view(server, &session) {
        Ok(view) => AccessView { csrf_token: &csrf_token, notice, ..view },
        Err(error) => return failed(&error),
    };
    PageFrame::new("Who may do what")
        .with_navigation(ACCESS_PATH, session.csrf_token())
        .respond(StatusCode::OK, &view.markup())
}

fn view(
    server: &AuthorizationServer,
    session: &BrowserSession,
) -> Result<AccessView<'static>, AccessPageError> {
    let (tokens, now) = (server.tokens(), server.now());
    let uses = server.settings.uses.all()?;
    let of_tokens = tokens.authorizations_of_tokens()?;
    let mut used_by_authorization: HashMap<&str, i64> = HashMap::new();
    for (jti, used) in &uses {
        if let Some(authorization) = of_tokens.get(jti) {
            let last = used_by_authorization.entry(authorization).or_insert(*used);
            *last = (*last).max(*used);
        }
    }
    let mut live: Vec<AuthorizationRecord> = tokens.authorizations()?;
    live.retain(|record| {
        record.ended.is_none() && record.expires > now && may_end(session, record)
    });
    live.reverse();
    let grants = grants(server, session)?;
    let sees_grants = session.administers() && server.settings.records.is_some();
    let counts = |id: &String| !sees_grants || grants.iter().any(|grant| grant.id == *id);
    let mut authorizations = Vec::new();
    for mut record in live {
        record.grant = record.grant.filter(counts);
        let client = tokens.find_client(&record.client)?;
        let redirects = client.map(|client| client.redirects).unwrap_or_default();
        let used = used_by_authorization.get(record.id.as_str()).copied().or(record.used);
        authorizations.push(authorization_row(record, &hosts(&redirects), used));
    }
    let listed = tokens.list()?.into_iter().rev();
    let by_command = listed.filter(|token| {
        session.administers()
            && token.revoked.is_none()
            && token.expires > now
            && !of_tokens.contains_key(&token.jti)
    });
    let tokens_by_command = by_command
        .map(|token| TokenRecord { grant: token.grant.clone().filter(counts), ..token })
        .map(|token| token_row(token, &uses))
        .collect();
    Ok(AccessView {
        authorizations,
        tokens: tokens_by_command,
        grants: grants.into_iter().filter_map(grant_row).collect(),
        ..AccessView::default()
    })
}

/// Returns the grants that count.
fn grants(
    server: &AuthorizationServer,
    session: &BrowserSession,
) -> Result<Vec<GrantRecord>, AccessPageError> {
    let records = server.settings.records.as_ref().filter(|_| session.administers());
    let Some(records) = records else { return Ok(Vec::new()) };
    let owner = signed_in_owner(&session.subject);
    let mut grants = records.service.grants(&owner).map_err(|problem| {
        tracing::error!(target: "stile::sign_in", %problem, "the grants could not be listed");
        AccessPageError::Records
    })?;
    grants.retain(|grant| grant.status(crate::clock::now()) == GrantStatus::Active);
    Ok(grants)
}

/// Ends the authorization that the form names.
pub fn end(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    change(server, request, |form, session| {
        let id = form.get("id").unwrap_or_default();
        if find(server, session, id)?.is_none() {
            return Ok("gone");
        }
        server.tokens().end_authorization(id, server.now())?;
        Ok("ended")
    })
}

/// Leaves of an authorization what is ticked, and ends it if nothing is.
pub fn narrow(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    change(server, request, |form, session| {
        let (id, now) = (form.get("id").unwrap_or_default(), server.now());
        let Some(record) = find(server, session, id)? else { return Ok("gone") };
        let kept = kept_scopes(&Scopes::from_claim(&record.scopes), form);
        if !kept.iter().any(|scope| scope.verb().is_right()) && record.grant.is_none() {
            server.tokens().end_authorization(id, now)?;
            return Ok("ended");
        }
        let found = server.tokens().narrow_authorization(id, &kept.to_string())?;
        Ok(if found { "narrowed" } else { "gone" })
    })
}

/// Revokes a token that was made by command.
pub fn revoke_token(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    change(server, request, |form, session| {
        let jti = form.get("jti").unwrap_or_default();
        if !session.administers() {
            return Ok("gone");
        }
        match server.tokens().revoke(jti, server.now()) {
            Ok(_) => Ok("revoked"),
            Err(StateError::UnknownToken { .. }) => Ok("gone"),
            Err(error) => Err(error.into()),
        }
    })
}

/// Revokes a grant on records.
pub fn revoke_grant(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    change(server, request, |form, session| {
        let records = server.settings.records.as_ref().filter(|_| session.administers());
        let Some(records) = records else { return Ok("gone") };
        let owner = signed_in_owner(&session.subject);
        let id = form.get("id").unwrap_or_default();
        let revoked = records.service.revoke_grant(&owner, id, crate::clock::now());
        match revoked {
            Ok(Some(_)) => Ok("grant-revoked"),
            Ok(None) => Ok("gone"),
            Err(problem) => {
                tracing::error!(target: "stile::sign_in", %problem, "a grant was not revoked");
                Err(AccessPageError::Records)
            }
        }
    })
}

/// Returns whether a person sees an authorization and may end it: their own, or all.
fn may_end(session: &BrowserSession, record: &AuthorizationRecord) -> bool {
    session.administers() || record.subject == session.subject
}

/// Returns the authorization with an identifier, if the person may end it.
fn find(
    server: &AuthorizationServer,
    session: &BrowserSession,
    id: &str,
) -> Result<Option<AuthorizationRecord>, StateError> {
    let all = server.tokens().authorizations()?;
    Ok(all.into_iter().find(|record| record.id == id && may_end(session, record)))
}

/// Carries out a form of a session, and leads back to the page.
fn change(
    server: &AuthorizationServer,
    request: &WebRequest,
    change: impl FnOnce(&FormParameters, &BrowserSession) -> Result<&'static str, AccessPageError>,
) -> Response<Body> {
    let form = request.form().and_then(|form| FormParameters::parse(form).ok());
    let form = form.unwrap_or_default();
    let session = BrowserSession::of(server, request);
    let Some(session) = session.filter(|session| session.sent(request, &form)) else {
        return refused();
    };
    match change(&form, &session) {
        Ok(done) => redirect(&format!("{ACCESS_PATH}?done={done}")),
        Err(error) => failed(&error),
    }
}

/// Returns the scopes whose numbers the form keeps, and all that take away.
fn kept_scopes(all: &Scopes, form: &FormParameters) -> Scopes {
    let allowing = all.iter().filter(|scope| scope.verb() != Verb::Deny).take(MAX_RIGHTS);
    let kept = allowing.enumerate().filter_map(|(number, scope)| {
        // The text is compared too: the page may be older than the authorization.
        let sent = form.get(&format!("{KEPT_FIELD}{number}"));
        (sent == Some(scope.to_string().as_str())).then_some(scope)
    });
    let denying = all.iter().filter(|scope| scope.verb() == Verb::Deny);
    kept.chain(denying).cloned().collect()
}

fn authorization_row(
    record: AuthorizationRecord,
    hosts: &str,
    used: Option<i64>,
) -> AuthorizationRow {
    let scopes = Scopes::from_claim(&record.scopes);
    let allowing = scopes.iter().filter(|scope| scope.verb() != Verb::Deny);
    let right = |scope: &Scope| RightRow {
        sentence: format!("May {}", sentence(scope)),
        scope: Some(scope.to_string()),
    };
    let mut rights: Vec<RightRow> = allowing.take(MAX_RIGHTS).map(right).collect();
    let fixed = |sentence| RightRow { sentence, scope: None };
    rights.extend(
        scopes
            .iter()
            .filter(|scope| scope.verb() == Verb::Deny)
            .map(|scope| fixed(format!("Will {}", sentence(scope)))),
    );
    rights.extend(record.grant.map(|grant| fixed(format!("May see what the grant {grant} says"))));
    AuthorizationRow {
        id: record.id,
        client_name: record.client_name,
        host: hosts.to_owned(),
        rights,
        created: minute(record.created),
        expires: minute(record.expires),
        last_used: used.map(minute),
    }
}

fn token_row(token: TokenRecord, uses: &HashMap<String, i64>) -> TokenRow {
    let rights = rights(&Scopes::from_claim(&token.scopes), &token.records_claim());
    TokenRow {
        last_used: uses.get(&token.jti).copied().map(minute),
        jti: token.jti,
        client_name: token.client,
        subject: token.subject,
        rights: rights.iter().map(|right| capitalised(right)).collect(),
        created: minute(token.issued),
        expires: (token.expires < TokenRecord::NEVER).then(|| minute(token.expires)),
        starts_stile: token.kind == TokenKind::Stdio,
    }
}

/// Returns a text with its first letter, one of ASCII, as a capital.
fn capitalised(text: &str) -> String {
    text.get(..1).map_or_else(String::new, str::to_ascii_uppercase) + text.get(1..).unwrap_or("")
}

fn grant_row(record: GrantRecord) -> Option<GrantRow> {
    let Grant { client, streams, expires, .. } = record.grant?;
    Some(GrantRow {
        id: record.id,
        client_name: client,
        rights: streams.iter().map(stream_sentence).collect(),
        expires: expires.map(minute_of_instant),
    })
}

/// Returns a sentence that says what a grant shows of a stream.
fn stream_sentence(stream: &StreamGrant) -> String {
    const SHOWN_FIELDS: usize = 12;
    let mut fields: Vec<&str> = stream.fields.iter().map(String::as_str).collect();
    let more = fields.len().saturating_sub(SHOWN_FIELDS);
    fields.truncate(SHOWN_FIELDS);
    let mut text = format!("May see {} of {}", fields.join(", "), stream.stream);
    if more > 0 {
        text.push_str(&format!(" and {more} more fields"));
    }
    let connections: Vec<String> = stream.connections.iter().map(ToString::to_string).collect();
    text.push_str(&format!(" from {}", connections.join(", ")));
    if let Some(time) = &stream.time {
        if let Some(since) = time.since {
            text.push_str(&format!(", since {}", minute_of_instant(since)));
        }
        if let Some(until) = time.until {
            text.push_str(&format!(", before {}", minute_of_instant(until)));
        }
    }
    if let Some(keys) = &stream.keys {
        text.push_str(&format!(", {} records alone", keys.len()));
    }
    text
}

/// Returns the hosts to which a client's answers may go, each once.
fn hosts(redirects: &[String]) -> String {
    let parsed = redirects.iter().filter_map(|redirect| RedirectUri::parse_of_owner(redirect).ok());
    let hosts: BTreeSet<String> = parsed
        .map(|redirect| {
            if redirect.stays_on_this_computer() {
                "a program on this computer".to_owned()
            } else {
                redirect.host().to_owned()
            }
        })
        .collect();
    if hosts.is_empty() {
        return "nowhere: the client is no longer known".to_owned();
    }
    hosts.into_iter().collect::<Vec<_>>().join(", ")
}

/// Formats UTC seconds since 1970 to the minute, as in `2026-01-31 09:05`.
pub(super) fn minute(seconds: i64) -> String {
    minute_of_instant(Instant(seconds.saturating_mul(1_000_000)))
}

fn minute_of_instant(instant: Instant) -> String {
    let text = instant.to_rfc3339();
    text.get(..16).unwrap_or(&text).replace('T', " ")
}

/// Refuses a form that is not from a page of the session.
pub(super) fn refused() -> Response<Body> {
    let body = maud::html! {
        h1 { "Nothing was changed" }
        p { "The form is not from this page, or the session has ended." }
        p { a href=(ACCESS_PATH) { "Back to the page" } }
    };
    PageFrame::new("Nothing was changed").respond(StatusCode::FORBIDDEN, &body)
}

fn failed(error: &AccessPageError) -> Response<Body> {
    if let AccessPageError::State(error) = error {
        tracing::error!(target: "stile::sign_in", %error, "a page could not use the state");
    }
    let body = maud::html! {
        h1 { "The server failed" }
        p { "It could not use its state. Load the page again to see what is true now." }
    };
    PageFrame::new("The server failed").respond(StatusCode::INTERNAL_SERVER_ERROR, &body)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn form(kept: &[(usize, &str)]) -> FormParameters {
        let pairs: Vec<String> = kept
            .iter()
            .map(|(number, scope)| format!("{KEPT_FIELD}{number}={}", encode_component(scope)))
            .collect();
        FormParameters::parse(&pairs.join("&")).unwrap()
    }

    #[test]
    fn a_form_keeps_what_is_ticked_and_never_adds() {
        let all = Scopes::parse_claim("read:/a write:/b deny:/c").unwrap();
        let lines: Vec<String> = all
            .iter()
            .filter(|scope| scope.verb() != Verb::Deny)
            .map(ToString::to_string)
            .collect();
        let kept = |pairs: &[(usize, &str)]| kept_scopes(&all, &form(pairs)).to_string();
        assert_eq!(kept(&[(0, &lines[0])]), format!("{} deny:/c", lines[0]));
        assert_eq!(kept(&[(0, &lines[0]), (1, &lines[1])]), all.to_string());
        assert_eq!(kept(&[]), "deny:/c");
        // Neither another text at a known number nor another number adds anything.
        assert_eq!(kept(&[(0, "write:/"), (1, "read:/"), (7, "write:/")]), "deny:/c");
    }

    proptest! {
        #[test]
        fn narrowing_leaves_a_part(
            scopes in proptest::collection::vec("(read|write|append|deny):(/[ab]){1,3}", 0..6),
            numbers in proptest::collection::vec((0_usize..8, "(read|write):(/[ab]){1,3}"), 0..8),
        ) {
            let all = Scopes::from_claim(&scopes.join(" "));
            let mut seen = BTreeSet::new();
            let pairs: Vec<(usize, &str)> = numbers
                .iter()
                .filter(|(number, _)| seen.insert(*number))
                .map(|(number, scope)| (*number, scope.as_str()))
                .collect();
            let kept = kept_scopes(&all, &form(&pairs));
            prop_assert!(kept.iter().all(|scope| all.iter().any(|known| known == scope)));
            let denials = |scopes: &Scopes| {
                scopes.iter().filter(|scope| scope.verb() == Verb::Deny).count()
            };
            prop_assert_eq!(denials(&kept), denials(&all));
        }
    }

    #[test]
    fn hosts_are_named_once_and_this_computer_in_words() {
        let redirects = [
            "https://claude.ai/api/mcp/auth_callback",
            "https://claude.ai/other",
            "http://127.0.0.1:7777/callback",
            "nonsense",
        ]
        .map(str::to_owned);
        assert_eq!(hosts(&redirects), "a program on this computer, claude.ai");
        assert_eq!(hosts(&[]), "nowhere: the client is no longer known");
    }
}
