//! A warning about lists that a search does not look into, for a search that found nothing.
//!
//! The words of a list are searched if the declaration names the field so, as those of a text are.
//! A stream that was declared before lists were searched has lists with words that no search finds,
//! and whoever reads "in no record" would take it for the truth.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use stile_domain::records::declaration::JsonType;
use stile_domain::records::problem::Problem;
use stile_store::records::RecordSource;

use crate::context::ReadContext;

/// The code of the warning.
pub(crate) const CODE: &str = "lists_not_searched";
/// How many fields the message names.
const MOST_NAMED: usize = 5;
/// How many streams are looked at. The declaration of each is parsed.
const MOST_SOURCES: usize = 200;

/// Returns a warning that names the visible lists of texts that no declaration lets a search look
/// into; `None` if there is none.
///
/// # Errors
/// The error of the database.
pub(crate) fn warning(
    context: ReadContext<'_>,
    sources: &[RecordSource],
) -> Result<Option<Json>, Problem> {
    let mut fields = BTreeSet::new();
    for source in sources.iter().take(MOST_SOURCES) {
        let declaration = context.declarations.get(source)?;
        for field in declaration.fields() {
            let is_granted = source.fields().is_none_or(|granted| granted.contains(&field.name));
            let has_words = field.is_list() && field.members.contains(JsonType::String);
            if is_granted && has_words && !source.searches(&field.name) {
                fields.insert(field.name.clone());
            }
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
            "no search looks into the lists of {}{more}: the declaration does not name them as \
             `lexical_fields`; a filter finds a whole member",
            named.join(", ")
        ),
        "detail": { "fields": fields },
    })))
}
