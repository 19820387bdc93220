//! The page that plans an undo, shows what cannot be given back, and then does it.
//!
//! The form carries the hash of the plan that was shown. If the plan is another one by then, the
//! page shows the new plan and changes nothing.

use axum::body::Body;
use http::Response;
use maud::{Markup, html};
use stile_domain::audit::told_name;
use stile_domain::client_name::EVERYBODY;
use stile_domain::hash::ContentHash;
use stile_domain::history::past_change::ChangeNumber;
use stile_domain::history::undo_plan::UndoStep;
use stile_domain::path::SpacePath;
use stile_domain::percent::encode_component;
use stile_domain::records::instant::Instant;
use stile_domain::shown_paths::ShownPaths;
use stile_domain::unseen::{shown, shown_ends};
use stile_store::history::{ChangeQuery, UnrecordedName};
use tokio::runtime::Handle;

use super::frame::{ACTIVITY_PATH, FILE_PATH, UNDO_PATH};
use super::room::Room;
use super::signed_in::{self, Outcome, PageError, Visit};
use super::times::moment;
use super::told_calls::known_clients;
use crate::known_clients::NotOneClient;
use crate::owner_files::undo::{self, MadeUndo, PlannedUndo, Shortfall, UNDO};
use crate::owner_files::{OwnerFiles, OwnerFilesError};
use crate::sign_in::parameters::parse_time;
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// The page in the navigation, and its title.
const PAGE: (&str, &str) = (ACTIVITY_PATH, "Take back");
/// The most steps, and the most files that stay, that a page names, if they fit.
const MAX_NAMED: usize = 150;
/// The bytes of what is not taken back, and of the files of one reason.
const SHORTFALL_BYTES: usize = 22_000;
const REASON_BYTES: usize = 6_000;
/// The parameter for the number of the first of what is not taken back.
const FIRST_LEFT: &str = "left";
/// The most characters of a path that a page shows.
const MAX_PATH: usize = 160;
const CHOOSE_ONE: &str = "Open the one that you mean on the page “Who may do what”, which can take \
                          back what it changed.";
const NO_HISTORY: &str = "This server keeps no old versions, so nothing can be taken back.";

/// Shows the plan of an undo.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    let page = (UNDO_PATH, PAGE.1);
    signed_in::show(server, request, page, |visit| {
        let files = files(visit)?;
        let asked = AskedUndo::of(visit)?;
        let planned = asked.plan(visit, &files)?;
        Ok(PlanView { visit, asked: &asked, planned: planned.as_ref(), changed: false }.markup())
    })
}

/// Carries the plan out that the page showed.
pub fn carry_out(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::change(server, request, PAGE, |visit| {
        let files = files(visit)?;
        let asked = AskedUndo::of(visit)?;
        let planned = asked.plan(visit, &files)?;
        let is_shown = planned.as_ref().is_some_and(|it| plan_hash(it) == visit.text("plan"));
        let Some(planned) = planned.as_ref().filter(|_| is_shown) else {
            let view = PlanView { visit, asked: &asked, planned: planned.as_ref(), changed: true };
            return Ok(Outcome::Page(view.markup()));
        };
        let mut on_step = |_| ();
        let work = undo::carry_out(&files, planned, &mut on_step);
        let made = Handle::current().block_on(work);
        let called = (files.call.number(), asked.address());
        Ok(Outcome::Page(done(planned, &made, called, visit.now)))
    })
}

fn files(visit: &Visit<'_>) -> Result<OwnerFiles, PageError> {
    let space = visit.owner_space()?;
    let files = space.files(&visit.session.subject, UNDO);
    files.ok_or_else(|| PageError::Absent(space.why_no_files(NO_HISTORY)))
}

/// What shall be taken back.
struct AskedUndo {
    call: Option<i64>,
    /// The name or the identifier of a client.
    client: Option<String>,
    /// The name of the client.
    client_name: Option<String>,
    since: Option<Instant>,
    until: Option<Instant>,
}

