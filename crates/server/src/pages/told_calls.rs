//! Calls as sentences in a list, and which of them a page shows.

use std::collections::VecDeque;

use maud::{Markup, html};
use stile_domain::audit::{AuditFilter, CallKind, caller, kind, sentence};
use stile_domain::journal::JournalLine;
use stile_domain::path::SpacePath;
use stile_domain::percent::encode_component;
use stile_domain::records::instant::Instant;
use stile_domain::tool_name::is_dotted_name;
use stile_domain::unseen::shown_ends;

use super::frame::{CALL_PATH, FILE_PATH, UNDO_PATH};
use super::signed_in::{PageError, Visit};
use super::times::when;
use crate::known_clients::KnownClients;

/// The most characters of a sentence. A path may have a thousand.
const MAX_SENTENCE: usize = 240;

/// A call, and how often it was made in a row.
pub(super) struct ToldCall {
    pub(super) line: JournalLine,
    /// When the first of them was made.
    pub(super) first: String,
    sentence: String,
    pub(super) times: u64,
}

impl ToldCall {
    fn new(line: JournalLine) -> Self {
        Self { sentence: sentence(&line), first: line.at.clone(), line, times: 1 }
    }

    /// Takes a later call that says the same.
    fn repeat(&mut self, at: String) {
        self.line.at = at;
        self.times += 1;
    }

    /// Returns the line of a list. `now` is the time in UTC seconds.
    pub(super) fn markup(&self, now: i64) -> Markup {
        let Self { line, sentence, times, .. } = self;
        let class = match kind(line) {
            CallKind::Event => "event",
            _ if line.outcome != "ok" => "refused",
            CallKind::Change => "change",
            CallKind::Read => "read",
        };
        let at = Instant::parse(&line.at).map(Instant::seconds);
        // A refused call may have made no file.
        let happened = line.outcome == "ok" && line.dry_run != Some(true);
        let is_there = happened && kind(line) == CallKind::Change;
        let file = line.path.as_ref().filter(|_| is_there);
        html! {
            li class=(class) {
                span class="said" {
                    (shown_ends(sentence, MAX_SENTENCE))
                    @if *times > 1 { ", " (times) " times" }
                }
                span class="time" { @if let Some(at) = at { (when(now, at)) } }
                @if line.call.is_some() || file.is_some() {
                    span class="links" {
                        @if let Some(call) = line.call {
                            a href={ (CALL_PATH) "?call=" (call) } {
                                "What it changed" span class="unseen" { " in call " (call) }
                            }
                            a href={ (UNDO_PATH) "?call=" (call) } {
                                "Take back" span class="unseen" { " call " (call) }
                            }
                        }
                        @if let Some(file) = file {
                            a href={ (FILE_PATH) "?path=" (encode_component(file.as_str())) } {
                                "The file" span class="unseen" { " of a call by " (shown_ends(caller(line), 60)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Puts a call before earlier ones. It joins the latest of them if both say the same.
pub(super) fn push(latest: &mut VecDeque<ToldCall>, line: JournalLine) {
    let told = ToldCall::new(line);
    match latest.front_mut() {
        Some(last) if last.sentence == told.sentence => last.repeat(told.line.at),
        _ => latest.push_front(told),
    }
}

/// Returns the clients that the state knows.
pub(super) fn known_clients(visit: &Visit<'_>) -> Result<KnownClients, PageError> {
    Ok(KnownClients::of(visit.server.tokens(), visit.now)?)
}

/// Reads the filter of the query.
pub(super) fn filter(visit: &Visit<'_>) -> Result<AuditFilter, PageError> {
    let named = |name: &str| visit.parameters.get(name).map(|value| value.trim().to_owned());
    let path = named("path").map(|path| SpacePath::parse(&path)).transpose();
    let client = visit.parameters.get("client");
    let known = client.map(|_| known_clients(visit)).transpose()?;
    let callers = known.zip(client).and_then(|(known, client)| known.callers_of(client));
    Ok(AuditFilter {
        client: client.map(str::to_owned),
        callers,
        path: path.map_err(|error| PageError::Refused(error.to_string()))?,
        tool: named("tool").map(canonical),
        refused: visit.text("outcome") == "refused",
    })
}

/// Returns the name of a tool as the journal has it. Most clients show it with an underscore.
fn canonical(name: String) -> String {
    let dotted = name.replacen('_', ".", 1);
    if is_dotted_name(&dotted) { dotted } else { name }
}
