//! Which versions a history keeps where there is no room for all.
//!
//! The version before a client's first change of a file is a *first* version. The client did not
//! make it, and it may be the only copy of what somebody wrote. A first version stays until it is
//! too old. A version that the same client made before is a *later* version. Later versions go
//! where there is no room: those of the file that is changed, and then the oldest.
//!
//! First versions are shared by a dynamic threshold: those of one client may take as much as they
//! leave to all others. So a client that is alone has half of the history for first versions, and a
//! client that keeps little always finds room, however much the others keep.
//!
//! An undo keeps what it replaces, too. Nothing that it gives back goes for that, and what it will
//! keep is decided before its first step, so that its plan can say what it will not.

use std::collections::BTreeSet;

use super::past_change::PastChangeKind;
use crate::hash::ContentHash;

/// What a version is to the client that changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionClass {
    /// Somebody else made the version.
    First,
    /// The client made the version itself.
    Later,
}

/// The last change of a file by the client that changes it now.
#[derive(Clone, Copy, Debug)]
pub struct LastChange {
    /// What the change did.
    pub kind: PastChangeKind,
    /// The version that the change made.
    pub after: Option<ContentHash>,
    /// What the version before that change was to the client.
    pub class: VersionClass,
}

/// Returns what a version is to the client that changes it. `last` is the client's last change that
/// gave the file its path or its content.
pub fn class_of(before: Option<ContentHash>, last: Option<LastChange>) -> VersionClass {
    match last {
        Some(last) if before.is_some() && last.after == before => match last.kind {
            // A move makes no content, so the content is what it was before.
            PastChangeKind::Moved => last.class,
            _ => VersionClass::Later,
        },
        _ => VersionClass::First,
    }
}

/// What an append means for the version that it made, once that version is replaced or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// The version before the append is kept for itself.
    IsKept,
    /// The version before the append is a first version, and is kept now: so far the file held it.
    IsKeptNow,
    /// The version before the append is the client's own. An earlier append may have added to a
    /// first version.
    MayBeginWithFirst,
}

/// An append, as far as the version before it counts.
#[derive(Clone, Copy, Debug)]
pub struct PastAppend {
    /// What the version before was to the client.
    pub class: VersionClass,
    /// Whether the history has the version before for itself.
    pub is_stored: bool,
}

/// Decides what becomes of the version before an append, of which nothing may be stored since the
/// version after begins with it.
pub fn beginning_of(append: &PastAppend) -> Beginning {
    match (append.is_stored, append.class) {
        (true, _) => Beginning::IsKept,
        (false, VersionClass::First) => Beginning::IsKeptNow,
        (false, VersionClass::Later) => Beginning::MayBeginWithFirst,
    }
}

/// How much a history holds. All sizes are in bytes, compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryUse {
    /// The most that the history may hold.
    pub limit: u64,
    /// The bytes that it holds.
    pub used: u64,
    /// The first versions of all clients.
    pub firsts: u64,
    /// The first versions of the client that changes a file.
    pub own_firsts: u64,
    /// The rows of that client which tell of what the client itself made. They are part of
    /// `own_firsts`.
    pub own_bulk_rows: u64,
}

/// What is to be added to a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addition {
    /// The bytes that are new; 0 for a version that the history has.
    pub added: u64,
    /// The bytes that become first versions of the client; 0 for a later version.
    pub charged: u64,
}

/// Whether there is room in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// There is room.
    Free,
    /// There is room once later versions of so many bytes are gone.
    After(u64),
    /// There is no room, since the client would keep more than it leaves to others.
    OverShare,
    /// The version alone is larger than the history.
    TooLarge,
}

/// Decides whether there is room for a version.
pub fn room_for(addition: Addition, history: &HistoryUse) -> Room {
    room_within(1, addition, history)
}

/// What the row of a change tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOf {
    /// A version that somebody else made. Without the row it cannot be given back.
    First,
    /// What the client itself made: it creates files, changes and moves what is its own.
    Bulk,
}

/// Returns what the row of a change tells of.
pub fn row_of(kind: PastChangeKind, class: VersionClass) -> RowOf {
    match (kind, class) {
        (PastChangeKind::Created | PastChangeKind::FolderCreated, _) | (_, VersionClass::Later) => {
            RowOf::Bulk
        }
        (_, VersionClass::First) => RowOf::First,
    }
}

/// Decides whether there is room for the row of a change. A row is small, and an undo needs it, so
/// a client whose share of versions is used up still has rows. Rows of bulk have a part of their
/// own, so that they never take the room of what somebody else made.
pub fn room_for_row(bytes: u64, of: RowOf, history: &HistoryUse) -> Room {
    let left_to_others = history.limit.saturating_sub(history.firsts.saturating_add(bytes));
    let bulk = history.own_bulk_rows.saturating_add(bytes);
    if of == RowOf::Bulk && bulk > left_to_others / BULK_PART {
        return Room::OverShare;
    }
    room_within(ROW_SHARE, Addition { added: bytes, charged: bytes }, history)
}

