//! What the page that makes a grant shows: the streams, or of one of them its fields, the times,
//! and two records as the client will see them.

use maud::{Markup, html};
use serde_json::{Map, Value};
use stile_domain::percent::encode_component;
use stile_domain::unseen::{shown, shown_start};
use stile_records::administration::DeclaredStream;

use super::consent_page::{DURATIONS, PROPOSED_DURATION};
use super::frame::{GRANT_PATH, IMPORT_PATH, csrf_field};
use super::times::{Required, time_input};
use crate::sign_in::record_sample::shown_beside;

/// The name of the field of the form that ticks a field of the stream, before its number.
pub(super) const FIELD: &str = "field-";
/// The word of the form that only shows what the choices mean.
pub(super) const SHOW: &str = "show";
/// The most streams to choose from, and the most characters of a field's name.
const MAX_STREAMS: usize = 200;
const MAX_NAME: usize = 80;
/// The most fields of a stream that the page offers. With their ticks they fit into 60 KB.
const MAX_FIELDS: usize = 120;

/// The streams of which something can be granted.
pub(super) struct StreamsView<'a> {
    pub(super) streams: &'a [DeclaredStream],
}

impl StreamsView<'_> {
    /// Returns the content of the page.
    pub(super) fn markup(&self) -> Markup {
        html! {
            h1 { "Make a grant" }
            @if self.streams.is_empty() {
                p class="empty" {
                    "There are no records to grant. " a href=(IMPORT_PATH) { "Import a file" }
                }
            } @else {
                p { "Of which records shall a client see something?" }
            }
            ul class="rows" {
                @for stream in self.streams.iter().take(MAX_STREAMS) {
                    @let (connection, name) = (stream.connection.as_str(), stream.stream.as_str());
                    li {
                        a href={
                            (GRANT_PATH) "?connection=" (encode_component(connection)) "&stream="
                            (encode_component(name))
                        } { (name) " of " (connection) }
                        span class="muted" { (stream.records) " records" }
                    }
                }
            }
        }
    }
}

/// One field of a stream.
pub(super) struct FieldRow {
    pub(super) name: String,
    /// The type in words: `a number`.
    pub(super) kind: String,
    /// Whether every record has it, so that it is always seen.
    pub(super) is_required: bool,
    pub(super) is_seen: bool,
}

/// What can be granted of one stream, and what is chosen.
pub(super) struct GrantView {
    pub(super) csrf_token: String,
    pub(super) connection: String,
    pub(super) stream: String,
    pub(super) records: u64,
    pub(super) fields: Vec<FieldRow>,
    /// The field that has the time of a record, if one is declared.
    pub(super) time_field: Option<String>,
    pub(super) since: String,
    pub(super) until: String,
    pub(super) client: String,
    pub(super) purpose: String,
    /// The word of the duration; empty if none was chosen.
    pub(super) duration: String,
    /// What the client may see, in a sentence.
    pub(super) sentence: String,
    /// The latest records with all fields.
    pub(super) sample: Vec<Map<String, Value>>,
}

impl GrantView {
    /// Returns the content of the page.
    pub(super) fn markup(&self) -> Markup {
        html! {
            h1 { "Grant some of " (self.stream) }
            p class="muted" {
                (self.records) " records of " (self.connection) ". "
                a href=(GRANT_PATH) { "Choose another stream" }
            }
            form method="post" action=(GRANT_PATH) data-follow {
                (csrf_field(&self.csrf_token))
                input type="hidden" name="connection" value=(self.connection);
                input type="hidden" name="stream" value=(self.stream);
                (self.ticks())
                (self.times())
                section id="seen" aria-labelledby="what-it-sees" data-follows {
                    (self.seen())
                }
                (self.whom())
                div class="actions" {
                    button name="do" value="make" { "Make the grant and its token" }
                    button class="plain" name="do" value=(SHOW) formnovalidate {
                        "Show what it will see"
                    }
                }
            }
        }
    }

