//! The part of a page on which the owner decides what a client may see of the records: on the pages
//! of consent, of an approval, of a token and of a grant.
//!
//! Each stream has a tick, the connections that its records are from, its fields and a time, and
//! below them two records as the client would see them. A list adds another stream. Without a
//! script the button of the page that shows what the choices mean adds it.
//!
//! A page has a size. A stream that it has no room to show whole is closed: its tick and what the
//! client would see, and a button that opens it. Of many fields a part is shown, and of many
//! streams too, and buttons lead to the others. What is not shown any more is carried by the form
//! and stays as it is. What a client asks for and no page has shown yet is not granted.

use std::collections::BTreeSet;
use std::ops::Range;

use maud::{Markup, html};
use serde_json::{Map, Value};
use stile_domain::unseen::shown_ends;

use super::frame::SHOW;
use super::room::Room;
use super::times::{Required, day_input, time_input};
use crate::sign_in::carried_ticks::CarriedTicks;
use crate::sign_in::parameters::FormParameters;
use crate::sign_in::record_sample::shown_beside;

/// The name of the digest of the streams that a form begins with.
pub const BEGINNING_FIELD: &str = "records-begin";
/// The name of the list that adds a stream.
pub const MORE_FIELD: &str = "more-records";
/// How the name of the button begins that opens a stream or shows others of its fields. Its value
/// is the number of the first field.
const OPEN_FIELD: &str = "open-fields-";
/// How the name of the button begins that shows others of the connections of a stream. Its value is
/// the number of the first connection.
const OPEN_PLACES: &str = "open-places-";
/// The name of the numbers of the first stream that the page shows and of the one behind its last,
/// as in `12.20`, and the name of the buttons that show others.
const AT_FIELD: &str = "streams-at";
const TURN_FIELD: &str = "open-streams";
/// The name of the number of the first stream of the list that adds one, and of the buttons that
/// show others there.
const MORE_AT_FIELD: &str = "more-at";
const MORE_TURN_FIELD: &str = "open-more";
/// The most characters of a name.
const MAX_NAME: usize = 80;
/// The bytes of the list that adds a stream, and of the records that are shown of one.
const MORE_BYTES: usize = 10_000;
const SAMPLE_BYTES: usize = 5_000;
/// The least bytes of a stream that is open, and of the buttons that lead to its other fields.
const MIN_OPEN_BYTES: usize = 4_000;
const TURN_BYTES: usize = 1_200;
/// What closed streams leave of a page that has no room for all of them, to open one of them.
const OPENED_BYTES: usize = 8_000;
/// The least fields of a stream that is open, if it has as many.
const MIN_FIELDS: usize = 4;
/// The most fields of a stream that one page shows, and the most streams to add.
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

/// The name of what the form carries of the connections of a stream.
pub fn connections_field(index: usize) -> String {
    format!("connections-{index}")
}

/// The name of the tick of a field of a stream.
pub fn field_field(index: usize, field: &str) -> String {
    format!("field-{index}-{field}")
}

/// The name of what the form carries of the fields of a stream.
pub fn fields_field(index: usize) -> String {
    format!("fields-{index}")
}

/// The name of the time from which on records of a stream are seen.
pub fn since_field(index: usize) -> String {
    format!("since-{index}")
}

/// The name of the time before which records of a stream are seen.
pub fn until_field(index: usize) -> String {
    format!("until-{index}")
}

/// Returns the stream that a button of a form opens, and the number of the first field to show;
/// `None` if the form was sent by another button.
pub fn opened_fields(form: &FormParameters) -> Option<(usize, usize)> {
    let (index, first) = form.named_from(OPEN_FIELD).next()?;
    index.parse().ok().zip(first.parse().ok())
}

