//! Notes as JSON, for the way from the server that has the files to the gateway.
//!
//! The server writes a note with [`to_json`]. The gateway reads it with [`PortableNote::parse`] and
//! trusts nothing else in the message. Each answer that is derived from the JSON equals the answer
//! that is derived from the file.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::front_matter::{Front, FrontMatterMembers, Note};
use super::note_path::NotePath;
use super::yaml::{self, PlainDates};

/// A note that another server sent.
#[derive(Clone, PartialEq)]
pub struct PortableNote {
    pub(super) front: Option<FrontMatterMembers>,
    pub(super) body: String,
}

/// The error for a message that holds no note. It does not repeat the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer holds no note")]
pub struct BadNote;

/// The members that are read. All others are ignored, above all `path`.
#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    frontmatter: Json,
    body: String,
}

impl PortableNote {
    /// Parses `{ "frontmatter"?, "body", … }`.
    ///
    /// The front matter is an object, the JSON text of an object, or the JSON text of that text.
    /// Any other string counts as absent front matter, as invalid YAML does in a file.
    ///
    /// # Errors
    /// [`BadNote`] for a text that is not JSON, for a `body` that is not a string, for a
    /// `frontmatter` of another type, and where either member occurs twice.
    pub fn parse(json: &[u8]) -> Result<Self, BadNote> {
        // serde also reads a struct from an array of its fields.
        if json.trim_ascii_start().first() != Some(&b'{') {
            return Err(BadNote);
        }
        let Wire { frontmatter, body } = serde_json::from_slice(json).map_err(|_| BadNote)?;
        let front = match frontmatter {
            Json::Object(members) => Some(members),
            Json::Null => None,
            Json::String(text) => unwrapped(&text),
            _ => return Err(BadNote),
        };
        Ok(Self { front, body })
    }

    /// Returns the note as the derivations take it.
    pub fn as_note(&self) -> Note<'_> {
        Note::new(self.front.as_ref().map_or(Front::None, Front::Json), &self.body)
    }

    /// Returns the length of the body in bytes.
    pub fn body_bytes(&self) -> usize {
        self.body.len()
    }
}

/// Parses an object from its JSON text, or from the JSON text of that text.
fn unwrapped(text: &str) -> Option<FrontMatterMembers> {
    let parse = |text: &str| serde_json::from_str::<Json>(text).ok();
    match parse(text)? {
        Json::Object(members) => Some(members),
        Json::String(inner) => match parse(&inner)? {
            Json::Object(members) => Some(members),
            _ => None,
        },
        _ => None,
    }
}

