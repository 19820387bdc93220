//! The fields of a declaration by name, and the members that name them.

use std::collections::{HashMap, HashSet};

use serde_json::Value as Json;

use super::declaration_fault::{BadDeclaration, DeclarationFault, DeclarationNode};
use super::declared_field::DeclaredField;

/// What a use requires of a field's type.
#[derive(Clone, Copy)]
pub(super) enum FieldRequirement {
    Scalar,
    /// A scalar, or a list of them.
    Comparable,
    /// A text, or a list with texts.
    Words,
    Time,
    Number,
    Range,
}

impl FieldRequirement {
    fn check(self, field: &DeclaredField) -> Result<(), DeclarationFault> {
        let scalar = field.types.is_scalar();
        let (fits, needed) = match self {
            Self::Scalar => (scalar, "hold neither arrays nor objects"),
            Self::Comparable => {
                (field.is_comparable(), "hold neither arrays of other things nor objects")
            }
            Self::Words => (field.has_words(), "hold strings or lists of them"),
            Self::Time => {
                (field.format.is_some(), "hold strings of the format `date` or `date-time`")
            }
            Self::Number => (field.is_number(), "hold numbers only"),
            Self::Range => (
                field.is_number() || field.format.is_some(),
                "hold numbers only, or strings of the format `date` or `date-time`",
            ),
        };
        if fits {
            Ok(())
        } else {
            Err(DeclarationFault::Unfit { name: field.name.clone(), needed })
        }
    }
}

/// The fields of a declaration, in the order of the schema.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeclaredFields {
    all: Vec<DeclaredField>,
    by_name: HashMap<String, usize>,
}

impl DeclaredFields {
    pub(super) fn new(all: Vec<DeclaredField>) -> Self {
        let by_name =
            all.iter().enumerate().map(|(index, field)| (field.name.clone(), index)).collect();
        Self { all, by_name }
    }

    pub(super) fn all(&self) -> &[DeclaredField] {
        &self.all
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut DeclaredField> {
        self.all.iter_mut()
    }

    pub(super) fn get(&self, name: &str) -> Option<&DeclaredField> {
        self.by_name.get(name).and_then(|&index| self.all.get(index))
    }

    pub(super) fn check(
        &self,
        node: &DeclarationNode<'_>,
        name: &str,
        needed: Option<FieldRequirement>,
    ) -> Result<(), BadDeclaration> {
        let field = self
            .get(name)
            .ok_or_else(|| node.bad(DeclarationFault::NoSuchField(name.to_owned())))?;
        needed.map_or(Ok(()), |needed| needed.check(field)).map_err(|fault| node.bad(fault))
    }

    /// Reads the name of one field. A null counts as absent.
    pub(super) fn one(
        &self,
        node: &DeclarationNode<'_>,
        needed: FieldRequirement,
    ) -> Result<Option<String>, BadDeclaration> {
        match node.value {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(name)) => {
                self.check(node, name, Some(needed)).map(|()| Some(name.clone()))
            }
            Some(_) => Err(node.must_be("the name of a field")),
        }
    }

    /// Reads a list of names of fields and refuses repetitions.
    pub(super) fn list(
        &self,
        node: &DeclarationNode<'_>,
        needed: Option<FieldRequirement>,
    ) -> Result<Vec<String>, BadDeclaration> {
        let mut names = HashSet::new();
        let mut list = Vec::new();
        for item in node.items()? {
            let Json::String(name) = item else {
                return Err(node.must_be("a list of names of fields"));
            };
            self.check(node, name, needed)?;
            if !names.insert(name) {
                return Err(node.bad(DeclarationFault::Repeated(name.clone())));
            }
            list.push(name.clone());
        }
        Ok(list)
    }

    pub(super) fn allow(&mut self, name: &str, change: impl FnOnce(&mut DeclaredField)) {
        let field = self.by_name.get(name).and_then(|&index| self.all.get_mut(index));
        if let Some(field) = field {
            change(field);
        }
    }
}
