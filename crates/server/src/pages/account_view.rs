//! The page about signing in: the owner's passkeys, password and open sessions.

use maud::{Markup, html};
use stile_domain::owner_password::OwnerPassword;

use super::frame::csrf_field;
use super::shown_text::shown_name;
use super::times::when;
use crate::passkeys::RegistrationOptions;

/// The path to which the answer of a new passkey is sent.
pub const REGISTER_PATH: &str = "/owner/account/passkeys";
/// The path to which the removal of a passkey is sent.
pub const REMOVE_PASSKEY_PATH: &str = "/owner/account/passkeys/remove";
/// The path to which a new password is sent.
pub const SET_PASSWORD_PATH: &str = "/owner/account/password";
/// The path to which the end of other sessions is sent.
pub const END_SESSIONS_PATH: &str = "/owner/account/sessions/end";

/// The path to which the end of one session is sent.
pub const END_SESSION_PATH: &str = "/owner/account/sessions/end-one";

/// What the page shows. Times are UTC seconds since 1970.
#[derive(Clone, Debug, Default)]
pub(super) struct AccountView<'a> {
    /// The token of the forms of the session.
    pub(super) csrf_token: &'a str,
    /// The time now.
    pub(super) now: i64,
    /// What to say about the last change.
    pub(super) notice: Option<&'a str>,
    /// Whether this is the owner, who has passkeys and a password here.
    pub(super) is_owner: bool,
    /// When the password was set; `None` if there is none.
    pub(super) password_set: Option<i64>,
    /// The passkeys in the order in which they were registered.
    pub(super) passkeys: Vec<PasskeyRow>,
    /// What the browser needs to register a passkey, where browsers allow one.
    pub(super) registration: Option<RegistrationOptions>,
    /// The name of the person, for the list of passkeys on the device.
    pub(super) owner_name: &'a str,
    /// The open sessions, this one first.
    pub(super) sessions: Vec<SessionRow>,
}

/// A passkey, as the page shows it.
#[derive(Clone, Debug)]
pub(super) struct PasskeyRow {
    /// The identifier in hexadecimal, which the form sends back.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) site: String,
    pub(super) created: i64,
    pub(super) last_used: Option<i64>,
}

/// A session, as the page shows it.
#[derive(Clone, Debug)]
pub(super) struct SessionRow {
    pub(super) began: i64,
    pub(super) last_used: i64,
    pub(super) is_this: bool,
    /// The browser in words, with a capital.
    pub(super) browser: String,
    /// The address of the last use; empty if it is not known.
    pub(super) address: String,
    /// What names the session in a form. It opens nothing.
    pub(super) id: String,
}

