//! A conversation with ChatGPT, from one element of `conversations.json` to a row for each message
//! that says something.
//!
//! A conversation is a tree of nodes, since a message can be edited and an answer asked for again.
//! Nodes without a message, hidden ones and empty ones are no rows, and the messages behind them
//! have the nearest row above as their parent. The branch that the person saw last is the one from
//! `current_node` to the root.
//!
//! *Source*: OpenAI documents no format; this one is as its exports of 2023 to 2026 are.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use stile_domain::records::identifiers::MAX_KEY_BYTES;
use stile_domain::records::value::{FieldValue, RecordFields};

use super::assets::{Assets, MAX_FILES};
use super::attachment::Attachment;
use super::known::Place;
use super::object::{Object, cut};

/// A message as a row.
#[derive(Debug)]
pub struct Message {
    /// Its fields.
    pub fields: RecordFields,
    /// Its files, as far as the export has them.
    pub attachments: Vec<Attachment>,
}

/// Why a conversation cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no conversation: it has no `mapping`")]
pub struct NoConversation;

/// Why a message cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message names more than 1,000 files")]
pub struct TooManyFiles;

/// A node on its way.
#[derive(Debug)]
struct Node {
    parent: Option<String>,
    said: Option<Said>,
}

/// What a message says.
#[derive(Debug)]
struct Said {
    id: Arc<str>,
    role: Option<String>,
    model: Option<String>,
    created: Option<String>,
    content_type: Option<String>,
    text: Option<String>,
    files: Files,
}

/// A file that a message names.
#[derive(Debug, Default)]
struct File {
    id: String,
    name: Option<String>,
    media_type: Option<String>,
}

/// A conversation whose messages are taken one at a time.
#[derive(Debug)]
pub struct Conversation {
    nodes: HashMap<String, Node>,
    /// The nodes, as they are written.
    order: std::vec::IntoIter<String>,
    /// Those of the branch that the person saw last.
    current: HashSet<String>,
    parents: Parents,
    id: Option<String>,
    title: Option<String>,
}

/// Of each node the nearest message above it.
type Parents = HashMap<String, Option<Arc<str>>>;

impl Conversation {
    /// The conversation that these fields are.
    ///
    /// # Errors
    /// [`NoConversation`].
    pub fn of(conversation: RecordFields) -> Result<Self, NoConversation> {
        let mut conversation = Object(conversation);
        let mapping = conversation.take("mapping").ok_or(NoConversation)?;
        let Object(mapping) = Object::of(&mapping).ok_or(NoConversation)?;
        // No name occurs twice in an object that was read as a row.
        let mut nodes = HashMap::new();
        let mut order = Vec::new();
        for (id, value) in mapping {
            let node = node(&id, value);
            order.push(id.clone());
            nodes.insert(id, node);
        }
        let current = branch(&nodes, conversation.text("current_node"));
        let parents = parents(&nodes, &order);
        let id = conversation.text("conversation_id").or_else(|| conversation.text("id"));
        let id = id.map(|id| cut(id).to_owned());
        let title = conversation.text("title").map(|title| cut(title).to_owned());
        Ok(Self { nodes, order: order.into_iter(), current, parents, id, title })
    }

    /// The next message, in the order of the nodes. The files that it names are looked for among
    /// `assets`.
    ///
    /// # Errors
    /// What reading a file fails with; the inner one is [`TooManyFiles`].
    pub fn next_message(
        &mut self,
        assets: &Assets,
        place: &Place,
    ) -> io::Result<Option<Result<Message, TooManyFiles>>> {
        for name in self.order.by_ref() {
            let Some(said) = self.nodes.get_mut(&name).and_then(|node| node.said.take()) else {
                continue;
            };
            if said.files.list.len() > MAX_FILES {
                return Ok(Some(Err(TooManyFiles)));
            }
            let parent = self.parents.get(&name).cloned().flatten();
            let is_current = self.current.contains(&name);
            let (id, title) = (self.id.as_deref(), self.title.as_deref());
            return message(said, parent.as_deref(), is_current, id, title, assets, place)
                .map(|message| Some(Ok(message)));
        }
        Ok(None)
    }
}

fn message(
    said: Said,
    parent: Option<&str>,
    is_current: bool,
    conversation: Option<&str>,
    title: Option<&str>,
    assets: &Assets,
    place: &Place,
) -> io::Result<Message> {
    let (mut attachments, mut missing) = (Vec::new(), Vec::new());
    for file in said.files.list {
        match assets.find(&file.id, file.media_type.as_deref(), file.name.as_deref())? {
            Some(found) => attachments.push(found),
            None => missing.push(file.name.unwrap_or(file.id)),
        }
    }
    let text = |text: Option<String>| text.map(FieldValue::Text);
    let parent_ref = parent.map(|parent| place.reference(parent));
    let fields = [
        ("id", Some(FieldValue::Text(said.id.as_ref().to_owned()))),
        ("conversation_id", text(conversation.map(str::to_owned))),
        ("conversation_title", text(title.map(str::to_owned))),
        ("role", text(said.role)),
        ("model", text(said.model)),
        ("created_at", text(said.created)),
        ("content_type", text(said.content_type)),
        ("text", text(said.text)),
        ("parent_id", text(parent.map(str::to_owned))),
        ("parent_ref", parent_ref),
        ("on_current_branch", Some(FieldValue::Bool(is_current))),
        ("attachments", Attachment::references(&attachments, &missing)),
    ];
    let fields =
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    Ok(Message { fields, attachments })
}

