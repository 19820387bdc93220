//! Random databases of records, requests to them, and the slow oracle that knows each answer.
//!
//! The tests of the operations and those of the ladder share this module. `STILE_RIG_SEED` repeats
//! the choices of a run and `STILE_RIG_SCALE` makes more of them.

pub(crate) mod blobs;
pub(crate) mod home;
pub(crate) mod json;
pub(crate) mod model;
pub(crate) mod oracle;
mod oracle_aggregate;
mod oracle_related;
pub(crate) mod pair;
pub(crate) mod places;

use std::fmt;

use stile_domain::percent;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::value::FieldValue;
use stile_domain::scope::Scopes;
use stile_records::RecordService;
use stile_records::operation_declaration::{
    OperationAccess, OperationCall, OperationDeclaration, OperationHandler, RemoveHandler,
};
use stile_records::operations::OPERATIONS;
use stile_records::request_target::RequestTarget;
use stile_testkit::chance::Chance;

use model::{
    CONNECTIONS, FIELDS, Grant, KEYS, NUMBERS, OPS, Rec, SHORTS, STREAMS, Source, TIMES, World,
    pick, some,
};

pub(crate) fn owner() -> Principal {
    Principal::assert_verified("ann", None, None, Scopes::none(), RecordsClaim::Owner)
}

pub(crate) fn client(grant: &str, token: &str) -> Principal {
    Principal::assert_verified(
        "ann",
        Some(token),
        None,
        Scopes::none(),
        RecordsClaim::Grant(grant.into()),
    )
}

/// A request, before it is sent.
#[derive(Clone)]
pub(crate) struct OperationRequest {
    pub(crate) operation: &'static OperationDeclaration,
    pub(crate) stream: String,
    pub(crate) key: String,
    pub(crate) pairs: Vec<(String, String)>,
}

impl fmt::Debug for OperationRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} of {:?} {:?}: {:?}", self.operation.id, self.stream, self.key, self.pairs)
    }
}

/// The operations that a client may call.
pub(crate) fn read_operations() -> Vec<&'static OperationDeclaration> {
    let granted = |operation: &&OperationDeclaration| operation.access == OperationAccess::Granted;
    OPERATIONS.iter().copied().filter(granted).collect()
}

/// Whether an endpoint answers with pages of a list.
pub(crate) fn gives_pages(operation: &str) -> bool {
    matches!(operation, "listRecords" | "search" | "aggregateRecords")
}

impl OperationRequest {
    pub(crate) fn path(&self) -> String {
        let path =
            self.operation.path.replace("{stream}", &percent::encode_component(&self.stream));
        path.replace("{id}", &percent::encode_component(&self.key))
            .replace("{blob_id}", &percent::encode_component(&self.key))
    }

    pub(crate) fn is_blob(&self) -> bool {
        self.operation.path.contains("{blob_id}")
    }

    /// The query without its cursor.
    pub(crate) fn query(&self) -> String {
        let others = self.pairs.iter().filter(|(name, _)| name != "cursor");
        let parts: Vec<String> = others
            .map(|(name, value)| {
                format!("{}={}", percent::encode_component(name), percent::encode_component(value))
            })
            .collect();
        parts.join("&")
    }

    /// The same with another value of a parameter.
    pub(crate) fn with(&self, name: &str, value: impl ToString) -> Self {
        let mut request = self.clone();
        request.pairs.retain(|(own, _)| own != name);
        request.pairs.push((name.to_owned(), value.to_string()));
        request
    }

    fn target(&self) -> RequestTarget {
        RequestTarget {
            stream: self.stream.clone(),
            key: self.key.clone(),
            grant: String::new(),
            pairs: self.pairs.clone(),
            path: self.path(),
            query: self.query(),
        }
    }

    /// The call of an operation that removes.
    pub(crate) fn remove_call(&self) -> OperationCall<RemoveHandler> {
        let OperationHandler::Remove(handler) = self.operation.handler else { panic!("{self:?}") };
        OperationCall { operation: self.operation, handler, target: self.target() }
    }

