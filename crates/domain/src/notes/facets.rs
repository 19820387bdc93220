//! The few values of a note's front matter that are told, made into slugs and dates.

use super::answers::{Facets, MetadataFacets, PathFacets};
use super::front_matter::Front;
use super::note_path::NotePath;
use super::whitespace::{cut, slug, trim};
use super::yaml::{Scalar, Value};
use super::{MAX_FACET_CHARS, MAX_FACET_VALUES, MAX_TEXT_CHARS, dates};

/// The facets of a note with this front matter.
pub(super) fn facets(path: &NotePath, front: Front<'_>) -> MetadataFacets {
    let keys = ["project", "tags", "date", "updated", "causal_chain_id", "entity", "episode_id"];
    let [project, tags, date, updated, chain, entity, episode] = front.values(keys);
    let (folder, _) = path.split();
    let mut cuts = Cuts(false);
    let project = match scalar(project) {
        Some(project) => cuts.slug(&project.text),
        None => project_of(path).and_then(|project| cuts.slug(project)),
    };
    let facets = Facets {
        project,
        tags: cuts.list(tags),
        date: cuts.date(date),
        updated: cuts.date(updated),
        causal_chain_id: scalar(chain).and_then(|chain| cuts.slug(&chain.text)),
        entity: cuts.list(entity),
        episode_id: scalar(episode).and_then(|episode| cuts.slug(&episode.text)),
    };
    let inferred = PathFacets { folder: folder.map(str::to_owned), source_type: None };
    MetadataFacets::new(path, facets, inferred, cuts.0)
}

/// A note's title, and whether it was cut: from its front matter, or else from its name.
pub(super) fn title(path: &NotePath, front: Front<'_>) -> (Option<String>, bool) {
    let [title] = front.values(["title"]);
    let title =
        scalar(title).map(|title| trim(&title.text).to_owned()).filter(|title| !title.is_empty());
    let Some(mut title) = title.or_else(|| title_of(path)) else { return (None, false) };
    let was_cut = cut(&mut title, MAX_TEXT_CHARS);
    (Some(title), was_cut)
}

/// The file's name without its ending, with `-` and `_` as spaces.
fn title_of(path: &NotePath) -> Option<String> {
    let (_, name) = path.split();
    let ending = [".md", ".markdown"].into_iter().find(|ending| {
        name.len()
            .checked_sub(ending.len())
            .and_then(|at| name.get(at..))
            .is_some_and(|end| end.eq_ignore_ascii_case(ending))
    });
    let stem = name.get(..name.len() - ending.map_or(0, str::len)).unwrap_or(name);
    let mut title = String::with_capacity(stem.len());
    let mut marks = false;
    for character in stem.chars() {
        let mark = matches!(character, '-' | '_');
        if !(mark && marks) {
            title.push(if mark { ' ' } else { character });
        }
        marks = mark;
    }
    let title = trim(&title);
    (!title.is_empty()).then(|| title.to_owned())
}

/// The `x` of `projects/x/…`.
fn project_of(path: &NotePath) -> Option<&str> {
    path.as_str().strip_prefix("projects/")?.split_once('/').map(|(project, _)| project)
}

fn scalar(value: Option<Value<'_>>) -> Option<Scalar<'_>> {
    match value {
        Some(Value::Scalar(scalar)) => Some(scalar),
        _ => None,
    }
}

/// Remembers whether anything was cut.
struct Cuts(bool);

impl Cuts {
    fn slug(&mut self, text: &str) -> Option<String> {
        let mut made = slug(text);
        self.0 |= cut(&mut made, MAX_FACET_CHARS);
        // A cut may end on a `-`, of which there is only one.
        if made.ends_with('-') {
            made.pop();
        }
        (!made.is_empty()).then_some(made)
    }

    fn list(&mut self, value: Option<Value<'_>>) -> Vec<String> {
        let mut slugs: Vec<String> = match value {
            None => Vec::new(),
            Some(Value::Scalar(scalar)) => {
                scalar.text.split(',').filter_map(|text| self.slug(text)).collect()
            }
            Some(Value::List(list)) => {
                list.iter().filter_map(|scalar| self.slug(&scalar.text)).collect()
            }
        };
        self.0 |= slugs.len() > MAX_FACET_VALUES;
        slugs.truncate(MAX_FACET_VALUES);
        slugs
    }

    fn date(&mut self, value: Option<Value<'_>>) -> Option<String> {
        let scalar = scalar(value)?;
        if let Some(iso) = scalar.plain.then(|| dates::iso(&scalar.text)).flatten() {
            return Some(iso);
        }
        let mut text = trim(&scalar.text).to_owned();
        self.0 |= cut(&mut text, MAX_FACET_CHARS);
        (!text.is_empty()).then_some(text)
    }
}
