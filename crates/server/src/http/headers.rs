//! Reads a request header that must not be repeated.

use http::{HeaderMap, HeaderName, HeaderValue};

/// A header was sent more than once. A proxy in front of this server may have looked at another of
/// its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RepeatedHeader;

/// Returns the only value of a header; `None` if the header is absent.
pub(super) fn single<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'h HeaderValue>, RepeatedHeader> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() { Err(RepeatedHeader) } else { Ok(value) }
}