/// Returns the stream of which a button shows other connections, and the number of the first one to
/// show; `None` if the form was sent by another button.
pub fn opened_places(form: &FormParameters) -> Option<(usize, usize)> {
    let (index, first) = form.named_from(OPEN_PLACES).next()?;
    index.parse().ok().zip(first.parse().ok())
}

/// Which streams a page shows, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamTurn {
    /// Those that the form shows, if it says so.
    shown: Option<Range<usize>>,
    /// The first one that a button asks for.
    pub wanted: Option<usize>,
}

impl StreamTurn {
    /// Reads what a form says.
    pub fn of(form: &FormParameters) -> Self {
        let shown = form.get(AT_FIELD).and_then(|text| text.split_once('.'));
        let shown = shown.and_then(|(start, end)| Some(start.parse().ok()?..end.parse().ok()?));
        Self { shown, wanted: form.get(TURN_FIELD).and_then(|number| number.parse().ok()) }
    }
}

/// Returns the number of the first stream of the list that adds one, and whether a button asks for
/// others.
pub fn turned_list(form: &FormParameters) -> (usize, bool) {
    let number = |name| form.get(name).and_then(|number| number.parse().ok());
    let turned = number(MORE_TURN_FIELD);
    (turned.or_else(|| number(MORE_AT_FIELD)).unwrap_or_default(), turned.is_some())
}

/// What of a form cannot be read. It must not widen what is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableChoice {
    /// A time is malformed.
    #[error("A time of the records cannot be read, so nothing was granted. Choose it again.")]
    Time,
    /// A time ends at or before its beginning, so no record has it.
    #[error(
        "A time of the records ends at or before it begins, so nothing was granted. Choose a later \
         end."
    )]
    EndsFirst,
    /// The page had other fields than there are now.
    #[error("The fields of the records changed meanwhile, so nothing was granted. Choose again.")]
    OtherFields,
    /// The page began with other streams, or with others of their fields.
    #[error(
        "What the client sees of the records changed since the page was shown, on another page or \
         by a command, so nothing was granted. Open the page again and choose."
    )]
    OtherBeginning,
}

/// What a page shows of the choices about records.
pub struct RecordForm {
    /// What tells the streams that the form begins with, as they stand, from others.
    pub beginning: String,
    /// The streams of which the client may see something.
    pub streams: Vec<StreamForm>,
    /// The streams that can be added.
    pub more: Vec<AddedStream>,
    /// Whether streams could be added, but the form has as many as one can have.
    pub is_full: bool,
    /// Whether the form that was sent began with something else, and what it said is not shown.
    pub is_other: bool,
    /// Which streams to show.
    pub turn: StreamTurn,
    /// The number of the first stream of those that can be added to show.
    pub more_start: usize,
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

/// How a stream stands in the form that was sent. What comes first is opened first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Openness {
    /// A button asks for its fields.
    Wanted,
    /// No form has had it yet.
    New,
    /// Some of its fields were shown.
    Open,
    /// None of its fields was shown.
    Closed,
}

/// What a form does about a stream that its page does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unshown {
    /// Carries what was chosen of it.
    Carried,
    /// Says nothing of it, so the client sees of it what it sees now.
    Kept,
    /// Says nothing of it, so the client would see nothing of it: no page has shown it yet.
    Left,
}

