//! Imports rows of files as records of one stream, a batch at a time.
//!
//! A new stream is declared by the importer or from all rows of the first file, which is then read
//! twice. The declaration stays until the owner declares the stream anew. A batch of rows is one
//! transaction, so an import that is killed leaves whole batches. A second run skips the rows that
//! are stored and goes on behind them. With [`BadRowPolicy::StoreNothing`] the whole import is one
//! transaction.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant as Moment};

use stile_domain::permit::Principal;
use stile_domain::records::authority::OwnerPermit;
use stile_domain::records::blob;
use stile_domain::records::declaration::{Declaration, Semantics};
use stile_domain::records::identifiers::RecordKey;
use stile_domain::records::infer::{Inference, InferredDeclaration, KeyChoice, add_fields};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::row;
use stile_domain::records::source_version::{self, ChangeTimeField};
use stile_domain::records::unix_time::UnixTimes;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_records::RecordService;
use stile_records::batch::store_record;
use stile_records::declarations::{describe_primary_key, indexed_fields, parse_stored};
use stile_records::rows::row_keys::RowKeys;
use stile_store::records::{
    IncomingRecord, RecordPreparer, StreamedField, TargetStream, TextSource, UpsertOutcome,
    WriteBatch,
};

use crate::attachment;
use crate::attachment_text::{self, AttachmentTexts, TextReader};
use crate::collections::notion;
use crate::conversations;
use crate::export_age::{self, ExportAge};
use crate::importer::{
    ImportRow, ImportTarget, Importer, LocatedRow, StreamDeclaration, UnusableRow,
};
use crate::importers::contacts::{self, StoredCards};
use crate::importers::csv::{self, options::CsvOptions};
use crate::importers::markdown;
use crate::importers::notion_rows;
use crate::importers::wrapped_json::PARENT_ID;
use crate::input::{ImportInput, InputRow, InputRows, ReadRows, RowRecord, RowsAhead, read_ahead};
use crate::preset::PresetDeclaration;
use crate::reading::{ReadInputs, ReadingOptions, UndeclaredFields};
use crate::report::{BadRow, BadRowPolicy, ImportError, ImportReport, OnProgress, StoppedImport};
use crate::transaction;
use crate::versions::VersionKeys;

/// The time after which a batch ends. Other programs that write wait for it.
const BATCH_TIME: Duration = Duration::from_secs(3);

/// An import into one stream.
pub struct Import<'a> {
    /// The database that the records go into.
    pub services: &'a RecordService,
    /// Who imports. Must be the owner.
    pub caller: &'a Principal,
    /// The stream that the rows become records of.
    pub target: &'a ImportTarget,
    /// The fields that the key is made of. Empty unless the owner names them.
    pub key: &'a [String],
    /// How the files are read, as far as the owner says.
    pub reading: &'a ReadingOptions,
    /// What a bad row does.
    pub bad_rows: BadRowPolicy,
    /// The time of ingest of each record.
    pub now: Instant,
    /// Reads attached documents. `None` reads those only that need no process of their own.
    pub text_reader: Option<&'a TextReader>,
    /// Receives each row that cannot be stored, in the order of the files. If the import stops, the
    /// last rows may be of a batch that was not stored.
    pub on_rejected: Option<&'a dyn Fn(&BadRow)>,
}

/// What an import would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportPreview {
    /// How the files are read and the stream is declared, and what does not fit in the rows shown.
    pub report: ImportReport,
    /// The first rows as they will be stored, each as JSON.
    pub rows: Vec<String>,
}

/// A declaration, and its text as it is stored.
struct DeclaredStream {
    text: String,
    declaration: Declaration,
}

impl From<Declaration> for DeclaredStream {
    fn from(declaration: Declaration) -> Self {
        Self { text: declaration.to_json().to_string(), declaration }
    }
}

/// What an import will read, and the stream that it will store into.
struct PlannedImport {
    /// The inputs, each with the form of its file.
    inputs: Vec<ImportInput>,
    /// `None` if no input has a row to declare the stream from.
    stream: Option<DeclaredStream>,
}

/// The second pass of an import, which stores rows.
struct StoringPass<'a> {
    import: &'a Import<'a>,
    semantics: Semantics,
    versions: VersionKeys,
    /// How an older version of a record is known; `None` if the stream has no such field.
    change_time: Option<ChangeTimeField>,
    /// Whether a row can be older than a record: the stream had some before this import, or there
    /// are several files. `None` until that is asked.
    had_records: Option<bool>,
    completion: RowCompletion<'a>,
    report: ImportReport,
}