/// Converts the note of a file to JSON: `{"path","frontmatter","body"}`.
///
/// Values of the front matter keep their spelling in the source. A number that JSON would spell
/// otherwise becomes a string. A YAML date in `date` or `updated` becomes ISO 8601, because JSON
/// has no dates and readers of these two members need a time. A value that cannot be
/// read, such as an alias, becomes the object `{"stile:unreadable":true}`.
pub fn to_json(path: &NotePath, text: &str) -> String {
    let note = Note::parse(text);
    let front = match note.front {
        Front::Yaml(text) => {
            yaml::members(text, PlainDates::Times).map(|front| front.members).unwrap_or_default()
        }
        _ => FrontMatterMembers::new(),
    };
    json!({ "path": path.as_str(), "frontmatter": front, "body": note.body }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<PortableNote, BadNote> {
        PortableNote::parse(json.as_bytes())
    }

    #[test]
    fn the_answer_from_json_misses_what_the_answer_from_the_file_misses() {
        use super::super::metadata_facets;
        let path = NotePath::parse("a.md").unwrap();
        for (front, truncated) in [
            ("tags: [one, two]", false),
            ("x: &x 1\ntags: *x", true),
            ("x: &x 1\ntags: [one, *x]", true),
            ("x: &x {tags: [one]}\n<<: *x", true),
            // A note that holds the object for an unreadable value has nothing unreadable.
            ("tags: {\"stile:unreadable\": true}", false),
            ("tags: [one, {\"stile:unreadable\": true}]", false),
        ] {
            let text = format!("---\n{front}\n---\nbody\n");
            let sent = PortableNote::parse(to_json(&path, &text).as_bytes()).unwrap();
            let from_file = metadata_facets(&path, Note::parse(&text)).unwrap();
            let from_json = metadata_facets(&path, sent.as_note()).unwrap();
            let [file, json] = [from_file, from_json].map(|facets| json!(facets));
            assert_eq!(file, json, "{front}");
            assert_eq!(file["truncated"], truncated, "{front}");
        }
    }

    #[test]
    fn front_matter_has_three_forms_and_other_strings_count_as_absent() {
        let object = r#"{"title":"A"}"#;
        let once = Json::from(object).to_string();
        let twice = Json::from(once.as_str()).to_string();
        let thrice = Json::from(twice.as_str()).to_string();
        for form in [object, &once, &twice] {
            let note =
                parse(&format!(r#"{{"frontmatter":{form},"body":"b","path":"/etc/passwd"}}"#))
                    .unwrap();
            assert_eq!(note.front.unwrap()["title"], "A", "{form}");
        }
        for form in ["null", r#""""#, r#""title: A""#, r#""[1]""#, r#""7""#, r#""\"{\"""#, &thrice]
        {
            let note = parse(&format!(r#"{{"frontmatter":{form},"body":"b"}}"#)).unwrap();
            assert_eq!(note.front, None, "{form}");
        }
        assert_eq!(parse(r#"{"body":"b"}"#).unwrap().front, None);
    }

    #[test]
    fn a_message_without_a_note_is_refused() {
        for json in [
            "",
            "null",
            "[]",
            "\"body\"",
            "<html>",
            r#"{"body":7}"#,
            r#"{"body":null}"#,
            r#"{"frontmatter":{}}"#,
            r#"{"body":"b","body":"c"}"#,
            r#"{"body":"b","frontmatter":7}"#,
            r#"{"body":"b","frontmatter":[]}"#,
            r#"{"body":"b","frontmatter":true}"#,
            r#"{"body":"\ud800"}"#,
            r#"{"body":"b"} x"#,
            r#"{"body":"b""#,
            r#"[null,"b"]"#,
            r#" [{},"b"]"#,
        ] {
            assert!(parse(json).is_err(), "{json}");
        }
        assert!(PortableNote::parse(b"{\"body\":\"\xff\"}").is_err());
        let deep = format!(
            r#"{{"body":"b","frontmatter":{}1{}}}"#,
            r#"{"a":"#.repeat(9_999),
            "}".repeat(9_999)
        );
        assert!(parse(&deep).is_err());
    }

    #[test]
    fn values_keep_their_spelling() {
        let text = "---\nn: 1\nf: 1.50\nh: 0x1F\nt: True\nb: true\nz: ~\nd: 2025-03-01\n\
                    date: 2025-03-01\nupdated: '2025-03-01'\nl: [2, a, {x: [~]}, 2025-03-01]\n\
                    ? [k]\n: v\n---\n# A\n\nb \n";
        let sent = to_json(&NotePath::parse("a/b.md").unwrap(), text);
        let expected = json!({
            "path": "a/b.md",
            "frontmatter": {
                "n": 1, "f": "1.50", "h": "0x1F", "t": "True", "b": true, "z": null,
                "d": "2025-03-01", "date": "2025-03-01T00:00:00.000Z", "updated": "2025-03-01",
                "l": [2, "a", { "x": [null] }, "2025-03-01"]
            },
            "body": "# A\n\nb"
        });
        assert_eq!(serde_json::from_str::<Json>(&sent).unwrap(), expected);
        let sent = to_json(&NotePath::parse("a").unwrap(), "---\na: 1\na: 2\n---\nb");
        assert_eq!(serde_json::from_str::<Json>(&sent).unwrap()["frontmatter"], json!({}));
    }
}
