//! The obvious answer: every record is looked at, what may not be seen is thrown away, the rest is
//! sorted and cut.
//!
//! Written from the contract. Slow, without a database, and with nothing shared with the program
//! but plain data.

mod bytes;
mod fields;
mod search;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use ring::digest;
use serde_json::{Map, Value as Json, json};
use stile_domain::records::value::FieldValue;

use super::OperationRequest;
use super::json::J;
pub(crate) use bytes::ByteWindow;
pub(crate) use fields::shown;
pub(crate) use search::{occurs, unsearched_lists, word_warnings};

use super::model::{Decl, EMITTED, FieldDecl, Grant, OPS, Rec, Source, World, time_of_text};
use super::oracle_aggregate::Groups;
use super::places;

/// A code and a status.
pub(crate) type Refusal = (&'static str, u16);

pub(crate) const INVALID: Refusal = ("invalid_request", 400);
pub(crate) const WINDOW: Refusal = ("invalid_window", 400);
pub(crate) const CURSOR: Refusal = ("invalid_cursor", 400);
const NOT_FOUND: Refusal = ("not_found", 404);
const NOT_GRANTED: Refusal = ("field_not_granted", 403);

/// Who asks.
#[derive(Clone, Copy)]
pub(crate) enum Who<'a> {
    Owner,
    Client(&'a Grant),
}

/// What is answered to a request without a cursor.
#[derive(Debug)]
pub(crate) enum Answer {
    Whole(J),
    Groups(Groups),
    List(List),
    Window(Box<Window>),
    Bytes(Box<ByteWindow>),
}

/// A list to its end.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) rows: Vec<J>,
    pub(crate) limit: usize,
    pub(crate) meta: J,
    /// Whether it is of what changed since the beginning, which is everything.
    pub(crate) changes: bool,
}

/// A whole field, and the window of it that was asked for.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) chars: Vec<char>,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) limit: usize,
    /// How much the windows before and after it have.
    pub(crate) step: usize,
    pub(crate) found: Option<(usize, usize)>,
    /// All references to bytes within the field, by where they end.
    references: Vec<(usize, Json)>,
    pub(crate) around: J,
}

/// What a window is of: a field, or a value within it.
pub(crate) struct Windowed {
    path: String,
    value: FieldValue,
    is_inner: bool,
}

/// What each endpoint takes, as the contract has it.
pub(crate) enum Takes {
    Text(usize),
    Word(&'static [&'static str]),
    /// At least, at most, whether more is taken for the most, and the code of an error.
    Whole(u64, u64, bool, Refusal),
    Names,
    /// Names, one each, and no more than so many.
    Repeated(usize),
    Limits,
    Conditions,
}

pub(crate) fn takes(operation: &str) -> Option<Vec<(&'static str, Takes)>> {
    use Takes::{Conditions, Limits, Names, Text, Whole, Word};
    let mut all = vec![("connection_id", Text(64)), ("connector_instance_id", Text(64))];
    let preview = || {
        [
            ("preview_chars", Whole(0, 16_384, false, INVALID)),
            ("preview_bytes", Whole(256, 65_536, false, INVALID)),
        ]
    };
    match operation {
        "listStreams" | "getStream" | "getBlob" | "headBlob" | "deleteRecord" | "deleteRecords" => {
        }
        "getSchema" => all.extend([
            ("view", Word(&["compact"])),
            ("detail", Word(&["full"])),
            ("stream", Text(64)),
        ]),
        "listRecords" => all.extend(preview().into_iter().chain([
            ("limit", Whole(1, 100, true, INVALID)),
            ("cursor", Text(4096)),
            ("cursors", Word(&["page", "each"])),
            ("order", Word(&["asc", "desc"])),
            ("sort", Text(513)),
            ("count", Word(&["none", "estimated", "exact"])),
            ("view", Text(64)),
            ("expand", Names),
            ("expand_limit", Limits),
            ("fields", Names),
            ("filter", Conditions),
            ("or", Conditions),
            ("changes_since", Text(4096)),
        ])),
        "search" => all.extend([
            ("q", Text(4096)),
            ("order", Word(&["newest", "relevance"])),
            ("limit", Whole(1, 100, true, INVALID)),
            ("cursor", Text(4096)),
            ("cursors", Word(&["page", "each"])),
            ("streams", Names),
            ("filter", Conditions),
            ("or", Conditions),
        ]),
        "aggregateRecords" => all.extend(super::oracle_aggregate::takes()),
        "getRecord" => {
            all.extend([
                ("fields", Names),
                ("view", Text(64)),
                ("expand", Names),
                ("expand_limit", Limits),
            ]);
            all.push(("fields_cursor", Text(4096)));
            all.extend(preview());
        }
        "getFieldWindow" => all.extend([
            ("field", Text(4096)),
            ("cursor", Text(4096)),
            ("offset_chars", Whole(0, i64::MAX as u64, false, WINDOW)),
            ("limit_chars", Whole(1, 16_384, true, WINDOW)),
            ("q", Text(4096)),
            ("before_chars", Whole(0, 8192, false, WINDOW)),
            ("after_chars", Whole(0, 8192, false, WINDOW)),
            ("offset_bytes", Whole(0, i64::MAX as u64, false, WINDOW)),
            ("limit_bytes", Whole(1, 65_536, true, WINDOW)),
        ]),
        _ => return None,
    }
    Some(all)
}

