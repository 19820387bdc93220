//! Tells a file of JSON by the members with which it begins.
//!
//! A program writes the members of its files in an order of its own, so the first of them show
//! whose file it is, whatever its name.

/// Returns the names at the beginning of a file that are followed by a colon, in their order, and
/// whether the file is an array. `None` if it begins as no JSON. Text in quotes within a value can
/// look like a name, so a caller asks for names that only its format has.
pub(super) fn beginning(bytes: &[u8]) -> Option<JsonBeginning> {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes).trim_ascii_start();
    let is_array = match bytes.first()? {
        b'[' => true,
        b'{' => false,
        _ => return None,
    };
    let mut names = Vec::new();
    let mut rest = bytes;
    while let Some(at) = memchr::memchr(b'"', rest) {
        rest = rest.get(at + 1..).unwrap_or_default();
        let mut end = 0;
        while let Some(byte) = rest.get(end)
            && *byte != b'"'
        {
            end += if *byte == b'\\' { 2 } else { 1 };
        }
        let (Some(text), Some(after)) = (rest.get(..end), rest.get(end + 1..)) else { break };
        rest = after;
        if after.trim_ascii_start().starts_with(b":") {
            names.push(String::from_utf8_lossy(text).into_owned());
        }
    }
    Some(JsonBeginning { is_array, names })
}

/// What the beginning of a JSON file shows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JsonBeginning {
    /// Whether the file is an array, and not an object.
    pub(super) is_array: bool,
    /// The first names of members, at any depth.
    pub(super) names: Vec<String>,
}

impl JsonBeginning {
    /// Returns whether the file is an object with this first member.
    pub(super) fn is_object_with(&self, names: &[&str]) -> bool {
        !self.is_array && self.names.first().is_some_and(|first| names.contains(&first.as_str()))
    }

    /// Returns whether all of these names are among the first.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.names.iter().any(|own| own == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_names_are_found_and_texts_are_none() {
        let found = beginning(b"\xef\xbb\xbf [ {\"a\": \"b\\\": \", \"c\" :[\"d\", {\"e\":1, \"f");
        let names = ["a", "c", "e"].map(str::to_owned).to_vec();
        assert_eq!(found, Some(JsonBeginning { is_array: true, names }));
        for text in [&b""[..], b"x", b"\"a\":1"] {
            assert_eq!(beginning(text), None);
        }
    }
}
