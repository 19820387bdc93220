//! `preview_bytes` and `fields_cursor`: the fields of a record a page at a time.
//!
//! However many fields a record has, what is told of it is bounded. The names before and behind a page are walked, and
//! their values are not read.

use stile_domain::records::body::Entry;
use stile_domain::records::cursor::{Binding, FieldNames, FieldsPlace};
use stile_domain::records::problem::{BadCursor, Problem};
use stile_store::records::{Loaded, Row, Source};

use super::Reading;
use super::parameters::Parameters;
use super::render::put_value;
use super::sink::{Sink, put_string};

/// How values and records are cut.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut {
    /// Values after so many scalar values.
    pub(super) chars: Option<u64>,
    /// Records after so many bytes.
    bytes: Option<usize>,
    /// What was asked for of the fields, to bind a cursor to.
    fields: String,
    /// Where to go on with the fields.
    cursor: Option<String>,
}

impl Cut {
    /// What a request says of it.
    ///
    /// # Errors
    /// [`Problem::InvalidRequest`] where something is missing without which there would be no bound.
    pub(super) fn new(parameters: &Parameters) -> Result<Self, Problem> {
        let (chars, bytes) = (parameters.number("preview_chars"), parameters.number("preview_bytes"));
        let cursor = parameters.text("fields_cursor").map(str::to_owned);
        if bytes.is_some() && chars.is_none() {
            let message = "`preview_bytes` needs `preview_chars`, which bounds a single value; send both";
            return Err(Problem::invalid("preview_bytes", message));
        }
        if cursor.is_some() && bytes.is_none() {
            let message = "`fields_cursor` needs `preview_bytes`, which says how much comes at a time; send both";
            return Err(Problem::invalid("fields_cursor", message));
        }
        let bytes = bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let names = parameters.names("fields").map(|names| {
            let mut names = names.to_vec();
            names.sort();
            names
        });
        let fields = asked(names.as_deref(), parameters.text("view"));
        Ok(Self { chars, bytes, fields, cursor })
    }

    /// The same for records that come along with the one that was asked for, all of whose fields are shown.
    pub(super) fn of_related(&self) -> Self {
        Self { fields: asked(None, None), cursor: None, ..*self }
    }
}

/// What was asked for of the fields, as a text. No two ways to ask have the same.
fn asked(names: Option<&[String]>, view: Option<&str>) -> String {
    format!("{names:?}{view:?}")
}

/// Some fields of a record, as JSON.
#[derive(Default)]
pub(super) struct Page {
    /// The members of `data`.
    data: String,
    /// The members of `previews`.
    previews: String,
    /// How many fields there are up to the end of the page, how many in all, and the cursor to the others.
    more: Option<(u64, u64, String)>,
}

/// The page of a record that is asked for, if its caller bounds it. `entries` are the fields that they are to see.
///
/// # Errors
/// [`Problem::InvalidFieldsCursor`]; what the database says.
pub(super) fn page<'b>(
    reading: Reading<'_>,
    (source, row, loaded): (&Source, &Row, &'b Loaded),
    cut: &Cut,
    mut entries: impl Iterator<Item = Result<Entry<'b>, Problem>>,
) -> Result<Option<Page>, Problem> {
    let Some(most) = cut.bytes else { return Ok(None) };
    let (stream, connection) = (source.stream().as_str(), source.connection().as_str());
    let binding = Binding::of(["fields", reading.view.caller(), stream, connection, &row.key, &cut.fields]);
    let mut names = FieldNames::default();
    if let Some(cursor) = &cut.cursor {
        pass_over(place(reading, cursor, binding)?, &mut names, &mut entries)?;
    }
    let mut page = Page::default();
    let mut total = names.place().before;
    let mut end = None;
    for entry in entries {
        let entry = entry?;
        total += 1;
        if end.is_none() && page.takes(reading, loaded, &entry, cut.chars, most)? {
            names.push(entry.name);
        } else {
            end.get_or_insert_with(|| names.place());
        }
    }
    if let Some(end) = end {
        page.more = Some((end.before, total, reading.view.seal(&end.encode(binding))?));
    }
    Ok(Some(page))
}

/// Where a cursor leads to.
fn place(reading: Reading<'_>, cursor: &str, binding: Binding) -> Result<FieldsPlace, Problem> {
    let opened = reading.view.open(cursor).map_err(|_| Problem::InvalidFieldsCursor(BadCursor::Malformed))?;
    FieldsPlace::decode(&opened, binding).map_err(Problem::InvalidFieldsCursor)
}

/// Passes over the fields before a place, which must be those that were there when it was made.
fn pass_over<'b>(
    place: FieldsPlace,
    names: &mut FieldNames,
    entries: &mut impl Iterator<Item = Result<Entry<'b>, Problem>>,
) -> Result<(), Problem> {
    let stale = || Problem::InvalidFieldsCursor(BadCursor::Stale);
    for _ in 0..place.before {
        names.push(entries.next().ok_or_else(stale)??.name);
    }
    if names.place() == place { Ok(()) } else { Err(stale()) }
}

impl Page {
    /// Adds a field, if it fits or is the first.
    fn takes(
        &mut self,
        reading: Reading<'_>,
        loaded: &Loaded,
        entry: &Entry<'_>,
        chars: Option<u64>,
        most: usize,
    ) -> Result<bool, Problem> {
        let mut member = String::new();
        put_string(&mut member, entry.name);
        member.push(':');
        let mut told = member.clone();
        match put_value(reading, loaded, entry, chars, &mut member)? {
            Some(preview) => told.push_str(&preview.to_string()),
            None => told.clear(),
        }
        let added = |to: &str, part: &str| part.len() + usize::from(!to.is_empty() && !part.is_empty());
        let size = self.data.len() + self.previews.len() + added(&self.data, &member) + added(&self.previews, &told);
        let fits = self.data.is_empty() || size <= most;
        if fits {
            for (to, part) in [(&mut self.data, &member), (&mut self.previews, &told)] {
                to.push_str(if to.is_empty() || part.is_empty() { "" } else { "," });
                to.push_str(part);
            }
        }
        Ok(fits)
    }

    /// Puts it, from within `data` on.
    pub(super) fn put(&self, out: &mut dyn Sink) {
        out.put(&self.data);
        out.put("}");
        if !self.previews.is_empty() {
            out.put(&format!(",\"previews\":{{{}}}", self.previews));
        }
        if let Some((shown, total, next)) = &self.more {
            out.put(&format!(",\"more_fields\":{{\"shown\":{shown},\"total\":{total},\"next_cursor\":\"{next}\"}}"));
        }
    }
}
