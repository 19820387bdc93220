//! Changing and reading lines: every fast path says what a slow and obvious one says, to the byte.
//!
//! An input can be typed: numbers, a text, an old passage and a new one, with `|` between them. See
//! [`Case`].

#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use stile_domain::edit::{self, EditError};
use stile_domain::limits::MAX_LISTED_MATCHES;
use stile_domain::line_search::{LineMatch, LineQuery, fold_case};
use stile_domain::lines::{self, LineRange, LineScanner};
use stile_domain::window::{self, WindowEnd, WindowInput};

const BOM: &str = "\u{feff}";
/// Long texts are cut at about this many bytes: some strides of a line index, and still quick.
const LONG_BYTES: usize = 250_000;
const MAX_QUERY_CHARS: usize = 40;

/// `numbers|text|old|new`.
///
/// A number is one byte: a digit is itself, `a` to `j` are -1 to -10, `M` and `m` the greatest and
/// the least, anything else the byte as it is. They are: start and end of a range, a line, a
/// budget, and the sizes of pieces. In the texts a byte is itself but for those that [`piece`]
/// names. An old passage that begins with `=` is so many lines of the text: `=20` none, `=21` the
/// third. An `L` is one letter, or 30,000 of them where the text is scanned in pieces.
#[derive(Debug)]
struct Case {
    range: LineRange,
    line: i64,
    budget: usize,
    sizes: Vec<usize>,
    text: String,
    long_text: String,
    old: String,
    new: String,
}

impl<'a> Arbitrary<'a> for Case {
    fn arbitrary(u: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let bytes = u.bytes(u.len())?;
        let mut fields = bytes.splitn(4, |byte| *byte == b'|');
        let mut field = || fields.next().unwrap_or_default();
        let (numbers, typed, old, new) = (field(), field(), field(), passage(field()));
        let text = passage(typed);
        let at = |index: usize| numbers.get(index).copied().map_or(0, number);
        let small = |index: usize| at(index).rem_euclid(64) as usize;
        let old = match old {
            [b'=', from, count, ..] => {
                let [from, count] = [from, count].map(|byte| number(*byte).rem_euclid(64) as usize);
                text.split_inclusive('\n').skip(from).take(count).collect()
            }
            typed => passage(typed),
        };
        Ok(Self {
            range: LineRange(at(0), at(1)),
            line: at(2),
            budget: 4 + small(3),
            sizes: (4..numbers.len()).map(|index| 1 + small(index).pow(3)).collect(),
            text,
            long_text: long(typed),
            old,
            new,
        })
    }
}

fn number(byte: u8) -> i64 {
    match byte {
        b'0'..=b'9' => i64::from(byte - b'0'),
        b'a'..=b'j' => -1 - i64::from(byte - b'a'),
        b'M' => i64::MAX,
        b'm' => i64::MIN,
        other => i64::from(other.cast_signed()),
    }
}

fn passage(bytes: &[u8]) -> String {
    let mut text = String::new();
    bytes.iter().for_each(|byte| piece(*byte, &mut text));
    text
}

/// The same, where it holds an `L`; else nothing.
fn long(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes.iter().filter(|_| bytes.contains(&b'L')) {
        match byte {
            b'L' if text.len() < LONG_BYTES => text.extend(std::iter::repeat_n('l', 30_000)),
            byte => piece(*byte, &mut text),
        }
    }
    text
}

fn piece(byte: u8, text: &mut String) {
    match byte {
        b'B' => text.push_str(BOM),
        b'R' => text.push_str("\r\n"),
        b'r' => text.push('\r'),
        b'E' => text.push('É'),
        b'e' => text.push('é'),
        // The Kelvin sign and the long s fold to ASCII, from three bytes and from two.
        b'K' => text.push('\u{212a}'),
        b'S' => text.push('\u{17f}'),
        b'T' => text.push('🜨'),
        ascii @ 0..=127 => text.push(char::from(ascii)),
        other => text.extend(char::from_u32(u32::from(other) * 0x1f3)),
    }
}

fuzz_target!(|case: Case| {
    a_range_is_a_slice_of_a_list(case.range, line_list(&case.text).len());
    counting_agrees(&case.text);
    replacing_changes_one_place(&case);
    inserting_only_adds(&case);
    appending_only_adds(&case.text, &case.new);
    windows_are_the_text(&case);
    pieces_index_as_one(&case.text, &case.sizes);
    pieces_index_as_one(&case.long_text, &case.sizes);
    a_query_finds_what_a_scan_finds(&case.text, &case.old, &case.sizes);
});

