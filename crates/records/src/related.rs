//! `view`, `expand` and `expand_limit`: a declared list of fields, and the records of other streams
//! that a declared relation names.
//!
//! Only the owner may send them: a related record is in another stream, which a grant may not
//! include. A foreign key is a text, or a number or boolean as it is written; `null` refers to no
//! record. A relation to one record looks the key up. A relation to many reads the other stream
//! from its last record back, once for all records of a page, until it has one record more than the
//! limit for each of them.

use std::collections::{BTreeSet, HashMap};

use stile_domain::records::declaration::Relation;
use stile_domain::records::filter;
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::problem::Problem;
use stile_store::records::{RecordPage, RecordRow, RecordSource};

use crate::context::ReadContext;
use crate::field_page::PreviewLimits;
use crate::named_parts::NamedParts;
use crate::page_reading::{self, PageRecord};
use crate::record_json::{RecordOptions, write_record};
use crate::response_sink::{ResponseSink, write_json_string};

/// The fields and the related records that a request selects of each record.
pub(crate) struct RecordSelection {
    /// The selected fields; `None` for all.
    fields: Option<BTreeSet<String>>,
    /// The relations to follow, each with the greatest number of its records.
    relations: Vec<(Relation, usize)>,
}

/// Sources of related streams that were looked up before, by connection and stream.
type RelatedSources = HashMap<(SourceName, SourceName), Vec<RecordSource>>;

/// What was looked up for the records of a page.
#[derive(Default)]
pub(crate) struct RelatedRecords {
    sources: RelatedSources,
    /// The pages of relations to many, by the index of the record's source and of the relation,
    /// and by the record's key.
    many: HashMap<(usize, usize), HashMap<String, RecordPage>>,
    /// The records of relations to one, by the same indexes and by their own keys.
    one: HashMap<(usize, usize), HashMap<String, RecordRow>>,
}

impl RecordSelection {
    /// Checks the relations that a request names, for fields that were checked before.
    ///
    /// # Errors
    /// [`Problem::InvalidExpand`].
    pub(crate) fn new(
        context: ReadContext<'_>,
        sources: &[RecordSource],
        parts: &NamedParts<'_>,
        fields: Option<BTreeSet<String>>,
    ) -> Result<Self, Problem> {
        let relations = requested_relations(context, sources, parts)?;
        Ok(Self { fields, relations })
    }

    /// Looks up the records that relations lead to, for all records of a page at once.
    pub(crate) fn find_related(
        &self,
        context: ReadContext<'_>,
        sources: &[RecordSource],
        rows: &[RecordRow],
    ) -> Result<RelatedRecords, Problem> {
        let mut related = RelatedRecords::default();
        if self.relations.is_empty() {
            return Ok(related);
        }
        context.view.read_ahead(rows.iter().map(|row| (sources, row)))?;
        for (at, source) in sources.iter().enumerate() {
            let own: Vec<&RecordRow> = rows.iter().filter(|row| row.source == at).collect();
            for (index, (relation, limit)) in self.relations.iter().enumerate() {
                let others = related_sources_of(context, source, relation, &mut related.sources)?;
                let field = &relation.foreign_key;
                if relation.many.is_some() {
                    let keys = own.iter().map(|row| row.key.clone());
                    let pages = context.view.list_referring(others, field, keys, *limit)?;
                    related.many.insert((at, index), pages);
                } else {
                    let keys = own.iter().map(|row| referenced_key(context, sources, row, field));
                    let keys: BTreeSet<String> =
                        keys.filter_map(Result::transpose).collect::<Result<_, _>>()?;
                    let keys: Vec<String> = keys.into_iter().collect();
                    let found = context.view.find_by_keys(others, &keys)?;
                    let found = found.into_iter().map(|row| (row.key.clone(), row)).collect();
                    related.one.insert((at, index), found);
                }
            }
        }
        Ok(related)
    }

    /// Reads at once what [`Self::write_record`] writes of a page's records and related records.
    pub(crate) fn read_page(
        &self,
        context: ReadContext<'_>,
        sources: &[RecordSource],
        (rows, related): (&[RecordRow], &RelatedRecords),
        limits: &PreviewLimits,
    ) -> Result<(), Problem> {
        let related_limits = limits.for_related();
        let options = RecordOptions { fields: self.fields.as_ref(), limits };
        let mut records: Vec<PageRecord<'_>> =
            rows.iter().map(|row| (sources, row, options)).collect();
        let options = RecordOptions { fields: None, limits: &related_limits };
        for (at, source) in sources.iter().enumerate() {
            for (index, (relation, _)) in self.relations.iter().enumerate() {
                let key = (source.connection().clone(), relation.stream.clone());
                let Some(others) = related.sources.get(&key) else { continue };
                let many = related.many.get(&(at, index)).into_iter().flatten();
                let many = many.flat_map(|(_, page)| &page.rows);
                let one = related.one.get(&(at, index)).into_iter().flatten();
                let all = many.chain(one.map(|(_, row)| row));
                records.extend(all.map(|row| (others.as_slice(), row, options)));
            }
        }
        page_reading::read_page(context, &records)
    }

