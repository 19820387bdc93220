//! Finds lost writes, from the answers that clients got and the last content of a file.
//!
//! Every version is unique, and every change names its parent: the version that it was based on. So
//! the versions of a file that only clients write form one line, from the last version, parent by
//! parent, to the first. [`check_line`] checks that. An editor that saves the same file without a
//! parent leaves gaps in the line. Each version still has an outcome, and [`lost`] returns the
//! versions without one.
//!
//! Versions are any values that can be compared, such as hashes. Instants are numbers from one
//! counter that all clients share, drawn before a request is sent and after its answer arrived.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;

/// A value that identifies a version, such as a hash.
pub trait Version: Copy + Eq + Hash + Debug {}
impl<T: Copy + Eq + Hash + Debug> Version for T {}

/// The answer that a client got to its change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server made the change.
    Acknowledged,
    /// The server wrote nothing.
    Refused,
    /// No answer came, or the answer was to read again.
    Unknown,
}

/// A request to change a version into another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<V> {
    /// The version that the change was based on.
    pub parent: V,
    /// The version that the change makes.
    pub version: V,
    /// What the server answered to the client.
    pub outcome: Outcome,
}

/// One read or one requested change of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity<V> {
    /// The client read a version.
    Read(V),
    /// The client requested a change.
    Requested(Change<V>),
}

/// An activity of a client, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<V> {
    /// The instant before the request was sent.
    pub began: u64,
    /// After the answer arrived; [`u64::MAX`] if none arrived.
    pub ended: u64,
    /// What the client did or saw.
    pub activity: Activity<V>,
}

/// A contradiction in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault<V> {
    /// Two requests would make the same version, a fault of the rig.
    Repeated(V),
    /// Two acknowledged changes were based on one version.
    ParentUsedTwice {
        /// The version that was used twice.
        parent: V,
        /// The versions that the changes made.
        versions: [V; 2],
    },
    /// The file held something that nobody sent, such as a torn version.
    Unsent(V),
    /// An acknowledged version is not on the line to the content of the file.
    Lost(V),
    /// Versions are based on each other in a circle, a fault of the rig.
    Circle(V),
    /// A refused version is on the line.
    RefusedButThere(V),
    /// A client read a version that is not on the line.
    SeenOffTheLine(V),
    /// A client read a version older than one that was known before the read began.
    WentBack {
        /// The version known before.
        known: V,
        /// The older version, read later.
        then: V,
    },
}

/// Returns the line from the first version to the last, both included, or all faults.
///
/// # Errors
/// Each [`Fault`].
pub fn check_line<V: Version>(
    first: V,
    last: V,
    events: &[Event<V>],
) -> Result<Vec<V>, Vec<Fault<V>>> {
    let mut faults = Vec::new();
    let mut made: HashMap<V, Change<V>> = HashMap::new();
    let mut children: HashMap<V, V> = HashMap::new();
    for event in events {
        let Activity::Requested(change) = event.activity else { continue };
        if change.version == first || made.insert(change.version, change).is_some() {
            faults.push(Fault::Repeated(change.version));
        }
        if change.outcome == Outcome::Acknowledged
            && let Some(other) = children.insert(change.parent, change.version)
        {
            faults.push(Fault::ParentUsedTwice {
                parent: change.parent,
                versions: [other, change.version],
            });
        }
    }
    let mut line = vec![last];
    let mut at = last;
    while at != first {
        let Some(change) = made.get(&at) else {
            faults.push(Fault::Unsent(at));
            break;
        };
        if line.len() > made.len() {
            faults.push(Fault::Circle(at));
            break;
        }
        if change.outcome == Outcome::Refused {
            faults.push(Fault::RefusedButThere(at));
        }
        at = change.parent;
        line.push(at);
    }
    line.reverse();
    let places: HashMap<V, usize> =
        line.iter().enumerate().map(|(place, version)| (*version, place)).collect();
    for event in events {
        match event.activity {
            Activity::Requested(Change { version, outcome: Outcome::Acknowledged, .. })
                if !places.contains_key(&version) =>
            {
                faults.push(Fault::Lost(version));
            }
            Activity::Read(version) if !places.contains_key(&version) => {
                faults.push(Fault::SeenOffTheLine(version))
            }
            _ => {}
        }
    }
    faults.extend(in_order(events, &places));
    if faults.is_empty() { Ok(line) } else { Err(faults) }
}

