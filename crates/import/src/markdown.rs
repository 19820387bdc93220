//! A folder of Markdown: a record for each note, with its path, its front matter and its text.
//!
//! Front matter is read by the same reader as for the note tools. A note may be larger than memory:
//! its front matter stands in its first [`HEAD_BYTES`], and whoever has the file goes on from
//! [`Head::text_starts`] and streams the rest into the field [`TEXT`]. No heading and no section is
//! derived or stored.

use std::collections::HashSet;

use serde_json::Value as Json;
use stile_domain::notes::parse_front_matter;
use stile_domain::records::identifiers;
use stile_domain::records::instant::Instant;
use stile_domain::records::value::{FieldValue, RecordFields};

/// The field with the note's path in its folder, `/` between its parts. The key.
pub const PATH: &str = "path";
/// The field with the time of the file's last change.
pub const MODIFIED: &str = "modified";
/// The field with what follows the front matter.
pub const TEXT: &str = "text";
/// How much of a file has to be read to have its front matter.
pub const HEAD_BYTES: usize = 1024 * 1024;

/// What stands before a member of the front matter that is called like one of our fields.
const PREFIX: &str = "fm_";

/// The beginning of a note.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The members of the front matter in their order. One called `path`, `modified` or `text` has
    /// `fm_` before its name; one whose name no field can have is left out.
    pub fields: RecordFields,
    /// Where the text begins, in bytes of the file. Front matter that is no valid YAML is text.
    pub text_starts: usize,
}

/// Reads the beginning of a note: the whole of it, or its first [`HEAD_BYTES`] up to a whole
/// character.
///
/// A mark before the first character belongs neither to the front matter nor to the text.
pub fn head(first: &str) -> Head {
    let unmarked = first.strip_prefix('\u{feff}').unwrap_or(first);
    let (members, starts) = parse_front_matter(unmarked);
    let mut names: HashSet<String> = [PATH, MODIFIED, TEXT].map(str::to_owned).into();
    // Other members keep their names, also where a prefix makes one of ours into such a name.
    names.extend(
        members.keys().filter(|name| ![PATH, MODIFIED, TEXT].contains(&name.as_str())).cloned(),
    );
    let mut fields = RecordFields::new();
    for (name, json) in members {
        let mut free = name;
        if [PATH, MODIFIED, TEXT].contains(&free.as_str()) {
            while !names.insert(free.clone()) {
                free.insert_str(0, PREFIX);
            }
        }
        if identifiers::is_field_name(&free) {
            fields.push((free, value(json)));
        }
    }
    Head { fields, text_starts: first.len() - unmarked.len() + starts }
}

impl Head {
    /// The fields of the record but for its text: the path, the time of the last change where it is
    /// known, and the front matter.
    pub fn fields(self, path: &str, modified: Option<Instant>) -> RecordFields {
        let mut fields = vec![(PATH.to_owned(), FieldValue::Text(path.to_owned()))];
        if let Some(modified) = modified {
            fields.push((MODIFIED.to_owned(), FieldValue::Text(modified.to_rfc3339())));
        }
        fields.extend(self.fields);
        fields
    }
}

/// The fields of a note that is in memory.
pub fn note(path: &str, modified: Option<Instant>, file: &str) -> RecordFields {
    let head = head(file);
    let text = file.get(head.text_starts..).unwrap_or_default().to_owned();
    let mut fields = head.fields(path, modified);
    fields.push((TEXT.to_owned(), FieldValue::Text(text)));
    fields
}

fn value(json: Json) -> FieldValue {
    match json {
        Json::Null => FieldValue::Null,
        Json::Bool(value) => FieldValue::Bool(value),
        Json::Number(number) => FieldValue::Number(number.to_string().into()),
        Json::String(text) => FieldValue::Text(text),
        nested => FieldValue::Json(nested.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stile_domain::records::row;

    use super::*;

    fn told(file: &str) -> String {
        row::to_json(&note("a/b.md", Some(Instant(0)), file))
    }

    #[test]
    fn a_note_is_its_path_its_front_matter_and_its_text() {
        insta::assert_snapshot!(
            told("\u{feff}---\ntitle: Ferns\ntags: [moss, 007]\nrating: 4.5\ndone: true\nnone: ~\nmeta: {a: 1}\n---\n# Text\n"),
            @r##"{"path":"a/b.md","modified":"1970-01-01T00:00:00Z","title":"Ferns","tags":["moss","007"],"rating":4.5,"done":true,"none":null,"meta":{"a":1},"text":"# Text\n"}"##
        );
        assert_eq!(row::to_json(&note("x.md", None, "plain")), r#"{"path":"x.md","text":"plain"}"#);
        assert_eq!(row::to_json(&note("x.md", None, "")), r#"{"path":"x.md","text":""}"#);
    }

    #[test]
    fn members_called_like_our_fields_get_another_name() {
        let fields = head("---\nfm_text: 1\ntext: 2\npath: 3\nmodified: 4\n\"\": 5\n---\n").fields;
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["fm_text", "fm_fm_text", "fm_path", "fm_modified"]);
    }

    #[test]
    fn front_matter_that_is_no_yaml_is_text() {
        for file in [
            "---\na: [\n---\nx",
            "---\na: 1\na: 2\n---\n",
            "---\nno end",
            "--- \na: 1\n---\n",
            "---\n- a\n---\n",
        ] {
            assert_eq!(head(file), Head::default(), "{file}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_record(file in "(---\n([a-z]{1,4}: [a-z0-9\\[\\]]{0,4}\n){0,3}---\n)?\\PC{0,40}") {
            let fields = note("x.md", None, &file);
            let names: HashSet<&String> = fields.iter().map(|(name, _)| name).collect();
            prop_assert_eq!(names.len(), fields.len());
            let json = row::to_json(&fields);
            prop_assert_eq!(row::parse(json.as_bytes()).unwrap().fields, fields);
        }
    }
}
