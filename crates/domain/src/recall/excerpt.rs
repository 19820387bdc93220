//! Chooses what an answer shows of a file: at most two passages, each a few lines around what was
//! found.

use std::ops::Range;

use super::evidence::{MatchGrade, Matcher};
use super::question::RecallQuestion;
use super::ranking::Statistics;
use super::words::each_word;
use crate::lines::ResolvedLines;

/// The most passages of a file that an answer shows.
pub const MAX_PASSAGES: usize = 2;
/// The longest text of a passage, in Unicode scalar values.
pub const MAX_PASSAGE_CHARS: usize = 240;
/// How much of the text stands before the first word that was found, in characters.
const LEAD: usize = 60;

/// A part of a file in which words of the question stand together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The lines of the part.
    pub lines: ResolvedLines,
    /// The text of the part on one line, at most [`MAX_PASSAGE_CHARS`] of it.
    pub text: String,
}

/// A word that was found.
struct Place {
    bytes: Range<usize>,
    word: u8,
    weight: f64,
}

/// Returns the parts of a text that fit the question best, the best first. A file that fits by its
/// name alone is shown by its first words.
pub fn excerpts(text: &str, question: &RecallQuestion, statistics: &Statistics) -> Vec<Excerpt> {
    let text = text.strip_prefix(crate::lines::BOM).unwrap_or(text);
    let mut places = Vec::new();
    let mut first_word = None;
    let mut matcher = Matcher::new(question);
    each_word(text, |word, bytes| {
        first_word.get_or_insert(bytes.start);
        for found in matcher.matches(&word) {
            let grade = MatchGrade::of(found.grade, None);
            let weight = grade.map_or(0.0, |grade| statistics.weight(grade, found.word));
            if weight > 0.0 {
                places.push(Place { bytes: bytes.clone(), word: found.word, weight });
            }
        }
    });
    let mut shown: Vec<Range<usize>> = Vec::new();
    let mut has_shown = vec![false; question.words().len()];
    while shown.len() < MAX_PASSAGES {
        let Some(part) = best_part(&places, &shown, &has_shown) else { break };
        for place in places.iter().filter(|place| part.contains(&place.bytes.start)) {
            if let Some(word) = has_shown.get_mut(usize::from(place.word)) {
                *word = true;
            }
        }
        shown.push(part);
    }
    if shown.is_empty() {
        shown.extend(first_word.map(|start| start..start));
    }
    shown.into_iter().map(|part| excerpt(text, part.start)).collect()
}

/// Returns the bytes of the part that has most of the question, of the first such part; `None`
/// where no part adds to those that are shown.
fn best_part(places: &[Place], shown: &[Range<usize>], has_shown: &[bool]) -> Option<Range<usize>> {
    let mut best: Option<(f64, Range<usize>)> = None;
    for (at, first) in places.iter().enumerate() {
        let end = first.bytes.start.saturating_add(MAX_PASSAGE_CHARS - LEAD);
        let is_shown = |part: &Range<usize>| {
            first.bytes.start < part.end.saturating_add(LEAD)
                && part.start < end.saturating_add(LEAD)
        };
        if shown.iter().any(is_shown) {
            continue;
        }
        let mut weights = vec![0.0f64; has_shown.len()];
        let rest = places.get(at..).unwrap_or_default().iter();
        for place in rest.take_while(|place| place.bytes.end <= end.max(first.bytes.end)) {
            if let Some(weight) = weights.get_mut(usize::from(place.word)) {
                *weight = weight.max(place.weight);
            }
        }
        // A word that an earlier part shows counts less.
        let each = weights.iter().zip(has_shown);
        let value = each.map(|(weight, shown)| if *shown { weight / 4.0 } else { *weight }).sum();
        if best.as_ref().is_none_or(|(most, _)| value > *most) {
            best = Some((value, first.bytes.start..end));
        }
    }
    best.map(|(_, part)| part)
}

/// Returns the text around a byte offset, on one line, with the lines that it is from.
fn excerpt(text: &str, at: usize) -> Excerpt {
    let before = text.get(..at).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let lead = text.get(line_start..at).unwrap_or_default();
    let mut start = line_start;
    if lead.chars().count() > LEAD {
        let cut = lead.char_indices().rev().nth(LEAD).map_or(0, |(cut, _)| cut);
        let rest = lead.get(cut..).unwrap_or_default();
        let word = rest.find(char::is_whitespace).map_or(0, |space| space + 1);
        start = line_start + cut + word;
    }
    let is_cut_before = start > line_start;
    let mut shown = String::new();
    if is_cut_before {
        shown.push('…');
    }
    let mut room = MAX_PASSAGE_CHARS - 2;
    let (mut end, mut has_space, mut is_cut_after) = (start, true, false);
    for (offset, character) in text.get(start..).unwrap_or_default().char_indices() {
        let is_space = character.is_whitespace() || character.is_control();
        // A paragraph ends the part once what was found is shown.
        if start + offset > at && text.get(start + offset..).is_some_and(ends_paragraph) {
            break;
        }
        if room == 0 {
            is_cut_after = true;
            break;
        }
        if !(is_space && has_space) {
            shown.push(if is_space { ' ' } else { character });
            room -= 1;
        }
        has_space = is_space;
        if !is_space {
            end = start + offset + character.len_utf8();
        }
    }
    let kept = shown.trim_end().len();
    shown.truncate(kept);
    if is_cut_after {
        shown.push('…');
    }
    let line_of = |at: usize| {
        // The place may be within a character.
        let before = text.as_bytes().get(..at).unwrap_or_default();
        memchr::memchr_iter(b'\n', before).count() as u64 + 1
    };
    let first = line_of(start);
    let last = line_of(end.max(start + 1).saturating_sub(1).min(text.len())).max(first);
    Excerpt { lines: ResolvedLines { start: first, end: last + 1 }, text: shown }
}

/// Whether a text begins with an empty line.
fn ends_paragraph(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('\n') else { return false };
    rest.strip_prefix('\r').unwrap_or(rest).starts_with('\n')
}
