//! The file space beneath one directory handle.

use stile_domain::cursor::Cursor;
use stile_domain::edit::EditError;
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::lines::{LineRange, Lines};
use stile_domain::listing::{Page, Position};
use stile_domain::permit::{Edit, List, Permit, Read};
use stile_domain::search::Query;

/// A folder that agents are let into.
#[derive(Clone, Default)]
pub struct Space {
    files: std::sync::Arc<std::sync::Mutex<std::collections::BTreeMap<String, Vec<u8>>>>,
}

// A stand-in until the real one arrives: everything in memory.
impl Space {
    /// An empty one.
    pub fn in_memory() -> Self {
        Self::default()
    }

    fn files(&self) -> std::sync::MutexGuard<'_, std::collections::BTreeMap<String, Vec<u8>>> {
        self.files.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Reads.
    ///
    /// # Errors
    /// Nothing is there.
    pub async fn read(&self, permit: Permit<Read>, from: ReadFrom) -> Result<Window, Refusal> {
        let _ = from;
        let bytes =
            self.files().get(permit.path().as_str()).cloned().ok_or_else(|| Refusal::not_found(permit.path()))?;
        let content = String::from_utf8_lossy(&bytes).into_owned();
        let total_lines = stile_domain::lines::count(&content);
        Ok(Window {
            hash: ContentHash::of(&bytes),
            total_lines,
            lines: Lines { start: 1, end: total_lines + 1 },
            match_line: None,
            next: None,
            content,
        })
    }

    /// Makes.
    ///
    /// # Errors
    /// Something is there.
    pub async fn create(&self, permit: Permit<Edit>, bytes: Vec<u8>) -> Result<Created, Refusal> {
        let mut files = self.files();
        if files.contains_key(permit.path().as_str()) {
            return Err(Refusal::AlreadyExists { path: permit.path().clone() });
        }
        let created = Created {
            hash: ContentHash::of(&bytes),
            size_bytes: bytes.len() as u64,
            total_lines: std::str::from_utf8(&bytes).ok().map(stile_domain::lines::count),
        };
        files.insert(permit.path().as_str().to_owned(), bytes);
        Ok(created)
    }

    /// Removes.
    ///
    /// # Errors
    /// Nothing is there, or something else.
    pub async fn remove(&self, permit: Permit<Edit>, hash: ContentHash) -> Result<(), Refusal> {
        let mut files = self.files();
        let bytes = files.get(permit.path().as_str()).ok_or_else(|| Refusal::not_found(permit.path()))?;
        if ContentHash::of(bytes) != hash {
            return Err(Refusal::Stale { path: permit.path().clone(), argument: "hash" });
        }
        files.remove(permit.path().as_str());
        Ok(())
    }

    /// Changes.
    ///
    /// # Errors
    /// Nothing is there, or something else.
    pub async fn edit(
        &self, permit: Permit<Edit>, hash: ContentHash, _arguments: [&'static str; 2],
        change: impl FnOnce(&str) -> Result<String, EditError> + Send + 'static,
    ) -> Result<Edited, Refusal> {
        let mut files = self.files();
        let bytes = files.get_mut(permit.path().as_str()).ok_or_else(|| Refusal::not_found(permit.path()))?;
        if ContentHash::of(bytes) != hash {
            return Err(Refusal::Stale { path: permit.path().clone(), argument: "hash" });
        }
        let text = change(&String::from_utf8_lossy(bytes))
            .map_err(|_| Refusal::invalid_argument("the edit does not apply"))?;
        let total_lines = stile_domain::lines::count(&text);
        *bytes = text.into_bytes();
        Ok(Edited { hash: ContentHash::of(bytes), total_lines })
    }

    /// Lists.
    ///
    /// # Errors
    /// None.
    pub async fn list(&self, permit: Permit<List>, _after: Option<Position>) -> Result<Page, Refusal> {
        let mut entries = Vec::new();
        let mut names = std::collections::BTreeSet::new();
        for (path, bytes) in self.files().iter() {
            let Ok(path) = stile_domain::path::SpacePath::parse(path) else { continue };
            let depth = permit.path().components().count();
            if !permit.path().covers(&path) {
                continue;
            }
            let Some(name) = path.components().nth(depth) else { continue };
            let Some(child) = permit.path().child(name) else { continue };
            if !permit.shows(&child) || !names.insert(name.to_owned()) {
                continue;
            }
            let kind = if child == path { stile_domain::listing::Kind::File } else { stile_domain::listing::Kind::Directory };
            let size_bytes = (child == path).then_some(bytes.len() as u64);
            entries.push(stile_domain::listing::Entry { name: name.to_owned(), kind, size_bytes, hash: None });
        }
        if entries.is_empty() && !permit.path().is_root() {
            return Err(Refusal::not_found(permit.path()));
        }
        entries.sort_by_key(|entry| Position::of(entry.kind, &entry.name));
        Ok(Page { path: permit.path().clone(), entries, truncated: false, next_uri: None })
    }
}

/// Where a read begins.
#[derive(Clone, Debug)]
pub enum ReadFrom {
    /// At the first line of a range.
    Range(LineRange),
    /// At the first line of a range that contains a text.
    Match {
        /// The range.
        range: LineRange,
        /// The text.
        query: Query,
    },
    /// Where an earlier read stopped.
    Cursor(Cursor),
}

/// Lines of a text file, bounded.
#[derive(Clone, Debug)]
pub struct Window {
    /// The lines, as stored.
    pub content: String,
    /// Of the whole file.
    pub hash: ContentHash,
    /// Of the whole file.
    pub total_lines: u64,
    /// Which lines `content` touches.
    pub lines: Lines,
    /// The line that contains the query.
    pub match_line: Option<u64>,
    /// How the range goes on.
    pub next: Option<Next>,
}

/// How a bounded read goes on.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    /// Exactly where it stopped.
    pub cursor: Cursor,
    /// Whether that is inside a line.
    pub inside: bool,
}

/// A file that was made.
#[derive(Clone, Copy, Debug)]
pub struct Created {
    /// Of its bytes.
    pub hash: ContentHash,
    /// Its size.
    pub size_bytes: u64,
    /// Absent where it is not text.
    pub total_lines: Option<u64>,
}

/// A file that was changed.
#[derive(Clone, Copy, Debug)]
pub struct Edited {
    /// Of its new bytes.
    pub hash: ContentHash,
    /// Of its new text.
    pub total_lines: u64,
}
