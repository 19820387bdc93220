//! Marks of fields whose values do not count: those that do not have the declared type, and lists
//! that are too long to be looked into.
//!
//! Filters and aggregates leave such values out, and a caller that reads a record sees which they
//! are.

use stile_domain::records::declaration::Declaration;
use stile_domain::records::pieces::INLINE_BYTES;
use stile_domain::records::stored_body::BodyField;

use crate::response_sink::{ResponseSink, write_json_string};

/// The most fields of a record that are marked, of each kind.
const MAX_MARKED: usize = 16;

/// The fields of a record whose values do not count. A mark is beside the record's data and never
/// among it, so that no field can forge one.
#[derive(Default)]
pub(crate) struct TypeMarks {
    /// Fields whose values do not have the declared type, each with that type within a sentence.
    other_types: Vec<(String, String)>,
    /// Fields with lists that neither a filter nor an aggregate looks into, each with the reason.
    long_lists: Vec<(String, String)>,
}

impl TypeMarks {
    /// Marks a field if its value does not count.
    pub(crate) fn check(&mut self, declaration: &Declaration, entry: &BodyField<'_>) {
        let Some(field) = declaration.field(entry.name) else { return };
        let (marked, said) = match () {
            () if !field.admits(entry.value) => (&mut self.other_types, field.described_type()),
            () if field.is_long_list(entry.value) => {
                (&mut self.long_lists, format!("a list longer than {INLINE_BYTES} bytes"))
            }
            () => return,
        };
        if marked.len() < MAX_MARKED {
            marked.push((entry.name.to_owned(), said));
        }
    }

    /// Writes the members `not_as_declared` and `not_looked_into`, unless no field is marked so.
    pub(crate) fn write(&self, out: &mut dyn ResponseSink) {
        let kinds = [("not_as_declared", &self.other_types), ("not_looked_into", &self.long_lists)];
        for (member, marked) in kinds {
            for (index, (name, said)) in marked.iter().enumerate() {
                out.write(&if index > 0 { ",".to_owned() } else { format!(",\"{member}\":{{") });
                write_json_string(out, name);
                out.write(":");
                write_json_string(out, said);
            }
            if !marked.is_empty() {
                out.write("}");
            }
        }
    }
}