/// What is added to a row before it is stored: the texts of its attachments, and the record's key.
/// Another thread can do that.
#[derive(Clone)]
struct RowCompletion<'a> {
    /// Whether the stream declares the field for the texts of attachments.
    has_text_field: bool,
    /// What rows are compared with. `None` if no row can be stored.
    declaration: Option<Arc<Declaration>>,
    /// The fields whose numbers are stored as times.
    unix_times: UnixTimes,
    reader: Option<&'a TextReader>,
    keys: RowKeys,
    preparation: Arc<Preparation>,
}

/// Whether rows are prepared for the thread that stores.
#[derive(Default)]
struct Preparation {
    /// Prepares records, as soon as the stream is there.
    preparer: OnceLock<RecordPreparer>,
    /// Whether the last row was a new record. What is stored already is not prepared in vain.
    is_new: AtomicBool,
}

impl Import<'_> {
    /// Imports files and folders. Blocks.
    ///
    /// # Errors
    /// [`StoppedImport`], which reports the rows that are stored nonetheless: whole batches, or
    /// nothing with [`BadRowPolicy::StoreNothing`].
    pub fn run(
        &self,
        inputs: &[ImportInput],
        on_progress: OnProgress<'_>,
    ) -> Result<ImportReport, Box<StoppedImport>> {
        let stop = StoppedImport::before_any_row;
        let owner = self.caller.gate().owner().map_err(|problem| stop(problem.into()))?;
        let mut report = ImportReport::default();
        let PlannedImport { mut inputs, stream } =
            self.plan(&owner, inputs, &mut report, on_progress).map_err(stop)?;
        let declaration = stream.as_ref().map(|stream| &stream.declaration);
        let newest = declaration.and_then(export_age::newest);
        self.show_stored_cards(&mut inputs).map_err(stop)?;
        for input in &mut inputs {
            input.age = input.exported.map(|time| ExportAge::of(time, newest));
        }
        let inputs = inputs.as_slice();
        let mut pass = StoringPass {
            import: self,
            semantics: declaration.map_or_else(Semantics::default, Declaration::semantics),
            versions: VersionKeys::default(),
            change_time: declaration.and_then(ChangeTimeField::of),
            // A file can be older than the one before it.
            had_records: (inputs.len() > 1).then_some(true),
            completion: RowCompletion {
                has_text_field: declaration
                    .is_some_and(|declaration| declaration.field(attachment::TEXT_FIELD).is_some()),
                declaration: declaration.map(|declaration| Arc::new(declaration.clone())),
                unix_times: declaration.map(UnixTimes::remembered).unwrap_or_default(),
                reader: self.text_reader,
                keys: declaration.map_or_else(|| RowKeys::new(&[]), RowKeys::of),
                preparation: Arc::default(),
            },
            report,
        };
        let mut rows = InputRows::new(inputs, self.target.clone());
        let stored = match &stream {
            None => pass.report_bad_rows(&mut rows),
            Some(stream) => match self.bad_rows {
                BadRowPolicy::StoreNothing => {
                    pass.store_in_one(&owner, stream, &mut rows, on_progress)
                }
                BadRowPolicy::Skip => pass.store_in_batches(&owner, stream, inputs, on_progress),
            },
        };
        let joins = |input: &ImportInput| {
            input.importer.preset().is_some_and(|preset| !preset.derived_fields.is_empty())
        };
        let is_changed = pass.report.added + pass.report.changed > 0;
        let stored = match stored {
            Ok(()) if is_changed && inputs.iter().any(joins) => {
                conversations::join(self.services, self.caller, self.target)
            }
            stored => stored,
        };
        let stored = stored.and_then(|()| self.remember_exports(&owner, inputs));
        match stored {
            Ok(()) => Ok(pass.report),
            Err(error) if self.bad_rows == BadRowPolicy::StoreNothing => Err(stop(error)),
            Err(error) => Err(Box::new(StoppedImport { error, report: pass.report })),
        }
    }

    /// Returns what an import would do: how the files are read, how the stream is or will be
    /// declared, and its first rows. Blocks, and stores nothing.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn preview(
        &self,
        inputs: &[ImportInput],
        rows: usize,
        on_progress: OnProgress<'_>,
    ) -> Result<ImportPreview, ImportError> {
        let owner = self.caller.gate().owner()?;
        let stored = self.stored_stream(&owner)?;
        let declaration = stored.as_ref().map(|stream| &stream.declaration);
        let mut read = ReadInputs::find(inputs, self.reading, declaration)?;
        self.show_stored_cards(&mut read.inputs)?;
        let mut report = ImportReport { read_as: read.reasons, ..ImportReport::default() };
        if stored.is_none() && read.inputs.iter().any(|input| input.pages.is_some()) {
            report.read_as.extend(self.renamed_database()?);
        }
        let declaration = match stored {
            Some(stream) => Some(stream.declaration),
            None => {
                self.new_declaration(&read.inputs, &mut report.declared_because, on_progress)?
            }
        };
        let mut shown = Vec::with_capacity(rows);
        let mut remaining = InputRows::new(&read.inputs, self.target.clone());
        while shown.len() < rows
            && let Some(InputRow { located: LocatedRow { file, line, row }, .. }) =
                remaining.next()?
        {
            match row {
                Ok(mut row) => {
                    if let Some(declaration) = &declaration {
                        UnixTimes::remembered(declaration).apply(&mut row.fields);
                        report.compare(declaration, &row.fields, (&file, line));
                    }
                    shown.push(row::to_json(&row.fields));
                }
                Err(bad) => report.add_bad_row(BadRow::new(&file, line, bad)),
            }
        }
        Ok(ImportPreview { report, rows: shown })
    }

    /// Lets files of contacts be compared with the cards that the stream has.
    fn show_stored_cards(&self, inputs: &mut [ImportInput]) -> Result<(), ImportError> {
        let has_cards = |input: &ImportInput| input.importer.name == contacts::IMPORTER.name;
        if inputs.iter().any(has_cards) {
            let cards = Arc::new(StoredCards::of(self.services, self.caller, self.target)?);
            let own = inputs.iter_mut().filter(|input| has_cards(input));
            own.for_each(|input| input.cards = Some(Arc::clone(&cards)));
        }
        Ok(())
    }

    /// Settles how the files are read and how the stream is declared. Reports both. Stores nothing
    /// but what the owner adds to the declaration of a stream.
    fn plan(
        &self,
        owner: &OwnerPermit,
        inputs: &[ImportInput],
        report: &mut ImportReport,
        on_progress: OnProgress<'_>,
    ) -> Result<PlannedImport, ImportError> {
        let stored = self.stored_stream(owner)?;
        let declaration = stored.as_ref().map(|stream| &stream.declaration);
        let read = ReadInputs::find(inputs, self.reading, declaration)?;
        report.read_as = read.reasons;
        let inputs = read.inputs;
        if stored.is_none() && inputs.iter().any(|input| input.pages.is_some()) {
            report.read_as.extend(self.renamed_database()?);
        }
        let stream = match stored {
            Some(stored) => {
                let changed =
                    self.changed_declaration(&stored, &inputs, &read.memory, report, on_progress)?;
                Some(match changed {
                    Some(declaration) => self.redeclare(owner, &stored, declaration)?,
                    None => stored,
                })
            }
            None => {
                let because = &mut report.declared_because;
                let declaration = self.new_declaration(&inputs, because, on_progress)?;
                declaration
                    .map(|declaration| match read.memory.remember_in(&declaration) {
                        Some(json) => Declaration::parse(&json).map_err(ImportError::Key),
                        None => Ok(declaration),
                    })
                    .transpose()?
                    .map(DeclaredStream::from)
            }
        };
        Ok(PlannedImport { inputs, stream })
    }

    /// Says which stream of the connection has the same database of Notion under another name.
    fn renamed_database(&self) -> Result<Option<String>, ImportError> {
        let ImportTarget { connection, stream } = self.target;
        let streams = self.services.list_streams(self.caller, self.now)?;
        let others = streams.iter().filter(|own| own.connection == *connection);
        let stored = notion::stored_as(stream.as_str(), others.map(|own| own.stream.as_str()));
        Ok(stored.map(|stored| {
            format!(
                "the stream `{stored}` has the same database under another name: import into it, so \
                 that no row is stored twice"
            )
        }))
    }

    /// Returns the declaration of a stream that exists.
    fn stored_stream(&self, owner: &OwnerPermit) -> Result<Option<DeclaredStream>, ImportError> {
        let ImportTarget { connection, stream } = self.target;
        let records = &self.services.records;
        let Some(stored) = records.write(owner, |batch| batch.target(connection, stream))? else {
            return Ok(None);
        };
        let declaration = parse_stored(&stored.declaration)?;
        if !self.key.is_empty() && self.key != declaration.primary_key() {
            let declared = describe_primary_key(declaration.primary_key());
            return Err(ImportError::OtherKey { declared });
        }
        Ok(Some(DeclaredStream { text: stored.declaration, declaration }))
    }

    /// Returns the declaration of a stream with the fields that the owner adds and what it is to
    /// remember; `None` if nothing changes.
    fn changed_declaration(
        &self,
        stored: &DeclaredStream,
        inputs: &[ImportInput],
        memory: &CsvOptions,
        report: &mut ImportReport,
        on_progress: OnProgress<'_>,
    ) -> Result<Option<Declaration>, ImportError> {
        let mut changed = None;
        if self.reading.undeclared == UndeclaredFields::Declare {
            for input in inputs {
                let rows = InputRows::new(std::slice::from_ref(input), self.target.clone());
                let inferred = self.infer(input, rows, on_progress)?;
                let Some((inferred, _)) = inferred else { continue };
                let declaration = changed.as_ref().unwrap_or(&stored.declaration);
                let added = add_fields(declaration, &inferred).map_err(ImportError::Key)?;
                if let Some(added) = added {
                    report.added_fields.extend(added.names);
                    changed = Some(added.declaration);
                }
            }
        }
        let declaration = changed.as_ref().unwrap_or(&stored.declaration);
        match memory.remember_in(declaration) {
            Some(json) => Declaration::parse_stored(&json).map(Some).map_err(ImportError::Key),
            None => Ok(changed),
        }
    }

    /// Declares a stream again, unless another program did so meanwhile.
    fn redeclare(
        &self,
        owner: &OwnerPermit,
        stored: &DeclaredStream,
        declaration: Declaration,
    ) -> Result<DeclaredStream, ImportError> {
        let ImportTarget { connection, stream } = self.target;
        let changed = DeclaredStream::from(declaration);
        transaction::write(&self.services.records, owner, |batch| {
            match batch.target(connection, stream)? {
                Some(target) if target.declaration == stored.text => {
                    let indexed = indexed_fields(&changed.declaration);
                    batch.redeclare(&target, &changed.text, &indexed).map(|_| Ok(()))
                }
                _ => Ok(Err(ImportError::Redeclared)),
            }
        })?;
        Ok(changed)
    }

    /// Lets the declaration of the stream remember the newest export, now that its rows are stored.
    fn remember_exports(
        &self,
        owner: &OwnerPermit,
        inputs: &[ImportInput],
    ) -> Result<(), ImportError> {
        if inputs.iter().all(|input| input.exported.is_none()) {
            return Ok(());
        }
        let Some(stored) = self.stored_stream(owner)? else { return Ok(()) };
        let times = inputs.iter().filter_map(|input| input.exported);
        let Some(json) = export_age::remember_in(&stored.declaration, times) else {
            return Ok(());
        };
        let declaration = Declaration::parse_stored(&json).map_err(ImportError::Key)?;
        self.redeclare(owner, &stored, declaration).map(drop)
    }

    /// Returns the declaration that a new stream will get; `None` if no input has a row to infer it
    /// from.
    fn new_declaration(
        &self,
        inputs: &[ImportInput],
        because: &mut Vec<String>,
        on_progress: OnProgress<'_>,
    ) -> Result<Option<Declaration>, ImportError> {
        // Of several exports the newest has the columns of now, and it is the last one.
        let are_exports = inputs.iter().all(|input| input.exported.is_some());
        let mut inputs: Vec<&ImportInput> = inputs.iter().collect();
        if are_exports {
            inputs.reverse();
        }
        for input in inputs {
            let rows = InputRows::new(std::slice::from_ref(input), self.target.clone());
            let declared = match input.importer.preset() {
                None => self.infer(input, rows, on_progress)?,
                Some(preset) => has_usable_row(rows)?
                    .then(|| preset.declaration(self.key).map_err(ImportError::Key))
                    .transpose()?,
            };
            if let Some((declaration, reasons)) = declared {
                *because = reasons;
                return Ok(Some(declaration));
            }
        }
        Ok(None)
    }

    /// Infers a declaration and the reasons for it from all rows of an input; `None` if there is no
    /// usable row.
    fn infer(
        &self,
        input: &ImportInput,
        mut rows: InputRows<'_>,
        on_progress: OnProgress<'_>,
    ) -> Result<Option<(Declaration, Vec<String>)>, ImportError> {
        let importer = input.importer;
        let mut inference = Inference::new();
        if let Some(form) = &input.csv_form {
            inference.expect(form.numbers.iter().cloned(), form.dates.iter().cloned());
        }
        let (mut have_parents, mut has_parent) = (true, false);
        inference.count_within(PARENT_ID);
        while let Some(InputRow { located: LocatedRow { file, line, row }, .. }) = rows.next()? {
            match row {
                Ok(ImportRow { mut fields, streamed_text, .. }) => {
                    // The type of a streamed text is known without reading it.
                    fields.extend(
                        streamed_text
                            .map(|(name, _)| (name.to_owned(), FieldValue::Text(String::new()))),
                    );
                    let is_within = fields.iter().any(|(name, _)| name == PARENT_ID);
                    (have_parents, has_parent) =
                        (have_parents && is_within, has_parent || is_within);
                    inference.observe(&fields);
                }
                Err(bad) if self.bad_rows == BadRowPolicy::StoreNothing => {
                    return Err(ImportError::BadRow(BadRow::new(&file, line, bad)));
                }
                Err(_) => {}
            }
            rows.report_progress(on_progress, false);
        }
        if inference.rows() == 0 {
            return Ok(None);
        }
        let fixed = match importer.declaration {
            _ if !self.key.is_empty() => None,
            _ if input.pages.is_some() => Some((notion_rows::PAGE_FIELD, notion_rows::REASON)),
            StreamDeclaration::InferredWithKey { field, reason } => Some((field, reason)),
            _ => None,
        };
        let key = match fixed {
            Some((field, reason)) => KeyChoice::OfForm(field.to_owned(), reason),
            None if self.key.is_empty() => KeyChoice::Infer,
            None => KeyChoice::Given(self.key.to_vec()),
        };
        let infers_key = key == KeyChoice::Infer;
        if has_parent && !have_parents {
            // What differs within each parent need not differ among rows without one.
            inference.forget_keys();
        }
        let inferred = match importer.reads_numbers_as_times() {
            true => inference.finish_with_unix_times(key),
            false => inference.finish(key),
        };
        let mut inferred = inferred.map_err(ImportError::Key)?;
        if infers_key && have_parents {
            add_parent_to_key(&mut inferred)?;
        }
        Ok(Some((inferred.declaration, inferred.reasons)))
    }

    /// Returns the stream to write to, and declares it if it is new.
    fn open_stream(
        &self,
        batch: &mut WriteBatch<'_>,
        stream: &DeclaredStream,
    ) -> Result<Result<TargetStream, ImportError>, Problem> {
        let ImportTarget { connection, stream: name } = self.target;
        match batch.target(connection, name)? {
            Some(target) if target.declaration == stream.text => Ok(Ok(target)),
            Some(_) => Ok(Err(ImportError::Redeclared)),
            None => {
                let indexed = indexed_fields(&stream.declaration);
                batch.declare(connection, name, &stream.text, &indexed).map(Ok)
            }
        }
    }
}

