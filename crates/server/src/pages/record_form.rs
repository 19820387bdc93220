//! The part of a page on which the owner decides what a client may see of the records: on the pages
//! of consent, of an approval, of a token and of a grant.
//!
//! Each stream has a tick, the connections that its records are from, its fields and a time, and
//! below them two records as the client would see them. A list adds another stream. Without a
//! script the button of the page that shows what the choices mean adds it.

use std::collections::BTreeSet;

use maud::{Markup, html};
use serde_json::{Map, Value};
use stile_domain::unseen::shown_ends;

use super::frame::SHOW;
use super::room::Room;
use super::times::{Required, time_input};
use crate::sign_in::record_sample::shown_beside;

/// The name of the list that adds a stream.
pub const MORE_FIELD: &str = "more-records";
/// The most characters of a name.
const MAX_NAME: usize = 80;
/// The bytes of the list that adds a stream, and of the records that are shown of one.
const MORE_BYTES: usize = 10_000;
const SAMPLE_BYTES: usize = 5_000;
/// The most fields of a stream, and the most streams to add.
const MAX_FIELDS: usize = 120;
const MAX_MORE: usize = 200;

/// The name of the tick of a stream, whose value is the name of the stream.
pub fn stream_field(index: usize) -> String {
    format!("stream-{index}")
}

/// The name of the tick of a connection of a stream.
pub fn connection_field(index: usize, connection: &str) -> String {
    format!("from-{index}-{connection}")
}

/// The name of the tick of a field of a stream.
pub fn field_field(index: usize, field: &str) -> String {
    format!("field-{index}-{field}")
}

/// The name of the time from which on records of a stream are seen.
pub fn since_field(index: usize) -> String {
    format!("since-{index}")
}

/// The name of the time before which records of a stream are seen.
pub fn until_field(index: usize) -> String {
    format!("until-{index}")
}

/// What a page shows of the choices about records.
pub struct RecordForm {
    /// The streams of which the client may see something.
    pub streams: Vec<StreamForm>,
    /// The streams that can be added.
    pub more: Vec<AddedStream>,
}

/// A stream that can be added.
pub struct AddedStream {
    /// The value in the form.
    pub value: String,
    /// The name of the stream.
    pub stream: String,
    /// The connection that has it.
    pub connection: String,
    /// The number of its records.
    pub records: u64,
}

/// One stream, and what is chosen of it.
pub struct StreamForm {
    /// The number of the stream in the form.
    pub index: usize,
    /// The name of the stream.
    pub name: String,
    /// Whether the client may see something of it.
    pub is_ticked: bool,
    /// Whether what the form says can be read. A time may be malformed.
    pub can_be_read: bool,
    /// The number of its records.
    pub records: u64,
    /// The connections that have it, each with whether it is ticked.
    pub connections: Vec<(String, bool)>,
    /// The fields to choose from; empty if there is no such stream.
    pub fields: Vec<FieldTick>,
    /// The names of the fields that the client would see.
    pub seen: BTreeSet<String>,
    /// How many records are meant by their keys; `None` for all.
    pub keys: Option<usize>,
    /// The field that has the time of a record, if one is declared.
    pub time_field: Option<String>,
    /// The first time, as an input has it; empty for none.
    pub since: String,
    /// The time before which records are seen, as an input has it; empty for none.
    pub until: String,
    /// What the client would see; `None` for nothing.
    pub sentence: Option<Markup>,
    /// The latest records with all fields.
    pub sample: Vec<Map<String, Value>>,
}

/// One field of a stream.
pub struct FieldTick {
    /// The name of the field.
    pub name: String,
    /// The type in words: `a number`.
    pub kind: String,
    /// Whether every record has it, so that it is always seen.
    pub is_required: bool,
    /// Whether the client would see it.
    pub is_ticked: bool,
}

impl RecordForm {
    /// Returns the content, without the form around it, in at most `bytes` and some frame.
    pub fn markup(&self, bytes: usize) -> Markup {
        let mut room = Room::of(bytes);
        let mut more_room = room.part(MORE_BYTES);
        // The records are a part of their streams, so they are counted there.
        let mut samples = Room::of(bytes / 3);
        let streams = room.fit(&self.streams, self.streams.len(), |stream| {
            stream.markup(&mut Room::of(bytes / 3), &mut samples)
        });
        html! {
            div id="streams" data-grows { (streams) }
            @if streams.shown < self.streams.len() {
                p class="warning" {
                    (self.streams.len() - streams.shown)
                    " more streams do not fit on this page, and it would see nothing of them."
                }
            }
            div id="more-streams" data-follows { (self.more(&mut more_room)) }
        }
    }