/// Whether every client was shown at least what had been shown, or acknowledged, before it asked.
fn in_order<V: Version>(events: &[Event<V>], places: &HashMap<V, usize>) -> Vec<Fault<V>> {
    let told = |event: &Event<V>| match event.activity {
        Activity::Read(version)
        | Activity::Requested(Change { version, outcome: Outcome::Acknowledged, .. }) => {
            Some((version, *places.get(&version)?))
        }
        Activity::Requested(_) => None,
    };
    let mut by_beginning: Vec<&Event<V>> = events.iter().collect();
    let mut by_end = by_beginning.clone();
    by_beginning.sort_unstable_by_key(|event| event.began);
    by_end.sort_unstable_by_key(|event| event.ended);
    let mut over = by_end.into_iter().peekable();
    let mut newest: Option<(V, usize)> = None;
    let mut faults = Vec::new();
    for event in by_beginning {
        while let Some(earlier) = over.next_if(|earlier| earlier.ended < event.began) {
            if let Some(known) = told(earlier)
                && newest.is_none_or(|newest| newest.1 < known.1)
            {
                newest = Some(known);
            }
        }
        if let (Some((known, least)), Some((then, place))) = (newest, told(event))
            && place < least
        {
            faults.push(Fault::WentBack { known, then });
        }
    }
    faults
}

/// A save by a program that asks nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Save<V> {
    /// The version that the editor saved.
    pub version: V,
    /// What it destroyed itself by saving, as far as it can tell.
    pub overwrote: Option<V>,
}

/// Of a file that clients change and an editor saves, the versions that have no fate: which were
/// neither the base of a change that was made, nor overwritten by the editor itself, nor in place
/// at the end, nor in a conflict copy. Besides, each parent that two acknowledged changes share and
/// each refused version that somebody's change was based on.
pub fn lost<V: Version>(
    changes: &[Change<V>],
    saves: &[Save<V>],
    in_place: V,
    copies: &[V],
) -> Vec<Fault<V>> {
    let mut faults = Vec::new();
    let mut fates: HashSet<V> = copies.iter().copied().chain([in_place]).collect();
    fates.extend(saves.iter().filter_map(|save| save.overwrote));
    let mut children: HashMap<V, V> = HashMap::new();
    for change in changes.iter().filter(|change| change.outcome == Outcome::Acknowledged) {
        fates.insert(change.parent);
        if let Some(other) = children.insert(change.parent, change.version) {
            faults.push(Fault::ParentUsedTwice {
                parent: change.parent,
                versions: [other, change.version],
            });
        }
    }
    // A change of which nobody knows was made if something came of it.
    loop {
        let before = fates.len();
        for change in changes.iter().filter(|change| change.outcome == Outcome::Unknown) {
            if fates.contains(&change.version) {
                fates.insert(change.parent);
            }
        }
        if fates.len() == before {
            break;
        }
    }
    for change in changes {
        match change.outcome {
            Outcome::Acknowledged if !fates.contains(&change.version) => {
                faults.push(Fault::Lost(change.version))
            }
            Outcome::Refused if children.contains_key(&change.version) => {
                faults.push(Fault::RefusedButThere(change.version));
            }
            _ => {}
        }
    }
    faults.extend(
        saves
            .iter()
            .filter(|save| !fates.contains(&save.version))
            .map(|save| Fault::Lost(save.version)),
    );
    faults
}

#[cfg(test)]
mod tests {
    use super::Outcome::{Acknowledged, Refused, Unknown};
    use super::*;

    fn asked(instants: [u64; 2], parent: u32, version: u32, outcome: Outcome) -> Event<u32> {
        let [began, ended] = instants;
        Event { began, ended, activity: Activity::Requested(Change { parent, version, outcome }) }
    }

    fn saw(instants: [u64; 2], version: u32) -> Event<u32> {
        let [began, ended] = instants;
        Event { began, ended, activity: Activity::Read(version) }
    }

    fn faults(last: u32, events: &[Event<u32>]) -> Vec<Fault<u32>> {
        check_line(0, last, events).err().unwrap_or_default()
    }

    #[test]
    fn a_sequence_of_acknowledged_changes_is_accepted() {
        let events = [
            asked([1, 4], 0, 1, Acknowledged),
            asked([2, 3], 0, 9, Refused),
            saw([3, 6], 0),
            saw([5, 6], 1),
            asked([7, 8], 1, 2, Acknowledged),
        ];
        assert_eq!(check_line(0, 2, &events), Ok(vec![0, 1, 2]));
        assert_eq!(check_line(0, 0, &[] as &[Event<u32>]), Ok(vec![0]));
    }

    #[test]
    fn an_unknown_change_may_have_been_made_or_not() {
        let unknown = asked([1, u64::MAX], 0, 1, Unknown);
        assert_eq!(faults(0, &[unknown]), []);
        assert_eq!(faults(1, &[unknown]), []);
        assert_eq!(faults(2, &[unknown, asked([3, 4], 1, 2, Acknowledged)]), []);
    }

