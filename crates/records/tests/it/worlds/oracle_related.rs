//! Views, relations, sorting and counting, the obvious way: every record of the other stream is
//! looked at.

use serde_json::{Value as Json, json};
use stile_domain::records::value::FieldValue;
use stile_testkit::chance::Chance;

use super::json::J;
use super::model::{FIELDS, Rec, Source, pick, some};
use super::oracle::{
    INVALID, Oracle, Params, Refusal, Seen, Who, place, put, shown, sorted, text_of,
};

const INVALID_EXPAND: Refusal = ("invalid_expand", 400);
const INVALID_SORT: Refusal = ("invalid_sort", 400);

/// Draws what is asked of a list or a record beside its fields; a list is also sorted and counted.
pub(crate) fn draw(
    chance: &mut Chance,
    source: &Source,
    is_owner: bool,
    list: bool,
    pairs: &mut Vec<(String, String)>,
) {
    let before = pairs.len();
    let mut put = |name: &str, value: &str| pairs.push((name.to_owned(), value.to_owned()));
    let often = |percent: usize| if is_owner { percent } else { 3 };
    if chance.happens(often(30)) {
        put("view", pick(chance, &["v", "v", "w", "w", "x"]));
    }
    if chance.happens(often(45)) {
        match chance.below(5) {
            0 => put("expand", "r"),
            1 => put("expand[]", "one"),
            2 => put("expand", "one,r"),
            3 => ["r", "one"].into_iter().for_each(|name| put("expand", name)),
            _ => put("expand", pick(chance, &["nothing", "one", "r"])),
        }
        if chance.happens(55) {
            put(
                "expand_limit[r]",
                pick(chance, &["1", "1", "1", "2", "2", "3", "50", "51", "0", "x"]),
            );
        }
        if chance.happens(3) {
            put("expand_limit[one]", "1");
        }
    } else if chance.happens(2) {
        put("expand_limit[r]", "1");
    }
    if list && chance.happens(30) {
        put("count", pick(chance, &["none", "estimated", "exact"]));
    }
    if list && chance.happens(20) {
        let field = match &source.decl.cursor {
            Some(cursor) if chance.happens(85) => cursor.clone(),
            _ => some(chance, &FIELDS).0,
        };
        let sort = if chance.happens(50) { format!("-{field}") } else { field };
        put("sort", &sort);
    }
    // Mostly what goes together, and of one connection: others declare other things.
    let sent = |pairs: &[(String, String)], name: &str| pairs.iter().any(|(own, _)| own == name);
    for (one, other) in [("view", "fields"), ("view", "fields[]"), ("sort", "order")] {
        if sent(pairs, one) && chance.happens(85) {
            pairs.retain(|(name, _)| name != other);
        }
    }
    if pairs.len() > before && !sent(pairs, "connection_id") && chance.happens(75) {
        pairs.push(("connection_id".to_owned(), source.connection.clone()));
    }
}

/// A relation that can be asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Related {
    name: String,
    stream: String,
    key: String,
    /// Where many belong to one: how many where nobody says, and at most.
    many: Option<(u64, u64)>,
}

/// What a declaration says of views: their fields. None where one is wrong.
fn views(source: &Source) -> Vec<(String, Vec<String>)> {
    let views =
        source.decl.extra.get("views").and_then(Json::as_array).cloned().unwrap_or_default();
    if views.iter().any(|view| view.get("fields").is_none()) {
        return Vec::new();
    }
    let text = |json: &Json| json.as_str().unwrap().to_owned();
    let fields = |view: &Json| view["fields"].as_array().unwrap().iter().map(text).collect();
    views.iter().map(|view| (text(&view["id"]), fields(view))).collect()
}

fn relations(source: &Source) -> Vec<Related> {
    let list = |name: &str| {
        source.decl.extra.get(name).and_then(Json::as_array).cloned().unwrap_or_default()
    };
    let all = list("relationships");
    if all.iter().any(|one| one["cardinality"].is_null()) {
        return Vec::new();
    }
    let text = |json: &Json| json.as_str().unwrap().to_owned();
    let related = |asked: &Json| {
        let one = all.iter().find(|one| one["name"] == asked["name"]).unwrap();
        let most = asked["max_limit"].as_u64().unwrap_or(50);
        let default = asked["default_limit"].as_u64().unwrap_or(most.min(10));
        Related {
            name: text(&one["name"]),
            stream: text(&one["stream"]),
            key: text(&one["foreign_key"]),
            many: (one["cardinality"] == "has_many").then_some((default, most)),
        }
    };
    list("expand").iter().map(related).collect()
}

impl<'a> Oracle<'a> {
    pub(crate) fn owner_only(&self, params: &Params) -> Result<(), Refusal> {
        let sent = params.text("view").is_some()
            || params.names.contains_key("expand")
            || !params.limits.is_empty();
        if matches!(self.who, Who::Client(_)) && sent { Err(INVALID) } else { Ok(()) }
    }

