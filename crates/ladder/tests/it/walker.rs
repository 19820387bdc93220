//! Three kinds of clients: one sees texts only, one structures only, and one follows resources.
//!
//! Each reads a field, a record or a list to its end using only what it is shown, and compares what
//! it read with what is stored. A client that cannot continue panics: there are no dead ends.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json, json};
use stile_ladder::resources::{LINKS, NEXT_URI, PREVIOUS_URI, RANGE};
use stile_tools::answer::ResourceLink;
use stile_tools::toolset::ResourceBody;

use super::lines::{self, Next};
use super::worlds::{Content, VisibleRecords};
use super::{Client, with};

/// What a client sees of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Text,
    Structured,
    Resources,
}

pub(super) const CLASSES: [Class; 3] = [Class::Text, Class::Structured, Class::Resources];

/// How a client of each class continues.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// Arguments of `read_record_field`, for clients that see texts.
    Text(Json),
    /// Arguments of `read_record_field`, for clients that see structures.
    Structure(Json),
    /// The address of a resource.
    Address(String),
}

/// A window as a client received it.
#[derive(Debug)]
struct ReceivedWindow {
    text: String,
    start: u64,
    end: u64,
    size: u64,
    next: Option<Way>,
    previous: Option<Way>,
    /// How to read the bytes that the window refers to, by their paths.
    references: BTreeMap<String, Way>,
}

/// How much of a truncated field was shown, and how to continue.
#[derive(Debug)]
struct Cut {
    shown: u64,
    way: Way,
}

/// One page of a record as a client received it.
#[derive(Debug, Default)]
struct RecordPage {
    id: String,
    /// The shown fields. The document's text has a member of its own.
    fields: Map<String, Json>,
    main: Option<String>,
    /// The truncated fields. The document's text appears under the name that its continuation has.
    cuts: BTreeMap<String, Cut>,
    byte_ways: BTreeMap<String, Way>,
    /// Where the windows of a field name more references to bytes.
    more_bytes: BTreeMap<String, Way>,
    next: Option<Way>,
}

/// A client of one class, and what it must find.
pub(super) struct Walker<'a> {
    pub(super) client: &'a Client,
    pub(super) visible: &'a VisibleRecords,
    pub(super) class: Class,
}