    #[test]
    fn two_changes_of_one_version_are_a_lost_update() {
        let events = [asked([1, 4], 0, 1, Acknowledged), asked([2, 3], 0, 2, Acknowledged)];
        assert_eq!(
            faults(2, &events),
            [Fault::ParentUsedTwice { parent: 0, versions: [1, 2] }, Fault::Lost(1)]
        );
    }

    #[test]
    fn an_acknowledged_change_that_is_gone_is_lost() {
        assert_eq!(faults(0, &[asked([1, 2], 0, 1, Acknowledged)]), [Fault::Lost(1)]);
        let events = [asked([1, 2], 0, 1, Unknown), asked([3, 4], 1, 2, Acknowledged)];
        assert_eq!(faults(1, &events), [Fault::Lost(2)]);
    }

    #[test]
    fn content_that_nobody_sent_is_found() {
        assert_eq!(faults(7, &[]), [Fault::Unsent(7)]);
        assert_eq!(faults(2, &[asked([1, 2], 8, 2, Acknowledged)]), [Fault::Unsent(8)]);
    }

    #[test]
    fn a_refusal_that_wrote_is_found() {
        assert_eq!(faults(1, &[asked([1, 2], 0, 1, Refused)]), [Fault::RefusedButThere(1)]);
    }

    #[test]
    fn a_version_that_was_shown_and_then_lost_is_found() {
        assert_eq!(
            faults(0, &[asked([1, 2], 0, 1, Unknown), saw([3, 4], 1)]),
            [Fault::SeenOffTheLine(1)]
        );
    }

    #[test]
    fn an_answer_from_the_past_is_found() {
        let change = asked([1, 2], 0, 1, Acknowledged);
        assert_eq!(faults(1, &[change, saw([3, 4], 0)]), [Fault::WentBack { known: 1, then: 0 }]);
        assert_eq!(
            faults(1, &[saw([1, 2], 1), saw([3, 4], 0), asked([0, 9], 0, 1, Acknowledged)]),
            [Fault::WentBack { known: 1, then: 0 }]
        );
        // Asked before the answer had come, either is right.
        assert_eq!(faults(1, &[change, saw([2, 4], 0)]), []);
    }

    #[test]
    fn circles_and_repetitions_are_faults_of_the_rig() {
        let events = [asked([1, 2], 2, 1, Unknown), asked([3, 4], 1, 2, Unknown)];
        assert_eq!(faults(2, &events), [Fault::Circle(2)]);
        let twice = [asked([1, 2], 0, 1, Unknown), asked([3, 4], 0, 1, Refused)];
        assert!(faults(0, &twice).contains(&Fault::Repeated(1)));
    }

    fn change(parent: u32, version: u32, outcome: Outcome) -> Change<u32> {
        Change { parent, version, outcome }
    }

    fn save(version: u32, overwrote: Option<u32>) -> Save<u32> {
        Save { version, overwrote }
    }

    #[test]
    fn every_save_with_an_outcome_is_kept() {
        let changes =
            [change(0, 1, Acknowledged), change(10, 2, Acknowledged), change(10, 3, Refused)];
        let saves = [save(10, Some(1)), save(11, Some(2)), save(12, Some(11)), save(13, None)];
        assert_eq!(lost(&changes, &saves, 13, &[12]), []);
    }

    #[test]
    fn a_save_without_an_outcome_is_lost() {
        let saves = [save(10, None), save(11, None)];
        assert_eq!(lost(&[], &saves, 11, &[]), [Fault::Lost(10)]);
        assert_eq!(lost(&[change(10, 1, Refused)], &saves, 11, &[]), [Fault::Lost(10)]);
        assert_eq!(lost(&[change(10, 1, Unknown)], &saves, 11, &[]), [Fault::Lost(10)]);
        assert_eq!(lost(&[change(10, 1, Unknown)], &saves, 11, &[1]), []);
    }

    #[test]
    fn a_change_that_the_editor_did_not_overwrite_is_lost_too() {
        assert_eq!(
            lost(&[change(0, 1, Acknowledged)], &[save(10, None)], 10, &[]),
            [Fault::Lost(1)]
        );
        assert_eq!(lost(&[change(0, 1, Acknowledged)], &[save(10, Some(1))], 10, &[]), []);
        let twice = [change(0, 1, Acknowledged), change(0, 2, Acknowledged)];
        assert_eq!(
            lost(&twice, &[save(10, Some(1))], 2, &[10]),
            [Fault::ParentUsedTwice { parent: 0, versions: [1, 2] }]
        );
    }
}
