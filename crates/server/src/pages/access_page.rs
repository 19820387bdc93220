//! The page "who may do what", and the forms that narrow and end it. `access_rows` has the
//! rows of the page.

use axum::body::Body;
use http::Response;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_store::state::{AuthorizationRecord, StateError, TokenKind};

use super::access_rows::{self, MAX_RIGHTS, is_own, may_end};
use super::access_view::{AccessView, KEPT_FIELD};
use super::browser_session::BrowserSession;
use super::frame::{ACCESS_PATH, redirect};
use super::signed_in::{self, Outcome, PageError, Visit};
use crate::auth::signed_in_owner;
use crate::sign_in::parameters::FormParameters;
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

pub use super::access_view::{
    END_PATH, NARROW_PATH, REVOKE_GRANT_PATH, REVOKE_TOKEN_PATH, TAKE_AWAY_PATH,
};

/// The page in the navigation, and its title.
const PAGE: (&str, &str) = (ACCESS_PATH, "Who may do what");

/// What the page says after a form: the word in the address and the sentence.
const NOTICES: [(&str, &str); 6] = [
    ("changed", "The access is changed. The client's next request is held to it."),
    ("ended", "The access is ended. The client is refused from its next request on."),
    ("narrowed", "The access is narrowed. The client's next request is held to it."),
    ("revoked", "The token is revoked. It is refused from the next request on."),
    ("grant-revoked", "The grant is revoked. It is refused from the next request on."),
    ("gone", "There was nothing to change: it had ended already."),
];

/// Leads to the page.
pub fn lead_in(_: &AuthorizationServer, _: &WebRequest) -> Response<Body> {
    redirect(ACCESS_PATH)
}

/// Shows the page, or sends a browser without a session to sign in first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::show(server, request, PAGE, |visit| {
        let done = visit.text("done");
        let notice = NOTICES.iter().find(|(word, _)| *word == done).map(|(_, sentence)| *sentence);
        let csrf_token = visit.session.csrf_token();
        let view = access_rows::view(visit)?;
        Ok(AccessView { csrf_token: &csrf_token, notice, ..view }.markup())
    })
}

/// Ends the authorization that the form names.
pub fn end(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    changed(server, request, |visit| {
        let session = visit.session;
        let Some(found) = find(server, session, visit.text("id"))? else { return Ok("gone") };
        server.end_authorization(&found)?;
        Ok("ended")
    })
}

/// Leaves of an authorization what is ticked, and ends it if nothing is.
pub fn narrow(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    changed(server, request, |visit| {
        let (form, session) = (visit.parameters, visit.session);
        let id = visit.text("id");
        let Some(record) = find(server, session, id)? else { return Ok("gone") };
        leave(server, &record, &kept_scopes(&Scopes::from_claim(&record.scopes), form))
    })
}

/// Takes one right of an authorization away, or leaves only reading of it.
pub fn take_away(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    changed(server, request, |visit| {
        let Some(record) = find(server, visit.session, visit.text("id"))? else {
            return Ok("gone");
        };
        let all = Scopes::from_claim(&record.scopes);
        let scope = visit.text("scope");
        // The page may be older than the authorization.
        if !all.iter().any(|known| known.to_string() == scope) {
            return Ok("gone");
        }
        let (taken, left): (Vec<&Scope>, Vec<&Scope>) =
            all.iter().partition(|known| known.to_string() == scope);
        let reads = |taken: &&Scope| taken.with_verb(Verb::Read);
        let instead = taken.iter().filter(|_| visit.text("instead") == "read").filter_map(reads);
        let left = left.into_iter().cloned();
        leave(server, &record, &left.chain(instead).collect())
    })
}

/// Leaves an authorization only these scopes, and ends it if nothing is left.
pub(super) fn leave(
    server: &AuthorizationServer,
    record: &AuthorizationRecord,
    left: &Scopes,
) -> Result<&'static str, PageError> {
    if !left.iter().any(|scope| scope.verb().is_right()) && record.grant.is_none() {
        server.end_authorization(record)?;
        return Ok("ended");
    }
    let found = server.tokens().set_approved_scopes(&record.id, &left.to_string())?;
    Ok(if found { "narrowed" } else { "gone" })
}

/// Revokes a token that was made by command.
pub fn revoke_token(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    changed(server, request, |visit| {
        let session = visit.session;
        let jti = visit.text("jti");
        let found = server.tokens().find(jti)?;
        // A client that starts Stile has no token that anybody could know.
        let starts = found.as_ref().is_some_and(|token| token.kind == TokenKind::Stdio);
        if !found.is_some_and(|token| session.administers() || is_own(session, &token)) {
            return Ok("gone");
        }
        match server.tokens().revoke(jti, server.now()) {
            Ok(_) => Ok(if starts { "ended" } else { "revoked" }),
            Err(StateError::UnknownToken { .. }) => Ok("gone"),
            Err(error) => Err(error.into()),
        }
    })
}

/// Revokes a grant on records.
pub fn revoke_grant(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    changed(server, request, |visit| {
        let Some(records) = visit.records() else { return Ok("gone") };
        let owner = signed_in_owner(&visit.session.subject);
        let id = visit.text("id");
        let revoked = records.service.revoke_grant(&owner, id, crate::clock::now());
        match revoked {
            Ok(Some(_)) => Ok("grant-revoked"),
            Ok(None) => Ok("gone"),
            Err(problem) => Err(PageError::of_records(&problem)),
        }
    })
}

/// Returns the authorization with an identifier, if the person may end it.
pub(super) fn find(
    server: &AuthorizationServer,
    session: &BrowserSession,
    id: &str,
) -> Result<Option<AuthorizationRecord>, StateError> {
    let all = server.tokens().authorizations()?;
    Ok(all.into_iter().find(|record| record.id == id && may_end(session, record)))
}

/// Carries out a form of a session, and leads back to the page.
fn changed(
    server: &AuthorizationServer,
    request: &WebRequest,
    change: impl FnOnce(&Visit<'_>) -> Result<&'static str, PageError>,
) -> Response<Body> {
    signed_in::change(server, request, PAGE, |visit| {
        Ok(Outcome::Redirect(format!("{ACCESS_PATH}?done={}", change(visit)?)))
    })
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use stile_domain::percent::encode_component;

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
}
