//! What is computed over records, the obvious way: all that may be seen is put in a list, and the
//! list is counted.

use std::cmp::Ordering;

use serde_json::json;
use stile_domain::records::value::FieldValue;
use stile_testkit::chance::Chance;

use super::OperationRequest;
use super::json::J;
use super::model::{FIELDS, FieldDecl, Rec, Share, Source, pick, some, time_of_text};
use super::oracle::{
    Answer, CURSOR, INVALID, Oracle, Params, Refusal, Seen, Takes, add_warnings, compare_numbers,
    digest_of, members, members_and_nested, occurs, put, text_of, unsearched_lists, word_warnings,
};

const METRICS: &[&str] = &["count", "sum", "avg", "min", "max", "count_distinct"];
pub(crate) const ORDERS: &[&str] = &["value_desc", "value_asc", "key_asc", "key_desc"];
const PARTS: &[&str] =
    &["minute", "hour", "day", "week", "month", "quarter", "year", "hour_of_day", "weekday"];
const WEEKDAYS: &[&str] =
    &["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

pub(crate) fn takes() -> Vec<(&'static str, Takes)> {
    use Takes::{Conditions, Repeated, Text, Whole, Word};
    vec![
        ("metric", Word(METRICS)),
        ("field", Text(512)),
        ("q", Text(4096)),
        ("group_by", Repeated(3)),
        ("group_by_time", Text(512)),
        ("granularity", Word(PARTS)),
        ("time_zone", Text(64)),
        ("order", Word(ORDERS)),
        ("limit", Whole(1, 100, true, INVALID)),
        ("cursor", Text(4096)),
        ("cursors", Word(&["page", "each"])),
        ("filter", Conditions),
        ("or", Conditions),
    ]
}

/// Draws what is computed, mostly such as can be.
pub(crate) fn draw(
    chance: &mut Chance,
    source: &Source,
    share: Option<&Share>,
    pairs: &mut Vec<(String, String)>,
) {
    let shown = |field: &&FieldDecl| share.is_none_or(|share| share.fields.contains(&field.name));
    let field_for = |chance: &mut Chance, kind: &str| {
        let kind = if kind == "avg" { "sum" } else { kind };
        let declared = |field: &&FieldDecl| field.aggregations.iter().any(|own| own == kind);
        let declared = source.decl.fields.iter().filter(declared);
        let declared: Vec<&str> = declared.filter(shown).map(|field| field.name.as_str()).collect();
        match declared.as_slice() {
            [] => some(chance, &FIELDS).0,
            _ if chance.happens(3) => some(chance, &FIELDS).0,
            names => pick(chance, names).to_owned(),
        }
    };
    let mut put = |name: &str, value: &str| pairs.push((name.to_owned(), value.to_owned()));
    let metric = if chance.happens(30) { "count" } else { pick(chance, METRICS) };
    if chance.happens(98) {
        put("metric", metric);
    }
    if metric != "count" && chance.happens(97) {
        put("field", &field_for(chance, metric));
    }
    let by_value = some(chance, &[0, 0, 0, 1, 1, 1, 1, 2, 2, 3]);
    for _ in 0..by_value {
        put("group_by", &field_for(chance, "group_by"));
    }
    let by_time = chance.happens(35);
    if by_time {
        put("group_by_time", &field_for(chance, "group_by_time"));
        if chance.happens(95) {
            put("granularity", pick(chance, PARTS));
        }
        let known =
            ["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Apia", "UTC", "utc"];
        match chance.below(20) {
            0 => put(
                "time_zone",
                pick(chance, &["Mars/Olympus", "", "+01:00", "/etc/localtime", "Europe/Berlin\0"]),
            ),
            1..12 => put("time_zone", pick(chance, &known)),
            _ => {}
        }
    }
    if chance.happens(4) {
        let more =
            [("group_by", "id"), ("granularity", "day"), ("time_zone", "UTC"), ("field", "n")];
        let (name, value) = some(chance, &more);
        put(name, value);
    }
    if by_value == 0 && !by_time && chance.happens(90) {
        pairs.retain(|(name, _)| name != "limit" && name != "order");
    }
}

/// A value that is counted, and where it stands among others.
#[derive(Clone, Debug, PartialEq)]
enum Counted {
    Flag(bool),
    Number(String),
    Text(String),
    Long(String),
    Time(i64, i64),
    Hour(i64),
    Weekday(i64),
    None,
}

/// An aggregation with all its groups.
#[derive(Debug)]
pub(crate) struct Groups {
    /// All members but those of the groups.
    around: J,
    /// The groups in order, each with its number of records.
    pub(crate) rows: Vec<(J, usize)>,
    pub(crate) limit: usize,
}

impl Groups {
    /// The answer whose first group is the one at an index, without its cursor.
    pub(crate) fn page(&self, at: usize) -> J {
        let mut told = self.around.clone();
        let shown = self.rows.iter().skip(at).take(self.limit).map(|row| row.0.clone()).collect();
        let rest: usize = self.rows.iter().skip(at + self.limit).map(|row| row.1).sum();
        put(&mut told, "groups", J::Arr(shown));
        put(&mut told, "limit", J::Num(self.limit.to_string()));
        put(&mut told, "other_count", J::Num(rest.to_string()));
        told
    }
}

/// One record of an aggregation: its measured value and what it is grouped by.
struct Row {
    values: Vec<FieldValue>,
    keys: Vec<Counted>,
}

impl Oracle<'_> {
    pub(crate) fn aggregate(
        &self,
        request: &OperationRequest,
        params: &Params,
    ) -> Result<Answer, Refusal> {
        let sources = self.of(&request.stream, params.connection()?)?;
        let metric = params.text("metric").ok_or(INVALID)?;
        let by_value: Vec<&str> =
            params.names.get("group_by").into_iter().flatten().map(String::as_str).collect();
        let [field, by_time, part, zone, order, cursor, q] =
            ["field", "group_by_time", "granularity", "time_zone", "order", "cursor", "q"]
                .map(|name| params.text(name));
        let grouped = !by_value.is_empty() || by_time.is_some();
        if (metric == "count") == field.is_some() {
            return Err(INVALID);
        }
        if !grouped && (params.number("limit").is_some() || order.is_some() || cursor.is_some()) {
            return Err(INVALID);
        }
        if by_time.is_some() != part.is_some() || by_time.is_none() && zone.is_some() {
            return Err(INVALID);
        }
        let zone = match by_time {
            Some(_) => Some(Zone::named(zone.unwrap_or("UTC")).ok_or(INVALID)?),
            None => None,
        };
        let declared_for = if metric == "avg" { "sum" } else { metric };
        let time = field.map(|name| self.declared(&sources, name, declared_for)).transpose()?;
        for name in &by_value {
            self.declared(&sources, name, "group_by")?;
        }
        by_time.map(|name| self.declared(&sources, name, "group_by_time")).transpose()?;
        self.allowed(&sources, params)?;
        let query = q.map(|q| self.words(&sources, q)).transpose()?;
        // No cursor is so short.
        if cursor.is_some_and(|cursor| cursor.len() < 40) {
            return Err(CURSOR);
        }
        let mut left_out = vec![Vec::new(); 1 + by_value.len() + 1];
        let mut long_lists = vec![0; 1 + by_value.len() + 1];
        let mut left_members = vec![Vec::new(); 1 + by_value.len() + 1];
        let (mut rows, mut records) = (Vec::new(), 0);
        for seen in &sources {
            for (key, record) in seen.records().filter(|(_, record)| seen.passes(record, params)) {
                if query.as_ref().is_some_and(|query| !occurs(seen, key, record, query)) {
                    continue;
                }
                records += 1;
                let typed = |name: &str| values(seen, name, record.field(name));
                let mut measured = field.map(typed).unwrap_or_default();
                measured.retain(|own| measures(metric, time == Some(true), own));
                let mut keys: Vec<Vec<Counted>> =
                    by_value.iter().map(|name| all_counted(&typed(name))).collect();
                if let (Some(name), Some(zone), Some(part)) = (by_time, &zone, part) {
                    let own = record.field(name).filter(|own| matches!(own, FieldValue::Text(_)));
                    keys.push(vec![zone.counted(own, part)]);
                }
                let mut miss = |at: usize, name: &str, is_used: bool| {
                    let is_empty = |own: &FieldValue| {
                        let is_list = seen.source.decl.field(name).unwrap().is_list();
                        is_list
                            && matches!(own, FieldValue::Json(json) if
                            json.len() <= 1024 && json.starts_with('[') && is_of_nulls(json))
                    };
                    let own = record.field(name);
                    if let Some(own) =
                        own.filter(|own| !is_used && **own != FieldValue::Null && !is_empty(own))
                    {
                        let is_long = matches!(own, FieldValue::Json(json) if json.len() > 1024);
                        match is_long && seen.source.decl.field(name).unwrap().is_list() {
                            true => long_lists[at] += 1,
                            false => left_out[at].push(own.clone()),
                        }
                    }
                };
                if let Some(name) = field {
                    miss(0, name, !measured.is_empty());
                }
                // Of a list, some members count and others do not.
                let told = field.map(|name| (0, name)).into_iter();
                let told =
                    told.chain(by_value.iter().enumerate().map(|(at, name)| (1 + at, *name)));
                for (at, name) in told {
                    let others = misfit_members(seen, name, record.field(name));
                    if !others.is_empty() && !typed(name).is_empty() {
                        left_members[at].push(others);
                    }
                }
                for (at, (name, key)) in by_value.iter().chain(&by_time).zip(&keys).enumerate() {
                    miss(1 + at, name, *key != [Counted::None]);
                }
                for keys in combinations(&keys) {
                    rows.push(Row { values: measured.clone(), keys });
                }
            }
        }
        let by = match by_value.as_slice() {
            [] => json!(null),
            [one] => json!(one),
            several => json!(several),
        };
        let mut told = J::of(&json!({
            "object": "aggregation", "stream": request.stream, "metric": metric, "field": field,
            "filtered_record_count": records, "approximate": false, "group_by": by, "group_by_time": by_time,
            "granularity": part, "time_zone": zone.as_ref().map(|zone| zone.name),
        }));
        let mut meta = params.meta();
        add_warnings(&mut meta, query.iter().flat_map(word_warnings).collect());
        let is_counted = |seen: &Seen<'_>, key: &str, record: &Rec| {
            query.as_ref().is_none_or(|query| occurs(seen, key, record, query))
        };
        add_warnings(&mut meta, self.passed_over(&sources, params, &is_counted));
        let unsearched = query.iter().filter(|_| cursor.is_none());
        let unsearched = unsearched.filter_map(|query| unsearched_lists(&sources, query));
        add_warnings(&mut meta, unsearched.collect());
        let J::Arr(mut warnings) = meta.take("warnings") else { panic!() };
        let named = field.map(|name| ("field", name, 0)).into_iter();
        let named =
            named.chain(by_value.iter().enumerate().map(|(at, name)| ("group_by", *name, 1 + at)));
        let named = named.chain(by_time.map(|name| ("group_by_time", name, 1 + by_value.len())));
        for (param, name, at) in named {
            warnings.extend(warning(param, name, part, &left_out[at]));
            warnings.extend(long_warning(param, name, long_lists[at]));
            warnings.extend(members_warning(param, name, &left_members[at]));
        }
        put(&mut meta, "warnings", J::Arr(warnings));
        put(&mut told, "meta", meta);
        if !grouped {
            put(
                &mut told,
                "value",
                measure(metric, time == Some(true), &rows.iter().collect::<Vec<_>>())?,
            );
            return Ok(Answer::Whole(told));
        }
        let mut groups: Vec<(Vec<Counted>, Vec<&Row>)> = Vec::new();
        for row in &rows {
            match groups.iter_mut().find(|(keys, _)| *keys == row.keys) {
                Some((_, own)) => own.push(row),
                None => groups.push((row.keys.clone(), vec![row])),
            }
        }
        let mut told_groups = Vec::new();
        for (keys, own) in groups {
            let value = measure(metric, time == Some(true), &own)?;
            told_groups.push((keys, own.len(), value));
        }
        let order = order.unwrap_or(if by_time.is_some() { "key_asc" } else { "value_desc" });
        told_groups.sort_by(|a, b| {
            let keys = a.0.iter().zip(&b.0).map(|(a, b)| self::order(a, b));
            let keys = keys.fold(Ordering::Equal, Ordering::then);
            let none_last = (a.2 == J::Null).cmp(&(b.2 == J::Null));
            let value = match (&a.2, &b.2) {
                (J::Num(a), J::Num(b)) => compare_numbers(a, b).unwrap(),
                (J::Str(a), J::Str(b)) => time_of_text(a).cmp(&time_of_text(b)),
                _ => Ordering::Equal,
            };
            match order {
                "key_asc" => keys,
                "key_desc" => keys.reverse(),
                "value_asc" => none_last.then(value).then(keys),
                _ => none_last.then(value.reverse()).then(keys),
            }
        });
        let rows = told_groups
            .into_iter()
            .map(|(keys, count, value)| {
                (group(&keys, count, (metric != "count").then_some(value)), count)
            })
            .collect();
        let limit = params.number("limit").unwrap_or(10) as usize;
        Ok(Answer::Groups(Groups { around: told, rows, limit }))
    }

    /// Whether the field holds times; it may be seen and is declared for this in every connection.
    fn declared(&self, sources: &[Seen<'_>], name: &str, kind: &str) -> Result<bool, Refusal> {
        self.known(sources, name)?;
        let fields: Vec<Option<&FieldDecl>> =
            sources.iter().map(|seen| seen.source.decl.field(name)).collect();
        let fits = |field: &Option<&FieldDecl>| {
            field.is_some_and(|field| field.aggregations.iter().any(|own| own == kind))
        };
        if !fields.iter().all(fits) {
            return Err(INVALID);
        }
        let times: Vec<bool> = fields.iter().flatten().map(|field| field.is_time()).collect();
        if matches!(kind, "min" | "max") && times.iter().any(|time| *time != times[0]) {
            return Err(INVALID);
        }
        Ok(times[0])
    }
}

