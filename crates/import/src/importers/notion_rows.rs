//! The rows of a database of Notion, each with the identifier of its page.
//!
//! A row of the table that an export has is a page, whose file has the identifier in its name. So a
//! row keeps its record when its cells change, its title too. The table itself has no identifier: a
//! row and a page belong together by the title, which is the first column. A row whose page is not
//! in the export, or whose title several pages or rows have, gets the digest of its title instead.
//!
//! *Source*: as `collections::notion`.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::sync::{Arc, OnceLock};

use stile_domain::hash::ContentHash;
use stile_domain::records::value::FieldValue;

use super::notion_pages::{identified, title_of};
use super::whole_file::Keys;
use crate::importer::{ImportRow, ImportRows, LocatedRow};
use crate::source::ArchivedFiles;

/// The field that has the identifier of the page.
pub const PAGE_FIELD: &str = "page_id";
/// Why this field is the key, for the person who imports.
pub const REASON: &str = "`page_id` is the key: the identifier of the row's page where the export \
    has it, otherwise the digest of the title in the first column, so that a row whose title changes \
    is then added as a new one";

/// How much of a page is read to find its title, in bytes.
const TITLE_BYTES: u64 = 4096;

/// The identifiers of pages by their titles; `None` for a title of several pages.
type Identifiers = HashMap<String, Option<String>>;

/// The pages of a database, which are files of an export.
#[derive(Debug)]
pub struct DatabasePages {
    files: ArchivedFiles,
    /// Read once, for all passes.
    ids: OnceLock<Arc<Identifiers>>,
}

impl DatabasePages {
    /// The pages in these files of an export.
    pub(crate) fn new(files: ArchivedFiles) -> Self {
        Self { files, ids: OnceLock::new() }
    }

    /// Gives each row its page. `title` is the name of the first column.
    pub(crate) fn identify(
        &self,
        rows: Box<dyn ImportRows>,
        title: Option<&str>,
    ) -> Box<dyn ImportRows> {
        let ids = Arc::clone(self.ids.get_or_init(|| Arc::new(self.read())));
        let title = title.unwrap_or_default().to_owned();
        Box::new(PageRows { rows, ids, title, keys: Keys::default() })
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

/// The rows of a table, each with the identifier of its page.
struct PageRows {
    rows: Box<dyn ImportRows>,
    ids: Arc<Identifiers>,
    /// The name of the first column.
    title: String,
    keys: Keys,
}

impl PageRows {
    /// Adds the identifier of its page to a row, unless the table has a column of that name.
    fn identify(&mut self, row: &mut ImportRow) {
        if row.fields.iter().any(|(name, _)| name == PAGE_FIELD) {
            return;
        }
        let title = row.fields.iter().find(|(name, _)| *name == self.title);
        let title = match title {
            Some((_, FieldValue::Text(text))) => text.trim().to_owned(),
            Some((_, other)) => other.to_json(),
            None => String::new(),
        };
        let page = self.ids.get(&title).cloned().flatten();
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
        }
        Ok(next)
    }

    fn consumed(&self) -> u64 {
        self.rows.consumed()
    }
}