    /// The fields of the view that was asked for, the same in every connection.
    pub(crate) fn view(
        &self,
        sources: &[Seen<'_>],
        params: &Params,
    ) -> Result<Option<Vec<String>>, Refusal> {
        let Some(id) = params.text("view") else { return Ok(None) };
        let found = sources.iter().map(|seen| {
            let view = views(seen.source).into_iter().find(|(name, _)| name == id);
            view.map(|(_, mut fields)| {
                fields.sort();
                fields
            })
        });
        let found: Vec<Option<Vec<String>>> = found.collect();
        let same = found.iter().all(|one| *one == found[0]);
        if params.names.contains_key("fields") || !same || found[0].is_none() {
            return Err(INVALID);
        }
        Ok(found[0].clone())
    }

    pub(crate) fn descending(
        &self,
        sources: &[Seen<'_>],
        params: &Params,
    ) -> Result<bool, Refusal> {
        let order = params.text("order");
        let Some(sort) = params.text("sort") else { return Ok(order != Some("asc")) };
        let by = |seen: &Seen<'_>| seen.source.decl.cursor.clone().filter(|name| seen.field(name));
        let descending = sort.starts_with('-');
        let field = sort.trim_start_matches('-');
        let all = sources.iter().all(|seen| by(seen).as_deref() == Some(field));
        let agrees = order.is_none_or(|order| (order == "desc") == descending);
        if all && agrees { Ok(descending) } else { Err(INVALID_SORT) }
    }

    /// The relations that are followed, each with how many records.
    pub(crate) fn related(
        &self,
        sources: &[Seen<'_>],
        params: &Params,
    ) -> Result<Vec<(Related, usize)>, Refusal> {
        let names = params.names.get("expand").cloned().unwrap_or_default();
        if params.limits.keys().any(|name| !names.contains(name)) {
            return Err(INVALID_EXPAND);
        }
        let mut all = Vec::new();
        for name in names {
            let find =
                |seen: &Seen<'_>| relations(seen.source).into_iter().find(|one| one.name == name);
            let found: Vec<Option<Related>> = sources.iter().map(find).collect();
            let Some(related) =
                found[0].clone().filter(|_| found.iter().all(|one| *one == found[0]))
            else {
                return Err(INVALID_EXPAND);
            };
            let limit = match (related.many, params.limits.get(&name)) {
                (None, None) => 1,
                (Some((default, _)), None) => default,
                (Some((_, most)), Some(asked)) if *asked <= most => *asked,
                _ => return Err(INVALID_EXPAND),
            };
            all.push((related, limit as usize));
        }
        Ok(all)
    }

    /// Adds the records that belong to one.
    pub(crate) fn expand(
        &self,
        seen: &Seen<'a>,
        key: &str,
        record: &Rec,
        related: &[(Related, usize)],
        params: &Params,
        told: &mut J,
    ) {
        let mut expanded = J::Obj(Default::default());
        for (relation, limit) in related {
            let others =
                self.of(&relation.stream, Some(&seen.source.connection)).unwrap_or_default();
            let mut rows = Vec::new();
            for other in &others {
                for (other_key, other_record) in other.records() {
                    let refers = match relation.many {
                        Some(_) => refers(other_record.field(&relation.key), key),
                        None => refers(record.field(&relation.key), other_key),
                    };
                    if refers {
                        let shown = shown(other, other_key, other_record, None, params.cut(0));
                        rows.push((place(other, other_record), "", other_key, shown));
                    }
                }
            }
            let mut rows = sorted(rows, true);
            let found = match relation.many {
                None => rows.pop().unwrap_or(J::Null),
                Some(_) => {
                    let mut list =
                        J::of(&json!({ "object": "list", "has_more": rows.len() > *limit }));
                    rows.truncate(*limit);
                    put(&mut list, "data", J::Arr(rows));
                    list
                }
            };
            put(&mut expanded, &relation.name, found);
        }
        if !related.is_empty() {
            put(told, "expanded", expanded);
        }
    }

    pub(crate) fn expansions(&self, seen: Seen<'_>) -> Json {
        let own = if matches!(self.who, Who::Owner) { relations(seen.source) } else { Vec::new() };
        let told = own.into_iter().map(|one| {
            json!({
                "name": one.name, "target_stream": one.stream, "foreign_key": one.key,
                "cardinality": if one.many.is_some() { "has_many" } else { "has_one" },
                "default_limit": one.many.map(|many| many.0), "max_limit": one.many.map(|many| many.1),
                "granted": true, "usable": true,
            })
        });
        told.collect()
    }
}

fn refers(value: Option<&FieldValue>, key: &str) -> bool {
    match value {
        None | Some(FieldValue::Null | FieldValue::Json(_)) => false,
        Some(other) => text_of(other) == key,
    }
}