/// Whether a value of a declared type adds to a metric.
fn measures(metric: &str, time: bool, value: &FieldValue) -> bool {
    match (metric, value) {
        ("min" | "max", FieldValue::Text(text)) => time && time_of_text(text).is_some(),
        ("min" | "max", FieldValue::Number(_)) => !time,
        ("sum" | "avg", own) => matches!(own, FieldValue::Number(_)),
        ("count_distinct", own) => counted(Some(own)) != Counted::None,
        _ => false,
    }
}

/// What is computed of some records.
fn measure(metric: &str, time: bool, rows: &[&Row]) -> Result<J, Refusal> {
    let values: Vec<Option<FieldValue>> =
        rows.iter().flat_map(|row| row.values.iter().cloned().map(Some)).collect();
    Ok(match metric {
        "count" => J::Num(rows.len().to_string()),
        "sum" => J::Num(written_sum(sum(&values)?, 8)),
        "avg" => {
            let (sum, count) = (sum(&values)?, values.iter().flatten().count() as i128);
            if count == 0 {
                return Ok(J::Null);
            }
            // To ten places, halves away from zero.
            let size = (sum.abs() * 200 + count) / (2 * count);
            J::Num(written_sum(size * sum.signum(), 10))
        }
        "count_distinct" => {
            let mut different: Vec<Counted> = Vec::new();
            for value in values.iter().flatten() {
                let value = counted(Some(value));
                if !different.contains(&value) {
                    different.push(value);
                }
            }
            J::Num(different.len().to_string())
        }
        _ => extreme(&values, time, metric == "max"),
    })
}

