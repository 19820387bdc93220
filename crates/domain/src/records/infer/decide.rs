//! The decisions about a declaration, made from what an inference has seen, with their reasons in
//! words.

use serde_json::{Map, Value as Json, json};

use super::{FieldStatistics, Inference, InferredDeclaration, KeyChoice, MAX_FIELDS};
use crate::records::declaration::{
    BadDeclaration, Declaration, JsonType, RangeOperator, StringFormat, TypeSet,
};
use crate::records::field_name;
use crate::records::relevance;
use crate::records::unix_time::{self, UnixUnit};
use crate::unseen::shown_ends;

/// Usual names of the field that orders the records, the likeliest first. They are separated by
/// spaces, and compared without `_`, `-`, spaces and case.
const TIMES: &str = "createdat sentat date timestamp time created sent occurredat postedat \
                     publishedat receivedat startedat startat start datetime completedat \
                     bookedat createdon createtime createddate transactiondate updatedat \
                     modifiedat updated modified";

/// Usual names of a key, the likeliest first. Other names that end in `_id` come after them.
const KEYS: &[&str] = &["id", "_id", "uuid", "guid", "key"];

/// Ranks a name as that of a key, 0 for the likeliest; returns `None` if the name does not look
/// like one.
pub(super) fn key_rank(name: &str) -> Option<usize> {
    let known = KEYS.iter().position(|key| name.eq_ignore_ascii_case(key));
    let ends = name
        .strip_suffix("_id")
        .or_else(|| name.strip_suffix("_ID"))
        .or_else(|| name.strip_suffix("Id"));
    known.or_else(|| ends.filter(|rest| !rest.is_empty()).map(|_| KEYS.len()))
}

pub(super) fn decide(
    inference: &Inference,
    choice: KeyChoice,
) -> Result<InferredDeclaration, BadDeclaration> {
    let mut reasons = Vec::new();
    let mut properties: Map<String, Json> =
        inference.seen.iter().map(|seen| (seen.name.clone(), property(seen))).collect();
    let key = key(inference, choice, &mut reasons);
    for name in &key {
        // The owner knows better: a later row may have a field that no row has yet.
        properties.entry(name.clone()).or_insert_with(|| json!({ "type": "string" }));
    }
    let time = time(inference);
    reasons.push(match time {
        Some(seen) => format!(
            "`{}` orders the records and is the time by which a grant counts: {} is {}",
            printable(&seen.name),
            if seen.others() == 0 { "every value" } else { "nearly every value" },
            if seen.format() == Some(StringFormat::Date) { "a date" } else { "a date and time" }
        ),
        None => "no field holds dates, nearly all of them, in most records, so the records are ordered by their \
                 keys, and a grant cannot be limited in time"
            .to_owned(),
    });
    let query = query(inference, &mut reasons);
    if inference.left_out {
        reasons.push(format!(
            "fields beyond the first {} are not declared: only the owner sees them",
            inference.seen.len().min(MAX_FIELDS)
        ));
    }
    let mut declaration = json!({
        "schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": properties,
        },
        "primary_key": key,
    });
    if let Json::Object(members) = &mut declaration {
        if let Some(seen) = time {
            members.insert("cursor_field".to_owned(), seen.name.as_str().into());
            members.insert("consent_time_field".to_owned(), seen.name.as_str().into());
        }
        members.insert("query".to_owned(), query);
    }
    let units: Vec<(&str, UnixUnit)> =
        inference.seen.iter().filter_map(|seen| Some((seen.name.as_str(), seen.unit?))).collect();
    unix_time::remember(&mut declaration, &units);
    reasons.extend(units.iter().map(|(name, unit)| {
        format!("`{}` holds {} since 1970, which are stored as times", printable(name), unit.name())
    }));
    Ok(InferredDeclaration { declaration: Declaration::parse(&declaration)?, reasons })
}

fn property(seen: &FieldStatistics) -> Json {
    let kind = type_json(seen.types());
    match (seen.format(), seen.list_members()) {
        (Some(format), _) => json!({ "type": kind, "format": format.name() }),
        (None, Some(members)) => json!({ "type": kind, "items": { "type": type_json(members) } }),
        (None, None) => json!({ "type": kind }),
    }
}

fn type_json(types: TypeSet) -> Json {
    let mut names = types.iter().map(JsonType::name);
    match (names.next(), names.next()) {
        (Some(only), None) => only.into(),
        _ => types.iter().map(|kind| Json::from(kind.name())).collect(),
    }
}

