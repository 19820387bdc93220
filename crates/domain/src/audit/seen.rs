//! What one client saw and changed, in words: which files it read, and how often it did what.
//!
//! The journal says what was called, never what an answer held. So files are named by their
//! folders, records are counted by their streams, and the structure of notes is counted alone.

use std::collections::{BTreeMap, BTreeSet};

use super::words::{listed, shown_of_stream};
use super::{CallKind, kind};
use crate::journal::JournalLine;
use crate::path::SpacePath;
use crate::unseen::shown;

/// The most files of which the names are kept for one deed of one client on one day.
const MAX_FILES: usize = 500;
/// The most folders, and the most streams, that a sentence names.
const NAMED_FOLDERS: usize = 4;
const NAMED_STREAMS: usize = 4;
/// What files and folders are called, one and many.
const FILES: [&str; 2] = ["file", "files"];
const FOLDERS: [&str; 2] = ["folder", "folders"];
/// The most streams of which records are counted for one client on one day.
const MAX_STREAMS: usize = 200;

/// What one client saw and changed, as the journal tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    read: FileTally,
    changed: FileTally,
    made: FileTally,
    moved: FileTally,
    removed: FileTally,
    made_folders: FileTally,
    moved_folders: FileTally,
    removed_folders: FileTally,
    searches: u64,
    /// How many lines, passages and names the searches showed.
    hits: u64,
    listings: u64,
    versions: u64,
    structures: u64,
    /// How many records of each stream it was shown, by stream and connection.
    shown: BTreeMap<(String, String), u64>,
    /// Whether there were more streams than are kept.
    has_more_streams: bool,
    /// How often it asked about records without being shown any: what there is, sums, no hits.
    records: u64,
    /// How often it stored or removed records, or what says who sees them.
    record_changes: u64,
    others: u64,
    refused: u64,
}

/// The files, or the folders, of one deed, by the folders that hold them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FileTally {
    folders: BTreeMap<SpacePath, BTreeSet<SpacePath>>,
    files: usize,
    /// Whether there were more files than are kept.
    has_more: bool,
}

impl FileTally {
    fn add(&mut self, path: &SpacePath) {
        let folder = path.split().map_or_else(SpacePath::root, |(folder, _)| folder);
        if self.folders.get(&folder).is_some_and(|files| files.contains(path)) {
            return;
        }
        if self.files >= MAX_FILES {
            self.has_more = true;
            return;
        }
        self.files += 1;
        self.folders.entry(folder).or_default().insert(path.clone());
    }

    fn merge(&mut self, other: &Self) {
        self.has_more |= other.has_more;
        for path in other.folders.values().flatten() {
            self.add(path);
        }
    }

    /// Returns such as `14 files in /work and 2 in the top folder`, of what is called `one` and
    /// `many`; `None` if there are none.
    fn words(&self, [one, many]: [&str; 2]) -> Option<String> {
        let mut folders: Vec<(&SpacePath, usize)> =
            self.folders.iter().map(|(folder, files)| (folder, files.len())).collect();
        folders.sort_by(|(a, own), (b, others)| others.cmp(own).then_with(|| a.cmp(b)));
        let more = folders.len().saturating_sub(NAMED_FOLDERS);
        folders.truncate(NAMED_FOLDERS);
        let mut parts = folders.iter().enumerate().map(|(at, (folder, files))| {
            let place = match folder.is_root() {
                true => "the top folder".to_owned(),
                false => shown(folder.as_str()).into_owned(),
            };
            match at {
                0 => format!("{} in {place}", counted(*files as u64, one, many)),
                _ => format!("{files} in {place}"),
            }
        });
        let first = parts.next()?;
        let mut parts: Vec<String> = std::iter::once(first).chain(parts).collect();
        match (more, self.has_more) {
            (0, false) => {}
            (0, true) => parts.push("more".to_owned()),
            _ => parts.push("more in other folders".to_owned()),
        }
        Some(listed(&parts))
    }
}