/// What is said of values that do not count.
fn warning(param: &str, name: &str, part: Option<&str>, values: &[FieldValue]) -> Option<J> {
    let fault = match (param, part) {
        ("group_by_time", Some("hour_of_day")) => "that has no time of the day",
        ("group_by_time", _) => "that is not a time",
        _ => "that does not fit the declared type",
    };
    let end = if param == "field" { "was left out" } else { "counts in the group `null`" };
    let example = values.iter().map(text_of).filter(|text| text.len() <= 1024).min();
    let example = example.map(|text| text.chars().take(80).collect::<String>());
    let such =
        example.as_ref().map(|text| format!(", such as {}", json!(text))).unwrap_or_default();
    let count = values.len();
    let told = json!({
        "code": "values_left_out", "param": param,
        "message": format!("`{name}` has a value {fault} in {count} record(s), which {end}{such}"),
        "detail": { "field": name, "values": count, "example": example },
    });
    (count > 0).then(|| J::of(&told))
}

/// What is said of lists that are too long to be looked into.
fn long_warning(param: &str, name: &str, count: usize) -> Option<J> {
    let end = if param == "field" { "was left out" } else { "counts in the group `null`" };
    let told = json!({
        "code": "long_lists_left_out", "param": param,
        "message": format!(
            "`{name}` has a list longer than 1024 bytes in {count} record(s), which {end}"
        ),
        "detail": { "field": name, "values": count, "example": null },
    });
    (count > 0).then(|| J::of(&told))
}

