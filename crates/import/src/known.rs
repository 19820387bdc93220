//! What is declared of a stream whose rows come from a format that is known: nothing has to be
//! inferred of them.

use serde_json::{Map, Value as Json, json};
use stile_domain::records::declaration::{BadDeclaration, Declaration, RangeOperator};
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::value::FieldValue;

/// Where rows go, as references to others of them say it.
#[derive(Clone, Debug)]
pub struct Place {
    /// The connection.
    pub connection: SourceName,
    /// The stream.
    pub stream: SourceName,
}

impl Place {
    /// A `resource_ref` to the record with this key.
    pub fn reference(&self, key: &str) -> FieldValue {
        let (source, stream) = (self.connection.as_str(), self.stream.as_str());
        FieldValue::Json(
            json!({ "source_id": source, "stream": stream, "record_id": key }).to_string(),
        )
    }
}

/// A format whose fields are known.
#[derive(Debug)]
pub struct Known {
    /// The field that is the key.
    pub key: &'static str,
    /// The field that orders the records and is their consent time.
    time: &'static str,
    fields: &'static [(&'static str, Kind)],
    /// Whether anybody may have made a row with the key of another. What is stored is then not
    /// replaced by a row that differs in more than [`Known::own`].
    pub(super) is_from_anybody: bool,
    /// The fields that are the owner's and not the sender's, where others may have made the row.
    pub(super) own: &'static [&'static str],
    /// Why it is declared so, for a person.
    because: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Words, which are searched.
    Words,
    /// A name or an identifier, which is compared.
    Name,
    Time,
    Flag,
    Object,
    List,
}

/// Mail.
pub static MAIL: Known = Known {
    key: "message_id",
    time: "date",
    fields: &[
        ("message_id", Kind::Name),
        ("date", Kind::Time),
        ("from", Kind::Words),
        ("to", Kind::Words),
        ("cc", Kind::Words),
        ("subject", Kind::Words),
        ("in_reply_to", Kind::Name),
        ("in_reply_to_ref", Kind::Object),
        ("thread", Kind::Name),
        ("thread_ref", Kind::Object),
        ("labels", Kind::Words),
        ("body", Kind::Words),
        ("attachments", Kind::List),
    ],
    is_from_anybody: true,
    own: &["labels"],
    because: &[
        "it is mail: `message_id` is the key",
        "`date` orders the records and is what a grant's --since looks at; a message without a date has none",
        "`from`, `to`, `cc`, `subject`, `labels`, `body` can be searched",
        "`thread` is the message that began the conversation; `attachments` refers to blobs",
    ],
};

/// Messages of conversations with ChatGPT.
pub static CHATGPT: Known = Known {
    key: "id",
    time: "created_at",
    fields: &[
        ("id", Kind::Name),
        ("conversation_id", Kind::Name),
        ("conversation_title", Kind::Words),
        ("role", Kind::Name),
        ("model", Kind::Name),
        ("created_at", Kind::Time),
        ("content_type", Kind::Name),
        ("text", Kind::Words),
        ("parent_id", Kind::Name),
        ("parent_ref", Kind::Object),
        ("on_current_branch", Kind::Flag),
        ("attachments", Kind::List),
    ],
    is_from_anybody: false,
    own: &[],
    because: &[
        "it is a ChatGPT export, a record for each message: `id` is the key",
        "`created_at` orders the records and is what a grant's --since looks at",
        "`conversation_title` and `text` can be searched",
        "`parent_id` is the message before; `on_current_branch` is false for what was edited away or regenerated",
    ],
};

/// Messages of a Slack workspace.
pub static SLACK: Known = Known {
    key: "id",
    time: "at",
    fields: &[
        ("id", Kind::Name),
        ("channel", Kind::Name),
        ("channel_id", Kind::Name),
        ("user", Kind::Name),
        ("user_name", Kind::Words),
        ("at", Kind::Time),
        ("text", Kind::Words),
        ("thread_ts", Kind::Name),
        ("thread_id", Kind::Name),
        ("thread_ref", Kind::Object),
        ("is_reply", Kind::Flag),
        ("subtype", Kind::Name),
        ("edited_at", Kind::Time),
        ("reactions", Kind::List),
        ("files", Kind::List),
        ("attachments", Kind::List),
    ],
    is_from_anybody: false,
    own: &[],
    because: &[
        "it is a Slack export: `id` is the key, the channel and the time stamp of a message",
        "`at` orders the records and is what a grant's --since looks at",
        "`user_name` and `text` can be searched",
        "`thread_id` is the message that began the thread; `attachments` refers to blobs, where the export has the files",
    ],
};

impl Known {
    /// The declaration, with another key where the owner names one, and the reasons for it.
    ///
    /// # Errors
    /// [`BadDeclaration`] where the key is not one.
    pub fn declaration(
        &self,
        key: &[String],
    ) -> Result<(Declaration, Vec<String>), BadDeclaration> {
        let which = |kinds: &[Kind]| -> Vec<&str> {
            self.fields
                .iter()
                .filter(|(_, kind)| kinds.contains(kind))
                .map(|(name, _)| *name)
                .collect()
        };
        let properties: Map<String, Json> =
            self.fields.iter().map(|&(name, kind)| (name.to_owned(), schema(kind))).collect();
        let times = which(&[Kind::Time]);
        let operators: Vec<&str> =
            RangeOperator::ALL.into_iter().map(RangeOperator::name).collect();
        let ranges: Map<String, Json> =
            times.iter().map(|&name| (name.to_owned(), json!(operators))).collect();
        let scalars = which(&[Kind::Words, Kind::Name, Kind::Time, Kind::Flag]);
        let own = [self.key.to_owned()];
        let declaration = json!({
            "schema": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": properties,
            },
            "primary_key": if key.is_empty() { &own } else { key },
            "cursor_field": self.time,
            "consent_time_field": self.time,
            "query": {
                "range_filters": ranges,
                "search": { "lexical_fields": which(&[Kind::Words]) },
                "aggregations": {
                    "count": true, "sum": [], "min": times, "max": times,
                    "group_by": scalars, "group_by_time": times, "count_distinct": scalars,
                },
            },
        });
        let because = self.because.iter().map(|&line| line.to_owned()).collect();
        Ok((Declaration::parse(&declaration)?, because))
    }
}

fn schema(kind: Kind) -> Json {
    match kind {
        Kind::Words | Kind::Name => json!({ "type": "string" }),
        Kind::Time => json!({ "type": "string", "format": "date-time" }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Object => json!({ "type": "object" }),
        Kind::List => json!({ "type": "array" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_declaration_fits_together_and_another_key_must() {
        for known in [&MAIL, &CHATGPT, &SLACK] {
            let (declaration, because) = known.declaration(&[]).unwrap();
            assert_eq!(declaration.primary_key(), [known.key]);
            assert_eq!(declaration.consent_time_field(), Some(known.time));
            assert!(!because.is_empty());
            assert!(known.declaration(&["nothing".to_owned()]).is_err());
        }
        let (declaration, _) =
            SLACK.declaration(&["channel_id".to_owned(), "at".to_owned()]).unwrap();
        assert_eq!(declaration.primary_key(), ["channel_id", "at"]);
    }
}