/// Puts the identifier of the object around the rows before the key. Rows of another chat count
/// anew.
fn add_parent_to_key(inferred: &mut InferredDeclaration) -> Result<(), ImportError> {
    let [own] = inferred.declaration.primary_key() else { return Ok(()) };
    if own == PARENT_ID {
        return Ok(());
    }
    let key =
        format!("`{PARENT_ID}` and `{own}` are the key: identifiers can count anew elsewhere");
    let mut json = inferred.declaration.to_json();
    if let Some(members) = json.as_object_mut() {
        members.insert("primary_key".to_owned(), vec![PARENT_ID, own].into());
    }
    inferred.declaration = Declaration::parse(&json).map_err(ImportError::Key)?;
    inferred.reasons.retain(|line| !line.contains(" is the key: "));
    inferred.reasons.insert(0, key);
    Ok(())
}

/// Gives a row those values of its stored record that depend on other rows.
fn keep_derived(
    batch: &WriteBatch<'_>,
    target: &TargetStream,
    preset: &PresetDeclaration,
    fields: &mut RecordFields,
) -> Result<(), Problem> {
    if preset.derived_fields.is_empty() {
        return Ok(());
    }
    let key = fields.iter().find(|(name, _)| name == preset.key);
    let Some((_, FieldValue::Text(key))) = key else { return Ok(()) };
    let Ok(key) = RecordKey::parse(key) else { return Ok(()) };
    let is_derived = |name: &str| preset.derived_fields.contains(&name);
    for (name, stored) in batch.short_values(target, &key, is_derived)? {
        if let Some((_, value)) = fields.iter_mut().find(|(own, _)| *own == name) {
            *value = stored;
        }
    }
    Ok(())
}