impl AskedUndo {
    fn of(visit: &Visit<'_>) -> Result<Self, PageError> {
        let call = match visit.parameters.get("call") {
            Some(call) => Some(call.parse().map_err(|_| not_readable("number of a call"))?),
            None => None,
        };
        let time = |name: &str| {
            let text = visit.parameters.get(name);
            text.map(|text| parse_time(text).ok_or_else(|| not_readable("time"))).transpose()
        };
        let client = visit.parameters.get("client").map(str::to_owned);
        let client_name = match &client {
            Some(client) => known_clients(visit)?.told(client).or_else(|| Some(client.clone())),
            None => None,
        };
        let (since, until) = (time("since")?, time("until")?);
        let asked = Self { call, client, client_name, since, until };
        // Without any of them, everything that was ever done would be taken back.
        match asked.call.is_some() || asked.since.is_some() {
            true => Ok(asked),
            false => Err(PageError::Refused("Name a call, or the time since when.".to_owned())),
        }
    }

    fn plan(
        &self,
        visit: &Visit<'_>,
        files: &OwnerFiles,
    ) -> Result<Option<PlannedUndo>, PageError> {
        let mut query = ChangeQuery {
            call: self.call.map(ChangeNumber),
            since: self.since,
            until: self.until,
            ..ChangeQuery::default()
        };
        if let Some(typed) = &self.client {
            let limited = files.limit_to_client(&mut query, typed, &known_clients(visit)?);
            limited.map_err(|error| match error {
                OwnerFilesError::Client(NotOneClient::SameName { .. }) => PageError::Refused(
                    format!("Several clients are called {}. {CHOOSE_ONE}", name_of(typed)),
                ),
                error => PageError::Refused(error.to_string()),
            })?;
        }
        let planned = Handle::current().block_on(undo::plan(files, &query));
        planned.map_err(|error| PageError::Refused(error.to_string()))
    }

    /// Returns what shall be taken back, as the end of a sentence.
    fn words(&self, now: i64) -> Markup {
        let who = self.client_name.as_deref().map_or(EVERYBODY.to_owned(), name_of);
        html! {
            @match (self.call, self.since) {
                (Some(call), _) => { "what call " (call) " changed" }
                (None, Some(since)) => {
                    "what " bdi { (who) } " changed since " (moment(now, since))
                    @if let Some(until) = self.until { ", before " (moment(now, until)) }
                }
                (None, None) => { "what " bdi { (who) } " changed" }
            }
        }
    }

    /// Returns the address of the plan.
    fn address(&self) -> String {
        let time = |name: &str, time: Option<Instant>| {
            let text = time.map(|time| encode_component(&time.to_rfc3339()));
            text.map(|text| format!("&{name}={text}")).unwrap_or_default()
        };
        let call = self.call.map(|call| format!("&call={call}")).unwrap_or_default();
        let client = self.client.as_deref().map(encode_component);
        let client = client.map(|client| format!("&client={client}")).unwrap_or_default();
        let times = time("since", self.since) + &time("until", self.until);
        format!("{UNDO_PATH}?{}", (call + &client + &times).trim_start_matches('&'))
    }
}

/// Returns the name of a client as a sentence has it.
fn name_of(client: &str) -> String {
    shown_ends(&told_name(client), 80)
}

fn not_readable(what: &str) -> PageError {
    PageError::Refused(format!("The {what} cannot be read."))
}

/// Returns what tells one plan from another.
fn plan_hash(planned: &PlannedUndo) -> String {
    let text = format!("{:?} {:?}", planned.plan, planned.lacking);
    ContentHash::digest(text.as_bytes()).to_string()
}

/// The plan, before it is carried out.
struct PlanView<'a> {
    visit: &'a Visit<'a>,
    asked: &'a AskedUndo,
    planned: Option<&'a PlannedUndo>,
    /// Whether the plan is another one than the owner saw.
    changed: bool,
}

