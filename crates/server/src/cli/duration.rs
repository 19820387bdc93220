//! Durations as people type them.

use std::time::Duration;

/// Parses a number and one unit: `45s`, `90m`, `12h` or `30d`. Returns `None` for anything else.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text.get(digits.len()..)? {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return None,
    };
    let number: u64 =
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    number.checked_mul(unit).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_and_one_unit() {
        for (text, seconds) in [
            ("45s", Some(45)),
            ("90m", Some(5400)),
            ("12h", Some(43_200)),
            ("30d", Some(2_592_000)),
            ("0s", Some(0)),
            ("30", None),
            ("d", None),
            ("", None),
            ("+3d", None),
            ("-3d", None),
            ("3 d", None),
            ("3D", None),
            ("1d12h", None),
            ("3d ", None),
            ("1.5h", None),
            ("99999999999999999999d", None),
            ("999999999999999999d", None),
        ] {
            assert_eq!(parse(text), seconds.map(Duration::from_secs), "{text}");
        }
    }
}
