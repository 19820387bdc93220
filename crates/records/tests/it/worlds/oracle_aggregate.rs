//! What is computed over records, the obvious way: all that may be seen is put in a list, and the
//! list is counted.

use std::cmp::Ordering;

use serde_json::json;
use stile_domain::records::value::FieldValue;
use stile_testkit::chance::Chance;

use super::OperationRequest;
use super::json::J;
use super::model::{FIELDS, FieldDecl, Share, Source, pick, some, time_of_text};
use super::oracle::{
    INVALID, Oracle, Params, Refusal, Seen, Takes, compare_numbers, digest_of, put,
};

const METRICS: &[&str] = &["count", "sum", "min", "max", "count_distinct"];
const SPANS: &[&str] = &["minute", "hour", "day", "week", "month", "quarter", "year"];

pub(crate) fn takes() -> Vec<(&'static str, Takes)> {
    use Takes::{Conditions, Text, Whole, Word};
    vec![
        ("metric", Word(METRICS)),
        ("field", Text(512)),
        ("group_by", Text(512)),
        ("group_by_time", Text(512)),
        ("granularity", Word(SPANS)),
        ("time_zone", Text(64)),
        ("limit", Whole(1, 100, true, INVALID)),
        ("filter", Conditions),
    ]
}

/// Draws what is computed, mostly such as can be.
pub(crate) fn draw(
    chance: &mut Chance,
    source: &Source,
    share: Option<&Share>,
    pairs: &mut Vec<(String, String)>,
) {
    let kind = pick(
        chance,
        &[
            "count", "sum", "min", "max", "count_distinct", "group_by", "group_by",
            "group_by_time", "group_by_time",
        ],
    );
    let shown = |field: &&FieldDecl| share.is_none_or(|share| share.fields.contains(&field.name));
    let declared =
        source.decl.fields.iter().filter(|field| field.aggregations.iter().any(|own| own == kind));
    let declared: Vec<&str> = declared.filter(shown).map(|field| field.name.as_str()).collect();
    let field = match declared.as_slice() {
        [] => some(chance, &FIELDS).0,
        _ if chance.happens(6) => some(chance, &FIELDS).0,
        names => pick(chance, names).to_owned(),
    };
    let mut put = |name: &str, value: &str| pairs.push((name.to_owned(), value.to_owned()));
    let grouped = kind.starts_with("group_by");
    let metric = if grouped { "count" } else { kind };
    if chance.happens(98) {
        put("metric", if chance.happens(97) { metric } else { pick(chance, METRICS) });
    }
    if grouped {
        put(kind, &field);
    } else if kind != "count" && chance.happens(97) {
        put("field", &field);
    }
    if kind == "group_by_time" {
        if chance.happens(95) {
            put("granularity", pick(chance, SPANS));
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
    let more = [
        ("group_by", field.as_str()),
        ("group_by_time", &field),
        ("granularity", "day"),
        ("time_zone", "UTC"),
        ("field", &field),
    ];
    if chance.happens(4) {
        let (name, value) = some(chance, &more);
        put(name, value);
    }
    if !grouped && chance.happens(90) {
        pairs.retain(|(name, _)| name != "limit");
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
    None,
}

impl Oracle<'_> {
    pub(crate) fn aggregate(
        &self,
        request: &OperationRequest,
        params: &Params,
    ) -> Result<J, Refusal> {
        let sources = self.of(&request.stream, params.connection()?)?;
        let metric = params.text("metric").ok_or(INVALID)?;
        let [field, by, by_time] =
            ["field", "group_by", "group_by_time"].map(|name| params.text(name));
        let groups = usize::from(by.is_some()) + usize::from(by_time.is_some());
        if (metric == "count") == field.is_some() || groups > 1 || groups > 0 && metric != "count" {
            return Err(INVALID);
        }
        if groups == 0 && params.number("limit").is_some() {
            return Err(INVALID);
        }
        let [span, zone] = ["granularity", "time_zone"].map(|name| params.text(name));
        if by_time.is_some() != span.is_some() || by_time.is_none() && zone.is_some() {
            return Err(INVALID);
        }
        let zone = if by_time.is_some() {
            Some(Zone::named(zone.unwrap_or("UTC")).ok_or(INVALID)?)
        } else {
            None
        };
        let kind = if by.is_some() {
            "group_by"
        } else if by_time.is_some() {
            "group_by_time"
        } else {
            metric
        };
        let over = field.or(by).or(by_time);
        let time = match over {
            None => false,
            Some(name) => self.declared(&sources, name, kind)?,
        };
        self.allowed(&sources, params)?;
        let mut values = Vec::new();
        for seen in &sources {
            for (_, record) in seen.records().filter(|(_, record)| seen.passes(record, params)) {
                values.push(over.and_then(|name| value(seen, name, record.field(name))));
            }
        }
        let mut told = J::of(&json!({
            "object": "aggregation", "stream": request.stream, "metric": metric, "field": field,
            "filtered_record_count": values.len(), "approximate": false, "group_by": by, "group_by_time": by_time,
            "granularity": span, "time_zone": zone.as_ref().map(|zone| zone.name),
        }));
        put(&mut told, "meta", params.meta());
        let counted = |value: &Option<FieldValue>| match (by_time, zone.as_ref(), span) {
            (Some(_), Some(zone), Some(span)) => zone.counted(value.as_ref(), span),
            _ => counted(value.as_ref()),
        };
        if groups > 0 {
            let rows = grouped(values.iter().map(counted).collect(), by.is_some());
            let limit = params.number("limit").unwrap_or(10);
            let (shown, rest) = rows.split_at(rows.len().min(limit as usize));
            put(&mut told, "groups", J::Arr(shown.iter().map(group).collect()));
            put(&mut told, "limit", J::Num(limit.to_string()));
            put(
                &mut told,
                "other_count",
                J::Num(rest.iter().map(|row| row.1).sum::<usize>().to_string()),
            );
        } else {
            let value = match metric {
                "count" => J::Num(values.len().to_string()),
                "sum" => J::Num(sum(&values)?),
                "count_distinct" => {
                    let mut rows = grouped(values.iter().map(counted).collect(), true);
                    rows.retain(|row| row.0 != Counted::None);
                    J::Num(rows.len().to_string())
                }
                _ => extreme(&values, time, metric == "max"),
            };
            put(&mut told, "value", value);
        }
        Ok(told)
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

/// The value of a field, if it is of a declared type.
fn value(seen: &Seen<'_>, name: &str, value: Option<&FieldValue>) -> Option<FieldValue> {
    let types = seen.source.decl.field(name).unwrap().types();
    let fits = match value? {
        FieldValue::Bool(_) => types.contains(&"boolean"),
        FieldValue::Number(_) => types.contains(&"number") || types.contains(&"integer"),
        FieldValue::Text(_) => types.contains(&"string"),
        FieldValue::Null | FieldValue::Json(_) => false,
    };
    value.filter(|_| fits).cloned()
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

/// How many there are of each, the most first or in their own order.
fn grouped(values: Vec<Counted>, largest_first: bool) -> Vec<(Counted, usize)> {
    let mut rows: Vec<(Counted, usize)> = Vec::new();
    for value in values {
        match rows.iter_mut().find(|row| row.0 == value) {
            Some(row) => row.1 += 1,
            None => rows.push((value, 1)),
        }
    }
    rows.sort_by(|a, b| {
        let size = if largest_first { b.1.cmp(&a.1) } else { Ordering::Equal };
        size.then_with(|| order(&a.0, &b.0))
    });
    rows
}

fn order(a: &Counted, b: &Counted) -> Ordering {
    let rank = |value: &Counted| match value {
        Counted::Flag(_) => 0,
        Counted::Number(_) => 1,
        Counted::Text(_) => 2,
        Counted::Long(_) => 3,
        Counted::Time(..) => 4,
        Counted::None => 5,
    };
    match (a, b) {
        (Counted::Flag(a), Counted::Flag(b)) => a.cmp(b),
        (Counted::Number(a), Counted::Number(b)) => compare_numbers(a, b).unwrap(),
        (Counted::Text(a), Counted::Text(b)) => a.cmp(b),
        (Counted::Long(a), Counted::Long(b)) => digest_of(a).cmp(&digest_of(b)),
        (Counted::Time(a, ahead), Counted::Time(b, also_ahead)) => {
            (a - ahead).cmp(&(b - also_ahead))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

fn group((key, count): &(Counted, usize)) -> J {
    let mut told = J::of(&json!({ "count": count }));
    let key = match key {
        Counted::Flag(flag) => J::Bool(*flag),
        Counted::Number(digits) => J::Num(digits.clone()),
        Counted::Text(text) => J::Str(text.clone()),
        Counted::Long(text) => {
            let size = text.chars().count();
            let preview = json!({ "shown_chars": size.min(256), "size_chars": size, "digest": digest_of(text) });
            put(&mut told, "key_preview", J::of(&preview));
            J::Str(text.chars().take(256).collect())
        }
        Counted::Time(local, ahead) => J::Str(written(*local, *ahead)),
        Counted::None => J::Null,
    };
    put(&mut told, "key", key);
    told
}

/// The sum in plain digits. All numbers of the model but one have at most eight places.
fn sum(values: &[Option<FieldValue>]) -> Result<String, Refusal> {
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
    let sign = if sum < 0 { "-" } else { "" };
    let size = sum.unsigned_abs();
    let text = format!("{sign}{}.{:08}", size / 100_000_000, size % 100_000_000);
    Ok(text.trim_end_matches('0').trim_end_matches('.').to_owned())
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
        let local = second + self.ahead(second);
        match span {
            "minute" => return Counted::Time(local - local.rem_euclid(60), self.ahead(second)),
            "hour" => return Counted::Time(local - local.rem_euclid(3600), self.ahead(second)),
            _ => {}
        }
        let day = local.div_euclid(DAY);
        let (year, month, _) = date(day);
        let start = match span {
            "day" => day,
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