/// The lines of a text: content and terminator.
fn line_list(text: &str) -> Vec<(&str, &str)> {
    text.split_inclusive('\n').map(|line| line.split_at(without_terminator(line).len())).collect()
}

fn without_terminator(text: &str) -> &str {
    text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text)
}

fn joined(lines: &[(&str, &str)]) -> String {
    lines.iter().flat_map(|(content, terminator)| [*content, *terminator]).collect()
}

/// The byte order mark and the lines after it. They are as many as without looking for one: a file
/// that is only a mark has one line, which is empty.
fn split_bom(text: &str) -> (&str, Vec<(&str, &str)>) {
    let mut lines = line_list(text);
    if !text.starts_with(BOM) {
        return ("", lines);
    }
    lines[0].0 = &lines[0].0[BOM.len()..];
    (BOM, lines)
}

/// What a caller's text says of the line at `at`, from 0: the mark is the file's in front of the
/// first line, and content anywhere else.
fn said_of<'t>(at: usize, bom: &str, text: &'t str) -> &'t str {
    if at == 0 && !bom.is_empty() { text.strip_prefix(BOM).unwrap_or(text) } else { text }
}

/// How many lines follow the mark that a text had before, where nothing at all is no line.
fn lines_behind(bom: &str, text: &str) -> usize {
    line_list(text.strip_prefix(bom).expect("the byte order mark stays in front")).len()
}

/// The lines that a range selects, from 1; `None` where it is refused.
fn slow_range(range: LineRange, total: usize) -> Option<Vec<usize>> {
    let total = total as i128;
    let place = |number: i64, open| match i128::from(number) {
        0 => open,
        number if number < 0 => total + 1 + number,
        number => number,
    };
    let (first, last) = (place(range.0, 1), place(range.1, i128::MAX));
    let chosen: Vec<usize> =
        (1..=total).filter(|line| (first..last).contains(line)).map(|line| line as usize).collect();
    let refused = first > last || (total > 0 && chosen.is_empty());
    (!refused).then_some(chosen)
}

fn a_range_is_a_slice_of_a_list(range: LineRange, total: usize) {
    let resolved = range.resolve(total as u64).ok();
    assert_eq!(
        resolved.map(|lines| (lines.start..lines.end).map(|line| line as usize).collect()),
        slow_range(range, total),
        "{range:?} of {total}"
    );
}

fn counting_agrees(text: &str) {
    let list = line_list(text);
    assert_eq!(lines::count_lines(text), list.len() as u64);
    assert!(
        lines::line_spans(text, 0).map(|span| (span.content(text), span.terminator(text))).eq(list)
    );
}

/// What a caller's bare line breaks become where `lines` end.
fn adapted(content: &str, ending: &str) -> String {
    if ending == "\r\n" {
        content.replace("\r\n", "\n").replace('\n', "\r\n")
    } else {
        content.to_owned()
    }
}

/// The terminator in use at `lines[from..to]`: their own first one, else that of the line before.
fn ending_at(lines: &[(&str, &str)], from: usize, to: usize) -> String {
    let own = lines[from..to].iter().map(|line| line.1).find(|terminator| !terminator.is_empty());
    let before = from.checked_sub(1).map(|before| lines[before].1);
    own.or(before).unwrap_or("\n").to_owned()
}

fn numbered(places: &[usize], most: usize) -> Vec<u64> {
    places.iter().take(most).map(|place| *place as u64 + 1).collect()
}