#[derive(Clone, Default)]
pub(crate) struct Params {
    texts: BTreeMap<String, String>,
    numbers: BTreeMap<String, u64>,
    pub(crate) names: BTreeMap<String, Vec<String>>,
    pub(crate) limits: BTreeMap<String, u64>,
    /// Of which alternative each is, its field, operator and value.
    conditions: Vec<(Option<u8>, String, Option<&'static str>, String)>,
    /// The values of each `in`.
    choices: BTreeMap<(Option<u8>, String), Vec<String>>,
    warnings: Vec<Json>,
}

impl Params {
    fn parse(request: &OperationRequest) -> Result<Self, Refusal> {
        let declared = takes(request.operation.id).unwrap();
        let mut this = Self::default();
        let mut seen = BTreeSet::new();
        for (key, value) in &request.pairs {
            let base = key.split('[').next().unwrap();
            let Some((_, takes)) = declared.iter().find(|(name, _)| *name == base) else {
                return Err(INVALID);
            };
            let once = !seen.insert(key.clone());
            let plain = key == base;
            match takes {
                Takes::Text(most) if plain && value.len() <= *most && !once => {
                    this.texts.insert(key.clone(), value.clone());
                }
                Takes::Word(words) if plain && words.contains(&value.as_str()) && !once => {
                    this.texts.insert(key.clone(), value.clone());
                }
                Takes::Whole(least, most, clamped, code) if plain => {
                    let digits = (1..=19).contains(&value.len())
                        && value.chars().all(|c| c.is_ascii_digit());
                    let number: u128 =
                        if digits { value.parse().unwrap() } else { return Err(*code) };
                    if number < u128::from(*least) || number > u128::from(*most) && !*clamped {
                        return Err(*code);
                    }
                    if once {
                        return Err(INVALID);
                    }
                    if number > u128::from(*most) {
                        this.warnings.push(json!({
                            "code": "limit_clamped", "param": key,
                            "message": format!("`{key}` is at most {most}, which was taken instead"),
                            "detail": { "requested_limit": number as u64, "max_limit": most },
                        }));
                    }
                    this.numbers.insert(key.clone(), number.min(u128::from(*most)) as u64);
                }
                Takes::Names if plain || *key == format!("{base}[]") => {
                    let names = this.names.entry(base.to_owned()).or_default();
                    let parts: Vec<&str> =
                        if plain { value.split(',').collect() } else { vec![value] };
                    for name in parts {
                        if name.is_empty() {
                            return Err(INVALID);
                        }
                        if !names.iter().any(|known| known == name) {
                            names.push(name.to_owned());
                        }
                        if names.len() > 1000 {
                            return Err(INVALID);
                        }
                    }
                }
                Takes::Repeated(most) if plain => {
                    let names = this.names.entry(base.to_owned()).or_default();
                    if !names.contains(value) {
                        names.push(value.clone());
                    }
                    if value.is_empty() || names.len() > *most {
                        return Err(INVALID);
                    }
                }
                Takes::Limits => {
                    let relation =
                        key.strip_prefix("expand_limit[").and_then(|rest| rest.strip_suffix(']'));
                    let digits =
                        (1..=9).contains(&value.len()) && value.chars().all(|c| c.is_ascii_digit());
                    let limit: u64 = if digits { value.parse().unwrap() } else { 0 };
                    let Some(relation) = relation.filter(|relation| !relation.is_empty()) else {
                        return Err(INVALID);
                    };
                    if limit == 0 || this.limits.insert(relation.to_owned(), limit).is_some() {
                        return Err(INVALID);
                    }
                }
                Takes::Conditions => {
                    let (number, rest) = match key.strip_prefix("or[") {
                        None => (None, key.strip_prefix("filter")),
                        Some(rest) => {
                            let Some((number, rest)) = rest.split_once(']') else {
                                return Err(INVALID);
                            };
                            let known = (0..16).find(|known: &u8| known.to_string() == number);
                            (Some(known.ok_or(INVALID)?), Some(rest))
                        }
                    };
                    let inside = rest
                        .and_then(|rest| rest.strip_prefix('['))
                        .and_then(|rest| rest.strip_suffix(']'));
                    let Some(inside) = inside else { return Err(INVALID) };
                    let known = OPS.iter().chain(&["in", "exists"]);
                    let op = known.into_iter().find(|op| inside.ends_with(&format!("][{op}")));
                    let field =
                        op.map_or(inside, |op| &inside[..inside.len() - op.len() - 2]).to_owned();
                    let is_choice = op == Some(&"in");
                    if field.is_empty() || once && !is_choice {
                        return Err(INVALID);
                    }
                    if op == Some(&"exists") && value != "true" && value != "false" {
                        return Err(INVALID);
                    }
                    if is_choice {
                        this.choices
                            .entry((number, field.clone()))
                            .or_default()
                            .push(value.clone());
                        if once {
                            continue;
                        }
                    }
                    this.conditions.push((number, field, op.copied(), value.clone()));
                }
                _ => return Err(INVALID),
            }
        }
        if this.conditions.len() > 50 || this.limits.len() > 50 {
            return Err(INVALID);
        }
        if this.texts.contains_key("connector_instance_id") {
            this.warnings.push(json!({
                "code": "deprecated_alias_used", "param": "connector_instance_id",
                "message": "`connector_instance_id` is an old name of `connection_id`",
            }));
        }
        Ok(this)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.numbers.get(name).copied()
    }

    pub(crate) fn connection(&self) -> Result<Option<&str>, Refusal> {
        match (self.text("connection_id"), self.text("connector_instance_id")) {
            (Some(a), Some(b)) if a != b => Err(INVALID),
            (a, b) => Ok(a.or(b)),
        }
    }

    pub(crate) fn meta(&self) -> J {
        J::of(&json!({ "warnings": self.warnings }))
    }
}

pub(crate) fn add_warnings(meta: &mut J, more: Vec<J>) {
    let J::Arr(mut warnings) = meta.take("warnings") else { panic!() };
    warnings.extend(more);
    put(meta, "warnings", J::Arr(warnings));
}

/// Whether the grant counts at this moment, for this token.
pub(crate) fn standing(grant: Option<&Grant>, token: &str, expired: bool) -> Result<(), Refusal> {
    let Some(grant) = grant else { return Err(("grant_invalid", 403)) };
    if grant.revoked {
        return Err(("grant_revoked", 403));
    }
    if grant.malformed.is_some() {
        return Err(("grant_invalid", 403));
    }
    if expired {
        return Err(("grant_expired", 403));
    }
    if grant.single_use && grant.bound.as_deref().is_some_and(|bound| bound != token) {
        return Err(("grant_consumed", 403));
    }
    Ok(())
}

/// A source as somebody sees it.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) source: &'a Source,
    pub(crate) who: Who<'a>,
}