impl Walker<'_> {
    fn piece(&self, way: &Way) -> ReceivedWindow {
        match way {
            Way::Text(args) => {
                let answer = self.client.good("read_record_field", args);
                let window = lines::window(&answer.text);
                let header = window.header;
                let references = window.references.into_iter();
                let previous = header["previous_cursor"]
                    .as_str()
                    .map(|cursor| json!({ "id": header["id"], "field_path": header["field_path"], "cursor": cursor }));
                ReceivedWindow {
                    text: window.text.to_owned(),
                    start: header["start_chars"].as_u64().unwrap(),
                    end: header["end_chars"].as_u64().unwrap(),
                    size: header["size_chars"].as_u64().unwrap(),
                    next: window.next.map(Way::Text),
                    previous: previous.map(Way::Text),
                    references: references.map(|(path, args)| (path, Way::Text(args))).collect(),
                }
            }
            Way::Structure(args) => {
                let answered = self.client.good("read_record_field", args).structured;
                let window = &answered["window"];
                let beside = |name: &str| {
                    let cursor = window[name].as_str()?;
                    let id = &answered["record"]["id"];
                    Some(Way::Structure(
                        json!({ "id": id, "field_path": answered["field"]["path"], "cursor": cursor }),
                    ))
                };
                ReceivedWindow {
                    text: window["text"].as_str().unwrap().to_owned(),
                    start: window["start_chars"].as_u64().unwrap(),
                    end: window["end_chars"].as_u64().unwrap(),
                    size: answered["field"]["size_chars"].as_u64().unwrap(),
                    next: beside("next_cursor"),
                    previous: beside("previous_cursor"),
                    references: references_in(&answered["content_ladder"]),
                }
            }
            Way::Address(uri) => {
                let content =
                    self.client.read(uri).unwrap_or_else(|trouble| panic!("{uri}: {trouble:?}"));
                let ResourceBody::Text(text) = content.body else { panic!("{uri} has bytes") };
                let beside = |name: &str| {
                    content.meta.get(name).map(|uri| Way::Address(uri.as_str().unwrap().to_owned()))
                };
                let range = &content.meta[RANGE];
                ReceivedWindow {
                    text,
                    start: range["start_chars"].as_u64().unwrap(),
                    end: range["end_chars"].as_u64().unwrap(),
                    size: range["size_chars"].as_u64().unwrap(),
                    next: beside(NEXT_URI),
                    previous: beside(PREVIOUS_URI),
                    references: linked(&content.meta).byte_ways,
                }
            }
        }
    }

    /// Collects the references that the windows of a field name, from one window to the end.
    fn references_from(&self, way: &Way) -> BTreeMap<String, Way> {
        let (mut all, mut next) = (BTreeMap::new(), Some(way.clone()));
        while let Some(way) = next {
            let piece = self.piece(&way);
            for (path, way) in piece.references {
                assert!(all.insert(path.clone(), way).is_none(), "{path} is named twice");
            }
            next = piece.next;
        }
        all
    }

    /// Checks that a client of this class comes to each reference within a shown field.
    fn check_references(&self, page: &RecordPage, name: &str) {
        let expected = self.visible.field(&page.id, name).references(name);
        if expected.is_empty() {
            return;
        }
        let own = |path: &&String| expected.contains(*path);
        let mut found: BTreeMap<String, Way> = page
            .byte_ways
            .iter()
            .filter(|(path, _)| own(path))
            .map(|(path, way)| (path.clone(), way.clone()))
            .collect();
        let cut = page.cuts.get(name).map(|cut| &cut.way);
        if let Some(way) = page.more_bytes.get(name).or(cut) {
            found.extend(self.references_from(way));
        }
        self.check_paths(&page.id, name, found.keys().cloned().collect());
        for (path, way) in found.iter().take(2) {
            self.check_bytes(&page.id, path, way);
        }
    }

    /// Checks that the paths are those of the references within a field.
    fn check_paths(&self, id: &str, name: &str, mut found: BTreeSet<String>) {
        let expected = self.visible.field(id, name).references(name);
        let possible = self.visible.possible_references(id, name);
        found.retain(|path| expected.contains(path) || !possible.contains(path));
        assert_eq!(found, expected, "{id} {name:?}");
    }

    /// Compares bytes with those that are stored.
    fn check_bytes(&self, id: &str, path: &str, way: &Way) {
        if let Some(bytes) = self.visible.bytes(id, path) {
            assert!(self.bytes(way) == bytes, "{id} {path:?} by {way:?}");
        }
    }

    /// Reads a field from a window to both ends. Returns the text after the start of the window,
    /// and the whole text.
    fn both_ends(&self, way: &Way) -> (String, String) {
        let first = self.piece(way);
        let (mut before, mut previous) = (Vec::new(), first.previous);
        let mut start = first.start;
        while let Some(way) = previous {
            let piece = self.piece(&way);
            assert!(piece.start < start, "{way:?} leads nowhere");
            assert_eq!(piece.end, start, "{way:?} leaves something out");
            (start, previous) = (piece.start, piece.previous);
            before.push(piece.text);
        }
        assert_eq!(start, 0, "no way back from {way:?}");
        let (mut text, mut next, mut end) = (first.text, first.next, first.end);
        while let Some(way) = next {
            let piece = self.piece(&way);
            assert_eq!(piece.start, end, "{way:?} leaves something out");
            assert!(piece.end > end, "{way:?} leads nowhere");
            (end, next) = (piece.end, piece.next);
            text += &piece.text;
        }
        assert_eq!(end, first.size, "no way on from {way:?}");
        before.reverse();
        (text.clone(), before.concat() + &text)
    }

    /// Reads all bytes that a way leads to.
    pub(super) fn bytes(&self, way: &Way) -> Vec<u8> {
        let (mut bytes, mut next) = (Vec::new(), Some(way.clone()));
        while let Some(way) = next {
            let (piece, range, on) = match &way {
                Way::Text(args) => {
                    let text = self.client.good("fetch", args).text;
                    let document: Json = serde_json::from_str(&text).unwrap();
                    let on = document["next"][0]["read"]["args"].clone();
                    (bytes_in(&document), document["metadata"].clone(), Way::Text(on))
                }
                Way::Structure(args) => {
                    let document = self.client.good("fetch", args).structured;
                    let on = document["content_ladder"]["entries"][0]["read"]["args"].clone();
                    (bytes_in(&document), document["metadata"].clone(), Way::Structure(on))
                }
                Way::Address(uri) => {
                    let content = self
                        .client
                        .read(uri)
                        .unwrap_or_else(|trouble| panic!("{uri}: {trouble:?}"));
                    let ResourceBody::Base64(base64) = content.body else {
                        panic!("{uri} has text")
                    };
                    let on = content.meta.get(NEXT_URI).and_then(Json::as_str).unwrap_or_default();
                    let range = content.meta[RANGE].clone();
                    (STANDARD.decode(base64).unwrap(), range, Way::Address(on.to_owned()))
                }
            };
            assert_eq!(range["start_bytes"], bytes.len());
            bytes.extend(piece);
            assert_eq!(range["end_bytes"], bytes.len());
            let goes_on = match &on {
                Way::Text(args) | Way::Structure(args) => args.is_object(),
                Way::Address(uri) => !uri.is_empty(),
            };
            assert_eq!(goes_on, bytes.len() as u64 != range["size_bytes"].as_u64().unwrap());
            next = goes_on.then_some(on);
        }
        bytes
    }

    /// Reads a truncated field, and compares the preview and the whole with what is stored.
    fn check_cut(&self, id: &str, field: &str, preview: &str, cut: &Cut) {
        let stored = self.visible.field(id, field);
        let Some(text) = stored.text() else {
            panic!("{id} {field} is {stored:?} and is read as text")
        };
        let (rest, whole) = self.both_ends(&cut.way);
        assert!(
            whole == text,
            "{id} {field:?}: all windows are {} bytes, not {}",
            whole.len(),
            text.len()
        );
        if let (Content::Json(_), 0) = (stored, cut.shown) {
            // Windows may spell this field differently, so it is read from its beginning.
            assert!(
                rest == text && text.starts_with(preview),
                "{id} {field:?}: all of it, and its beginning"
            );
            return;
        }
        assert_eq!(preview.chars().count() as u64, cut.shown, "{id} {field:?}");
        assert!(
            format!("{preview}{rest}") == text,
            "{id} {field:?}: the preview and what is read after it"
        );
    }

    /// Compares a page of a record with what is stored, and reads what the page truncates.
    fn check(&self, page: &RecordPage) {
        let id = &page.id;
        for (name, value) in &page.fields {
            if let Some(cut) = page.cuts.get(name) {
                self.check_cut(id, name, value.as_str().unwrap(), cut);
            } else if let (Content::Bytes(_), Some(way)) =
                (self.visible.field(id, name), page.byte_ways.get(name))
            {
                self.check_bytes(id, name, way);
            } else {
                self.visible.field(id, name).assert_is(value, &format!("{id} {name:?}"));
            }
            self.check_references(page, name);
        }
        let Some(main) = &page.main else { return };
        match page.cuts.iter().find(|(name, _)| !page.fields.contains_key(*name)) {
            Some((name, cut)) => self.check_cut(id, name, main, cut),
            None => {
                let mut texts = ["text", "content", "body", "summary"].into_iter();
                let is_one = |name: &str| {
                    self.visible.find(id, name).is_some_and(|held| held.text() == Some(main))
                };
                assert!(texts.any(is_one), "{id}: {main:?}");
            }
        }
    }

    /// Reads a record with `fetch` or as a resource.
    fn page(&self, way: &Way) -> RecordPage {
        match way {
            Way::Text(args) => document_in_text(
                &serde_json::from_str(&self.client.good("fetch", args).text).unwrap(),
            ),
            Way::Structure(args) => {
                document_in_structure(&self.client.good("fetch", args).structured)
            }
            Way::Address(uri) => {
                let content =
                    self.client.read(uri).unwrap_or_else(|trouble| panic!("{uri}: {trouble:?}"));
                let ResourceBody::Text(text) = content.body else { panic!("{uri} has bytes") };
                let mut page = document_fields(&serde_json::from_str(&text).unwrap());
                let linked = linked(&content.meta);
                (page.cuts, page.byte_ways, page.more_bytes) =
                    (linked.cuts, linked.byte_ways, linked.more_bytes);
                page.next = content
                    .meta
                    .get(NEXT_URI)
                    .map(|uri| Way::Address(uri.as_str().unwrap().to_owned()));
                page
            }
        }
    }

    /// Returns how this class reads a record whose identifier it was shown.
    fn to_record(&self, id: &str) -> Way {
        let args = json!({ "id": id });
        match self.class {
            Class::Text => Way::Text(args),
            Class::Structured => Way::Structure(args),
            Class::Resources => Way::Address(
                self.client.good("fetch", &args).structured["url"].as_str().unwrap().to_owned(),
            ),
        }
    }

    /// Reads a record to its last field. Every field must appear exactly once.
    pub(super) fn record(&self, id: &str) {
        let all = self.visible.names(id).map(str::to_owned).collect();
        self.record_has(id, self.to_record(id), &all, true);
    }

    /// Reads a record and expects these fields: exactly once if `is_exact`, at least once
    /// otherwise.
    pub(super) fn record_has(&self, id: &str, way: Way, all: &BTreeSet<String>, is_exact: bool) {
        let (mut left, mut next) = (all.clone(), Some(way));
        while let Some(way) = next {
            let page = self.page(&way);
            assert_eq!(page.id, id);
            self.check(&page);
            for name in page.fields.keys() {
                assert!(
                    left.remove(name) || !is_exact,
                    "{id}: {name:?} is answered twice, or is not to be seen"
                );
            }
            if page.main.is_some() {
                let named = page.cuts.keys().find(|name| !page.fields.contains_key(*name)).cloned();
                let texts = ["text", "content", "body", "summary"].map(str::to_owned);
                let name = named.or_else(|| texts.into_iter().find(|name| left.contains(name)));
                assert!(name.is_some_and(|name| left.remove(&name)), "{id}");
            }
            next = page.next;
        }
        assert!(left.is_empty(), "{id}: {left:?} are not reached");
    }

    /// Reads a list to its end, and whatever its records truncate. Returns the identifiers in
    /// order.
    pub(super) fn list(&self, tool: &str, args: &Json) -> Vec<String> {
        let (mut ids, mut next) = (Vec::new(), Some(args.clone()));
        while let Some(asked) = next {
            let answer = self.client.good(tool, &asked);
            let (leaves, goes_on) = match self.class {
                Class::Text => list_in_text(tool, &asked, &answer.text),
                // A list has no address. A client that follows resources sees the structure and the
                // links of a page.
                _ => list_in_structure(tool, args, &answer.structured),
            };
            assert!(goes_on.is_none() || !leaves.is_empty(), "{tool} {asked} gets nowhere");
            for page in &leaves {
                assert!(self.visible.has(&page.id), "{} is not to be seen", page.id);
                if self.class != Class::Resources {
                    self.check(page);
                }
            }
            ids.extend(leaves.into_iter().map(|page| page.id));
            if self.class == Class::Resources {
                answer.links.iter().for_each(|link| self.follow(link));
            }
            next = goes_on;
        }
        let all: BTreeSet<&String> = ids.iter().collect();
        assert_eq!(all.len(), ids.len(), "{tool} {args} tells something twice: {ids:?}");
        ids
    }

    /// Reads what a link leads to.
    pub(super) fn follow(&self, link: &ResourceLink) {
        let mut page = RecordPage::default();
        match link.name.as_str() {
            "record" => drop(self.page(&Way::Address(link.uri.clone()))),
            "field-window" => {
                page.follow(link);
                if let Some((name, way)) = page.more_bytes.pop_first() {
                    let found = self.references_from(&way).into_keys().collect();
                    return self.check_paths(&page.id, &name, found);
                }
                let (name, cut) = page.cuts.pop_first().unwrap();
                let (rest, whole) = self.both_ends(&cut.way);
                let stored = self.visible.field(&page.id, &name);
                let text = stored.text().unwrap();
                assert!(whole == text && text.ends_with(&rest), "{} {name:?}", page.id);
            }
            "field-bytes" => {
                page.follow(link);
                let (path, way) = page.byte_ways.pop_first().unwrap();
                self.check_bytes(&page.id, &path, &way);
            }
            other => panic!("a link called {other}"),
        }
    }
}

