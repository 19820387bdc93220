//! The owner's choices about what a client may see of the records, read from a form and shown in
//! one.
//!
//! The pages of consent, of an approval, of a token and of a grant have the same choices: streams,
//! where their records are from, fields and times. A stream is there because the client asks for
//! it, because it is granted already, or because the owner adds it. What is chosen of a stream that
//! a client asks for is never more than that.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use stile_domain::hash::ContentHash;
use stile_domain::percent::{decode_form, encode_component};
use stile_domain::records::declaration::StringFormat;
use stile_domain::records::grant::{Grant, StreamGrant};
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::instant::Instant;
use stile_domain::records::visible_time::VisibleTime;
use stile_records::administration::DeclaredStream;
use stile_records::grant_request::{StreamGrantRequest, TimeConstraintRequest};

use super::carried_ticks::CarriedTicks;
use super::parameters::{FormParameters, parse_time};
use super::record_access::{AskedRecords, OwnedRecords};
use super::record_sample::{SampleOf, sample};
use crate::pages::grant_words::{FEW_FIELDS, MAX_FIELDS, SeenTimes, TimesOf, seen_sentence};
use crate::pages::record_form::{
    AddedStream, BEGINNING_FIELD, FieldTick, MORE_FIELD, Openness, RecordForm, StreamForm,
    StreamTurn, UnreadableChoice, Unshown, connection_field, connections_field, field_field,
    fields_field, opened_fields, opened_places, since_field, stream_field, turned_list,
    until_field,
};
use crate::pages::times::{first_day_from, input_value};

/// The most streams of one form.
const MAX_STREAMS: usize = 32;
/// The most streams of which the owner is shown records.
const MAX_SAMPLED: usize = 8;

/// Why a stream is in the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamOrigin {
    /// The client asks for it. The owner chooses a part of what it asks for.
    Asked,
    /// The client has it. The owner may widen and narrow it.
    Granted,
    /// The owner adds it.
    Added,
}

/// A stream of the form, before the owner chooses.
struct StreamLine {
    index: usize,
    origin: StreamOrigin,
    request: StreamGrantRequest,
    /// Whether the form that was sent has the stream.
    is_sent: bool,
}

/// What is chosen of a stream.
struct ChosenStream {
    is_ticked: bool,
    connections: BTreeSet<String>,
    fields: BTreeSet<String>,
    times: [Option<Instant>; 2],
}

impl ChosenStream {
    /// Returns whether the time ends at or before it begins, so that no record would be seen.
    fn ends_first(&self) -> bool {
        let [since, until] = self.times;
        self.is_ticked && since.zip(until).is_some_and(|(since, until)| since >= until)
    }
}

/// What the owner can choose of.
pub struct RecordChoices<'a> {
    records: &'a OwnedRecords,
    now: Instant,
    declared: Vec<DeclaredStream>,
    streams: Vec<(StreamOrigin, StreamGrantRequest)>,
}

impl<'a> RecordChoices<'a> {
    /// Begins with what a client asks for; with nothing if it asks for no records.
    pub fn of_request(
        records: &'a OwnedRecords,
        now: Instant,
        asked: Option<&AskedRecords>,
    ) -> Self {
        let asked = asked.map(AskedRecords::streams).unwrap_or_default().iter();
        Self::new(records, now, asked.map(|stream| (StreamOrigin::Asked, stream.clone())))
    }

    /// Begins with what a grant shows; with nothing if there is none.
    pub fn of_grant(records: &'a OwnedRecords, now: Instant, grant: Option<&Grant>) -> Self {
        let streams = grant.map(|grant| grant.streams.as_slice()).unwrap_or_default().iter();
        Self::new(records, now, streams.map(|stream| (StreamOrigin::Granted, requested(stream))))
    }

    fn new(
        records: &'a OwnedRecords,
        now: Instant,
        streams: impl Iterator<Item = (StreamOrigin, StreamGrantRequest)>,
    ) -> Self {
        // The log has the reason of a failure, and the form then offers nothing.
        let declared = records.service.list_streams(&records.owner, now).unwrap_or_default();
        Self { records, now, declared, streams: streams.collect() }
    }

