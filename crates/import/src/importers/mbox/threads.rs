//! Which conversation a message belongs to, by all messages that were read before it.
//!
//! Some programs name the message that is answered and none before it. So the conversation of the
//! answered message is looked up, as far as that message came first. [`crate::conversations`] joins
//! the others when all are stored.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use stile_domain::records::value::{FieldValue, RecordFields};

use crate::importer::ImportTarget;

/// How many messages are remembered. Later ones have the conversation that they name themselves.
const MOST_MESSAGES: usize = 200_000;

/// The conversations of the messages that were read, by the identifiers of the messages. Clones
/// share them.
#[derive(Clone, Default)]
pub(in crate::importers) struct Threads(Rc<RefCell<HashMap<String, Rc<str>>>>);

impl Threads {
    /// Puts a message into the conversation of the messages that it refers to.
    pub(super) fn complete(&self, fields: &mut RecordFields, target: &ImportTarget) {
        let text = |wanted: &str| {
            fields.iter().find_map(|(name, value)| match value {
                FieldValue::Text(text) if name == wanted => Some(text.as_str()),
                _ => None,
            })
        };
        let (Some(id), Some(thread)) = (text("message_id"), text("thread")) else { return };
        if id == thread {
            return;
        }
        let mut known = self.0.borrow_mut();
        let root: Rc<str> = known.get(thread).cloned().unwrap_or_else(|| thread.into());
        let is_new = *root != *thread && *root != *id;
        if known.len() < MOST_MESSAGES {
            known.insert(id.to_owned(), Rc::clone(&root));
        }
        if is_new {
            for (name, value) in fields {
                match name.as_str() {
                    "thread" => *value = FieldValue::Text(root.as_ref().to_owned()),
                    "thread_ref" => *value = target.reference(&root),
                    _ => {}
                }
            }
        }
    }
}
