//! What chats become: the messages of a conversation with ChatGPT and those of Slack.
//!
//! An input is a JSON object. It is read as a conversation and as a message of Slack.

#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::instant::Instant;
use stile_domain::records::row;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_import::exported_files::ExportedFiles;
use stile_import::importer::ImportTarget;
use stile_import::importers::chatgpt::conversation::Conversation;
use stile_import::importers::slack::message;
use stile_import::importers::slack::workspace::{Channel, Workspace};

fuzz_target!(|input: &[u8]| {
    let Ok(read) = row::parse(input) else { return };
    let target = ImportTarget {
        connection: SourceName::parse("c").expect("a name"),
        stream: SourceName::parse("s").expect("a name"),
    };
    let exported = ExportedFiles::default();
    if let Ok(mut conversation) = Conversation::parse(read.fields.clone()) {
        let next = || conversation.next_message(&exported, &target).expect("no file is read");
        let all: Vec<_> = std::iter::from_fn(next).collect();
        let is_cut = all.iter().any(Result::is_err);
        let rows: Vec<_> = all.into_iter().flatten().collect();
        let ids: HashSet<&str> = rows.iter().filter_map(|row| text(&row.fields, "id")).collect();
        for row in &rows {
            assert!(text(&row.fields, "id").is_some());
            // A parent that names too many files is a bad row.
            assert!(
                text(&row.fields, "parent_id").is_none_or(|parent| is_cut || ids.contains(parent))
            );
            can_be_stored(&row.fields, "created_at");
        }
    }
    let channel = Channel { id: "C1".to_owned(), name: "garden".to_owned() };
    let workspace = Workspace::default();
    let message = message::read(read.fields, &channel, &workspace, &exported, &target);
    if let Ok(message) = message.expect("no file is read") {
        assert!(text(&message.fields, "id").is_some_and(|id| id.starts_with("C1/")));
        assert!(text(&message.fields, "at").is_some());
        can_be_stored(&message.fields, "at");
    }
});

fn text<'f>(fields: &'f RecordFields, name: &str) -> Option<&'f str> {
    fields.iter().find_map(|(own, value)| match value {
        FieldValue::Text(text) if own == name => Some(text.as_str()),
        _ => None,
    })
}

fn can_be_stored(fields: &RecordFields, time: &str) {
    assert!(text(fields, time).is_none_or(|time| Instant::parse(time).is_some()));
    let again = row::parse(row::to_json(fields).as_bytes()).expect("what was read can be stored");
    assert_eq!(again.fields, *fields);
}