    fn more(&self, room: &mut Room) -> Markup {
        let options = room.fit(&self.more, MAX_MORE, |more| {
            html! {
                option value=(more.value) {
                    (shown_ends(&more.stream, MAX_NAME)) " of "
                    (shown_ends(&more.connection, MAX_NAME)) ", " (records(more.records))
                }
            }
        });
        let add = if self.streams.is_empty() { "Add records of" } else { "Add records of another" };
        html! {
            @if !self.more.is_empty() {
                label for=(MORE_FIELD) { (add) }
                div class="adding" {
                    select id=(MORE_FIELD) name=(MORE_FIELD) data-waits {
                        option value="" { "choose what they are" }
                        (options)
                    }
                    button class="plain" name="do" value=(SHOW) formnovalidate data-adds { "Add" }
                }
            }
            @if options.shown < self.more.len() {
                p class="muted" {
                    (self.more.len() - options.shown) " more can be granted with "
                    code { "stile grant create" } "."
                }
            }
        }
    }
}

fn records(count: u64) -> String {
    if count == 1 { "1 record".to_owned() } else { format!("{count} records") }
}

impl StreamForm {
    fn markup(&self, room: &mut Room, samples: &mut Room) -> Markup {
        let (index, id) = (self.index, stream_field(self.index));
        let name = shown_ends(&self.name, MAX_NAME);
        if self.fields.is_empty() {
            return html! {
                p class="stream" id={ "stream-of-" (index) } {
                    "Some of " strong { bdi { (name) } }
                    ": there is no such stream here, so it would see nothing of it."
                }
            };
        }
        html! {
            div class="stream" id={ "stream-of-" (index) } {
                label class="choice" for=(id) {
                    input type="checkbox" id=(id) name=(id) value=(self.name)
                        checked[self.is_ticked];
                    span {
                        "see some of " strong { bdi { (name) } }
                        span class="muted" { ", " (self.held()) }
                    }
                }
                @if self.connections.len() > 1 { (self.places(room)) }
                (self.ticks(room))
                (self.times())
                div class="seen" id={ "seen-" (index) } data-follows { (self.seen(samples)) }
            }
        }
    }

    /// Returns how many records there are, and where they are from: `1204 records from gmail`.
    fn held(&self) -> String {
        let mut names = self.connections.iter().map(|(name, _)| shown_ends(name, MAX_NAME));
        let from = match self.connections.len() {
            1 => names.next().unwrap_or_default(),
            several => format!("{several} places"),
        };
        let of_keys = self.keys.map(|keys| format!(", {keys} of them by their keys"));
        format!("{} from {from}{}", records(self.records), of_keys.unwrap_or_default())
    }

    fn places(&self, room: &mut Room) -> Markup {
        let places = room.fit(&self.connections, MAX_FIELDS, |(name, is_ticked)| {
            let id = connection_field(self.index, name);
            html! {
                li {
                    label class="choice" for=(id) {
                        input type="checkbox" id=(id) name=(id) value="on" checked[*is_ticked];
                        span { "from " bdi { (shown_ends(name, MAX_NAME)) } }
                    }
                }
            }
        });
        html! {
            ul class="fields" { (places) }
            (places.and_more(self.connections.len()))
        }
    }

    fn ticks(&self, room: &mut Room) -> Markup {
        let ticks = room.fit(&self.fields, MAX_FIELDS, |field| {
            let id = field_field(self.index, &field.name);
            html! {
                li {
                    label class="choice" for=(id) {
                        @if field.is_required {
                            input type="checkbox" id=(id) checked disabled;
                        } @else {
                            input type="checkbox" id=(id) name=(id) value="on"
                                checked[field.is_ticked];
                        }
                        span {
                            bdi { (shown_ends(&field.name, MAX_NAME)) } " "
                            span class="muted" {
                                (field.kind)
                                @if field.is_required { ", in every record" }
                            }
                        }
                    }
                }
            }
        });
        let left = self.fields.len() - ticks.shown;
        html! {
            ul class="fields" { (ticks) }
            @if left > 0 {
                p class="muted" {
                    (left) " more fields can be granted with " code { "stile grant create" } "."
                }
            }
        }
    }

    fn times(&self) -> Markup {
        let [since, until] = [since_field(self.index), until_field(self.index)];
        html! {
            @match &self.time_field {
                Some(field) => {
                    div class="narrower" {
                        div { (time_input(&since, "Only since, optional", &self.since, Required::No)) }
                        div { (time_input(&until, "Only before, optional", &self.until, Required::No)) }
                    }
                    p class="muted narrower" { "By the field " (shown_ends(field, MAX_NAME)) "." }
                }
                None => p class="muted narrower" {
                    "No field of it is declared to have the time, so a time cannot be chosen."
                },
            }
        }
    }

    /// Shows what the client would see, and beside it what it would not.
    fn seen(&self, samples: &mut Room) -> Markup {
        let is_seen = |name: &str| self.seen.contains(name);
        let sample = samples.fit(&self.sample, self.sample.len(), |record| {
            let record: Map<String, Value> = record.clone();
            shown_beside(&[record], is_seen, SAMPLE_BYTES)
        });
        html! {
            @match &self.sentence {
                Some(sentence) => p { strong { "It " (sentence) "." } },
                None if !self.can_be_read => p class="warning" {
                    "The time cannot be read, so it would see nothing of this."
                },
                None => p class="muted" { "It would see nothing of this." },
            }
            @if self.sentence.is_some() {
                @if self.sample.is_empty() && self.keys.is_none() {
                    p class="muted" { "None of the latest records is among them." }
                }
                (sample)
            }
        }
    }
}
