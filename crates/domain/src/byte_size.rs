//! Numbers of bytes as people read them.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_few_digits() {
        for (bytes, said) in
            [(0, "0 bytes"), (9_999, "9999 bytes"), (12_400, "12 KB"), (5_000_000_000, "5000 MB")]
        {
            assert_eq!(size(bytes), said);
        }
    }
}