impl RecordPage {
    /// Remembers where a link leads, by its record and field.
    fn follow(&mut self, link: &ResourceLink) {
        let (id, rest) = link.description.split_once([' ', ',']).unwrap();
        if link.name == "record" {
            return;
        }
        let (field, _) = lines::json_at_start(rest).unwrap();
        let field = field.as_str().unwrap().to_owned();
        self.id = id.to_owned();
        if link.name == "field-bytes" {
            self.byte_ways.insert(field, Way::Address(link.uri.clone()));
        } else if link.description.ends_with(", its JSON") {
            self.more_bytes.insert(field, Way::Address(link.uri.clone()));
        } else {
            let (_, from) = link.description.rsplit_once(", from character ").unwrap();
            let shown = from.split(' ').next().unwrap().parse().unwrap();
            self.cuts.insert(field, Cut { shown, way: Way::Address(link.uri.clone()) });
        }
    }
}

/// Takes the links in the metadata of a resource.
fn linked(meta: &Map<String, Json>) -> RecordPage {
    let mut page = RecordPage::default();
    for link in meta.get(LINKS).and_then(Json::as_array).into_iter().flatten() {
        let text = |name: &str| link[name].as_str().unwrap().to_owned();
        page.follow(&ResourceLink {
            uri: text("uri"),
            name: text("name"),
            description: text("description"),
            mime_type: text("mimeType"),
        });
    }
    page
}