fn replacing_changes_one_place(case: &Case) {
    let (bom, lines) = split_bom(&case.text);
    let outcome = edit::replace(&case.text, case.range, &case.old, &case.new);

    let Some(within) = slow_range(case.range, lines.len()) else {
        return assert_eq!(outcome, Err(EditError::Range { total_lines: lines.len() as u64 }));
    };
    let wanted = |at: usize| {
        let mut wanted: Vec<&str> =
            without_terminator(said_of(at, bom, &case.old)).split('\n').collect();
        let last = wanted.len() - 1;
        wanted[..last].iter_mut().for_each(|line| *line = line.strip_suffix('\r').unwrap_or(line));
        wanted
    };
    let (first, others) = (wanted(0), wanted(1));
    let height = first.len();
    let everywhere: Vec<usize> = (0..lines.len())
        .filter(|at| {
            let wanted = if *at == 0 { &first } else { &others };
            lines
                .get(*at..at + height)
                .is_some_and(|lines| lines.iter().map(|line| &line.0).eq(wanted))
        })
        .collect();
    let places: Vec<usize> = everywhere
        .iter()
        .copied()
        .filter(|at| within.contains(&(at + 1)) && within.contains(&(at + height)))
        .collect();
    match (places.as_slice(), outcome) {
        ([], Err(EditError::NoMatch { elsewhere, lines: shown, .. })) => {
            assert_eq!(elsewhere, numbered(&everywhere, MAX_LISTED_MATCHES));
            for shown in shown {
                let line = shown.line as usize;
                assert!(within.contains(&line) && lines[line - 1].0.starts_with(&shown.text));
            }
        }
        ([at], Ok(result)) => {
            let end = at + height;
            let kept = lines[end - 1].1;
            let new = said_of(*at, bom, &case.new);
            let middle = if new.is_empty() {
                String::new()
            } else {
                adapted(without_terminator(new), &ending_at(&lines, *at, end)) + kept
            };
            assert_eq!(
                result,
                [bom, &joined(&lines[..*at]), &middle, &joined(&lines[end..])].concat()
            );

            // As many lines fewer and more as the caller said; but an empty line needs a terminator
            // to be one.
            let mut added =
                if new.is_empty() { 0 } else { without_terminator(new).split('\n').count() };
            if kept.is_empty() && !new.is_empty() && (middle.is_empty() || middle.ends_with('\n')) {
                added -= 1;
            }
            assert_eq!(lines_behind(bom, &result), lines.len() - height + added);
        }
        ([_, _, ..], Err(EditError::Ambiguous { matches, more })) => {
            assert_eq!(matches, numbered(&places, MAX_LISTED_MATCHES));
            assert_eq!(more, places.len() > MAX_LISTED_MATCHES);
        }
        (places, outcome) => panic!("{outcome:?} where it stands at {places:?}"),
    }
}

fn inserting_only_adds(case: &Case) {
    let (bom, lines) = split_bom(&case.text);
    let at = usize::try_from(if case.line < 0 {
        lines.len() as i128 + i128::from(case.line)
    } else {
        i128::from(case.line) - 1
    });
    // Once with the right anchor, if there is a line at all, and once with whatever was typed.
    let at = at.ok().filter(|at| *at < lines.len());
    let right = at.map_or("", |at| lines[at].0);
    let read = at.map_or("", |at| line_list(&case.text)[at].0);
    for anchor in [right, read, &case.old] {
        let outcome = edit::insert(&case.text, case.line, anchor, &case.new);
        let Some(at) = at else {
            assert_eq!(outcome, Err(EditError::Range { total_lines: lines.len() as u64 }));
            continue;
        };
        let stands = |at: usize| lines[at].0 == said_of(at, bom, without_terminator(anchor));
        if !stands(at) {
            let places: Vec<usize> = (0..lines.len()).filter(|at| stands(*at)).collect();
            let Err(EditError::NoMatch { elsewhere, .. }) = outcome else { panic!("{outcome:?}") };
            assert_eq!(elsewhere, numbered(&places, MAX_LISTED_MATCHES));
            continue;
        }
        let ending = ending_at(&lines, at, at + 1);
        let content = without_terminator(said_of(at, bom, &case.new));
        let added = adapted(content, &ending) + &ending;
        let result = outcome.expect("the anchor stands there");
        assert_eq!(result, [bom, &joined(&lines[..at]), &added, &joined(&lines[at..])].concat());
        // An empty line that has no terminator is one no more when it stands behind others.
        let lost = usize::from(lines[lines.len() - 1] == ("", ""));
        assert_eq!(lines_behind(bom, &result), lines.len() - lost + content.split('\n').count());
    }
}

fn appending_only_adds(text: &str, content: &str) {
    let (bom, mut lines) = split_bom(text);
    // Where there is nothing but a mark, the first line is already begun.
    lines.retain(|line| *line != ("", ""));
    let ending = lines
        .iter()
        .rev()
        .map(|line| line.1)
        .find(|terminator| !terminator.is_empty())
        .unwrap_or("\n");
    let open = lines.last().is_some_and(|line| line.1.is_empty());
    let breaks = content.starts_with('\n') || content.starts_with("\r\n");
    let supplied = if open && !breaks { ending } else { "" };
    let result = [text, &edit::addition(text, content)].concat();
    assert_eq!(result, [text, supplied, &adapted(content, ending)].concat());
    // A line break that only ends the last line makes no line of its own.
    let added = line_list(content).len() - usize::from(open && breaks);
    assert_eq!(lines_behind(bom, &result), lines.len() + added);
}

