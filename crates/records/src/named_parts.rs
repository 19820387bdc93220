//! The fields and the related records that a request names, and which of them its caller may name.

use std::collections::BTreeSet;

use stile_domain::records::problem::Problem;
use stile_store::records::RecordSource;

use crate::context::ReadContext;
use crate::field_selection;

/// The fields and the relations that a request names.
pub(crate) struct NamedParts<'r> {
    /// The names of fields; empty if the request has none.
    pub(crate) fields: &'r [String],
    /// The declared view whose fields are selected instead.
    pub(crate) view: Option<&'r str>,
    /// The relations to follow.
    pub(crate) expand: &'r [String],
    /// The greatest number of records of some relations.
    pub(crate) expand_limit: &'r [(String, u64)],
}

impl<'r> NamedParts<'r> {
    /// Returns the names of fields; `None` if the request has none.
    pub(crate) fn fields(&self) -> Option<&'r [String]> {
        Some(self.fields).filter(|names| !names.is_empty())
    }

    /// Refuses the parameters that only the owner may send. Callers check this before they look
    /// anything up, so that the error is the same whatever the store holds.
    pub(crate) fn refuse_for_clients(&self, context: ReadContext<'_>) -> Result<(), Problem> {
        if context.view.grant().is_none() {
            return Ok(());
        }
        let sent = [
            ("view", self.view.is_some()),
            ("expand", !self.expand.is_empty()),
            ("expand_limit", !self.expand_limit.is_empty()),
        ];
        match sent.into_iter().find(|(_, sent)| *sent) {
            None => Ok(()),
            Some((name, _)) => Problem::refuse(
                name,
                format!("`{name}` is for the owner alone; send `fields`, or ask for each stream"),
            ),
        }
    }

    /// Returns the fields that a request selects, by name or by view; `None` for all.
    ///
    /// # Errors
    /// [`Problem::InvalidRequest`] if the request sends both, if no source declares the view, or if
    /// the sources declare it differently; as [`field_selection::requested`].
    pub(crate) fn selected_fields(
        &self,
        context: ReadContext<'_>,
        sources: &[RecordSource],
    ) -> Result<Option<BTreeSet<String>>, Problem> {
        let names = self.fields();
        let Some(view) = self.view else {
            return field_selection::requested(context, sources, names);
        };
        if names.is_some() {
            return Problem::refuse(
                "view",
                "`view` and `fields` exclude each other; send one of them",
            );
        }
        let mut found: Vec<Option<BTreeSet<String>>> = Vec::new();
        for source in sources {
            let declaration = context.declarations.get(source)?;
            found.push(declaration.view(view).map(|names| names.iter().cloned().collect()));
        }
        match found.as_slice() {
            [Some(first), others @ ..]
                if others.iter().all(|other| other.as_ref() == Some(first)) =>
            {
                let names: Vec<String> = first.iter().cloned().collect();
                field_selection::requested(context, sources, Some(&names))
            }
            found if found.iter().all(Option::is_none) => Problem::refuse(
                "view",
                "the stream declares no such view; the stream's description lists those that there are",
            ),
            _ => Problem::refuse(
                "view",
                "connections declare this view differently; send `connection_id`",
            ),
        }
    }
}
