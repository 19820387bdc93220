//! A warning about lists and objects that a search does not look into.
//!
//! The words of a list of texts are searched if the declaration names the field so, as those of a
//! text are. No search looks into objects, nor into lists of them. Whoever reads how many records
//! have a word would take the number for all of them, so each search and each aggregate with words
//! says which fields it leaves out. The warning depends on the declaration alone, and on what the
//! caller may see.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use stile_domain::records::declaration::{Declaration, DeclaredField};
use stile_domain::records::problem::Problem;
use stile_domain::records::tokenizer::ParsedQuery;
use stile_store::records::RecordSource;

use crate::context::ReadContext;

/// The code of the warning.
pub(crate) const CODE: &str = "lists_not_searched";
/// How many fields the message names.
const MOST_NAMED: usize = 5;
/// How many streams are looked at. The declaration of each is parsed.
const MOST_SOURCES: usize = 200;
/// The fields of calendars that hold lists of dates.
const DATES: [&str; 2] = ["not_on", "also_on"];
/// The field with the attachments of a record, and the one with their names and texts.
const ATTACHMENTS: [&str; 2] = ["attachments", "attachment_text"];
/// The field by which a chat of WhatsApp is known, whose texts have the names of attachments.
const OF_WHATSAPP: &str = "media_omitted";

/// Returns a warning that names the visible fields with lists or objects that a search for these
/// words does not look into; `None` if there is none.
///
/// # Errors
/// The error of the database.
pub(crate) fn warning(
    context: ReadContext<'_>,
    sources: &[RecordSource],
    query: &ParsedQuery,
) -> Result<Option<Json>, Problem> {
    // A term that names its field is looked for nowhere else.
    let terms = query.terms.iter().chain(&query.excluded);
    if query.terms.is_empty() || terms.clone().all(|term| term.field.is_some()) {
        return Ok(None);
    }
    let (mut fields, mut has_filtered) = (BTreeSet::new(), false);
    for source in sources.iter().take(MOST_SOURCES) {
        let declaration = context.declarations.get(source)?;
        for field in
            declaration.fields().iter().filter(|field| is_unsearched(source, &declaration, field))
        {
            fields.insert(field.name.clone());
            has_filtered |= field.is_list() && field.filterable;
        }
    }
    if fields.is_empty() {
        return Ok(None);
    }
    let named: Vec<String> =
        fields.iter().take(MOST_NAMED).map(|name| format!("`{name}`")).collect();
    let more = match fields.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Ok(Some(json!({
        "code": CODE, "param": "q",
        "message": format!(
            "no search looks into the lists or objects of {}{more}, so more records may have these \
             words{}",
            named.join(", "),
            if has_filtered { "; a filter finds a whole member of a list" } else { "" }
        ),
        "detail": { "fields": fields },
    })))
}

/// Whether the caller may see a field that may have words in lists or objects, and a search looks
/// into none of them. References to records have no words, and the names and texts of attachments
/// are in a field of their own, or in the text of the message.
fn is_unsearched(source: &RecordSource, declaration: &Declaration, field: &DeclaredField) -> bool {
    let name = field.name.as_str();
    let [attachments, texts] = ATTACHMENTS;
    let is_granted = |name: &str| source.fields().is_none_or(|granted| granted.contains(name));
    let is_of_whatsapp = || is_granted(OF_WHATSAPP) && declaration.field(OF_WHATSAPP).is_some();
    let has_texts = || source.searches(texts) || is_of_whatsapp();
    let is_searched =
        field.is_list() && source.searches(name) || name == attachments && has_texts();
    let is_wordless = name.ends_with("_ref") || DATES.contains(&name);
    is_granted(name) && field.has_nested_texts && !is_searched && !is_wordless
}