    pub(crate) fn send(
        &self,
        services: &RecordService,
        caller: &Principal,
    ) -> Result<String, Problem> {
        self.send_at(services, caller, Instant(model::NOW))
    }

    pub(crate) fn send_at(
        &self,
        services: &RecordService,
        caller: &Principal,
        now: Instant,
    ) -> Result<String, Problem> {
        let (operation, target) = (self.operation, self.target());
        match operation.handler {
            OperationHandler::Read(handler) => {
                let mut body = String::new();
                let call = OperationCall { operation, handler, target };
                services.answer(caller, now, &call, &mut body).map(|()| body)
            }
            OperationHandler::Blob(handler) => {
                blobs::send(services, caller, now, &OperationCall { operation, handler, target })
            }
            OperationHandler::Remove(_)
            | OperationHandler::Inspect(_)
            | OperationHandler::Store(_) => panic!("{self:?}"),
        }
    }
}

/// Something to search for, most of it such as some records have.
pub(crate) fn words(
    chance: &mut Chance,
    stored: Option<&Rec>,
    searched: &dyn Fn(&str) -> bool,
) -> String {
    let fixed = [
        "a", "A", "null", "true", "1", "e\u{301}", "中", "\"中文\"", "👩", "x y", "\"x y\"",
        "STRASSE", "straße", "k", "σας", "b amp", "nee*", "\"needle ste\"", "ste lorem", "lorem*",
        "\"ipsum lorem ipsum\"", "*", "!?", "\"", "2026*", "2026-01-01", "needle a*", "ασ s",
        "aaaa*", "NOT a", "soon",
    ];
    let own: Vec<&str> = stored
        .into_iter()
        .flat_map(|record| &record.fields)
        .filter_map(|(name, value)| match value {
            FieldValue::Text(text) if searched(name) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let parts = (0..some(chance, &[1, 1, 2])).map(|_| {
        if own.is_empty() || chance.happens(35) {
            return pick(chance, &fixed).to_owned();
        }
        let text: Vec<char> = pick(chance, &own).chars().collect();
        let part = text
            .iter()
            .skip(chance.below(text.len() + 1))
            .take(1 + chance.below(60))
            .collect::<String>();
        if chance.happens(30) { format!("\"{part}\"") } else { part }
    });
    let mut words = parts.collect::<Vec<_>>().join(" ");
    let names: Vec<String> = stored
        .into_iter()
        .flat_map(|record| &record.fields)
        .map(|(name, _)| name.clone())
        .chain(["subject", "body", "nothing"].map(str::to_owned))
        .collect();
    if chance.happens(20) {
        words = format!("{}:{words}", some(chance, &names));
    }
    if chance.happens(20) {
        words += " -";
        if chance.happens(40) {
            words += &format!("{}:", some(chance, &names));
        }
        words += pick(chance, &fixed);
    }
    words
}

/// Draws a request about a world, most of them such as succeed.
pub(crate) fn draw(
    chance: &mut Chance,
    world: &World,
    grant: Option<&Grant>,
    operation: &'static OperationDeclaration,
) -> OperationRequest {
    // Mostly about what may be seen.
    let mut sources: Vec<&Source> = world.sources.iter().collect();
    if let Some(grant) = grant.filter(|_| chance.happens(85)) {
        let shown: Vec<&Source> =
            sources.iter().copied().filter(|source| grant.share(source).is_some()).collect();
        sources = if shown.is_empty() { sources } else { shown };
    }
    let source = some(chance, &sources);
    let share = grant.and_then(|grant| grant.share(source)).filter(|_| chance.happens(80));
    let seen = |(key, record): &(&String, &Rec)| share.is_none_or(|share| share.sees(key, record));
    let records: Vec<&String> = source.records.iter().filter(seen).map(|(key, _)| key).collect();
    let inside = chance.happens(85);
    let stream = match (inside, chance.happens(70)) {
        (true, _) => source.stream.clone(),
        (false, true) => pick(chance, STREAMS).to_owned(),
        (false, false) => {
            pick(chance, &["unknown", "", "Messages", "messages ", "messages\0"]).to_owned()
        }
    };
    let key = if inside && !records.is_empty() && chance.happens(85) {
        some(chance, &records).clone()
    } else {
        some(chance, &KEYS)
    };
    let key = if operation.path.contains("{blob_id}") { blobs::draw(chance) } else { key };
    let name = |chance: &mut Chance| -> String {
        match share {
            Some(share) if chance.happens(92) => some(chance, &share.fields),
            _ if chance.happens(95) => some(chance, &FIELDS).0,
            _ => pick(chance, &["undeclared", "nope", "", "a\0"]).to_owned(),
        }
    };
    let stored = source.records.get(&key).or_else(|| source.records.values().next());
    let mut pairs: Vec<(String, String)> = Vec::new();
    let has = |name: &str| operation.parameters.iter().any(|parameter| parameter.name == name);
    let rare = if operation.path.contains("{blob_id}") { 20 } else { 8 };
    for (parameter, percent) in [("connection_id", 45), ("connector_instance_id", rare)] {
        if has(parameter) && chance.happens(percent) {
            let connection = match chance.below(10) {
                0 => pick(chance, &["nowhere", "", "*"]).to_owned(),
                1 | 2 => pick(chance, CONNECTIONS).to_owned(),
                _ => source.connection.clone(),
            };
            pairs.push((parameter.to_owned(), connection));
        }
    }
    if operation.id == "getSchema" && chance.happens(40) {
        pairs.push(("view".into(), "compact".into()));
    }
    if has("stream") && chance.happens(50) {
        pairs.push(("stream".into(), stream.clone()));
    }
    if has("detail") && chance.happens(25) {
        pairs.push(("detail".into(), "full".into()));
    }
    if has("limit") && chance.happens(70) {
        pairs.push((
            "limit".into(),
            pick(chance, &["1", "2", "3", "5", "100", "101", "999999"]).to_owned(),
        ));
    }
    if has("cursors") && chance.happens(35) {
        pairs.push(("cursors".into(), pick(chance, &["page", "each", "each", "each"]).to_owned()));
    }
    let changes = has("changes_since") && chance.happens(20);
    if changes {
        let since = if chance.happens(90) {
            "beginning"
        } else {
            pick(chance, &["", "2026-01-01", "AAAA", "\0"])
        };
        pairs.push(("changes_since".into(), since.into()));
    }
    // What does not go with that is mostly left out.
    let has = |name: &str| has(name) && !(changes && matches!(name, "order" | "filter"));
    if has("order") && chance.happens(60) {
        let orders: &[&str] = match operation.id {
            "search" => &["newest", "relevance"],
            "aggregateRecords" => oracle_aggregate::ORDERS,
            _ => &["asc", "desc"],
        };
        pairs.push(("order".into(), pick(chance, orders).to_owned()));
    }
    if has("preview_chars") && chance.happens(40) {
        let chars = pick(chance, &["0", "1", "3", "100", "1024", "8191", "8193", "16384"]);
        pairs.push(("preview_chars".into(), chars.to_owned()));
    }
    let previewed = pairs.iter().any(|(name, _)| name == "preview_chars");
    if has("preview_bytes") && chance.happens(if previewed { 60 } else { 2 }) {
        let bytes = pick(chance, &["256", "257", "300", "500", "1000", "4000", "65536"]);
        pairs.push(("preview_bytes".into(), bytes.to_owned()));
    }
    if has("fields") && chance.happens(35) {
        let names: Vec<String> = (0..1 + chance.below(3)).map(|_| name(chance)).collect();
        match chance.below(3) {
            0 => pairs.push(("fields".into(), names.join(","))),
            1 => pairs.extend(names.into_iter().map(|name| ("fields".to_owned(), name))),
            // One name each, whatever is in it.
            _ => pairs.extend(names.into_iter().map(|name| {
                let name = if chance.happens(10) { format!("{name},{name}") } else { name };
                ("fields[]".to_owned(), name)
            })),
        }
    }
    let filters = if operation.id == "search" { 25 } else { 40 };
    if has("filter") && chance.happens(filters) {
        for _ in 0..1 + chance.below(2) {
            let field = name(chance);
            let own = stored.and_then(|record| record.field(&field)).filter(|_| chance.happens(70));
            let value = match own {
                Some(FieldValue::Text(text) | FieldValue::Json(text)) => text.clone(),
                Some(FieldValue::Number(digits)) => digits.to_string(),
                Some(other) => other.to_json(),
                None => match chance.below(4) {
                    0 => pick(chance, NUMBERS).to_owned(),
                    1 => some(chance, TIMES).0.to_owned(),
                    2 => pick(chance, &["+1", "1 ", "inf", "NaN", "01", "[]", "TRUE"]).to_owned(),
                    _ => pick(chance, SHORTS).to_owned(),
                },
            };
            // A member of a list.
            let value = match serde_json::from_str::<Vec<serde_json::Value>>(&value) {
                Ok(all) if !all.is_empty() && chance.happens(80) => {
                    let member = some(chance, &all);
                    member.as_str().map_or_else(|| member.to_string(), str::to_owned)
                }
                _ => value,
            };
            match chance.below(12) {
                0..4 => pairs.push((format!("filter[{field}]"), value)),
                10..12 => {
                    let number = chance.below(3);
                    let range = if chance.happens(50) { "" } else { "[gte]" };
                    pairs.push((format!("or[{number}][{field}]{range}"), value));
                    let other = name(chance);
                    let value = pick(chance, SHORTS).to_owned();
                    pairs.push((format!("or[1][{other}]"), value));
                }
                4 => {
                    let wanted = pick(chance, &["true", "false", "false", "no"]);
                    pairs.push((format!("filter[{field}][exists]"), wanted.to_owned()));
                }
                5 => {
                    pairs.push((format!("filter[{field}][in]"), value));
                    let other = pick(chance, SHORTS).to_owned();
                    pairs.push((format!("filter[{field}][in]"), other));
                }
                _ => pairs.push((format!("filter[{field}][{}]", pick(chance, OPS)), value)),
            }
        }
    }
    let filtered = pairs.iter().any(|(name, _)| name.starts_with("filter"));
    if has("streams") && chance.happens(if filtered { 90 } else { 50 }) {
        let mut names = vec![stream.clone()];
        if chance.happens(if filtered { 5 } else { 30 }) {
            names.push(pick(chance, STREAMS).to_owned());
        }
        let key = if chance.happens(50) { "streams" } else { "streams[]" };
        pairs.extend(names.into_iter().map(|name| (key.to_owned(), name)));
    }
    let searches = if has("metric") { 25 } else { 97 };
    if has("q") && !has("offset_chars") && chance.happens(searches) {
        let searched = |name: &str| {
            let granted = share.is_none_or(|share| share.fields.iter().any(|field| field == name));
            granted && source.decl.field(name).is_some_and(|field| field.lexical)
        };
        pairs.push(("q".into(), words(chance, stored, &searched)));
    }
    if has("offset_chars") {
        let field = if chance.happens(15) {
            pick(chance, &["raw", "blob"]).to_owned()
        } else {
            name(chance)
        };
        let outer = stored.and_then(|record| record.field(&field));
        let (mut place, mut value) = (field.clone(), outer.cloned());
        if let Some(FieldValue::Json(json)) = outer
            && chance.happens(60)
        {
            let pointers: Vec<String> =
                places::all(json).into_iter().map(|placed| placed.pointer).collect();
            let pointer = some(chance, &pointers);
            value = value.and_then(|value| places::value_at(&value, &pointer));
            place += &pointer;
        }
        if chance.happens(4) {
            place += pick(chance, &["/", "/0", "/~", "/x/y", "~1"]);
        }
        let has_bytes =
            value.as_ref().is_some_and(|value| oracle::has_bytes(&source.decl, &place, value));
        let bytes = chance.happens(if has_bytes { 70 } else { 4 });
        let text: Vec<char> = match &value {
            Some(FieldValue::Text(text) | FieldValue::Json(text)) => text.chars().collect(),
            _ => "null".chars().collect(),
        };
        if chance.happens(97) {
            pairs.push(("field".into(), place));
        }
        match chance.below(10) {
            _ if bytes => draw_byte_range(chance, text.len(), &mut pairs),
            0..5 => {
                // A piece of it with its case turned, or what the model puts into long texts.
                let start = if chance.happens(50) {
                    text.len().saturating_sub(12)
                } else {
                    chance.below(text.len() + 1)
                };
                let length = some(chance, &[1usize, 2, 7, 40, 1024]);
                let piece: String = text.iter().skip(start).take(length).collect();
                let q = match chance.below(5) {
                    0 => "nEEDLE Sté".to_owned(),
                    1 => piece.chars().flat_map(char::to_uppercase).collect(),
                    2 => pick(chance, &["zz", "\0", "straSSe", "στ", "\n"]).to_owned(),
                    _ => piece,
                };
                pairs.push(("q".into(), q));
                for side in ["before_chars", "after_chars"] {
                    if chance.happens(40) {
                        pairs.push((
                            side.into(),
                            pick(chance, &["0", "1", "50", "2048", "8192"]).to_owned(),
                        ));
                    }
                }
            }
            5..8 => {
                let offsets = ["0", "1", "1024", "8190", "8192", "16383", "9223372036854775807"];
                let offset = if chance.happens(50) {
                    pick(chance, &offsets).to_owned()
                } else {
                    chance.below(text.len() + 2).to_string()
                };
                pairs.push(("offset_chars".into(), offset));
            }
            _ => {}
        }
        if chance.happens(if bytes { 2 } else { 60 }) {
            let limit = pick(
                chance,
                &["1", "10", "100", "3000", "4096", "8192", "16384", "16385", "20000"],
            );
            pairs.push(("limit_chars".into(), limit.to_owned()));
        }
    }
    if has("expand") {
        oracle_related::draw(chance, source, grant.is_none(), has("sort"), &mut pairs);
    }
    if has("metric") {
        oracle_aggregate::draw(chance, source, share, &mut pairs);
    }
    if chance.happens(8) {
        let wrong = [
            ("limit", "0"),
            ("limit", "abc"),
            ("limit", "-1"),
            ("limit", "18446744073709551616"),
            ("limit[]", "3"),
            ("cursors", "all"),
            ("limit_chars", "0"),
            ("nope", "1"),
            ("", ""),
            ("order", "up"),
            ("fields", ""),
            ("fields[x]", "a"),
            ("filter", "x"),
            ("filter[]", "x"),
            ("filter[n", "1"),
            ("filter[n]x", "1"),
            ("filter[][gt]", "1"),
            ("preview_chars", "16385"),
            ("preview_bytes", "255"),
            ("preview_bytes", "65537"),
            ("fields_cursor", "AAAA"),
            ("offset_chars", "-1"),
            ("before_chars", "8193"),
            ("after_chars", "1"),
            ("offset_bytes", "-1"),
            ("offset_bytes", "0"),
            ("limit_bytes", "0"),
            ("q", ""),
            ("view", "full"),
            ("detail", "1"),
            ("changes_since", "beginning"),
            ("expand[]", "r"),
            ("sort", "at"),
            ("count", "exact"),
            ("window", "exact"),
            ("connection_id[]", "a-mail"),
        ];
        let (name, value) = some(chance, &wrong);
        pairs.push((name.to_owned(), value.to_owned()));
    }
    if !pairs.is_empty() && chance.happens(3) {
        let again = some(chance, &pairs);
        pairs.push(again);
    }
    OperationRequest { operation, stream, key, pairs }
}

/// Draws what is asked of a field whose value has so many characters.
fn draw_byte_range(chance: &mut Chance, chars: usize, pairs: &mut Vec<(String, String)>) {
    let before = pairs.len();
    if chance.happens(70) {
        let fixed =
            pick(chance, &["0", "1", "2", "3", "191", "192", "65536", "9223372036854775807"])
                .to_owned();
        let offset = if chance.happens(50) { fixed } else { chance.below(chars + 1).to_string() };
        pairs.push(("offset_bytes".into(), offset));
    }
    if pairs.len() == before || chance.happens(60) {
        let limit = pick(chance, &["1", "2", "3", "100", "6144", "65536", "65537"]);
        pairs.push(("limit_bytes".into(), limit.to_owned()));
    }
}