impl PlanView<'_> {
    fn markup(&self) -> Markup {
        html! {
            h1 { "Take back" }
            p { "This would take back " strong { (self.asked.words(self.visit.now)) } "." }
            @if self.changed {
                p class="warning" role="alert" {
                    "Something changed meanwhile, so nothing was done. This is the plan now."
                }
            }
            @match self.planned {
                None => p class="empty" {
                    "There is no such change, so there is nothing to do. Choose another time, or \
                     another client."
                },
                Some(planned) => { (self.plan(planned)) }
            }
            p class="links" { a href=(ACTIVITY_PATH) { "Back to the activity" } }
        }
    }

    fn plan(&self, planned: &PlannedUndo) -> Markup {
        let steps = &planned.plan.steps;
        let first = self.visit.first_row();
        let mut room = Room::of_page();
        let paths = planned.shown_paths();
        let shortfalls = Shortfalls {
            all: &planned.shortfalls(),
            paths: &paths,
            first: self.visit.parameters.get(FIRST_LEFT).and_then(|it| it.parse().ok()),
            address: self.asked.address(),
            now: self.visit.now,
        };
        let left =
            shortfalls.markup("What will not be taken back", &mut room.part(SHORTFALL_BYTES));
        let shown = room.fit(steps.iter().skip(first), MAX_NAMED, |step| {
            html! { li { (step_words(step, &paths)) } }
        });
        let all = steps.len();
        html! {
            @if steps.is_empty() {
                p class="empty" { "Nothing is to be done." }
            } @else {
                h2 { "What will be done" }
                ul class="plan" { (shown) }
                (shown.next_page((first, all), &self.asked.address()))
            }
            (left)
            @if !steps.is_empty() { (self.form(planned)) }
        }
    }

    fn form(&self, planned: &PlannedUndo) -> Markup {
        html! {
            form method="post" action=(UNDO_PATH) {
                (self.visit.csrf_field())
                input type="hidden" name="plan" value=(plan_hash(planned));
                @for name in ["call", "client", "since", "until"] {
                    @if let Some(value) = self.visit.parameters.get(name) {
                        input type="hidden" name=(name) value=(value);
                    }
                }
                div class="actions" {
                    button { "Take it back: " (steps(planned.plan.steps.len())) }
                }
                p class="muted" {
                    @if planned.lacking.is_empty() { "This undo can be taken back itself." }
                    @else { "This undo can be taken back itself, except for what is named above." }
                }
            }
        }
    }
}

fn steps(count: usize) -> String {
    if count == 1 { "one step".to_owned() } else { format!("{count} steps") }
}

fn path(path: &SpacePath, all: &ShownPaths) -> Markup {
    html! { code { bdi { (shown_ends(&all.told_apart(path), MAX_PATH)) } } }
}

fn file(of: &SpacePath, all: &ShownPaths) -> Markup {
    html! {
        a href={ (FILE_PATH) "?path=" (encode_component(of.as_str())) } { (path(of, all)) }
    }
}

fn step_words(step: &UndoStep, all: &ShownPaths) -> Markup {
    let file = |of: &SpacePath| file(of, all);
    let path = |of: &SpacePath| path(of, all);
    match step {
        UndoStep::Restore { path, from: Some(_), before, .. } => html! {
            "Restore " (file(path)) " as before change " (before)
        },
        UndoStep::Restore { path, from: None, before, .. } => html! {
            "Bring back " (file(path)) " as before change " (before)
        },
        UndoStep::Remove { path, .. } => html! { "Remove " (file(path)) ", which was created" },
        UndoStep::MoveBack { path: now, to, .. } => html! {
            "Move " (file(now)) " back to " (path(to))
        },
        UndoStep::GiveFolder { path: folder, from: None, .. } => html! {
            "Make the folder " (path(folder)) " again"
        },
        UndoStep::GiveFolder { path: folder, from: Some(from), rest, .. } => html! {
            "Make the folder " (path(folder)) " again, which is " (path(from)) " now"
            @if !rest.is_empty() { ", with " (rest.len()) " beside its files" }
        },
        UndoStep::UnmakeFolder { path: folder, .. } => html! {
            "Remove the folder " (path(folder)) ", which was made"
        },
        UndoStep::RemoveFolder { path: folder } => html! {
            "Remove the folder " (path(folder)) ", which this undo made"
        },
        UndoStep::SetFolderMode { path: folder, from, to } => html! {
            "Give the folder " (path(folder)) " its mode " (format!("{to:03o}"))
            " again, which is " (format!("{from:03o}")) " now"
        },
    }
}

