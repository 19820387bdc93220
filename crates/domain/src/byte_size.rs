//! Numbers of bytes as people read them, and the beginnings of texts that have so many.

/// Returns a number of bytes for a person: `12 KB`.
pub fn size(bytes: u64) -> String {
    if bytes == 1 {
        return "1 byte".to_owned();
    }
    let units = ["bytes", "KB", "MB", "GB", "TB"];
    let (mut count, mut unit) = (bytes, 0);
    while count >= 10_000 && unit + 1 < units.len() {
        count /= 1000;
        unit += 1;
    }
    format!("{count} {}", units.get(unit).copied().unwrap_or_default())
}

/// Returns the longest beginning of a text of at most `bytes` bytes that ends between two
/// characters.
pub fn beginning(text: &str, bytes: usize) -> &str {
    let mut ends = (0..=bytes.min(text.len())).rev();
    let end = ends.find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_ends_between_two_characters() {
        for (bytes, begun) in [(0, ""), (1, "a"), (2, "a"), (3, "aé"), (9, "aéz")] {
            assert_eq!(beginning("aéz", bytes), begun, "{bytes}");
        }
    }

    #[test]
    fn sizes_have_few_digits() {
        for (bytes, said) in
            [(0, "0 bytes"), (9_999, "9999 bytes"), (12_400, "12 KB"), (5_000_000_000, "5000 MB")]
        {
            assert_eq!(size(bytes), said);
        }
    }
}