/// What is said of lists some of whose members do not count.
fn members_warning(param: &str, name: &str, lists: &[Vec<FieldValue>]) -> Option<J> {
    let of_text = |member: &FieldValue| match member {
        FieldValue::Json(_) => None,
        other => Some(text_of(other)),
    };
    let example = lists.iter().flatten().filter_map(of_text).min();
    let example = example.map(|text| text.chars().take(80).collect::<String>());
    let such =
        example.as_ref().map(|text| format!(", such as {}", json!(text))).unwrap_or_default();
    let count = lists.len();
    let told = json!({
        "code": "members_left_out", "param": param,
        "message": format!(
            "`{name}` has a list with a member that does not fit the declared type in {count} \
             record(s), of which the other members count{such}"
        ),
        "detail": { "field": name, "values": count, "example": example },
    });
    (count > 0).then(|| J::of(&told))
}

/// The members of a list that are not of a declared type.
fn misfit_members(seen: &Seen<'_>, name: &str, value: Option<&FieldValue>) -> Vec<FieldValue> {
    let field = seen.source.decl.field(name).unwrap();
    let Some(list @ FieldValue::Json(json)) = value.filter(|_| field.is_list()) else {
        return Vec::new();
    };
    if json.len() > 1024 || !json.starts_with('[') {
        return Vec::new();
    }
    let fits = |member: &FieldValue| !values(seen, name, Some(member)).is_empty();
    members_and_nested(list)
        .into_iter()
        .filter(|member| *member != FieldValue::Null)
        .filter(|member| matches!(member, FieldValue::Json(_)) || !fits(member))
        .collect()
}

