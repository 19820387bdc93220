//! The page that tells in sentences what was done: one day or a week, with filters.
//!
//! A day can have a million calls, so the page reads the journal line by line and keeps the latest
//! that fit. Calls without a place in a list of pages go by the time of their line.

use std::collections::VecDeque;

use axum::body::Body;
use http::Response;
use maud::{Markup, html};
use stile_domain::audit::{AuditFilter, told_name};
use stile_domain::client_name::EVERYBODY;
use stile_domain::path::SpacePath;
use stile_domain::percent::encode_component;
use stile_domain::records::instant::{Instant, MICROS_A_SECOND};
use stile_domain::unseen::shown_ends;

use super::frame::{ACTIVITY_PATH, CONNECT_PATH, LIVE_PATH, UNDO_PATH};
use super::room::{Fitted, Room};
use super::signed_in::{self, PageError, Visit};
use super::times::{Required, day_of_instant, input_value, instant, shown_day, time_input};
use super::told_calls::{ToldCall, filter, known_clients, push};
use crate::owned_space::OwnedSpace;
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// How many calls a page shows, if they fit.
const CALLS_OF_PAGE: usize = 64;
/// The most names in a list of clients, and their bytes.
const MAX_NAMES: usize = 50;
const NAME_BYTES: usize = 5_000;
/// The most characters of a client's name.
const MAX_NAME: usize = 60;
const MICROS_A_MINUTE: i64 = 60 * MICROS_A_SECOND;
/// The most days that a page reads.
const MAX_DAYS: i64 = 31;

/// Shows the page, or sends a browser without a session to sign in first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::show(server, request, (ACTIVITY_PATH, "Activity"), |visit| {
        let space = visit.owner_space()?;
        Ok(ActivityView::read(visit, space)?.markup())
    })
}

/// Returns when a day of a reader begins, whose days begin so many microseconds before those in
/// UTC.
fn begin_of(day: &str, zone: i64) -> Option<Instant> {
    Instant::parse(day).map(|Instant(begin)| Instant(begin.saturating_sub(zone)))
}

/// Returns the name of a client as a list shows it.
fn name_of(client: &str) -> String {
    shown_ends(&told_name(client), MAX_NAME)
}

/// What the page shows.
struct ActivityView {
    filter: AuditFilter,
    /// The name of the client that the filter names by its identifier.
    client_name: Option<String>,
    /// The last of the days, as in `2026-01-31`. It begins when the day of the reader does.
    day: String,
    /// How much earlier the reader's days begin than those in UTC, in microseconds.
    zone: i64,
    days: i64,
    now: i64,
    /// The calls, the latest first. Calls in a row that say the same are one.
    calls: Vec<ToldCall>,
    /// How many calls fit the filter in all.
    found: u64,
    /// The names of clients to choose from.
    names: Vec<String>,
    /// Before which time the calls are, if this is not the first page.
    before: Option<String>,
}

impl ActivityView {
    fn read(visit: &Visit<'_>, space: &OwnedSpace) -> Result<Self, PageError> {
        let now = instant(visit.now);
        let days = visit.text("days").parse().unwrap_or(1).clamp(1, MAX_DAYS);
        let asked = visit.text("day");
        let zone = visit.zone_minutes.saturating_mul(MICROS_A_MINUTE);
        let today = day_of_instant(Instant(now.0.saturating_add(zone)));
        let day = match (asked, Instant::parse(asked)) {
            ("", _) => today,
            (_, Some(day)) => day_of_instant(day),
            (_, None) => return Err(PageError::Refused("The day cannot be read.".to_owned())),
        };
        let last = begin_of(&day, zone).unwrap_or(now);
        let begin = last.plus_days(1 - days);
        let end = last.plus_days(1).to_rfc3339();
        let before = visit.parameters.get("before").map(str::to_owned);
        let before = before.filter(|before| Instant::parse(before).is_some());
        let filter = filter(visit)?;
        let by_id = filter.client.as_ref().filter(|_| filter.callers.is_some());
        let client_name = match by_id {
            Some(id) => known_clients(visit)?.told(id),
            None => None,
        };
        let mut view = Self {
            filter,
            client_name,
            day,
            zone,
            days,
            now: visit.now,
            calls: Vec::new(),
            found: 0,
            names: Vec::new(),
            before,
        };
        let until = view.before.clone().unwrap_or_else(|| end.clone());
        let mut latest: VecDeque<ToldCall> = VecDeque::new();
        let logged = |error: std::io::Error| PageError::logged(&error);
        let mut lines = space.journal.lines(Some(begin)).map_err(logged)?;
        while let Some(line) = lines.next_line().map_err(logged)? {
            if line.at >= end {
                break;
            }
            if !view.filter.shows(&line) {
                continue;
            }
            view.found += 1;
            if line.at >= until {
                continue;
            }
            push(&mut latest, line);
            latest.truncate(CALLS_OF_PAGE);
        }
        view.calls = latest.into();
        let digest = space.digest(now).map_err(logged)?;
        let clients = digest.iter().flat_map(|digest| digest.clients());
        view.names = clients.take(MAX_NAMES).map(str::to_owned).collect();
        Ok(view)
    }

