//! Finds out whether a program that is no server of ours holds the lock of a folder.
//!
//! Any program may lock a folder. Linux lists the locks, each with its process and its file.

use super::identity::Identity;
use super::os;

/// Returns the process that holds the lock of a folder, if it is another program. `None` also if
/// the system does not say.
pub(super) fn foreign_holder(folder: Identity) -> Option<u32> {
    let holder = holder(&os::locks().ok()?, folder)?;
    let name = os::program_name(holder).ok();
    // A process that has ended left its lock to a child, which our servers never do.
    (name.is_none() || name != os::program_name(std::process::id()).ok()).then_some(holder)
}

/// Returns the process that holds the lock, by the list of the system. Its lines are like
/// `1: FLOCK  ADVISORY  WRITE 713 08:02:393222 0 EOF`; those of waiting processes have an arrow.
fn holder(locks: &str, folder: Identity) -> Option<u32> {
    let file = os::name_in_locks(folder);
    locks.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let kind = words.next()?;
        let (process, locked) = (words.nth(2)?, words.next()?);
        (kind == "FLOCK" && locked == file).then(|| process.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found_and_no_waiter() {
        let folder = Identity(rustix::fs::makedev(8, 2), 393_222);
        let line =
            |middle: &str| format!("1: POSIX  ADVISORY  READ 5 08:02:393222 0 EOF\n{middle}\n");
        for (middle, found) in [
            ("2: FLOCK  ADVISORY  WRITE 713 08:02:393222 0 EOF", Some(713)),
            ("2: FLOCK  ADVISORY  READ 713 08:02:393222 0 EOF", Some(713)),
            ("2: -> FLOCK  ADVISORY  WRITE 713 08:02:393222 0 EOF", None),
            ("2: FLOCK  ADVISORY  WRITE 713 08:03:393222 0 EOF", None),
            ("2: FLOCK  ADVISORY  WRITE -1 08:02:393222 0 EOF", None),
            ("2: FLOCK", None),
        ] {
            assert_eq!(holder(&line(middle), folder), found, "{middle}");
        }
    }
}