/// Says what was done, and what was not.
fn done(
    planned: &PlannedUndo,
    made: &MadeUndo<'_>,
    (call, address): (Option<ChangeNumber>, String),
    now: i64,
) -> Markup {
    let (all, paths) = (made.shortfalls(), planned.shown_paths());
    let left = Shortfalls { all: &all, paths: &paths, first: None, address, now };
    html! {
        h1 { "Taken back" }
        p class="notice" role="status" {
            (made.done()) " of " (steps(planned.plan.steps.len())) " done."
        }
        (left.markup("What was not taken back", &mut Room::of_page()))
        @if let Some(call) = call {
            p {
                a href={ (UNDO_PATH) "?call=" (call) } { "Take this undo back" }
                @if !made.can_be_taken_back() { ", except for what the history has no room for" }
            }
        }
        p class="links" { a href=(ACTIVITY_PATH) { "Back to the activity" } }
    }
}

/// Everything because of which an undo is not whole.
struct Shortfalls<'a> {
    all: &'a [Shortfall<'a>],
    paths: &'a ShownPaths,
    /// The number of the first one to show; `None` for the first of all.
    first: Option<usize>,
    /// The address of the plan, which names them all, page by page.
    address: String,
    now: i64,
}

impl Shortfalls<'_> {
    /// Names them under a heading, and leads to those that have no room.
    fn markup(&self, heading: &str, room: &mut Room) -> Markup {
        let first = self.first.unwrap_or(0);
        let shown = room.fit(self.all.iter().skip(first), MAX_NAMED, |shortfall| {
            html! { li class="bad" { (shortfall_words(shortfall, (self.paths, self.now))) } }
        });
        let next = first.saturating_add(shown.shown);
        let more = self.all.len().saturating_sub(next);
        html! {
            @if !self.all.is_empty() {
                h2 id="left" { (heading) }
                ul class="plan" { (shown) }
                @if more > 0 && shown.shown > 0 {
                    nav class="paging" aria-label="More of what is left" {
                        a href={ (self.address) "&" (FIRST_LEFT) "=" (next) "#left" } {
                            "And " (more) " more"
                        }
                    }
                }
            }
        }
    }
}

fn shortfall_words(shortfall: &Shortfall<'_>, (all, now): (&ShownPaths, i64)) -> Markup {
    match shortfall {
        Shortfall::Left(left) => html! { (file(&left.path, all)) ", which " (left.text(all)) },
        Shortfall::Failed(step, why) => html! {
            (path(step.path(), all)) ": " (shown(&shown_ends(why, 300)))
        },
        Shortfall::Unrecorded(gap) => html! {
            (gap.changes) " changes by " bdi { (name_of(&gap.client)) } " between "
            (moment(now, gap.since)) " and " (moment(now, gap.until))
            " are not in the history, which had no room for them: " (unrecorded(&gap.names, all))
            @if !gap.names_all() { ", and maybe others" }
        },
        Shortfall::NotKept(files) => html! {
            "The history has no room for what " (files.len())
            " steps replace or remove, so those steps cannot be taken back: " (paths(files, all))
        },
    }
}

/// Returns links to files, one after another, as far as they fit.
fn paths(files: &[SpacePath], all: &ShownPaths) -> Markup {
    one_after_another(files, |path| file(path, all))
}

/// Returns what changes concerned that no history has, one after another, as far as it fits.
fn unrecorded(names: &[UnrecordedName], all: &ShownPaths) -> Markup {
    one_after_another(names, |name| {
        html! { (file(&name.path, all)) @if let Some(to) = &name.to { " to " (file(to, all)) } }
    })
}

fn one_after_another<T>(things: &[T], words: impl Fn(&T) -> Markup) -> Markup {
    let shown = Room::of(REASON_BYTES).fit(things.iter().enumerate(), MAX_NAMED, |(at, thing)| {
        html! { @if at > 0 { ", " } (words(thing)) }
    });
    html! {
        (shown)
        @if things.len() > shown.shown { ", and " (things.len() - shown.shown) " more" }
    }
}
