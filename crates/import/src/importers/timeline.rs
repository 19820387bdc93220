//! Imports the location history of a Google account: a record for each visit, trip and path, or
//! for each point that a device reported.
//!
//! Google has written four forms. Takeout had `Records.json`, with the points, and a file for each
//! month with visits and trips. A phone writes one file now, on Android as an object
//! (`Timeline.json`) and on iOS as an array (`location-history.json`). What a phone reported raw
//! (`rawSignals`) and what Google concludes of a person (`userLocationProfile`) are left out.
//!
//! *Source*: the Location History Format of locationhistoryformat.com for the first two, which
//! Google documents nowhere; for the others, the members that exports of 2024 to 2026 have.

use std::io::{self, BufRead as _};

use serde_json::json;
use stile_domain::hash::ContentHash;
use stile_domain::records::instant::Instant;
use stile_domain::records::value::FieldValue;

use super::json_array::JsonArray;
use super::json_members::{self, JsonBeginning};
use super::mapped_rows::{self, MappedRow};
use super::places::{self, MOST_POINTS};
use super::wrapped_json::{RowsPath, WrappedRows};
use super::{compact_time, json_text};
use crate::importer::{
    Contents, ImportRow, ImportRows, ImportTarget, Importer, Recognition, StreamDeclaration,
    UnusableRow, file_bytes,
};
use crate::json_object::JsonObject;
use crate::preset::{PresetDeclaration, PresetField};
use crate::source::InputPath;

/// Imports visits, trips and paths.
pub static IMPORTER: Importer = Importer {
    name: "google-timeline",
    description: "a timeline of Google Maps",
    recognition: Recognition {
        contents: |contents| matches!(contents, Contents::Beginning(bytes) if begins(bytes)),
        ..Recognition::NEVER
    },
    byte_count: file_bytes,
    open: open_timeline,
    declaration: StreamDeclaration::Preset(&places::DECLARATION),
};

/// Imports each point that a device reported.
pub static POINTS: Importer = Importer {
    name: "google-locations",
    description: "locations of Google (`Records.json`)",
    recognition: Recognition {
        contents: |contents| match contents {
            Contents::Beginning(bytes) => begins_with_points(bytes),
            _ => false,
        },
        ..Recognition::NEVER
    },
    byte_count: file_bytes,
    open: open_points,
    declaration: StreamDeclaration::Preset(&POINTS_DECLARATION),
};

static POINTS_DECLARATION: PresetDeclaration = PresetDeclaration {
    default_stream: "locations",
    key: "id",
    time: "at",
    fields: &[
        ("id", PresetField::Name),
        ("at", PresetField::Time),
        ("latitude", PresetField::Amount),
        ("longitude", PresetField::Amount),
        ("accuracy_m", PresetField::Amount),
        ("altitude_m", PresetField::Amount),
        ("source", PresetField::Name),
        ("device", PresetField::Name),
    ],
    keys_can_be_forged: false,
    owner_fields: &[],
    derived_fields: &[],
    because: &[
        "it has the places of devices, a record for each point: `id` is the digest of its device, \
         time and place",
        "`at` orders the records and is the time by which a grant counts",
    ],
};

const OBJECTS: [&str; 2] = ["semanticSegments", "timelineObjects"];

/// Returns whether a file begins as a timeline.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    let is_of_ios = |json: &JsonBeginning| {
        let kinds = ["visit", "activity", "timelinePath"];
        json.is_array
            && json.has(&["startTime", "endTime"])
            && kinds.iter().any(|kind| json.has(&[kind]))
    };
    json_members::beginning(bytes)
        .is_some_and(|json| json.is_object_with(&OBJECTS) || is_of_ios(&json))
}

/// Returns whether a file begins as a list of points.
pub(crate) fn begins_with_points(bytes: &[u8]) -> bool {
    json_members::beginning(bytes)
        .is_some_and(|json| json.is_object_with(&["locations"]) && json.has(&["latitudeE7"]))
}

fn open_timeline(path: &InputPath, _: &ImportTarget) -> io::Result<Box<dyn ImportRows>> {
    let mut json = json_text::open(path)?;
    let beginning = json_members::beginning(json.fill_buf()?);
    let is_array = beginning.as_ref().is_some_and(|json| json.is_array);
    let name = if beginning.is_some_and(|json| json.is_object_with(&["timelineObjects"])) {
        "timelineObjects"
    } else {
        "semanticSegments"
    };
    let segment = |segment: JsonObject| segment_row(&segment);
    if is_array {
        return Ok(mapped_rows::open(path, JsonArray::new(json), segment));
    }
    Ok(mapped_rows::open(path, WrappedRows::new(json, rows_in(name)?), segment))
}