/// Takes the references to bytes in a `content_ladder`.
fn references_in(ladder: &Json) -> BTreeMap<String, Way> {
    let entries = ladder["entries"].as_array().into_iter().flatten();
    let named = entries.map(|entry| {
        assert_eq!(entry["preview_status"], "binary-only");
        let path = entry["field_path"].as_str().unwrap().to_owned();
        (path, Way::Structure(entry["read"]["args"].clone()))
    });
    named.collect()
}

/// Takes the bytes of a document of a part of a field.
fn bytes_in(document: &Json) -> Vec<u8> {
    let text = document["text"].as_str().unwrap();
    match document["metadata"]["encoding"].as_str().unwrap() {
        "base64" => STANDARD.decode(text).unwrap(),
        "utf-8" => text.as_bytes().to_vec(),
        other => panic!("{other}"),
    }
}

/// Takes what a document shows, without continuations.
fn document_fields(document: &Json) -> RecordPage {
    let text = document["text"].as_str().unwrap();
    let (fields, main) = match document["metadata"].get("fields") {
        Some(fields) => (fields.as_object().unwrap().clone(), Some(text.to_owned())),
        None => (serde_json::from_str(text).unwrap(), None),
    };
    RecordPage {
        id: document["id"].as_str().unwrap().to_owned(),
        fields,
        main,
        ..RecordPage::default()
    }
}