/// Returns whether the stored record with a row's key is a later version of the row, and the field
/// that tells so: the one that the stream declares, or else one that either of them has. `None` if
/// no field tells.
fn is_older(
    batch: &WriteBatch<'_>,
    target: &TargetStream,
    declared: Option<&ChangeTimeField>,
    key: &RecordKey,
    row: &RecordFields,
) -> Result<Option<(ChangeTimeField, bool)>, Problem> {
    let is_declared = |name: &str| declared.is_some_and(|field| field.name == name);
    let is_wanted = |name: &str| is_declared(name) || source_version::is_time_of_change(name);
    let stored = batch.short_values(target, key, is_wanted)?;
    let by_declared = declared.and_then(|field| {
        let value = |fields: &RecordFields| {
            fields.iter().find(|(name, _)| *name == field.name).map(|(_, value)| value.clone())
        };
        let is_older = field.is_older(value(row).as_ref(), value(&stored).as_ref())?;
        Some((field.clone(), is_older))
    });
    Ok(by_declared.or_else(|| ChangeTimeField::that_tells(row, &stored)))
}

fn has_usable_row(mut rows: InputRows<'_>) -> Result<bool, ImportError> {
    while let Some(row) = rows.next()? {
        if row.located.row.is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

impl RowCompletion<'_> {
    /// Completes a row as far as no stored record counts.
    fn complete(
        &mut self,
        row: &mut InputRow,
        report: &mut ImportReport,
    ) -> Result<(), ImportError> {
        if let Ok(read) = &mut row.located.row {
            self.unix_times.apply(&mut read.fields);
            // Of all tables only those of Notion have such a key.
            if let Some(declaration) = &self.declaration
                && row.importer.name == csv::IMPORTER.name
            {
                notion_rows::conform(&mut read.fields, declaration);
            }
        }
        self.read_texts(row, report)?;
        if let (Some(declaration), LocatedRow { file, line, row: Ok(read) }) =
            (&self.declaration, &row.located)
        {
            report.compare(declaration, &read.fields, (file, *line));
        }
        if self.versioned_by(row.importer).is_none()
            && let Ok(read) = &mut row.located.row
        {
            match self.record_of(read) {
                Ok(record) => row.record = Some(record),
                Err(bad) => row.located.row = Err(bad),
            }
        }
        Ok(())
    }

    /// Returns the preset whose rows get a key of their own if they are versions of others.
    fn versioned_by(&self, importer: &Importer) -> Option<&'static PresetDeclaration> {
        importer.preset().filter(|preset| self.keys.is_single_field(preset.key))
    }

    /// Gives a row all fields of its record. Returns the key, and the prepared record if the stream
    /// is known.
    fn record_of(&mut self, row: &mut ImportRow) -> Result<RowRecord, UnusableRow> {
        let text = row.attachment_text.take();
        row.fields.extend(text.map(|text| (attachment::TEXT_FIELD.to_owned(), text)));
        blob::add_fetch_urls(&mut row.fields);
        let key = self.keys.next_key(&row.fields);
        let key = key.map_err(|bad| UnusableRow::new(bad.code(), bad))?;
        let Preparation { preparer, is_new } = &*self.preparation;
        let is_wanted = row.streamed_text.is_none() && is_new.load(Ordering::Relaxed);
        let preparer = preparer.get().filter(|_| is_wanted);
        Ok((key, preparer.and_then(|preparer| preparer.prepare(&row.fields))))
    }

    /// Reads the texts of a row's attachments, and counts them.
    fn read_texts(&self, row: &mut InputRow, report: &mut ImportReport) -> Result<(), ImportError> {
        let Ok(row) = &mut row.located.row else { return Ok(()) };
        if !self.has_text_field {
            let documents =
                row.attachments.iter().filter(|own| attachment_text::kind_of(own).is_some());
            report.undeclared_texts += documents.count() as u64;
            return Ok(());
        }
        let texts = AttachmentTexts::of(&row.attachments, self.reader)
            .map_err(ImportError::NoTextReader)?;
        row.attachment_text = texts.field();
        report.texts_read += texts.read;
        report.unread.damaged += texts.unread.damaged;
        report.unread.too_large += texts.unread.too_large;
        report.unread.without_text += texts.unread.without_text;
        Ok(())
    }
}

