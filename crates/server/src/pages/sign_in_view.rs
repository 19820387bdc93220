//! What the sign-in page shows, as a function of what the server offers.

use maud::{Markup, html};
use stile_domain::percent::encode_component;

use super::frame::SIGN_IN_PATH;

/// The path to which the password is sent.
pub const PASSWORD_PATH: &str = "/sign-in/password";
/// The path to which the answer of a passkey is sent.
pub const PASSKEY_PATH: &str = "/sign-in/passkey";

/// The path that leads to the identity provider.
pub const PROVIDER_PATH: &str = "/sign-in/provider";
/// The path to which the identity provider sends the browser back.
pub const CALLBACK_PATH: &str = "/sign-in/provider/callback";

/// The word in the address after the owner has set a password.
pub(super) const PASSWORD_SET: &str = "password-set";

/// What the sign-in page offers.
#[derive(Clone, Debug, Default)]
pub(super) struct SignInView<'a> {
    /// The path on this server that the visitor wanted.
    pub(super) return_to: Option<&'a str>,
    /// Why the last attempt failed.
    pub(super) problem: Option<&'a str>,
    /// Whether the owner has just set a password.
    pub(super) is_password_set: bool,
    /// The code of the link that was opened. Then the page offers nothing else.
    pub(super) code: Option<&'a str>,
    /// Whether an identity provider signs people in. Then nobody has a password or a passkey here.
    pub(super) provider: bool,
    /// Whether the owner has a password.
    pub(super) password: bool,
    /// The challenge and the domain for a passkey, if the owner has one for this domain.
    pub(super) passkey: Option<(&'a str, &'a str)>,
}

impl SignInView<'_> {
    /// Returns the content of the page.
    pub(super) fn markup(&self) -> Markup {
        html! {
            h1 { "Sign in" }
            @if let Some(problem) = self.problem { p.warning role="alert" { (problem) } }
            @if self.is_password_set {
                p.notice role="status" {
                    "The password is set, and every browser is signed out. Sign in with it."
                }
            }
            @match self.code {
                Some(code) => (self.link_form(code)),
                None if self.provider => {
                    (self.provider_link())
                    (self.code_form())
                }
                None => {
                    @if let Some((challenge, domain)) = self.passkey {
                        (self.passkey_form(challenge, domain))
                    }
                    @if self.password { (self.password_form()) }
                    (self.code_form())
                }
            }
        }
    }

    fn return_field(&self) -> Markup {
        html! {
            @if let Some(path) = self.return_to {
                input type="hidden" name="return_to" value=(path);
            }
        }
    }

    fn link_form(&self, code: &str) -> Markup {
        html! {
            form.card method="post" action=(SIGN_IN_PATH) {
                (self.return_field())
                input type="hidden" name="code" value=(code);
                p { "This opens the owner's pages in this browser." }
                div.actions { button type="submit" { "Sign in" } }
            }
        }
    }

    /// A link and not a form: a form could not lead to the provider under the page's policy.
    fn provider_link(&self) -> Markup {
        let query = self.return_to.map(|path| format!("?return_to={}", encode_component(path)));
        html! {
            section.card {
                h2 { "At your organisation" }
                p {
                    a href={ (PROVIDER_PATH) (query.unwrap_or_default()) } {
                        "Sign in at your organisation"
                    }
                }
            }
        }
    }

    fn code_form(&self) -> Markup {
        html! {
            form.card method="post" action=(SIGN_IN_PATH) {
                (self.return_field())
                h2 { "With a code from the terminal" }
                p {
                    "Run " code { "stile sign-in" } " in a terminal of the machine where Stile \
                     runs, and paste the link or the code that it prints."
                }
                label for="code" { "Link or code" }
                input id="code" name="code" autocomplete="one-time-code" required;
                div.actions { button.plain type="submit" { "Use the code" } }
            }
        }
    }

    fn password_form(&self) -> Markup {
        html! {
            form.card method="post" action=(PASSWORD_PATH) {
                (self.return_field())
                h2 { "With your password" }
                // A password manager needs a name to fill in.
                input type="text" name="username" value="owner" autocomplete="username" hidden;
                label for="password" { "Password" }
                input id="password" type="password" name="password" required maxlength="1024"
                    autocomplete="current-password";
                div.actions { button type="submit" { "Sign in" } }
            }
        }
    }

    fn passkey_form(&self, challenge: &str, domain: &str) -> Markup {
        html! {
            form.card method="post" action=(PASSKEY_PATH) hidden
                data-passkey="sign-in" data-challenge=(challenge) data-domain=(domain)
            {
                (self.return_field())
                @for name in
                    ["credential", "client_data", "authenticator_data", "signature", "user_handle"]
                {
                    input type="hidden" name=(name);
                }
                h2 { "With a passkey" }
                p role="alert" {}
                div.actions { button type="submit" { "Sign in with a passkey" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_offers_what_there_is_and_escapes_what_it_was_given() {
        let page = SignInView::default().markup().into_string();
        assert_eq!(page.matches("<form").count(), 1, "{page}");
        let all = SignInView {
            is_password_set: true,
            return_to: Some("/consent?id=\"><script>"),
            problem: Some("<b>"),
            code: None,
            provider: false,
            password: true,
            passkey: Some(("abc", "localhost")),
        };
        let page = all.markup().into_string();
        assert_eq!(page.matches("<form").count(), 3, "{page}");
        assert!(!page.contains("<script>") && !page.contains("<b>"), "{page}");
        let hosted = SignInView { provider: true, ..all.clone() }.markup().into_string();
        assert_eq!(hosted.matches("<form").count(), 1, "{hosted}");
        assert!(hosted.contains(PROVIDER_PATH) && !hosted.contains("<script>"), "{hosted}");
        let link = SignInView { code: Some("\"><script>"), ..all }.markup().into_string();
        assert_eq!(link.matches("<form").count(), 1, "{link}");
        assert!(!link.contains("<script>"), "{link}");
    }
}