/// Parses a document in a text.
fn document_in_text(document: &Json) -> RecordPage {
    let mut page = document_fields(document);
    for step in document["next"].as_array().into_iter().flatten() {
        let args = &step["read"]["args"];
        match step["read"]["tool"].as_str() {
            Some("read_record_field") => {
                let field = args["field_path"].as_str().unwrap().to_owned();
                if step["more_references"].is_u64() {
                    page.more_bytes.insert(field, Way::Text(args.clone()));
                    continue;
                }
                let shown = step["shown_chars"].as_u64().unwrap();
                page.cuts.insert(field, Cut { shown, way: Way::Text(args.clone()) });
            }
            Some("fetch") if step["preview_status"] == "binary-only" => {
                let path = step["field_path"].as_str().unwrap().to_owned();
                page.byte_ways.insert(path, Way::Text(args.clone()));
            }
            Some("fetch") => page.next = Some(Way::Text(args.clone())),
            other => panic!("{other:?}"),
        }
    }
    page
}

/// Parses a document in a structure.
fn document_in_structure(document: &Json) -> RecordPage {
    let mut page = document_fields(document);
    page.take(&document["content_ladder"]);
    page
}

impl RecordPage {
    /// Remembers the continuations in `content_ladder`.
    fn take(&mut self, ladder: &Json) {
        let own = |entry: &&Json| entry["id"] == self.id.as_str();
        let entries: Vec<&Json> =
            ladder["entries"].as_array().unwrap().iter().filter(own).collect();
        let more: Vec<&Json> =
            ladder["more_fields"].as_array().into_iter().flatten().filter(own).collect();
        assert!(more.len() <= 1);
        self.next = more.first().map(|more| Way::Structure(more["read"]["args"].clone()));
        for entry in entries {
            let field = entry["field_path"].as_str().unwrap().to_owned();
            let way = Way::Structure(entry["read"]["args"].clone());
            if entry["preview_status"] == "binary-only" {
                assert_eq!(entry["read"]["tool"], "fetch");
                assert!(self.byte_ways.insert(field, way).is_none(), "two entries of one place");
                continue;
            }
            assert_eq!(entry["read"]["tool"], "read_record_field");
            if entry["more_references"].is_u64() {
                self.more_bytes.insert(field, way);
                continue;
            }
            let cut = Cut { shown: entry["shown_chars"].as_u64().unwrap(), way };
            assert!(self.cuts.insert(field, cut).is_none(), "two entries of one field");
        }
    }
}

