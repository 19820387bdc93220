//! The revisions of the protocol that the server speaks: the one list.
//!
//! Revisions are dates and sort as text. Those before [`OLDEST`] oblige a server to accept batches.

use rmcp::model::ProtocolVersion;

/// All revisions, oldest first.
pub const ALL: &[ProtocolVersion] =
    &[OLDEST, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];
/// The oldest revision of all.
pub const OLDEST: ProtocolVersion = ProtocolVersion::V_2025_06_18;
/// The newest revision with a handshake and sessions.
pub const NEWEST_WITH_SESSIONS: &str = "2025-11-25";
/// The first revision without sessions, whose plainest calls `direct` answers.
pub const FIRST_SESSIONLESS: &str = "2026-07-28";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_sorted_and_the_one_after_the_last_with_sessions_has_none() {
        let texts: Vec<String> = ALL.iter().map(ToString::to_string).collect();
        assert!(texts.is_sorted());
        let at = texts.iter().position(|text| text == NEWEST_WITH_SESSIONS).unwrap();
        assert_eq!(texts.get(at + 1).map(String::as_str), Some(FIRST_SESSIONLESS));
    }
}
