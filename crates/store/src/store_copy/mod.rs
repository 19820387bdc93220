//! Copies the records of one person from one engine to the other, row by row.
//!
//! Numbers, keys, the history and the keys that seal cursors stay as they are, so cursors and sync
//! tokens from before the copy go on after it. Only the index of searches is made anew. Tokens,
//! sign-in and the key that signs tokens move as well.
//!
//! Of a database with several people, a copy takes one person's rows. The keys that seal cursors,
//! the tokens and their key are the database's and stay there, so clients begin anew with those.
//!
//! A copy is many small transactions on the target. Each writes rows and, with them, the key of the
//! last one, so a copy that was cut goes on where it stopped. Until the copy is complete the target
//! cannot be opened. At the end, each side is read on its own and the checksums are compared.

mod access;
mod end;
mod error;
#[cfg(test)]
mod person_tests;
mod postgresql;
mod sqlite;
mod table;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use stile_domain::records::instant::Instant;

use self::access::AccessEnd;
use self::end::{Advance, CopyProgress, CopyTarget, Mark, PAGE, TableReader, checksum};
pub use self::error::CopyError;
use self::postgresql::PgEnd;
use self::sqlite::SqliteEnd;
pub use self::table::TableChecksum;
use self::table::{Key, Table};
use self::tables::{INDEXED, TABLES, with_dependents};
use crate::postgresql::{Database, PersonName};
use crate::records::RecordsError;
use crate::records::copying::{self, CopiedRecord, IndexedByStream};
use crate::state::StateDir;

/// The most rows that one transaction removes.
const REMOVED: usize = 2000;

/// Where a copy finds records, or puts them.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreAddress {
    /// A state folder, whose records are in SQLite.
    Folder(PathBuf),
    /// The address of a database on PostgreSQL. It may contain a password.
    Postgresql(String),
}

impl StoreAddress {
    /// Parses what a person wrote: an address that begins with `postgres://`, or a folder.
    pub fn parse(text: &str) -> Self {
        match text.starts_with("postgres://") || text.starts_with("postgresql://") {
            true => Self::Postgresql(text.to_owned()),
            false => Self::Folder(PathBuf::from(text)),
        }
    }
}

/// The limits of one step.
#[derive(Clone, Copy, Debug)]
pub struct StepSize {
    /// The rows of one transaction.
    pub rows: usize,
    /// The bytes of one transaction, which its last rows may exceed.
    pub bytes: usize,
}

impl Default for StepSize {
    fn default() -> Self {
        Self { rows: 2048, bytes: 8 << 20 }
    }
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyStep {
    /// The step removed rows that an earlier pass had copied.
    Removed,
    /// The step copied this number of rows.
    Copied(u64),
    /// The step indexed this number of records.
    Indexed(u64),
}

/// How much there is to copy, and how much of it an earlier run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyAmount {
    /// The rows of all tables of the source.
    pub rows: u64,
    /// The rows that are in the target.
    pub copied: u64,
    /// The records of the source.
    pub records: u64,
}

/// A copy under way.
pub struct StoreCopy {
    source: Box<dyn TableReader>,
    target: Box<dyn CopyTarget>,
    /// The tokens of both ends; `None` for the copy of one of several people.
    access: Option<(AccessEnd, AccessEnd)>,
    /// The tables that are copied.
    tables: Vec<&'static Table>,
    /// The identifier of the person at the source and at the target; `None` for a state folder and
    /// for the copy of a whole database.
    source_person: Option<String>,
    target_person: Option<String>,
    progress: CopyProgress,
    size: StepSize,
    /// The streams of the target, once they are all there.
    streams: Option<IndexedByStream>,
}

impl StoreCopy {
    /// Begins a copy, or goes on with one that was cut. Brings the source up to date first if an
    /// earlier version made it.
    ///
    /// # Errors
    /// [`CopyError`] if an end cannot be opened, or if the target has records that are not from
    /// this source.
    pub fn open(from: &StoreAddress, to: &StoreAddress, now: Instant) -> Result<Self, CopyError> {
        let (source, target) = (open_source(from, now)?, open_target(to)?);
        Self::between(source, target, TABLES.iter().collect())
    }

