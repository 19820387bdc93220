//! Who may access records, as values that code must hold.
//!
//! A verified token says that its bearer is the owner of the records, the client of one grant, or
//! neither ([`RecordsClaim`]). `Gate::records` and `Gate::owner` turn the claim into the permits
//! that the record store requires; only `stile-tools` calls them. A client's permit names its grant
//! and its token and nothing more. The store looks up the grant on every request, so a revocation
//! takes effect with the next request.

use std::sync::Arc;

use super::identifiers::SourceName;
use super::problem::Problem;

const MAX_GRANT_BYTES: usize = 64;

/// What a verified token, or the local user's own command line, says about records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RecordsClaim {
    /// The token says nothing about records, so the caller sees none.
    #[default]
    None,
    /// The caller is the owner: reads all records, imports, deletes and makes grants. Only this
    /// server's own tokens can say so, never the tokens of an identity provider.
    Owner,
    /// The caller is the client of the grant with this identifier, see [`is_grant_id`].
    Grant(Arc<str>),
    /// The caller imports into one stream, and reads nothing. Only this server's own tokens can say
    /// so.
    Import(Arc<ImportClaim>),
}

/// The one stream that a caller imports into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportClaim {
    /// The connection that the records come from.
    pub connection: SourceName,
    /// The stream of the connection.
    pub stream: SourceName,
}

/// Whether a text can be the identifier of a grant: 1 to 64 of `A-Z a-z 0-9 _ -`.
pub fn is_grant_id(text: &str) -> bool {
    (1..=MAX_GRANT_BYTES).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// The caller of a request about records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordsCaller<'a> {
    /// The owner of all records.
    Owner,
    /// The client of one grant.
    Client {
        /// The grant's identifier.
        grant: &'a str,
        /// The token's identifier, which binds a grant that is for a single token.
        token: &'a str,
    },
}

/// Permission to read records for one request: all records, or what one grant allows.
#[derive(Debug)]
#[must_use = "a permit that is not used means a check without its act"]
pub struct RecordsPermit {
    /// The identifiers of the client's grant and token; absent for the owner.
    client: Option<(Arc<str>, Arc<str>)>,
}

/// Permission for one request to do what only the owner may: import, delete and export records, and
/// make and revoke grants.
#[derive(Debug)]
#[must_use = "a permit that is not used means a check without its act"]
pub struct OwnerPermit {
    /// Whether the permit is for an import alone, which adds records and replaces them.
    is_import: bool,
}

impl RecordsPermit {
    /// Grants what a claim allows. `token` is the identifier of the token that made the claim.
    pub(crate) fn from_claim(
        claim: &RecordsClaim,
        token: Option<&Arc<str>>,
    ) -> Result<Self, Problem> {
        match (claim, token) {
            (RecordsClaim::None, _) => Err(Problem::InsufficientScope {
                message: "this token has nothing to do with records; the owner makes one with \
                          `stile token --grant ID` or `stile token --owner`",
            }),
            (RecordsClaim::Import(_), _) => Err(Problem::InsufficientScope {
                message: "this token imports into one stream and reads nothing",
            }),
            (RecordsClaim::Owner, _) => Ok(Self { client: None }),
            (RecordsClaim::Grant(grant), Some(token)) => {
                Ok(Self { client: Some((Arc::clone(grant), Arc::clone(token))) })
            }
            (RecordsClaim::Grant(_), None) => Err(Problem::InsufficientScope {
                message: "this token names a grant but has no identifier; its issuer must add \
                          the claim `jti`",
            }),
        }
    }

    /// Returns the caller that the permit was made for.
    pub fn caller(&self) -> RecordsCaller<'_> {
        match &self.client {
            None => RecordsCaller::Owner,
            Some((grant, token)) => RecordsCaller::Client { grant, token },
        }
    }
}

