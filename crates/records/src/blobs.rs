//! `/v1/blobs`: the bytes that records point to.
//!
//! A blob is seen through a record that exposes it and in no other way: one that no record shows to
//! the caller is refused in the words for one that there is not. It is read a part at a time, each
//! part as if it were asked for anew, so that a slow reader holds nothing and a grant that ends in
//! the middle ends the reading.

use std::io::{self, BufRead, Write};

use serde_json::{Value as Json, json};
use stile_domain::hash::hex;
use stile_domain::permit::Principal;
use stile_domain::records::blob::{self, BlobId, MAX_BYTES};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_store::records::{RecordsView, StoredBlob, WriteRefusal};

use super::RecordService;
use super::calls::{Call, failed};
use super::endpoints;
use super::parameters::Parameters;
use super::render::connection;

/// What a blob is of where records say nothing, or different things.
pub(super) const UNKNOWN_TYPE: &str = "application/octet-stream";

/// What is said of a blob before its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobHead {
    /// How many bytes it has.
    pub bytes: u64,
    /// Its media type.
    pub media_type: String,
    /// Whether a browser may show it instead of storing it.
    pub shown: bool,
}

impl RecordService {
    /// What is said of a blob. Blocks.
    ///
    /// # Errors
    /// What the token, the parameters, the grant or the database say against it;
    /// [`Problem::BlobNotFound`].
    pub fn blob(&self, caller: &Principal, now: Instant, call: &Call) -> Result<BlobHead, Problem> {
        let outcome = self.with_blob(caller, now, call, |_, blob| {
            let media_type = blob.media_type.unwrap_or_else(|| UNKNOWN_TYPE.to_owned());
            Ok(BlobHead { bytes: blob.bytes, shown: blob::is_safe_inline(&media_type), media_type })
        });
        self.tell(caller, call.endpoint.id, outcome.as_ref().err());
        outcome
    }

    /// Some bytes of a blob, from `start` on: at most so many, and at least one unless it ends
    /// there. Blocks.
    ///
    /// # Errors
    /// As [`RecordService::blob`].
    pub fn blob_part(
        &self,
        caller: &Principal,
        now: Instant,
        call: &Call,
        start: u64,
        most: u64,
    ) -> Result<Vec<u8>, Problem> {
        self.with_blob(caller, now, call, |view, blob| view.blob_bytes(&blob, start, most))
    }

    fn with_blob<T>(
        &self,
        caller: &Principal,
        now: Instant,
        call: &Call,
        read: impl FnOnce(&RecordsView<'_>, stile_store::records::Blob) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let permit = caller.gate().records()?;
        let parameters = Parameters::parse(call.endpoint.parameters, &call.pairs);
        self.records.read(&permit, now, |view| {
            let parameters = parameters?;
            let wanted = connection(&parameters)?;
            let id = BlobId::parse(&call.key).ok_or(Problem::BlobNotFound)?;
            let mut sources = view.sources()?;
            sources.retain(|source| wanted.is_none_or(|name| source.connection().as_str() == name));
            let blob = view.blob(&sources, &id)?.ok_or(Problem::BlobNotFound)?;
            read(view, blob)
        })
    }

    /// Stores a blob. It comes as slowly as its sender likes and is written once it is whole.
    /// Blocks.
    ///
    /// # Errors
    /// Where the caller is not the owner; where the bytes end before they are whole or are too
    /// many; what the database says. Nothing is stored then.
    pub fn take_blob(
        &self,
        caller: &Principal,
        call: &Call,
        body: &mut dyn BufRead,
    ) -> Result<Json, Problem> {
        let outcome = self.ready().and_then(|()| self.keep_blob(caller, call, body));
        self.tell(caller, endpoints::PUT_BLOB.id, outcome.as_ref().err());
        outcome
    }

    fn keep_blob(
        &self,
        caller: &Principal,
        call: &Call,
        body: &mut dyn BufRead,
    ) -> Result<Json, Problem> {
        let owner = caller.gate().owner()?;
        Parameters::parse(call.endpoint.parameters, &call.pairs)?;
        let mut spool =
            self.records.create_spool_file(&owner).map_err(|error| not_spooled(&error))?;
        let mut bytes = 0;
        loop {
            let message = "the body ended before it was whole, so nothing is stored; send it again";
            let part = body
                .fill_buf()
                .map_err(|_| Problem::InvalidRequest { param: None, message: message.into() })?;
            if part.is_empty() {
                break;
            }
            bytes += part.len() as u64;
            if bytes > MAX_BYTES {
                return Err(Problem::BlobTooLarge);
            }
            spool.write_all(part).map_err(|error| not_spooled(&error))?;
            let taken = part.len();
            body.consume(taken);
        }
        let put = self.records.write(&owner, |batch| batch.put_blob(&mut spool.into_reader()))?;
        let StoredBlob { id, bytes, digest } = put.map_err(|refused| match refused {
            WriteRefusal::BlobTooLarge => Problem::BlobTooLarge,
            _ => not_spooled(&io::ErrorKind::UnexpectedEof.into()),
        })?;
        let id = BlobId::parse(&id).unwrap_or_else(|| BlobId::from_digest(digest));
        Ok(json!({
            "object": "blob", "blob_id": id.to_string(), "size_bytes": bytes, "sha256": hex(&digest), "fetch_url": id.url(),
        }))
    }
}

fn not_spooled(error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Problem::Full,
        _ => failed("spool", error),
    }
}
