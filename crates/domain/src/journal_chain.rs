//! The chain that binds the lines of one journal file, so that a later change of the file shows.
//!
//! *Shape*: the writer takes the JSON object of a line and appends two members:
//! `{…,"n":17,"chain":"…"}`. `n` numbers the lines of the file from 1. `chain` is the SHA-256, in
//! hexadecimal digits, of the chain value of the line before (32 bytes) and of the line itself up
//! to and including its number. The value before the first line is derived from the file's name,
//! so a file under another name does not verify.
//!
//! A line that the owner removes leaves `{"removed":true   ,"n":17,"chain":"…"}`: its number and
//! its chain value, from which the chain goes on, and spaces for the rest. That a removed line was
//! removed by the owner, only their number can say, which is kept elsewhere.

use crate::hash::ContentHash;

/// What the value before the first line is derived from, besides the name of the file.
const START: &[u8] = b"stile journal 1\n";
const NUMBER: &[u8] = b",\"n\":";
const CHAIN: &[u8] = b",\"chain\":\"";
const END: &[u8] = b"\"}";
const HASH_DIGITS: usize = 64;
/// A removed line up to its number.
const REMOVED: &[u8] = b"{\"removed\":true";

/// The state of a chain after some lines of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalChain {
    lines: u64,
    head: ContentHash,
}

/// Why a line does not continue a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokenLink {
    /// The line has no chain value, so this program did not write it.
    #[error("has no chain value")]
    Unchained,
    /// The line has a higher number than the next one.
    #[error("has the number {found}, so lines before it are missing")]
    Missing {
        /// The number that the line has.
        found: u64,
    },
    /// The line has a lower number than the next one.
    #[error("has the number {found}, so it was repeated or moved")]
    Moved {
        /// The number that the line has.
        found: u64,
    },
    /// The number is the next one, but the chain value is not that of this line after the line
    /// before.
    #[error("was altered, or a line before it was replaced")]
    Altered,
}

impl JournalChain {
    /// Begins the chain of a file that has no line yet.
    pub fn of_file(name: &str) -> Self {
        Self { lines: 0, head: ContentHash::digest(&[START, name.as_bytes()].concat()) }
    }

    /// Returns the chain after a line as the line itself states it. Checks nothing. `None` for a
    /// line without a chain value.
    pub fn stated_by(line: &[u8]) -> Option<Self> {
        split(line).map(|(_, lines, head)| Self { lines, head })
    }

    /// Returns the number of lines so far.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns the chain value of the last line.
    pub fn head(&self) -> ContentHash {
        self.head
    }

    /// Appends a line: a JSON object with at least one member, without a newline. Returns the chain
    /// after the line, and the line with its number and its chain value.
    pub fn append(self, object: &[u8]) -> (Self, Vec<u8>) {
        let lines = self.lines + 1;
        let open = object.strip_suffix(b"}").unwrap_or(object);
        let mut line = [open, NUMBER, lines.to_string().as_bytes()].concat();
        let next = Self { lines, head: self.after(&line) };
        line.extend_from_slice(CHAIN);
        line.extend_from_slice(next.head.to_string().as_bytes());
        line.extend_from_slice(END);
        (next, line)
    }

    /// Checks that a line, without its newline, continues the chain. Returns the chain after it.
    ///
    /// # Errors
    /// [`BrokenLink`].
    pub fn check(self, line: &[u8]) -> Result<Self, BrokenLink> {
        let (linked, number, head) = split(line).ok_or(BrokenLink::Unchained)?;
        let lines = self.lines + 1;
        match number.cmp(&lines) {
            std::cmp::Ordering::Greater => return Err(BrokenLink::Missing { found: number }),
            std::cmp::Ordering::Less => return Err(BrokenLink::Moved { found: number }),
            std::cmp::Ordering::Equal => {}
        }
        if is_removed(linked) {
            // The line after it verifies its chain value.
            return Ok(Self { lines, head });
        }
        let next = Self { lines, head: self.after(linked) };
        if next.head == head { Ok(next) } else { Err(BrokenLink::Altered) }
    }

    /// Returns what is left of a line that the owner removes: its number and its chain value, with
    /// spaces that keep the line as long as it was. `None` for a line without a chain value, and
    /// for one that is too short to be written by [`JournalChain::append`].
    pub fn remove(line: &[u8]) -> Option<Vec<u8>> {
        let (_, number, head) = split(line)?;
        let (number, head) = (number.to_string(), head.to_string());
        let end = [NUMBER, number.as_bytes(), CHAIN, head.as_bytes(), END].concat();
        let spaces = line.len().checked_sub(REMOVED.len() + end.len())?;
        Some([REMOVED, &b" ".repeat(spaces), &end].concat())
    }

    /// Returns whether a line is what is left of a removed one.
    pub fn is_removed(line: &[u8]) -> bool {
        split(line).is_some_and(|(linked, ..)| is_removed(linked))
    }

    fn after(&self, linked: &[u8]) -> ContentHash {
        ContentHash::digest(&[&self.head.as_bytes()[..], linked].concat())
    }
}

/// Returns whether the part of a line that the chain value covers is that of a removed line.
fn is_removed(linked: &[u8]) -> bool {
    linked.strip_prefix(REMOVED).is_some_and(|rest| {
        let rest = rest.trim_ascii_start();
        rest.strip_prefix(NUMBER).is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
    })
}

