//! Words of the sentences about calls: why one was refused, which records one showed, and lists.

use crate::unseen::shown;

/// Returns the reason behind a code, as the end of a sentence: `it may not`. `None` for a code that
/// has no words here.
pub(super) fn refusal_words(code: &str) -> Option<&'static str> {
    Some(match code {
        "insufficient_scope" | "not_granted" => "it may not",
        "guarded" => "keys, passwords and files that programs run are shut for it",
        "not_found" | "field_not_found" | "query_not_found" | "blob_not_found" => {
            "there was nothing there"
        }
        "already_exists" => "something was there already",
        "stale" => "it had changed since the client read it",
        "no_match" => "the text that it named was not there",
        "ambiguous_match" | "ambiguous_connection" | "ambiguous_schema_detail" => {
            "what it named was there more than once"
        }
        "not_text" | "field_not_text" => "it is not text",
        "field_not_binary" => "it is text",
        "bad_encoding" => "its text cannot be read without doubt",
        "not_a_file" | "not_a_directory" => "something else is at that place",
        "symlink_refused" | "mount_refused" => {
            "a link or another disk is at that place, which Stile does not follow"
        }
        "hard_linked" => "the file has another name elsewhere, which would change, too",
        "not_permitted" => "the system does not allow it",
        "folder_not_empty" => "the folder was not empty",
        "root_moved" => "the folder of your files had moved",
        "cancelled" => "the client gave it up",
        "busy" | "share_used_up" => "the server had too much to do",
        "too_large" | "blob_too_large" | "answer_too_large" | "too_many_groups" => {
            "it is too large"
        }
        "search_too_broad" | "query_too_broad" => "it would have taken too long",
        "no_space" | "storage_full" => "the disk is full",
        "not_kept" => "the history had no room for the old version",
        "no_version" => "there was no such version",
        "unknown_outcome" => "whether it happened is not known",
        "unsafe_front_matter" => "its properties cannot be changed safely",
        "internal" | "api_error" | "storage_corrupt" => "the server failed",
        "grant_stream_not_allowed" | "field_not_granted" => "its grant does not show that",
        "grant_expired" | "grant_revoked" | "grant_consumed" | "grant_invalid" => {
            "its grant has ended"
        }
        "cursor_expired" => "it waited for too long",
        "no_room" => "there was no room",
        code if code.starts_with("invalid_") || code.starts_with("unknown_") => {
            "what it asked for cannot be understood"
        }
        _ => return None,
    })
}

/// Returns such as `3 messages of mail`. The name of a stream is mostly a noun for many; of one
/// record it is said as `1 record of messages of mail`.
pub(super) fn shown_of_stream(records: u64, stream: &str, connection: &str) -> String {
    let (stream, connection) = (shown(stream), shown(connection));
    match records {
        1 => format!("1 record of {stream} of {connection}"),
        records => format!("{records} {stream} of {connection}"),
    }
}

/// Joins parts as a sentence does: `a, b and c`.
pub fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_none_of_the_codes() {
        for code in ["not_found", "guarded", "insufficient_scope", "invalid_range", "internal"] {
            let words = refusal_words(code).unwrap();
            assert!(!words.contains('_') && words != code, "{code}: {words}");
        }
        assert_eq!(refusal_words("made_up"), None);
    }
}
