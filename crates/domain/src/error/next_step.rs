//! What the agent does next after a refusal, with the tools spelled as the agent's list has them.

use std::borrow::Cow;

use super::{EncodingFault, Refusal};
use crate::path::SpacePath;
use crate::scope::{Scope, Verb};
use crate::tool_name::ShownTools;

/// What a caller can do who may only add to the files that a call needs.
const ADD_UNREAD: &str = "To a file that is there you may add: call `text.append` with \
    `size_bytes` 0 and the `hash` of nothing, \
    `e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855`.";

/// Returns whether scopes allow adding to every path that a call needs more for.
fn may_only_add(needed: &[Scope], granted: &[Scope]) -> bool {
    let is_covered = |path: &SpacePath| granted.iter().any(|it| it.covers(Verb::Append, path));
    needed.iter().all(|scope| is_covered(scope.path()))
}

impl Refusal {
    /// Returns the whole message for the agent: what is wrong, what is true now, and what to call
    /// next. It names only tools that the caller is shown, as `names` spells them; everything else
    /// is as it was said.
    pub fn message(&self, names: impl Into<ShownTools>) -> String {
        match self.next_step(names.into()) {
            Some(step) if !step.is_empty() => format!("{self} {step}"),
            _ => self.to_string(),
        }
    }

    /// Returns the sentences that say what to call next; `None` where the text of the variant
    /// already says all, because no tool helps.
    fn next_step(&self, names: ShownTools) -> Option<Cow<'static, str>> {
        let sentence = |text| Some(names.sentence(text));
        match self {
            Self::InvalidPath { .. } => sentence("Call `file.list` to see what is there."),
            Self::NotFound { list, .. } => {
                let find = names.sentence("`file.find` finds it by a part of its name.");
                let folder = list_step(names, ["its folder", "to see what is there."], list);
                let create = names.sentence("`file.create` makes a new file.");
                Some(joined([&folder, &find, &create]))
            }
            Self::NoSuchSection { .. } => Some(names.either(
                "The note may have changed: call `get_note_outline` on it, or read with `lines` \
                 or `q`.",
                "The note may have changed: read it with `lines` or `q`.",
            )),
            Self::AmbiguousSection { .. } => Some(names.either(
                "Name the headings above it too, as in `Plan > Next`, or send an id that \
                 `get_note_outline` returns.",
                "Name the headings above it too, as in `Plan > Next`.",
            )),
            Self::AlreadyExists { .. } => sentence(
                "Choose another name. If it is a text file, you may call `text.read` on it and \
                 change it with `text.replace`.",
            ),
            Self::FolderNotEmpty { .. } => sentence(
                "Call `file.list` on it with `tree_hash: true`, and send the `tree_hash` that it \
                 returns as `hash`.",
            ),
            Self::StaleFolder { .. } => sentence(
                "Call `file.list` on it with `tree_hash: true`, look at what is there now, and \
                 send the `tree_hash` that it returns.",
            ),
            Self::FolderTooLarge { .. } => {
                sentence("Work on the folders in it one by one: `file.list` shows them.")
            }
            Self::FolderNotKept { .. } => sentence(
                "Ask the user, who alone can remove symbolic links and entries whose names no \
                     path can hold. `file.remove` removes each regular file by itself.",
            ),
            Self::NotAFile { list, .. } => {
                let folder = list_step(names, ["it", "if it is a directory."], list);
                let moves = "`folder.move` moves a directory, and `file.move` each file by itself.";
                let moves = names.sentence(moves);
                Some(joined([&folder, &moves]))
            }
            Self::NotADirectory { .. } => sentence("Call `text.read` if it is a file."),
            Self::NotText { .. } => sentence(
                "`file.read` reads its bytes. If it is text in another encoding, call `text.read` \
                 with `encoding`. `file.remove` takes this hash.",
            ),
            Self::NoDocumentText { .. } => sentence("`file.read` reads its bytes."),
            Self::UnchangeableDocument { .. } => sentence(
                "`text.read` reads its text, and `file.read` its bytes. Ask the user to change it in \
                 the program that it belongs to, or put what is new into a note beside it.",
            ),
            Self::BadEncoding { why: EncodingFault::Invalid, .. } => sentence(
                "Call `text.read` without `encoding`, or with another one. `file.read` reads its \
                 bytes.",
            ),
            Self::BadEncoding { why: EncodingFault::Guessed, .. } => Some(names.either(
                "Send the change with `encoding`: the one in which `text.read` shows the right \
                 text.",
                "Send the change with `encoding`.",
            )),
            Self::BadEncoding { why: EncodingFault::Unread, .. } => sentence(
                "With its `hash`, `text.append` adds to it in its encoding, which needs a `write:` \
                 scope.",
            ),
            Self::BadEncoding { .. } => sentence(
                "`text.read` and `file.read` read it. To change it, ask the user to save it as \
                 UTF-8. `file.create` makes a new file.",
            ),
            Self::Stale { .. } => sentence(
                "Call `text.read` on it again, redo the change on the text that is there now, and \
                 send the hash that it returns.",
            ),
            Self::UnsafeFrontMatter { first, last, .. } if names.has("text.replace") => {
                let tool = names.name("text.replace");
                Some(format!("Edit lines {first} to {last} with `{tool}`.").into())
            }
            Self::TooLarge { advice, .. } => sentence(advice),
            Self::InsufficientScope { needed, granted } if may_only_add(needed, granted) => {
                sentence(ADD_UNREAD)
            }
            Self::NoVersion { path, .. } if names.has("file.history") => {
                let tool = names.name("file.history");
                Some(format!("`{tool}` shows which versions of `{path}` there are.").into())
            }
            Self::UnknownOutcome { .. } => {
                sentence("Call `text.read` to see what is there now before you do anything else.")
            }
            Self::Internal { .. } => sentence(
                "Before repeating a change, call `text.read` to see whether it happened; if it \
                 fails again, give the user that number.",
            ),
            _ => None,
        }
    }
}

/// Returns the sentence that leads to the list of a folder: the tool that lists it, or its address
/// where the caller is not shown that tool.
fn list_step(names: ShownTools, [on, why]: [&str; 2], list: &str) -> String {
    match names.sentence("Call `file.list`").as_ref() {
        "" => format!("Read `{list}` {why}"),
        call => format!("{call} on {on}, or read `{list}`, {why}"),
    }
}

/// Returns sentences as one text, without those that are empty.
fn joined<const COUNT: usize>(sentences: [&str; COUNT]) -> Cow<'static, str> {
    let said = sentences.into_iter().filter(|sentence| !sentence.is_empty());
    said.collect::<Vec<_>>().join(" ").into()
}
