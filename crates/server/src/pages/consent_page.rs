//! The page where the owner decides what a client may do, as a function of what it shows.
//!
//! Each line can be removed or narrowed without a script: a check box, a choice of the verb, a
//! choice of a folder. A list of the top folders shows what the proposed lines open. The name of
//! the client is its own word, so beside it stands who receives the answer: a web site, a program
//! on this computer, or an application by its scheme.

use http::StatusCode;
use maud::{Markup, html};
use stile_domain::scope::{Scope, Verb};
use stile_domain::sign_in::asked_access::{AccessLine, LineOrigin, sentence};
use stile_domain::sign_in::redirect_uri::{RedirectKind, RedirectUri};
use stile_domain::unseen::shown_start;

use super::frame::PageFrame;
use crate::sign_in::parameters::FormParameters;

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

/// The decision that only shows what the choices open.
pub const SHOW: &str = "show";

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
    /// The lines about files, each with the folders to which it can be narrowed.
    pub lines: Vec<(AccessLine, Vec<String>)>,
    /// What the owner chose so far; `None` at first.
    pub chosen: Option<&'a FormParameters>,
    /// What the client gives up by itself.
    pub denials: Vec<Scope>,
    /// What the client may do now.
    pub before: Vec<Scope>,
    /// The top folders, with what the proposed lines open of each.
    pub opened: Vec<OpenedFolder>,
    /// The part about records.
    pub records: Option<Markup>,
}

/// A folder, and what of it a client will see.
pub struct OpenedFolder {
    /// The path of the folder.
    pub path: String,
    /// What the client may do in it.
    pub opened: Opened,
}

/// What a client may do in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// It reads and changes everything.
    Change,
    /// It reads everything.
    Read,
    /// It adds lines, without reading.
    Append,
    /// It reads or changes a part.
    Part,
    /// It sees nothing.
    Nothing,
}

impl Opened {
    /// Returns the words, and the class of the style sheet.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Change => ("reads and changes", "change"),
            Self::Read => ("reads", "read"),
            Self::Append => ("adds lines", "change"),
            Self::Part => ("a part of it", "read"),
            Self::Nothing => ("nothing", "none"),
        }
    }
}

/// The name of the check box of a line.
pub fn line_field(scope: &Scope) -> String {
    format!("line:{scope}")
}

/// The name of the choice of a line's verb.
pub fn verb_field(scope: &Scope) -> String {
    format!("verb:{scope}")
}

/// The name of the choice of a line's folder.
pub fn folder_field(scope: &Scope) -> String {
    format!("folder:{scope}")
}

impl ConsentView<'_> {
    /// Returns the page as a response.
    pub fn respond(&self, status: StatusCode) -> http::Response<axum::body::Body> {
        let body = html! {
            h1 { (self.client) " asks for access" }
            p {
                (answer_sentence(self.redirect))
                " The name is the client's own word; nobody has checked it."
            }
            @if self.redirect.stays_on_this_computer() {
                p.warning {
                    "The answer stays on this computer. Any program on it can ask in this name. \
                     Go on only if you have just started connecting " (self.client) " yourself."
                }
            }
            @if !self.before.is_empty() {
                p { "Now it may:" }
                ul { @for scope in &self.before { li { (sentence(scope)) } } }
            }
            form method="post" action=(self.action) data-follow {
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
                    button class="plain" type="submit" name="decision" value=(SHOW) {
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

    fn duration(&self) -> &str {
        self.chosen.and_then(|form| form.get("duration")).unwrap_or(PROPOSED_DURATION)
    }

    fn choices(&self) -> Markup {
        html! {
            @if !self.lines.is_empty() {
                section class="card" aria-labelledby="files" {
                    h2 id="files" { (self.client) " would be allowed to:" }
                    ul.lines {
                        @for (line, folders) in &self.lines {
                            li { (choice(line, folders, self.chosen)) }
                        }
                    }
                    @for denial in &self.denials { p { "It will " (sentence(denial)) "." } }
                    (self.opened())
                }
            }
            @if let Some(records) = &self.records {
                section class="card" aria-labelledby="records" {
                    h2 id="records" { "It asks to:" }
                    (records)
                }
            }
        }
    }
}

impl ConsentView<'_> {
    fn opened(&self) -> Markup {
        html! {
            @if !self.opened.is_empty() {
                details id="opened" data-follows open {
                    summary { "What that opens of each folder" }
                    ul class="tree" {
                        @for folder in &self.opened {
                            @let (words, class) = folder.opened.words();
                            li class=(class) {
                                bdi { (shown_start(&folder.path, 80)) "/" }
                                span { (words) }
                            }
                        }
                    }
                    p class="muted" {
                        "Keys, passwords and files that programs run stay shut, unless you tick \
                         that you open them."
                    }
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

fn choice(line: &AccessLine, folders: &[String], chosen: Option<&FormParameters>) -> Markup {
    let scope = &line.scope;
    let id = line_field(scope);
    let is_ticked = chosen.map_or(line.is_proposed(), |form| form.get(&id).is_some());
    let is_chosen = |field: &str, value: &str| {
        chosen.and_then(|form| form.get(field)).is_some_and(|chosen| chosen == value)
    };
    let whose = match line.origin {
        LineOrigin::Asked => None,
        LineOrigin::AllowedBefore => Some("as before"),
        LineOrigin::Offered => Some("it did not ask for this; tick it if you want it"),
    };
    let narrows = scope.verb() == Verb::Write || !folders.is_empty();
    html! {
        label class="choice" for=(id) {
            input type="checkbox" id=(id) name=(id) value="on" checked[is_ticked];
            span {
                (sentence(scope))
                @if let Some(whose) = whose { span class="muted" { " (" (whose) ")" } }
            }
        }
        @if narrows {
            div class="narrower" {
                @if scope.verb() == Verb::Write {
                    div {
                        label for={ "how-" (id) } { "How" span class="unseen" { ": " (sentence(scope)) } }
                        select id={ "how-" (id) } name=(verb_field(scope)) {
                            option value="write" { "read and change" }
                            option value="read" selected[is_chosen(&verb_field(scope), "read")] {
                                "read only"
                            }
                        }
                    }
                }
                @if !folders.is_empty() {
                    div {
                        label for={ "where-" (id) } {
                            "Where" span class="unseen" { ": " (sentence(scope)) }
                        }
                        select id={ "where-" (id) } name=(folder_field(scope)) {
                            option value=(scope.path()) { "all of it" }
                            @for folder in folders {
                                option value=(folder)
                                    selected[is_chosen(&folder_field(scope), folder)]
                                {
                                    "only in " (shown_start(folder, 80))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
