//! `preview_bytes` and `fields_cursor`: the fields of a record a page at a time.
//!
//! However many fields a record has, what is told of it is bounded. The names before and behind a
//! page are walked, and their values are not read.

use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::sealed_cursor::{Binding, FieldNames, FieldsCursor};
use stile_domain::records::stored_body::BodyField;
use stile_store::records::{LoadedRecord, RecordRow, RecordSource};

use super::Reading;
use super::parameters::Parameters;
use stile_domain::json_string::escaped_len;

use super::sink::{ResponseSink, write_json_string};
use super::values::{Told, told};

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
    /// [`Problem::InvalidRequest`] where something is missing without which there would be no
    /// bound.
    pub(super) fn new(parameters: &Parameters) -> Result<Self, Problem> {
        let (chars, bytes) =
            (parameters.number("preview_chars"), parameters.number("preview_bytes"));
        let cursor = parameters.text("fields_cursor").map(str::to_owned);
        if bytes.is_some() && chars.is_none() {
            let message =
                "`preview_bytes` needs `preview_chars`, which bounds a single value; send both";
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

    /// The same for records that come along with the one that was asked for, all of whose fields
    /// are shown.
    pub(super) fn of_related(&self) -> Self {
        Self { fields: asked(None, None), cursor: None, ..*self }
    }
}

/// What was asked for of the fields, as a text. No two ways to ask have the same.
fn asked(names: Option<&[String]>, view: Option<&str>) -> String {
    format!("{names:?}{view:?}")
}

/// Some fields of a record, in their order.
#[derive(Default)]
pub(super) struct Page {
    fields: Vec<Member>,
    /// The bytes of the members of `data` and of `previews`, each with the comma before it but for
    /// the first.
    bytes: usize,
    has_previews: bool,
    more: Option<More>,
}

/// A field.
struct Member {
    name: String,
    told: Told,
}

/// That a record has fields after these.
struct More {
    /// How many there are up to the last one of these.
    shown: u64,
    /// How many there are in all.
    total: u64,
    /// Where they go on.
    next_cursor: String,
}

/// The fields of a record that its caller has room for, if they bound it. `entries` are those that
/// they are to see.
///
/// # Errors
/// [`Problem::InvalidFieldsCursor`]; what the database says.
pub(super) fn page<'b>(
    reading: Reading<'_>,
    (source, row, loaded): (&RecordSource, &RecordRow, &'b LoadedRecord),
    cut: &Cut,
    mut entries: impl Iterator<Item = Result<BodyField<'b>, Problem>>,
) -> Result<Option<Page>, Problem> {
    let (Some(most), Some(chars)) = (cut.bytes, cut.chars) else { return Ok(None) };
    let (stream, connection) = (source.stream().as_str(), source.connection().as_str());
    let binding = || {
        Binding::new(["fields", reading.view.caller(), stream, connection, &row.key, &cut.fields])
    };
    let mut names = FieldNames::default();
    if let Some(cursor) = &cut.cursor {
        pass_over(place(reading, cursor, binding())?, &mut names, &mut entries)?;
    }
    let (mut page, mut total, mut end) = (Page::default(), names.cursor().before, None);
    for entry in entries {
        let entry = entry?;
        total += 1;
        if end.is_none() && page.takes(Member::of(reading, loaded, &entry, chars)?, most) {
            names.push(entry.name);
        } else {
            end.get_or_insert_with(|| names.cursor());
        }
    }
    if let Some(end) = end {
        let next_cursor = reading.view.seal(&end.encode(binding()))?;
        page.more = Some(More { shown: end.before, total, next_cursor });
    }
    Ok(Some(page))
}

/// Where a cursor leads to.
fn place(reading: Reading<'_>, cursor: &str, binding: Binding) -> Result<FieldsCursor, Problem> {
    let opened = reading
        .view
        .unseal(cursor)
        .map_err(|_| Problem::InvalidFieldsCursor(CursorProblem::Malformed))?;
    FieldsCursor::decode(&opened, binding).map_err(Problem::InvalidFieldsCursor)
}

/// Passes over the fields before a place, which must be those that were there when it was made.
fn pass_over<'b>(
    place: FieldsCursor,
    names: &mut FieldNames,
    entries: &mut impl Iterator<Item = Result<BodyField<'b>, Problem>>,
) -> Result<(), Problem> {
    let stale = || Problem::InvalidFieldsCursor(CursorProblem::Stale);
    for _ in 0..place.before {
        names.push(entries.next().ok_or_else(stale)??.name);
    }
    if names.cursor() == place { Ok(()) } else { Err(stale()) }
}

impl Member {
    fn of(
        reading: Reading<'_>,
        loaded: &LoadedRecord,
        entry: &BodyField<'_>,
        chars: u64,
    ) -> Result<Self, Problem> {
        Ok(Self { name: entry.name.to_owned(), told: told(reading, loaded, entry, chars)? })
    }
}

impl Page {
    /// Adds a field, if it fits or is the first.
    fn takes(&mut self, member: Member, most: usize) -> bool {
        let (name, preview) = (escaped_len(&member.name) + 3, member.told.preview_len());
        let value = name + member.told.len() + usize::from(!self.fields.is_empty());
        let preview = preview.map(|preview| name + preview + usize::from(self.has_previews));
        let bytes = self.bytes + value + preview.unwrap_or(0);
        let fits = self.fields.is_empty() || bytes <= most;
        if fits {
            self.bytes = bytes;
            self.has_previews |= preview.is_some();
            self.fields.push(member);
        }
        fits
    }

    /// Puts it, from within `data` on.
    pub(super) fn put(&self, out: &mut dyn ResponseSink) {
        for (at, Member { name, told }) in self.fields.iter().enumerate() {
            out.write(if at > 0 { "," } else { "" });
            write_json_string(out, name);
            out.write(":");
            told.put(out);
        }
        out.write("}");
        let previews =
            self.fields.iter().filter_map(|Member { name, told }| Some((name, told.preview()?)));
        for (at, (name, preview)) in previews.enumerate() {
            out.write(if at > 0 { "," } else { ",\"previews\":{" });
            write_json_string(out, name);
            out.write(":");
            out.write(&preview);
        }
        if self.has_previews {
            out.write("}");
        }
        if let Some(More { shown, total, next_cursor }) = &self.more {
            out.write(&format!(
                ",\"more_fields\":{{\"shown\":{shown},\"total\":{total},\"next_cursor\":\"{next_cursor}\"}}"
            ));
        }
    }
}
