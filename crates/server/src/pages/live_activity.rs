//! The calls that come while the page of activity is open, as server-sent events.
//!
//! An answer ends after some seconds. The browser then asks again and says which event it had
//! last, so a session that ended shows nothing more, and a server that stops waits for no browser.
//! Of many calls in a second the latest are shown and the others counted.
//!
//! *Source*: HTML Living Standard, section 9.2 (Server-sent events).

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, SystemTime};

use axum::body::{Body, Bytes};
use futures::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response};
use maud::html;
use stile_domain::audit::AuditFilter;
use stile_domain::journal::JournalLine;
use stile_domain::records::instant::Instant;
use stile_store::journal::NewLines;
use tokio::sync::OwnedSemaphorePermit;

use super::signed_in::{self, PageError, Visit};
use super::told_calls::{self, ToldCall, push};
use crate::clock::unix_seconds;
use crate::owned_space::OwnedSpace;
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// How long an answer lasts.
const LIFE: Duration = Duration::from_secs(15);
/// The pause between two looks at the journal.
const PAUSE: Duration = Duration::from_secs(1);
/// The most calls of one event.
const CALLS_OF_EVENT: usize = 20;
/// How far back the time between a page and an answer, or two answers, may reach, in seconds.
const MOST_MISSED_SECONDS: i64 = 120;
/// The most calls of that time that are told.
const MOST_MISSED: usize = 1000;

/// Answers with the calls that the query's filter shows, from the time `after` on, or from the one
/// that the browser had last.
pub fn follow(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::look(server, request, |visit| {
        let space = visit.owner_space()?;
        let Some(place) = space.live_place() else {
            return Err(PageError::Refused("Too many pages follow the activity.".to_owned()));
        };
        let last = request.headers.get("last-event-id").and_then(|last| last.to_str().ok());
        let after = last.unwrap_or_else(|| visit.text("after"));
        let following = Following::begin(visit, space, after, place)?;
        Ok(events(following))
    })
}

fn events(following: Following) -> Response<Body> {
    let ticks = stream::unfold(Some(following), |following| async {
        let mut following = following?;
        if following.left.is_zero() {
            return None;
        }
        tokio::time::sleep(PAUSE).await;
        following.left = following.left.saturating_sub(PAUSE);
        let looked = tokio::task::spawn_blocking(move || {
            let event = following.look();
            (event, following)
        });
        let (event, following) = looked.await.ok()?;
        match event {
            Ok(event) => Some((Ok::<_, io::Error>(Bytes::from(event)), Some(following))),
            Err(error) => {
                tracing::error!(target: "stile::pages", %error, "the journal is not followed");
                None
            }
        }
    });
    let mut response = Response::new(Body::from_stream(ticks));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// One page that follows the journal.
struct Following {
    lines: NewLines,
    filter: AuditFilter,
    /// Calls that came before this answer began, and after the last event of the page.
    missed: Vec<JournalLine>,
    clock: fn() -> SystemTime,
    left: Duration,
    _place: OwnedSemaphorePermit,
}

impl Following {
    fn begin(
        visit: &Visit<'_>,
        space: &OwnedSpace,
        after: &str,
        place: OwnedSemaphorePermit,
    ) -> Result<Self, PageError> {
        let logged = |error: io::Error| PageError::logged(&error);
        let filter = told_calls::filter(visit)?;
        // What comes while the earlier lines are read is in both, and told once.
        let lines = space.journal.new_lines().map_err(logged)?;
        let mut missed = VecDeque::new();
        let earliest = Instant::from_seconds(visit.now.saturating_sub(MOST_MISSED_SECONDS));
        if let Some(since) = Instant::parse(after).map(|after| after.max(earliest)) {
            let mut earlier = space.journal.lines(Some(since)).map_err(logged)?;
            while let Some(line) = earlier.next_line().map_err(logged)? {
                // A page without calls has whole seconds, which texts would put behind their parts.
                let is_later = Instant::parse(&line.at).is_some_and(|at| at > since);
                if is_later && filter.shows(&line) {
                    missed.push_back(line);
                    if missed.len() > MOST_MISSED {
                        missed.pop_front();
                    }
                }
            }
        }
        let clock = visit.server.settings.clock;
        let missed = missed.into();
        Ok(Self { lines, filter, missed, clock, left: LIFE, _place: place })
    }

    /// Returns the event of the calls since the last look, or a comment that keeps the connection.
    fn look(&mut self) -> io::Result<String> {
        let mut lines = std::mem::take(&mut self.missed);
        let told = lines.last().map(|line| line.at.clone()).unwrap_or_default();
        let new = self.lines.take()?.into_iter();
        lines.extend(new.filter(|line| line.at > told && self.filter.shows(line)));
        Ok(event(lines, unix_seconds((self.clock)())))
    }
}

/// Returns the event that tells of calls, the latest first. Its name is the time of the last.
fn event(lines: Vec<JournalLine>, now: i64) -> String {
    let Some(last) = lines.last().map(|line| line.at.clone()) else {
        return ": nothing new\n\n".to_owned();
    };
    let count = lines.len();
    let mut latest: VecDeque<ToldCall> = VecDeque::new();
    lines.into_iter().for_each(|line| push(&mut latest, line));
    latest.truncate(CALLS_OF_EVENT);
    let shown: u64 = latest.iter().map(|call| call.times).sum();
    let left_out = (count as u64).saturating_sub(shown);
    let told = html! {
        @for call in &latest { (call.markup(now)) }
        @if left_out > 0 {
            li class="event" {
                span class="said" {
                    (left_out) " more calls came. Load the page again to see all."
                }
            }
        }
    };
    // A line break would end the data of the event.
    let told = told.into_string().replace(['\r', '\n'], " ");
    format!("event: calls\nid: {last}\ndata: {count} {told}\n\n")
}