    /// Returns whether there is nothing to choose: no stream is there, and none is asked for.
    pub fn is_empty(&self) -> bool {
        self.declared.is_empty() && self.streams.is_empty()
    }

    /// Returns whether a form asks for what its reader was not shown yet: a stream that it adds,
    /// other streams, or other fields of one.
    pub fn shows_more(&self, form: &FormParameters) -> bool {
        self.added(form).is_some() || turns(form)
    }

    /// Returns what the owner chose, stream by stream. A stream of which nothing is chosen is left
    /// out.
    ///
    /// # Errors
    /// Every [`UnreadableChoice`].
    pub fn chosen(
        &self,
        form: &FormParameters,
    ) -> Result<Vec<StreamGrantRequest>, UnreadableChoice> {
        if !self.began(form) {
            return Err(UnreadableChoice::OtherBeginning);
        }
        let mut all = Vec::new();
        for line in self.lines(Some(form)) {
            // Nobody allowed what no page has shown yet.
            if line.origin == StreamOrigin::Asked && !Self::has(&line, form) {
                continue;
            }
            let choice = self.choice(&line, Some(form))?;
            if line.is_sent && choice.ends_first() {
                return Err(UnreadableChoice::EndsFirst);
            }
            all.extend(self.request(&line, &choice));
        }
        Ok(all)
    }

    /// Returns whether a form leaves what is granted as it is.
    pub fn leaves_all(&self, chosen: &[StreamGrantRequest]) -> bool {
        // What is granted of a stream that is gone shows nothing, and no form can keep it.
        let lines = self.lines(None);
        let before = lines.iter().filter_map(|line| {
            let choice = self.choice(line, None).ok()?;
            self.request(line, &choice).map(|request| told(&request))
        });
        before.collect::<BTreeSet<String>>() == chosen.iter().map(told).collect()
    }

    /// Returns the form with what the owner chose so far.
    pub fn form(&self, chosen: Option<&FormParameters>) -> RecordForm {
        let is_other = chosen.is_some_and(|form| !self.began(form));
        let chosen = chosen.filter(|_| !is_other);
        let lines = self.lines(chosen);
        let streams: Vec<StreamForm> =
            lines.iter().map(|line| self.stream_form(line, chosen)).collect();
        let is_there = |name: &str| lines.iter().any(|line| line.request.name == name);
        let others = self.declared.iter().filter(|it| !is_there(it.stream.as_str()));
        let others: Vec<&DeclaredStream> = others.collect();
        let is_full = lines.len() >= MAX_STREAMS && !others.is_empty();
        let more = others.into_iter().filter(|_| !is_full).map(|stream| AddedStream {
            value: value_of(stream),
            stream: stream.stream.to_string(),
            connection: stream.connection.to_string(),
            records: stream.records,
        });
        let turn = chosen.map(StreamTurn::of).unwrap_or_default();
        let more_start = chosen.map_or(0, |form| turned_list(form).0);
        let (beginning, more) = (beginning_of(&self.streams), more.collect());
        RecordForm { beginning, streams, more, is_full, is_other, turn, more_start }
    }

    /// Returns whether a form began with the same streams, or has none. The names in a form count
    /// the streams, so another stream may have the place of one by now.
    fn began(&self, form: &FormParameters) -> bool {
        let has = |index: &usize| {
            let names = [stream_field(*index), fields_field(*index)];
            names.iter().any(|name| form.get(name).is_some())
        };
        match form.get(BEGINNING_FIELD) {
            Some(sent) => sent == beginning_of(&self.streams),
            None => !(0..MAX_STREAMS).any(|index| has(&index)),
        }
    }

