//! The facets of a note: a few values of its front matter and its path, as slugs and dates. The
//! title comes from the same places.

use super::answers::{Facets, MetadataFacets, PathFacets};
use super::dates;
use super::front_matter::Front;
use super::limits::{MAX_FACET_CHARS, MAX_FACET_VALUES, MAX_TEXT_CHARS};
use super::note_path::NotePath;
use super::whitespace::{slug, trim, truncate};
use super::yaml::{FrontMatterScalar, FrontMatterValue};

pub(super) fn facets(path: &NotePath, front: Front<'_>) -> MetadataFacets {
    let keys = ["project", "tags", "date", "updated", "causal_chain_id", "entity", "episode_id"];
    let [project, tags, date, updated, chain, entity, episode] = front.values(keys);
    let (folder, _) = path.split();
    let read = [&project, &tags, &date, &updated, &chain, &entity, &episode];
    let truncated = read.into_iter().flatten().any(is_partly_unreadable);
    let mut values = FacetValues { truncated };
    let project = match scalar(project) {
        Some(project) => values.slug(&project.text),
        None => project_of(path).and_then(|project| values.slug(project)),
    };
    let facets = Facets {
        project,
        tags: values.list(tags),
        date: values.date(date),
        updated: values.date(updated),
        causal_chain_id: scalar(chain).and_then(|chain| values.slug(&chain.text)),
        entity: values.list(entity),
        episode_id: scalar(episode).and_then(|episode| values.slug(&episode.text)),
    };
    let inferred = PathFacets { folder: folder.map(str::to_owned), source_type: None };
    MetadataFacets::new(path, facets, inferred, values.truncated)
}

/// Returns the title from the front matter, else from the file name, and whether it was truncated.
pub(super) fn title(path: &NotePath, front: Front<'_>) -> (Option<String>, bool) {
    let [title] = front.values(["title"]);
    let is_missing = title.as_ref().is_some_and(is_partly_unreadable);
    let title =
        scalar(title).map(|title| trim(&title.text).to_owned()).filter(|title| !title.is_empty());
    let Some(mut title) = title.or_else(|| title_of(path)) else { return (None, is_missing) };
    let truncated = truncate(&mut title, MAX_TEXT_CHARS);
    (Some(title), truncated || is_missing)
}

/// Returns the file name without `.md` or `.markdown`. Each run of `-` and `_` becomes one space.
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

/// Returns the `x` of `projects/x/…`.
fn project_of(path: &NotePath) -> Option<&str> {
    path.as_str().strip_prefix("projects/")?.split_once('/').map(|(project, _)| project)
}

/// Whether something of a value is missing because it could not be read.
fn is_partly_unreadable(value: &FrontMatterValue<'_>) -> bool {
    matches!(value, FrontMatterValue::Unreadable | FrontMatterValue::List { is_whole: false, .. })
}

fn scalar(value: Option<FrontMatterValue<'_>>) -> Option<FrontMatterScalar<'_>> {
    match value {
        Some(FrontMatterValue::Scalar(scalar)) => Some(scalar),
        _ => None,
    }
}

/// Makes facet values, and records whether any was truncated.
struct FacetValues {
    truncated: bool,
}

impl FacetValues {
    fn slug(&mut self, text: &str) -> Option<String> {
        let mut slug = slug(text);
        self.truncated |= truncate(&mut slug, MAX_FACET_CHARS);
        // Truncation may leave one `-` at the end.
        if slug.ends_with('-') {
            slug.pop();
        }
        (!slug.is_empty()).then_some(slug)
    }

    fn list(&mut self, value: Option<FrontMatterValue<'_>>) -> Vec<String> {
        let mut slugs: Vec<String> = match value {
            None | Some(FrontMatterValue::Unreadable) => Vec::new(),
            Some(FrontMatterValue::Scalar(scalar)) => {
                scalar.text.split(',').filter_map(|text| self.slug(text)).collect()
            }
            Some(FrontMatterValue::List { scalars, .. }) => {
                scalars.iter().filter_map(|scalar| self.slug(&scalar.text)).collect()
            }
        };
        self.truncated |= slugs.len() > MAX_FACET_VALUES;
        slugs.truncate(MAX_FACET_VALUES);
        slugs
    }

    fn date(&mut self, value: Option<FrontMatterValue<'_>>) -> Option<String> {
        let scalar = scalar(value)?;
        if let Some(iso) = scalar.plain.then(|| dates::iso(&scalar.text)).flatten() {
            return Some(iso);
        }
        let mut text = trim(&scalar.text).to_owned();
        self.truncated |= truncate(&mut text, MAX_FACET_CHARS);
        (!text.is_empty()).then_some(text)
    }
}