/// One stream, and what is chosen of it.
pub struct StreamForm {
    /// The number of the stream in the form.
    pub index: usize,
    /// What the form does if the page does not show the stream.
    pub unshown: Unshown,
    /// Whether the stream has to be on the page: a button asks for it.
    pub is_sought: bool,
    /// The name of the stream.
    pub name: String,
    /// Whether the client may see something of it.
    pub is_ticked: bool,
    /// Why what the form says cannot be read; `None` if it can.
    pub unreadable: Option<UnreadableChoice>,
    /// The number of its records.
    pub records: u64,
    /// The connections that have it, each with whether it is ticked.
    pub connections: Vec<(String, bool)>,
    /// Whether its fields are shown.
    pub openness: Openness,
    /// The number of the first field to show.
    pub start: usize,
    /// The number of the first connection to show, and whether a button asks for it.
    pub places_from: (usize, bool),
    /// The fields to choose from; empty if there is no such stream.
    pub fields: Vec<FieldTick>,
    /// The names of the fields that the client would see.
    pub seen: BTreeSet<String>,
    /// How many records are meant by their keys; `None` for all.
    pub keys: Option<usize>,
    /// The field that has the time of a record, if one is declared.
    pub time_field: Option<String>,
    /// Whether that field has days.
    pub is_days: bool,
    /// The first time, as an input has it; empty for none.
    pub since: String,
    /// The time before which records are seen, as an input has it; empty for none.
    pub until: String,
    /// What the client would see; `None` for nothing.
    pub sentence: Option<Markup>,
    /// The same with fewer names.
    pub brief: Option<Markup>,
    /// The latest records with all fields.
    pub sample: Vec<Map<String, Value>>,
}

