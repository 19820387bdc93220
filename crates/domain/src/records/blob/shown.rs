//! What an answer for agents shows of references to blobs.
//!
//! An agent reads bytes by a tool, so an address of `/v1` is of no use to it. A digest that the
//! name of the blob has anyway costs the agent 75 bytes a time.

use std::ops::Range;

use super::reference_finder::{ID, URL};

/// The member that repeats the digest of the blob.
const DIGEST: &str = "sha256";
/// How the address of a blob begins, and how the name of one of this server's blobs begins.
const ADDRESS: &str = "/v1/blobs/";
const NAME: &str = "sha256-";

/// Returns JSON, or the beginning of JSON, without the addresses of blobs and without digests that
/// the name of their blob repeats. `None` if the JSON has neither.
///
/// An object without `blob_id` is no reference and stays as it is. The beginning of JSON may end
/// before the `blob_id` of an object, so an address in such an object is left out anyway.
pub fn without_addresses(json: &str) -> Option<String> {
    if !json.contains("\"fetch_url\"") && !json.contains("\"sha256\"") {
        return None;
    }
    let mut gone = superfluous_members(json);
    gone.sort_by_key(|member| member.start);
    let mut shown = String::with_capacity(json.len());
    let mut done = 0;
    for Member { start, value, ends, .. } in &gone {
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
#[derive(Clone)]
struct Member {
    /// Where the name begins, with its quote.
    start: usize,
    name: Range<usize>,
    /// The value without its quotes.
    value: Range<usize>,
    /// Whether the text of the value ends in the JSON.
    ends: bool,
}

/// An array or an object that has begun.
#[derive(Default)]
struct Open {
    /// The name of the present member, between its quotes; `None` before a name.
    name: Option<Range<usize>>,
    /// Whether the colon after the name has been seen. Never in an array.
    is_value: bool,
    /// The members that may say which blob an object names, and where.
    members: Vec<Member>,
}

impl Open {
    /// Returns the members that repeat what the name of the blob says. `is_whole` says whether the
    /// object ends in the JSON.
    fn superfluous(self, json: &str, is_whole: bool) -> Vec<Member> {
        let text = |range: &Range<usize>| json.get(range.clone()).unwrap_or_default();
        let id = self.members.iter().find(|one| one.ends && text(&one.name) == ID);
        let id = id.map(|one| text(&one.value));
        let named = id.and_then(|id| id.strip_prefix(NAME));
        let is_gone = |one: &Member| match (text(&one.name), text(&one.value)) {
            (URL, value) if id.is_some() || !is_whole => {
                // The beginning of JSON may end within an address.
                value.starts_with(ADDRESS) || (!one.ends && ADDRESS.starts_with(value))
            }
            (DIGEST, value) => named == Some(value),
            _ => false,
        };
        self.members.into_iter().filter(is_gone).collect()
    }
}

/// Returns the members of all objects that an answer leaves out.
fn superfluous_members(json: &str) -> Vec<Member> {
    let bytes = json.as_bytes();
    let (mut gone, mut open, mut at) = (Vec::new(), Vec::<Open>::new(), 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let (end, ends) = end_of_text(bytes, at + 1);
                let text = at + 1..end;
                match open.last_mut() {
                    Some(Open { name: Some(name), is_value: true, members })
                        if [ID, URL, DIGEST]
                            .contains(&json.get(name.clone()).unwrap_or_default()) =>
                    {
                        let start = name.start - 1;
                        members.push(Member { start, name: name.clone(), value: text, ends });
                    }
                    Some(one) if !one.is_value => one.name = Some(text),
                    _ => {}
                }
                at = end;
            }
            b'{' | b'[' => open.push(Open::default()),
            b':' => open.iter_mut().next_back().into_iter().for_each(|one| one.is_value = true),
            b',' => open.iter_mut().next_back().into_iter().for_each(|one| one.is_value = false),
            b'}' | b']' => {
                gone.extend(open.pop().into_iter().flat_map(|one| one.superfluous(json, true)));
            }
            _ => {}
        }
        at += 1;
    }
    gone.extend(open.into_iter().flat_map(|one| one.superfluous(json, false)));
    gone
}

/// Returns where the text that begins at `at` ends, and whether it ends: its closing quote, or the
/// end of the JSON.
fn end_of_text(bytes: &[u8], mut at: usize) -> (usize, bool) {
    loop {
        match bytes.get(at) {
            Some(b'"') => return (at, true),
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return (bytes.len(), false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value as Json;

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

    fn any_json() -> impl Strategy<Value = Json> {
        let name = prop_oneof![
            Just(ID.to_owned()),
            Just(URL.to_owned()),
            Just(DIGEST.to_owned()),
            "[a\"\\\\]{0,2}"
        ];
        let text = prop_oneof![
            Just("sha256-00".to_owned()),
            Just("00".to_owned()),
            "/v1/blobs/[a\"\\\\,}]{0,2}",
            "[\"\\\\,:{}]{0,3}",
        ];
        let leaf = prop_oneof![Just(Json::Null), text.prop_map(Json::from)];
        leaf.prop_recursive(3, 20, 4, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                proptest::collection::hash_map(name.clone(), inner, 0..4)
                    .prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    /// Removes what a reference repeats from a tree.
    fn pruned(value: &mut Json) {
        match value {
            Json::Array(items) => items.iter_mut().for_each(pruned),
            Json::Object(members) => {
                if let Some(id) = members.get(ID).and_then(Json::as_str).map(str::to_owned) {
                    let is = |name: &str, test: &dyn Fn(&str) -> bool| {
                        members.get(name).and_then(Json::as_str).is_some_and(test)
                    };
                    let has_address = is(URL, &|url| url.starts_with(ADDRESS));
                    let has_digest = is(DIGEST, &|hex| id.strip_prefix(NAME) == Some(hex));
                    members.retain(|name, _| {
                        !(has_address && name == URL || has_digest && name == DIGEST)
                    });
                }
                members.values_mut().for_each(pruned);
            }
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn json_stays_json_and_loses_what_references_repeat_alone(
            value in any_json(),
            pretty in any::<bool>(),
        ) {
            let json = if pretty { format!("{value:#}") } else { value.to_string() };
            let shown = without_addresses(&json).unwrap_or(json);
            let mut expected = value;
            pruned(&mut expected);
            prop_assert_eq!(serde_json::from_str::<Json>(&shown).unwrap(), expected);
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
            "{\"fetch_url\":\"/v1/blobs/b\"}".to_owned(),
            "{\"x\\\"fetch_url\":\"/v1/blobs/b\",\"blob_id\":\"b\"}".to_owned(),
            format!("[{{\"blob_id\":\"{}\"}},{{\"sha256\":\"{digest}\"}}]", id(1)),
        ] {
            assert_eq!(without_addresses(&same), None, "{same}");
        }
    }
}