    /// Returns the streams of the form: those that it begins with, and those that were added.
    fn lines(&self, form: Option<&FormParameters>) -> Vec<StreamLine> {
        let mut lines: Vec<StreamLine> = self
            .streams
            .iter()
            .enumerate()
            .map(|(index, (origin, request))| StreamLine {
                index,
                origin: *origin,
                request: request.clone(),
                is_sent: form.is_some(),
            })
            .collect();
        let Some(form) = form else { return lines };
        for index in lines.len()..MAX_STREAMS {
            let Some(name) = form.get(&stream_field(index)) else { continue };
            let is_new = !lines.iter().any(|line| line.request.name == name);
            if is_new && self.declared.iter().any(|it| it.stream.as_str() == name) {
                let request = StreamGrantRequest { name: name.to_owned(), ..Default::default() };
                lines.push(StreamLine {
                    index,
                    origin: StreamOrigin::Added,
                    request,
                    is_sent: true,
                });
            }
        }
        if let Some(added) = self.added(form) {
            let name = added.stream.to_string();
            let index = lines.last().map_or(0, |last| last.index + 1);
            if index < MAX_STREAMS && !lines.iter().any(|line| line.request.name == name) {
                let connection_ids = Some(vec![added.connection.to_string()]);
                let request = StreamGrantRequest { name, connection_ids, ..Default::default() };
                lines.push(StreamLine {
                    index,
                    origin: StreamOrigin::Added,
                    request,
                    is_sent: false,
                });
            }
        }
        lines
    }

    /// Returns the stream that a form adds.
    fn added(&self, form: &FormParameters) -> Option<&DeclaredStream> {
        let (connection, stream) = form.get(MORE_FIELD)?.split_once('/')?;
        let (connection, stream) = (decode_form(connection)?, decode_form(stream)?);
        self.declared.iter().find(|known| {
            known.connection.as_str() == connection && known.stream.as_str() == stream
        })
    }

    /// Returns what each connection of a line declares: those that a client names, or all that have
    /// the stream.
    fn offered(&self, line: &StreamLine) -> Vec<&DeclaredStream> {
        let named = line.request.connection_ids.as_ref();
        let named = named.filter(|_| line.origin == StreamOrigin::Asked);
        let is_offered = |stream: &&DeclaredStream| {
            stream.stream.as_str() == line.request.name
                && named.is_none_or(|names| names.iter().any(|it| it == stream.connection.as_str()))
        };
        self.declared.iter().filter(is_offered).collect()
    }

    /// Returns the fields of a line that can be chosen, as they stand before the owner chooses:
    /// those that are ticked first, and then in the order of the declarations.
    fn fields(&self, line: &StreamLine) -> Vec<FieldTick> {
        let offered = self.offered(line);
        let required = |name: &String| {
            offered.iter().any(|stream| stream.declaration.required().contains(name))
        };
        let view = line.request.view.as_ref();
        let is_asked = |stream: &DeclaredStream, name: &String| match (view, &line.request.fields) {
            _ if line.origin != StreamOrigin::Asked => true,
            (Some(view), _) => {
                stream.declaration.view(view).is_some_and(|fields| fields.contains(name))
            }
            (None, Some(fields)) => fields.contains(name),
            (None, None) => true,
        };
        let granted = line.request.fields.as_ref();
        let is_ticked = |name: &String| match line.origin {
            // Of a stream that the owner adds, nothing but what every record has is proposed.
            StreamOrigin::Added => false,
            StreamOrigin::Asked => true,
            StreamOrigin::Granted => granted.is_none_or(|names| names.contains(name)),
        };
        let mut fields: Vec<FieldTick> = Vec::new();
        for stream in &offered {
            for field in stream.declaration.fields() {
                let is_required = required(&field.name);
                let is_known = fields.iter().any(|known| known.name == field.name);
                if !is_known && (is_required || is_asked(stream, &field.name)) {
                    fields.push(FieldTick {
                        name: field.name.clone(),
                        kind: field.described_type(),
                        is_required,
                        is_ticked: is_required || is_ticked(&field.name),
                    });
                }
            }
        }
        fields.sort_by_key(|field| !field.is_ticked);
        fields
    }

    /// Returns what a form carries of the fields of a line; `None` if the form has not had them.
    fn carried(
        line: &StreamLine,
        fields: &[FieldTick],
        form: Option<&FormParameters>,
    ) -> Result<Option<CarriedTicks>, UnreadableChoice> {
        let sent = form.filter(|_| line.is_sent).and_then(|it| it.get(&fields_field(line.index)));
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        let read = |text| CarriedTicks::read(text, &names).ok_or(UnreadableChoice::OtherFields);
        sent.map(read).transpose()
    }