/// The value of a field, or the members of a list, as far as they are of a declared type.
fn values(seen: &Seen<'_>, name: &str, value: Option<&FieldValue>) -> Vec<FieldValue> {
    let field = seen.source.decl.field(name).unwrap();
    let types = [field.types(), field.member_types()].concat();
    let fits = |value: &FieldValue| match value {
        FieldValue::Bool(_) => types.contains(&"boolean"),
        FieldValue::Number(_) => types.contains(&"number") || types.contains(&"integer"),
        FieldValue::Text(_) => types.contains(&"string"),
        FieldValue::Null | FieldValue::Json(_) => false,
    };
    let all = match value {
        Some(list @ FieldValue::Json(_)) if field.is_list() => members(list),
        other => other.into_iter().cloned().collect(),
    };
    all.into_iter().filter(fits).collect()
}

/// Whether a list has no members but nulls.
fn is_of_nulls(json: &str) -> bool {
    serde_json::from_str::<Vec<Option<serde::de::IgnoredAny>>>(json)
        .is_ok_and(|members| members.iter().all(Option::is_none))
}

/// What the values of a field count as, each once.
fn all_counted(values: &[FieldValue]) -> Vec<Counted> {
    let mut all: Vec<Counted> = Vec::new();
    for value in values {
        let own = counted(Some(value));
        if !all.contains(&own) {
            all.push(own);
        }
    }
    if all.is_empty() { vec![Counted::None] } else { all }
}

