//! A note as it travels between two servers: JSON with its front matter and its body.
//!
//! The one who has the note writes it ([`portable`]); the gateway reads it
//! ([`PortableNote::parse`]) from a server that it does not trust further than that. What both make
//! of a note is the same as what is made of the file itself.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::front_matter::{Front, FrontMatterMembers, Note};
use super::note_path::NotePath;
use super::yaml;

/// A note that came from elsewhere.
#[derive(Clone, PartialEq)]
pub struct PortableNote {
    pub(super) front: Option<FrontMatterMembers>,
    pub(super) body: String,
}

/// The answer holds no note. It says nothing of what came instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer holds no note")]
pub struct BadNote;

/// What is looked at. Whatever else is there is passed over, above all a `path`.
#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    frontmatter: Json,
    body: String,
}

impl PortableNote {
    /// Reads `{ "frontmatter"?, "body", … }`.
    ///
    /// Front matter is an object, such an object as JSON in a string, or that string in another. A
    /// string that holds anything else is a note's own fault and counts as none, as broken YAML
    /// does in a file.
    ///
    /// # Errors
    /// [`BadNote`] where it is not JSON, `body` is not a string, or either is there twice.
    pub fn parse(json: &[u8]) -> Result<Self, BadNote> {
        // A struct can also be read from an array of its fields.
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

    /// The note, taken apart.
    pub fn as_note(&self) -> Note<'_> {
        Note::new(self.front.as_ref().map_or(Front::None, Front::Json), &self.body)
    }

    /// How long the body is.
    pub fn body_bytes(&self) -> usize {
        self.body.len()
    }
}

/// The object in a string, or in a string in a string.
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

/// The note in a file, as JSON: `{"path","frontmatter","body"}`.
///
/// Values of the front matter are told as their source spells them; a number that JSON would spell
/// otherwise is a string. The exceptions are `date` and `updated`, which become ISO 8601 where YAML
/// has a date: JSON has none, and readers of those two want a moment.
pub fn to_json(path: &NotePath, text: &str) -> String {
    let note = Note::parse(text);
    let front = match note.front {
        Front::Yaml(text) => yaml::members(text).unwrap_or_default(),
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
    fn front_matter_comes_in_three_forms_and_other_strings_count_as_none() {
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
    fn what_holds_no_note_is_refused() {
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
    fn values_are_spelled_as_in_the_file() {
        let text = "---\nn: 1\nf: 1.50\nh: 0x1F\nt: True\nb: true\nz: ~\nd: 2025-03-01\ndate: 2025-03-01\n\
                    updated: '2025-03-01'\nl: [2, a, {x: [~]}, 2025-03-01]\n? [k]\n: v\n---\n# A\n\nb \n";
        let told = to_json(&NotePath::parse("a/b.md").unwrap(), text);
        let expected = json!({
            "path": "a/b.md",
            "frontmatter": {
                "n": 1, "f": "1.50", "h": "0x1F", "t": "True", "b": true, "z": null, "d": "2025-03-01",
                "date": "2025-03-01T00:00:00.000Z", "updated": "2025-03-01",
                "l": [2, "a", { "x": [null] }, "2025-03-01"]
            },
            "body": "# A\n\nb"
        });
        assert_eq!(serde_json::from_str::<Json>(&told).unwrap(), expected);
        let told = to_json(&NotePath::parse("a").unwrap(), "---\na: 1\na: 2\n---\nb");
        assert_eq!(serde_json::from_str::<Json>(&told).unwrap()["frontmatter"], json!({}));
    }
}
