//! How many sessions of MCP clients there may be at once.
//!
//! The bound is one of a user. Within it, whoever has most sessions gives way, so that a client
//! that opens many takes none from one that has few.

use std::collections::BTreeMap;

/// A session as the bounds count it.
#[derive(Clone, Debug)]
pub struct Counted<Owner, Time> {
    /// The identifier of the session.
    pub id: String,
    /// Whose the session is.
    pub owner: Owner,
    /// When the session was used last.
    pub used: Time,
}

/// Returns which of the sessions of a user have to end, where the user may have `most` and at least
/// one: always the one used least recently of the owner that has most, and of two owners that have
/// as many, the one used least recently. The session with the identifier `newest` stays.
pub fn surplus<Owner: Ord, Time: Ord>(
    sessions: Vec<Counted<Owner, Time>>,
    newest: &str,
    most: usize,
) -> Vec<String> {
    let excess = most.max(1)..sessions.len();
    let mut owners: BTreeMap<Owner, Vec<(bool, Time, String)>> = BTreeMap::new();
    for Counted { id, owner, used } in sessions {
        owners.entry(owner).or_default().push((id != newest, used, id));
    }
    // The one that gives way first stands last.
    for own in owners.values_mut() {
        own.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
    }
    let mut ended = Vec::new();
    for _ in excess {
        let last = |own: &&mut Vec<(bool, Time, String)>| own.last().is_some_and(|last| last.0);
        let having_most = owners.values_mut().filter(last).max_by(|a, b| {
            let [a_used, b_used] = [a, b].map(|own| own.last().map(|(_, used, _)| used));
            a.len().cmp(&b.len()).then_with(|| b_used.cmp(&a_used))
        });
        ended.extend(having_most.and_then(Vec::pop).map(|(.., id)| id));
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(sessions: &[(&str, char, u32)]) -> Vec<Counted<char, u32>> {
        let counted = |(id, owner, used): &(&str, char, u32)| Counted {
            id: (*id).to_owned(),
            owner: *owner,
            used: *used,
        };
        sessions.iter().map(counted).collect()
    }

    #[test]
    fn of_too_many_sessions_the_least_recently_used_of_whoever_has_most_end() {
        let sessions = counted(&[
            ("a1", 'a', 5),
            ("a2", 'a', 3),
            ("a3", 'a', 9),
            ("b1", 'b', 1),
            ("a4", 'a', 2),
        ]);
        assert_eq!(surplus(sessions.clone(), "a3", 5), [""; 0]);
        assert_eq!(surplus(sessions.clone(), "a3", 3), ["a4", "a2"], "the other owner has one");
        assert_eq!(surplus(sessions.clone(), "a4", 3), ["a2", "a1"], "the newest has an old time");
        assert_eq!(surplus(sessions.clone(), "a3", 2), ["a4", "a2", "a1"]);
        assert_eq!(surplus(sessions, "a3", 0), ["a4", "a2", "a1", "b1"], "one is always allowed");
    }

    #[test]
    fn of_owners_that_have_as_many_the_one_whose_session_is_idlest_gives_way() {
        let mut sessions = counted(&[("a1", 'a', 7), ("a2", 'a', 8), ("b1", 'b', 5)]);
        for (at, owner) in ('c'..='g').enumerate() {
            sessions.push(Counted { id: owner.to_string(), owner, used: at as u32 });
        }
        assert_eq!(sessions.len(), 8);
        assert_eq!(surplus(sessions.clone(), "g", 8), [""; 0]);
        sessions.extend(counted(&[("new", 'h', 9)]));
        assert_eq!(surplus(sessions.clone(), "new", 8), ["a1"]);
        sessions.extend(counted(&[("new2", 'i', 9)]));
        assert_eq!(surplus(sessions, "new2", 8), ["a1", "c"]);
    }
}