    /// Returns whether a form has a line. What is granted of a stream that no page has shown stays
    /// as it is, and what is asked for of one is not granted.
    fn has(line: &StreamLine, form: &FormParameters) -> bool {
        let carried = || form.get(&fields_field(line.index)).is_some();
        line.is_sent && (line.origin == StreamOrigin::Added || carried())
    }

    /// Returns what a form does about a line that its page does not show.
    fn unshown(
        &self,
        line: &StreamLine,
        form: Option<&FormParameters>,
        request: Option<&StreamGrantRequest>,
    ) -> Unshown {
        let is_had = form.is_some_and(|form| Self::has(line, form));
        let before = || {
            let choice = self.choice(line, None).ok()?;
            self.request(line, &choice)
        };
        match line.origin {
            StreamOrigin::Asked if !is_had => Unshown::Left,
            StreamOrigin::Granted if !is_had => Unshown::Kept,
            // A form has room for what was changed.
            StreamOrigin::Granted if before().as_ref().map(told) == request.map(told) => {
                Unshown::Kept
            }
            _ => Unshown::Carried,
        }
    }

    /// Returns what is chosen of a stream, or what is proposed of one that no form has had yet.
    fn choice(
        &self,
        line: &StreamLine,
        form: Option<&FormParameters>,
    ) -> Result<ChosenStream, UnreadableChoice> {
        let form = form.filter(|form| Self::has(line, form));
        let index = line.index;
        let sent = |field: &str| form.map(|form| form.get(field));
        let named = line.request.connection_ids.as_ref();
        let offered = self.offered(line);
        let connections: BTreeSet<String> =
            offered.iter().map(|stream| stream.connection.to_string()).collect();
        let is_only = connections.len() == 1;
        let of_form = match sent(&connections_field(index)).flatten() {
            Some(text) => {
                let names: Vec<&str> = connections.iter().map(String::as_str).collect();
                Some(CarriedTicks::read(text, &names).ok_or(UnreadableChoice::OtherFields)?)
            }
            None => None,
        };
        let is_from = |(at, connection): &(usize, String)| match (
            sent(&connection_field(index, connection)),
            &of_form,
        ) {
            _ if is_only => true,
            (Some(sent), Some(carried)) => carried.is_ticked(*at, sent),
            (Some(sent), None) => sent.is_some(),
            (None, _) => named.is_some_and(|names| names.contains(connection)),
        };
        let fields = self.fields(line);
        let carried = Self::carried(line, &fields, form)?;
        let is_seen = |(at, field): &(usize, FieldTick)| match (
            sent(&field_field(index, &field.name)),
            &carried,
        ) {
            _ if field.is_required => true,
            (Some(sent), Some(carried)) => carried.is_ticked(*at, sent),
            (Some(sent), None) => sent.is_some(),
            (None, _) => field.is_ticked,
        };
        let fields = fields.into_iter().enumerate().filter(is_seen).map(|(_, field)| field.name);
        let is_days = self.times_of_field(line) == TimesOf::Days;
        let before = times_of(&line.request);
        let names = [since_field(index), until_field(index)];
        let mut times = before;
        if let Some(form) = form {
            for ((time, before), name) in times.iter_mut().zip(before).zip(names) {
                let shown = before.map(|it| shown_bound(it, is_days));
                *time = match form.get(&name) {
                    // The form shows whole days or minutes.
                    Some(text) if shown.as_deref() == Some(text) => before,
                    Some(text) => Some(parse_time(text).ok_or(UnreadableChoice::Time)?),
                    None => None,
                };
            }
        }
        if line.origin == StreamOrigin::Asked {
            let [since, until] = before;
            times[0] = times[0].max(since);
            times[1] = match (times[1], until) {
                (Some(chosen), Some(asked)) => Some(chosen.min(asked)),
                (chosen, asked) => chosen.or(asked),
            };
        }
        Ok(ChosenStream {
            is_ticked: sent(&stream_field(index)).is_none_or(|sent| sent.is_some()),
            connections: connections
                .into_iter()
                .enumerate()
                .filter(is_from)
                .map(|(_, connection)| connection)
                .collect(),
            fields: fields.collect(),
            times,
        })
    }