    /// Begins the copy of one person of a database on PostgreSQL that has several, or goes on with
    /// one that was cut. Tokens, sign-in and the keys of either end stay as they are.
    ///
    /// # Errors
    /// [`CopyError`] as [`StoreCopy::open`], or if the database to copy from has no such person.
    pub fn open_person(
        from: &StoreAddress,
        to: &StoreAddress,
        person: &PersonName,
        now: Instant,
    ) -> Result<Self, CopyError> {
        if ![from, to].iter().any(|end| matches!(end, StoreAddress::Postgresql(_))) {
            return Err(CopyError::NoDatabase);
        }
        let (source, target) = (open_source_of(from, person, now)?, open_target_for(to, person)?);
        Self::between(source, target, TABLES.iter().filter(|table| !table.is_shared).collect())
    }

    fn between(
        source: Source,
        mut target: Target,
        tables: Vec<&'static Table>,
    ) -> Result<Self, CopyError> {
        let history = source.rows.history()?;
        let progress = match target.rows.progress()? {
            Some(progress) if progress.source.lineage != history.lineage => {
                return Err(CopyError::OtherSource);
            }
            Some(progress) => progress,
            None => {
                if target.rows.history()?.lineage == history.lineage {
                    return Err(CopyError::SameStore);
                }
                if let Some(access) = &target.access
                    && access.holds_access()?
                {
                    return Err(CopyError::NotEmpty);
                }
                let own: Vec<&Table> =
                    tables.iter().copied().filter(|table| table.name != "seals").collect();
                target.rows.begin_empty(&history, &own)?;
                CopyProgress { source: history, marks: Default::default() }
            }
        };
        Ok(Self {
            source: source.rows,
            target: target.rows,
            access: source.access.zip(target.access),
            tables,
            source_person: source.person,
            target_person: target.person,
            progress,
            size: StepSize::default(),
            streams: None,
        })
    }

    /// Returns the identifier of the person in the database on PostgreSQL, which names the folder
    /// of their space. If both ends are such databases, it is that of the target. `None` for the
    /// copy of a whole database.
    pub fn person(&self) -> Option<&str> {
        self.target_person().or(self.source_person())
    }

    /// Returns the identifier of the person at the source, if that is a database on PostgreSQL.
    pub fn source_person(&self) -> Option<&str> {
        self.source_person.as_deref()
    }

    /// Returns the identifier of the person at the target, if that is a database on PostgreSQL.
    pub fn target_person(&self) -> Option<&str> {
        self.target_person.as_deref()
    }

    /// Limits the steps of the copy.
    #[must_use]
    pub fn with_step_size(self, size: StepSize) -> Self {
        Self { size, ..self }
    }

    /// Counts what there is to copy.
    ///
    /// # Errors
    /// The error of a database.
    pub fn amount(&self) -> Result<CopyAmount, CopyError> {
        let mut amount = CopyAmount::default();
        for table in &self.tables {
            let rows = self.source.count(table)?;
            amount.rows += rows;
            amount.copied += self.target.count(table)?;
            if table.name == "records" {
                amount.records = rows;
            }
        }
        Ok(amount)
    }

    /// Does one step, in one transaction of the target. Returns `None` if nothing is left to copy;
    /// [`StoreCopy::verify`] then ends the copy.
    ///
    /// # Errors
    /// The error of a database. The step then left nothing, and can be done again.
    pub fn step(&mut self) -> Result<Option<CopyStep>, CopyError> {
        if self.remove_some()? {
            return Ok(Some(CopyStep::Removed));
        }
        for table in self.tables.clone() {
            if let Some(mark) = self.unfinished(table.name) {
                return self.copy_some(table, &mark).map(Some);
            }
        }
        match self.unfinished(CopyProgress::INDEX) {
            Some(mark) => self.index_some(&mark).map(Some),
            None => Ok(None),
        }
    }

    fn unfinished(&self, name: &str) -> Option<Mark> {
        self.progress.marks.get(name).filter(|mark| !mark.is_done).cloned()
    }

    /// Empties the tables that are to be copied anew, and begins them. Returns whether it removed
    /// something, and must be called again.
    fn remove_some(&mut self) -> Result<bool, CopyError> {
        let names = self.tables.iter().map(|table| table.name).chain([CopyProgress::INDEX]);
        let missing: Vec<&str> =
            names.filter(|name| !self.progress.marks.contains_key(*name)).collect();
        if missing.is_empty() {
            return Ok(false);
        }
        if missing.contains(&CopyProgress::INDEX) && self.target.remove_some_index(REMOVED)? {
            return Ok(true);
        }
        for table in
            self.tables.clone().into_iter().rev().filter(|table| missing.contains(&table.name))
        {
            if self.target.remove_some(table, REMOVED)? > 0 {
                return Ok(true);
            }
        }
        for name in missing {
            self.target.begin_table(name)?;
            self.progress.marks.insert(name.to_owned(), Mark { last: None, is_done: false });
        }
        Ok(false)
    }

