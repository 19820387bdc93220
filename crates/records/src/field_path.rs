//! A field of a record and a place within its value, as one text.
//!
//! A path is the name of a field, or the name and a JSON pointer behind it. The name of a field may
//! contain `/`. Where a path can be read in two ways, the longest name of a field that the record
//! has is taken.

use stile_domain::records::identifiers::is_field_name;
use stile_domain::records::json_pointer::JsonPointer;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::BodyField;
use stile_store::records::{LoadedRecord, RecordSource};

use crate::field_selection::may_see;

/// The fields that a path could name, each with the place within its value. The longest name comes
/// first.
pub(crate) struct FieldPath<'p> {
    path: &'p str,
    named: Vec<(&'p str, JsonPointer)>,
}

impl<'p> FieldPath<'p> {
    /// Parses a path.
    ///
    /// # Errors
    /// [`Problem::InvalidFieldPath`] if no field has such a name.
    pub(crate) fn parse(path: &'p str) -> Result<Self, Problem> {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        let mut named: Vec<(&str, JsonPointer)> = ends
            .filter_map(|end| {
                let (name, pointer) = path.split_at_checked(end)?;
                is_field_name(name).then_some(())?;
                Some((name, JsonPointer::parse(pointer)?))
            })
            .collect();
        named.reverse();
        if named.is_empty() { Err(Problem::InvalidFieldPath) } else { Ok(Self { path, named }) }
    }

    /// Leaves out the fields that the caller may not see.
    ///
    /// # Errors
    /// [`Problem::FieldNotGranted`] if none is left.
    pub(crate) fn visible(mut self, sources: &[RecordSource]) -> Result<Self, Problem> {
        self.named.retain(|(name, _)| sources.iter().any(|source| may_see(source, name)));
        if self.named.is_empty() {
            let (field, param) = (self.path.to_owned(), "field".to_owned());
            return Err(Problem::FieldNotGranted { field, param });
        }
        Ok(self)
    }

    /// Returns the first of the fields that the record has, and the place within its value.
    ///
    /// # Errors
    /// [`Problem::FieldNotFound`] if it has none of them.
    pub(crate) fn find<'a>(
        self,
        loaded: &'a LoadedRecord,
    ) -> Result<(BodyField<'a>, JsonPointer), Problem> {
        for (name, pointer) in self.named {
            if let Some(entry) = loaded.body().field(name).map_err(|_| Problem::Corrupt)? {
                return Ok((entry, pointer));
            }
        }
        Err(Problem::FieldNotFound { field: self.path.to_owned() })
    }
}
