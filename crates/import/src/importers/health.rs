//! Imports the export of Apple Health (`export.xml`): a record for each measurement and workout.
//!
//! *Source*: the document type that each export begins with.

use stile_domain::hash::ContentHash;
use stile_domain::records::instant::Instant;
use stile_domain::records::value::FieldValue;

use super::xml_elements::{Element, is_document_of};
use super::{compact_time, xml_elements};
use crate::importer::{
    Contents, ImportRow, Importer, Recognition, StreamDeclaration, UnusableRow, file_bytes,
};
use crate::preset::{PresetDeclaration, PresetField};

/// What the names of kinds begin with, which says nothing to a person.
const PREFIXES: [&str; 4] =
    ["HKQuantityTypeIdentifier", "HKCategoryTypeIdentifier", "HKWorkoutActivityType", "HKDataType"];

/// Imports each measurement and each workout.
pub static IMPORTER: Importer = Importer {
    name: "health",
    description: "Apple Health (export.xml)",
    recognition: Recognition {
        contents: |contents| matches!(contents, Contents::Beginning(bytes) if is_document_of(bytes, "HealthData")),
        ..Recognition::NEVER
    },
    byte_count: file_bytes,
    open: |path, _| xml_elements::open(path, &["Record", "Workout"], |element| vec![row(element)]),
    declaration: StreamDeclaration::Preset(&DECLARATION),
};

static DECLARATION: PresetDeclaration = PresetDeclaration {
    default_stream: "health",
    key: "id",
    time: "started",
    fields: &[
        ("id", PresetField::Name),
        ("kind", PresetField::Name),
        ("value", PresetField::Amount),
        ("unit", PresetField::Name),
        ("state", PresetField::Name),
        ("started", PresetField::Time),
        ("ended", PresetField::Time),
        ("minutes", PresetField::Amount),
        ("device", PresetField::Name),
    ],
    keys_can_be_forged: false,
    owner_fields: &[],
    derived_fields: &[],
    because: &[
        "it is an export of Apple Health, a record for each measurement and workout: `id` is the \
         digest of all that it says",
        "`value` can be added up and averaged, by `kind` and by time; filter by one `kind`, since \
         each has its `unit`",
        "`started` orders the records and is the time by which a grant counts",
    ],
};

fn row(element: &Element) -> Result<ImportRow, UnusableRow> {
    let is_workout = element.name == "Workout";
    let kind = element.attribute(if is_workout { "workoutActivityType" } else { "type" });
    let Some(kind) = kind else {
        return Err(UnusableRow::new("no_kind", "it does not say what was measured"));
    };
    let plain = PREFIXES.iter().find_map(|prefix| kind.strip_prefix(prefix)).unwrap_or(&kind);
    let kind = if is_workout { format!("Workout{plain}") } else { plain.to_owned() };
    // What is measured twice alike is one record, and so is what a second export has again.
    let mut said = element.name.clone();
    for (name, value) in &element.attributes {
        said.push_str(&format!("\n{name}={value}"));
    }
    let own = |text: Option<String>| text.map(FieldValue::Text);
    let value = element.attribute("value").or_else(|| element.attribute("totalDistance"));
    let unit = element.attribute("unit").or_else(|| element.attribute("totalDistanceUnit"));
    let number = value.clone().filter(|value| is_json_number(value));
    let state = value.filter(|value| !is_json_number(value));
    let instant = |name: &str| element.attribute(name).as_deref().and_then(time);
    let (started, ended) = (instant("startDate"), instant("endDate"));
    let minutes = started.zip(ended).map(|(from, to)| to.0.saturating_sub(from.0));
    // Most measurements are of one moment, and sleep and workouts are not.
    let minutes = minutes
        .filter(|micros| *micros > 0)
        .map(|micros| FieldValue::Number(format!("{:.1}", micros as f64 / 60e6).into()));
    let written = |at: Option<Instant>, name: &str| {
        let text = element.attribute(name)?;
        own(compact_time::or_as_written(at.and_then(compact_time::written), &text))
    };
    let fields = [
        ("id", own(Some(format!("sha256:{}", ContentHash::digest(said.as_bytes()))))),
        ("kind", own(Some(kind))),
        ("value", number.map(|number| FieldValue::Number(number.into()))),
        ("unit", own(unit)),
        ("state", own(state)),
        ("started", written(started, "startDate")),
        ("ended", written(ended, "endDate")),
        ("minutes", minutes),
        ("device", own(element.attribute("sourceName"))),
    ];
    Ok(ImportRow::from_message(fields, Vec::new()))
}

fn is_json_number(text: &str) -> bool {
    serde_json::from_str::<serde_json::Number>(text).is_ok()
}

/// Parses a time such as `2026-01-05 08:00:00 +0100`.
fn time(text: &str) -> Option<Instant> {
    let mut parts = text.split(' ');
    let (date, clock, zone) = (parts.next()?, parts.next()?, parts.next()?);
    let (hours, minutes) = zone.split_at_checked(3)?;
    Instant::parse(&format!("{date}T{clock}{hours}:{minutes}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::xml_elements::tests::rows_of;
    use super::*;

    #[test]
    fn a_time_that_cannot_be_read_is_kept() {
        let rows = rows_of(
            &IMPORTER,
            "xml",
            "<HealthData><Record type=\"x\" startDate=\"bad\" endDate=\"2026-01-05 08:10:00 +0100\"/></HealthData>",
        );
        assert_eq!(rows[0]["started"], "bad");
    }

    #[test]
    fn measurements_and_workouts_are_records_that_can_be_added_up() {
        let text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE HealthData [\n\
            <!ELEMENT HealthData (Record)>\n]>\n<HealthData locale=\"de_CH\">\n\
            <Record type=\"HKQuantityTypeIdentifierStepCount\" sourceName=\"Phone\" unit=\"count\" \
            startDate=\"2026-01-05 08:00:00 +0100\" endDate=\"2026-01-05 08:10:00 +0100\" \
            value=\"412\"/>\n<Record type=\"HKCategoryTypeIdentifierSleepAnalysis\" \
            startDate=\"2026-01-05 00:00:00 +0100\" value=\"HKCategoryValueSleepAnalysisAsleep\">\
            <MetadataEntry key=\"k\" value=\"v\"/></Record>\n<Workout \
            workoutActivityType=\"HKWorkoutActivityTypeWalking\" totalDistance=\"2.5\" \
            totalDistanceUnit=\"km\" startDate=\"2026-01-06 08:00:00 +0100\"/>\n</HealthData>";
        let rows = rows_of(&IMPORTER, "xml", text);
        assert_eq!(
            rows[0],
            json!({
                "id": rows[0]["id"], "kind": "StepCount", "value": 412, "unit": "count",
                "started": "2026-01-05T07:00:00Z", "ended": "2026-01-05T07:10:00Z",
                "minutes": 10.0, "device": "Phone",
            })
        );
        assert_eq!(rows[1]["state"], "HKCategoryValueSleepAnalysisAsleep");
        assert!(rows[1].get("value").is_none());
        assert_eq!(
            (&rows[2]["kind"], &rows[2]["value"], &rows[2]["unit"]),
            (&json!("WorkoutWalking"), &json!(2.5), &json!("km"))
        );
        let again = rows_of(&IMPORTER, "xml", text);
        assert_eq!(rows, again, "a second export has the same records");
    }
}