    /// Returns the request for what is chosen of a stream; `None` for nothing.
    fn request(&self, line: &StreamLine, chosen: &ChosenStream) -> Option<StreamGrantRequest> {
        let ChosenStream { is_ticked, connections, fields, times: [since, until] } = chosen;
        if !is_ticked || connections.is_empty() || fields.is_empty() {
            return None;
        }
        let text = |time: &Option<Instant>| time.map(Instant::to_rfc3339);
        let time = line.request.time_constraint.as_ref();
        let is_limited = since.is_some() || until.is_some();
        Some(StreamGrantRequest {
            name: line.request.name.clone(),
            connection_ids: Some(connections.iter().cloned().collect()),
            fields: Some(fields.iter().cloned().collect()),
            time_constraint: is_limited.then(|| TimeConstraintRequest {
                field: time.and_then(|time| time.field.clone()),
                since: text(since),
                until: text(until),
            }),
            resources: line.request.resources.clone(),
            ..StreamGrantRequest::default()
        })
    }

    /// Returns the field that has the time of a line's records, and what it has.
    fn time_field(&self, line: &StreamLine) -> Option<String> {
        let named = line.request.time_constraint.as_ref().and_then(|time| time.field.clone());
        let offered = self.offered(line);
        let declared = offered.iter().find_map(|it| it.declaration.consent_time_field());
        named.or_else(|| declared.map(str::to_owned))
    }

    /// Returns what the field has that says when a line's records happened.
    fn times_of_field(&self, line: &StreamLine) -> TimesOf {
        let Some(name) = self.time_field(line) else { return TimesOf::Moments };
        let offered = self.offered(line);
        let fields = offered.iter().flat_map(|it| it.declaration.fields());
        let mut formats = fields.filter(|field| field.name == name).map(|field| field.format);
        // Where one connection has days and another one points in time, both are compared as those.
        let is_days = formats.next() == Some(Some(StringFormat::Date))
            && formats.all(|format| format == Some(StringFormat::Date));
        if is_days { TimesOf::Days } else { TimesOf::Moments }
    }

    /// Returns how a stream stands in a form, and the first field that the page shows.
    fn openness(
        line: &StreamLine,
        fields: &[FieldTick],
        form: Option<&FormParameters>,
    ) -> (Openness, usize) {
        let carried = Self::carried(line, fields, form).ok().flatten();
        let turned = form.and_then(opened_places).filter(|(index, _)| *index == line.index);
        if turned.is_some() {
            return (Openness::Wanted, carried.map_or(0, |carried| carried.shown.start));
        }
        let opened = form.and_then(opened_fields).filter(|(index, _)| *index == line.index);
        match (opened, carried) {
            (Some((_, start)), _) => (Openness::Wanted, start),
            (None, Some(carried)) if carried.shown.is_empty() => (Openness::Closed, 0),
            (None, Some(carried)) => (Openness::Open, carried.shown.start),
            (None, None) => (Openness::New, 0),
        }
    }

    /// Returns the number of the first connection that the page shows, and whether a button asks
    /// for it.
    fn places_from(
        line: &StreamLine,
        connections: &BTreeMap<String, bool>,
        form: Option<&FormParameters>,
    ) -> (usize, bool) {
        let asked = form.and_then(opened_places).filter(|(index, _)| *index == line.index);
        let names: Vec<&str> = connections.keys().map(String::as_str).collect();
        let carried = || {
            let form = form.filter(|form| Self::has(line, form))?;
            let carried = CarriedTicks::read(form.get(&connections_field(line.index))?, &names)?;
            Some(carried.shown.start)
        };
        let start = asked.map(|(_, first)| first).or_else(carried).unwrap_or_default();
        (if start < names.len() { start } else { 0 }, asked.is_some())
    }

