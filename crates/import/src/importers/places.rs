//! Imports places and tracks (GPX): a record for each waypoint, track and route.
//!
//! *Source*: GPX 1.1.

use serde_json::json;
use stile_domain::hash::ContentHash;
use stile_domain::records::instant::Instant;
use stile_domain::records::value::FieldValue;

use super::compact_time;
use super::whole_file::Keys;
use super::xml_elements::{self, Element, is_document_of};
use crate::importer::{
    Contents, ImportRow, Importer, Recognition, StreamDeclaration, UnusableRow, file_bytes,
};
use crate::preset::{PresetDeclaration, PresetField};

/// The most points of a track that its record has.
pub(super) const MOST_POINTS: usize = 2000;
/// The mean radius of the Earth in metres.
const EARTH_RADIUS: f64 = 6_371_008.8;

/// Imports each waypoint, track and route.
pub static IMPORTER: Importer = Importer {
    name: "gpx",
    description: "tracks (GPX)",
    recognition: Recognition {
        contents: |contents| matches!(contents, Contents::Beginning(bytes) if is_document_of(bytes, "gpx")),
        extensions: &["gpx"],
        ..Recognition::NEVER
    },
    byte_count: file_bytes,
    open: |path, _| {
        let mut keys = Keys::default();
        let to_rows = move |element: &Element| vec![row(element, &mut keys)];
        xml_elements::open(path, &["wpt", "trk", "rte"], to_rows)
    },
    declaration: StreamDeclaration::Preset(&DECLARATION),
};

pub(super) static DECLARATION: PresetDeclaration = PresetDeclaration {
    default_stream: "places",
    key: "id",
    time: "started",
    fields: &[
        ("id", PresetField::Name),
        ("kind", PresetField::Name),
        ("name", PresetField::SearchedText),
        ("description", PresetField::SearchedText),
        ("started", PresetField::Time),
        ("ended", PresetField::Time),
        ("latitude", PresetField::Amount),
        ("longitude", PresetField::Amount),
        ("points", PresetField::Amount),
        ("distance_m", PresetField::Amount),
        ("lowest_m", PresetField::Amount),
        ("highest_m", PresetField::Amount),
        ("path", PresetField::List),
    ],
    keys_can_be_forged: false,
    owner_fields: &[],
    derived_fields: &[],
    because: &[
        "it has places and tracks, a record for each: `id` is the digest of its kind, name, first \
         time and first point",
        "`started` orders the records and is the time by which a grant counts; places without a time \
         are outside of such a grant",
        "`distance_m` can be added up; `path` has at most 2,000 points of a track, as \
         [time, latitude, longitude, metres above the sea]",
    ],
};

/// A point of a track, or a place.
struct Point {
    latitude: f64,
    longitude: f64,
    metres: Option<f64>,
    time: Option<Instant>,
    /// The time as it is written, if it cannot be read.
    unread_time: Option<String>,
}

impl Point {
    fn of(element: &Element) -> Option<Self> {
        let angle = |name: &str, most: f64| {
            let value: f64 = element.attribute(name)?.parse().ok()?;
            (value.abs() <= most).then_some(value)
        };
        let metres = element.text_of("ele").and_then(|metres| metres.parse().ok());
        let written = element.text_of("time");
        let time = written.as_deref().and_then(Instant::parse);
        Some(Self {
            unread_time: written.filter(|_| time.is_none()),
            latitude: angle("lat", 90.0)?,
            longitude: angle("lon", 180.0)?,
            metres: metres.filter(|metres: &f64| metres.is_finite()),
            time,
        })
    }

    /// Returns the metres between two points on the surface of the Earth.
    ///
    /// *Source*: R. W. Sinnott, "Virtues of the haversine", 1984.
    fn metres_to(&self, other: &Self) -> f64 {
        let (from, to) = (self.latitude.to_radians(), other.latitude.to_radians());
        let east = (other.longitude - self.longitude).to_radians();
        let half =
            ((to - from) / 2.0).sin().powi(2) + from.cos() * to.cos() * (east / 2.0).sin().powi(2);
        2.0 * EARTH_RADIUS * half.sqrt().min(1.0).asin()
    }
}