fn node(id: &str, value: FieldValue) -> Node {
    let node = Object::of(&value).unwrap_or_default();
    drop(value);
    let parent = node.text("parent").map(str::to_owned);
    Node { parent, said: node.object("message").and_then(|message| said(id, message)) }
}

/// The files that a message names, each once.
#[derive(Debug, Default)]
struct Files {
    list: Vec<File>,
    /// Where each is in the list.
    places: HashMap<String, usize>,
}

impl Files {
    /// The place of a file; behind the others where it is new.
    fn of(&mut self, id: &str) -> Option<&mut File> {
        let next = self.list.len();
        let place = *self.places.entry(id.to_owned()).or_insert(next);
        if place == next {
            self.list.push(File { id: id.to_owned(), ..File::default() });
        }
        self.list.get_mut(place)
    }

    /// The file that an address such as `file-service://file-AbC` or `sediment://file_abc` means.
    fn point(&mut self, address: &str) {
        self.of(address.split_once("://").map_or(address, |(_, id)| id));
    }
}

/// What a message says, if it says something to a person.
fn said(node: &str, message: Object) -> Option<Said> {
    let metadata = message.object("metadata").unwrap_or_default();
    if metadata.is_true("is_visually_hidden_from_conversation") {
        return None;
    }
    let mut content = message.object("content").unwrap_or_default();
    let content_type = content.take_text("content_type");
    let (text, mut files) = spoken(content);
    for attached in metadata.objects("attachments") {
        let own = |name: &str| attached.text(name).map(str::to_owned);
        let Some(id) = own("id") else { continue };
        if let Some(place) = files.of(&id) {
            *place = File {
                id,
                name: own("name"),
                media_type: own("mimeType").or_else(|| own("mime_type")),
            };
        }
    }
    if text.is_none() && files.list.is_empty() {
        return None;
    }
    let role = message.object("author").and_then(|author| author.text("role").map(str::to_owned));
    Some(Said {
        id: message.text("id").unwrap_or(node).into(),
        role,
        model: metadata.text("model_slug").map(str::to_owned),
        created: message.seconds("create_time").map(|instant| instant.to_rfc3339()),
        content_type,
        text,
        files,
    })
}

/// The words of a message and the files that stand between them.
fn spoken(mut content: Object) -> (Option<String>, Files) {
    let (mut texts, mut files) = (Vec::new(), Files::default());
    for part in content.items("parts") {
        match part {
            FieldValue::Text(text) => texts.push(text),
            part => {
                let Some(mut part) = Object::of(&part) else { continue };
                let audio = part.object("audio_asset_pointer").unwrap_or_default();
                for pointer in
                    [part.text("asset_pointer"), audio.text("asset_pointer")].into_iter().flatten()
                {
                    files.point(pointer);
                }
                texts.extend(part.take_text("text"));
            }
        }
    }
    for name in ["text", "result", "content"] {
        texts.extend(content.take_text(name));
    }
    for mut thought in content.objects("thoughts") {
        texts.extend(thought.take_text("summary"));
        texts.extend(thought.take_text("content"));
    }
    texts.retain(|text| !text.trim().is_empty());
    (Some(texts.join("\n\n")).filter(|text| !text.is_empty()), files)
}

/// The nodes from the current one to the root.
fn branch(nodes: &HashMap<String, Node>, current: Option<&str>) -> HashSet<String> {
    let mut seen = HashSet::new();
    let mut at = current;
    while let Some((id, node)) = at.and_then(|id| nodes.get_key_value(id)) {
        if !seen.insert(id.clone()) {
            break;
        }
        at = node.parent.as_deref();
    }
    seen
}

/// Of each node the nearest message above it that has an identifier which fits a key. Each node is
/// passed once or twice, however deep the tree is; a circle ends where it closes.
fn parents(nodes: &HashMap<String, Node>, order: &[String]) -> Parents {
    let mut known = Parents::new();
    for first in order {
        let mut path: Vec<&String> = Vec::new();
        let mut on_path = HashSet::new();
        let mut at = Some(first);
        let found = loop {
            let Some((id, node)) = at.and_then(|id| nodes.get_key_value(id)) else { break None };
            if !path.is_empty()
                && let Some(said) = node.said.as_ref().filter(|said| said.id.len() <= MAX_KEY_BYTES)
            {
                break Some(Arc::clone(&said.id));
            }
            if let Some(found) = known.get(id) {
                break found.clone();
            }
            if !on_path.insert(id) {
                break None;
            }
            path.push(id);
            at = node.parent.as_ref();
        };
        for id in path {
            known.insert(id.clone(), found.clone());
        }
    }
    known
}

/// Whether a name is that of a file of conversations: one, or one of many.
pub(super) fn is_conversations(name: &str) -> bool {
    let number = name.strip_prefix("conversations").and_then(|rest| rest.strip_suffix(".json"));
    number.is_some_and(|number| {
        number.is_empty()
            || number.strip_prefix('-').is_some_and(|digits| {
                !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
            })
    })
}

#[cfg(test)]
mod tests;