fn key(inference: &Inference, choice: KeyChoice, reasons: &mut Vec<String>) -> Vec<String> {
    let from_content = "keys are made from the content, so a changed record is added as a new one";
    match choice {
        KeyChoice::Given(names) if names.is_empty() => {
            reasons.push(format!("{from_content}: you chose it"));
            names
        }
        KeyChoice::Given(names) => {
            reasons.push(format!(
                "the key is made of {}: you chose it",
                list(names.iter().map(String::as_str))
            ));
            names
        }
        KeyChoice::OfForm(field, reason) => {
            reasons.push(reason.to_owned());
            vec![field]
        }
        KeyChoice::Infer => {
            let candidates = inference
                .seen
                .iter()
                .filter(|seen| seen.key.is_some() && seen.rows == inference.rows);
            let Some(seen) = candidates.min_by_key(|seen| key_rank(&seen.name)) else {
                reasons.push(format!(
                    "{from_content}: no field is named like a key and differs in every record"
                ));
                return Vec::new();
            };
            reasons.push(format!(
                "`{}` is the key: every record has one, and no two have the same",
                printable(&seen.name)
            ));
            vec![seen.name.clone()]
        }
    }
}

/// Returns the field that orders the records: one that holds a date in more than half of them,
/// chosen by name or else the first.
fn time(inference: &Inference) -> Option<&FieldStatistics> {
    let usual = |seen: &FieldStatistics| field_name::rank(&seen.name, TIMES).unwrap_or(usize::MAX);
    let times = inference
        .seen
        .iter()
        .filter(|seen| seen.format().is_some() && seen.strings * 2 > inference.rows);
    times.min_by_key(|seen| usual(seen))
}

fn query(inference: &Inference, reasons: &mut Vec<String>) -> Json {
    let which = |fits: &dyn Fn(&FieldStatistics) -> bool| -> Vec<&str> {
        inference.seen.iter().filter(|seen| fits(seen)).map(|seen| seen.name.as_str()).collect()
    };
    let number =
        |seen: &FieldStatistics| seen.types().are_only(&[JsonType::Integer, JsonType::Number]);
    let numbers = which(&number);
    let times = which(&|seen| seen.format().is_some());
    let ordered = which(&|seen| number(seen) || seen.format().is_some());
    let has_text = |types: TypeSet| types.contains(JsonType::String);
    let texts = which(&|seen| {
        has_text(seen.types()) && seen.format().is_none()
            || seen.list_members().is_some_and(has_text)
    });
    let scalars = which(&|seen| seen.types.is_scalar());
    let lists = which(&|seen| seen.list_members().is_some());
    let comparable = which(&FieldStatistics::is_comparable);
    let others = which(&|seen| !seen.is_comparable());
    let mut say = |names: &[&str], what: &str| {
        if !names.is_empty() {
            reasons.push(format!("{} {what}", list(names.iter().copied())));
        }
    };
    say(&texts, "can be searched: there is text in it");
    let named = relevance::naming_field(texts.iter().copied());
    say(named.as_slice(), "is the title of a record, where it has one");
    say(&ordered, "can be filtered by range: it has numbers or dates");
    say(&numbers, "can be added up: it has numbers");
    say(&scalars, "can be filtered and counted by value");
    say(&lists, "can be filtered and counted by the members of its lists");
    say(&others, "can be read and not filtered: there are objects or mixed lists in it");
    let mixed = which(&|seen| seen.others() > 0);
    say(&mixed, "also has values that do not fit, which are stored as they are and named in sums");
    let operators: Vec<&str> = RangeOperator::ALL.into_iter().map(RangeOperator::name).collect();
    let ranges: Map<String, Json> =
        ordered.iter().map(|&name| (name.to_owned(), json!(operators))).collect();
    json!({
        "range_filters": ranges,
        "search": { "lexical_fields": texts },
        "aggregations": {
            "count": true, "sum": numbers, "min": ordered, "max": ordered,
            "group_by": comparable, "group_by_time": times, "count_distinct": comparable,
        },
    })
}

/// Lists the first names for a line of text, and the number of the others.
fn list<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 8;
    let more = names.len().saturating_sub(SHOWN);
    let names: Vec<String> =
        names.take(SHOWN).map(|name| format!("`{}`", printable(name))).collect();
    if more > 0 { format!("{} and {more} more", names.join(", ")) } else { names.join(", ") }
}

/// Makes a name fit for a line of a terminal: at most 64 characters.
fn printable(name: &str) -> String {
    const SHOWN_CHARS: usize = 64;
    shown_ends(name, SHOWN_CHARS)
}