/// One of each list, in every way.
fn combinations(lists: &[Vec<Counted>]) -> Vec<Vec<Counted>> {
    let mut all = vec![Vec::new()];
    for list in lists {
        let with = |before: &Vec<Counted>| {
            let before = before.clone();
            list.iter().map(move |one| [before.clone(), vec![one.clone()]].concat())
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

fn counted(value: Option<&FieldValue>) -> Counted {
    match value {
        Some(FieldValue::Bool(flag)) => Counted::Flag(*flag),
        Some(FieldValue::Number(digits)) => Counted::Number(plain(digits).to_owned()),
        Some(FieldValue::Text(text)) if text.len() > 1024 => Counted::Long(text.clone()),
        Some(FieldValue::Text(text)) => Counted::Text(text.clone()),
        _ => Counted::None,
    }
}

/// How each number of the model is shown as a group.
fn plain(digits: &str) -> &str {
    match digits {
        "-0" => "0",
        "1.0" => "1",
        "1e1" => "10",
        "1.5e-7" => "0.00000015",
        "9007199254740992.0" => "9007199254740992",
        "12345678901234567890123" => "1.2345678901234567890123e22",
        "1E400" => "1e400",
        other => other,
    }
}

fn order(a: &Counted, b: &Counted) -> Ordering {
    let rank = |value: &Counted| match value {
        Counted::Flag(_) => 0,
        Counted::Number(_) => 1,
        Counted::Text(_) => 2,
        Counted::Long(_) => 3,
        Counted::Time(..) => 4,
        Counted::Hour(_) => 5,
        Counted::Weekday(_) => 6,
        Counted::None => 7,
    };
    match (a, b) {
        (Counted::Flag(a), Counted::Flag(b)) => a.cmp(b),
        (Counted::Number(a), Counted::Number(b)) => compare_numbers(a, b).unwrap(),
        (Counted::Text(a), Counted::Text(b)) => a.cmp(b),
        (Counted::Long(a), Counted::Long(b)) => digest_of(a).cmp(&digest_of(b)),
        (Counted::Time(a, ahead), Counted::Time(b, also_ahead)) => {
            (a - ahead).cmp(&(b - also_ahead))
        }
        (Counted::Hour(a), Counted::Hour(b)) | (Counted::Weekday(a), Counted::Weekday(b)) => {
            a.cmp(b)
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

fn group(keys: &[Counted], count: usize, value: Option<J>) -> J {
    let mut told = J::of(&json!({ "count": count }));
    if let Some(value) = value {
        put(&mut told, "value", value);
    }
    let (mut shown, previews): (Vec<J>, Vec<J>) = keys.iter().map(written_key).unzip();
    let has_preview = previews.iter().any(|preview| *preview != J::Null);
    let several = keys.len() > 1;
    let as_one = |mut all: Vec<J>| if several { J::Arr(all) } else { all.remove(0) };
    if has_preview {
        put(&mut told, "key_preview", as_one(previews));
    }
    put(&mut told, "key", if several { J::Arr(shown) } else { shown.remove(0) });
    told
}

/// How a key is shown, and how much of a long text that is.
fn written_key(key: &Counted) -> (J, J) {
    let mut told = J::Null;
    let key = match key {
        Counted::Flag(flag) => J::Bool(*flag),
        Counted::Number(digits) => J::Num(digits.clone()),
        Counted::Text(text) => J::Str(text.clone()),
        Counted::Long(text) => {
            let size = text.chars().count();
            let preview = json!({ "shown_chars": size.min(256), "size_chars": size, "digest": digest_of(text) });
            told = J::of(&preview);
            J::Str(text.chars().take(256).collect())
        }
        Counted::Time(local, ahead) => J::Str(written(*local, *ahead)),
        Counted::Hour(hour) => J::Num(hour.to_string()),
        Counted::Weekday(day) => J::Str(WEEKDAYS[*day as usize].to_owned()),
        Counted::None => J::Null,
    };
    (key, told)
}

/// The sum in units of the eighth place. All numbers of the model but one have no more places.
fn sum(values: &[Option<FieldValue>]) -> Result<i128, Refusal> {
    let mut sum = 0i128;
    for value in values.iter().flatten() {
        let FieldValue::Number(digits) = value else { continue };
        sum += match &**digits {
            "1E400" => return Err(("number_too_long", 422)),
            "1.5e-7" => 15,
            "0.1" => 10_000_000,
            "1e1" => 1_000_000_000,
            digits => digits.trim_end_matches(".0").parse::<i128>().unwrap() * 100_000_000,
        };
    }
    Ok(sum)
}

/// A number in plain digits, with so many of them after the point.
fn written_sum(sum: i128, places: usize) -> String {
    let sign = if sum < 0 { "-" } else { "" };
    let digits = format!("{:0width$}", sum.unsigned_abs(), width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    let text = format!("{sign}{whole}.{fraction}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn extreme(values: &[Option<FieldValue>], time: bool, greatest: bool) -> J {
    let compare = |a: &str, b: &str| {
        if time { time_of_text(a).cmp(&time_of_text(b)) } else { compare_numbers(a, b).unwrap() }
    };
    let written = values.iter().flatten().filter_map(|value| match value {
        FieldValue::Text(text) if time && time_of_text(text).is_some() => Some(text.as_str()),
        FieldValue::Number(digits) if !time => Some(digits),
        _ => None,
    });
    let mut written: Vec<&str> = written.collect();
    written.sort_by(|a, b| {
        let value = compare(a, b);
        (if greatest { value.reverse() } else { value }).then(a.cmp(b))
    });
    match written.first() {
        None => J::Null,
        Some(first) if time => J::Str((*first).to_owned()),
        Some(first) => J::Num((*first).to_owned()),
    }
}

/// A zone, with how far its clocks were ahead from which second on. Only around the times of the
/// model.
struct Zone {
    name: &'static str,
    ahead: Vec<(i64, i64)>,
}

const DAY: i64 = 86_400;

impl Zone {
    fn named(name: &str) -> Option<Self> {
        let at = |year, month, day, hour: i64| days(year, month, day) * DAY + hour * 3600;
        let always = i64::MIN;
        let (name, ahead) = match name.to_lowercase().as_str() {
            "utc" => ("UTC", vec![(always, 0)]),
            "europe/berlin" => (
                "Europe/Berlin",
                vec![(always, 3600), (at(2025, 3, 30, 1), 7200), (at(2025, 10, 26, 1), 3600)],
            ),
            "america/new_york" => (
                "America/New_York",
                vec![
                    (always, -18_000),
                    (at(1969, 4, 27, 7), -14_400),
                    (at(1969, 10, 26, 6), -18_000),
                    (at(2025, 3, 9, 7), -14_400),
                    (at(2025, 11, 2, 6), -18_000),
                ],
            ),
            "asia/kathmandu" => {
                ("Asia/Kathmandu", vec![(always, 19_800), (at(1985, 12, 31, 18) + 1800, 20_700)])
            }
            "pacific/apia" => {
                ("Pacific/Apia", vec![(always, -39_600), (at(2011, 12, 30, 10), 46_800)])
            }
            _ => return None,
        };
        Some(Self { name, ahead })
    }

    fn ahead(&self, second: i64) -> i64 {
        self.ahead.iter().rev().find(|(from, _)| *from <= second).unwrap().1
    }

    fn counted(&self, value: Option<&FieldValue>, span: &str) -> Counted {
        let Some(FieldValue::Text(text)) = value else { return Counted::None };
        let Some(time) = time_of_text(text) else { return Counted::None };
        let second = time.div_euclid(1_000_000);
        // A date alone is that date everywhere.
        let is_date = text.len() == 10;
        let local = if is_date { second } else { second + self.ahead(second) };
        let day = local.div_euclid(DAY);
        match span {
            "hour_of_day" if is_date => return Counted::None,
            "hour_of_day" => return Counted::Hour(local.rem_euclid(DAY) / 3600),
            // 1970-01-05 was a Monday.
            "weekday" => return Counted::Weekday((day - 4).rem_euclid(7)),
            _ if is_date => {}
            "minute" => return Counted::Time(local - local.rem_euclid(60), self.ahead(second)),
            "hour" => return Counted::Time(local - local.rem_euclid(3600), self.ahead(second)),
            _ => {}
        }
        let (year, month, _) = date(day);
        let start = match span {
            "minute" | "hour" | "day" => day,
            // 1970-01-05 was a Monday.
            "week" => {
                (0..7).map(|back| day - back).find(|day| (day - 4).rem_euclid(7) == 0).unwrap()
            }
            "month" => days(year, month, 1),
            "quarter" => days(year, [1, 1, 1, 4, 4, 4, 7, 7, 7, 10, 10, 10][month as usize - 1], 1),
            _ => days(year, 1, 1),
        };
        let fits = |ahead: &i64| self.ahead(start * DAY - ahead) == *ahead;
        let ahead = self.ahead.iter().map(|(_, ahead)| *ahead).find(fits).unwrap();
        Counted::Time(start * DAY, ahead)
    }
}

fn written(local: i64, ahead: i64) -> String {
    let (year, month, day) = date(local.div_euclid(DAY));
    let second = local.rem_euclid(DAY);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let sign = if ahead < 0 { "-" } else { "+" };
    let (hours, minutes) = (ahead.abs() / 3600, ahead.abs() / 60 % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:00{sign}{hours:02}:{minutes:02}")
}

fn lengths(year: i64) -> [i64; 12] {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

/// Days from 1900-01-01 on, counted one by one, less those until 1970.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let years: i64 = (1900..year).map(|year| lengths(year).iter().sum::<i64>()).sum();
    years + lengths(year)[..month as usize - 1].iter().sum::<i64>() + day - 1 - 25_567
}

fn date(day: i64) -> (i64, i64, i64) {
    let year = (1900..2100).rev().find(|year| days(*year, 1, 1) <= day).unwrap();
    let month = (1..13).rev().find(|month| days(year, *month, 1) <= day).unwrap();
    (year, month, day - days(year, month, 1) + 1)
}
