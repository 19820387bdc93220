//! The rows of a database of Notion, each with the identifier of its page, and with lists where a
//! row has several texts of a property.
//!
//! A row of the table that an export has is a page, whose file has the identifier in its name. So a
//! row keeps its record when its cells change, its title too. The table itself has no identifier: a
//! row and a page belong together by the title, which is the first column. A row whose page is not
//! in the export, or whose title several pages or rows have, gets the digest of its title instead.
//!
//! The table does not say which properties have several texts (multi-select, people): `a, b` may be
//! one text. A column is one of lists if a cell has several texts with commas between them, one of
//! which is the whole of another cell, and half of these texts occur in two cells; or if it is
//! named like tags. A stream that is declared decides for the rows of a later export.
//!
//! *Source*: as `collections::notion`.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read as _};
use std::sync::{Arc, OnceLock};

use serde_json::json;
use stile_domain::hash::ContentHash;
use stile_domain::records::declaration::{Declaration, JsonType};
use stile_domain::records::field_name;
use stile_domain::records::list_members::each_member;
use stile_domain::records::stored_body::StoredValue;
use stile_domain::records::value::{FieldValue, RecordFields};

use super::notion_pages::{identified, title_of};
use super::whole_file::Keys;
use crate::importer::{ImportRow, ImportRows, LeftOutRows, LocatedRow};
use crate::source::ArchivedFiles;

/// The field that has the identifier of the page.
pub const PAGE_FIELD: &str = "page_id";
/// Why this field is the key, for the person who imports.
pub const REASON: &str = "`page_id` is the key: the identifier of the row's page where the export \
    has it, otherwise the digest of the title in the first column, so that a row whose title \
    changes is then added as a new one";

/// How much of a page is read to find its title, in bytes.
const TITLE_BYTES: u64 = 4096;

/// The identifiers of pages by their titles; `None` for a title of several pages.
type Identifiers = HashMap<String, Option<String>>;

/// The pages of a database, which are files of an export.
#[derive(Debug)]
pub struct DatabasePages {
    files: ArchivedFiles,
    /// Read once, for all passes.
    found: OnceLock<Arc<FoundInExport>>,
}

/// What the files of an export show of a table.
#[derive(Debug)]
struct FoundInExport {
    ids: Identifiers,
    /// The columns of lists.
    lists: HashSet<String>,
}

impl DatabasePages {
    /// The pages in these files of an export.
    pub(crate) fn new(files: ArchivedFiles) -> Self {
        Self { files, found: OnceLock::new() }
    }

    /// Opens the rows of the table, each with its page. `title` is the name of the first column.
    ///
    /// # Errors
    /// Those of `open`, and of reading the rows.
    pub(crate) fn rows(
        &self,
        open: &dyn Fn() -> io::Result<Box<dyn ImportRows>>,
        title: Option<&str>,
    ) -> io::Result<Box<dyn ImportRows>> {
        let title = title.unwrap_or_default().to_owned();
        let found = match self.found.get() {
            Some(found) => Arc::clone(found),
            None => {
                let lists = columns_of_lists(&mut *open()?, &title)?;
                let found = Arc::new(FoundInExport { ids: self.read(), lists });
                Arc::clone(self.found.get_or_init(|| found))
            }
        };
        Ok(Box::new(PageRows {
            rows: open()?,
            found,
            title,
            keys: Keys::default(),
            without_page: 0,
        }))
    }

    /// Reads the titles of all pages. A page that cannot be read has that of its name.
    fn read(&self) -> Identifiers {
        let mut ids = Identifiers::new();
        for (_, entry) in self.files.entries() {
            let Some((named, id)) = identified(&entry.name) else { continue };
            let mut beginning = Vec::new();
            if let Ok(file) = self.files.archive.read(entry) {
                // What could be read counts.
                let _ = file.take(TITLE_BYTES).read_to_end(&mut beginning);
            }
            let title = title_of(&String::from_utf8_lossy(&beginning)).unwrap_or(named);
            ids.entry(title).and_modify(|id| *id = None).or_insert(Some(id));
        }
        ids
    }
}

/// The plain names of properties that usually have several texts.
const LISTS: &str = "tags tag labels categories topics keywords genres genre multiselect skills \
    schlagwörter schlagworte kategorien themen etiquetas étiquettes";
/// The longest text of such a property, in characters.
const OPTION_CHARS: usize = 100;
/// How many different texts such a property has at most.
const MOST_OPTIONS: usize = 1000;
const BETWEEN: &str = ", ";

/// What a column shows of its texts.
#[derive(Default)]
struct ColumnTexts {
    /// In how many cells a text is, and whether it is the whole of one.
    texts: HashMap<String, (u64, bool)>,
    /// The texts of cells with several.
    of_several: HashSet<String>,
    /// Whether a cell has what no option can be.
    has_other: bool,
}

