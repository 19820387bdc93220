//! Bytes in base64 that stand in texts: where they begin, so that a text is shown as far as they do not.

/// From so many characters of the alphabet of base64 on, without a break, a text is taken for bytes.
const BASE64_RUN: usize = 256;
/// The different characters that such a text has at least.
const BASE64_KINDS: usize = 4;

/// A text as far as no bytes stand in it.
pub(super) fn before_bytes(text: &str) -> &str {
    bytes_at(text).and_then(|at| text.get(..at)).unwrap_or(text)
}

/// Where bytes in base64 begin: a long run of its alphabet, or lines of one length that are nothing else, as mail wraps
/// them.
pub(super) fn bytes_at(text: &str) -> Option<usize> {
    if text.len() < BASE64_RUN {
        return None;
    }
    let bytes = text.as_bytes();
    let mut start = 0;
    // A run that is long enough and begins here has its last byte there; most texts have a space before it.
    while let Some(run) = bytes.get(start..start + BASE64_RUN) {
        start = match run.iter().rposition(|byte| !is_of_base64(*byte)) {
            Some(space) => start + space + 1,
            None => {
                let rest = bytes.get(start..).unwrap_or_default();
                let end = rest.iter().position(|byte| !is_of_base64(*byte)).unwrap_or(rest.len());
                if kinds(rest.get(..end).unwrap_or_default()) >= BASE64_KINDS {
                    return Some(start);
                }
                start + end
            }
        };
    }
    wrapped_at(text)
}

/// Where lines begin that are wrapped base64: of one length, at least so many characters, and a long run together.
fn wrapped_at(text: &str) -> Option<usize> {
    /// The shortest line that is taken for one; usual are 64 and 76.
    const LINE: usize = 60;
    /// The different characters that such a line has at least.
    const KINDS: usize = 16;
    let (mut start, mut at, mut width, mut count) = (0, 0, 0, 0);
    for line in text.split_inclusive('\n') {
        let own = line.trim_end_matches(['\n', '\r']);
        let is_wrapped = own.len() >= LINE && own.bytes().all(is_of_base64) && kinds(own.as_bytes()) >= KINDS;
        if !is_wrapped || own.len() != width {
            (start, width, count) = (at, own.len(), 0);
        }
        count += if is_wrapped { own.len() } else { 0 };
        if count >= BASE64_RUN {
            return Some(start);
        }
        at += line.len();
    }
    None
}

fn is_of_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=')
}

fn kinds(run: &[u8]) -> usize {
    let mut seen = [false; 128];
    run.iter().for_each(|byte| {
        if let Some(seen) = seen.get_mut(usize::from(*byte)) {
            *seen = true;
        }
    });
    seen.into_iter().filter(|seen| *seen).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_however_they_are_wrapped() {
        let line = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAxMjM0";
        let wrapped = format!("see below\n{}\nend", [line; 5].join("\r\n"));
        assert_eq!(before_bytes(&wrapped), "see below\n");
        assert_eq!(before_bytes(&format!("see {} end", line.repeat(4))), "see ");
        for text in ["a\n".repeat(400), "one two three four five six seven\n".repeat(40), format!("{line}\n{line}")] {
            assert_eq!(before_bytes(&text), text);
        }
    }
}