/// The rows of a client's bulk may take one part of so many of what is left to others.
const BULK_PART: u64 = 4;

/// Returns the kind of the one row that stands for two successive changes of a file by one client.
/// The history uses it if it has no room for a second row. `None` if no single row can stand for
/// both.
pub fn merged(first: PastChangeKind, second: PastChangeKind) -> Option<PastChangeKind> {
    use PastChangeKind::{
        Appended, Created, FolderCreated, FolderMerged, FolderMoved, FolderRemoved, Moved, Removed,
        Replaced,
    };
    match (first, second) {
        (first, second) if first.is_of_folder() || second.is_of_folder() => None,
        (Moved, _) | (_, Moved) => None,
        (Created, _) => Some(Created),
        (Appended, Appended) => Some(Appended),
        (_, Removed) => Some(Removed),
        (_, Replaced | Appended | Created) => Some(Replaced),
        (_, FolderCreated | FolderRemoved | FolderMoved | FolderMerged) => None,
    }
}

/// With rows, a client may take this many times what is left to others.
const ROW_SHARE: u64 = 4;

/// Decides whether a client may take an addition, if all its first versions may take `share` times
/// what is left to others.
fn room_within(share: u64, Addition { added, charged }: Addition, history: &HistoryUse) -> Room {
    let HistoryUse { limit, used, firsts, own_firsts, .. } = *history;
    if added.max(charged) > limit {
        return Room::TooLarge;
    }
    let firsts_then = firsts.saturating_add(charged);
    let left_to_others = limit.saturating_sub(firsts_then);
    let most = left_to_others.saturating_mul(share);
    if charged > 0 && own_firsts.saturating_add(charged) > most {
        return Room::OverShare;
    }
    // First versions stay, so that much cannot become free.
    let stays = if charged > 0 { firsts_then } else { firsts.saturating_add(added) };
    match used.saturating_add(added).saturating_sub(limit) {
        0 => Room::Free,
        _ if stays > limit => Room::OverShare,
        excess => Room::After(excess),
    }
}

/// A version that an undo replaces or removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoCopy {
    /// The hash of the version.
    pub version: ContentHash,
    /// The bytes that the version needs; 0 if it is in the history and stays there in any case.
    pub bytes: u64,
}

/// Decides which versions an undo keeps of those that it replaces or removes. `room` is what can
/// become free for them: all bytes but those of first versions, of the rows, and of the versions
/// that the undo gives back, which stay until it is made. Earlier ones come first.
pub fn kept_by_undo(
    mut room: u64,
    copies: impl IntoIterator<Item = UndoCopy>,
) -> BTreeSet<ContentHash> {
    let mut kept = BTreeSet::new();
    for UndoCopy { version, bytes } in copies {
        if kept.contains(&version) {
            continue;
        }
        if let Some(rest) = room.checked_sub(bytes) {
            room = rest;
            kept.insert(version);
        }
    }
    kept
}