fn open_points(path: &InputPath, _: &ImportTarget) -> io::Result<Box<dyn ImportRows>> {
    let rows = WrappedRows::new(json_text::open(path)?, rows_in("locations")?);
    Ok(mapped_rows::open(path, rows, |point| point_row(&point)))
}

fn rows_in(name: &str) -> io::Result<RowsPath> {
    RowsPath::parse(name).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// A latitude and a longitude in degrees, as decimal texts.
type Place = (String, String);

/// Returns a place that is written in ten millionths of a degree.
fn place_e7(object: &JsonObject) -> Option<Place> {
    let angle = |name: &str, most: i64| {
        let value = object.integer(name)?;
        (value.abs() <= most * 10_000_000).then(|| {
            let (sign, value) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
            format!("{sign}{}.{:07}", value / 10_000_000, value % 10_000_000)
        })
    };
    Some((angle("latitudeE7", 90)?, angle("longitudeE7", 180)?))
}

/// Returns a place such as `48.1374°, 11.5755°`, or `geo:48.1374,11.5755`.
fn place_written(text: &str) -> Option<Place> {
    let text = text.strip_prefix("geo:").unwrap_or(text);
    let (latitude, longitude) = text.split_once(',')?;
    let angle = |text: &str, most: f64| {
        let text = text.trim().trim_end_matches('°').trim();
        let value: f64 = text.parse().ok()?;
        let is_plain = text.bytes().all(|it| it.is_ascii_digit() || matches!(it, b'.' | b'-'));
        (value.abs() <= most && is_plain).then(|| value.to_string())
    };
    Some((angle(latitude, 90.0)?, angle(longitude, 180.0)?))
}

/// Returns a member that is a place: an object with `latLng`, or the text itself.
fn place_of(object: &JsonObject, name: &str) -> Option<Place> {
    match object.object(name) {
        Some(inner) => inner.text("latLng").and_then(place_written).or_else(|| place_e7(&inner)),
        None => object.text(name).and_then(place_written),
    }
}

fn time_of(object: &JsonObject, name: &str) -> Option<String> {
    let text = object.text(name)?;
    compact_time::or_as_written(Instant::parse(text).and_then(compact_time::written), text)
}

fn segment_row(segment: &JsonObject) -> MappedRow {
    if let Some(visit) = segment.object("placeVisit") {
        let place = visit.object("location").unwrap_or_default();
        let said = |name: &str| place.text(name).map(str::to_owned);
        let named = said("name").or_else(|| said("semanticType"));
        let times = visit.object("duration").unwrap_or_default();
        return entry("visit", named, said("address"), &times, place_e7(&place)).finish();
    }
    if let Some(trip) = segment.object("activitySegment") {
        let times = trip.object("duration").unwrap_or_default();
        let from = trip.object("startLocation").and_then(|from| place_e7(&from));
        let kind = trip.text("activityType").map(str::to_owned);
        let mut trip_entry = entry("trip", kind, None, &times, from);
        trip_entry.distance = trip.number("distance");
        return trip_entry.finish();
    }
    if let Some(visit) = segment.object("visit") {
        let best = visit.object("topCandidate").unwrap_or_default();
        let named = best.text("semanticType").filter(|kind| !kind.eq_ignore_ascii_case("unknown"));
        let place = place_of(&best, "placeLocation");
        return entry("visit", named.map(str::to_owned), None, segment, place).finish();
    }
    if let Some(trip) = segment.object("activity") {
        let kind = trip.object("topCandidate").unwrap_or_default();
        let kind = kind.text("type").map(str::to_owned);
        let mut trip_entry = entry("trip", kind, None, segment, place_of(&trip, "start"));
        trip_entry.distance = trip.number("distanceMeters");
        return trip_entry.finish();
    }
    let points = segment.objects("timelinePath");
    if points.is_empty() {
        // A segment such as `timelineMemory` has no place.
        return Ok(None);
    }
    let begun = segment.text("startTime").and_then(Instant::parse);
    let points = points.iter().filter_map(|point| {
        let place = point.text("point").and_then(place_written)?;
        let minutes = point.integer("durationMinutesOffsetFromStartTime");
        let since = minutes.zip(begun).and_then(|(minutes, begun)| {
            minutes.checked_mul(60_000_000)?.checked_add(begun.0).map(Instant)
        });
        let time = time_of(point, "time").or_else(|| since.and_then(compact_time::written));
        Some((time, place))
    });
    let points: Vec<(Option<String>, Place)> = points.collect();
    let first = points.first().map(|(_, place)| place.clone());
    let mut path = entry("path", None, None, segment, first);
    path.points = points;
    path.finish()
}

/// What a record says.
struct Entry {
    kind: &'static str,
    name: Option<String>,
    description: Option<String>,
    started: Option<String>,
    ended: Option<String>,
    place: Option<Place>,
    distance: Option<FieldValue>,
    points: Vec<(Option<String>, Place)>,
}

fn entry(
    kind: &'static str,
    name: Option<String>,
    description: Option<String>,
    times: &JsonObject,
    place: Option<Place>,
) -> Entry {
    let time = |names: [&str; 2]| names.iter().find_map(|name| time_of(times, name));
    let in_millis = |name: &str| {
        let micros = times.integer(name)?.checked_mul(1000)?;
        compact_time::written(Instant(micros))
    };
    Entry {
        kind,
        name,
        description,
        started: time(["startTime", "startTimestamp"]).or_else(|| in_millis("startTimestampMs")),
        ended: time(["endTime", "endTimestamp"]).or_else(|| in_millis("endTimestampMs")),
        place,
        distance: None,
        points: Vec::new(),
    }
}

impl Entry {
    fn finish(self) -> MappedRow {
        let Some((latitude, longitude)) = self.place else {
            let reason = "it has no latitude and longitude";
            return Err(UnusableRow::new("no_place", reason));
        };
        let started = self.started.as_deref().unwrap_or_default();
        let named = format!("{}\n{started}\n{latitude} {longitude}", self.kind);
        let own = |text: Option<String>| text.map(FieldValue::Text);
        let number = |text: String| FieldValue::Number(text.into());
        let step = self.points.len().div_ceil(MOST_POINTS).max(1);
        let last = self.points.len().saturating_sub(1);
        let angle = |text: &str| text.parse::<f64>().ok();
        let kept = self.points.iter().enumerate();
        let kept = kept.filter(|(at, _)| at % step == 0 || *at == last).map(|(_, point)| {
            let (time, (latitude, longitude)) = point;
            json!([time, angle(latitude), angle(longitude), null])
        });
        let kept: Vec<_> = kept.collect();
        let has_points = !kept.is_empty();
        let id = format!("sha256:{}", ContentHash::digest(named.as_bytes()));
        let fields = [
            ("id", Some(FieldValue::Text(id))),
            ("kind", Some(FieldValue::Text(self.kind.to_owned()))),
            ("name", own(self.name)),
            ("description", own(self.description)),
            ("started", own(self.started)),
            ("ended", own(self.ended)),
            ("latitude", Some(number(latitude))),
            ("longitude", Some(number(longitude))),
            ("points", has_points.then(|| number(self.points.len().to_string()))),
            ("distance_m", self.distance),
            ("path", has_points.then(|| FieldValue::Json(json!(kept).to_string()))),
        ];
        Ok(Some(ImportRow::from_message(fields, Vec::new())))
    }
}

fn point_row(point: &JsonObject) -> MappedRow {
    let Some((latitude, longitude)) = place_e7(point) else {
        return Err(UnusableRow::new("no_place", "it has no latitude and longitude"));
    };
    let in_millis = || {
        let micros = point.integer("timestampMs")?.checked_mul(1000)?;
        compact_time::written(Instant(micros))
    };
    let at = time_of(point, "timestamp").or_else(in_millis);
    let device = point.integer("deviceTag").map(|tag| tag.to_string());
    let named = [device.as_deref(), at.as_deref()].map(Option::unwrap_or_default).join("\n");
    let named = format!("{named}\n{latitude} {longitude}");
    let own = |text: Option<String>| text.map(FieldValue::Text);
    let number = |text: String| Some(FieldValue::Number(text.into()));
    let fields = [
        ("id", own(Some(format!("sha256:{}", ContentHash::digest(named.as_bytes()))))),
        ("at", own(at)),
        ("latitude", number(latitude)),
        ("longitude", number(longitude)),
        ("accuracy_m", point.number("accuracy")),
        ("altitude_m", point.number("altitude")),
        ("source", own(point.text("source").map(str::to_owned))),
        ("device", own(device)),
    ];
    Ok(Some(ImportRow::from_message(fields, Vec::new())))
}

#[cfg(test)]
mod tests {
    use stile_domain::records::row;

    use super::super::xml_elements::tests::rows_of;
    use super::*;

    #[test]
    fn the_four_forms_give_the_same_fields() {
        let months = r#"{"timelineObjects": [{"placeVisit": {"location": {"latitudeE7": 481374000,
            "longitudeE7": -5, "name": "Pond", "address": "Park 1"}, "duration":
            {"startTimestamp": "2022-03-03T12:22:24Z", "endTimestamp": "2022-03-03T12:43:34.5Z"}}},
            {"activitySegment": {"startLocation": {"latitudeE7": 414083590, "longitudeE7": 21704229},
            "duration": {"startTimestampMs": "1646310144000", "endTimestampMs": "1646310145000"},
            "distance": 2640, "activityType": "IN_BUS"}}]}"#;
        assert!(begins(months.as_bytes()) && !begins_with_points(months.as_bytes()));
        let rows = rows_of(&IMPORTER, "json", months);
        assert_eq!(
            rows[0],
            json!({
                "id": rows[0]["id"], "kind": "visit", "name": "Pond", "description": "Park 1",
                "started": "2022-03-03T12:22:24Z", "ended": "2022-03-03T12:43:34.500Z",
                "latitude": 48.1374, "longitude": -0.0000005,
            })
        );
        assert_eq!(
            rows[1],
            json!({
                "id": rows[1]["id"], "kind": "trip", "name": "IN_BUS",
                "started": "2022-03-03T12:22:24Z", "ended": "2022-03-03T12:22:25Z",
                "latitude": 41.408359, "longitude": 2.1704229, "distance_m": 2640,
            })
        );
        let android = r#"{"semanticSegments": [{"startTime": "2026-01-05T10:00:00.000+01:00",
            "endTime": "2026-01-05T11:00:00.000+01:00", "visit": {"topCandidate": {"semanticType":
            "HOME", "placeLocation": {"latLng": "48.1374°, 11.5755°"}}}},
            {"startTime": "2026-01-05T11:00:00Z", "endTime": "2026-01-05T12:00:00Z",
            "activity": {"start": {"latLng": "1.5°, -2.5°"}, "distanceMeters": 12.5,
            "topCandidate": {"type": "WALKING"}}},
            {"startTime": "2026-01-05T11:00:00Z", "endTime": "2026-01-05T12:00:00Z", "timelinePath":
            [{"point": "1.5°, -2.5°", "time": "2026-01-05T11:30:00Z"}]},
            {"startTime": "2026-01-05T11:00:00Z", "timelineMemory": {}}], "rawSignals": [{"a": 1}]}"#;
        assert!(begins(android.as_bytes()));
        let rows = rows_of(&IMPORTER, "json", android);
        assert_eq!(rows.len(), 3);
        assert_eq!(
            (&rows[0]["name"], &rows[0]["started"], &rows[0]["longitude"]),
            (&json!("HOME"), &json!("2026-01-05T09:00:00Z"), &json!(11.5755))
        );
        assert_eq!(
            (&rows[1]["kind"], &rows[1]["name"], &rows[1]["distance_m"]),
            (&json!("trip"), &json!("WALKING"), &json!(12.5))
        );
        assert_eq!(
            (&rows[2]["kind"], &rows[2]["path"]),
            (&json!("path"), &json!([["2026-01-05T11:30:00Z", 1.5, -2.5, null]]))
        );
        let ios = r#"[{"startTime": "2026-01-05T10:00:00Z", "endTime": "2026-01-05T11:00:00Z",
            "visit": {"topCandidate": {"semanticType": "Unknown", "placeLocation": "geo:1.5,2.5"}}},
            {"startTime": "2026-01-05T10:00:00Z", "endTime": "2026-01-05T11:00:00Z",
            "timelinePath": [{"point": "geo:1.5,2.5", "durationMinutesOffsetFromStartTime": "30"}]}]"#;
        assert!(begins(ios.as_bytes()));
        let rows = rows_of(&IMPORTER, "json", ios);
        assert_eq!((rows[0].get("name"), &rows[0]["latitude"]), (None, &json!(1.5)));
        assert_eq!(rows[1]["path"], json!([["2026-01-05T10:30:00Z", 1.5, 2.5, null]]));
        assert!(segment_row(&JsonObject(row::parse(b"{\"visit\":{}}").unwrap().fields)).is_err());
        let points = r#"{"locations": [{"latitudeE7": 481374000, "longitudeE7": 115755000,
            "accuracy": 20, "source": "WIFI", "deviceTag": -5, "timestamp":
            "2026-01-05T10:00:00.123Z"}, {"timestampMs": "1486110600090", "latitudeE7": 356617253,
            "longitudeE7": 1396787215, "altitude": 98}]}"#;
        assert!(begins_with_points(points.as_bytes()));
        let rows = rows_of(&POINTS, "json", points);
        assert_eq!(
            rows[0],
            json!({
                "id": rows[0]["id"], "at": "2026-01-05T10:00:00.123Z", "latitude": 48.1374,
                "longitude": 11.5755, "accuracy_m": 20, "source": "WIFI", "device": "-5",
            })
        );
        assert_eq!(
            (&rows[1]["at"], &rows[1]["altitude_m"]),
            (&json!("2017-02-03T08:30:00.090Z"), &json!(98))
        );
    }
}
