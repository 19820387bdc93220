//! Runs one transaction on the records, and rolls it back for any error of an import.
//!
//! A closure of the store can only fail with a [`Problem`] of the database. Here a closure can also
//! fail with an [`ImportError`], such as a file that cannot be read.

use stile_domain::records::authority::OwnerPermit;
use stile_domain::records::problem::Problem;
use stile_store::records::{Records, WriteBatch};

use crate::report::ImportError;

/// Runs a transaction.
///
/// # Errors
/// Either error of the closure, after the transaction was rolled back.
pub(crate) fn write(
    records: &Records,
    owner: &OwnerPermit,
    transaction: impl FnOnce(&mut WriteBatch<'_>) -> Result<Result<(), ImportError>, Problem>,
) -> Result<(), ImportError> {
    let mut failure = None;
    let written = records.write(owner, |batch| {
        transaction(batch)?.map_err(|error| {
            failure = Some(error);
            // Any problem rolls the transaction back. The caller gets the failure instead.
            Problem::NotFound
        })
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(written?),
    }
}
