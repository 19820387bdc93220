//! Searches a file with a line that is too long to try a regular expression on as a whole.

use std::io::{self, BufRead as _, BufReader, Read};

use stile_domain::find::text_query::PART_BYTES;

use super::hit_lines::{HitLines, content_of, text_of};

/// The longest line of a large file that is searched. A search holds a whole line in memory.
pub(super) const LONGEST_LINE: usize = 8 << 20;

/// Searches line by line, a long line in parts. Asks `goes_on` between parts.
///
/// # Errors
/// An error of the reader; [`io::ErrorKind::TimedOut`] if `goes_on` says no;
/// [`io::ErrorKind::FileTooLarge`] at a line of more than [`LONGEST_LINE`].
pub(super) fn search_line_by_line(
    reader: impl Read,
    goes_on: impl Fn() -> bool,
    lines: &mut HitLines<'_>,
) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(PART_BYTES, reader);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        reader.by_ref().take(LONGEST_LINE as u64 + 1).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            break;
        }
        if line.len() > LONGEST_LINE {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let query = &lines.search.query;
        let is_long = line.len() > PART_BYTES;
        // After the terminator an expression would find the beginning and the end of another line.
        let content = content_of(&line);
        let found = if is_long {
            query.find_in_parts(content, &goes_on).map_err(|_| io::ErrorKind::TimedOut)?
        } else {
            query.find(content)
        };
        match found {
            Some(at) if !lines.add(number, &line, at) => break,
            Some(_) => {}
            None => {
                lines.lines_in_parts += u64::from(is_long);
                if lines.search.context > 0 {
                    lines.pass(number, &text_of(&line));
                }
            }
        }
    }
    Ok(())
}