/// One field of a stream.
#[derive(Clone, Debug)]
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
    /// Returns the content, without the form around it, in at most `bytes` and some frame. Every
    /// stream is closed first, as many as there is room for, and then as many of them are opened.
    pub fn markup(&self, bytes: usize) -> Markup {
        let mut room = Room::of(bytes);
        let more = room.take(self.more(&mut Room::of(MORE_BYTES.min(bytes / 4))));
        let backward = room.take(self.backward());
        let closed: Vec<Markup> = self.streams.iter().map(StreamForm::closed).collect();
        let carried: Vec<Markup> = self.streams.iter().map(StreamForm::carried_alone).collect();
        let lengths = closed.iter().zip(&carried).map(|(closed, it)| (closed.0.len(), it.0.len()));
        let sought = self.sought();
        let window = Window::of(lengths.collect(), room.left(), sought.is_some());
        let shown = self.kept(&window, room.left()).filter(|_| sought.is_none());
        let shown = shown.unwrap_or_else(|| window.shown(self.position(self.start()), sought));
        let mut streams = closed.get(shown.clone()).map(<[Markup]>::to_vec).unwrap_or_default();
        let mut left = room.left().saturating_sub(window.length(&shown));
        let here = self.streams.get(shown.clone()).unwrap_or_default();
        let mut order: Vec<usize> = (0..here.len()).collect();
        order.sort_by_key(|at| here.get(*at).map(|it| (!it.is_sought, it.openness)));
        for (turn, at) in order.iter().enumerate() {
            let Some((stream, row)) = here.get(*at).zip(streams.get_mut(*at)) else { continue };
            // What a button asks for gets half of the room.
            let others = order.len() - turn;
            let parts = if stream.is_sought { others.min(2) } else { others };
            let share = (left / parts).max(MIN_OPEN_BYTES).min(left);
            let closed = row.0.len();
            let Some(open) = stream.open(share + closed) else { continue };
            let Some(rest) = (left + closed).checked_sub(open.0.len()) else { continue };
            left = rest;
            *row = open;
        }
        let unshown = carried.iter().enumerate().filter(|(at, _)| !shown.contains(at));
        html! {
            // Where another beginning comes, a script shows all of this anew.
            div id="records-choices" data-renews=(self.beginning) {
                input type="hidden" name=(BEGINNING_FIELD) value=(self.beginning);
                @if self.is_other {
                    p class="warning" role="alert" {
                        "What it sees of your records changed since you opened this page, on \
                         another page or by a command. Below is what it sees now: choose again."
                    }
                }
                div id="backward-times" data-follows { (backward) }
                div id="streams" data-grows {
                    @for stream in &streams { (stream) }
                    @for (_, stream) in unshown { (stream) }
                }
                div id="stream-turns" data-follows { (self.turns(&window, &shown)) }
                div id="more-streams" data-follows { (more) }
            }
        }
    }

    /// Names the streams with a time that ends at or before it begins, wherever they are.
    fn backward(&self) -> Markup {
        let is_backward =
            |it: &&StreamForm| it.is_ticked && it.unreadable == Some(UnreadableChoice::EndsFirst);
        let names = self.streams.iter().filter(is_backward);
        let names: Vec<_> = names.map(|it| shown_ends(&it.name, MAX_NAME)).collect();
        html! {
            @if !names.is_empty() {
                p class="warning" role="alert" {
                    "Nothing is decided yet: “Only before” is not after “Only since” in "
                    @for (at, name) in names.iter().enumerate() {
                        @if at > 0 { ", " }
                        strong { bdi { (name) } }
                    }
                    ". Choose a later end, or leave one of them empty."
                }
            }
        }
    }

    /// Returns the number of the first stream to show.
    fn start(&self) -> usize {
        let shown = self.turn.shown.as_ref().map(|shown| shown.start);
        self.turn.wanted.or(shown).unwrap_or_default()
    }

    /// Returns the part that the form shows, if no button asks for another one and it has room
    /// still. What was chosen changes the length of a row, and no row shall leave for that.
    fn kept(&self, window: &Window, bytes: usize) -> Option<Range<usize>> {
        let shown = self.turn.shown.as_ref().filter(|_| self.turn.wanted.is_none())?;
        let before =
            |number: usize| self.streams.iter().take_while(|stream| stream.index < number).count();
        let part = before(shown.start)..before(shown.end);
        (!part.is_empty() && window.length(&part) <= bytes).then_some(part)
    }

    /// Returns the place in the list of the first stream with a number or a later one.
    fn position(&self, number: usize) -> usize {
        let first = self.streams.iter().position(|stream| stream.index >= number);
        first.unwrap_or_default()
    }

    /// Returns the place of the stream that a button asks for.
    fn sought(&self) -> Option<usize> {
        self.streams.iter().position(|stream| stream.is_sought)
    }

    /// Says which streams are shown, if not all, what becomes of the others, and leads to them.
    fn turns(&self, window: &Window, shown: &Range<usize>) -> Markup {
        let all = self.streams.len();
        let number = |at: usize| self.streams.get(at).map_or(0, |stream| stream.index);
        let others = self.streams.iter().enumerate().filter(|(at, _)| !shown.contains(at));
        let (mut ticked, mut kept, mut left) = (0, 0, 0);
        for (_, stream) in others {
            match stream.unshown {
                Unshown::Carried => ticked += usize::from(stream.is_ticked),
                Unshown::Kept => kept += 1,
                Unshown::Left => left += usize::from(!stream.fields.is_empty()),
            }
        }
        html! {
            input type="hidden" name=(AT_FIELD)
                value={ (number(shown.start)) "." (number(shown.end.saturating_sub(1)) + 1) };
            @if shown.len() < all {
                p class="muted" {
                    "Streams " (shown.start + 1) " to " (shown.end) " of " (all) "."
                    @match ticked {
                        0 => {}
                        1 => { " Of the others, one is ticked, and stays as you chose." }
                        ticked => {
                            " Of the others, " (ticked) " are ticked, and stay as you chose."
                        }
                    }
                    @match kept {
                        0 => {}
                        1 => { " It sees of one other what it sees now." }
                        kept => { " It sees of " (kept) " others what it sees now." }
                    }
                }
                @if left > 0 {
                    p class="warning" {
                        @if left == 1 { "One stream was not shown yet, and it would see nothing of it." }
                        @else {
                            (left) " streams were not shown yet, and it would see nothing of them."
                        }
                    }
                }
                p class="links" {
                    @if shown.start > 0 {
                        (self.turn(number(window.before(shown.start)), "The streams before"))
                    }
                    @if shown.end < all { (self.turn(number(shown.end), "The next streams")) }
                }
            }
        }
    }

    /// Returns a button that shows the streams from a number on.
    fn turn(&self, number: usize, words: &str) -> Markup {
        html! {
            button class="plain" name=(TURN_FIELD) value=(number) formnovalidate { (words) }
        }
    }

    fn more(&self, room: &mut Room) -> Markup {
        let all = self.more.len();
        let first = if self.more_start < all { self.more_start } else { 0 };
        let options = room.fit(self.more.iter().skip(first), MAX_MORE, |more| {
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
            @if self.is_full {
                p class="muted" {
                    "One page has at most " (self.streams.len()) " streams. Others need a grant of \
                     their own."
                }
            }
            @if options.shown < all {
                input type="hidden" name=(MORE_AT_FIELD) value=(first);
                p class="muted" {
                    "The list has " (first + 1) " to " (first + options.shown) " of " (all) "."
                }
                p class="links" {
                    @if first > 0 { (list_turn(0, "The beginning of the list")) }
                    @if first + options.shown < all {
                        (list_turn(first + options.shown, "The next of the list"))
                    }
                }
            }
        }
    }
}

