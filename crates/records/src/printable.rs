//! Names from outside, made fit for one line of a terminal or of an error message.

use stile_domain::unseen::shown_ends;

/// Returns at most 64 characters of a name, its start and end, with those that nobody sees written
/// out.
pub(crate) fn printable(name: &str) -> String {
    const MAX_CHARS: usize = 64;
    shown_ends(name, MAX_CHARS)
}
