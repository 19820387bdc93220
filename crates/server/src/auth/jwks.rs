//! The public keys of an identity provider.

use futures::future::BoxFuture;

/// Where a set of keys comes from. Whoever implements this needs no limit in time of its own, follows no
/// redirect, and reads no more than [`MAX_SET_BYTES`].
pub trait KeySource: Send + Sync + 'static {
    /// Fetches the document. The future may be dropped before it is done.
    fn fetch(&self) -> BoxFuture<'_, Result<Vec<u8>, FetchError>>;
}

/// The longest document that is read.
pub const MAX_SET_BYTES: usize = 256 * 1024;

/// Why there is no new set of keys. It has no room for an address or for anything that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// Nobody answered there, or not in a way that is understood.
    #[error("the source of the keys cannot be reached")]
    Unreachable,
    /// The answer took too long.
    #[error("the source of the keys did not answer in time")]
    TimedOut,
    /// The answer was of another status than 200.
    #[error("the source of the keys answered with status {0}")]
    Status(u16),
    /// The answer was longer than [`MAX_SET_BYTES`].
    #[error("the set of keys is too long")]
    TooLong,
    /// The answer was no set of keys.
    #[error("what was fetched is not a set of keys")]
    Malformed,
    /// The answer was a set without a key for RS256 or ES256 that is strong enough.
    #[error("no key of the set can be used")]
    NoUsableKey,
}
