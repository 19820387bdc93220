//! The page "who may do what": each client and each token, what it may do in sentences, when it was
//! last used, and a button that narrows or ends it.

use maud::{Markup, html};

use super::frame::csrf_field;
use super::shown_text::shown_name;

/// The path to which the end of an authorization is sent.
pub const END_PATH: &str = "/owner/clients/end";
/// The path to which the narrowing of an authorization is sent.
pub const NARROW_PATH: &str = "/owner/clients/narrow";
/// The path to which the revocation of a token is sent.
pub const REVOKE_TOKEN_PATH: &str = "/owner/clients/revoke-token";
/// The name of the field that keeps a right, before the number of the right.
pub(super) const KEPT_FIELD: &str = "keep-";
/// The path to which the revocation of a grant is sent.
pub const REVOKE_GRANT_PATH: &str = "/owner/clients/revoke-grant";

/// What the page shows. Times are texts in UTC.
#[derive(Clone, Debug, Default)]
pub(super) struct AccessView<'a> {
    /// The token of the forms of the session.
    pub(super) csrf_token: &'a str,
    /// What to say about the last change.
    pub(super) notice: Option<&'a str>,
    /// What the owner approved, the latest use first.
    pub(super) authorizations: Vec<AuthorizationRow>,
    /// The tokens that were made by command and are valid.
    pub(super) tokens: Vec<TokenRow>,
    /// The grants that count.
    pub(super) grants: Vec<GrantRow>,
}

/// One approval for a client.
#[derive(Clone, Debug)]
pub(super) struct AuthorizationRow {
    pub(super) id: String,
    /// The name that the client gave itself.
    pub(super) client_name: String,
    /// Where the client's answers go: a host, or this machine.
    pub(super) host: String,
    /// What the client may do, each with the scope that the form sends back.
    pub(super) rights: Vec<RightRow>,
    pub(super) created: String,
    pub(super) expires: String,
    pub(super) last_used: Option<String>,
}

/// One thing that a client may do.
#[derive(Clone, Debug)]
pub(super) struct RightRow {
    /// The sentence, such as "May read the files in /work and below".
    pub(super) sentence: String,
    /// The scope, if the right can be taken away by itself.
    pub(super) scope: Option<String>,
}

/// One token that was made by command.
#[derive(Clone, Debug)]
pub(super) struct TokenRow {
    pub(super) jti: String,
    pub(super) client_name: Option<String>,
    pub(super) subject: String,
    pub(super) rights: Vec<String>,
    pub(super) created: String,
    /// When the token ends; `None` if only the owner ends it.
    pub(super) expires: Option<String>,
    pub(super) last_used: Option<String>,
    /// Whether the client starts `stile stdio` on this computer and so needs no token.
    pub(super) starts_stile: bool,
}

/// One grant on records.
#[derive(Clone, Debug)]
pub(super) struct GrantRow {
    pub(super) id: String,
    pub(super) client_name: String,
    pub(super) rights: Vec<String>,
    pub(super) expires: Option<String>,
}

