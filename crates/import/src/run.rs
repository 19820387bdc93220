//! An import: rows of files become records of one stream, a batch at a time.
//!
//! A stream that there is not yet is declared from all rows of the first file, which is therefore
//! read twice; what was declared then stays until the owner declares anew. Rows are stored in
//! batches of at most [`BATCH_ROWS`] rows or [`stile_records::batch::BATCH_BYTES`] bytes, each a transaction, so an
//! import that is killed leaves whole batches, and running it again goes on from there: what is
//! stored already is left as it is. A strict import is one transaction.

use std::io;

use stile_domain::permit::Principal;
use stile_domain::records::authority::OwnerPermit;
use stile_domain::records::blob;
use stile_domain::records::declaration::{BadDeclaration, Declaration, Semantics};
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::infer::{Inference, KeyChoice};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_store::records::{
    IncomingRecord, StreamedField, TargetStream, TextSource, UpsertOutcome, WriteBatch,
};

use super::input::{Format, Input, Item};
use super::known::Place;
use super::markdown;
use super::versions::Versions;
use stile_records::RecordService;
use stile_records::batch::store_record;
use stile_records::declarations::indexed_fields;
use stile_records::declarations::{describe_primary_key, parse_stored};
use stile_records::rows::row_keys::RowKeys;

mod items;

use items::Items;

/// The most rows of a batch. Each batch writes every page of an index that it touches, and rows of
/// an export touch pages all over, so a batch of few rows writes many times what it stores.
pub const BATCH_ROWS: usize = 10_000;
/// Bad rows that a report tells of; all are counted.
pub const BAD_SHOWN: usize = 100;

/// An import into one stream.
pub struct Import<'a> {
    /// Where to.
    pub services: &'a RecordService,
    /// Who imports; the owner.
    pub caller: &'a Principal,
    /// Of which connection.
    pub connection: &'a SourceName,
    /// Into which stream.
    pub stream: &'a SourceName,
    /// The fields that the key is made of, where the owner says so.
    pub key: &'a [String],
    /// Whether one bad row stops all of it.
    pub strict: bool,
    /// When it is.
    pub now: Instant,
}

/// What became of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records that are new.
    pub added: u64,
    /// Records that were there and are others now.
    pub changed: u64,
    /// Records that were there as they are.
    pub same: u64,
    /// Rows that could not be stored.
    pub bad_rows: u64,
    /// The first of them.
    pub bad: Vec<BadRow>,
    /// Halves of surrogate pairs that became U+FFFD.
    pub replaced: u64,
    /// Why a stream that was declared by this import is declared as it is.
    pub because: Vec<String>,
}

/// A row that could not be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// The file, as it was named.
    pub file: String,
    /// The line where the row begins, 1-based.
    pub line: u64,
    /// The stable code.
    pub code: &'static str,
    /// Why, in words.
    pub reason: String,
}

/// An import that stopped before its end.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct Stopped {
    /// Why.
    pub why: Why,
    /// What is stored nonetheless.
    pub report: Report,
}

/// Why an import stopped.
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// The database, or who asks.
    #[error("{0}")]
    Problem(#[from] Problem),
    /// A file cannot be read.
    #[error("cannot read {file}: {error}")]
    Read {
        /// Which.
        file: String,
        /// What the system said.
        error: io::Error,
    },
    /// The stream has another key.
    #[error(
        "the key of this stream is {declared} and cannot change while it has records; import without --key, or into another stream"
    )]
    OtherKey {
        /// Which it is, in words.
        declared: String,
    },
    /// The key that the owner names does not fit.
    #[error("{0}")]
    Key(BadDeclaration),
    /// A bad row in a strict import.
    #[error("{}:{}: {} ({}). Nothing was written, since the import is strict", .0.file, .0.line, .0.reason, .0.code)]
    BadRow(BadRow),
    /// Somebody declared the stream anew meanwhile.
    #[error("the stream was declared anew while this ran; run it again")]
    Redeclared,
}

/// How far an import is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Whether rows are stored now, and not only looked at.
    pub storing: bool,
    /// Bytes that were read in this pass.
    pub bytes: u64,
    /// Bytes that there are to be read in this pass.
    pub total: u64,
}

/// Told how far an import is, after each batch.
pub type Watch<'w> = &'w mut dyn FnMut(Progress);

/// What is known of the stream before its rows are stored.
struct Plan {
    text: String,
    declaration: Declaration,
}

/// What the storing of rows goes on with.
struct Run<'a> {
    import: &'a Import<'a>,
    keys: RowKeys,
    semantics: Semantics,
    versions: Versions,
    report: Report,
}

