//! The names that Windows gives another meaning, or keeps for itself. No path of a space has one
//! where the program runs on Windows.
//!
//! A colon begins another stream of a file, which no listing shows. Windows drops a dot or a space
//! at the end of a name in most programs, so that two names mean one file. And a name such as `NUL`
//! is a device in every folder, with any ending.
//!
//! *Source*: Microsoft, Naming Files, Paths, and Namespaces.

/// Returns whether Windows reads a component of a path as something else than a name.
pub fn is_special(name: &str) -> bool {
    name.contains(['<', '>', ':', '"', '|', '?', '*'])
        || name.ends_with(['.', ' '])
        || is_device(name)
}

/// Returns whether a name, without its ending, is that of a device.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end_matches(' ');
    let is = |device: &str| stem.eq_ignore_ascii_case(device);
    let is_port = |kind: &str| {
        let (begin, number) = match stem.char_indices().nth(3) {
            Some((at, _)) => stem.split_at(at),
            None => return false,
        };
        let mut digits = number.chars();
        begin.eq_ignore_ascii_case(kind)
            && digits.next().is_some_and(|it| it.is_ascii_digit() || "¹²³".contains(it))
            && digits.next().is_none()
    };
    ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"].into_iter().any(is)
        || ["COM", "LPT"].into_iter().any(is_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_windows_reads_as_something_else_is_special() {
        for name in [
            "a.md:stream", "a.md::$DATA", "C:", "what?", "a*", "a|b", "<a>", "\"a\"", "a.", "a ",
            "...", "NUL", "nul", "Nul.txt", "nul .txt", "con", "AUX.md", "prn.tar.gz", "COM1",
            "com0.md", "LPT9", "lpt¹.md", "CONIN$", "conout$.x",
        ] {
            assert!(is_special(name), "{name}");
        }
        for name in [
            "a.md",
            ".env",
            "a b.md",
            "console.md",
            "COM",
            "COM10",
            "com-1.md",
            "LPTX",
            "nulls.md",
            "null",
            "auxiliary",
            "plan (conflict 2026-11-21 22-31-05).md",
            "a~1.md",
            "日本.md",
            "ab¹",
            "é",
            ".",
        ] {
            assert_eq!(is_special(name), name == ".", "{name}");
        }
    }
}