fn row(element: &Element, keys: &mut Keys) -> Result<ImportRow, UnusableRow> {
    // Between two parts of a track nobody knows the way.
    let (kind, parts): (_, Vec<Vec<&Element>>) = match element.name.as_str() {
        "trk" => ("track", element.all("trkseg").map(|part| part.all("trkpt").collect()).collect()),
        "rte" => ("route", vec![element.all("rtept").collect()]),
        _ => ("place", vec![vec![element]]),
    };
    let parts: Vec<Vec<Point>> = parts
        .iter()
        .map(|part| part.iter().filter_map(|point| Point::of(point)).collect())
        .collect();
    let points: Vec<&Point> = parts.iter().flatten().collect();
    let Some(first) = points.first() else {
        return Err(UnusableRow::new(
            "no_place",
            "it has no point with a latitude and a longitude",
        ));
    };
    let name = element.text_of("name");
    let times = || points.iter().filter_map(|point| point.time);
    let (started, ended) = (times().min(), times().max());
    let unread = points.iter().find_map(|point| point.unread_time.clone());
    let heights = || points.iter().filter_map(|point| point.metres);
    let distance: f64 = parts
        .iter()
        .flat_map(|part| part.windows(2))
        .map(|pair| if let [from, to] = pair { from.metres_to(to) } else { 0.0 })
        .sum();
    let named = format!(
        "{kind}\n{}\n{:?}\n{} {}",
        name.as_deref().unwrap_or_default(),
        started,
        first.latitude,
        first.longitude
    );
    let id = keys.take(format!("sha256:{}", ContentHash::digest(named.as_bytes())));
    let own = |text: Option<String>| text.map(FieldValue::Text);
    let time = |at: Option<Instant>| own(at.and_then(compact_time::written));
    let is_way = kind != "place";
    let way = |value: String| is_way.then(|| FieldValue::Number(value.into()));
    let height = |of: fn(f64, f64) -> f64| {
        heights().reduce(of).map(|metres| FieldValue::Number(format!("{metres:.1}").into()))
    };
    let fields = [
        ("id", Some(FieldValue::Text(id))),
        ("kind", Some(FieldValue::Text(kind.to_owned()))),
        ("name", own(name)),
        ("description", own(element.text_of("desc").or_else(|| element.text_of("cmt")))),
        ("started", time(started).or_else(|| own(unread))),
        ("ended", time(ended).filter(|_| is_way)),
        ("latitude", Some(FieldValue::Number(first.latitude.to_string().into()))),
        ("longitude", Some(FieldValue::Number(first.longitude.to_string().into()))),
        ("points", way(points.len().to_string())),
        ("distance_m", way(format!("{distance:.0}"))),
        ("lowest_m", height(f64::min)),
        ("highest_m", height(f64::max)),
        ("path", is_way.then(|| path(&points))),
    ];
    Ok(ImportRow::from_message(fields, Vec::new()))
}

/// Returns the points of a way, of a long one every second, third or later one, and the last.
fn path(points: &[&Point]) -> FieldValue {
    let step = points.len().div_ceil(MOST_POINTS).max(1);
    let last = points.len().saturating_sub(1);
    let kept = points.iter().enumerate().filter(|(place, _)| place % step == 0 || *place == last);
    let kept: Vec<_> = kept
        .map(|(_, point)| {
            let time = point.time.and_then(compact_time::written);
            json!([time, point.latitude, point.longitude, point.metres])
        })
        .collect();
    FieldValue::Json(json!(kept).to_string())
}

#[cfg(test)]
mod tests {
    use super::super::xml_elements::tests::rows_of;
    use super::*;

    #[test]
    fn places_and_tracks_are_records_with_times_and_distances() {
        let text = "<?xml version='1.0'?><gpx version='1.1'><wpt lat='47.1' lon='8.5'>\
            <name>Heron pond</name><ele>410.5</ele></wpt><trk><name>Walk</name><trkseg>\
            <trkpt lat='0' lon='0'><ele>10</ele><time>2026-01-05T10:00:00Z</time></trkpt>\
            <trkpt lat='0' lon='1'><ele>30</ele><time>2026-01-05T11:00:00Z</time></trkpt></trkseg>\
            <trkseg><trkpt lat='5' lon='5'/></trkseg></trk><trk/><wpt lat='91' lon='0'/></gpx>";
        let whole = text.replace("<trk/>", "").replace("<wpt lat='91' lon='0'/>", "");
        let rows = rows_of(&IMPORTER, "gpx", &whole);
        assert_eq!(
            (rows.len(), &rows[0]["kind"], &rows[0]["name"]),
            (2, &"place".into(), &"Heron pond".into())
        );
        assert_eq!(rows[0]["latitude"], json!(47.1));
        assert!(rows[0].get("path").is_none() && rows[0]["highest_m"] == json!(410.5));
        let walk = &rows[1];
        assert_eq!(
            (&walk["started"], &walk["ended"]),
            (&json!("2026-01-05T10:00:00Z"), &json!("2026-01-05T11:00:00Z"))
        );
        // A degree of the equator is a 360th part of it. Between two parts the way is not known.
        assert_eq!((&walk["points"], &walk["distance_m"]), (&json!(3), &json!(111_195)));
        assert_eq!((&walk["lowest_m"], &walk["highest_m"]), (&json!(10.0), &json!(30.0)));
        assert_eq!(walk["path"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn what_has_no_point_on_the_earth_is_a_bad_row() {
        let mut keys = Keys::default();
        let place = Element {
            name: "wpt".to_owned(),
            attributes: vec![
                ("lat".to_owned(), "91".to_owned()),
                ("lon".to_owned(), "0".to_owned()),
            ],
            ..Element::default()
        };
        assert_eq!(row(&place, &mut keys).unwrap_err().code, "no_place");
        let track = Element { name: "trk".to_owned(), ..Element::default() };
        assert_eq!(row(&track, &mut keys).unwrap_err().code, "no_place");
    }
}