impl ColumnTexts {
    fn observe(&mut self, cell: &str) {
        let parts: Vec<&str> = cell.split(BETWEEN).collect();
        for part in &parts {
            let is_option = !part.is_empty()
                && part.chars().count() <= OPTION_CHARS
                && !part.contains(['\n', '→'])
                && self.texts.len() < MOST_OPTIONS;
            if !is_option {
                self.has_other = true;
                return;
            }
            let seen = self.texts.entry((*part).to_owned()).or_default();
            *seen = (seen.0 + 1, seen.1 || parts.len() == 1);
            if parts.len() > 1 {
                self.of_several.insert((*part).to_owned());
            }
        }
    }

    fn has_lists(&self, name: &str) -> bool {
        if self.has_other || self.of_several.is_empty() {
            return false;
        }
        let seen = |text: &String| self.texts.get(text).copied().unwrap_or_default();
        let repeated = self.of_several.iter().filter(|text| seen(text).0 > 1).count();
        let is_alone = self.of_several.iter().any(|text| seen(text).1);
        field_name::rank(name, LISTS).is_some() || is_alone && 2 * repeated >= self.of_several.len()
    }
}

/// Reads a table, and returns the names of its columns of lists.
fn columns_of_lists(rows: &mut dyn ImportRows, title: &str) -> io::Result<HashSet<String>> {
    let mut columns: HashMap<String, ColumnTexts> = HashMap::new();
    while let Some(LocatedRow { row, .. }) = rows.next()? {
        for (name, value) in row.map(|row| row.fields).unwrap_or_default() {
            if name != title {
                columns.entry(name).or_default().observe(&text_of(&value));
            }
        }
    }
    let of_lists = columns.into_iter().filter(|(name, texts)| texts.has_lists(name));
    Ok(of_lists.map(|(name, _)| name).collect())
}

/// Returns a cell as the table has it.
fn text_of(value: &FieldValue) -> String {
    match value {
        FieldValue::Text(text) => text.clone(),
        other => other.to_json(),
    }
}

/// Turns the cells of a row of Notion into what its stream declares: lists, or texts.
pub(crate) fn conform(fields: &mut RecordFields, declaration: &Declaration) {
    if declaration.primary_key() != [PAGE_FIELD] {
        return;
    }
    for (name, value) in fields {
        let Some(declared) = declaration.field(name) else { continue };
        match value {
            FieldValue::Json(list) if declared.types.contains(JsonType::String) => {
                let mut texts = Vec::new();
                each_member(list, &mut |member| {
                    if let Some(StoredValue::Text(text)) = member {
                        texts.push(text.to_owned());
                    }
                });
                *value = FieldValue::Text(texts.join(BETWEEN));
            }
            FieldValue::Json(_) => {}
            _ if declared.is_list() => *value = list_of(value),
            _ => {}
        }
    }
}

fn list_of(cell: &FieldValue) -> FieldValue {
    let text = text_of(cell);
    FieldValue::Json(json!(text.split(BETWEEN).collect::<Vec<_>>()).to_string())
}

/// The rows of a table, each with the identifier of its page.
struct PageRows {
    rows: Box<dyn ImportRows>,
    found: Arc<FoundInExport>,
    /// The name of the first column.
    title: String,
    keys: Keys,
    /// How many rows have no page in the export.
    without_page: u64,
}

/// What is said of rows without a page.
const WITHOUT_PAGE: &str = "the page of a row, which is not in the files that were named. Name all \
    parts of an export together: with its page the row has another key, and is stored again";

impl PageRows {
    /// Adds the identifier of its page to a row, unless the table has a column of that name.
    fn identify(&mut self, row: &mut ImportRow) {
        if row.fields.iter().any(|(name, _)| name == PAGE_FIELD) {
            return;
        }
        let title = row.fields.iter().find(|(name, _)| *name == self.title);
        let title = title.map(|(_, value)| text_of(value)).unwrap_or_default();
        let title = title.trim();
        let page = self.found.ids.get(title).cloned();
        self.without_page += u64::from(page.is_none());
        let page = page.flatten();
        let id =
            page.unwrap_or_else(|| format!("sha256:{}", ContentHash::digest(title.as_bytes())));
        row.fields.push((PAGE_FIELD.to_owned(), FieldValue::Text(self.keys.take(id))));
    }
}

impl ImportRows for PageRows {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        let mut next = self.rows.next()?;
        if let Some(LocatedRow { row: Ok(row), .. }) = &mut next {
            self.identify(row);
            for (name, value) in &mut row.fields {
                if self.found.lists.contains(name) {
                    *value = list_of(value);
                }
            }
        }
        Ok(next)
    }

    fn left_out(&self) -> Option<LeftOutRows> {
        (self.without_page > 0).then_some((WITHOUT_PAGE, self.without_page))
    }

    fn consumed(&self) -> u64 {
        self.rows.consumed()
    }
}
