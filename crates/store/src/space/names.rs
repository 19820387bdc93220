//! The names of our own files in a folder that is being edited.
//!
//! Only the name of a file survives a kill, so it has all that the cleaner needs: the process, the
//! hash of the old version, the hash of the new version, the kind of change, and the name of the
//! edited file. A file with neither of the two hashes is somebody's only copy, and is never
//! deleted.

use std::fmt;

use stile_domain::byte_size::beginning;
use stile_domain::hash::ContentHash;
use stile_domain::path::RESERVED_PREFIX;

/// Identifies a process, and a folder in which it keeps files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Owner(String);

impl Owner {
    /// `process` is a random number for each process, and `number` counts its folders.
    pub(super) fn new(process: u64, number: u64) -> Self {
        Self(format!("{process:016x}-{number:x}"))
    }

    /// Returns the number of the process, as text.
    pub(super) fn process(&self) -> &str {
        self.0.split('-').next().unwrap_or_default()
    }

    /// Returns the name of the marker, a file that the owner keeps locked while it is alive.
    pub(super) fn marker(&self) -> String {
        format!("{RESERVED_PREFIX}{}{MARKER}", self.0)
    }
}

const MARKER: &str = ".alive";

/// Whether a name is one that Stile gives a file of its own. Another file may begin like ours: it
/// is somebody's, and no path can name it.
pub(super) fn is_ours(name: &str) -> bool {
    TemporaryName::parse(name).is_some() || marker_owner(name).is_some()
}

fn is_owner(process: &str, number: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    process.len() == 16 && is_hex(process) && !number.is_empty() && is_hex(number)
}

/// The change for which a temporary file was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeKind {
    /// A file is created.
    Create,
    /// New content is exchanged with the old.
    Exchange,
    /// The old content was moved aside, since the file system cannot exchange.
    Replace,
    /// The file is removed.
    Remove,
    /// The file was moved aside on its way to another name, since the file system cannot move it
    /// there in one step.
    Move,
}

/// The name of a temporary or displaced file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TemporaryName {
    pub(super) owner: Owner,
    pub(super) sequence: u64,
    pub(super) change: ChangeKind,
    /// The first half of the hash of the replaced version. Zeros stand for none.
    pub(super) old: String,
    /// The first half of the hash of the new version. Zeros stand for none.
    pub(super) new: String,
    /// The name of the edited file, or its beginning.
    pub(super) original: String,
    /// Whether `original` is the whole name.
    pub(super) whole: bool,
}

/// Returns the part of a hash that a name contains: 128 bits.
pub(super) fn short(hash: Option<&ContentHash>) -> String {
    hash.map_or_else(|| "0".repeat(32), |hash| hash.to_string().chars().take(32).collect())
}

/// How many bytes of the edited file's name fit beside the rest into 255.
const ORIGINAL_BYTES: usize = 120;

impl TemporaryName {
    pub(super) fn new(
        owner: &Owner,
        sequence: u64,
        change: ChangeKind,
        old: Option<&ContentHash>,
        new: Option<&ContentHash>,
        original: &str,
    ) -> Self {
        let begun = beginning(original, ORIGINAL_BYTES);
        Self {
            owner: owner.clone(),
            sequence,
            change,
            old: short(old),
            new: short(new),
            original: begun.to_owned(),
            whole: begun == original,
        }
    }

    /// Parses a name. Returns `None` for the name of any other file.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(RESERVED_PREFIX)?.splitn(7, '-');
        let (process, number) = (parts.next()?, parts.next()?);
        let sequence = u64::from_str_radix(parts.next()?, 16).ok()?;
        let change = match parts.next()? {
            "c" => ChangeKind::Create,
            "x" => ChangeKind::Exchange,
            "m" => ChangeKind::Replace,
            "r" => ChangeKind::Remove,
            "v" => ChangeKind::Move,
            _ => return None,
        };
        let (old, new) = (parts.next()?, parts.next()?);
        let original = parts.next()?;
        let (whole, original) = match original.split_at_checked(1)? {
            ("=", original) => (true, original),
            ("~", original) => (false, original),
            _ => return None,
        };
        let is_hash =
            |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_hash(old) && is_hash(new) && is_owner(process, number)).then(|| Self {
            owner: Owner(format!("{process}-{number}")),
            sequence,
            change,
            old: old.to_owned(),
            new: new.to_owned(),
            original: original.to_owned(),
            whole,
        })
    }
}

