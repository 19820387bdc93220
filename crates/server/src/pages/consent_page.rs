//! The page where the owner decides what a client may do, as a function of what it shows.
//!
//! The page names the folder and the server that the client would reach. The name of the client is
//! its own word, so beside it stands who receives the answer: a web site, a program on this
//! computer, or an application by its scheme.

use http::StatusCode;
use maud::{Markup, html};
use stile_domain::scope::Scope;
use stile_domain::sign_in::asked_access::sentence;
use stile_domain::sign_in::redirect_uri::{RedirectKind, RedirectUri};
use stile_domain::unseen::{shown, shown_ends, shown_start};

use super::access_form::AccessForm;
use super::frame::{PageFrame, SHOW};
use super::record_form::RecordForm;
use super::room::Room;
use super::shown_text::shown_name;
use crate::auth::scope_doubts::doubts;

/// How long an approval may last: the value in the form, the words, and the seconds.
pub const DURATIONS: [(&str, &str, i64); 5] = [
    ("1d", "one day", 86_400),
    ("7d", "a week", 604_800),
    ("30d", "30 days", 2_592_000),
    ("90d", "90 days", 7_776_000),
    ("365d", "a year", 31_536_000),
];
/// The duration that the page proposes.
pub const PROPOSED_DURATION: &str = "90d";

/// The most bytes of the choices about files, beside those about records.
pub(super) const FILE_BYTES: usize = 30_000;

/// The most characters of what may be a mistake.
pub(super) const MAX_DOUBT: usize = 300;

/// What the page shows.
pub struct ConsentView<'a> {
    /// The name of the client.
    pub client: &'a str,
    /// Where the answer goes.
    pub redirect: &'a RedirectUri,
    /// The token of the owner's session.
    pub csrf: String,
    /// The handle of the request.
    pub handle: &'a str,
    /// The path of the form.
    pub action: &'a str,
    /// The name of the folder that the client would reach; `None` for a folder without a name.
    pub folder: Option<String>,
    /// The name of the server.
    pub server: &'a str,
    /// The choices about files.
    pub files: AccessForm<'a>,
    /// What the client may do now.
    pub before: Vec<Scope>,
    /// The choices about records; `None` if there are none to choose.
    pub records: Option<RecordForm>,
    /// Whether the client asks for records by name.
    pub asks_for_records: bool,
    /// What the client says that it wants the records for.
    pub purpose: Option<&'a str>,
    /// Whether one token is all that the client gets.
    pub is_single_use: bool,
}

impl ConsentView<'_> {
    /// Returns the page as a response.
    pub fn respond(&self, status: StatusCode) -> http::Response<axum::body::Body> {
        let body = html! {
            h1 { (shown_name(self.client)) " asks for access" }
            p {
                (answer_sentence(self.redirect))
                " The name is the client's own word; nobody has checked it."
            }
            p {
                "It would reach "
                @match &self.folder {
                    Some(folder) => { "the folder " strong { bdi { (shown_ends(folder, 80)) } } }
                    None => { "your folder" }
                }
                " on the server " strong { (self.server) } "."
            }
            @if self.redirect.stays_on_this_computer() {
                p.warning {
                    "The answer stays on this computer. Any program on it can ask in this name. \
                     Go on only if you have just started connecting " (shown_name(self.client)) " yourself."
                }
            }
            @if !self.before.is_empty() {
                p { "Now it may:" }
                ul { @for scope in &self.before { li { (sentence(scope)) } } }
            }
            form method="post" action=(self.action) autocomplete="off" data-follow {
                input type="hidden" name="csrf" value=(self.csrf);
                input type="hidden" name="request" value=(self.handle);
                (self.choices())
                div class="card" {
                    label for="duration" { "For how long" }
                    select id="duration" name="duration" {
                        @for (value, words, _) in DURATIONS {
                            option value=(value) selected[value == self.duration()] { (words) }
                        }
                    }
                    p class="muted" { "You can narrow and end it at any moment on your page." }
                }
                div class="actions" {
                    button type="submit" name="decision" value="approve" { "Allow" }
                    button type="submit" name="decision" value="deny" { "Do not allow" }
                    button class="plain" type="submit" name="do" value=(SHOW) {
                        "Show what that opens"
                    }
                }
            }
        };
        PageFrame::new("Allow access?")
            .with_form_target(self.redirect.form_action_source())
            .with_page_script()
            .respond(status, &body)
    }

    /// Returns what may be a mistake about the scopes that are asked for.
    fn doubts(&self) -> Vec<String> {
        let asked = self.files.lines.iter().map(|of| &of.line.scope);
        doubts(asked, None).iter().map(|doubt| shown_start(doubt, MAX_DOUBT)).collect()
    }

    fn duration(&self) -> &str {
        self.files.chosen.and_then(|form| form.get("duration")).unwrap_or(PROPOSED_DURATION)
    }

    fn choices(&self) -> Markup {
        let mut room = Room::of_page();
        let files = html! {
            @if !self.files.lines.is_empty() {
                section class="card" aria-labelledby="files" {
                    h2 id="files" { (shown_name(self.client)) " would be allowed to:" }
                    (self.files.markup(FILE_BYTES))
                    @for doubt in self.doubts() {
                        p class="warning" { "Please look again: " (doubt) "." }
                    }
                }
            }
        };
        let files = room.take(files);
        html! {
            (files)
            @if let Some(records) = &self.records {
                section class="card" aria-labelledby="records" {
                    h2 id="records" {
                        @if self.asks_for_records { "It asks to see records:" }
                        @else { "Your records" }
                    }
                    @if !self.asks_for_records {
                        p class="muted" {
                            "It did not ask for records, and sees none unless you add some."
                        }
                    }
                    (records.markup(room.left()))
                    @if let Some(purpose) = self.purpose {
                        p { "It says that this is for: " (shown(purpose)) }
                    }
                    @if self.is_single_use { p { "It gets one token, and no other after that." } }
                }
            }
        }
    }
}

/// Returns the sentence that says who receives the answer.
fn answer_sentence(redirect: &RedirectUri) -> Markup {
    html! {
        "The answer goes to "
        @match redirect.kind() {
            RedirectKind::Web => { "the web site " strong { (redirect.host()) } "." }
            RedirectKind::Loopback => {
                "a program on this computer, which listens at " strong { (redirect.host()) } "."
            }
            RedirectKind::Native => {
                "the application on this computer that opens addresses with "
                strong { (redirect.beginning()) } "."
            }
        }
    }
}
