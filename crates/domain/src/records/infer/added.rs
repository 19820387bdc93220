//! Adds inferred fields to a declaration, and keeps what the keys of a stream without a primary key
//! are made from.
//!
//! A key from the content is a digest of fields. Would a new field count, each row of the next
//! export would get another key and be stored again. So only the fields count that the stream
//! declared at first. The declaration remembers them when fields are added, in its member `import`,
//! which has no effect on requests.

use std::collections::HashSet;

use serde_json::{Map, Value as Json, json};

use super::super::declaration::{BadDeclaration, Declaration};

const MEMBER: &str = "import";
const KEY_FIELDS: &str = "key_fields";

/// A declaration with more fields than before.
#[derive(Clone, Debug, PartialEq)]
pub struct AddedFields {
    /// The declaration with the new fields.
    pub declaration: Declaration,
    /// The names of the new fields, in the order of the rows.
    pub names: Vec<String>,
}

/// Returns the fields that the keys of a stream are made from, if it has no primary key.
pub fn content_key_fields(declaration: &Declaration) -> HashSet<String> {
    let remembered = declaration.member(MEMBER).and_then(|member| member.get(KEY_FIELDS));
    match remembered.and_then(Json::as_array) {
        Some(names) => names.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        None => declaration.fields().iter().map(|field| field.name.clone()).collect(),
    }
}

/// Adds the fields of an inferred declaration that another lacks, with their queries. `None` if it
/// lacks none.
///
/// # Errors
/// [`BadDeclaration`] if the result is too large.
pub fn add_fields(
    declaration: &Declaration,
    inferred: &Declaration,
) -> Result<Option<AddedFields>, BadDeclaration> {
    let is_new = |name: &&String| declaration.field(name).is_none();
    let names: Vec<String> =
        inferred.fields().iter().map(|field| &field.name).filter(is_new).cloned().collect();
    if names.is_empty() {
        return Ok(None);
    }
    let new: HashSet<&str> = names.iter().map(String::as_str).collect();
    let (mut json, from) = (declaration.to_json(), inferred.to_json());
    add_members(&mut json, &from, &["schema", "properties"], &new);
    add_members(&mut json, &from, &["query", "range_filters"], &new);
    add_names(&mut json, &from, &["query", "search", "lexical_fields"], &new);
    for list in ["sum", "min", "max", "group_by", "group_by_time", "count_distinct"] {
        add_names(&mut json, &from, &["query", "aggregations", list], &new);
    }
    if json.pointer("/query/exact_filters").is_some() {
        let scalars = from.pointer("/query/aggregations/group_by").cloned();
        let scalars = json!({ "query": { "exact_filters": scalars } });
        add_names(&mut json, &scalars, &["query", "exact_filters"], &new);
    }
    if declaration.primary_key().is_empty() {
        let mut fields: Vec<String> = content_key_fields(declaration).into_iter().collect();
        fields.sort();
        if let Some(member) = object_at(&mut json, &[MEMBER]) {
            member.entry(KEY_FIELDS).or_insert_with(|| fields.into());
        }
    }
    Ok(Some(AddedFields { declaration: Declaration::parse(&json)?, names }))
}

/// Returns the object at a path, which is made where it is absent; `None` if another value is
/// there.
fn object_at<'j>(json: &'j mut Json, path: &[&str]) -> Option<&'j mut Map<String, Json>> {
    let mut object = json.as_object_mut()?;
    for name in path {
        object = object.entry(*name).or_insert_with(|| json!({})).as_object_mut()?;
    }
    Some(object)
}

fn at<'j>(json: &'j Json, path: &[&str]) -> Option<&'j Json> {
    path.iter().try_fold(json, |json, name| json.get(name))
}

/// Copies the members at a path whose names are new.
fn add_members(json: &mut Json, from: &Json, path: &[&str], new: &HashSet<&str>) {
    let Some(from) = at(from, path).and_then(Json::as_object) else { return };
    let added: Vec<_> = from.iter().filter(|(name, _)| new.contains(name.as_str())).collect();
    if let (false, Some(object)) = (added.is_empty(), object_at(json, path)) {
        object.extend(added.into_iter().map(|(name, value)| (name.clone(), value.clone())));
    }
}

/// Adds the names in the list at a path that are new.
fn add_names(json: &mut Json, from: &Json, path: &[&str], new: &HashSet<&str>) {
    let Some(names) = at(from, path).and_then(Json::as_array) else { return };
    let added: Vec<Json> = names
        .iter()
        .filter(|name| name.as_str().is_some_and(|name| new.contains(name)))
        .cloned()
        .collect();
    let Some((last, path)) = path.split_last() else { return };
    if let (false, Some(object)) = (added.is_empty(), object_at(json, path))
        && let Some(list) = object.entry(*last).or_insert_with(|| json!([])).as_array_mut()
    {
        list.extend(added);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::row;
    use super::super::{Inference, KeyChoice};
    use super::*;

    fn inferred(rows: &[&str]) -> Declaration {
        let mut inference = Inference::new();
        rows.iter()
            .for_each(|json| inference.observe(&row::parse(json.as_bytes()).unwrap().fields));
        inference.finish(KeyChoice::Infer).unwrap().declaration
    }

    #[test]
    fn new_fields_get_their_queries_and_the_keys_stay_made_of_the_first_ones() {
        let before = inferred(&[r#"{"day":"2026-01-05","amount":-4.2}"#]);
        let rows = [
            r#"{"day":"2026-01-05","amount":"x","kind":"food","at":"2026-01-05","n":1,"tags":[]}"#,
        ];
        let added = add_fields(&before, &inferred(&rows)).unwrap().unwrap();
        assert_eq!(added.names, ["kind", "at", "n", "tags"]);
        let declaration = &added.declaration;
        let kind = declaration.field("kind").unwrap();
        assert!(kind.searchable && kind.filterable && kind.is_aggregatable());
        assert!(declaration.field("n").unwrap().is_range_filterable());
        assert!(!declaration.field("tags").unwrap().filterable);
        assert!(declaration.field("amount").unwrap().is_number(), "declared fields stay");
        let fields = HashSet::from(["day".to_owned(), "amount".to_owned()]);
        assert_eq!(content_key_fields(&before), fields);
        assert_eq!(content_key_fields(declaration), fields);
        let again = add_fields(declaration, &inferred(&[r#"{"more":1}"#])).unwrap().unwrap();
        assert_eq!(content_key_fields(&again.declaration), fields);
        assert_eq!(add_fields(declaration, &inferred(&rows)).unwrap(), None);
    }
}