impl fmt::Display for TemporaryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = match self.change {
            ChangeKind::Create => 'c',
            ChangeKind::Exchange => 'x',
            ChangeKind::Replace => 'm',
            ChangeKind::Remove => 'r',
            ChangeKind::Move => 'v',
        };
        let whole = if self.whole { '=' } else { '~' };
        let Self { owner, sequence, old, new, original, .. } = self;
        write!(
            f,
            "{RESERVED_PREFIX}{}-{sequence:x}-{change}-{old}-{new}-{whole}{original}",
            owner.0
        )
    }
}

/// Returns the owner of a marker.
pub(super) fn marker_owner(text: &str) -> Option<Owner> {
    let owner = text.strip_prefix(RESERVED_PREFIX)?.strip_suffix(MARKER)?;
    let (process, number) = owner.split_once('-')?;
    is_owner(process, number).then(|| Owner(owner.to_owned()))
}

/// Returns the name of a conflict copy beside `original`, for a local time.
///
/// *Shape*: `plan (conflict 2026-11-21 22-31-05).md`, with a number before the closing bracket from
/// the second attempt on. At most 255 bytes.
pub(super) fn conflict_copy(original: &str, when: &str, attempt: u32) -> String {
    let (stem, extension) = match original.rfind('.') {
        Some(dot) if dot > 0 && original.len() - dot <= 16 => original.split_at(dot),
        _ => (original, ""),
    };
    let number = if attempt > 1 { format!(" {attempt}") } else { String::new() };
    let tail = format!(" (conflict {when}{number}){extension}");
    let room = 255usize.saturating_sub(tail.len());
    format!("{}{tail}", beginning(stem, room))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_conflict_copy_keeps_its_extension() {
        assert_eq!(conflict_copy("plan.md", "2026-11-21", 1), "plan (conflict 2026-11-21).md");
        assert_eq!(conflict_copy(".agenda", "2026-11-21", 2), ".agenda (conflict 2026-11-21 2)");
    }

    proptest! {
        #[test]
        fn a_name_is_parsed_back_and_has_at_most_255_bytes(
            process in any::<u64>(),
            number in any::<u64>(),
            sequence in any::<u64>(),
            original in "[^/\0]{1,255}",
        ) {
            let owner = Owner::new(process, number);
            let hash = ContentHash::digest(original.as_bytes());
            use ChangeKind::{Create, Exchange, Move, Remove, Replace};
            for change in [Create, Exchange, Replace, Remove, Move] {
                let name =
                    TemporaryName::new(&owner, sequence, change, Some(&hash), None, &original);
                prop_assert!(name.to_string().len() <= 255);
                prop_assert_eq!(TemporaryName::parse(&name.to_string()), Some(name));
            }
            prop_assert_eq!(marker_owner(&owner.marker()), Some(owner));
            prop_assert!(conflict_copy(&original, "2026-11-21 22-31-05", 99).len() <= 255);
        }

        #[test]
        fn other_names_are_not_parsed(text in "(\\.stile-)?[0-9a-f-]{0,30}\\PC{0,20}") {
            if let Some(name) = TemporaryName::parse(&text) {
                prop_assert!(text.starts_with(RESERVED_PREFIX));
                prop_assert!(name.old.len() == 32);
            }
            // Such a text is too short for a temporary file, and no marker.
            prop_assert!(!is_ours(&text));
        }
    }
}