    fn copy_some(&mut self, table: &'static Table, from: &Mark) -> Result<CopyStep, CopyError> {
        let mut to = from.clone();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while !to.is_done && rows.len() < self.size.rows && bytes < self.size.bytes {
            let limit = PAGE.min(self.size.rows);
            let page = self.source.rows_after(table, to.last.as_ref(), limit)?;
            to.is_done = page.len() < limit;
            to.last = page.last().map(|last| table.key_of(last)).or(to.last);
            bytes += page.iter().flatten().map(table::Cell::len).sum::<usize>();
            rows.extend(page);
        }
        let advance = Advance { name: table.name, from, to: &to };
        self.target.put(table, &rows, &advance)?;
        self.progress.marks.insert(table.name.to_owned(), to);
        Ok(CopyStep::Copied(rows.len() as u64))
    }

    fn index_some(&mut self, from: &Mark) -> Result<CopyStep, CopyError> {
        let streams = match self.streams.take() {
            Some(streams) => streams,
            None => self.read_streams()?,
        };
        let table = named("records")?;
        let limit = PAGE.min(self.size.rows);
        let page = self.target.rows_after(table, from.last.as_ref(), limit)?;
        let last = page.last().map(|last| table.key_of(last)).or_else(|| from.last.clone());
        let to = Mark { last, is_done: page.len() < limit };
        let mut records = Vec::with_capacity(page.len());
        for row in page {
            let cell = |column| table.cell(&row, column).ok_or(CopyError::Damaged);
            records.push(CopiedRecord {
                record: cell("id")?.number().ok_or(CopyError::Damaged)?,
                stream: cell("stream")?.number().ok_or(CopyError::Damaged)?,
                body: cell("body")?.bytes().ok_or(CopyError::Damaged)?.to_vec(),
            });
        }
        let advance = Advance { name: CopyProgress::INDEX, from, to: &to };
        self.target.index(&streams, &records, &advance)?;
        self.streams = Some(streams);
        self.progress.marks.insert(CopyProgress::INDEX.to_owned(), to);
        Ok(CopyStep::Indexed(records.len() as u64))
    }

    /// Reads the indexed fields of all streams of the target.
    fn read_streams(&self) -> Result<IndexedByStream, CopyError> {
        let table = named("streams")?;
        let mut streams = IndexedByStream::new();
        let mut after: Option<Key> = None;
        loop {
            let page = self.target.rows_after(table, after.as_ref(), PAGE)?;
            for row in &page {
                let cell = |column| table.cell(row, column).ok_or(CopyError::Damaged);
                let indexed = cell("terms")?.bytes().map(std::str::from_utf8);
                streams.insert(
                    cell("id")?.number().ok_or(CopyError::Damaged)?,
                    indexed.and_then(Result::ok).ok_or(CopyError::Damaged)?.to_owned(),
                );
            }
            match page.last() {
                Some(last) if page.len() == PAGE => after = Some(table.key_of(last)),
                _ => return Ok(streams),
            }
        }
    }

    /// Compares the checksums of both sides, each read on its own, and ends the copy: the target
    /// can be opened from now on. Passes the number of rows that were read to `on_rows`. Returns
    /// the checksums.
    ///
    /// # Errors
    /// [`CopyError::SourceChanged`] or [`CopyError::Differs`], after which another run copies the
    /// tables that differ anew; the error of a database.
    pub fn verify(mut self, on_rows: &mut dyn FnMut(u64)) -> Result<Vec<TableChecksum>, CopyError> {
        let before = self.source.history()?;
        self.target.put_history(&before)?;
        let (mut checksums, mut tables) = (Vec::new(), Vec::new());
        for table in self.tables.clone() {
            let is = checksum(&*self.target, table, on_rows)?;
            if checksum(&*self.source, table, on_rows)? != is {
                tables.push(table.name);
            }
            checksums.push(is);
        }
        let after = self.source.history()?;
        checksums.push(self.target.history()?.checksum());
        let mut differing = Vec::new();
        if let Some((source, target)) = &self.access {
            let (of_access, tables) = access::copy(source, target)?;
            checksums.extend(of_access);
            differing = tables;
        }
        if tables.is_empty() && !differing.is_empty() {
            return Err(CopyError::SourceChanged { tables: differing });
        }
        if tables.is_empty() && after == before && self.target.history()? == after {
            self.target.finish()?;
            return Ok(checksums);
        }
        let mut forget: BTreeSet<&str> = with_dependents(&tables).into_iter().collect();
        if INDEXED.iter().any(|name| forget.contains(name)) {
            forget.insert(CopyProgress::INDEX);
        }
        self.target.begin(&after, &forget)?;
        Err(match after == self.progress.source {
            true => CopyError::Differs { tables },
            false => CopyError::SourceChanged { tables },
        })
    }
}