impl Seen {
    /// Counts one line. Events that no client caused do not count.
    pub fn count(&mut self, line: &JournalLine) {
        let kind = kind(line);
        if kind == CallKind::Event {
            return;
        }
        if line.outcome != "ok" {
            self.refused = self.refused.saturating_add(line.calls.unwrap_or(1));
            return;
        }
        let add = |counter: &mut u64| *counter = counter.saturating_add(1);
        match (kind, line.tool.as_str(), &line.path) {
            (CallKind::Change, "folder.create", Some(path)) => self.made_folders.add(path),
            (CallKind::Change, "folder.move", Some(path)) => self.moved_folders.add(path),
            (CallKind::Change, "folder.remove", Some(path)) => self.removed_folders.add(path),
            (CallKind::Change, "file.create", Some(path)) => self.made.add(path),
            (CallKind::Change, "file.copy", _) => {
                if let Some(to) = line.to.as_ref().or(line.path.as_ref()) {
                    self.made.add(to);
                }
            }
            (CallKind::Change, "file.move", Some(path)) => self.moved.add(path),
            (CallKind::Change, "file.remove", Some(path)) => self.removed.add(path),
            (CallKind::Change, _, Some(path)) => self.changed.add(path),
            (_, "text.read" | "file.read" | "text.gather" | "read", Some(path)) => {
                self.read.add(path);
            }
            (_, "file.find" | "file.search" | "text.search" | "note.find", _) => {
                add(&mut self.searches);
                self.hits = self.hits.saturating_add(line.hits.unwrap_or_default());
            }
            (_, "file.list" | "list" | "note.tags", _) => add(&mut self.listings),
            (_, "file.history", _) => add(&mut self.versions),
            (_, tool, _) if tool.starts_with("get_") || tool == "note.links" => {
                add(&mut self.structures);
            }
            (CallKind::Change, tool, None) if is_about_records(tool) => {
                add(&mut self.record_changes);
            }
            (_, tool, _) if is_about_records(tool) => {
                if line.records.is_empty() {
                    add(&mut self.records);
                }
                for shown in &line.records {
                    let stream = (shown.stream.clone(), shown.connection.clone());
                    self.show(stream, shown.records);
                }
            }
            _ => add(&mut self.others),
        }
    }

    fn show(&mut self, stream: (String, String), records: u64) {
        if self.shown.len() >= MAX_STREAMS && !self.shown.contains_key(&stream) {
            self.has_more_streams = true;
            return;
        }
        let shown = self.shown.entry(stream).or_default();
        *shown = shown.saturating_add(records);
    }

    /// Returns such as `was shown 3 messages of mail and 40 rows of bank`; `None` for no records.
    fn shown_words(&self) -> Option<String> {
        let mut streams: Vec<(&(String, String), u64)> =
            self.shown.iter().map(|(stream, records)| (stream, *records)).collect();
        streams.sort_by(|(a, many), (b, more)| more.cmp(many).then_with(|| a.cmp(b)));
        let more = streams.len() > NAMED_STREAMS || self.has_more_streams;
        streams.truncate(NAMED_STREAMS);
        let named = streams
            .into_iter()
            .map(|((stream, connection), records)| shown_of_stream(records, stream, connection));
        let mut parts: Vec<String> = named.collect();
        if more {
            parts.push("records of other streams".to_owned());
        }
        (!parts.is_empty()).then(|| format!("was shown {}", listed(&parts)))
    }

    /// Adds what another time had.
    pub fn merge(&mut self, other: &Self) {
        for (own, other) in [
            (&mut self.read, &other.read),
            (&mut self.changed, &other.changed),
            (&mut self.made, &other.made),
            (&mut self.moved, &other.moved),
            (&mut self.removed, &other.removed),
            (&mut self.made_folders, &other.made_folders),
            (&mut self.moved_folders, &other.moved_folders),
            (&mut self.removed_folders, &other.removed_folders),
        ] {
            own.merge(other);
        }
        self.has_more_streams |= other.has_more_streams;
        for (stream, records) in &other.shown {
            self.show(stream.clone(), *records);
        }
        for (own, other) in [
            (&mut self.searches, other.searches),
            (&mut self.hits, other.hits),
            (&mut self.listings, other.listings),
            (&mut self.versions, other.versions),
            (&mut self.structures, other.structures),
            (&mut self.records, other.records),
            (&mut self.record_changes, other.record_changes),
            (&mut self.others, other.others),
            (&mut self.refused, other.refused),
        ] {
            *own = own.saturating_add(other);
        }
    }

