//! Puts messages of mail into the conversation of their first message, whenever that one came.
//!
//! A message names the messages before it, or only the one that it answers. What it names may stand
//! behind it in a mailbox, or come with a later import. So when an import has stored messages, the
//! identifiers of all messages of the stream are walked, and those whose conversation has an
//! earlier message get the conversation of that one.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher as _;

use stile_domain::permit::Principal;
use stile_domain::records::identifiers::RecordKey;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::StoredValue;
use stile_domain::records::value::FieldValue;
use stile_records::RecordService;
use stile_store::records::RecordsView;

use crate::importer::ImportTarget;
use crate::report::ImportError;
use crate::stored_fields;
use crate::transaction;

/// The most messages of a stream that are joined. Each takes some 50 bytes of memory.
const MOST_MESSAGES: usize = 2_000_000;
/// How many records are changed in one transaction.
const AT_ONCE: usize = 256;
/// The longest chain of messages that each name only the one before them.
const MOST_STEPS: usize = 1000;

/// What a message says about its conversation. Hashes instead of identifiers save memory. Their key
/// is random, so nobody can make them collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    thread: u64,
    answered: Option<u64>,
}

/// The identifiers that a stored message has.
struct StoredMessage<'a> {
    key: &'a str,
    id: &'a str,
    thread: &'a str,
    answered: Option<&'a str>,
}

/// Joins the conversations of a stream of mail. Blocks.
pub(crate) fn join(
    services: &RecordService,
    caller: &Principal,
    target: &ImportTarget,
) -> Result<(), ImportError> {
    let hasher = RandomState::new();
    let hash = |text: &str| hasher.hash_one(text);
    let permit = caller.gate().records()?;
    let moved = services.records.read(&permit, Instant(0), |view| {
        let mut messages = HashMap::new();
        each_message(view, target, &mut |found| {
            let answered = found.answered.map(hash);
            let message = Message { thread: hash(found.thread), answered };
            messages.insert(hash(found.id), message);
            messages.len() <= MOST_MESSAGES
        })?;
        if messages.len() > MOST_MESSAGES {
            return Ok(Vec::new());
        }
        let roots = roots(&messages);
        let wanted: HashSet<u64> = roots.values().copied().collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let (mut moved, mut names) = (Vec::new(), HashMap::new());
        each_message(view, target, &mut |found| {
            for text in [Some(found.id), Some(found.thread), found.answered].into_iter().flatten() {
                if wanted.contains(&hash(text)) {
                    names.entry(hash(text)).or_insert_with(|| text.to_owned());
                }
            }
            if let Some(root) = roots.get(&hash(found.id)) {
                moved.push((found.key.to_owned(), *root));
            }
            true
        })?;
        let moved = moved.into_iter();
        Ok(moved.filter_map(|(key, root)| Some((key, names.get(&root)?.clone()))).collect())
    })?;
    let owner = caller.gate().owner()?;
    for moved in moved.chunks(AT_ONCE) {
        transaction::write(&services.records, &owner, |batch| {
            let Some(stream) = batch.target(&target.connection, &target.stream)? else {
                return Ok(Ok(()));
            };
            for (key, root) in moved {
                let Ok(key) = RecordKey::parse(key) else { continue };
                let fields = vec![
                    ("thread".to_owned(), FieldValue::Text(root.clone())),
                    ("thread_ref".to_owned(), target.reference(root)),
                ];
                batch.change_short(&stream, &key, &fields)?;
            }
            Ok(Ok(()))
        })?;
    }
    Ok(())
}

