//! A message of a conversation, and the files that it refers to.

use std::collections::HashMap;
use std::sync::Arc;

use crate::attachment::Attachment;

/// Returns an identifier that no message of another conversation has. A message without one has its
/// number in the conversation, and some programs count anew in each conversation: both stand behind
/// the identifier of the conversation.
pub(super) fn own_id(id: Option<&str>, index: usize, conversation: Option<&str>) -> String {
    let is_counted = |id: &str| id.bytes().all(|byte| byte.is_ascii_digit());
    let id = match id {
        Some(id) if !is_counted(id) => return id.to_owned(),
        Some(id) => id.to_owned(),
        None => format!("message-{index}"),
    };
    conversation.map_or_else(|| id.clone(), |conversation| format!("{conversation}/{id}"))
}

/// A place in the tree of a conversation.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) parent: Option<String>,
    /// Absent if the message is hidden or empty, and after it was returned.
    pub(super) message: Option<Message>,
}

/// A message with text or files.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) id: Arc<str>,
    pub(super) role: Option<String>,
    pub(super) model: Option<String>,
    pub(super) created: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) text: Option<String>,
    pub(super) files: ReferredFiles,
    /// The texts of files that the export has instead of the files.
    pub(super) file_texts: Vec<Attachment>,
}

/// A file that a message refers to.
#[derive(Debug, Default)]
pub(super) struct ReferredFile {
    pub(super) id: String,
    pub(super) name: Option<String>,
    pub(super) media_type: Option<String>,
}

/// The files that a message refers to, each once.
#[derive(Debug, Default)]
pub(super) struct ReferredFiles {
    pub(super) list: Vec<ReferredFile>,
    /// The index in the list, by identifier.
    indices: HashMap<String, usize>,
}

impl ReferredFiles {
    /// Returns the file with this identifier, and appends it if it is new.
    pub(super) fn entry(&mut self, id: &str) -> Option<&mut ReferredFile> {
        let next = self.list.len();
        let index = *self.indices.entry(id.to_owned()).or_insert(next);
        if index == next {
            self.list.push(ReferredFile { id: id.to_owned(), ..ReferredFile::default() });
        }
        self.list.get_mut(index)
    }

    /// Adds a file of which the export has the name alone.
    pub(super) fn add_name(&mut self, name: &str) {
        self.list.push(ReferredFile { name: Some(name.to_owned()), ..ReferredFile::default() });
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Adds the file of an address such as `file-service://file-AbC` or `sediment://file_abc`.
    pub(super) fn add_pointer(&mut self, address: &str) {
        self.entry(address.split_once("://").map_or(address, |(_, id)| id));
    }
}