impl StoringPass<'_> {
    /// Reports the rows of an import in which every row is bad.
    fn report_bad_rows(&mut self, rows: &mut InputRows<'_>) -> Result<(), ImportError> {
        while let Some(InputRow { located: LocatedRow { file, line, row }, .. }) = rows.next()? {
            if let Err(bad) = row {
                let bad = BadRow::new(&file, line, bad);
                if self.import.bad_rows == BadRowPolicy::StoreNothing {
                    return Err(ImportError::BadRow(bad));
                }
                self.reject(bad);
            }
        }
        rows.take_left_out(&mut self.report);
        Ok(())
    }

    fn reject(&mut self, bad: BadRow) {
        if let Some(on_rejected) = self.import.on_rejected {
            on_rejected(&bad);
        }
        self.report.add_bad_row(bad);
    }

    fn store_in_one(
        &mut self,
        owner: &OwnerPermit,
        stream: &DeclaredStream,
        rows: &mut InputRows<'_>,
        on_progress: OnProgress<'_>,
    ) -> Result<(), ImportError> {
        self.write(owner, stream, |pass, batch, target| {
            loop {
                let next = rows.next().and_then(|mut row| {
                    let StoringPass { completion, report, .. } = pass;
                    row.iter_mut().try_for_each(|row| completion.complete(row, report))?;
                    Ok(row)
                });
                match next {
                    Ok(Some(mut row)) => pass.store(batch, target, &mut row)?,
                    Ok(None) => {
                        rows.take_left_out(&mut pass.report);
                        return Ok(Ok(()));
                    }
                    Err(error) => return Ok(Err(error)),
                }
                if let Some(bad) = pass.report.bad.pop() {
                    return Ok(Err(ImportError::BadRow(bad)));
                }
                rows.report_progress(on_progress, true);
            }
        })
    }

    fn store_in_batches(
        &mut self,
        owner: &OwnerPermit,
        stream: &DeclaredStream,
        inputs: &[ImportInput],
        on_progress: OnProgress<'_>,
    ) -> Result<(), ImportError> {
        let load = self.import.services.records.bulk_load(owner)?;
        let target = self.import.target;
        // Keys that count equal rows are all made in the thread that reads.
        let mut completion = self.completion.clone();
        let complete = move |row: &mut InputRow, report: &mut _| completion.complete(row, report);
        read_ahead(inputs, target, complete, |ahead| {
            let mut rest = None;
            while let Some(first) = rest.take().map(Ok).or_else(|| ahead.wait()) {
                let most = load.batch_records();
                rest = self.store_batch(owner, stream, first?, ahead, most, on_progress)?;
            }
            Ok(())
        })
    }

    /// Stores rows in one transaction: the first ones, and those that follow as long as they are
    /// read soon. So no other program waits long for a slow disk or a large document. Returns the
    /// rows that the next batch begins with, if the time was over before them.
    fn store_batch(
        &mut self,
        owner: &OwnerPermit,
        stream: &DeclaredStream,
        first: ReadRows,
        ahead: &RowsAhead,
        most: usize,
        on_progress: OnProgress<'_>,
    ) -> Result<Option<ReadRows>, ImportError> {
        let before = self.report.clone();
        let mut progress = first.progress;
        let mut rest = Ok(None);
        let preparation = Arc::clone(&self.completion.preparation);
        let records = &self.import.services.records;
        let stored = self.write(owner, stream, |pass, batch, target| {
            let prepared_for =
                preparation.preparer.get_or_init(|| records.preparer(target)).target();
            // The same stream is known faster if it is the same value.
            let target = if prepared_for == target { prepared_for } else { target };
            let begun = Moment::now();
            let mut next = Some(Ok(first));
            let mut count = 0;
            while let Some(read) = next.take() {
                let mut read = match read {
                    Ok(read) => read,
                    Err(error) => {
                        rest = Err(error);
                        break;
                    }
                };
                progress = read.progress;
                pass.report.add(std::mem::take(&mut read.report));
                let mut is_over = false;
                while !is_over && let Some(row) = read.next() {
                    pass.store(batch, target, row)?;
                    count += 1;
                    is_over = begun.elapsed() >= BATCH_TIME;
                }
                if !read.is_stored() {
                    rest = Ok(Some(read));
                    break;
                }
                ahead.give_back(read);
                if count < most && !is_over {
                    next = ahead.soon();
                }
            }
            Ok(Ok(()))
        });
        if let Err(error) = stored {
            self.report = before;
            return Err(error);
        }
        on_progress(progress);
        rest
    }

    /// Runs a transaction on the stream, and rolls it back if `store` returns either error.
    fn write(
        &mut self,
        owner: &OwnerPermit,
        stream: &DeclaredStream,
        store: impl FnOnce(
            &mut Self,
            &mut WriteBatch<'_>,
            &TargetStream,
        ) -> Result<Result<(), ImportError>, Problem>,
    ) -> Result<(), ImportError> {
        let import = self.import;
        transaction::write(&import.services.records, owner, |batch| {
            match import.open_stream(batch, stream)? {
                Ok(target) => store(self, batch, &target),
                Err(error) => Ok(Err(error)),
            }
        })
    }

    /// Stores a row, and counts it or reports why it cannot be stored.
    fn store(
        &mut self,
        batch: &mut WriteBatch<'_>,
        target: &TargetStream,
        InputRow { importer, age, located, record }: &mut InputRow,
    ) -> Result<(), Problem> {
        let LocatedRow { file, line, row } = located;
        let stored = match row {
            Ok(row) => self.upsert(batch, target, (importer, *age), row, record)?,
            Err(bad) => Err(bad.clone()),
        };
        if let Err(bad) = stored {
            self.reject(BadRow::new(file, *line, bad));
        }
        Ok(())
    }

    fn upsert(
        &mut self,
        batch: &mut WriteBatch<'_>,
        target: &TargetStream,
        (importer, age): (&Importer, Option<ExportAge>),
        row: &mut ImportRow,
        record: &mut Option<RowRecord>,
    ) -> Result<Result<(), UnusableRow>, Problem> {
        // A row that says when it was changed, or whose export does, is a version of the record
        // with its key, and no copy.
        let says_when = self.change_time.as_ref().is_some_and(|field| {
            importer.preset().is_some_and(|preset| !preset.keys_can_be_forged)
                && row.fields.iter().any(|(name, _)| *name == field.name)
        });
        let is_version = says_when || age.is_some();
        if let Some(field) = self.change_time.as_ref().filter(|_| says_when)
            && let Some(preset) = self.completion.versioned_by(importer)
        {
            self.versions.number(preset, &field.name, &mut row.fields);
        }
        if let Some(preset) = self.completion.versioned_by(importer).filter(|_| !is_version) {
            self.versions.make_unique(preset, &mut row.fields, |key, fields| {
                // The stored record has addresses of blobs, which the row gets below.
                let mut fields = fields.clone();
                blob::add_fetch_urls(&mut fields);
                // An earlier version did not read the text of attachments.
                let text = [attachment::TEXT_FIELD];
                let ignored = [preset.owner_fields, preset.derived_fields, &text].concat();
                batch.differs_from(target, key, &fields, &ignored)
            })?;
        }
        if let Some(preset) = importer.preset() {
            keep_derived(batch, target, preset, &mut row.fields)?;
        }
        let (key, prepared) = match record {
            Some(record) => record,
            None => match self.completion.record_of(row) {
                Ok(made) => record.insert(made),
                Err(bad) => return Ok(Err(bad)),
            },
        };
        // Files are what their owner has now, whatever time they say.
        let mut is_known = None;
        // The fields of a preset are all declared.
        let declared = self.change_time.as_ref();
        if importer.name != markdown::IMPORTER.name
            && (declared.is_some() || importer.preset().is_none())
        {
            let had_records = match self.had_records {
                Some(had) => had,
                None => *self.had_records.insert(batch.has_records(target)?),
            };
            if had_records || says_when {
                is_known = is_older(batch, target, declared, key, &row.fields)?;
            }
            if let Some((field, true)) = &is_known {
                self.report.count_older(&field.name);
                return Ok(Ok(()));
            }
        }
        if let Some(age @ (ExportAge::Outdated | ExportAge::Undated)) = age
            && is_known.is_none()
            && batch.differs_from(target, key, &row.fields, &[])?
        {
            self.report.count_outdated(age);
            return Ok(Ok(()));
        }
        for attachment in &row.attachments {
            if let Err(refused) = attachment.store(batch)? {
                return Ok(Err(UnusableRow::new("not_stored", refused)));
            }
        }
        let streamed = row
            .streamed_text
            .iter_mut()
            .map(|(name, file)| StreamedField { name, text: file as &mut dyn TextSource })
            .collect();
        let (emitted, fields) = (self.import.now, &row.fields);
        let incoming = IncomingRecord { key, emitted, fields, streamed };
        let stored = store_record(batch, target, self.semantics, incoming, prepared.as_mut())?;
        self.completion.preparation.is_new.store(stored == UpsertOutcome::Added, Ordering::Relaxed);
        let stored = self.report.count(stored);
        if stored.is_ok() {
            self.report.replaced += row.replaced;
        }
        Ok(stored)
    }
}

#[cfg(test)]
mod tests;