    fn stream_form(&self, line: &StreamLine, form: Option<&FormParameters>) -> StreamForm {
        let offered = self.offered(line);
        let time_field = self.time_field(line);
        let of = self.times_of_field(line);
        let mut fields = self.fields(line);
        let (openness, start) = Self::openness(line, &fields, form);
        let choice = self.choice(line, form);
        let ends_first = choice.as_ref().is_ok_and(ChosenStream::ends_first);
        let ends_first = ends_first.then_some(UnreadableChoice::EndsFirst);
        let unreadable = choice.as_ref().err().copied().or(ends_first);
        let choice = choice.ok();
        let request = choice.as_ref().and_then(|chosen| self.request(line, chosen));
        let request = request.filter(|_| ends_first.is_none());
        for field in &mut fields {
            field.is_ticked = choice.as_ref().is_some_and(|it| it.fields.contains(&field.name));
        }
        let sentence = |most: usize| {
            request.as_ref().zip(choice.as_ref()).map(|(_, chosen)| {
                seen_sentence(
                    &line.request.name,
                    chosen.connections.iter().map(String::as_str),
                    chosen.fields.iter().map(String::as_str),
                    SeenTimes { bounds: chosen.times, of },
                    most,
                )
            })
        };
        let (sentence, brief) = (sentence(MAX_FIELDS), sentence(FEW_FIELDS));
        let sample = match (&request, &choice) {
            (Some(request), Some(chosen)) if line.index < MAX_SAMPLED => {
                self.sample(&offered, request, chosen, time_field.as_deref())
            }
            _ => Vec::new(),
        };
        let is_days = of == TimesOf::Days;
        let shown = |time: Option<Instant>| time.map(|it| shown_bound(it, is_days));
        let unshown = self.unshown(line, form, request.as_ref());
        let is_wanted = openness == Openness::Wanted;
        let is_sought = is_wanted || (line.origin == StreamOrigin::Added && !line.is_sent);
        let times = choice.as_ref().map(|chosen| chosen.times.map(shown));
        let [since, until] = times.unwrap_or_default().map(Option::unwrap_or_default);
        let is_from = |name: &SourceName| {
            choice.as_ref().is_some_and(|it| it.connections.contains(name.as_str()))
        };
        let connections: BTreeMap<String, bool> = offered
            .iter()
            .map(|stream| (stream.connection.to_string(), is_from(&stream.connection)))
            .collect();
        StreamForm {
            index: line.index,
            unshown,
            is_sought,
            name: line.request.name.clone(),
            // Of what cannot be read nothing is granted, so its tick says that too.
            is_ticked: choice.as_ref().is_some_and(|chosen| chosen.is_ticked),
            unreadable,
            records: offered.iter().map(|stream| stream.records).sum(),
            places_from: Self::places_from(line, &connections, form),
            connections: connections.into_iter().collect(),
            start: if start < fields.len() { start } else { 0 },
            openness,
            fields,
            seen: choice.map(|chosen| chosen.fields).unwrap_or_default(),
            keys: line.request.resources.as_ref().map(Vec::len),
            time_field,
            is_days,
            since,
            until,
            sentence,
            brief,
            sample,
        }
    }

    /// Returns records with all their fields, of the times and of a connection that are chosen.
    fn sample(
        &self,
        offered: &[&DeclaredStream],
        request: &StreamGrantRequest,
        chosen: &ChosenStream,
        time_field: Option<&str>,
    ) -> Vec<serde_json::Map<String, serde_json::Value>> {
        let [since, until] = chosen.times;
        let is_limited = since.is_some() || until.is_some();
        if request.resources.is_some() || (is_limited && time_field.is_none()) {
            return Vec::new();
        }
        let connection = chosen.connections.iter().next().map(String::as_str);
        let from = offered.iter().filter(|it| Some(it.connection.as_str()) == connection);
        let all: Vec<String> = from
            .flat_map(|stream| stream.declaration.fields())
            .map(|field| field.name.clone())
            .collect();
        let of = SampleOf {
            stream: &request.name,
            connection,
            fields: &all,
            time: time_field
                .filter(|_| is_limited)
                .map(|field| (field, VisibleTime::new(since, until))),
        };
        sample((&self.records.service, &self.records.owner), self.now, &of)
    }
}

/// Returns whether a button of a form asks for other streams, or for other fields of one.
pub fn turns(form: &FormParameters) -> bool {
    let opens = opened_fields(form).is_some() || opened_places(form).is_some();
    opens || StreamTurn::of(form).wanted.is_some() || turned_list(form).1
}

