//! The messages of a conversation with Claude.
//!
//! A message names the one before it, or else is the answer to the one above it in the file. Of an
//! attached document the export has the text, which becomes the file; of other files the name
//! alone. What the model thought is left out, as the program shows it only where asked.

use stile_domain::records::instant::Instant;

use super::super::compact_time::{or_as_written, written};
use super::message::{Message, Node, ReferredFiles, own_id};
use crate::attachment::Attachment;
use crate::json_object::{JsonObject, truncate_name};

/// Who wrote a message, in the words of ChatGPT, so that one filter finds both.
const ROLES: [(&str, &str); 2] = [("human", "user"), ("assistant", "assistant")];
/// What the first message of an export names as the one before it.
const NONE: &str = "00000000-0000-4000-8000-000000000000";

/// Returns the messages of a conversation, in the order of the file. `None` if it is none of
/// Claude.
pub(super) fn nodes(conversation: &JsonObject) -> Option<Vec<(Node, String)>> {
    conversation.0.iter().find(|(name, _)| name == "chat_messages")?;
    let mut nodes: Vec<(Node, String)> = Vec::new();
    let mut before: Option<String> = None;
    for (index, message) in conversation.objects("chat_messages").into_iter().enumerate() {
        let id = own_id(message.text("uuid"), index, conversation.text("uuid"));
        let parent = match message.text("parent_message_uuid") {
            Some(NONE) => None,
            Some(parent) => Some(parent.to_owned()),
            None => before.take(),
        };
        before = Some(id.clone());
        nodes.push((Node { parent, message: visible(&id, message) }, id));
    }
    Some(nodes)
}

/// Returns when a conversation or a message began.
pub(super) fn time(object: &JsonObject) -> Option<String> {
    let text = object.text("created_at")?;
    or_as_written(Instant::parse(text).and_then(written), text)
}

/// Returns a message; `None` if it has neither text nor files.
fn visible(id: &str, message: JsonObject) -> Option<Message> {
    let mut texts: Vec<String> = Vec::new();
    for mut part in message.objects("content") {
        if part.text("type") == Some("text") {
            texts.extend(part.take_text("text"));
        }
    }
    if texts.is_empty() {
        texts.extend(message.text("text").map(str::to_owned));
    }
    texts.retain(|text| !text.trim().is_empty());
    let (mut files, mut file_texts) = (ReferredFiles::default(), Vec::new());
    for mut attached in message.objects("attachments") {
        let name = attached.text("file_name").unwrap_or("attachment");
        let name = truncate_name(name).to_owned();
        match attached.take_text("extracted_content") {
            Some(text) => {
                let bytes = text.into_bytes();
                file_texts.push(Attachment::in_memory(bytes, "text/plain".to_owned(), Some(name)));
            }
            None => files.add_name(&name),
        }
    }
    for file in message.objects("files").iter().chain(&message.objects("files_v2")) {
        if let Some(name) = file.text("file_name").filter(|name| !name.is_empty()) {
            files.add_name(truncate_name(name));
        }
    }
    if texts.is_empty() && files.len() + file_texts.len() == 0 {
        return None;
    }
    let role = message.text("sender").map(|sender| {
        ROLES.iter().find(|(own, _)| *own == sender).map_or(sender, |(_, role)| role).to_owned()
    });
    Some(Message {
        id: id.into(),
        role,
        created: time(&message),
        text: Some(texts.join("\n\n")).filter(|text| !text.is_empty()),
        files,
        file_texts,
        ..Message::default()
    })
}