    fn markup(&self) -> Markup {
        let mut room = Room::of_page();
        let (form, undo) = (room.take(self.form()), room.take(self.undo()));
        let calls = room.fit(&self.calls, CALLS_OF_PAGE, |call| call.markup(self.now));
        html! {
            h1 { "Activity" }
            (form)
            p class="muted" data-days { (self.what_is_shown(calls.shown)) }
            @if self.calls.is_empty() { (self.nothing()) }
            @if let Some(live) = self.live() {
                // The script of the page says here what came since.
                p class="muted" id="live" role="status" data-live=(live) {}
            }
            ol class="calls" { (calls) }
            (self.paging(calls.shown))
            (undo)
        }
    }

    fn nothing(&self) -> Markup {
        html! {
            div class="empty" {
                @if self.is_filtered() {
                    p { "Nobody called anything that fits." }
                    p { a href=(ACTIVITY_PATH) { "Show all calls of today" } }
                } @else {
                    p {
                        "Nobody called anything. Calls of agents show here as they happen. "
                        a href=(CONNECT_PATH) { "Connect a client" }
                    }
                }
            }
        }
    }

    /// Returns whether the page shows less than all calls of today.
    fn is_filtered(&self) -> bool {
        let AuditFilter { client, callers: _, path, tool, refused } = &self.filter;
        let today = day_of_instant(Instant(instant(self.now).0.saturating_add(self.zone)));
        client.is_some()
            || path.is_some()
            || tool.is_some()
            || *refused
            || self.days != 1
            || self.day != today
    }

    fn what_is_shown(&self, shown: usize) -> Markup {
        let shown: u64 = self.calls.iter().take(shown).map(|call| call.times).sum();
        html! {
            @match self.found {
                0 => { "No call " }
                1 => { "One call " }
                found if found > shown => { (shown) " of " (found) " calls " }
                found => { (found) " calls " }
            }
            @if self.days == 1 { "on " } @else { "in " (self.days) " days up to " }
            (shown_day(&self.day))
            @if self.found > 1 { ", the latest first" }
            ". " (self.zone_words())
        }
    }

    /// Says when a day begins.
    fn zone_words(&self) -> String {
        let minutes = self.zone / MICROS_A_MINUTE;
        if minutes == 0 {
            return "Days are days in UTC.".to_owned();
        }
        let (sign, far) = (if minutes < 0 { "-" } else { "+" }, minutes.abs());
        format!("Days begin with yours (UTC{sign}{:02}:{:02}).", far / 60, far % 60)
    }

    fn form(&self) -> Markup {
        let client = self.filter.client.as_deref().unwrap_or_default();
        let path = self.filter.path.as_ref().map_or("", SpacePath::as_str);
        let tool = self.filter.tool.as_deref().unwrap_or_default();
        let names = self.names(client);
        html! {
            details class="filters" open[self.is_filtered()] {
            summary { "Filter" }
            form class="filter" method="get" action=(ACTIVITY_PATH) {
                div {
                    label for="client" { "Client" }
                    select id="client" name="client" {
                        option value="" { "all" }
                        @if !client.is_empty() && !self.names.iter().any(|name| name == client) {
                            option value=(client) selected { (self.chosen_name(client)) }
                        }
                        (names)
                    }
                }
                div {
                    label for="path" { "File or folder" }
                    input id="path" name="path" value=(path) placeholder="/work" maxlength="1024";
                }
                div {
                    label for="tool" { "Tool" }
                    input id="tool" name="tool" value=(tool) placeholder="text.edit" maxlength="60";
                }
                div {
                    label for="outcome" { "Outcome" }
                    select id="outcome" name="outcome" {
                        option value="" { "any" }
                        option value="refused" selected[self.filter.refused] { "refused or failed" }
                    }
                }
                div {
                    label for="day" { "Day" @if self.zone == 0 { " (UTC)" } }
                    input id="day" name="day" type="date" value=(self.day);
                }
                div {
                    label for="days" { "Days up to it" }
                    select id="days" name="days" {
                        @for days in [1, 7, 31] {
                            option value=(days) selected[days == self.days] { (days) }
                        }
                    }
                }
                div class="actions" { button class="plain" { "Show" } }
            }
            }
        }
    }