impl Import<'_> {
    /// Imports. Blocks.
    ///
    /// # Errors
    /// [`Stopped`], which says what is stored nonetheless: whole batches, or nothing where it is
    /// strict.
    pub fn run(&self, inputs: &[Input], watch: Watch<'_>) -> Result<Report, Box<Stopped>> {
        let stop = |why| Box::new(Stopped { why, report: Report::default() });
        let owner = self.caller.gate().owner().map_err(|problem| stop(problem.into()))?;
        let mut because = Vec::new();
        let plan = self.plan(&owner, inputs, &mut because, watch).map_err(stop)?;
        let mut run = Run {
            import: self,
            keys: RowKeys::new(plan.as_ref().map_or(&[], |plan| plan.declaration.primary_key())),
            semantics: plan
                .as_ref()
                .map_or_else(Semantics::default, |plan| plan.declaration.semantics()),
            versions: Versions::default(),
            report: Report { because, ..Report::default() },
        };
        let mut items = Items::new(inputs, self.place());
        let stored = match &plan {
            None => run.count_bad(&mut items),
            Some(plan) if self.strict => run.in_one(&owner, plan, &mut items, watch),
            Some(plan) => run.in_batches(&owner, plan, &mut items, watch),
        };
        match stored {
            Ok(()) => Ok(run.report),
            Err(why) if self.strict => Err(stop(why)),
            Err(why) => Err(Box::new(Stopped { why, report: run.report })),
        }
    }

    /// What is declared, or what is to be declared. None where there is no row to infer it from.
    fn plan(
        &self,
        owner: &OwnerPermit,
        inputs: &[Input],
        because: &mut Vec<String>,
        watch: Watch<'_>,
    ) -> Result<Option<Plan>, Why> {
        let records = &self.services.records;
        if let Some(target) =
            records.write(owner, |batch| batch.target(self.connection, self.stream))?
        {
            let declaration = parse_stored(&target.declaration)?;
            if !self.key.is_empty() && self.key != declaration.primary_key() {
                return Err(Why::OtherKey {
                    declared: describe_primary_key(declaration.primary_key()),
                });
            }
            return Ok(Some(Plan { text: target.declaration, declaration }));
        }
        for (at, input) in inputs.iter().enumerate() {
            if let Some(known) = input.format.known() {
                if !self.has_row(input)? {
                    continue;
                }
                let (declaration, reasons) = known.declaration(self.key).map_err(Why::Key)?;
                *because = reasons;
                return Ok(Some(Plan { text: declaration.to_json().to_string(), declaration }));
            }
            let mut inference = Inference::new();
            let mut items = Items::new(inputs.get(at..=at).unwrap_or_default(), self.place());
            while let Some(item) = items.next()? {
                match item.row {
                    Ok(found) if found.text.is_some() => inference.observe(&found.all_fields()),
                    Ok(found) => inference.observe(&found.fields),
                    Err(_) if self.strict => {
                        return Err(Why::BadRow(bad_of(item).unwrap_or_default()));
                    }
                    Err(_) => {}
                }
                items.tell(watch, false);
            }
            if inference.rows() == 0 {
                continue;
            }
            let choice = match input.format {
                _ if !self.key.is_empty() => KeyChoice::Given(self.key.to_vec()),
                Format::Markdown => KeyChoice::Given(vec![markdown::PATH.to_owned()]),
                _ => KeyChoice::Infer,
            };
            let inferred = inference.finish(choice).map_err(Why::Key)?;
            *because = inferred.reasons;
            if self.key.is_empty() && input.format == Format::Markdown {
                let path = "the key is `path`: a note is known by where it is".to_owned();
                because
                    .iter_mut()
                    .filter(|line| line.starts_with("the key is made of"))
                    .for_each(|line| *line = path.clone());
            }
            let text = inferred.declaration.to_json().to_string();
            return Ok(Some(Plan { text, declaration: inferred.declaration }));
        }
        Ok(None)
    }

    /// Whether there is any row that can be stored.
    fn has_row(&self, input: &Input) -> Result<bool, Why> {
        let mut items = Items::new(std::slice::from_ref(input), self.place());
        while let Some(item) = items.next()? {
            if item.row.is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn place(&self) -> Place {
        Place { connection: self.connection.clone(), stream: self.stream.clone() }
    }

    /// The stream as planned, in this transaction.
    fn target(
        &self,
        batch: &mut WriteBatch<'_>,
        plan: &Plan,
    ) -> Result<Result<TargetStream, Why>, Problem> {
        match batch.target(self.connection, self.stream)? {
            Some(target) if target.declaration == plan.text => Ok(Ok(target)),
            Some(_) => Ok(Err(Why::Redeclared)),
            None => {
                let terms = indexed_fields(&plan.declaration);
                batch.declare(self.connection, self.stream, &plan.text, &terms).map(Ok)
            }
        }
    }
}

impl Run<'_> {
    /// Where no row can be stored, says why of each.
    fn count_bad(&mut self, items: &mut Items<'_>) -> Result<(), Why> {
        while let Some(item) = items.next()? {
            if let Some(bad) = bad_of(item) {
                if self.import.strict {
                    return Err(Why::BadRow(bad));
                }
                self.bad(bad);
            }
        }
        Ok(())
    }

    fn in_one(
        &mut self,
        owner: &OwnerPermit,
        plan: &Plan,
        items: &mut Items<'_>,
        watch: Watch<'_>,
    ) -> Result<(), Why> {
        let import = self.import;
        self.write(owner, |run, batch| {
            let target = match import.target(batch, plan)? {
                Ok(target) => target,
                Err(why) => return Ok(Err(why)),
            };
            loop {
                let item = match items.next() {
                    Ok(Some(item)) => item,
                    Ok(None) => return Ok(Ok(())),
                    Err(why) => return Ok(Err(why)),
                };
                run.store(batch, &target, item)?;
                if let Some(bad) = run.report.bad.pop() {
                    return Ok(Err(Why::BadRow(bad)));
                }
                items.tell(watch, true);
            }
        })
    }

    fn in_batches(
        &mut self,
        owner: &OwnerPermit,
        plan: &Plan,
        items: &mut Items<'_>,
        watch: Watch<'_>,
    ) -> Result<(), Why> {
        let import = self.import;
        loop {
            // Read before the transaction begins, so that nobody waits for a slow disk.
            let rows = items.batch()?;
            if rows.is_empty() {
                return Ok(());
            }
            let before = self.report.clone();
            let stored = self.write(owner, |run, batch| {
                let target = match import.target(batch, plan)? {
                    Ok(target) => target,
                    Err(why) => return Ok(Err(why)),
                };
                rows.into_iter().try_for_each(|item| run.store(batch, &target, item)).map(Ok)
            });
            if let Err(why) = stored {
                self.report = before;
                return Err(why);
            }
            items.tell(watch, true);
        }
    }

    /// Writes all or nothing; also a reason of ours takes everything back.
    fn write(
        &mut self,
        owner: &OwnerPermit,
        write: impl FnOnce(&mut Self, &mut WriteBatch<'_>) -> Result<Result<(), Why>, Problem>,
    ) -> Result<(), Why> {
        let mut ours = None;
        let records = &self.import.services.records;
        let done = records.write(owner, |batch| match write(self, batch)? {
            Ok(()) => Ok(()),
            Err(why) => {
                ours = Some(why);
                Err(Problem::NotFound)
            }
        });
        match ours {
            Some(why) => Err(why),
            None => Ok(done?),
        }
    }

    fn store(
        &mut self,
        batch: &mut WriteBatch<'_>,
        target: &TargetStream,
        item: Item,
    ) -> Result<(), Problem> {
        let mut found = match item.row {
            Ok(found) => found,
            Err(_) => {
                bad_of(item).into_iter().for_each(|bad| self.bad(bad));
                return Ok(());
            }
        };
        let bad = |code, reason: String| BadRow {
            file: item.file.to_string(),
            line: item.line,
            code,
            reason,
        };
        if let Some(known) = found.known.filter(|known| self.keys.is_single_field(known.key)) {
            self.versions.tell_apart(known, &mut found.fields, |key, fields| {
                // As it would be stored: with its key, which is told apart already, and with
                // addresses.
                let mut fields = fields.clone();
                blob::add_fetch_urls(&mut fields);
                batch.differs_from(target, key, &fields, known.own)
            })?;
        }
        blob::add_fetch_urls(&mut found.fields);
        let key = match self.keys.next_key(&found.fields) {
            Ok(key) => key,
            Err(why) => {
                self.bad(bad(why.code(), why.to_string()));
                return Ok(());
            }
        };
        for attachment in &found.attachments {
            if let Err(why) = attachment.keep(batch)? {
                self.bad(bad("not_stored", why.to_string()));
                return Ok(());
            }
        }
        let mut text = found.text;
        let long = text
            .iter_mut()
            .map(|(name, file)| StreamedField { name, text: file as &mut dyn TextSource });
        let (emitted, fields) = (self.import.now, &found.fields);
        let incoming = IncomingRecord { key: &key, emitted, fields, streamed: long.collect() };
        match store_record(batch, target, self.semantics, incoming)? {
            UpsertOutcome::Added => self.report.added += 1,
            UpsertOutcome::Changed => self.report.changed += 1,
            UpsertOutcome::Unchanged => self.report.same += 1,
            UpsertOutcome::Refused(why) => {
                self.bad(bad("not_stored", why.to_string()));
                return Ok(());
            }
        }
        self.report.replaced += found.replaced;
        Ok(())
    }

    fn bad(&mut self, bad: BadRow) {
        self.report.bad_rows += 1;
        if self.report.bad.len() < BAD_SHOWN {
            self.report.bad.push(bad);
        }
    }
}

impl Default for BadRow {
    fn default() -> Self {
        Self { file: String::new(), line: 0, code: "bad_row", reason: String::new() }
    }
}

fn bad_of(item: Item) -> Option<BadRow> {
    let (code, reason) = item.row.err()?;
    Some(BadRow { file: item.file.to_string(), line: item.line, code, reason })
}

#[cfg(test)]
mod tests;
