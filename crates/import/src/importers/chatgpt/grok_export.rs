//! Imports an export of Grok: `prod-grok-backend.json`, or a zip file with it, whose
//! `conversations` are read one after the other.
//!
//! *Source*: the one that the module `grok` names.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use stile_records::rows::{DecodedRow, RowDecoder as _};

use super::super::wrapped_json::{RowsPath, WrappedRows};
use super::super::{json_members, json_text};
use super::conversation::{Conversation, EMPTY};
use crate::exported_files::ExportedFiles;
use crate::importer::{
    Contents, ImportRow, ImportRows, ImportTarget, Importer, LeftOutRows, LocatedRow, Recognition,
    UnusableRow,
};
use crate::source::InputPath;

/// The name of the file of conversations.
const FILE: &str = "prod-grok-backend.json";

/// Imports each message of a Grok export.
pub static IMPORTER: Importer = Importer {
    name: "grok",
    description: "a Grok export",
    recognition: Recognition {
        file_name: |name| name == FILE,
        contents: |contents| match contents {
            Contents::Zip(archive) => {
                archive.entries().iter().any(|entry| is_conversations(&entry.name))
            }
            Contents::Beginning(bytes) => json_members::beginning(bytes).is_some_and(|json| {
                json.is_object_with(&["conversations"])
                    && json.names.get(1).is_some_and(|name| name == "conversation")
            }),
            Contents::Folder(_) | Contents::Database(_) => false,
        },
        ..Recognition::NEVER
    },
    byte_count: |path| file_of(path)?.bytes(),
    open,
    ..super::IMPORTER
};

fn is_conversations(name: &str) -> bool {
    name.rsplit('/').next() == Some(FILE)
}

/// Returns the file of conversations: the input, or the one in it.
fn file_of(path: &InputPath) -> io::Result<InputPath> {
    let files = path.all_files()?;
    let mut named = files.entries().filter(|(_, entry)| is_conversations(&entry.name));
    match (named.next(), files.entries().count()) {
        (_, 1) => Ok(path.clone()),
        (Some((number, _)), _) => Ok(InputPath::archived(&files.archive, &files.path, number)),
        (None, _) => {
            let message = format!("it is not a Grok export: there is no `{FILE}` in it");
            Err(io::Error::new(ErrorKind::InvalidData, message))
        }
    }
}

fn open(path: &InputPath, target: &ImportTarget) -> io::Result<Box<dyn ImportRows>> {
    let path = file_of(path)?;
    let rows = RowsPath::parse("conversations").ok_or(ErrorKind::InvalidInput)?;
    Ok(Box::new(Rows {
        file: path.display().to_string().into(),
        conversations: WrappedRows::new(json_text::open(&path)?, rows),
        target: target.clone(),
        current: None,
        left_out: 0,
    }))
}

struct Rows {
    file: Arc<str>,
    conversations: WrappedRows<json_text::JsonText>,
    target: ImportTarget,
    /// The conversation that is read, the line where it begins, and the halves of surrogate pairs
    /// in it, which its first message reports.
    current: Option<(Conversation, u64, u64)>,
    left_out: u64,
}