impl<'a> Seen<'a> {
    pub(crate) fn field(&self, name: &str) -> bool {
        match self.who {
            Who::Owner => true,
            Who::Client(grant) => {
                grant.share(self.source).unwrap().fields.iter().any(|field| field == name)
            }
        }
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = (&'a str, &'a Rec)> {
        let share = match self.who {
            Who::Owner => None,
            Who::Client(grant) => grant.share(self.source),
        };
        let records = self.source.records.iter().map(|(key, record)| (key.as_str(), record));
        records.filter(move |(key, record)| share.is_none_or(|share| share.sees(key, record)))
    }

    /// Whether all conditions hold of a record, and those of one alternative if there are any.
    pub(crate) fn passes(&self, record: &Rec, params: &Params) -> bool {
        let numbers: BTreeSet<Option<u8>> = params.conditions.iter().map(|own| own.0).collect();
        let all = |number: Option<u8>| {
            let mut own = params.conditions.iter().filter(|own| own.0 == number);
            own.all(|condition| self.holds(record, params, condition))
        };
        let mut alternatives = numbers.iter().filter(|number| number.is_some()).peekable();
        all(None) && (alternatives.peek().is_none() || alternatives.any(|number| all(*number)))
    }

    fn holds(
        &self,
        record: &Rec,
        params: &Params,
        (number, field, op, value): &(Option<u8>, String, Option<&'static str>, String),
    ) -> bool {
        let own = record.field(field);
        match op {
            Some("exists") => own.is_some_and(|own| *own != FieldValue::Null) == (value == "true"),
            Some("in") => own.is_some_and(|own| {
                params.choices[&(*number, field.clone())].iter().any(|one| is(own, one))
            }),
            None => own.is_some_and(|own| is(own, value)),
            Some(op) => {
                own.is_some_and(|own| in_range(own, op, value, self.source.decl.is_time(field)))
            }
        }
    }

    fn fields(&self) -> Vec<&'a FieldDecl> {
        self.source.decl.fields.iter().filter(|field| self.field(&field.name)).collect()
    }
}

pub(crate) struct Oracle<'a> {
    pub(crate) world: &'a World,
    pub(crate) who: Who<'a>,
}