/// Splits a line into the part that the chain value covers, its number and its chain value.
fn split(line: &[u8]) -> Option<(&[u8], u64, ContentHash)> {
    let line = line.strip_suffix(END)?;
    let (rest, hash) = line.split_at_checked(line.len().checked_sub(HASH_DIGITS)?)?;
    let hash = ContentHash::parse(std::str::from_utf8(hash).ok()?).ok()?;
    let linked = rest.strip_suffix(CHAIN)?;
    // JSON escapes quotation marks, so no text of a member contains these bytes.
    let at = memchr::memmem::rfind(linked, NUMBER)? + NUMBER.len();
    let digits = std::str::from_utf8(linked.get(at..)?).ok()?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((linked, digits.parse().ok().filter(|_| is_number)?, hash))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chained(name: &str, objects: &[String]) -> Vec<Vec<u8>> {
        let mut chain = JournalChain::of_file(name);
        let append = |object: &String| {
            let (next, line) = chain.append(object.as_bytes());
            chain = next;
            line
        };
        objects.iter().map(append).collect()
    }

    /// Returns the number of lines that verify, and why the next one does not.
    fn verify(name: &str, lines: &[Vec<u8>]) -> (u64, Option<BrokenLink>) {
        let mut chain = JournalChain::of_file(name);
        for line in lines {
            match chain.check(line) {
                Ok(next) => chain = next,
                Err(broken) => return (chain.lines(), Some(broken)),
            }
        }
        (chain.lines(), None)
    }

    fn objects(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("{{\"tool\":\"t{n}\",\"path\":\"/a,\\\"n\\\":9\"}}")).collect()
    }

    #[test]
    fn a_line_is_the_object_with_its_number_and_its_chain_value() {
        let lines = chained("f", &["{\"a\":1}".to_owned()]);
        let start = ContentHash::digest(b"stile journal 1\nf");
        let linked = b"{\"a\":1,\"n\":1";
        let head = ContentHash::digest(&[&start.as_bytes()[..], linked].concat());
        let expected = format!("{{\"a\":1,\"n\":1,\"chain\":\"{head}\"}}");
        assert_eq!(String::from_utf8(lines[0].clone()).unwrap(), expected);
    }

    #[test]
    fn what_happened_to_a_file_is_told_at_the_first_line_that_does_not_fit() {
        let whole = chained("f", &objects(6));
        assert_eq!(verify("f", &whole), (6, None));
        assert_eq!(verify("g", &whole), (0, Some(BrokenLink::Altered)), "another name");
        let mut missing = whole.clone();
        missing.remove(2);
        assert_eq!(verify("f", &missing), (2, Some(BrokenLink::Missing { found: 4 })));
        let mut swapped = whole.clone();
        swapped.swap(1, 2);
        assert_eq!(verify("f", &swapped), (1, Some(BrokenLink::Missing { found: 3 })));
        let mut repeated = whole.clone();
        repeated.insert(3, whole[2].clone());
        assert_eq!(verify("f", &repeated), (3, Some(BrokenLink::Moved { found: 3 })));
        let mut unchained = whole.clone();
        unchained[4] = b"{\"tool\":\"t\"}".to_vec();
        assert_eq!(verify("f", &unchained), (4, Some(BrokenLink::Unchained)));
        // A line that was made anew fits where it is, and the line after it does not.
        let mut forged = whole.clone();
        let chain = forged[..3]
            .iter()
            .fold(JournalChain::of_file("f"), |chain, line| chain.check(line).unwrap());
        forged[3] = chain.append(b"{\"tool\":\"forged\"}").1;
        assert_eq!(verify("f", &forged), (4, Some(BrokenLink::Altered)));
    }

    #[test]
    fn a_removed_line_leaves_its_number_and_the_chain_goes_on() {
        let mut lines = chained("f", &objects(4));
        let left = JournalChain::remove(&lines[1]).unwrap();
        assert!(!String::from_utf8(left.clone()).unwrap().contains("tool"));
        assert_eq!(left.len(), lines[1].len());
        lines[1] = left;
        assert_eq!(verify("f", &lines), (4, None));
        let removed: Vec<bool> = lines.iter().map(|line| JournalChain::is_removed(line)).collect();
        assert_eq!(removed, [false, true, false, false]);
        assert_eq!(
            JournalChain::remove(&lines[1]),
            Some(lines[1].clone()),
            "removing is idempotent"
        );
        // A removed line cannot stand for another one.
        lines.remove(2);
        assert_eq!(verify("f", &lines), (2, Some(BrokenLink::Missing { found: 4 })));
        let mut swapped = chained("f", &objects(3));
        swapped[1] = JournalChain::remove(&chained("g", &objects(3))[1]).unwrap();
        assert_eq!(verify("f", &swapped), (2, Some(BrokenLink::Altered)));
    }

    proptest! {
        #[test]
        fn no_change_of_a_byte_goes_unnoticed(
            count in 1usize..5, line in any::<prop::sample::Index>(),
            at in any::<prop::sample::Index>(), flip in 1u8..=255,
        ) {
            let mut lines = chained("f", &objects(count));
            let line = line.index(count);
            let at = at.index(lines[line].len());
            lines[line][at] ^= flip;
            let (verified, broken) = verify("f", &lines);
            prop_assert!(broken.is_some());
            prop_assert_eq!(verified, line as u64);
        }
    }
}