fn named(name: &str) -> Result<&'static Table, CopyError> {
    TABLES.iter().find(|table| table.name == name).ok_or(CopyError::Damaged)
}

/// Where a copy reads.
struct Source {
    rows: Box<dyn TableReader>,
    access: Option<AccessEnd>,
    person: Option<String>,
}

/// What a copy fills.
struct Target {
    rows: Box<dyn CopyTarget>,
    access: Option<AccessEnd>,
    person: Option<String>,
}

fn open_source(from: &StoreAddress, now: Instant) -> Result<Source, CopyError> {
    match from {
        StoreAddress::Folder(path) => {
            let (rows, state) = open_source_folder(path, now)?;
            Ok(Source { rows, access: Some(AccessEnd::of_folder(state)?), person: None })
        }
        StoreAddress::Postgresql(address) => {
            let database = Database::open(address)?;
            let rows = whole(PgEnd::of_one_person(&database)?)?;
            Ok(Source { rows, access: Some(AccessEnd::on_server(database)), person: None })
        }
    }
}

fn open_source_of(
    from: &StoreAddress,
    person: &PersonName,
    now: Instant,
) -> Result<Source, CopyError> {
    match from {
        StoreAddress::Folder(path) => {
            let (rows, _) = open_source_folder(path, now)?;
            Ok(Source { rows, access: None, person: None })
        }
        StoreAddress::Postgresql(address) => {
            let end = PgEnd::of_person(&Database::open(address)?, person)?;
            let person = Some(end.person().to_owned());
            Ok(Source { rows: whole(end)?, access: None, person })
        }
    }
}

fn open_source_folder(
    path: &Path,
    now: Instant,
) -> Result<(Box<dyn TableReader>, StateDir), CopyError> {
    let state = StateDir::open_existing(path)?;
    if !copying::has_records(&state) {
        return Err(CopyError::NoRecords);
    }
    Ok((Box::new(SqliteEnd(copying::open_source(&state, now)?)), state))
}

/// Refuses the rows of a copy that did not come to its end.
fn whole(end: PgEnd) -> Result<Box<dyn TableReader>, CopyError> {
    match end.progress()? {
        Some(_) => Err(RecordsError::HalfCopied.into()),
        None => Ok(Box::new(end)),
    }
}

fn open_target(to: &StoreAddress) -> Result<Target, CopyError> {
    match to {
        StoreAddress::Folder(path) => {
            let state = StateDir::open(path)?;
            let rows = Box::new(SqliteEnd(copying::open_target(&state)?));
            Ok(Target { rows, access: Some(AccessEnd::in_folder(state)?), person: None })
        }
        StoreAddress::Postgresql(address) => {
            let database = Database::open(address)?;
            let rows = Box::new(PgEnd::of_one_person(&database)?);
            Ok(Target { rows, access: Some(AccessEnd::on_server(database)), person: None })
        }
    }
}

fn open_target_for(to: &StoreAddress, person: &PersonName) -> Result<Target, CopyError> {
    match to {
        StoreAddress::Folder(path) => {
            let rows = Box::new(SqliteEnd(copying::open_target(&StateDir::open(path)?)?));
            Ok(Target { rows, access: None, person: None })
        }
        StoreAddress::Postgresql(address) => {
            let rows = PgEnd::for_person(&Database::open(address)?, person)?;
            let person = Some(rows.person().to_owned());
            Ok(Target { rows: Box::new(rows), access: None, person })
        }
    }
}
