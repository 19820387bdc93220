//! Imports what Google keeps of a person's activity (`MyActivity.json`, and `watch-history.json`
//! and `search-history.json` of YouTube): a record for each activity.
//!
//! *Source*: My Activity, in the schema reference of Google's Data Portability API.

use std::io;

use serde_json::json;
use stile_domain::hash::ContentHash;
use stile_domain::records::instant::Instant;
use stile_domain::records::value::FieldValue;

use super::json_array::JsonArray;
use super::{compact_time, json_members, json_text, mapped_rows};
use crate::importer::{
    Contents, ImportRow, ImportRows, Importer, Recognition, StreamDeclaration, file_bytes,
};
use crate::json_object::JsonObject;
use crate::preset::{PresetDeclaration, PresetField};
use crate::source::InputPath;

/// Imports each activity of a person.
pub static IMPORTER: Importer = Importer {
    name: "google-activity",
    description: "activity at Google (`MyActivity.json`, `watch-history.json`)",
    recognition: Recognition {
        contents: |contents| matches!(contents, Contents::Beginning(bytes) if begins(bytes)),
        ..Recognition::NEVER
    },
    byte_count: file_bytes,
    open,
    declaration: StreamDeclaration::Preset(&DECLARATION),
};

static DECLARATION: PresetDeclaration = PresetDeclaration {
    default_stream: "activity",
    key: "id",
    time: "at",
    fields: &[
        ("id", PresetField::Name),
        ("at", PresetField::Time),
        ("product", PresetField::Name),
        ("title", PresetField::SearchedText),
        ("url", PresetField::Name),
        ("by", PresetField::SearchedText),
        ("by_url", PresetField::Name),
        ("description", PresetField::SearchedText),
        ("details", PresetField::Names),
    ],
    keys_can_be_forged: false,
    owner_fields: &[],
    derived_fields: &[],
    because: &[
        "it is what Google keeps of your activity, a record for each: `id` is the digest of its \
         product, title, address and time",
        "`at` orders the records and is the time by which a grant counts",
        "`title`, `by` (such as the channel of a video), `description` and `details` can be \
         searched",
    ],
};

/// Returns whether a file begins as an array of activities.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    json_members::beginning(bytes)
        .is_some_and(|json| json.is_array && json.has(&["header", "title"]))
}

fn open(path: &InputPath, _: &crate::importer::ImportTarget) -> io::Result<Box<dyn ImportRows>> {
    let rows = JsonArray::new(json_text::open(path)?);
    Ok(mapped_rows::open(path, rows, |activity| Ok(Some(row(&activity)))))
}

fn row(activity: &JsonObject) -> ImportRow {
    let own = |text: Option<&str>| text.map(|text| FieldValue::Text(text.to_owned()));
    let products = activity.items("products").into_iter().filter_map(|product| match product {
        FieldValue::Text(product) => Some(product),
        _ => None,
    });
    let product = products.into_iter().next();
    let product = product.as_deref().or_else(|| activity.text("header"));
    let (title, url, at) =
        (activity.text("title"), activity.text("titleUrl"), activity.text("time"));
    let named = [product, title, url, at].map(Option::unwrap_or_default).join("\n");
    let subtitles = activity.objects("subtitles");
    let by = subtitles.first();
    let lines = |of: &[JsonObject]| {
        let names: Vec<String> =
            of.iter().filter_map(|line| line.text("name").map(str::to_owned)).collect();
        (!names.is_empty()).then(|| FieldValue::Json(json!(names).to_string()))
    };
    let at = at.and_then(|text| {
        let read = Instant::parse(text).and_then(compact_time::written);
        compact_time::or_as_written(read, text)
    });
    let fields = [
        ("id", Some(FieldValue::Text(format!("sha256:{}", ContentHash::digest(named.as_bytes()))))),
        ("at", at.map(FieldValue::Text)),
        ("product", own(product)),
        ("title", own(title)),
        ("url", own(url)),
        ("by", own(by.and_then(|by| by.text("name")))),
        ("by_url", own(by.and_then(|by| by.text("url")))),
        ("description", own(activity.text("description"))),
        ("details", lines(&activity.objects("details"))),
    ];
    ImportRow::from_message(fields, Vec::new())
}

#[cfg(test)]
mod tests {
    use super::super::xml_elements::tests::rows_of;
    use super::*;

    #[test]
    fn each_activity_is_a_record_with_its_product_and_channel() {
        let text = r#"[{"header": "YouTube", "title": "Watched Herons", "titleUrl":
            "https://www.youtube.com/watch?v=h", "subtitles": [{"name": "Birds", "url":
            "https://www.youtube.com/channel/b"}], "time": "2026-01-05T10:11:12.123Z",
            "products": ["YouTube"], "details": [{"name": "From Google Ads"}],
            "activityControls": ["YouTube watch history"]},
            {"header": "Search", "title": "Searched for ferns", "time": "2026-01-06T00:00:00Z"}]"#;
        assert!(begins(text.as_bytes()));
        assert!(!begins(b"[{\"title\": \"x\"}]"));
        let rows = rows_of(&IMPORTER, "json", text);
        assert_eq!(
            rows[0],
            json!({
                "id": rows[0]["id"], "at": "2026-01-05T10:11:12.123Z", "product": "YouTube",
                "title": "Watched Herons", "url": "https://www.youtube.com/watch?v=h",
                "by": "Birds", "by_url": "https://www.youtube.com/channel/b",
                "details": ["From Google Ads"],
            })
        );
        assert_eq!((&rows[1]["product"], rows[1].get("url")), (&json!("Search"), None));
    }
}