    fn ticks(&self) -> Markup {
        html! {
            section class="card" aria-labelledby="fields" {
                h2 id="fields" { "Which fields" }
                ul class="fields" {
                    @for (number, field) in self.fields.iter().take(MAX_FIELDS).enumerate() {
                        @let id = format!("{FIELD}{number}");
                        li {
                            label class="choice" for=(id) {
                                @if field.is_required {
                                    input type="checkbox" id=(id) checked disabled;
                                } @else {
                                    input type="checkbox" id=(id) name=(id) value=(field.name)
                                        checked[field.is_seen];
                                }
                                span {
                                    (shown_start(&field.name, MAX_NAME)) " "
                                    span class="muted" {
                                        (field.kind)
                                        @if field.is_required { ", in every record" }
                                    }
                                }
                            }
                        }
                    }
                }
                @if self.fields.len() > MAX_FIELDS {
                    p class="muted" {
                        (self.fields.len() - MAX_FIELDS) " more fields can be granted with "
                        code { "stile grant create" } "."
                    }
                }
            }
        }
    }

    fn times(&self) -> Markup {
        html! {
            section class="card" aria-labelledby="times" {
                h2 id="times" { "Which time" }
                @match &self.time_field {
                    Some(field) => {
                        p class="muted" { "By the field " (shown_start(field, MAX_NAME)) "." }
                        div class="filter" {
                            div { (time_input("since", "Since", &self.since, Required::No)) }
                            div { (time_input("until", "Before", &self.until, Required::No)) }
                        }
                    }
                    None => p class="muted" {
                        "No field of this stream is declared to have the time, so records of all \
                         times are granted."
                    },
                }
            }
        }
    }

    /// Shows what the client will see, and beside it what it will not.
    fn seen(&self) -> Markup {
        let is_seen =
            |name: &str| self.fields.iter().any(|field| field.name == name && field.is_seen);
        html! {
            h2 id="what-it-sees" { "What it will see" }
            p { (shown(&self.sentence)) "." }
            @if self.sample.is_empty() {
                p class="muted" { "None of the latest records is among them." }
            }
            (shown_beside(&self.sample, is_seen))
        }
    }

    fn whom(&self) -> Markup {
        let duration = match self.duration.as_str() {
            "" => PROPOSED_DURATION,
            chosen => chosen,
        };
        html! {
            section class="card" aria-labelledby="whom" {
                h2 id="whom" { "For whom, and how long" }
                div class="filter" {
                    div {
                        label for="client" { "Name of the client" }
                        input id="client" name="client" required maxlength="200" autocomplete="off"
                            value=(self.client);
                    }
                    div {
                        label for="purpose" { "What for (optional)" }
                        input id="purpose" name="purpose" maxlength="300" autocomplete="off"
                            value=(self.purpose);
                    }
                    div {
                        label for="duration" { "For" }
                        select id="duration" name="duration" {
                            @for (value, words, _) in DURATIONS {
                                option value=(value) selected[value == duration] { (words) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_seen_stands_apart_from_what_is_not() {
        let field = |name: &str, is_seen| FieldRow {
            name: name.to_owned(),
            kind: "text".to_owned(),
            is_required: false,
            is_seen,
        };
        let record = json!({ "amount": 4.5, "<b>iban": "<script>" });
        let view = GrantView {
            csrf_token: "t".to_owned(),
            connection: "bank".to_owned(),
            stream: "rows".to_owned(),
            records: 1,
            fields: vec![field("amount", true), field("<b>iban", false)],
            time_field: None,
            since: String::new(),
            until: String::new(),
            client: String::new(),
            purpose: String::new(),
            duration: String::new(),
            sentence: "May see amount of rows from bank".to_owned(),
            sample: vec![record.as_object().unwrap().clone()],
        };
        let page = view.markup().into_string();
        let (seen, not_seen) = page.split_once("It will not see").unwrap();
        let (_, seen) = seen.split_once("It will see").unwrap();
        assert!(seen.contains("4.5") && !seen.contains("iban"), "{seen}");
        assert!(not_seen.contains("&lt;script&gt;") && !page.contains("<b>"), "{page}");
    }
}
