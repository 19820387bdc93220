//! What the agent does next after a refusal, with the tools spelled as the agent's list has them.

use std::borrow::Cow;

use super::{EncodingFault, Refusal};
use crate::tool_name::Spelling;

impl Refusal {
    /// Returns the whole message for the agent: what is wrong, what is true now, and what to call
    /// next. The tools are spelled as `names` says; everything else is as it was said.
    pub fn message(&self, names: Spelling) -> String {
        match self.next_step(names) {
            Some(step) => format!("{self} {step}"),
            None => self.to_string(),
        }
    }

    /// Returns the sentences that say what to call next; `None` where the text of the variant
    /// already says all, because no tool helps.
    fn next_step(&self, names: Spelling) -> Option<Cow<'static, str>> {
        let sentence = |text| Some(names.sentence(text));
        match self {
            Self::InvalidPath { .. } => sentence("Call `file.list` to see what is there."),
            Self::NotFound { list, .. } => {
                let find = names.sentence(
                    "Call `file.find` with a part of its name, or `file.list` on its folder",
                );
                let create = names.name("file.create");
                Some(
                    format!(
                        "{find} (`{list}`), to see what is there; `{create}` makes a new file."
                    )
                    .into(),
                )
            }
            Self::AlreadyExists { .. } => sentence(
                "Call `text.read` on it and change it with `text.replace`, or choose another name.",
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
            Self::FolderNotKept { .. } => {
                sentence("Ask the user; `file.remove` removes one file after the other.")
            }
            Self::NotAFile { list, .. } => {
                let call = names.sentence("If it is a directory, call `file.list` on it, or read");
                let moves = names.sentence("`folder.move` moves a directory.");
                Some(format!("{call} `{list}`. {moves}").into())
            }
            Self::NotADirectory { .. } => sentence("Call `text.read` if it is a file."),
            Self::NotText { .. } => sentence(
                "`file.read` reads its bytes. If it is text in another encoding, call `text.read` \
                 with `encoding`. `file.remove` takes this hash.",
            ),
            Self::NoDocumentText { .. } => sentence("`file.read` reads its bytes."),
            Self::BadEncoding { why: EncodingFault::Invalid, .. } => sentence(
                "Call `text.read` without `encoding`, or with another one; `file.read` reads its \
                 bytes.",
            ),
            Self::BadEncoding { .. } => sentence(
                "`text.read` and `file.read` read it. To change it, ask the user to save it as \
                 UTF-8, or make a new file with `file.create`.",
            ),
            Self::Stale { .. } => sentence(
                "Call `text.read` on it again, redo the change on the text that is there now, and \
                 send the hash that it returns.",
            ),
            Self::UnsafeFrontMatter { first, last, .. } => {
                let tool = names.name("text.replace");
                Some(format!("Edit lines {first} to {last} with `{tool}`.").into())
            }
            Self::TooLarge { advice, .. } => sentence(advice),
            Self::NoVersion { path, .. } => {
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