/// Parses a page of a list in a structure. Returns the arguments of the next page too.
fn list_in_structure(
    tool: &str,
    args: &Json,
    structured: &Json,
) -> (Vec<RecordPage>, Option<Json>) {
    let data = &structured["data"];
    let rows = if tool == "search" { &structured["results"] } else { &data["data"] };
    let leaves = rows.as_array().unwrap().iter().map(|row| {
        let mut page =
            RecordPage { id: row["id"].as_str().unwrap().to_owned(), ..RecordPage::default() };
        if tool == "search" {
            page.take_windows(row);
            return page;
        }
        page.fields = row["data"].as_object().cloned().unwrap_or_default();
        page.take(&structured["content_ladder"]);
        page
    });
    let next = data["next_cursor"].as_str().map(|cursor| with(args, json!({ "cursor": cursor })));
    assert_eq!(data["has_more"], next.is_some());
    (leaves.collect(), next)
}

impl RecordPage {
    /// Remembers the windows of a hit: a complete one as a field, others by their continuation.
    fn take_windows(&mut self, hit: &Json) {
        for window in hit["match_windows"].as_array().into_iter().flatten() {
            let field = window["field_path"].as_str().unwrap().to_owned();
            if window["complete"] == true {
                self.fields.insert(field, window["preview_text"].clone());
                continue;
            }
            assert_eq!(window["read"]["tool"], "read_record_field", "{window}");
            // The continuation begins at the match, so the preview overlaps it at most.
            let start = window["read"]["args"]["offset_chars"].as_u64().unwrap();
            self.windows(field, start, Way::Structure(window["read"]["args"].clone()));
        }
    }

    /// Remembers a field that is shown only from an offset on.
    fn windows(&mut self, field: String, start: u64, way: Way) {
        self.cuts.insert(format!("{field}\u{0}"), Cut { shown: start, way });
    }
}

/// Parses a page of a list in a text. Returns the arguments of the next page too.
fn list_in_text(tool: &str, args: &Json, text: &str) -> (Vec<RecordPage>, Option<Json>) {
    let first = text.lines().next().unwrap();
    let fetched = first.split_once("first_fetch_id=").map(|(_, id)| id.to_owned());
    let (mut leaves, mut next): (Vec<RecordPage>, Option<Json>) = (Vec::new(), None);
    for line in lines::of(text).skip(1) {
        let number = format!("{}. ", leaves.len() + 1);
        if let Some(rest) = line.strip_prefix(&number) {
            assert_eq!(next, None, "something comes after the page goes on");
            leaves.push(item_in_text(tool, rest, fetched.as_deref()));
            continue;
        }
        if !line.starts_with("next:") {
            assert!(
                line.starts_with("note: ") || line.starts_with("next_changes_since="),
                "{line}"
            );
            continue;
        }
        match Next::parse(line).unwrap() {
            Next::SameCall { tool: named, args: others } => {
                assert_eq!(named, tool);
                next = Some(with(args, others));
            }
            Next::Call { tool: named, args, .. } if named == tool => next = Some(args),
            Next::Call { tool: named, args, note } => {
                leaves.last_mut().unwrap().step(tool, &named, args, note)
            }
            Next::ThisId => {
                let page = leaves.last_mut().unwrap();
                page.next = Some(Way::Text(json!({ "id": page.id })));
            }
        }
    }
    if let (Some(id), Some(page)) = (&fetched, leaves.first()) {
        assert_eq!(*id, page.id, "the first hit");
    }
    (leaves, next)
}

