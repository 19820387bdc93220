//! The names under which files of ours stand in a folder that is being edited.
//!
//! A name carries everything the cleaner needs after a kill, because nothing else survives one:
//! whose file it is, the hash it should have if it is the displaced old version, the hash it should
//! have if it is the new one, what was being done, and the name of the file it is about. So a file
//! that holds neither of the two is recognized as somebody's only copy and never swept away.

use std::fmt;

use stile_domain::hash::ContentHash;
use stile_domain::path::RESERVED_PREFIX;

/// A process and a folder in use by it, for as long as files of it are kept there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Owner(String);

impl Owner {
    /// `process` is random for each process, `number` counts its folders.
    pub(super) fn new(process: u64, number: u64) -> Self {
        Self(format!("{process:016x}-{number:x}"))
    }

    /// The name of the file whose lock says that the owner is alive.
    pub(super) fn marker(&self) -> String {
        format!("{RESERVED_PREFIX}{}{MARKER}", self.0)
    }
}

const MARKER: &str = ".alive";

/// What was being done when a file got its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// A new file is being made.
    Create,
    /// New content is exchanged with old.
    Exchange,
    /// Old content was moved aside for new, where the file system cannot exchange.
    Replace,
    /// The file is being removed.
    Remove,
}

/// A file of ours: a temporary one, or one that was displaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) owner: Owner,
    pub(super) sequence: u64,
    pub(super) deed: Deed,
    /// The first half of the hash of the version that is replaced; zeros for none.
    pub(super) old: String,
    /// The first half of the hash of the version that is made; zeros for none.
    pub(super) new: String,
    /// The beginning of the file's own name.
    pub(super) about: String,
    /// Whether `about` is the whole name.
    pub(super) whole: bool,
}

/// The part of a hash that a name carries: 128 bits.
pub(super) fn short(hash: Option<&ContentHash>) -> String {
    hash.map_or_else(|| "0".repeat(32), |hash| hash.to_string().chars().take(32).collect())
}

/// Bytes of a file's own name that fit beside the rest in 255.
const ABOUT_BYTES: usize = 120;

impl Name {
    pub(super) fn new(
        owner: &Owner,
        sequence: u64,
        deed: Deed,
        old: Option<&ContentHash>,
        new: Option<&ContentHash>,
        about: &str,
    ) -> Self {
        let end = (0..=ABOUT_BYTES.min(about.len()))
            .rev()
            .find(|at| about.is_char_boundary(*at))
            .unwrap_or(0);
        Self {
            owner: owner.clone(),
            sequence,
            deed,
            old: short(old),
            new: short(new),
            about: about.get(..end).unwrap_or_default().to_owned(),
            whole: end == about.len(),
        }
    }

    /// Reads a name back; `None` where it is not one of these.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(RESERVED_PREFIX)?.splitn(7, '-');
        let (process, number) = (parts.next()?, parts.next()?);
        let sequence = u64::from_str_radix(parts.next()?, 16).ok()?;
        let deed = match parts.next()? {
            "c" => Deed::Create,
            "x" => Deed::Exchange,
            "m" => Deed::Replace,
            "r" => Deed::Remove,
            _ => return None,
        };
        let (old, new) = (parts.next()?, parts.next()?);
        let about = parts.next()?;
        let (whole, about) = match about.split_at_checked(1)? {
            ("=", about) => (true, about),
            ("~", about) => (false, about),
            _ => return None,
        };
        let is_hash =
            |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_hash(old) && is_hash(new) && process.len() == 16).then(|| Self {
            owner: Owner(format!("{process}-{number}")),
            sequence,
            deed,
            old: old.to_owned(),
            new: new.to_owned(),
            about: about.to_owned(),
            whole,
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deed = match self.deed {
            Deed::Create => 'c',
            Deed::Exchange => 'x',
            Deed::Replace => 'm',
            Deed::Remove => 'r',
        };
        let whole = if self.whole { '=' } else { '~' };
        let Self { owner, sequence, old, new, about, .. } = self;
        write!(f, "{RESERVED_PREFIX}{}-{sequence:x}-{deed}-{old}-{new}-{whole}{about}", owner.0)
    }
}

/// The owner that a marker stands for.
pub(super) fn marker_owner(text: &str) -> Option<Owner> {
    let owner = text.strip_prefix(RESERVED_PREFIX)?.strip_suffix(MARKER)?;
    Some(Owner(owner.to_owned()))
}

/// The visible name of a copy that is kept beside `about`, at the given local time.
///
/// *Shape*: `plan (conflict 2026-11-21 22-31-05).md`, with a number before the bracket closes from
/// the second try on; at most 255 bytes.
pub(super) fn conflict_copy(about: &str, when: &str, attempt: u32) -> String {
    let (stem, extension) = match about.rfind('.') {
        Some(dot) if dot > 0 && about.len() - dot <= 16 => about.split_at(dot),
        _ => (about, ""),
    };
    let number = if attempt > 1 { format!(" {attempt}") } else { String::new() };
    let tail = format!(" (conflict {when}{number}){extension}");
    let room = 255usize.saturating_sub(tail.len());
    let end = (0..=room.min(stem.len())).rev().find(|at| stem.is_char_boundary(*at)).unwrap_or(0);
    format!("{}{tail}", stem.get(..end).unwrap_or_default())
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
        fn a_name_survives_its_text_and_fits_a_folder(
            process in any::<u64>(), number in any::<u64>(), sequence in any::<u64>(), about in "[^/\0]{1,255}"
        ) {
            let owner = Owner::new(process, number);
            let hash = ContentHash::digest(about.as_bytes());
            for deed in [Deed::Create, Deed::Exchange, Deed::Replace, Deed::Remove] {
                let name = Name::new(&owner, sequence, deed, Some(&hash), None, &about);
                prop_assert!(name.to_string().len() <= 255);
                prop_assert_eq!(Name::parse(&name.to_string()), Some(name));
            }
            prop_assert_eq!(marker_owner(&owner.marker()), Some(owner));
            prop_assert!(conflict_copy(&about, "2026-11-21 22-31-05", 99).len() <= 255);
        }

        #[test]
        fn other_names_are_not_taken_for_ours(text in "(\\.stile-)?[0-9a-f-]{0,30}\\PC{0,20}") {
            if let Some(name) = Name::parse(&text) {
                prop_assert!(text.starts_with(RESERVED_PREFIX));
                prop_assert!(name.old.len() == 32);
            }
        }
    }
}