    /// Writes a record with its related records, except the closing brace, so that the caller can
    /// add members.
    pub(crate) fn write_record(
        &self,
        context: ReadContext<'_>,
        sources: &[RecordSource],
        row: &RecordRow,
        limits: &PreviewLimits,
        (related, out): (&mut RelatedRecords, &mut dyn ResponseSink),
    ) -> Result<(), Problem> {
        write_record(
            context,
            sources,
            row,
            RecordOptions { fields: self.fields.as_ref(), limits },
            out,
        )?;
        if self.relations.is_empty() {
            return Ok(());
        }
        let source = sources.get(row.source).ok_or(Problem::NotFound)?;
        let limits = limits.for_related();
        let options = RecordOptions { fields: None, limits: &limits };
        for (index, (relation, _)) in self.relations.iter().enumerate() {
            out.write(if index == 0 { ",\"expanded\":{" } else { "," });
            write_json_string(out, &relation.name);
            let others = related_sources_of(context, source, relation, &mut related.sources)?;
            if relation.many.is_some() {
                let pages = related.many.get(&(row.source, index));
                let page = pages.and_then(|pages| pages.get(&row.key)).ok_or(Problem::NotFound)?;
                write_many(context, others, page, options, out)?;
            } else {
                let key = referenced_key(context, sources, row, &relation.foreign_key)?;
                let found = related.one.get(&(row.source, index));
                let found = key.and_then(|key| found.and_then(|found| found.get(&key)));
                out.write(":");
                match found {
                    None => out.write("null"),
                    Some(other) => {
                        write_record(context, others, other, options, out)?;
                        out.write("}");
                    }
                }
            }
        }
        out.write("}");
        Ok(())
    }
}

/// Returns the relations that `expand` names, each with the greatest number of its records.
fn requested_relations(
    context: ReadContext<'_>,
    sources: &[RecordSource],
    parts: &NamedParts<'_>,
) -> Result<Vec<(Relation, usize)>, Problem> {
    let (names, limits) = (parts.expand, parts.expand_limit);
    if let Some((name, _)) = limits.iter().find(|(name, _)| !names.contains(name)) {
        return Err(invalid_limit(name, "is of a relation that `expand` does not name"));
    }
    let mut relations = Vec::new();
    for name in names {
        let relation = declared_relation(context, sources, name)?;
        let requested = limits.iter().find(|(own, _)| own == name).map(|(_, limit)| *limit);
        let limit = match (relation.many, requested) {
            (None, None) => 1,
            (None, Some(_)) => {
                return Err(invalid_limit(name, "is of a relation to one record; leave it out"));
            }
            (Some(limits), None) => limits.default,
            (Some(limits), Some(requested)) if requested <= limits.most => requested,
            (Some(limits), Some(_)) => {
                return Err(invalid_limit(name, &format!("is at most {}", limits.most)));
            }
        };
        relations.push((relation, usize::try_from(limit).unwrap_or(usize::MAX)));
    }
    Ok(relations)
}

fn invalid_limit(name: &str, message: &str) -> Problem {
    let param = format!("expand_limit[{name}]");
    Problem::InvalidExpand { message: format!("`{param}` {message}"), param }
}

/// Returns a relation that every connection declares alike.
fn declared_relation(
    context: ReadContext<'_>,
    sources: &[RecordSource],
    name: &str,
) -> Result<Relation, Problem> {
    let mut found: Vec<Option<Relation>> = Vec::new();
    for source in sources {
        let declaration = context.declarations.get(source)?;
        found.push(declaration.relations().iter().find(|relation| relation.name == name).cloned());
    }
    let invalid = |message: String| Problem::InvalidExpand { param: "expand".to_owned(), message };
    match found.as_slice() {
        [Some(first), others @ ..] if others.iter().all(|other| other.as_ref() == Some(first)) => {
            Ok(first.clone())
        }
        found if found.iter().all(Option::is_none) => Err(invalid(format!(
            "`{name}` is no relation of this stream; `expand_capabilities` in the stream's description lists those that there are"
        ))),
        _ => Err(invalid(format!(
            "connections declare the relation `{name}` differently; send `connection_id`"
        ))),
    }
}

/// Returns the other stream of a relation, in the same connection; empty if it does not exist.
fn related_sources_of<'s>(
    context: ReadContext<'_>,
    source: &RecordSource,
    relation: &Relation,
    known: &'s mut RelatedSources,
) -> Result<&'s [RecordSource], Problem> {
    let key = (source.connection().clone(), relation.stream.clone());
    if !known.contains_key(&key) {
        let found = match context
            .view
            .sources_of(relation.stream.as_str(), Some(source.connection().as_str()))
        {
            Ok(found) => found,
            Err(Problem::StreamNotFound { .. }) => Vec::new(),
            Err(problem) => return Err(problem),
        };
        known.insert(key.clone(), found);
    }
    Ok(known.get(&key).map(Vec::as_slice).unwrap_or_default())
}

fn write_many(
    context: ReadContext<'_>,
    others: &[RecordSource],
    page: &RecordPage,
    options: RecordOptions<'_>,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    out.write(&format!(":{{\"object\":\"list\",\"has_more\":{},\"data\":[", page.has_more));
    for (index, other) in page.rows.iter().enumerate() {
        if index > 0 {
            out.write(",");
        }
        write_record(context, others, other, options, out)?;
        out.write("}");
        if out.is_closed() {
            break;
        }
    }
    out.write("]}");
    Ok(())
}

fn referenced_key(
    context: ReadContext<'_>,
    sources: &[RecordSource],
    row: &RecordRow,
    field: &str,
) -> Result<Option<String>, Problem> {
    let loaded = context.view.load_fields(sources, row)?;
    let entry = loaded.body().field(field).map_err(|_| Problem::Corrupt)?;
    Ok(entry.and_then(|entry| filter::referenced_key(entry.value)).map(str::to_owned))
}
