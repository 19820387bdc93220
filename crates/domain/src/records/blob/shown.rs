//! What an answer for agents shows of references to blobs.
//!
//! An agent reads bytes by a tool, so an address of `/v1` is of no use to it. A digest that the
//! name of the blob has anyway costs the agent 75 bytes a time.

use std::collections::HashSet;
use std::ops::Range;

use super::reference_finder::{ID, URL};

/// The member that repeats the digest of the blob.
const DIGEST: &str = "sha256";
/// How the address of a blob begins, and how the name of one of this server's blobs begins.
const ADDRESS: &str = "/v1/blobs/";
const NAME: &str = "sha256-";

/// Returns JSON, or the beginning of JSON, without the addresses of blobs and without digests that
/// the name of a blob repeats. `None` if the JSON has neither.
///
/// Quotes within strings are escaped, so a member is found by its text.
pub fn without_addresses(json: &str) -> Option<String> {
    let named: HashSet<&str> =
        members(json, ID).filter_map(|member| json.get(member.value)?.strip_prefix(NAME)).collect();
    let is_gone = |name: &str, value: &str, ends: bool| match name {
        // The beginning of JSON may end within an address.
        URL => value.starts_with(ADDRESS) || (!ends && ADDRESS.starts_with(value)),
        _ => named.contains(value),
    };
    let mut gone: Vec<Member> = [URL, DIGEST]
        .into_iter()
        .flat_map(|name| members(json, name).map(move |member| (name, member)))
        .filter(|(name, Member { value, ends, .. })| {
            json.get(value.clone()).is_some_and(|value| is_gone(name, value, *ends))
        })
        .map(|(_, member)| member)
        .collect();
    gone.sort_by_key(|member| member.start);
    let mut shown = String::with_capacity(json.len());
    let mut done = 0;
    for Member { start, value, ends } in &gone {
        shown.push_str(json.get(done..*start)?);
        done = value.end + usize::from(*ends);
        // One of the commas beside the member goes with it.
        let before = shown.trim_end();
        if before.ends_with(',') {
            shown.truncate(before.len() - 1);
        } else {
            let after = json.get(done..)?;
            let rest = after.trim_start();
            done += rest.strip_prefix(',').map_or(0, |rest| after.len() - rest.len());
        }
    }
    shown.push_str(json.get(done..)?);
    (!gone.is_empty()).then_some(shown)
}

/// A member of an object whose value is a text.
struct Member {
    /// Where the name begins, with its quote.
    start: usize,
    /// The value without its quotes.
    value: Range<usize>,
    /// Whether the text of the value ends in the JSON.
    ends: bool,
}

/// Returns the members with a name whose values are texts.
fn members<'j>(json: &'j str, name: &str) -> impl Iterator<Item = Member> + use<'j> {
    let quoted = format!("\"{name}\"");
    let starts: Vec<usize> = json.match_indices(&quoted).map(|(start, _)| start).collect();
    starts.into_iter().filter_map(move |start| {
        let rest = json.get(start + quoted.len()..)?;
        let text = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
        let from = json.len() - text.len();
        let length = text.find('"');
        let value = from..from + length.unwrap_or(text.len());
        Some(Member { start, value, ends: length.is_some() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::blob::{BlobId, blob_references};

    fn id(digit: u8) -> BlobId {
        BlobId::from_digest([digit; 32])
    }

    /// A reference as an import stores it.
    fn stored(digit: u8) -> String {
        let id = id(digit);
        let digest = id.to_string().replace("sha256-", "");
        format!(
            "{{\"blob_id\":\"{id}\",\"mime_type\":\"image/png\",\"size_bytes\":8,\
             \"sha256\":\"{digest}\",\"filename\":\"{digit}.png\",\"fetch_url\":\"{}\"}}",
            id.url()
        )
    }

    fn shown(digit: u8) -> String {
        let id = id(digit);
        format!(
            "{{\"blob_id\":\"{id}\",\"mime_type\":\"image/png\",\"size_bytes\":8,\
             \"filename\":\"{digit}.png\"}}"
        )
    }

    #[test]
    fn a_reference_is_shown_without_its_address_and_its_second_digest() {
        let json = format!("[{},{{\"a\":[{}]}}]", stored(1), stored(2));
        let without = without_addresses(&json).unwrap();
        assert_eq!(without, format!("[{},{{\"a\":[{}]}}]", shown(1), shown(2)));
        assert_eq!(without_addresses(&without), None);
        let places = |json: &str| -> Vec<_> {
            blob_references(json).into_iter().map(|found| (found.pointer, found.id)).collect()
        };
        assert_eq!(places(&without), places(&json));
        let spaced = "{ \"fetch_url\" : \"/v1/blobs/b1\" , \"n\": 1.50e400, \"blob_id\": \"b1\",\n\
                      \"sha256\": \"00\" }";
        let expected = "{  \"n\": 1.50e400, \"blob_id\": \"b1\",\n\"sha256\": \"00\" }";
        assert_eq!(without_addresses(spaced).unwrap(), expected);
        let reversed = format!(
            "{{\"fetch_url\":\"{}\",\"sha256\":\"{}\",\"blob_id\":\"{}\"}}",
            id(1).url(),
            id(1).to_string().replace("sha256-", ""),
            id(1)
        );
        let expected = format!("{{\"blob_id\":\"{}\"}}", id(1));
        assert_eq!(without_addresses(&reversed).unwrap(), expected);
    }

    #[test]
    fn no_beginning_of_a_value_shows_an_address() {
        let json = format!("[{},{}]", stored(1), stored(2));
        let whole = without_addresses(&json).unwrap();
        for end in 0..=json.len() {
            let beginning = &json[..end];
            let shown = without_addresses(beginning).unwrap_or_else(|| beginning.to_owned());
            assert!(!shown.contains("/v1") && shown.matches("sha256\":\"").count() <= 1, "{shown}");
            // What is cut within a member that would be left out is no part of the whole.
            let cut = shown.rfind(",\"").map_or(shown.as_str(), |comma| &shown[..comma]);
            assert!(whole.starts_with(cut), "{shown}");
        }
    }

    #[test]
    fn other_members_and_texts_stay() {
        let digest = id(1).to_string().replace("sha256-", "");
        for same in [
            String::new(),
            "{}".to_owned(),
            format!("{{\"sha256\":\"{digest}\"}}"),
            format!("{{\"blob_id\":\"{}\",\"sha256\":\"{digest}\"}}", id(2)),
            "{\"blob_id\":\"b\",\"fetch_url\":\"https://a.example/v1/blobs/b\"}".to_owned(),
            "[\"fetch_url\",\"/v1/blobs/b\",{\"fetch_url\":7}]".to_owned(),
            "{\"x\":\"say \\\"fetch_url\\\":\\\"/v1/blobs/b\\\"\"}".to_owned(),
        ] {
            assert_eq!(without_addresses(&same), None, "{same}");
        }
    }
}