impl AccountView<'_> {
    /// Returns the content of the page.
    pub(super) fn markup(&self) -> Markup {
        html! {
            h1 { "Signing in" }
            @if let Some(notice) = self.notice {
                p class="notice" role="status" { (notice) }
            }
            @if self.is_owner { (self.owners_means()) }
            h2 { "Browsers that are signed in" }
            @for session in &self.sessions {
                div class="card" {
                    h3 {
                        (session.browser)
                        @if session.is_this { span class="muted" { " (this browser)" } }
                    }
                    dl {
                        dt { "Signed in" } dd { (when(self.now, session.began)) }
                        dt { "Last used" } dd { (when(self.now, session.last_used)) }
                        @if !session.address.is_empty() {
                            dt { "From" } dd { (session.address) }
                        }
                    }
                    @if !session.is_this { (self.end_of(session)) }
                }
            }
            form method="post" action=(END_SESSIONS_PATH) {
                (csrf_field(self.csrf_token))
                div class="actions" { button class="danger" { "Sign out everywhere" } }
            }
        }
    }

    fn end_of(&self, session: &SessionRow) -> Markup {
        html! {
            form method="post" action=(END_SESSION_PATH) {
                (csrf_field(self.csrf_token))
                input type="hidden" name="session" value=(session.id);
                div class="actions" {
                    button class="danger" { "Sign out " (session.browser) }
                }
            }
        }
    }

    fn owners_means(&self) -> Markup {
        html! {
            h2 { "Passkeys" }
            @for passkey in &self.passkeys { (self.passkey(passkey)) }
            @if self.passkeys.is_empty() { p { "You have no passkey." } }
            @match &self.registration {
                Some(options) => { (self.registration_form(options)) }
                None => {
                    p class="muted" {
                        "Browsers allow passkeys over https, at a name and not at an address, \
                         or at "
                        code { "http://localhost" } "."
                    }
                }
            }
            h2 { "Password" }
            (self.password_form())
        }
    }

    fn password_form(&self) -> Markup {
        html! {
            form class="card" method="post" action=(SET_PASSWORD_PATH) {
                (csrf_field(self.csrf_token))
                // A password manager needs a name to store with it.
                input type="text" name="username" value="owner" autocomplete="username" hidden;
                @match &self.password_set {
                    Some(at) => {
                        p { "Your password was set " (when(self.now, *at)) "." }
                        label for="current" { "Present password" }
                        input id="current" type="password" name="current" required
                            maxlength="1024" autocomplete="current-password";
                    }
                    None => { p { "You have no password." } }
                }
                label for="new" { "New password" }
                input id="new" type="password" name="new" required
                    minlength=(OwnerPassword::MIN_CHARS) maxlength="1024"
                    autocomplete="new-password" aria-describedby="password-rule";
                p class="muted" id="password-rule" {
                    "At least " (OwnerPassword::MIN_CHARS) " characters. All browsers are signed \
                     out, this one too."
                }
                div class="actions" { button { "Set the password" } }
            }
        }
    }

    fn passkey(&self, passkey: &PasskeyRow) -> Markup {
        html! {
            div class="card" {
                h3 { bdi { (shown_name(&passkey.name)) } }
                dl {
                    dt { "For" } dd { (passkey.site) }
                    dt { "Registered" } dd { (when(self.now, passkey.created)) }
                    dt { "Last used" }
                    dd {
                        @match passkey.last_used {
                            Some(at) => { (when(self.now, at)) }
                            None => { "never" }
                        }
                    }
                }
                form method="post" action=(REMOVE_PASSKEY_PATH) {
                    (csrf_field(self.csrf_token))
                    input type="hidden" name="id" value=(passkey.id);
                    div class="actions" { button class="danger" { "Remove this passkey" } }
                }
            }
        }
    }

    fn registration_form(&self, options: &RegistrationOptions) -> Markup {
        let algorithms: Vec<String> = options.algorithms.iter().map(i32::to_string).collect();
        html! {
            form class="card" method="post" action=(REGISTER_PATH) hidden
                data-passkey="register" data-challenge=(options.challenge)
                data-domain=(options.domain) data-owner=(options.owner_handle)
                data-owner-name=(self.owner_name) data-algorithms=(algorithms.join(" "))
                data-known=(options.known.join(" "))
            {
                (csrf_field(self.csrf_token))
                input type="hidden" name="client_data";
                input type="hidden" name="authenticator_data";
                label for="passkey-name" { "Name of the new passkey" }
                input #passkey-name name="name" required maxlength="100" value="Passkey"
                    autocomplete="off";
                p role="alert" {}
                div class="actions" { button { "Register a passkey" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_passkeys_are_text() {
        let view = AccountView {
            csrf_token: "t",
            is_owner: true,
            passkeys: vec![PasskeyRow {
                id: "00".to_owned(),
                name: "<script>\u{202e}x".to_owned(),
                site: "localhost".to_owned(),
                created: 0,
                last_used: None,
            }],
            ..AccountView::default()
        };
        let page = view.markup().into_string();
        assert!(page.contains("&lt;script&gt;x") && !page.contains('\u{202e}'), "{page}");
        assert!(page.contains("never") && page.contains("You have no password"), "{page}");
    }
}