impl OwnerPermit {
    /// Permits an import into a stream to the owner, and to a caller that imports into it.
    pub(crate) fn of_import(
        claim: &RecordsClaim,
        connection: &str,
        stream: &str,
    ) -> Result<(Self, RecordsPermit), Problem> {
        let is_named = |import: &ImportClaim| {
            import.connection.as_str() == connection && import.stream.as_str() == stream
        };
        match claim {
            RecordsClaim::Import(import) if is_named(import) => {
                Ok((Self { is_import: true }, RecordsPermit { client: None }))
            }
            RecordsClaim::Import(_) => Err(Problem::InsufficientScope {
                message: "this token imports into another stream; send the `connection_id` and the \
                          stream that it was made for; nothing was changed",
            }),
            claim => Ok((Self::from_claim(claim)?, RecordsPermit::from_claim(claim, None)?)),
        }
    }

    /// Whether the request may delete records. An import may not.
    pub fn may_delete(&self) -> bool {
        !self.is_import
    }

    pub(crate) fn from_claim(claim: &RecordsClaim) -> Result<Self, Problem> {
        match claim {
            RecordsClaim::Owner => Ok(Self { is_import: false }),
            RecordsClaim::Import(_) => Err(Problem::InsufficientScope {
                message: "this token imports into one stream and may do nothing else; nothing was \
                          changed",
            }),
            RecordsClaim::None | RecordsClaim::Grant(_) => Err(Problem::InsufficientScope {
                message: "only the owner of the records may do this, with a token from \
                          `stile token --owner`; nothing was changed",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_gets_both_permits_a_client_one_and_others_none() {
        let token: Arc<str> = "t1".into();
        let asks = |claim: &RecordsClaim| RecordsPermit::from_claim(claim, Some(&token));
        let client = RecordsClaim::Grant("g-1".into());
        assert_eq!(asks(&RecordsClaim::Owner).unwrap().caller(), RecordsCaller::Owner);
        assert_eq!(
            asks(&client).unwrap().caller(),
            RecordsCaller::Client { grant: "g-1", token: "t1" }
        );
        assert_eq!(asks(&RecordsClaim::None).unwrap_err().code(), ("insufficient_scope", 403));
        assert!(OwnerPermit::from_claim(&RecordsClaim::Owner).is_ok());
        for other in [RecordsClaim::None, client] {
            assert_eq!(
                OwnerPermit::from_claim(&other).unwrap_err().code(),
                ("insufficient_scope", 403)
            );
        }
    }

    #[test]
    fn a_token_for_an_import_writes_one_stream_and_reads_none() {
        let name = |text: &str| SourceName::parse(text).unwrap();
        let import = ImportClaim { connection: name("mail"), stream: name("letters") };
        let claim = RecordsClaim::Import(Arc::new(import));
        let (permit, _) = OwnerPermit::of_import(&claim, "mail", "letters").unwrap();
        assert!(!permit.may_delete());
        assert!(OwnerPermit::from_claim(&RecordsClaim::Owner).unwrap().may_delete());
        for (connection, stream) in [("mail", "other"), ("other", "letters"), ("", "letters")] {
            let refused = OwnerPermit::of_import(&claim, connection, stream).unwrap_err();
            assert_eq!(refused.code(), ("insufficient_scope", 403));
        }
        assert!(OwnerPermit::from_claim(&claim).is_err());
        assert!(RecordsPermit::from_claim(&claim, None).is_err());
        assert!(OwnerPermit::of_import(&RecordsClaim::Owner, "any", "stream").is_ok());
        assert!(OwnerPermit::of_import(&RecordsClaim::None, "mail", "letters").is_err());
    }

    #[test]
    fn a_client_whose_token_has_no_identifier_is_refused() {
        let problem =
            RecordsPermit::from_claim(&RecordsClaim::Grant("g".into()), None).unwrap_err();
        assert!(problem.to_string().contains("`jti`"), "{problem}");
        assert!(RecordsPermit::from_claim(&RecordsClaim::Owner, None).is_ok());
    }

    #[test]
    fn a_grant_identifier_has_1_to_64_plain_characters() {
        for good in ["g", "0c6e3a9e-6a0b-4c2e-9a55-3d8f4f1b2a01", "A_b-9", &"x".repeat(64)] {
            assert!(is_grant_id(good), "{good}");
        }
        for bad in ["", "a.b", "a b", "a/b", "é", "a\0", "a\n", &"x".repeat(65)] {
            assert!(!is_grant_id(bad), "{bad}");
        }
    }
}
