//! The page that tells in sentences what was done: one day or a week, with filters.
//!
//! A day can have a million calls, so the page reads the journal line by line and keeps the latest
//! that fit. Calls without a place in a list of pages go by the time of their line.

use std::collections::VecDeque;

use axum::body::Body;
use http::Response;
use maud::{Markup, html};
use stile_domain::audit::AuditFilter;
use stile_domain::path::SpacePath;
use stile_domain::percent::encode_component;
use stile_domain::records::instant::Instant;
use stile_domain::unseen::shown_start;

use super::frame::{ACTIVITY_PATH, LIVE_PATH, UNDO_PATH};
use super::signed_in::{self, PageError, Visit};
use super::times::{Required, day_of_instant, instant, time_input};
use super::told_calls::{ToldCall, filter, push};
use crate::owned_space::OwnedSpace;
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// How many calls a page shows. With names of usual length they fit into 60 KB.
const CALLS_OF_PAGE: usize = 64;
/// The most names in the list of clients.
const MAX_NAMES: usize = 50;
const MICROS_A_DAY: i64 = 86_400_000_000;
/// The most days that a page reads.
const MAX_DAYS: i64 = 31;

/// Shows the page, or sends a browser without a session to sign in first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::show(server, request, (ACTIVITY_PATH, "Activity"), |visit| {
        let space = visit.owner_space()?;
        Ok(ActivityView::read(visit, space)?.markup())
    })
}

/// What the page shows.
struct ActivityView {
    filter: AuditFilter,
    /// The last of the days, as in `2026-01-31`.
    day: String,
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
        let day = Instant::parse(asked).map_or_else(|| day_of_instant(now), day_of_instant);
        let last = Instant::parse(&day).unwrap_or(now);
        let begin = Instant(last.0.saturating_sub((days - 1) * MICROS_A_DAY));
        let end = Instant(last.0.saturating_add(MICROS_A_DAY)).to_rfc3339();
        let before = visit.parameters.get("before").map(str::to_owned);
        let before = before.filter(|before| Instant::parse(before).is_some());
        let filter = filter(visit)?;
        let mut view = Self {
            filter,
            day,
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
        html! {
            h1 { "Activity" }
            (self.form())
            p class="muted" { (self.what_is_shown()) }
            @if self.calls.is_empty() {
                p class="empty" {
                    "Nobody called anything that fits. Calls of agents show here as they happen."
                }
            }
            @if let Some(live) = self.live() {
                // The script of the page says here what came since.
                p class="muted" id="live" role="status" data-live=(live) {}
            }
            ol class="calls" { @for call in &self.calls { (call.markup(self.now)) } }
            (self.paging())
            (self.undo())
        }
    }

    fn what_is_shown(&self) -> String {
        let time = match self.days {
            1 => format!("on {}", self.day),
            days => format!("in {days} days up to {}", self.day),
        };
        let shown: u64 = self.calls.iter().map(|call| call.times).sum();
        match self.found {
            0 => format!("No call {time}. Days are days in UTC."),
            found if found > shown => {
                format!("{shown} of {found} calls {time}, the latest first. Days are days in UTC.")
            }
            1 => format!("One call {time}. Days are days in UTC."),
            found => format!("{found} calls {time}, the latest first. Days are days in UTC."),
        }
    }

    fn form(&self) -> Markup {
        let client = self.filter.client.as_deref().unwrap_or_default();
        let path = self.filter.path.as_ref().map_or("", SpacePath::as_str);
        let tool = self.filter.tool.as_deref().unwrap_or_default();
        html! {
            form class="filter" method="get" action=(ACTIVITY_PATH) {
                div {
                    label for="client" { "Client" }
                    select id="client" name="client" {
                        option value="" { "all" }
                        @if !client.is_empty() && !self.names.iter().any(|name| name == client) {
                            option value=(client) selected { (shown_start(client, 60)) }
                        }
                        @for name in &self.names {
                            option value=(name) selected[name == client] {
                                (shown_start(name, 60))
                            }
                        }
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
                    label for="day" { "Day (UTC)" }
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

    /// Returns the address of the calls that come after those of the page, if it shows the latest.
    fn live(&self) -> Option<String> {
        let today = day_of_instant(instant(self.now));
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

    fn paging(&self) -> Markup {
        let shown = self.calls.len();
        let last = self.calls.last().map(|call| call.first.as_str());
        let last = last.filter(|_| shown == CALLS_OF_PAGE);
        let begin = Instant::parse(&self.day);
        let earlier =
            begin.map(|begin| day_of_instant(Instant(begin.0 - self.days * MICROS_A_DAY)));
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
        let begin = Instant::parse(&self.day).filter(|_| self.days == 1)?;
        let end = Instant(begin.0.saturating_add(MICROS_A_DAY)).to_rfc3339();
        let client = self.filter.client.as_deref().map(encode_component);
        let client = client.map(|client| format!("&client={client}")).unwrap_or_default();
        let (begin, end) = (encode_component(&begin.to_rfc3339()), encode_component(&end));
        Some(format!("{UNDO_PATH}?since={begin}&until={end}{client}"))
    }

    fn undo(&self) -> Markup {
        let client = self.filter.client.as_deref().unwrap_or_default();
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
                            @if client.is_empty() { "everybody" } @else { (shown_start(client, 60)) }
                            " changed on " (self.day)
                        }
                    }
                }
                form class="filter" method="get" action=(UNDO_PATH) {
                    div {
                        label for="undo-client" { "Changes of" }
                        select id="undo-client" name="client" {
                            option value="" { "everybody" }
                            @for name in &self.names {
                                option value=(name) selected[name == client] {
                                    (shown_start(name, 60))
                                }
                            }
                        }
                    }
                    div {
                        (time_input("since", "Since", &format!("{}T00:00", self.day), Required::Yes))
                    }
                    div { (time_input("until", "Before (optional)", "", Required::No)) }
                    div class="actions" { button class="plain" { "Show the plan" } }
                }
            }
        }
    }
}