/// Returns a button that shows others of the list that adds a stream.
fn list_turn(first: usize, words: &str) -> Markup {
    html! {
        button class="plain" name=(MORE_TURN_FIELD) value=(first) formnovalidate { (words) }
    }
}

fn records(count: u64) -> String {
    if count == 1 { "1 record".to_owned() } else { format!("{count} records") }
}

/// How many streams a page has room for, of a list that it shows a part of.
struct Window {
    /// The bytes of each stream where the page shows it closed, and where the form carries it.
    lengths: Vec<(usize, usize)>,
    bytes: usize,
}

impl Window {
    /// Where one is to be opened, or where there is no room for all, some of it is left for that.
    fn of(lengths: Vec<(usize, usize)>, bytes: usize, opens_one: bool) -> Self {
        let whole = Self { lengths, bytes };
        let all = whole.length(&(0..whole.lengths.len()));
        let fills = all <= bytes && !opens_one;
        Self { bytes: if fills { bytes } else { bytes - OPENED_BYTES.min(bytes / 2) }, ..whole }
    }

    /// Returns the bytes of the list where it shows this part.
    fn length(&self, shown: &Range<usize>) -> usize {
        let of = |(at, (closed, carried)): (usize, &(usize, usize))| match shown.contains(&at) {
            true => *closed,
            false => *carried,
        };
        self.lengths.iter().enumerate().map(of).sum()
    }

    /// Returns the part from `start` on that has room, and at least one stream; a part with the
    /// stream that is sought, if there is one.
    fn shown(&self, start: usize, sought: Option<usize>) -> Range<usize> {
        let shown = self.from(start);
        match sought {
            Some(at) if at < shown.start => self.from(at),
            Some(at) if at >= shown.end => self.before(at + 1)..at + 1,
            _ => shown,
        }
    }

    fn from(&self, start: usize) -> Range<usize> {
        let all = self.lengths.len();
        let ends = (start + 1..=all).take_while(|end| self.length(&(start..*end)) <= self.bytes);
        start..ends.last().unwrap_or((start + 1).min(all))
    }

    /// Returns where the part begins that has room and ends before `end`.
    fn before(&self, end: usize) -> usize {
        let starts = (0..end).rev().take_while(|start| self.length(&(*start..end)) <= self.bytes);
        starts.last().unwrap_or(end.saturating_sub(1))
    }
}

impl StreamForm {
    /// Carries what is chosen of a stream that the page does not show, if something was.
    fn carried_alone(&self) -> Markup {
        html! {
            @if self.unshown == Unshown::Carried && !self.fields.is_empty() {
                div id={ "carried-" (self.index) } hidden {
                    @if self.is_ticked {
                        input type="hidden" name=(stream_field(self.index)) value=(self.name);
                    }
                    (self.carried(0..0, 0..0))
                    (self.carried_times())
                }
            }
        }
    }

