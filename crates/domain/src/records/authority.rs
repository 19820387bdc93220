//! Stand-in, replaced at the merge.

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who<'a> {
    /// The owner.
    Owner,
    /// A client.
    Client {
        /// The grant.
        grant: &'a str,
        /// The token.
        token: &'a str,
    },
}

/// Leave to read.
#[derive(Debug)]
pub struct RecordsPermit;

impl RecordsPermit {
    /// For whom.
    pub fn who(&self) -> Who<'_> {
        Who::Owner
    }
}

/// Leave to do everything.
#[derive(Debug)]
pub struct OwnerPermit;