fn windows_are_the_text(case: &Case) {
    let text = case.text.as_str();
    let list = line_list(text);
    let Some(chosen) = slow_range(case.range, list.len()) else { return };
    let (Some(first), Some(last)) = (chosen.first(), chosen.last()) else { return };
    let end = *last as u64 + 1;
    let (mut at, mut line) = (joined(&list[..first - 1]).len(), *first as u64);
    let stop = at + joined(&list[first - 1..*last]).len();
    let mut sizes = case.sizes.iter().cycle();
    while at < stop {
        let rest = &text[at..];
        // As a store reads: all that is left, or more than the budget.
        let read = rest.len().min(case.budget + 1 + sizes.next().copied().unwrap_or(0));
        let input =
            if read == rest.len() { WindowInput::ToEndOfFile } else { WindowInput::Partial };
        let cut = window::find_end(&rest.as_bytes()[..read], line, end, case.budget, input);
        assert_eq!(cut, slow_cut(rest, line, end, case.budget));
        assert!(cut.bytes > 0 && cut.bytes <= case.budget && rest.is_char_boundary(cut.bytes));
        at += cut.bytes;
        line = cut.line;
    }
    assert_eq!((at, line), (stop, end));
}

fn slow_cut(rest: &str, line: u64, end: u64, budget: usize) -> WindowEnd {
    let mut cut = WindowEnd { bytes: 0, line, inside: false };
    for text in rest.split_inclusive('\n') {
        if cut.line == end {
            break;
        }
        if cut.bytes + text.len() > budget {
            if cut.bytes == 0 {
                let whole =
                    text.char_indices().map(|(at, _)| at).take_while(|at| *at <= budget).last();
                cut = WindowEnd { bytes: whole.unwrap_or(0), line, inside: true };
            }
            break;
        }
        cut.bytes += text.len();
        cut.line += 1;
    }
    cut
}

fn pieces_index_as_one(text: &str, sizes: &[usize]) {
    let bytes = text.as_bytes();
    let mut whole = LineScanner::default();
    whole.feed(bytes);
    let whole = whole.finish();
    let mut pieces = LineScanner::default();
    let mut rest = bytes;
    for size in sizes.iter().cycle() {
        let (piece, after) = rest.split_at(rest.len().min((*size).max(bytes.len() / 1024)));
        pieces.feed(piece);
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    pieces.feed(rest);
    assert_eq!(pieces.finish(), whole);
    assert_eq!(whole.size_bytes(), bytes.len() as u64);

    let starts: HashSet<(u64, u64)> =
        (0..).zip(lines::line_spans(text, 0).map(|span| span.start as u64)).collect();
    let mut start = 0;
    for (line, span) in lines::line_spans(text, 0).enumerate() {
        let (marked, byte) = whole.nearest(line as u64);
        assert!(marked <= line as u64 && byte <= start);
        // The mark is a line start, and less than a stride away.
        assert!(starts.contains(&(marked, byte)) && start - byte < lines::STRIDE);
        start = span.end as u64;
    }
}

fn a_query_finds_what_a_scan_finds(text: &str, query: &str, sizes: &[usize]) {
    let folded = |text: &str| text.chars().map(fold_case).collect::<String>();
    let chars = query.chars().count();
    let usable = chars > 0 && chars <= MAX_QUERY_CHARS && !query.contains('\n');
    let prepared = LineQuery::new(query, MAX_QUERY_CHARS);
    assert_eq!(prepared.is_some(), usable);
    let Some(prepared) = prepared else { return };
    assert_eq!(folded(&folded(query)), folded(query), "what is folded stays");

    let wanted = folded(query);
    let mut start = 0;
    let expected = text.split('\n').zip(0..).find_map(|(content, line)| {
        let found = LineMatch { line, line_start: start };
        start += content.len() as u64 + 1;
        folded(content).contains(&wanted).then_some(found)
    });
    let mut matcher = prepared.matcher();
    let mut rest = text;
    let mut found = None;
    for size in sizes.iter().cycle() {
        let end = (*size..=rest.len()).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        found = matcher.feed(&rest[..end]);
        rest = &rest[end..];
        if found.is_some() || rest.is_empty() {
            break;
        }
    }
    assert_eq!(found.or_else(|| matcher.feed(rest)), expected);
}