/// Returns which later versions go so that `excess` bytes become free. `laters` are the candidates
/// with their sizes, in the order in which they go.
pub fn victims<T>(laters: impl IntoIterator<Item = (T, u64)>, excess: u64) -> Vec<T> {
    let mut freed = 0_u64;
    let mut gone = Vec::new();
    for (version, bytes) in laters {
        if freed >= excess {
            break;
        }
        freed = freed.saturating_add(bytes);
        gone.push(version);
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A history that does what the functions decide, and checks the law after each step.
    #[derive(Default)]
    struct Model {
        limit: u64,
        /// The client, the file, whether it is a first version, and the bytes. The oldest is first.
        versions: Vec<(u8, u8, bool, u64)>,
    }

    impl Model {
        fn sum(&self, counts: impl Fn(&(u8, u8, bool, u64)) -> bool) -> u64 {
            self.versions.iter().filter(|version| counts(version)).map(|version| version.3).sum()
        }

        fn keep(&mut self, client: u8, file: u8, is_first: bool, bytes: u64) -> Room {
            let history = HistoryUse {
                limit: self.limit,
                used: self.sum(|_| true),
                firsts: self.sum(|version| version.2),
                own_firsts: self.sum(|version| version.2 && version.0 == client),
                own_bulk_rows: 0,
            };
            let charged = if is_first { bytes } else { 0 };
            let room = room_for(Addition { added: bytes, charged }, &history);
            if let Room::After(excess) = room {
                let mut laters: Vec<(usize, u64)> = (0..self.versions.len())
                    .filter(|at| !self.versions[*at].2)
                    .map(|at| (at, self.versions[at].3))
                    .collect();
                let of_file =
                    |at: usize| self.versions[at].0 == client && self.versions[at].1 == file;
                laters.sort_by_key(|(at, _)| (!of_file(*at), *at));
                let gone = victims(laters.clone(), excess);
                let freed: u64 = gone.iter().map(|at| self.versions[*at].3).sum();
                let last = gone.last().map_or(0, |at| self.versions[*at].3);
                assert!(freed >= excess && freed - last < excess, "no more goes than must");
                let mut at = 0;
                self.versions.retain(|_| {
                    at += 1;
                    !gone.contains(&(at - 1))
                });
            }
            if matches!(room, Room::Free | Room::After(_)) {
                self.versions.push((client, file, is_first, bytes));
            }
            room
        }
    }

    proptest! {
        #[test]
        fn the_limit_holds_firsts_stay_and_who_keeps_little_finds_room(
            limit in 0_u64..2_000,
            steps in prop::collection::vec((0_u8..4, 0_u8..4, any::<bool>(), 0_u64..400), 1..60),
        ) {
            let mut model = Model { limit, ..Model::default() };
            for (client, file, is_first, bytes) in steps {
                let firsts = model.versions.iter().filter(|version| version.2).count();
                let own = model.sum(|version| version.2 && version.0 == client);
                let left = limit.saturating_sub(model.sum(|version| version.2));
                let room = model.keep(client, file, is_first, bytes);
                prop_assert!(model.sum(|_| true) <= limit);
                let now = model.versions.iter().filter(|version| version.2).count();
                let is_kept = matches!(room, Room::Free | Room::After(_));
                prop_assert_eq!(now - firsts, usize::from(is_first && is_kept));
                if own + 2 * bytes <= left {
                    prop_assert!(is_kept, "{:?} for {} of {}", room, bytes, left);
                }
            }
        }
    }

    #[test]
    fn a_version_is_later_only_if_the_client_made_exactly_that_content() {
        use PastChangeKind::{Moved, Replaced};
        use VersionClass::{First, Later};
        let (mine, other) = (ContentHash::digest(b"mine"), ContentHash::digest(b"other"));
        let last = |kind, class| Some(LastChange { kind, after: Some(mine), class });
        assert_eq!(class_of(Some(mine), None), First);
        assert_eq!(class_of(Some(mine), last(Replaced, First)), Later);
        assert_eq!(class_of(Some(other), last(Replaced, First)), First);
        // Content that was moved is the client's only if it was before.
        assert_eq!(class_of(Some(mine), last(Moved, First)), First);
        assert_eq!(class_of(Some(mine), last(Moved, Later)), Later);
        assert_eq!(class_of(None, None), First);
    }

    #[test]
    fn an_undo_keeps_what_fits_and_counts_each_version_once() {
        let version = |number: u8| ContentHash::digest(&[number]);
        let copies = [(1, 40), (2, 70), (1, 40), (3, 60), (4, 0), (5, 1)];
        let copies = copies.map(|(number, bytes)| UndoCopy { version: version(number), bytes });
        assert_eq!(kept_by_undo(100, copies), BTreeSet::from([1, 3, 4].map(version)));
        assert_eq!(kept_by_undo(0, copies), BTreeSet::from([version(4)]));
    }

    #[test]
    fn a_client_that_is_alone_has_half_and_the_next_one_half_of_the_rest() {
        let history = |firsts, own_firsts| HistoryUse {
            limit: 100,
            used: firsts,
            firsts,
            own_firsts,
            own_bulk_rows: 0,
        };
        let first = |bytes| Addition { added: bytes, charged: bytes };
        assert_eq!(room_for(first(50), &history(0, 0)), Room::Free);
        assert_eq!(room_for(first(51), &history(0, 0)), Room::OverShare);
        assert_eq!(room_for(first(1), &history(50, 50)), Room::OverShare);
        assert_eq!(room_for(first(25), &history(50, 0)), Room::Free);
        assert_eq!(room_for(first(101), &history(0, 0)), Room::TooLarge);
        // Rows of the client find room until a fifth is left to others.
        let row = |of, history| room_for_row(1, of, &history);
        assert_eq!(row(RowOf::First, history(50, 50)), Room::Free);
        assert_eq!(row(RowOf::First, history(79, 79)), Room::Free);
        assert_eq!(row(RowOf::First, history(80, 80)), Room::OverShare);
        // Rows of bulk end far below, and leave the share of versions as it is.
        let bulk = |rows| HistoryUse { own_bulk_rows: rows, ..history(rows, rows) };
        assert_eq!(row(RowOf::Bulk, bulk(18)), Room::Free);
        assert_eq!(row(RowOf::Bulk, bulk(20)), Room::OverShare);
        assert_eq!(row(RowOf::First, bulk(20)), Room::Free);
        assert_eq!(room_for(first(30), &bulk(20)), Room::Free);
        let later = Addition { added: 60, charged: 0 };
        assert_eq!(room_for(later, &history(50, 50)), Room::OverShare);
        assert_eq!(room_for(later, &HistoryUse { used: 90, ..history(40, 40) }), Room::After(50));
    }
}