/// Calls `each` for every message of the stream, as long as it returns `true`.
fn each_message(
    view: &RecordsView<'_>,
    target: &ImportTarget,
    each: &mut dyn FnMut(StoredMessage<'_>) -> bool,
) -> Result<(), Problem> {
    stored_fields::each_record(view, target, &mut |key, loaded| {
        let text = |name: &str| match loaded.body().field(name) {
            Ok(Some(entry)) => match entry.value {
                StoredValue::Text(text) => Some(text),
                _ => None,
            },
            _ => None,
        };
        let (Some(id), Some(thread)) = (text("message_id"), text("thread")) else { return true };
        each(StoredMessage { key, id, thread, answered: text("in_reply_to") })
    })
}

/// Returns the conversations of those messages that have another one now.
fn roots(messages: &HashMap<u64, Message>) -> HashMap<u64, u64> {
    let moved = messages.iter().filter_map(|(&id, message)| {
        let root = root_of(messages, id, *message)?;
        (root != message.thread).then_some((id, root))
    });
    moved.collect()
}

/// Returns the first message of a conversation, or what that one names if it is not stored. `None`
/// for messages that answer each other in a circle.
fn root_of(messages: &HashMap<u64, Message>, id: u64, message: Message) -> Option<u64> {
    let (mut at, mut current) = (id, message);
    for _ in 0..MOST_STEPS {
        let before = [Some(current.thread), current.answered].into_iter().flatten();
        let before = before.filter(|named| *named != at);
        match before.filter_map(|named| Some((named, *messages.get(&named)?))).next() {
            Some((named, message)) => (at, current) = (named, message),
            None => return Some(current.thread),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::report::BadRowPolicy;
    use crate::rig::{Rig, counts, recognised, rig};

    /// Messages of three programs: one names all messages before it, the others the last one.
    const MAILS: [&str; 4] = [
        "Message-ID: <a@x.org>\nSubject: a\n\na\n",
        "Message-ID: <b@x.org>\nIn-Reply-To: <a@x.org>\nReferences: <a@x.org>\n\nb\n",
        "Message-ID: <c@x.org>\nIn-Reply-To: <b@x.org>\n\nc\n",
        "Message-ID: <d@x.org>\nIn-Reply-To: <c@x.org>\n\nd\n",
    ];

    fn import(rig: &Rig, name: &str, mails: &[&str]) -> (u64, u64, u64, u64) {
        let text: Vec<String> = mails.iter().map(|mail| format!("From \n{mail}\n")).collect();
        let path = rig.write(name, text.concat());
        let inputs = [recognised(&path)];
        counts(&rig.import(&inputs, &[], BadRowPolicy::Skip, |_| ()).unwrap())
    }

    fn assert_one_thread(rig: &Rig) {
        for key in ["a@x.org", "b@x.org", "c@x.org", "d@x.org"] {
            let record = rig.record(key);
            assert_eq!(record["thread"], "a@x.org", "{key}");
            if key != "a@x.org" {
                assert_eq!(record["thread_ref"]["record_id"], "a@x.org", "{key}");
            }
        }
    }

    #[test]
    fn the_order_of_messages_within_a_mailbox_does_not_matter() {
        let [a, b, c, d] = MAILS;
        for order in [[a, b, c, d], [d, c, b, a], [c, a, d, b]] {
            let rig = rig();
            assert_eq!(import(&rig, "x.mbox", &order), (4, 0, 0, 0));
            assert_one_thread(&rig);
            assert_eq!(import(&rig, "x.mbox", &order), (0, 0, 4, 0));
            assert_one_thread(&rig);
        }
    }

    #[test]
    fn a_reply_joins_its_conversation_when_a_later_import_has_the_beginning() {
        let rig = rig();
        let [a, b, c, d] = MAILS;
        assert_eq!(import(&rig, "1.mbox", &[d, c]), (2, 0, 0, 0));
        assert_eq!(rig.record("d@x.org")["thread"], "b@x.org");
        assert_eq!(import(&rig, "2.mbox", &[b]), (1, 0, 0, 0));
        // The first message is named already, and not there yet.
        assert_eq!(rig.record("d@x.org")["thread"], "a@x.org");
        assert_eq!(import(&rig, "3.mbox", &[a]), (1, 0, 0, 0));
        assert_one_thread(&rig);
        assert_eq!(import(&rig, "1.mbox", &[d, c]), (0, 0, 2, 0));
        assert_eq!(import(&rig, "4.mbox", &[d, c, b, a, d]), (0, 0, 5, 0));
        assert_one_thread(&rig);
        assert_eq!(rig.keys().len(), 4);
    }

    #[test]
    fn messages_that_answer_each_other_stay_as_they_are() {
        let rig = rig();
        let one = "Message-ID: <1@x.org>\nIn-Reply-To: <2@x.org>\n\nx\n";
        let two = "Message-ID: <2@x.org>\nIn-Reply-To: <1@x.org>\n\nx\n";
        assert_eq!(import(&rig, "x.mbox", &[one, two]), (2, 0, 0, 0));
        assert_eq!(import(&rig, "x.mbox", &[two, one]), (0, 0, 2, 0));
    }

    proptest! {
        #[test]
        fn a_tree_of_replies_is_one_conversation_in_any_order(
            parents in prop::collection::vec(any::<prop::sample::Index>(), 1..40),
        ) {
            let mut messages = HashMap::from([(0, Message { thread: 0, answered: None })]);
            for (at, parent) in parents.iter().enumerate() {
                let parent = parent.index(at + 1) as u64;
                let message = Message { thread: parent, answered: Some(parent) };
                messages.insert(at as u64 + 1, message);
            }
            let moved = roots(&messages);
            for (id, message) in &messages {
                prop_assert_eq!(moved.get(id).copied().unwrap_or(message.thread), 0);
            }
        }
    }
}