    fn carried_times(&self) -> Markup {
        let bounds =
            [(since_field(self.index), &self.since), (until_field(self.index), &self.until)];
        html! {
            @for (name, value) in bounds {
                @if !value.is_empty() { input type="hidden" name=(name) value=(value); }
            }
        }
    }

    /// Shows the tick of the stream and what the client would see. Everything else is carried.
    fn closed(&self) -> Markup {
        if self.fields.is_empty() {
            return self.absent();
        }
        let name = shown_ends(&self.name, MAX_NAME);
        html! {
            div class="stream" id={ "stream-of-" (self.index) } role="group" aria-label=(name) {
                (self.tick())
                (self.carried(0..0, 0..0))
                (self.carried_times())
                div class="seen" id={ "seen-" (self.index) } data-follows {
                    (self.said(self.brief.as_ref()))
                }
                p class="links" { (self.turn(0, "Choose its fields")) }
            }
        }
    }

    /// Shows the stream with a part of its fields in at most `bytes`; `None` if they have no room.
    fn open(&self, bytes: usize) -> Option<Markup> {
        if self.fields.is_empty() {
            return None;
        }
        let turns = if self.connections.len() > 1 { 2 * TURN_BYTES } else { TURN_BYTES };
        let mut room = Room::of(bytes.saturating_sub(turns));
        let mut samples = Room::of(bytes / 3);
        let tick = room.take(self.tick());
        let times = room.take(self.times());
        let seen = room.take(self.seen(&mut samples));
        // The digits of what is carried, with the frame around them.
        let carried = 400 + self.fields.len() / 4 + self.connections.len() / 4;
        let mut room = room.part(room.left().saturating_sub(carried));
        // A button that asks for connections shows more of them.
        let (_, is_asked) = self.places_from;
        let place_room = room.left() / if is_asked { 2 } else { 4 };
        let mut place_room = room.part(place_room);
        let (places, shown_places) = self.places(&mut place_room);
        let (ticks, shown) = self.ticks(&mut room);
        let least = MIN_FIELDS.min(self.fields.len() - self.start);
        (shown.len() >= least).then(|| {
            html! {
                div class="stream" id={ "stream-of-" (self.index) } role="group"
                    aria-label=(shown_ends(&self.name, MAX_NAME))
                {
                    (tick)
                    (self.carried(shown.clone(), shown_places))
                    (places)
                    (ticks)
                    (self.turns(&shown))
                    (times)
                    div class="seen" id={ "seen-" (self.index) } data-follows { (seen) }
                }
            }
        })
    }

    fn absent(&self) -> Markup {
        html! {
            p class="stream" id={ "stream-of-" (self.index) } {
                "Some of " strong { bdi { (shown_ends(&self.name, MAX_NAME)) } }
                ": there is no such stream here, so it would see nothing of it."
            }
        }
    }

    fn tick(&self) -> Markup {
        let id = stream_field(self.index);
        html! {
            label class="choice" for=(id) {
                input type="checkbox" id=(id) name=(id) value=(self.name) checked[self.is_ticked];
                span {
                    "see some of " strong { bdi { (shown_ends(&self.name, MAX_NAME)) } }
                    span class="muted" { ", " (self.held()) }
                }
            }
        }
    }