    /// Returns how many calls were refused or failed.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns what the client saw, each as a part of a sentence: `read 2 files in /work`.
    pub fn saw(&self) -> Vec<String> {
        let read = self.read.words(FILES).map(|files| format!("read {files}"));
        let searched = (self.searches > 0).then(|| {
            let hits = (self.hits > 0).then(|| counted(self.hits, "hit", "hits"));
            let hits = hits.map(|hits| format!(" and was shown {hits}")).unwrap_or_default();
            times("searched files", self.searches) + &hits
        });
        let counts = [
            (self.listings, "listed folders"),
            (self.versions, "looked at earlier versions"),
            (self.structures, "looked at the structure of notes"),
            (self.records, "asked about records"),
            (self.others, "made other calls"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts = counts.map(|(count, deed)| times(deed, count));
        read.into_iter().chain(self.shown_words()).chain(searched).chain(counts).collect()
    }

    /// Returns what the client changed, each as a part of a sentence: `made 1 file in /work`.
    pub fn changed(&self) -> Vec<String> {
        let deeds = [
            ("changed", &self.changed, FILES),
            ("made", &self.made, FILES),
            ("made", &self.made_folders, FOLDERS),
            ("moved", &self.moved, FILES),
            ("moved", &self.moved_folders, FOLDERS),
            ("removed", &self.removed, FILES),
            ("removed", &self.removed_folders, FOLDERS),
        ];
        let words = deeds
            .into_iter()
            .map(|(deed, tally, what)| Some(format!("{deed} {}", tally.words(what)?)));
        let of_records = (self.record_changes > 0).then_some(self.record_changes);
        let of_records = of_records.map(|count| times("changed records", count));
        words.flatten().chain(of_records).collect()
    }
}

/// Returns whether a tool or an operation is about records.
fn is_about_records(tool: &str) -> bool {
    const TOOLS: [&str; 6] =
        ["schema", "search", "query_records", "aggregate", "fetch", "read_record_field"];
    tool.starts_with("v1.") || TOOLS.contains(&tool)
}

/// Returns `read notes once`, `… twice` or `… 14 times`.
fn times(deed: &str, count: u64) -> String {
    match count {
        1 => format!("{deed} once"),
        2 => format!("{deed} twice"),
        count => format!("{deed} {count} times"),
    }
}

fn counted(count: u64, one: &str, many: &str) -> String {
    let noun = if count == 1 { one } else { many };
    format!("{count} {noun}")
}

#[cfg(test)]
mod tests {
    use super::super::test_lines::line;
    use super::*;
    use crate::records::shown_records::StreamTally;

    fn seen(lines: &[JournalLine]) -> Seen {
        let mut seen = Seen::default();
        lines.iter().for_each(|line| seen.count(line));
        seen
    }

    #[test]
    fn a_week_is_told_by_folders_and_counts() {
        let refused = |calls| JournalLine {
            outcome: "not_granted".to_owned(),
            calls,
            ..line("text.read", Some("/secret.md"))
        };
        let records = |tool: &str, shown: &[(&str, &str, u64)]| JournalLine {
            records: shown
                .iter()
                .map(|(connection, stream, records)| StreamTally {
                    connection: (*connection).to_owned(),
                    stream: (*stream).to_owned(),
                    records: *records,
                })
                .collect(),
            ..line(tool, None)
        };
        let dry = JournalLine { dry_run: Some(true), ..line("text.edit", Some("/work/a.md")) };
        let seen = seen(&[
            line("text.read", Some("/work/a.md")),
            line("text.read", Some("/work/a.md")),
            line("text.read", Some("/work/b\u{202e}.md")),
            line("file.read", Some("/c.md")),
            JournalLine { hits: Some(40), ..line("file.search", Some("/")) },
            line("get_note_outline", None),
            line("get_section_source", None),
            line("aggregate", None),
            line("v1.ingestRecords", None),
            records("query_records", &[("mail", "messages", 25), ("bank", "rows", 1)]),
            records("fetch", &[("mail", "messages", 1)]),
            line("text.edit", Some("/work/a.md")),
            line("file.create", Some("/work\u{202e}/new.md")),
            line("folder.create", Some("/work/one")),
            line("folder.create", Some("/work/two")),
            line("folder.remove", Some("/work/three")),
            refused(None),
            refused(Some(40)),
            dry,
            JournalLine { subject: None, client: None, ..line("conflict_copy", Some("/x.md")) },
        ]);
        insta::assert_snapshot!([seen.saw(), seen.changed()].concat().join("\n"), @r"
        read 2 files in /work and 1 in the top folder
        was shown 26 messages of mail and 1 record of rows of bank
        searched files once and was shown 40 hits
        looked at the structure of notes twice
        asked about records once
        made other calls once
        changed 1 file in /work
        made 1 file in /work\u{202e}
        made 2 folders in /work
        removed 1 folder in /work
        changed records once
        ");
        assert_eq!(seen.refused(), 41);
    }

    #[test]
    fn two_days_together_name_a_file_once() {
        let day = seen(&[line("text.read", Some("/work/a.md")), line("file.list", Some("/"))]);
        let mut both = day.clone();
        both.merge(&day);
        assert_eq!(both.saw(), ["read 1 file in /work", "listed folders twice"]);
    }

    #[test]
    fn the_files_of_a_busy_client_are_bounded() {
        let mut busy = Seen::default();
        for number in 0..MAX_FILES + 5 {
            busy.count(&line("text.read", Some(&format!("/work/{number}.md"))));
        }
        assert_eq!(busy.saw(), ["read 500 files in /work and more"]);
        let folders: Vec<JournalLine> =
            (0..9).map(|at| line("text.read", Some(&format!("/f{at}/a.md")))).collect();
        assert_eq!(
            seen(&folders).saw(),
            ["read 1 file in /f0, 1 in /f1, 1 in /f2, 1 in /f3 and more in other folders"]
        );
    }
}