/// Returns a digest of the streams that choices begin with, as they stand. A page may be sent to a
/// newer program than the one that showed it, so the digest is of a notation that does not change.
fn beginning_of(streams: &[(StreamOrigin, StreamGrantRequest)]) -> String {
    const DIGEST_CHARS: usize = 16;
    let lines: Vec<String> = streams
        .iter()
        .map(|(origin, request)| {
            let word = match origin {
                StreamOrigin::Asked => "asked",
                StreamOrigin::Granted => "granted",
                StreamOrigin::Added => "added",
            };
            format!("{word} {}\n", told(request))
        })
        .collect();
    let digest = ContentHash::digest(lines.concat().as_bytes()).to_string();
    digest.chars().take(DIGEST_CHARS).collect()
}

/// Returns a request in a notation that two programs write alike: a list of JSON with the name, the
/// connections, the fields, the view, the time and the keys. The order of names says nothing.
fn told(stream: &StreamGrantRequest) -> String {
    let set = |names: &Option<Vec<String>>| {
        names.as_ref().map(|names| names.iter().cloned().collect::<BTreeSet<_>>())
    };
    let time = stream.time_constraint.as_ref().map(|it| json!([it.field, it.since, it.until]));
    let range = stream.time_range.as_ref().map(|it| json!([it.since, it.until]));
    let (connections, fields) = (set(&stream.connection_ids), set(&stream.fields));
    let keys = set(&stream.resources);
    json!([stream.name, connections, fields, stream.view, time, range, keys]).to_string()
}

/// Returns a bound of the times as the value of its input.
fn shown_bound(at: Instant, is_days: bool) -> String {
    if is_days { first_day_from(at) } else { input_value(at) }
}

/// Returns the value with which a form names a stream of a connection.
pub fn value_of(stream: &DeclaredStream) -> String {
    let [connection, stream] =
        [stream.connection.as_str(), stream.stream.as_str()].map(encode_component);
    format!("{connection}/{stream}")
}

/// Returns the times that a request limits a stream to.
fn times_of(request: &StreamGrantRequest) -> [Option<Instant>; 2] {
    let bounds = match (&request.time_constraint, &request.time_range) {
        (Some(time), _) => [&time.since, &time.until],
        (None, Some(range)) => [&range.since, &range.until],
        (None, None) => return [None, None],
    };
    bounds.map(|bound| bound.as_deref().and_then(Instant::parse))
}

/// Returns the request that a stream of a grant was made of.
fn requested(stream: &StreamGrant) -> StreamGrantRequest {
    let text = |time: Option<Instant>| time.map(Instant::to_rfc3339);
    StreamGrantRequest {
        name: stream.stream.to_string(),
        connection_ids: Some(stream.connections.iter().map(ToString::to_string).collect()),
        fields: Some(stream.fields.iter().cloned().collect()),
        time_constraint: stream.time.as_ref().map(|time| {
            let [since, until] = time.stated_bounds().map(text);
            TimeConstraintRequest { field: Some(time.field().clone()), since, until }
        }),
        resources: stream.keys.as_ref().map(|keys| keys.iter().cloned().collect()),
        ..StreamGrantRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_a_beginning_is_what_an_older_program_wrote() {
        let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        let mut mail = StreamGrantRequest {
            name: "messages".to_owned(),
            connection_ids: names(&["gmail"]),
            fields: names(&["subject", "from"]),
            time_constraint: Some(TimeConstraintRequest {
                field: Some("sent_at".to_owned()),
                since: Some("2026-01-01T00:00:00Z".to_owned()),
                until: None,
            }),
            ..StreamGrantRequest::default()
        };
        assert_eq!(
            told(&mail),
            "[\"messages\",[\"gmail\"],[\"from\",\"subject\"],null,\
             [\"sent_at\",\"2026-01-01T00:00:00Z\",null],null,null]"
        );
        let rows = StreamGrantRequest { name: "rows".to_owned(), ..StreamGrantRequest::default() };
        let both = |mail: &StreamGrantRequest| {
            beginning_of(&[
                (StreamOrigin::Granted, mail.clone()),
                (StreamOrigin::Asked, rows.clone()),
            ])
        };
        let known = both(&mail);
        assert_eq!(known, "9f97b62def6a2759");
        mail.fields = names(&["from", "subject"]);
        assert_eq!(both(&mail), known, "the order of names says nothing");
        mail.fields = names(&["from"]);
        assert_ne!(both(&mail), known);
    }
}