    /// Carries how the fields and the connections stand, and which of them are shown.
    fn carried(&self, shown: Range<usize>, places: Range<usize>) -> Markup {
        let fields: Vec<&str> = self.fields.iter().map(|field| field.name.as_str()).collect();
        let is_ticked = |at: usize| self.fields.get(at).is_some_and(|field| field.is_ticked);
        let connections: Vec<&str> = self.connections.iter().map(|(name, _)| &**name).collect();
        let is_from = |at: usize| self.connections.get(at).is_some_and(|(_, is_from)| *is_from);
        html! {
            input type="hidden" name=(fields_field(self.index))
                value=(CarriedTicks::text(&fields, shown, is_ticked));
            @if connections.len() > 1 {
                input type="hidden" name=(connections_field(self.index))
                    value=(CarriedTicks::text(&connections, places, is_from));
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

    /// Shows the connections, if there are several, from the first one that is wanted on, and
    /// returns the numbers of those that have room.
    fn places(&self, room: &mut Room) -> (Markup, Range<usize>) {
        let all = self.connections.len();
        if all < 2 {
            return (html! {}, 0..0);
        }
        let (start, is_asked) = self.places_from;
        let from = self.connections.iter().enumerate().skip(start);
        let places = room.fit(from, MAX_FIELDS, |(at, (name, is_ticked))| {
            html! {
                li {
                    label class="choice" {
                        input type="checkbox" name=(connection_field(self.index, name)) value="on"
                            checked[*is_ticked] autofocus[is_asked && at == start];
                        span { "from " bdi { (shown_ends(name, MAX_NAME)) } }
                    }
                }
            }
        });
        let end = start + places.shown;
        let markup = html! {
            ul class="fields" { (places) }
            @if places.shown < all {
                p class="muted" {
                    @match all - places.shown {
                        1 => { "1 more place has no room here, and stays as it is." }
                        others => { (others) " more places have no room here, and stay as they are." }
                    }
                }
                p class="links" {
                    @if start > 0 {
                        (self.place_turn(start.saturating_sub(places.shown), "The places before"))
                    }
                    @if end < all { (self.place_turn(end, "The next places")) }
                }
            }
        };
        (markup, start..end)
    }

    /// Shows the fields from the first one that is wanted on, and returns the numbers of those that
    /// have room.
    fn ticks(&self, room: &mut Room) -> (Markup, Range<usize>) {
        let fields = || self.fields.iter().enumerate().skip(self.start);
        // After a button was pressed, the focus is where its fields begin.
        let is_wanted = self.openness == Openness::Wanted && !self.places_from.1;
        let focused = fields().find(|(_, field)| is_wanted && !field.is_required);
        let focused = focused.map(|(at, _)| at);
        let ticks = room.fit(fields(), MAX_FIELDS, |(at, field)| {
            html! {
                li {
                    label class="choice" {
                        @if field.is_required {
                            input type="checkbox" checked disabled;
                        } @else {
                            input type="checkbox" name=(field_field(self.index, &field.name))
                                value="on" checked[field.is_ticked]
                                autofocus[focused == Some(at)];
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
        let shown = self.start..self.start + ticks.shown;
        (html! { ul class="fields" { (ticks) } }, shown)
    }

    /// Says which fields are shown, if not all, and leads to the others.
    fn turns(&self, shown: &Range<usize>) -> Markup {
        let all = self.fields.len();
        let is_hidden = |(at, field): &(usize, &FieldTick)| !shown.contains(at) && field.is_ticked;
        let hidden = self.fields.iter().enumerate().filter(is_hidden).count();
        html! {
            @if shown.len() < all {
                p class="muted" {
                    "Fields " (shown.start + 1) " to " (shown.end) " of " (all) "."
                    @match hidden {
                        0 => {}
                        1 => { " One other is ticked, and stays as it is." }
                        hidden => { " " (hidden) " others are ticked, and stay as they are." }
                    }
                }
                p class="links" {
                    @if shown.start > 0 {
                        (self.turn(shown.start.saturating_sub(shown.len()), "The fields before"))
                    }
                    @if shown.end < all { (self.turn(shown.end, "The next fields")) }
                }
            }
        }
    }

    /// Returns a button that shows the fields from one on. Each stream has such buttons, so they
    /// name it to those who hear them one after the other.
    fn turn(&self, first: usize, words: &str) -> Markup {
        self.button(OPEN_FIELD, first, words)
    }

    /// Returns a button that shows the connections from one on.
    fn place_turn(&self, first: usize, words: &str) -> Markup {
        self.button(OPEN_PLACES, first, words)
    }

    fn button(&self, opens: &str, first: usize, words: &str) -> Markup {
        html! {
            button class="plain" name={ (opens) (self.index) } value=(first) formnovalidate {
                (words) span class="unseen" { ": " (shown_ends(&self.name, MAX_NAME)) }
            }
        }
    }

    fn times(&self) -> Markup {
        let [since, until] = [since_field(self.index), until_field(self.index)];
        let input = |name: &str, label: &str, value: &str| match self.is_days {
            true => day_input(name, label, value),
            false => time_input(name, label, value, Required::No),
        };
        html! {
            @match &self.time_field {
                Some(field) => {
                    div class="narrower" {
                        div { (input(&since, "Only since, optional", &self.since)) }
                        div { (input(&until, "Only before, optional", &self.until)) }
                    }
                    p class="muted narrower" { "By the field " (shown_ends(field, MAX_NAME)) "." }
                }
                None => p class="muted narrower" {
                    "No field of it is declared to have the time, so a time cannot be chosen."
                },
            }
        }
    }

    /// Says what the client would see.
    fn said(&self, sentence: Option<&Markup>) -> Markup {
        html! {
            @match (sentence, self.unreadable) {
                (Some(sentence), _) => p { strong { "It " (sentence) "." } },
                (None, Some(UnreadableChoice::Time)) => p class="warning" {
                    "The time cannot be read, so it would see nothing of this."
                },
                (None, Some(UnreadableChoice::EndsFirst)) => p class="warning" {
                    "The time ends at or before it begins, so it would see nothing of this. Choose a \
                     later end."
                },
                (None, Some(_)) => p class="warning" {
                    "Its fields changed meanwhile, so it would see nothing of this. Choose again."
                },
                (None, None) => p class="muted" { "It would see nothing of this." },
            }
        }
    }

    /// Shows what the client would see, and beside it what it would not.
    fn seen(&self, samples: &mut Room) -> Markup {
        let is_seen = |name: &str| self.seen.contains(name);
        let bytes = SAMPLE_BYTES.min(samples.left() / 2);
        let sample = samples.fit(&self.sample, self.sample.len(), |record| {
            let record: Map<String, Value> = record.clone();
            shown_beside(&[record], is_seen, bytes)
        });
        html! {
            (self.said(self.sentence.as_ref()))
            @if self.sentence.is_some() {
                @if self.sample.is_empty() && self.keys.is_none() {
                    p class="muted" { "None of the latest records is among them." }
                }
                (sample)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_list_have_room_and_lead_from_its_first_stream_to_its_last_and_back() {
        for count in 1..40 {
            let lengths = (0..count).map(|at| (500 + at % 3 * 400, 100 + at % 2 * 150)).collect();
            let window = Window::of(lengths, 12_000, true);
            let (mut at, mut parts) = (0, Vec::new());
            while at < count {
                let shown = window.shown(at, None);
                assert!(shown.start == at && !shown.is_empty(), "{count}: {shown:?}");
                assert!(shown.len() == 1 || window.length(&shown) <= window.bytes, "{shown:?}");
                at = shown.end;
                parts.push(shown);
            }
            assert_eq!(parts.last().unwrap().end, count);
            if parts.len() > 1 {
                let is_open = window.length(&parts[0]) + 6_000 <= 12_000;
                assert!(is_open || parts[0].len() == 1, "one of them can be opened");
            }
            while at > 0 {
                let before = window.before(at);
                assert!(before < at, "{count}: {before} {at}");
                at = before;
            }
            for sought in 0..count {
                assert!(window.shown(0, Some(sought)).contains(&sought), "{count}: {sought}");
                assert!(window.shown(count - 1, Some(sought)).contains(&sought));
            }
        }
    }
}
