//! What the space asks of a system about a file, and what it is told, in words that fit every
//! system.

use stile_domain::facts::FileStamp;
use stile_domain::listing::EntryKind;

use crate::space::identity::Identity;

/// The mode of an unfinished file. No other file is write-only for its owner, so the cleaner can
/// delete it.
pub(in crate::space) const UNFINISHED: u32 = 0o200;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// For reading a file of any kind.
    Read,
    /// For reading a folder. Anything else is refused.
    Folder,
    /// For reading, and for writing at the end.
    Append,
}

/// What an error of the system says about a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::space) enum Problem {
    /// Nothing has the name.
    Absent,
    /// Something else than a folder has the name of a folder.
    NotAFolder,
    /// A mount is there.
    #[cfg_attr(windows, expect(dead_code, reason = "a mounted volume is a link there"))]
    Mount,
    /// A link is there.
    Link,
    /// The user of this process may not do it.
    Denied,
    /// Something else than a file is there.
    NotAFile,
    /// The disk is full.
    NoSpace,
    /// It may succeed later.
    Busy,
    /// What nobody expects.
    Other,
}

/// The attributes of a file.
#[derive(Clone, Copy, Debug)]
pub(in crate::space) struct Status {
    pub(in crate::space) kind: EntryKind,
    pub(in crate::space) stamp: FileStamp,
    pub(in crate::space) links: u64,
    pub(in crate::space) mode: u32,
    #[cfg_attr(windows, expect(dead_code, reason = "rights there are lists, and no numbers"))]
    pub(in crate::space) owner: (u32, u32),
}

impl Status {
    pub(in crate::space) fn identity(&self) -> Identity {
        Identity(self.stamp.device, self.stamp.inode)
    }

    /// Returns whether nobody has permission to write, which binds the super-user too.
    pub(in crate::space) fn is_protected(&self) -> bool {
        self.mode & 0o222 == 0
    }
}
