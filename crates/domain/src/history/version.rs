//! How people name an old version of a file: `PATH@VERSION`.

use std::fmt;

use super::past_change::ChangeNumber;

/// The fewest digits of a hash that name a version.
const LEAST_HASH_DIGITS: usize = 8;

/// An old version of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OldVersion {
    /// The file as it was just before this change.
    Before(ChangeNumber),
    /// The version whose hash begins with these digits.
    Hash(String),
}

impl OldVersion {
    /// Parses the number of a change, or the first eight or more digits of a hash.
    ///
    /// Eight or more decimal digits are a hash, since no history has as many changes.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hash = (LEAST_HASH_DIGITS..=64).contains(&text.len())
            && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_hash {
            return Some(Self::Hash(text.to_owned()));
        }
        let is_number = text.len() < LEAST_HASH_DIGITS
            && !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().ok().map(ChangeNumber).map(Self::Before)).flatten()
    }

    /// Splits `PATH@VERSION` into the path and the version. The version is `None` where the text
    /// does not end in one, so a path may have an `@` of its own.
    pub fn split(text: &str) -> (&str, Option<Self>) {
        let split = text.rsplit_once('@');
        match split.and_then(|(path, version)| Some((path, Self::parse(version)?))) {
            Some((path, version)) if !path.is_empty() => (path, Some(version)),
            _ => (text, None),
        }
    }
}

impl fmt::Display for OldVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(number) => number.fmt(f),
            Self::Hash(digits) => f.write_str(digits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_number_or_the_beginning_of_a_hash() {
        let hash = |digits: &str| Some(OldVersion::Hash(digits.to_owned()));
        assert_eq!(OldVersion::parse("42"), Some(OldVersion::Before(ChangeNumber(42))));
        assert_eq!(OldVersion::parse("12345678"), hash("12345678"));
        assert_eq!(OldVersion::parse("0a1b2c3d4e"), hash("0a1b2c3d4e"));
        let too_long = "a".repeat(65);
        for wrong in ["", "a1b2", "-1", "+1", "1 ", "0A1B2C3D4E", "example.org", &too_long] {
            assert_eq!(OldVersion::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_a_version_at_the_end_is_split_off() {
        let before = |number| Some(OldVersion::Before(ChangeNumber(number)));
        assert_eq!(OldVersion::split("/a.md@7"), ("/a.md", before(7)));
        assert_eq!(OldVersion::split("/a@b.md@7"), ("/a@b.md", before(7)));
        for whole in ["/a.md", "/ann@example.org", "/a@", "@7", "/a@7/b"] {
            assert_eq!(OldVersion::split(whole), (whole, None));
        }
        assert_eq!(before(7).unwrap().to_string(), "7");
    }
}
