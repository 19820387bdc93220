//! Names from outside, made fit for one line of a terminal or of an error message.

use stile_domain::unseen::shown_start;

/// Returns the first 64 characters of a name, with those that nobody sees written out.
pub(crate) fn printable(name: &str) -> String {
    const MAX_CHARS: usize = 64;
    shown_start(name, MAX_CHARS)
}
