//! What a refusal says to the owner, at the command line and on pages.
//!
//! The message of a refusal is for the agent that called a tool: it names arguments and tools. The
//! owner's commands call the same tools. For the owner, this module writes a message that names
//! neither tools nor arguments.

use serde_json::Value;

use super::Refusal;
use crate::tool_name::Spelling;

impl Refusal {
    /// Returns what the refusal says to the owner.
    pub fn owner_text(&self) -> String {
        owner_text(&self.to_json(Spelling::Dotted))
    }
}

/// Returns what the `error` object of a refused call says to the owner.
pub fn owner_text(error: &Value) -> String {
    let member = |name: &str| error.get(name).and_then(Value::as_str);
    let path = member("path").unwrap_or("the file");
    match member("code").unwrap_or_default() {
        "stale" => format!("{path} was changed in this moment, so it was left as it is"),
        "not_found" => format!("there is no {path}"),
        "already_exists" => format!("there is something at {path} already, which was left"),
        "not_a_file" => format!("{path} is not a file"),
        "not_a_directory" => format!("{path} is not a folder, or leads through a file"),
        "folder_not_empty" => format!("the folder {path} is not empty"),
        "symlink_refused" => format!("{path} is a link or leads through one"),
        "mount_refused" => {
            format!("{path} is on a mounted file system; --mounts names those to be entered")
        }
        "hard_linked" => {
            format!("{path} has more than one name (hard links), which a change would separate")
        }
        "not_permitted" => format!("the system does not let Stile change {path}"),
        "busy" => format!("{path} is busy: somebody changes that folder or holds a lock on it"),
        "root_moved" => {
            "the folder of the space is not where it was: it was moved, unmounted or replaced"
                .to_owned()
        }
        "too_large" => format!("{path} is or would be larger than Stile changes"),
        "no_space" => "the disk is full, and nothing was changed".to_owned(),
        "not_kept" => format!("the history has no room for {path}, and nothing was changed"),
        "unknown_outcome" => format!("{path} may or may not have been changed: look at it"),
        "internal" => match error.get("incident").and_then(Value::as_u64) {
            Some(incident) => format!("Stile failed (incident {incident}); its log says why"),
            None => "Stile failed; its log says why".to_owned(),
        },
        // What follows the first sentence is for an agent.
        _ => {
            let message = member("message").unwrap_or("Stile refused that");
            let first = message.split_once(". ").map_or(message, |(first, _)| first);
            first.trim_end_matches('.').to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::SpacePath;

    #[test]
    fn the_owner_reads_no_advice_for_agents() {
        let path = || SpacePath::parse("/a.md").unwrap();
        let refusals = [
            Refusal::Stale { path: path(), argument: "hash" },
            Refusal::StaleFolder { path: path() },
            Refusal::not_found(&path()),
            Refusal::not_a_file(&path()),
            Refusal::AlreadyExists { path: path() },
            Refusal::FolderNotEmpty { path: path() },
            Refusal::NotADirectory { path: path() },
            Refusal::SymlinkRefused { path: path() },
            Refusal::MountRefused { path: path() },
            Refusal::HardLinked { path: path() },
            Refusal::NotPermitted { path: path() },
            Refusal::ReadOnly { path: path(), is_folder: true },
            Refusal::Busy { path: path(), is_locked_by_other: true },
            Refusal::RootMoved,
            Refusal::RootReplaced,
            Refusal::RootMissing,
            Refusal::Cancelled,
            Refusal::NoSpace { path: path() },
            Refusal::JournalFull,
            Refusal::NotKept { path: path() },
            Refusal::FolderNotKept { path: path() },
            Refusal::NoVersion { path: path(), why: "the history has no version `7`".to_owned() },
            Refusal::UnknownOutcome { path: path() },
            Refusal::Internal { incident: 7 },
            Refusal::invalid_argument("`query` must not be empty"),
        ];
        for refusal in refusals {
            let text = refusal.owner_text();
            for word in ["Call ", "call again", "text.", "file.", "the user", "your token", "hash"]
            {
                assert!(!text.contains(word), "{refusal:?}: {text}");
            }
            assert!(!text.ends_with('.') && text.len() > 10, "{text}");
        }
        let no_version = Refusal::NoVersion { path: path(), why: "it is gone".to_owned() };
        assert_eq!(no_version.owner_text(), "it is gone");
    }
}