impl ImportRows for Rows {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        loop {
            if let Some((conversation, line, replaced)) = &mut self.current
                && let Some(message) =
                    conversation.next_message(&ExportedFiles::default(), &self.target)?
            {
                let row = message
                    .map(|row| ImportRow { replaced: std::mem::take(replaced), ..row })
                    .map_err(|bad| UnusableRow::new("too_many_files", bad));
                return Ok(Some(LocatedRow { file: Arc::clone(&self.file), line: *line, row }));
            }
            let Some(DecodedRow { line, row }) = self.conversations.next()? else {
                return Ok(None);
            };
            let parsed = row.map_err(UnusableRow::from).and_then(|row| {
                let mut conversation = Conversation::parse(row.fields)
                    .map_err(|bad| UnusableRow::new("no_conversation", bad))?;
                self.left_out += conversation.take_left_out();
                Ok((conversation, line, row.replaced))
            });
            match parsed {
                Ok(conversation) => self.current = Some(conversation),
                Err(bad) => {
                    let row = Err(bad);
                    return Ok(Some(LocatedRow { file: Arc::clone(&self.file), line, row }));
                }
            }
        }
    }

    fn left_out(&self) -> Option<LeftOutRows> {
        (self.left_out > 0).then_some((EMPTY, self.left_out))
    }

    fn consumed(&self) -> u64 {
        self.conversations.consumed()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use stile_testkit::zip::{Member, Zip};

    use crate::importers::{IMPORTERS, recognise};
    use crate::report::BadRowPolicy;
    use crate::rig::{counts, recognised, rig};

    const EXPORT: &str = r#"{"conversations":[{"conversation":{"id":"c1","title":"Deposit",
        "create_time":"2026-02-01T09:00:00.000001Z"},"responses":[
        {"response":{"_id":"m1","conversation_id":"c1","message":"When?","sender":"human",
        "create_time":{"$date":{"$numberLong":"1769936400500"}},"file_attachments":["f1"]}},
        {"response":{"_id":"m2","message":"In May.","sender":"ASSISTANT","model":"grok-4",
        "parent_response_id":"m1"}},
        {"response":{"_id":"m3","message":" ","sender":"human"}},null,{"response":null},
        {"response":{"_id":"m4","message":{"a":1},"sender":"human"}}]},
        {"conversation":{"id":"c2"},"responses":[
        {"response":{"_id":"n1","message":"one","sender":"human"}},
        {"response":{"_id":"n1","message":"two","sender":"human"}}]},{"other":1}],"projects":[]}"#;

    #[test]
    fn each_message_of_grok_has_the_fields_of_other_chats() {
        let rig = rig();
        let lone = rig.write("prod-grok-backend.json", EXPORT);
        let zip = Zip::default()
            .with(&Member::deflated("ttl/30d/u/prod-grok-backend.json", EXPORT.as_bytes()))
            .with(&Member::stored("ttl/30d/u/prod-mc-asset-server/f1/content", b"x"));
        let zip = rig.write("export.zip", zip.finish());
        let renamed = rig.write("grok.json", EXPORT);
        for path in [&lone, &zip, &renamed] {
            assert_eq!(recognise(IMPORTERS, path).unwrap().map(|it| it.name), Some("grok"));
        }
        let import = |path| {
            let report = rig.import(&[recognised(path)], &[], BadRowPolicy::Skip, |_| ()).unwrap();
            assert_eq!(report.bad[0].code, "no_conversation");
            assert_eq!(
                report.left_out.iter().map(|it| (*it.0, *it.1)).collect::<Vec<_>>(),
                [(super::EMPTY, 4)]
            );
            counts(&report)
        };
        assert_eq!(import(&lone), (4, 0, 0, 1));
        assert_eq!((import(&zip), import(&renamed)), ((0, 0, 4, 1), (0, 0, 4, 1)));
        let (first, second) = (rig.record("m1"), rig.record("m2"));
        assert_eq!(
            json!([first["role"], first["text"], first["created_at"], first["conversation_title"]]),
            json!(["user", "When?", "2026-02-01T09:00:00.500Z", "Deposit"])
        );
        assert_eq!(first["attachments"], json!([{ "filename": "f1" }]));
        assert_eq!(
            json!([second["role"], second["model"], second["created_at"], second["parent_id"]]),
            json!(["assistant", "grok-4", "2026-02-01T09:00:00.000001Z", "m1"])
        );
    }

    #[test]
    fn messages_that_are_counted_anew_in_each_conversation_overwrite_none() {
        let chat = |id: &str, text: &str| {
            format!(
                r#"{{"conversations":[{{"conversation":{{"id":"{id}"}},"responses":[
                {{"response":{{"message":"{text}","sender":"human"}}}},
                {{"response":{{"_id":"1","message":"{text} 1","sender":"assistant",
                "parent_response_id":"0"}}}}]}}]}}"#
            )
        };
        let rig = rig();
        for (id, text) in [("c1", "herons"), ("c2", "storks")] {
            let path = rig.write("prod-grok-backend.json", chat(id, text));
            let report = rig.import(&[recognised(&path)], &[], BadRowPolicy::Skip, |_| ()).unwrap();
            assert_eq!(counts(&report), (2, 0, 0, 0));
        }
        for (key, text) in
            [("c1/message-0", "herons"), ("c2/message-0", "storks"), ("c2/1", "storks 1")]
        {
            assert_eq!(rig.record(key)["text"], text, "{key}");
        }
    }

    #[test]
    fn messages_that_name_none_before_them_are_in_the_order_of_their_times() {
        let message = |id: &str, second: &str, sender: &str| {
            format!(
                r#"{{"response":{{"_id":"{id}","message":"{id}","sender":"{sender}",
                "create_time":"2026-02-01T09:00:{second}Z"}}}}"#
            )
        };
        // The times of a file can be spelled in two ways, and its order is not theirs.
        let middle = r#"{"response":{"_id":"b","message":"b","sender":"assistant",
            "create_time":{"$date":{"$numberLong":"1769936402000"}}}}"#;
        let [first, last] = [message("a", "01", "human"), message("c", "03", "human")];
        let export = format!(
            r#"{{"conversations":[{{"conversation":{{"id":"c1"}},
            "responses":[{last},{first},{middle}]}}]}}"#
        );
        let rig = rig();
        let path = rig.write("prod-grok-backend.json", export);
        let report = rig.import(&[recognised(&path)], &[], BadRowPolicy::Skip, |_| ()).unwrap();
        assert_eq!(counts(&report), (3, 0, 0, 0));
        let parents = ["a", "b", "c"].map(|id| {
            let record = rig.record(id);
            json!([record["parent_id"], record["on_current_branch"]])
        });
        assert_eq!(json!(parents), json!([[null, true], ["a", true], ["b", true]]));
    }
}
