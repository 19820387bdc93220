//! What a request names in its path and its query.

use stile_domain::records::request::PathNames;

/// The decoded variables and parameters of a request, and the address it was sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestTarget {
    /// The stream in the path; empty if the path has none.
    pub stream: String,
    /// The identifier of the record, the blob or the token in the path; empty if the path has none.
    pub key: String,
    /// The identifier of the grant in the path; empty if the path has none.
    pub grant: String,
    /// The query parameters, decoded, in the order in which they were sent.
    pub pairs: Vec<(String, String)>,
    /// The path as it was sent.
    pub path: String,
    /// The query as it was sent.
    pub query: String,
}

impl RequestTarget {
    /// Creates the target of a request that does not come over HTTP, without an address.
    pub fn new(stream: &str, key: &str, parameters: &[(&str, &str)]) -> Self {
        let pairs = parameters.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let (stream, key) = (stream.to_owned(), key.to_owned());
        Self { stream, key, pairs: pairs.collect(), ..Self::default() }
    }

    /// Returns the stream and the record key.
    pub(crate) fn names(&self) -> PathNames<'_> {
        PathNames { stream: &self.stream, key: &self.key }
    }

    /// Returns the address that the request was sent to.
    pub(crate) fn address(&self) -> RequestAddress<'_> {
        RequestAddress { path: &self.path, query: &self.query }
    }
}

/// The address that a request was sent to; empty for a request from this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestAddress<'r> {
    /// The path as it was sent.
    pub path: &'r str,
    /// The query as it was sent.
    pub query: &'r str,
}

impl RequestAddress<'_> {
    /// Returns the path and the query.
    pub(crate) fn target(&self) -> String {
        let separator = if self.query.is_empty() { "" } else { "?" };
        format!("{}{separator}{}", self.path, self.query)
    }

    /// Returns the address of the same request with another cursor.
    pub(crate) fn target_with_cursor(&self, cursor: &str) -> String {
        let others: String = self
            .query
            .split('&')
            .filter(|part| !part.is_empty() && !part.starts_with("cursor="))
            .map(|part| format!("{part}&"))
            .collect();
        format!("{}?{others}cursor={cursor}", self.path)
    }
}