impl AccessView<'_> {
    /// Returns the content of the page.
    pub(super) fn markup(&self) -> Markup {
        html! {
            h1 { "Who may do what" }
            @if let Some(notice) = self.notice {
                p class="notice" role="status" { (notice) }
            }
            h2 { "Clients that you approved" }
            @for row in &self.authorizations { (self.authorization(row)) }
            @if self.authorizations.is_empty() { p { "You approved no client." } }
            @if self.tokens.iter().any(|row| row.starts_stile) {
                h2 { "Programs on this computer that start Stile" }
                @for row in self.tokens.iter().filter(|row| row.starts_stile) {
                    (self.token(row))
                }
            }
            h2 { "Tokens made by command" }
            @for row in self.tokens.iter().filter(|row| !row.starts_stile) { (self.token(row)) }
            @if self.tokens.iter().all(|row| row.starts_stile) {
                p { "There is no valid token." }
            }
            h2 { "Grants on records" }
            @for row in &self.grants { (self.grant(row)) }
            @if self.grants.is_empty() { p { "No grant counts." } }
        }
    }

    fn authorization(&self, row: &AuthorizationRow) -> Markup {
        let can_narrow = row.rights.iter().filter(|right| right.scope.is_some()).count() > 1;
        html! {
            article class="card" {
                h3 { bdi { (shown_name(&row.client_name)) } }
                p class="muted" { "Answers go to " (row.host) }
                @if can_narrow {
                    form method="post" action=(NARROW_PATH) {
                        (csrf_field(self.csrf_token))
                        input type="hidden" name="id" value=(row.id);
                        ul class="rights" {
                            @for (number, right) in row.rights.iter().enumerate() {
                                li {
                                    @if let Some(scope) = &right.scope {
                                        label {
                                            input type="checkbox" value=(scope) checked
                                                name={ (KEPT_FIELD) (number) };
                                            span { (right.sentence) }
                                        }
                                    } @else {
                                        (right.sentence)
                                    }
                                }
                            }
                        }
                        button class="plain" { "Keep only what is ticked" }
                    }
                } @else {
                    ul class="rights" {
                        @for right in &row.rights { li { (right.sentence) } }
                    }
                }
                (times(&row.created, Some(&row.expires), row.last_used.as_deref()))
                (self.button(END_PATH, "id", &row.id, "End this access"))
            }
        }
    }

    fn token(&self, row: &TokenRow) -> Markup {
        html! {
            article class="card" {
                h3 {
                    @match &row.client_name {
                        Some(name) => { bdi { (shown_name(name)) } }
                        None => { "A token for " bdi { (shown_name(&row.subject)) } }
                    }
                }
                ul class="rights" { @for right in &row.rights { li { (right) } } }
                (times(&row.created, row.expires.as_deref(), row.last_used.as_deref()))
                p class="muted" { code { (row.jti) } }
                @let label = if row.starts_stile { "End this access" } else { "Revoke this token" };
                (self.button(REVOKE_TOKEN_PATH, "jti", &row.jti, label))
            }
        }
    }

    fn grant(&self, row: &GrantRow) -> Markup {
        html! {
            article class="card" {
                h3 { bdi { (shown_name(&row.client_name)) } }
                ul class="rights" { @for right in &row.rights { li { (right) } } }
                @if let Some(expires) = &row.expires {
                    dl { dt { "Ends (UTC)" } dd { (expires) } }
                }
                p class="muted" { code { (row.id) } }
                (self.button(REVOKE_GRANT_PATH, "id", &row.id, "Revoke this grant"))
            }
        }
    }

    fn button(&self, path: &str, name: &str, value: &str, label: &str) -> Markup {
        html! {
            form method="post" action=(path) {
                (csrf_field(self.csrf_token))
                input type="hidden" name=(name) value=(value);
                div class="actions" { button class="danger" { (label) } }
            }
        }
    }
}

fn times(created: &str, expires: Option<&str>, last_used: Option<&str>) -> Markup {
    html! {
        dl {
            dt { "Since (UTC)" } dd { (created) }
            dt { "Last used (UTC)" } dd { (last_used.unwrap_or("never")) }
            @if let Some(expires) = expires {
                dt { "Ends (UTC)" } dd { (expires) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(sentence: &str, scope: Option<&str>) -> RightRow {
        RightRow { sentence: sentence.to_owned(), scope: scope.map(str::to_owned) }
    }

    fn view(name: &str, rights: Vec<RightRow>) -> String {
        AccessView {
            csrf_token: "t",
            authorizations: vec![AuthorizationRow {
                id: "a1".to_owned(),
                client_name: name.to_owned(),
                host: "claude.ai".to_owned(),
                rights,
                created: "2026-01-31 09:05".to_owned(),
                expires: "2026-03-02 09:05".to_owned(),
                last_used: None,
            }],
            ..AccessView::default()
        }
        .markup()
        .into_string()
    }

    #[test]
    fn a_client_with_two_rights_can_be_narrowed_and_each_can_be_ended() {
        let two = view("Claude", vec![right("a", Some("read:/a")), right("b", Some("read:/b"))]);
        assert!(two.contains(NARROW_PATH) && two.contains(END_PATH), "{two}");
        let one = view("Claude", vec![right("a", Some("read:/a")), right("b", None)]);
        assert!(!one.contains(NARROW_PATH) && one.contains(END_PATH), "{one}");
    }

    #[test]
    fn the_name_of_a_client_is_text_and_short() {
        let hostile = format!("<script>\u{202e}{}", "x".repeat(4096));
        let page = view(&hostile, vec![right("<b>", None)]);
        assert!(!page.contains("<script>") && !page.contains("<b>"), "{page}");
        assert!(!page.contains('\u{202e}') && !page.contains(&"x".repeat(100)), "{page}");
    }
}
