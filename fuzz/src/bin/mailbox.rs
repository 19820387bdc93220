//! What a person's mail becomes: the messages of a mailbox and their fields.
//!
//! An input is a mailbox; each of its messages, and the input itself, is read as mail.

#![no_main]

use std::io::BufReader;

use libfuzzer_sys::fuzz_target;
use stile_domain::records::blob;
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::instant::Instant;
use stile_domain::records::row;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_import::importer::ImportTarget;
use stile_import::importers::mbox::mail;
use stile_import::importers::mbox::mailbox::{Mailbox, RawMessage};

fuzz_target!(|input: &[u8]| {
    let whole = messages(input, 4096);
    for size in [1, 2, 7] {
        assert_eq!(messages(input, size), whole, "with a buffer of {size}");
    }
    assert!(whole.windows(2).all(|pair| pair[0].line < pair[1].line));
    let raw: Vec<&[u8]> = whole.iter().filter_map(|raw| raw.message.as_deref().ok()).collect();
    assert!(raw.iter().map(|raw| raw.len()).sum::<usize>() <= input.len());
    raw.into_iter().for_each(a_message_is_what_it_says);
    a_message_is_what_it_says(input);
});

fn messages(input: &[u8], size: usize) -> Vec<RawMessage> {
    let mut mailbox = Mailbox::new(BufReader::with_capacity(size, input));
    let mut messages = Vec::new();
    while let Some(raw) = mailbox.next_message().expect("a slice is read without an error") {
        messages.push(raw);
    }
    messages
}

fn a_message_is_what_it_says(raw: &[u8]) {
    let target = ImportTarget {
        connection: SourceName::parse("c").expect("a name"),
        stream: SourceName::parse("s").expect("a name"),
    };
    let Ok(mail) = mail::read(raw, &target) else { return };
    let text = |name: &str| {
        mail.fields.iter().find_map(|(own, value)| match value {
            FieldValue::Text(text) if own == name => Some(text.as_str()),
            _ => None,
        })
    };
    assert!(text("message_id").is_some_and(|id| (1..=480).contains(&id.len())));
    // A date that nobody can read stands as it is written, and the import counts it.
    assert!(text("date").is_none_or(|date| Instant::parse(date).is_some() || !date.is_empty()));
    assert!(text("thread").is_some());
    let exposed: Vec<_> = references(&mail.fields);
    assert_eq!(
        exposed,
        mail.attachments.iter().map(|attachment| attachment.id).collect::<Vec<_>>()
    );
    let again =
        row::parse(row::to_json(&mail.fields).as_bytes()).expect("what was read can be stored");
    assert_eq!(again.fields, mail.fields);
}

fn references(fields: &RecordFields) -> Vec<blob::BlobId> {
    let attachments = fields.iter().filter(|(name, _)| name == "attachments");
    attachments
        .flat_map(|(_, value)| blob::blob_references(&value.to_json()))
        .map(|reference| reference.id)
        .collect()
}
