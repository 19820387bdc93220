//! Marks of fields whose values do not have the declared type.
//!
//! Aggregates leave such values out, and a caller that reads a record sees which they are.

use stile_domain::records::declaration::Declaration;
use stile_domain::records::stored_body::BodyField;

use crate::response_sink::{ResponseSink, write_json_string};

/// The most fields of a record that are marked.
const MAX_MARKED: usize = 16;

/// The fields of a record whose values do not have the declared type, each with that type within a
/// sentence. A mark is beside the record's data and never among it, so that no field can forge one.
#[derive(Default)]
pub(crate) struct TypeMarks(Vec<(String, String)>);

impl TypeMarks {
    /// Marks a field if its value does not have the declared type.
    pub(crate) fn check(&mut self, declaration: &Declaration, entry: &BodyField<'_>) {
        let field = declaration.field(entry.name).filter(|field| !field.admits(entry.value));
        if let Some(field) = field.filter(|_| self.0.len() < MAX_MARKED) {
            self.0.push((entry.name.to_owned(), field.described_type()));
        }
    }

    /// Writes the member `not_as_declared`, unless no field is marked.
    pub(crate) fn write(&self, out: &mut dyn ResponseSink) {
        for (index, (name, declared)) in self.0.iter().enumerate() {
            out.write(if index > 0 { "," } else { ",\"not_as_declared\":{" });
            write_json_string(out, name);
            out.write(":");
            write_json_string(out, declared);
        }
        if !self.0.is_empty() {
            out.write("}");
        }
    }
}