    /// Returns the name of the client of the filter.
    fn chosen_name(&self, client: &str) -> String {
        name_of(self.client_name.as_deref().unwrap_or(client))
    }

    /// Returns the clients to choose from, as far as they fit.
    fn names(&self, chosen: &str) -> Fitted {
        Room::of(NAME_BYTES).fit(&self.names, MAX_NAMES, |name| {
            html! { option value=(name) selected[name == chosen] { (name_of(name)) } }
        })
    }

    /// Returns the address of the calls that come after those of the page, if it shows the latest.
    fn live(&self) -> Option<String> {
        let today = day_of_instant(Instant(instant(self.now).0.saturating_add(self.zone)));
        let is_latest = self.before.is_none() && self.day == today;
        let after = self
            .calls
            .first()
            .map_or_else(|| instant(self.now).to_rfc3339(), |latest| latest.line.at.clone());
        let query = self.query();
        let (_, filter) = query.split_once('?')?;
        is_latest.then(|| format!("{LIVE_PATH}?{filter}&after={}", encode_component(&after)))
    }

    /// Returns the query that shows the same with other days or pages.
    fn query(&self) -> String {
        let part = |name: &str, value: Option<&str>| {
            value.map(|value| format!("&{name}={}", encode_component(value))).unwrap_or_default()
        };
        let filter = &self.filter;
        format!(
            "{ACTIVITY_PATH}?days={}{}{}{}{}",
            self.days,
            part("client", filter.client.as_deref()),
            part("path", filter.path.as_ref().map(SpacePath::as_str)),
            part("tool", filter.tool.as_deref()),
            part("outcome", filter.refused.then_some("refused")),
        )
    }

    fn paging(&self, shown: usize) -> Markup {
        let last = self.calls.get(shown.saturating_sub(1)).map(|call| call.first.as_str());
        let last = last.filter(|_| shown == CALLS_OF_PAGE || shown < self.calls.len());
        let begin = Instant::parse(&self.day);
        let earlier = begin.map(|begin| day_of_instant(begin.plus_days(-self.days)));
        html! {
            nav class="paging" aria-label="Other times" {
                @if let Some(before) = last {
                    a href={
                        (self.query()) "&day=" (self.day) "&before=" (encode_component(before))
                    } { "Earlier calls" }
                }
                @if let Some(earlier) = earlier {
                    a href={ (self.query()) "&day=" (earlier) } {
                        @if self.days == 1 { "The day before" } @else { "The days before" }
                    }
                }
            }
        }
    }

    /// Returns the address of the plan that takes back the day of the page, if it is one day.
    fn undo_of_day(&self) -> Option<String> {
        let begin = begin_of(&self.day, self.zone).filter(|_| self.days == 1)?;
        let end = begin.plus_days(1).to_rfc3339();
        let client = self.filter.client.as_deref().map(encode_component);
        let client = client.map(|client| format!("&client={client}")).unwrap_or_default();
        let (begin, end) = (encode_component(&begin.to_rfc3339()), encode_component(&end));
        Some(format!("{UNDO_PATH}?since={begin}&until={end}{client}"))
    }

    fn undo(&self) -> Markup {
        let client = self.filter.client.as_deref().unwrap_or_default();
        let since = begin_of(&self.day, self.zone).map(input_value).unwrap_or_default();
        html! {
            section class="card" aria-labelledby="take-back" {
                h2 id="take-back" { "Take back" }
                p {
                    "Takes back what one client, or everybody, changed since a moment. You see the \
                     plan first. What somebody changed later stays as it is."
                }
                @if let Some(day) = self.undo_of_day() {
                    p class="links" {
                        a href=(day) {
                            "Plan to take back what "
                            @if client.is_empty() { (EVERYBODY) }
                            @else { (self.chosen_name(client)) }
                            " changed on " (shown_day(&self.day))
                        }
                    }
                }
                form class="filter" method="get" action=(UNDO_PATH) {
                    div {
                        label for="undo-client" { "Changes of" }
                        select id="undo-client" name="client" {
                            option value="" { (EVERYBODY) }
                            (self.names(client))
                        }
                    }
                    div {
                        (time_input("since", "Since", &since, Required::Yes))
                    }
                    div { (time_input("until", "Before, optional", "", Required::No)) }
                    div class="actions" { button class="plain" { "Show the plan" } }
                }
            }
        }
    }
}