impl<'a> Oracle<'a> {
    fn sources(&self) -> Vec<Seen<'a>> {
        let seen = |source: &&'a Source| match self.who {
            Who::Owner => true,
            Who::Client(grant) => grant.share(source).is_some(),
        };
        let mut sources: Vec<&Source> = self.world.sources.iter().filter(seen).collect();
        sources.sort_by_key(|source| (&source.stream, &source.connection));
        sources.into_iter().map(|source| Seen { source, who: self.who }).collect()
    }

    pub(crate) fn of(
        &self,
        stream: &str,
        connection: Option<&str>,
    ) -> Result<Vec<Seen<'a>>, Refusal> {
        let mut sources = self.sources();
        sources.retain(|seen| {
            seen.source.stream == stream
                && connection.is_none_or(|name| seen.source.connection == name)
        });
        match self.who {
            _ if !sources.is_empty() => Ok(sources),
            Who::Owner => Err(NOT_FOUND),
            Who::Client(_) => Err(("grant_stream_not_allowed", 403)),
        }
    }

    /// The answer, if the cursor is left out of consideration.
    pub(crate) fn answer(&self, request: &OperationRequest) -> Result<Answer, Refusal> {
        let params = Params::parse(request)?;
        match request.operation.id {
            "listStreams" => self.streams(&params).map(Answer::Whole),
            "getStream" => self.metadata(request, &params).map(Answer::Whole),
            "getSchema" => self.schema(&params).map(Answer::Whole),
            "listRecords" => self.list(request, &params).map(Answer::List),
            "search" => self.search(&params).map(Answer::List),
            "aggregateRecords" => self.aggregate(request, &params),
            "getRecord" => self.record(request, &params, 0).map(Answer::Whole),
            "getFieldWindow" => self.any_window(request, &params),
            "getBlob" | "headBlob" => self.blob(request, &params).map(Answer::Whole),
            other => panic!("the oracle does not know {other}"),
        }
    }

    /// The connections that make a request ambiguous.
    pub(crate) fn having(&self, request: &OperationRequest) -> Vec<String> {
        let params = Params::parse(request).unwrap();
        let stream = params.text("stream").unwrap_or(&request.stream);
        let mut sources = self.of(stream, params.connection().unwrap()).unwrap();
        if request.operation.path.contains("{id}") {
            sources.retain(|seen| seen.records().any(|(key, _)| key == request.key));
        }
        sources.into_iter().map(|seen| seen.source.connection.clone()).collect()
    }

    fn blob(&self, request: &OperationRequest, params: &Params) -> Result<J, Refusal> {
        let wanted = params.connection()?;
        let mut sources = self.sources();
        sources.retain(|seen| wanted.is_none_or(|name| seen.source.connection == name));
        let sights: Vec<_> =
            sources.iter().map(|seen| move |name: &str| seen.field(name)).collect();
        let records = sources.iter().zip(&sights);
        let records = records.flat_map(|(seen, sight)| {
            seen.records().map(move |(_, record)| (record, sight as &dyn Fn(&str) -> bool))
        });
        super::blobs::answer(&request.key, records)
    }

    /// What a request removes: the connections and keys.
    pub(crate) fn removed(
        &self,
        request: &OperationRequest,
    ) -> Result<Vec<(String, String)>, Refusal> {
        if matches!(self.who, Who::Client(_)) {
            return Err(("insufficient_scope", 403));
        }
        let params = Params::parse(request)?;
        let sources = self.of(&request.stream, params.connection()?)?;
        let of = |seen: &Seen<'_>, key: &str| (seen.source.connection.clone(), key.to_owned());
        if request.operation.id == "deleteRecords" {
            let [seen] = sources.as_slice() else { return Err(("ambiguous_connection", 409)) };
            return Ok(seen.records().map(|(key, _)| of(seen, key)).collect());
        }
        match self.one(&sources, &request.key) {
            Ok((seen, _)) => Ok(vec![of(&seen, &request.key)]),
            Err(NOT_FOUND) => Ok(Vec::new()),
            Err(refusal) => Err(refusal),
        }
    }

    fn streams(&self, params: &Params) -> Result<J, Refusal> {
        let wanted = params.connection()?;
        let mut rows = Vec::new();
        for seen in self.sources() {
            let Source { stream, connection, .. } = seen.source;
            if wanted.is_some_and(|wanted| wanted != connection) {
                continue;
            }
            let last =
                seen.records().map(|(_, record)| record.emitted).max().map(|at| EMITTED[at].1);
            rows.push(json!({
                "object": "stream", "name": stream, "connection_id": connection, "connector_instance_id": connection,
                "record_count": seen.records().count(), "last_updated": last,
            }));
        }
        let mut list = J::of(&json!({
            "object": "list", "url": "/v1/streams", "has_more": false, "data": rows,
            "links": { "self": "/v1/streams", "next": null },
        }));
        put(&mut list, "meta", params.meta());
        Ok(list)
    }

    fn metadata(&self, request: &OperationRequest, params: &Params) -> Result<J, Refusal> {
        match self.of(&request.stream, params.connection()?)?.as_slice() {
            [seen] => {
                let mut described = self.described(*seen);
                described.insert("object".into(), "stream_metadata".into());
                Ok(J::of(&Json::Object(described)))
            }
            _ => Err(("ambiguous_connection", 409)),
        }
    }

    fn described(&self, seen: Seen<'_>) -> Map<String, Json> {
        let decl = &seen.source.decl;
        let granted = |name: &String| seen.field(name);
        let fields = seen.fields();
        let names = |fits: &dyn Fn(&FieldDecl) -> bool| -> Vec<&str> {
            fields.iter().filter(|field| fits(field)).map(|field| field.name.as_str()).collect()
        };
        let mut described = match self.who {
            Who::Owner => decl.to_json(),
            Who::Client(_) => {
                let properties: Map<String, Json> =
                    fields.iter().map(|field| (field.name.clone(), field.schema.clone())).collect();
                let ranges: Map<String, Json> = fields
                    .iter()
                    .filter(|field| !field.ops.is_empty())
                    .map(|field| (field.name.clone(), json!(field.ops)))
                    .collect();
                let required: Vec<&String> =
                    decl.required.iter().filter(|name| granted(name)).collect();
                json!({
                    "schema": { "type": "object", "properties": properties, "required": required },
                    "primary_key": self.key(seen),
                    "cursor_field": decl.cursor.clone().filter(granted),
                    "consent_time_field": decl.consent.clone().filter(granted),
                    "query": {
                        "range_filters": ranges, "exact_filters": names(&|field| decl.exact(field)),
                        "search": { "lexical_fields": names(&|field| field.lexical) },
                    },
                    "views": [], "relationships": [],
                })
            }
        };
        let capabilities: Map<String, Json> = fields
            .iter()
            .map(|field| {
                let usable = |declared: bool| json!({ "declared": declared, "usable": declared });
                let mut range = usable(!field.ops.is_empty());
                range["operators"] = json!(field.ops);
                let aggregation: Map<String, Json> =
                    field.aggregations.iter().map(|kind| (kind.clone(), usable(true))).collect();
                let capability = json!({
                    "granted": true, "schema": field.schema, "exact_filter": usable(decl.exact(field)),
                    "range_filter": range, "lexical_search": usable(field.lexical), "aggregation": aggregation,
                });
                (field.name.clone(), capability)
            })
            .collect();
        let members = described.as_object_mut().unwrap();
        members.insert("name".into(), seen.source.stream.as_str().into());
        members.insert("connection_id".into(), seen.source.connection.as_str().into());
        members.insert("field_capabilities".into(), capabilities.into());
        members.insert("expand_capabilities".into(), self.expansions(seen));
        std::mem::take(members)
    }

    fn key(&self, seen: Seen<'_>) -> Vec<String> {
        let key = &seen.source.decl.key;
        if key.iter().all(|name| seen.field(name)) { key.clone() } else { Vec::new() }
    }

    fn schema(&self, params: &Params) -> Result<J, Refusal> {
        let (wanted, stream) = (params.connection()?, params.text("stream"));
        let (compact, full) = (params.text("view").is_some(), params.text("detail").is_some());
        if full && (compact || stream.is_none()) {
            return Err(INVALID);
        }
        let mut sources = match stream {
            Some(stream) => self.of(stream, wanted)?,
            None => self.sources(),
        };
        if full && sources.len() > 1 {
            return Err(("ambiguous_schema_detail", 409));
        }
        sources.retain(|seen| wanted.is_none_or(|wanted| seen.source.connection == wanted));
        let names: BTreeSet<&str> =
            sources.iter().map(|seen| seen.source.connection.as_str()).collect();
        let connectors: Vec<Json> = names
            .iter()
            .map(|name| {
                let own = sources.iter().filter(|seen| seen.source.connection == *name);
                let streams: Vec<Json> = own
                    .map(|seen| match compact {
                        true => self.in_short(*seen),
                        false => Json::Object(self.described(*seen)),
                    })
                    .collect();
                json!({
                    "object": "connector", "source": { "id": name, "kind": "connector" }, "connector_key": name,
                    "connector_id": name, "stream_count": streams.len(),
                    "granted_connections": [{ "connection_id": name }], "streams": streams,
                })
            })
            .collect();
        let bearer = match self.who {
            Who::Owner => {
                json!({ "scope": "owner", "token_kind": "owner", "grant_id": null, "client_id": null })
            }
            Who::Client(grant) => json!({
                "scope": "grant", "token_kind": "client", "grant_id": grant.id, "client_id": grant.client,
            }),
        };
        let mut answer = json!({
            "object": "schema", "bearer": bearer, "connector_count": connectors.len(), "stream_count": sources.len(),
            "connectors": connectors, "links": { "self": "/v1/schema" },
        });
        if compact {
            answer["detail"] = "compact".into();
        }
        let mut answer = J::of(&answer);
        put(&mut answer, "meta", params.meta());
        Ok(answer)
    }

    fn in_short(&self, seen: Seen<'_>) -> Json {
        let decl = &seen.source.decl;
        let fields: Map<String, Json> = seen
            .fields()
            .into_iter()
            .map(|field| {
                let mut flags = format!("t={}", field.types().join("|"));
                if decl.exact(field) {
                    flags += ",eq";
                }
                if !field.ops.is_empty() {
                    flags += &format!(",r={}", field.ops.join("|"));
                }
                if field.lexical {
                    flags += ",lex";
                }
                if !field.aggregations.is_empty() {
                    flags += &format!(",a={}", field.aggregations.join("|"));
                }
                (field.name.clone(), flags.into())
            })
            .collect();
        let mut stream = json!({
            "name": seen.source.stream, "primary_key": self.key(seen), "field_capabilities": fields,
            "expand_capabilities": self.expansions(seen),
        });
        if let Some(cursor) = decl.cursor.as_ref().filter(|name| seen.field(name)) {
            stream["cursor_field"] = cursor.as_str().into();
        }
        stream
    }

    pub(crate) fn known(&self, sources: &[Seen<'_>], name: &str) -> Result<(), Refusal> {
        match self.who {
            Who::Owner if sources.iter().any(|seen| seen.source.decl.field(name).is_some()) => {
                Ok(())
            }
            Who::Owner => Err(("unknown_field", 400)),
            Who::Client(_) if sources.iter().any(|seen| seen.field(name)) => Ok(()),
            Who::Client(_) => Err(NOT_GRANTED),
        }
    }

    /// The fields that are shown; none is all that may be.
    pub(crate) fn wanted(
        &self,
        sources: &[Seen<'_>],
        params: &Params,
    ) -> Result<Option<BTreeSet<String>>, Refusal> {
        let view = self.view(sources, params)?;
        let Some(names) = view.as_ref().or(params.names.get("fields")) else { return Ok(None) };
        names.iter().try_for_each(|name| self.known(sources, name))?;
        let required = sources.iter().flat_map(|seen| seen.source.decl.required.iter());
        Ok(Some(names.iter().chain(required).cloned().collect()))
    }

    /// That the conditions may be asked.
    pub(crate) fn allowed(&self, sources: &[Seen<'a>], params: &Params) -> Result<(), Refusal> {
        for (_, field, op, value) in &params.conditions {
            self.known(sources, field)?;
            let mut kinds = BTreeSet::new();
            for seen in sources {
                let Some(decl) = seen.source.decl.field(field) else { return Err(INVALID) };
                let Some(op) = op.filter(|op| OPS.contains(op)) else {
                    if seen.source.decl.exact(decl) {
                        continue;
                    }
                    return Err(INVALID);
                };
                let time = decl.is_time();
                let fits = if time { time_of_text(value).is_some() } else { is_number(value) };
                if !decl.ops.iter().any(|own| own == op) || !fits {
                    return Err(INVALID);
                }
                kinds.insert(time);
            }
            if kinds.len() > 1 {
                return Err(INVALID);
            }
        }
        Ok(())
    }

    /// What is said of values that the conditions pass over, among some of the records.
    pub(crate) fn passed_over(
        &self,
        sources: &[Seen<'a>],
        params: &Params,
        counts: &dyn Fn(&Seen<'a>, &str, &Rec) -> bool,
    ) -> Vec<J> {
        let mut found = BTreeSet::new();
        // It is said on the first page.
        if params.text("cursor").is_some() {
            return Vec::new();
        }
        for (_, field, op, _) in &params.conditions {
            let is_time = sources[0].source.decl.is_time(field);
            let is_list =
                sources.iter().any(|seen| seen.source.decl.field(field).unwrap().is_list());
            match op {
                Some("exists") => {}
                Some("in") | None if is_list => drop(found.insert((field.clone(), 2))),
                Some("in") | None => {}
                Some(_) => drop(found.insert((field.clone(), i32::from(is_time)))),
            }
        }
        let mut warnings = Vec::new();
        for (field, kind) in found {
            let with_field: BTreeSet<Option<u8>> =
                params.conditions.iter().filter(|own| own.1 == field).map(|own| own.0).collect();
            let mut others = params.clone();
            let is_dropped = with_field.iter().any(Option::is_some);
            others.conditions.retain(|own| own.1 != field && !(is_dropped && own.0.is_some()));
            let records = sources.iter().flat_map(|seen| {
                seen.records().filter(|(key, record)| {
                    let own = record.field(&field).filter(|own| **own != FieldValue::Null);
                    let is_passed = own.is_some_and(|own| match kind {
                        0 => !matches!(own, FieldValue::Number(_)),
                        1 => !matches!(own, FieldValue::Text(text) if time_of_text(text).is_some()),
                        _ => matches!(own, FieldValue::Json(json) if json.len() > 1024),
                    });
                    is_passed && seen.passes(record, &others) && counts(seen, key, record)
                })
            });
            let count = records.count();
            let message = match kind {
                0 => format!(
                    "`{field}` is not a number in {count} record(s), which the filter passes over"
                ),
                1 => format!(
                    "`{field}` is not a time in {count} record(s), which the filter passes over"
                ),
                _ => format!(
                    "`{field}` is longer than 1024 bytes in {count} record(s), and a filter does not look into such a list"
                ),
            };
            if count > 0 {
                warnings.push(J::of(&json!({
                    "code": "values_passed_over", "param": "filter", "message": message,
                    "detail": { "field": field, "records": count },
                })));
            }
        }
        warnings
    }

    fn list(&self, request: &OperationRequest, params: &Params) -> Result<List, Refusal> {
        let sources = self.of(&request.stream, params.connection()?)?;
        self.owner_only(params)?;
        params.bounded()?;
        let changes = params.text("changes_since");
        if changes.is_some() {
            let listed =
                ["order", "sort", "count", "view"].iter().any(|name| params.text(name).is_some());
            if listed || !params.conditions.is_empty() {
                return Err(INVALID);
            }
            if params.names.contains_key("expand") || !params.limits.is_empty() {
                return Err(("invalid_expand", 400));
            }
        }
        let wanted = self.wanted(&sources, params)?;
        // No token that a test draws is a good one.
        if changes.is_some_and(|since| since != "beginning") {
            return Err(CURSOR);
        }
        self.allowed(&sources, params)?;
        let descending = changes.is_none() && self.descending(&sources, params)?;
        let related = self.related(&sources, params)?;
        let mut rows = Vec::new();
        for seen in &sources {
            for (key, record) in seen.records() {
                if seen.passes(record, params) {
                    let mut shown = shown(seen, key, record, wanted.as_ref(), params.cut(0));
                    self.expand(seen, key, record, &related, params, &mut shown);
                    let place = place(seen, record).filter(|_| changes.is_none());
                    rows.push((place, seen.source.connection.as_str(), key, shown));
                }
            }
        }
        let limit = params.number("limit").unwrap_or(25) as usize;
        let mut meta = params.meta();
        add_warnings(&mut meta, self.passed_over(&sources, params, &|_, _, _| true));
        if params.text("count").is_some_and(|count| count != "none") {
            put(&mut meta, "count", J::of(&json!({ "kind": "exact", "value": rows.len() })));
        }
        Ok(List { rows: sorted(rows, descending), limit, meta, changes: changes.is_some() })
    }

    fn one(&self, sources: &[Seen<'a>], key: &str) -> Result<(Seen<'a>, &'a Rec), Refusal> {
        let having: Vec<(Seen<'a>, &Rec)> = sources
            .iter()
            .filter_map(|seen| Some((*seen, seen.records().find(|(own, _)| *own == key)?.1)))
            .collect();
        match having.as_slice() {
            [] => Err(NOT_FOUND),
            [one] => Ok(*one),
            _ => Err(("ambiguous_connection", 409)),
        }
    }

    /// A record from so many of its fields on.
    pub(crate) fn record_after(
        &self,
        request: &OperationRequest,
        before: usize,
    ) -> Result<J, Refusal> {
        self.record(request, &Params::parse(request)?, before)
    }

    fn record(
        &self,
        request: &OperationRequest,
        params: &Params,
        before: usize,
    ) -> Result<J, Refusal> {
        let sources = self.of(&request.stream, params.connection()?)?;
        self.owner_only(params)?;
        params.bounded()?;
        let wanted = self.wanted(&sources, params)?;
        let related = self.related(&sources, params)?;
        let (seen, own) = self.one(&sources, &request.key)?;
        // No cursor is so short.
        if params.text("fields_cursor").is_some_and(|cursor| cursor.len() < 40) {
            return Err(CURSOR);
        }
        let mut record = shown(&seen, &request.key, own, wanted.as_ref(), params.cut(before));
        self.expand(&seen, &request.key, own, &related, params, &mut record);
        put(&mut record, "meta", params.meta());
        Ok(record)
    }

    /// The path and the value that a window is of: a field, or a value within it.
    fn windowed(
        &self,
        request: &OperationRequest,
        params: &Params,
    ) -> Result<(Seen<'a>, Windowed), Refusal> {
        let path = params.text("field").unwrap_or_default();
        let splits: Vec<(&str, &str)> = (0..=path.len())
            .rev()
            .filter(|at| *at == path.len() || path.as_bytes()[*at] == b'/')
            .map(|at| path.split_at(at))
            .filter(|(name, pointer)| {
                let is_name = !name.is_empty() && name.len() <= 512 && !name.contains('\0');
                let escapes = pointer.replace("~0", "").replace("~1", "");
                is_name && !escapes.contains('~')
            })
            .collect();
        if splits.is_empty() {
            return Err(("invalid_field_path", 400));
        }
        let sources = self.of(&request.stream, params.connection()?)?;
        if !splits.iter().any(|(name, _)| sources.iter().any(|seen| seen.field(name))) {
            return Err(NOT_GRANTED);
        }
        let (seen, record) = self.one(&sources, &request.key)?;
        let had = splits.into_iter().find_map(|(name, pointer)| {
            let value = record.field(name).filter(|_| seen.field(name))?;
            Some((value, pointer))
        });
        let missing = ("field_not_found", 404);
        let (outer, pointer) = had.ok_or(missing)?;
        let value = places::value_at(outer, pointer).ok_or(missing)?;
        Ok((seen, Windowed { path: path.to_owned(), value, is_inner: !pointer.is_empty() }))
    }

    fn window(
        &self,
        request: &OperationRequest,
        params: &Params,
        seen: &Seen<'_>,
        windowed: &Windowed,
    ) -> Result<Window, Refusal> {
        let Windowed { path, value, is_inner } = windowed;
        let is_bytes = !is_inner && is_binary(&seen.source.decl, path, value);
        if is_bytes || is_only_a_blob(value) {
            return Err(("field_not_text", 422));
        }
        let text = text_of(value);
        let chars: Vec<char> = text.chars().collect();
        let total = chars.len();
        let explicit = params.number("limit_chars").map(|limit| limit as usize);
        let (start, end, limit, found) = match params.text("q") {
            None => {
                let limit = explicit.unwrap_or(4096);
                let start = params
                    .number("offset_chars")
                    .map_or(0, |offset| offset.min(total as u64) as usize);
                (start, (start + limit).min(total), limit, None)
            }
            Some(q) => {
                let needle: Vec<char> = q.chars().map(fold).collect();
                let folded: Vec<char> = chars.iter().copied().map(fold).collect();
                let at = folded.windows(needle.len()).position(|window| window == needle);
                let Some(at) = at else { return Err(("query_not_found", 404)) };
                let limit = explicit.unwrap_or(16_384);
                let Some(spare) = limit.checked_sub(needle.len()) else { return Err(WINDOW) };
                let until = at + needle.len();
                let before = (params.number("before_chars").unwrap_or(2048) as usize).min(at);
                let after =
                    (params.number("after_chars").unwrap_or(2048) as usize).min(total - until);
                // Where both do not fit, each has its share of what there is.
                let (before, after) = if before + after <= spare {
                    (before, after)
                } else {
                    let first = before * spare / (before + after);
                    (first, spare - first)
                };
                (at - before, until + after, limit, Some((at, until)))
            }
        };
        let is_text = matches!(value, FieldValue::Text(_));
        let kind = match value {
            FieldValue::Null => "null",
            FieldValue::Bool(_) => "boolean",
            FieldValue::Number(_) => "number",
            FieldValue::Text(_) => "string",
            FieldValue::Json(json) if json.len() > if *is_inner { 65_536 } else { 1024 } => "json",
            FieldValue::Json(json) if json.starts_with('[') => "array",
            FieldValue::Json(_) => "object",
        };
        let mut around = around(request, params, seen);
        let field = json!({
            "path": path, "type": kind, "text_like": is_text,
            "mime_type": if is_text { "text/plain" } else { "application/json" },
            "size_chars": total, "digest": digest_of(&text),
        });
        put(&mut around, "field", J::of(&field));
        // Around a text that was found the usual size goes on, and not the most of a window.
        let step = if found.is_some() { explicit.unwrap_or(4096) } else { limit };
        let mut references = Vec::new();
        if let FieldValue::Json(json) = value {
            for placed in places::all(json).iter().filter(|placed| places::names_blob(placed.json))
            {
                let one = J::parse(placed.json);
                let kind = one.get("mime_type").text().unwrap_or_default().to_ascii_lowercase();
                let kind = match kind.as_str() {
                    "image/png" | "image/png;x=1" => Some("image/png"),
                    "text/html" => Some("text/html"),
                    _ => None,
                };
                let digest = one.get("blob_id").text().unwrap().replace('-', ":");
                let reference = json!({
                    "path": format!("{path}{}", placed.pointer), "mime_type": kind,
                    "size_bytes": null, "digest": digest, "end_chars": placed.end_chars,
                });
                references.push((placed.end_chars, reference));
            }
        }
        Ok(Window { chars, start, end, limit, step, found, references, around })
    }
}

/// What an answer with a window says beside its field and the window.
fn around(request: &OperationRequest, params: &Params, seen: &Seen<'_>) -> J {
    let mut around = J::of(&json!({
        "object": "field_window", "url": request.path(), "stream": request.stream, "record_id": request.key,
        "connection_id": seen.source.connection, "links": {},
    }));
    put(&mut around, "meta", params.meta());
    around
}

impl Window {
    /// That nothing is sent that contradicts something else.
    fn check(params: &Params) -> Result<(), Refusal> {
        let has = |name: &str| params.texts.contains_key(name) || params.numbers.contains_key(name);
        let contexts = has("before_chars") || has("after_chars");
        if has("cursor") && (has("offset_chars") || has("q") || contexts)
            || has("q") && has("offset_chars")
            || !has("q") && contexts
        {
            return Err(WINDOW);
        }
        if params.text("q").is_some_and(|q| !(1..=1024).contains(&q.chars().count())) {
            return Err(WINDOW);
        }
        Ok(())
    }

    /// The answer without its cursors.
    pub(crate) fn shown(&self) -> J {
        let Self { chars, start, end, limit, step, found, references, around } = self;
        let (total, start, end) = (chars.len(), *start, *end);
        let next = (end < total).then_some(end);
        let mut shown = around.clone();
        let mut window = json!({
            "text": chars[start..end].iter().collect::<String>(), "total_chars": total, "start_chars": start,
            "end_chars": end, "limit_chars": limit, "complete": start == 0 && end == total,
            "has_more": next.is_some(), "next_offset_chars": next,
            "previous_offset_chars": (start > 0).then(|| start.saturating_sub(*step)),
            "match_start_chars": found.map(|found| found.0), "match_end_chars": found.map(|found| found.1),
        });
        let ends_here = |(at, _): &&(usize, Json)| start < *at && *at <= end;
        let references: Vec<&Json> =
            references.iter().filter(ends_here).map(|(_, reference)| reference).collect();
        if !references.is_empty() {
            window["references"] = json!(references);
        }
        put(&mut shown, "window", J::of(&window));
        shown
    }

    /// The window that begins elsewhere.
    pub(crate) fn at(self, start: usize, limit: usize) -> Self {
        let end = (start + limit).min(self.chars.len());
        Self { start, end, limit, step: limit, found: None, ..self }
    }
}

pub(crate) fn put(object: &mut J, name: &str, value: J) {
    if let J::Obj(members) = object {
        members.insert(name.to_owned(), value);
    }
}

pub(crate) fn text_of(value: &FieldValue) -> String {
    match value {
        FieldValue::Null => "null".to_owned(),
        FieldValue::Bool(value) => value.to_string(),
        FieldValue::Number(digits) => digits.to_string(),
        FieldValue::Text(text) | FieldValue::Json(text) => text.clone(),
    }
}

pub(crate) fn digest_of(text: &str) -> String {
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    digest.as_ref().iter().fold("sha256:".to_owned(), |hex, byte| format!("{hex}{byte:02x}"))
}

/// Whether a value is bytes: its field is declared so, and it is base64.
pub(crate) fn is_binary(decl: &Decl, name: &str, value: &FieldValue) -> bool {
    let declared = decl.field(name).is_some_and(|field| {
        ["base64", "base64url"].iter().any(|known| field.schema["contentEncoding"] == *known)
    });
    let FieldValue::Text(text) = value else { return false };
    let padding = text.chars().rev().take_while(|c| *c == '=').count();
    let letters: Vec<char> = text.chars().take(text.chars().count() - padding).collect();
    let whole = text.len() % 4 == 0 && padding <= 2 || padding == 0 && text.len() % 4 != 1;
    declared
        && whole
        && !letters.is_empty()
        && letters.iter().all(|c| c.is_ascii_alphanumeric() || "+/-_".contains(*c))
}

/// Whether a value can be read by bytes: it names a blob, whatever it says or does not say besides.
pub(crate) fn has_bytes(decl: &Decl, name: &str, value: &FieldValue) -> bool {
    let names_one = || matches!(value, FieldValue::Json(json) if places::names_blob(json));
    is_binary(decl, name, value) || is_only_a_blob(value) || names_one()
}

/// Whether a value names a blob and says little else.
pub(crate) fn is_only_a_blob(value: &FieldValue) -> bool {
    let FieldValue::Json(json) = value else { return false };
    let members: Option<serde_json::Map<String, Json>> = serde_json::from_str(json).ok();
    let is_short = |value: &Json| match value {
        Json::String(text) => text.len() < 256,
        Json::Array(_) | Json::Object(_) => false,
        _ => true,
    };
    is_blob(value) && json.len() <= 512 && members.is_some_and(|all| all.values().all(is_short))
}

pub(crate) fn is_blob(value: &FieldValue) -> bool {
    let FieldValue::Json(json) = value else { return false };
    let json = J::parse(json);
    json.get("blob_id").text().is_some() && json.get("mime_type").text().is_some()
}

/// Records in the order of lists: their places, connections and keys, and how they are shown.
pub(crate) fn sorted(mut rows: Vec<(Option<Place>, &str, &str, J)>, descending: bool) -> Vec<J> {
    rows.sort_by(|a, b| {
        let none_last = a.0.is_none().cmp(&b.0.is_none());
        let rest = compare(&a.0, &b.0).then(a.1.cmp(b.1)).then(a.2.as_bytes().cmp(b.2.as_bytes()));
        none_last.then(if descending { rest.reverse() } else { rest })
    });
    rows.into_iter().map(|row| row.3).collect()
}

/// Where a record stands in a list.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Number(f64),
    Time(i64),
    Text(Vec<u8>),
}

pub(crate) fn place(seen: &Seen<'_>, record: &Rec) -> Option<Place> {
    let decl = &seen.source.decl;
    let cursor = decl.cursor.as_ref().filter(|name| seen.field(name))?;
    match record.field(cursor)? {
        FieldValue::Number(digits) => Some(Place::Number(digits.parse().unwrap())),
        FieldValue::Text(text) if text.is_empty() => None,
        FieldValue::Text(text) => Some(match time_of_text(text).filter(|_| decl.is_time(cursor)) {
            Some(time) => Place::Time(time),
            // Texts that begin alike go by key.
            None => Place::Text(text.bytes().take(63).collect()),
        }),
        _ => None,
    }
}

pub(crate) fn compare(a: &Option<Place>, b: &Option<Place>) -> Ordering {
    let rank = |place: &Option<Place>| match place {
        None => 0,
        Some(Place::Number(_)) => 1,
        Some(Place::Time(_)) => 2,
        Some(Place::Text(_)) => 3,
    };
    match (a, b) {
        (Some(Place::Number(a)), Some(Place::Number(b))) => a.partial_cmp(b).unwrap(),
        (Some(Place::Time(a)), Some(Place::Time(b))) => a.cmp(b),
        (Some(Place::Text(a)), Some(Place::Text(b))) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn is(value: &FieldValue, wanted: &str) -> bool {
    match value {
        FieldValue::Json(_) => members(value).iter().any(|member| is(member, wanted)),
        FieldValue::Number(digits) => {
            **digits == *wanted || compare_numbers(digits, wanted) == Some(Ordering::Equal)
        }
        other => text_of(other) == wanted,
    }
}

/// The members of a list that is not kept in pieces, as far as they are no lists and objects.
pub(crate) fn members(value: &FieldValue) -> Vec<FieldValue> {
    let all = members_and_nested(value);
    all.into_iter().filter(|member| !matches!(member, FieldValue::Json(_))).collect()
}

/// All members of a list, also those that are lists or objects.
pub(crate) fn members_and_nested(value: &FieldValue) -> Vec<FieldValue> {
    let FieldValue::Json(json) = value else { return Vec::new() };
    if json.len() > 1024 || !json.starts_with('[') {
        return Vec::new();
    }
    let Ok(all) = serde_json::from_str::<Vec<Json>>(json) else { return Vec::new() };
    let member = |member: Json| match member {
        Json::Null => FieldValue::Null,
        Json::Bool(value) => FieldValue::Bool(value),
        Json::Number(number) => FieldValue::Number(number.to_string().into()),
        Json::String(text) => FieldValue::Text(text),
        nested @ (Json::Array(_) | Json::Object(_)) => FieldValue::Json(nested.to_string()),
    };
    all.into_iter().map(member).collect()
}

fn in_range(value: &FieldValue, op: &str, bound: &str, is_time: bool) -> bool {
    let order = match value {
        FieldValue::Number(digits) if !is_time => compare_numbers(digits, bound),
        FieldValue::Text(text) if is_time => {
            time_of_text(text).map(|time| time.cmp(&time_of_text(bound).unwrap()))
        }
        _ => None,
    };
    order.is_some_and(|order| match op {
        "gte" => order.is_ge(),
        "gt" => order.is_gt(),
        "lte" => order.is_le(),
        _ => order.is_lt(),
    })
}

pub(crate) fn is_number(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
        && text.trim() == text
        && text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

/// By their exact values: both are written out in plain digits and compared like texts.
pub(crate) fn compare_numbers(a: &str, b: &str) -> Option<Ordering> {
    if !is_number(a) || !is_number(b) {
        return None;
    }
    let ((a, below), (b, also_below)) = (written_out(a), written_out(b));
    Some(match (below, also_below) {
        (false, false) => a.cmp(&b),
        (true, true) => b.cmp(&a),
        (below, also_below) => also_below.cmp(&below),
    })
}

/// The digits of a number, 3000 before the point and 3000 after it, and whether it is below zero.
fn written_out(text: &str) -> (String, bool) {
    const PLACES: i64 = 3000;
    let size = text.trim_start_matches('-').to_lowercase();
    let (mantissa, exponent) = size.split_once('e').unwrap_or((&size, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let before = PLACES - whole.len() as i64 - exponent.parse::<i64>().unwrap();
    let mut digits = "0".repeat(before.try_into().unwrap()) + whole + fraction;
    digits.push_str(&"0".repeat(2 * PLACES as usize - digits.len()));
    let below = text.starts_with('-') && digits.contains(|digit| digit != '0');
    (digits, below)
}

/// Simple case folding, of the letters that the model uses.
fn fold(character: char) -> char {
    match character {
        'ſ' => 's',
        'K' => 'k',
        'ς' => 'σ',
        _ => {
            let mut lower = character.to_lowercase();
            match (lower.next(), lower.next()) {
                (Some(only), None) => only,
                _ => character,
            }
        }
    }
}