/// Parses a record or hit in a text.
fn item_in_text(tool: &str, rest: &str, first: Option<&str>) -> RecordPage {
    if rest == "next: fetch with first_fetch_id as its id" {
        let id = first.unwrap().to_owned();
        return RecordPage {
            next: Some(Way::Text(json!({ "id": id }))),
            id,
            ..RecordPage::default()
        };
    }
    let (id, rest) = rest.strip_prefix("id=").unwrap().split_once(' ').unwrap_or((&rest[3..], ""));
    let mut page = RecordPage { id: id.to_owned(), ..RecordPage::default() };
    if tool == "query_records" && rest.starts_with('{') {
        let (fields, rest) = lines::json_at_start(rest).unwrap();
        assert_eq!(without_marks(rest), "");
        page.fields = fields.as_object().unwrap().clone();
    } else if let (Some(rest), true) = (rest.strip_suffix(" complete"), tool == "search") {
        // A title may contain ` field=`. It is JSON, and comes first.
        let rest = match rest.strip_prefix("title=").and_then(lines::json_at_start) {
            Some((_, rest)) => rest.strip_prefix(" field=").unwrap(),
            None => rest.strip_prefix("field=").unwrap(),
        };
        let (field, rest) = lines::json_at_start(rest).unwrap();
        let (text, rest) = lines::json_at_start(rest.trim_start()).unwrap();
        assert_eq!(rest, "");
        page.fields.insert(field.as_str().unwrap().to_owned(), text);
    }
    page
}

/// Returns what follows the marks of a record's fields.
fn without_marks(rest: &str) -> &str {
    [" not_as_declared=", " not_looked_into="].into_iter().fold(rest, |rest, mark| {
        let marks = rest.strip_prefix(mark).map(lines::json_at_start);
        marks.map_or(rest, |marks| marks.unwrap().1)
    })
}

impl RecordPage {
    /// Remembers a line that names a call.
    fn step(&mut self, list: &str, tool: &str, args: Json, note: Option<String>) {
        match tool {
            "fetch" => match lines::path_of_bytes(note) {
                Some(path) => drop(self.byte_ways.insert(path, Way::Text(args))),
                None => self.next = Some(Way::Text(args)),
            },
            "read_record_field" => {
                let field = args["field_path"].as_str().unwrap().to_owned();
                if note.as_ref().is_some_and(|note| note.starts_with("its windows name ")) {
                    self.more_bytes.insert(field, Way::Text(args));
                    return;
                }
                let start = args["offset_chars"].as_u64().unwrap();
                if list == "search" {
                    self.windows(field, start, Way::Text(args));
                } else {
                    let note = note.unwrap();
                    let is_from_beginning =
                        start == 0 && note == "incomplete, read from its beginning";
                    assert!(
                        is_from_beginning || note.starts_with(&format!("{start} of ")),
                        "{args}"
                    );
                    self.cuts.insert(field, Cut { shown: start, way: Way::Text(args) });
                }
            }
            other => panic!("{other}"),
        }
    }
}

impl Walker<'_> {
    /// Reads the fields that the windows of hits lead to.
    pub(super) fn windows_of(&self, tool: &str, args: &Json) {
        let answer = self.client.good(tool, args);
        let answered = list_in_structure(tool, args, &answer.structured).0;
        let leaves = match self.class {
            Class::Text => {
                let said = list_in_text(tool, args, &answer.text).0;
                for (said, answered) in
                    said.iter().zip(&answered).filter(|(said, _)| said.next.is_none())
                {
                    let missing: Vec<&String> = answered
                        .cuts
                        .keys()
                        .filter(|name| !said.cuts.contains_key(*name))
                        .collect();
                    assert!(
                        missing.is_empty(),
                        "{} has more of {missing:?} than its text leads to",
                        said.id
                    );
                }
                said
            }
            _ => answered,
        };
        for page in leaves {
            for (name, cut) in &page.cuts {
                let name = name.trim_end_matches('\0');
                let (rest, whole) = self.both_ends(&cut.way);
                let stored = self.visible.field(&page.id, name);
                let text = stored.text().unwrap();
                let from: String = text.chars().skip(usize::try_from(cut.shown).unwrap()).collect();
                assert!(whole == text && rest == from, "{} {name:?}", page.id);
                assert!(!rest.is_empty(), "{} {name:?}: the first step leads to nothing", page.id);
            }
        }
    }
}
