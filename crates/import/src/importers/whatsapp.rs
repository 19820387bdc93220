//! Imports a chat of WhatsApp: a record for each message and each notice.
//!
//! The export is a text file, alone or in a zip file with pictures, which are stored with the
//! messages. Each phone writes dates in its own way, so the order of day and month is found by
//! looking at all of them. Where they leave it open, the owner says it.
//!
//! *Source*: WhatsApp documents no format; this one is as iOS and Android wrote it from 2018 to
//! 2026.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use stile_domain::hash::ContentHash;
use stile_domain::records::half_day::HalfDay;
use stile_domain::records::instant::Instant;
use stile_domain::records::table::column::OpenDates;
use stile_domain::records::table::written_date::DateOrder;
use stile_domain::records::value::FieldValue;
use stile_store::archive::{Archive, ArchiveEntry};

use super::whole_file::{self, Keys, ReadRow};
use crate::attachment::Attachment;
use crate::charset::decode_text;
use crate::exported_files;
use crate::importer::{
    Contents, ImportRow, ImportRows, ImportTarget, Importer, Recognition, StreamDeclaration,
};
use crate::preset::{PresetDeclaration, PresetField};

/// Imports each message of a chat.
pub static IMPORTER: Importer = Importer {
    name: "whatsapp",
    description: "a chat of WhatsApp",
    recognition: Recognition {
        contents: |contents| match contents {
            Contents::Beginning(bytes) => begins(&String::from_utf8_lossy(bytes)),
            Contents::Zip(archive) => archive.entries().iter().any(is_chat),
            Contents::Folder(_) | Contents::Database(_) => false,
        },
        ..Recognition::NEVER
    },
    byte_count: |path| {
        let archive = Archive::open(path)?;
        Ok(chat_of(&archive).map_or(0, |entry| entry.bytes))
    },
    open: |path, target| open(path, target),
    declaration: StreamDeclaration::Preset(&DECLARATION),
};

static DECLARATION: PresetDeclaration = PresetDeclaration {
    default_stream: "messages",
    key: "id",
    time: "at",
    fields: &[
        ("id", PresetField::Name),
        ("at", PresetField::Time),
        ("from", PresetField::Name),
        ("text", PresetField::SearchedText),
        ("is_notice", PresetField::Flag),
        ("media_omitted", PresetField::Flag),
        ("attachments", PresetField::List),
    ],
    keys_can_be_forged: false,
    owner_fields: &[],
    derived_fields: &[],
    because: &[
        "it is a chat of WhatsApp, a record for each message: `id` is a digest of it and its time, \
         since the export names none",
        "`at` orders the records and is the time by which a grant counts; the export names no zone, \
         so the clock of the phone is taken for UTC",
        "`text` can be searched; `is_notice` marks what the program says itself, and \
         `media_omitted` a picture or recording that the export was made without",
    ],
};

fn open(path: &Path, _: &ImportTarget) -> io::Result<Box<dyn ImportRows>> {
    open_with(path, None)
}

/// Opens a chat whose dates have this order; `None` for the one that they show themselves.
pub(crate) fn open_with(path: &Path, order: Option<DateOrder>) -> io::Result<Box<dyn ImportRows>> {
    let archive = Arc::new(Archive::open(path)?);
    let source = archive.read(only_chat(&archive)?)?;
    let media = media_of(&archive);
    whole_file::of(path.display().to_string(), source, |bytes| {
        rows_of(&decode_text(bytes, None), order, &mut |name| {
            let Some(number) = media.get(name) else { return Ok(None) };
            exported_files::attach(&archive, *number).map(Some)
        })
    })
}

/// Returns the order of the dates of a chat, as all of them show it together.
///
/// # Errors
/// The file cannot be read. The inner [`OpenDates`] has an example if the dates show no order.
pub(crate) fn find_order(path: &Path) -> io::Result<Result<DateOrder, OpenDates>> {
    let archive = Archive::open(path)?;
    let mut bytes = Vec::new();
    archive.read(only_chat(&archive)?)?.take(whole_file::MAX_BYTES).read_to_end(&mut bytes)?;
    let text = decode_text(&bytes, None);
    let stamps: Vec<Stamp> =
        text.lines().filter_map(|line| stamp(line).map(|(stamp, _)| stamp)).collect();
    Ok(order_of(&stamps).ok_or_else(|| OpenDates {
        column: "at".to_owned(),
        example: stamps.first().map(|stamp| stamp.raw.clone()).unwrap_or_default(),
        contrary: None,
        may_begin_with_year: false,
    }))
}

fn only_chat(archive: &Archive) -> io::Result<&ArchiveEntry> {
    chat_of(archive).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "no file in it is a chat of WhatsApp")
    })
}

/// Returns the numbers of the files beside a chat, by their names. A file that is no archive has
/// none.
fn media_of(archive: &Archive) -> HashMap<String, usize> {
    let entries = archive.entries();
    let beside =
        entries.iter().enumerate().filter(|(_, entry)| entries.len() > 1 && !is_chat(entry));
    let name = |entry: &ArchiveEntry| entry.name.rsplit('/').next().unwrap_or_default().to_owned();
    beside.map(|(number, entry)| (name(entry), number)).collect()
}

/// Returns the entry of an archive that is the chat. A file that is no archive has one entry.
fn chat_of(archive: &Archive) -> Option<&ArchiveEntry> {
    let entries = archive.entries();
    let only = || entries.first().filter(|_| entries.len() == 1);
    entries.iter().find(|entry| is_chat(entry)).or_else(only)
}

fn is_chat(entry: &ArchiveEntry) -> bool {
    let name = entry.name.rsplit('/').next().unwrap_or_default();
    name == "_chat.txt" || (name.starts_with("WhatsApp ") && name.ends_with(".txt"))
}

/// Returns whether a text begins as a chat: with a time, and then a name or a notice.
pub(super) fn begins(text: &str) -> bool {
    text.lines().next().is_some_and(|line| stamp(line).is_some())
}

/// When a message was sent, as its line writes it.
struct Stamp {
    /// The three numbers of the date, in their order.
    date: [u32; 3],
    is_year_first: bool,
    /// Whether points or hyphens stand between the numbers. No phone writes the month first then.
    is_day_first: bool,
    /// As the line writes it.
    raw: String,
    /// The time of day, such as `14:15:22`.
    clock: String,
}

/// Splits a line that begins a message into its time and the rest.
fn stamp(line: &str) -> Option<(Stamp, &str)> {
    let line = line.trim_start_matches(['\u{feff}', '\u{200e}', '\u{200f}']);
    let (stamp, rest) = match line.strip_prefix('[') {
        Some(line) => line.split_once("] ").or_else(|| line.split_once(']'))?,
        None => line.split_once(" - ")?,
    };
    if stamp.len() > 64 {
        return None;
    }
    let Written { date, separators, rest: clock } = written_date(stamp)?;
    let clock = time_of_day(clock)?;
    let is_day_first = separators.contains(['.', '-']);
    let is_year_first = date.first().is_some_and(|first| *first > 999);
    let raw = stamp.to_owned();
    Some((Stamp { date, is_year_first, is_day_first, raw, clock }, rest))
}

/// The three numbers of a date, what stands between them, and what follows.
struct Written<'t> {
    date: [u32; 3],
    separators: String,
    rest: &'t str,
}

/// Reads the numbers of a date: `16.01.24`, `2024. 1. 16.`, `2024年1月16日`.
fn written_date(stamp: &str) -> Option<Written<'_>> {
    const MARKS: [char; 9] = ['.', '/', '-', '年', '月', '日', '년', '월', '일'];
    let (mut date, mut separators, mut rest) = ([0; 3], String::new(), stamp);
    for (at, number) in date.iter_mut().enumerate() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, behind) = rest.split_at(end);
        *number = digits.parse().ok().filter(|_| digits.len() <= 4)?;
        let mark = behind.chars().next().filter(|first| MARKS.contains(first));
        rest = mark.and_then(|mark| behind.strip_prefix(mark)).unwrap_or(behind);
        separators.extend(mark);
        if at < 2 {
            mark?;
            rest = rest.trim_start_matches(' ');
        }
    }
    // A date of digits alone ends where something else than a number begins.
    let is_end = !rest.starts_with(|next: char| next.is_ascii_alphanumeric() && next != 'T');
    is_end.then_some(Written { date, separators, rest })
}

/// Reads a time of 24 or of twice twelve hours.
fn time_of_day(text: &str) -> Option<String> {
    let begin = text.find(|c: char| c.is_ascii_digit())?;
    let (before, text) = text.split_at_checked(begin).filter(|_| begin <= 32)?;
    let digits = |c: char| c.is_ascii_digit() || c == ':' || c == '.';
    let end = text.find(|c: char| !digits(c)).unwrap_or(text.len());
    let (clock, behind) = text.split_at(end);
    let mut parts = clock.split([':', '.']).map(|part| part.parse::<u32>().ok());
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    let hour = match (half_before(before)?, behind.trim()) {
        (Some(half), "") => half.hour(hour)?,
        (None, behind) if BEHIND.contains(&behind) => hour,
        (None, behind) => HalfDay::behind(behind)?.hour(hour)?,
        (Some(_), _) => return None,
    };
    let is_time = hour < 24 && minute < 60 && second < 60;
    is_time.then(|| format!("{hour:02}:{minute:02}:{second:02}"))
}

/// What stands behind a time of 24 hours.
const BEHIND: [&str; 6] = ["", "Uhr", "h", "ч.", "ч", "น."];

/// Returns the half of the day that stands before a time, if one does. European languages have
/// other words there, such as `à`. A word of an East Asian one can say the half of the day, so an
/// unknown one is not passed over: `None`.
fn half_before(text: &str) -> Option<Option<HalfDay>> {
    let mut others = text;
    while let Some(next) = others.chars().next() {
        if let Some((half, rest)) = HalfDay::strip(others) {
            return rest.is_empty().then_some(Some(half));
        }
        if next.is_alphabetic() && next > '\u{2e80}' {
            return None;
        }
        others = others.strip_prefix(next)?;
    }
    Some(None)
}

impl Stamp {
    fn at(&self, order: DateOrder) -> Option<Instant> {
        let [first, second, third] = self.date;
        let (year, month, day) = match (self.is_year_first, order) {
            (true, _) => (first, second, third),
            (false, DateOrder::DayFirst) => (third, second, first),
            (false, DateOrder::MonthFirst) => (third, first, second),
            (false, DateOrder::YearFirst) => (first, second, third),
        };
        let year = if year < 100 { 2000 + year } else { year };
        Instant::parse(&format!("{year:04}-{month:02}-{day:02}T{}", self.clock))
    }
}

/// Decides the order of all dates: the one in which each is a date, or else the one in which the
/// messages follow each other. `None` if the dates show no order.
fn order_of(stamps: &[Stamp]) -> Option<DateOrder> {
    let is_settled = |stamp: &Stamp| stamp.is_day_first || stamp.is_year_first;
    if stamps.iter().all(is_settled) {
        return Some(DateOrder::DayFirst);
    }
    let times = |order| stamps.iter().map(|it| it.at(order)).collect::<Option<Vec<_>>>();
    let steps_back = |times: &[Instant]| {
        times.iter().zip(times.iter().skip(1)).filter(|(earlier, later)| later < earlier).count()
    };
    match (times(DateOrder::DayFirst), times(DateOrder::MonthFirst)) {
        (Some(_), None) => Some(DateOrder::DayFirst),
        (None, Some(_)) => Some(DateOrder::MonthFirst),
        // Dates of one order that is not known which: some of them have no time then.
        (None, None) => None,
        (Some(day_first), Some(month_first)) if day_first == month_first => {
            Some(DateOrder::DayFirst)
        }
        (Some(day_first), Some(month_first)) => {
            match steps_back(&day_first).cmp(&steps_back(&month_first)) {
                std::cmp::Ordering::Less => Some(DateOrder::DayFirst),
                std::cmp::Ordering::Greater => Some(DateOrder::MonthFirst),
                std::cmp::Ordering::Equal => None,
            }
        }
    }
}

/// Finds the file with a name beside a chat.
type FindMedia<'f> = &'f mut dyn FnMut(&str) -> io::Result<Option<Attachment>>;

/// Reads the messages of a chat without files beside it. `order` is that of the dates; `None` for
/// the one that they show, and the day first if they show none.
pub fn read(bytes: &[u8], order: Option<DateOrder>) -> Vec<ReadRow> {
    rows_of(&decode_text(bytes, None), order, &mut |_| Ok(None)).unwrap_or_default()
}

/// Reads the messages. A line without a time belongs to the message above it.
fn rows_of(text: &str, order: Option<DateOrder>, find: FindMedia<'_>) -> io::Result<Vec<ReadRow>> {
    let (mut stamps, mut messages): (Vec<Stamp>, Vec<(u64, String)>) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        match (stamp(line), messages.last_mut()) {
            (Some((stamp, rest)), _) => {
                stamps.push(stamp);
                messages.push((number, rest.to_owned()));
            }
            (None, Some((_, message))) => {
                message.push('\n');
                message.push_str(line);
            }
            (None, None) => {}
        }
    }
    let order = order.or_else(|| order_of(&stamps)).unwrap_or(DateOrder::DayFirst);
    let mut keys = Keys::default();
    let rows = stamps.iter().zip(messages).map(|(stamp, (line, message))| {
        let at = stamp.at(order).map(Instant::to_rfc3339);
        Ok((line, Ok(row(at, &stamp.raw, &message, &mut keys, find)?)))
    });
    rows.collect()
}

/// What Android writes behind the name of a file that came with a message.
const ATTACHED: [&str; 14] = [
    "(file attached)", "(Datei angehängt)", "(fichier joint)", "(archivo adjunto)",
    "(file allegato)", "(bestand bijgevoegd)", "(arquivo anexado)", "(ficheiro anexado)",
    "(plik dołączony)", "(załączono plik)", "(bifogad fil)", "(файл добавлен)", "(dosya ekli)",
    "(file terlampir)",
];

/// What stands in place of files that the export was made without. Android puts it into angle
/// brackets, and iOS behind a mark that cannot be seen.
const OMITTED: [&str; 14] = [
    "media omitted",
    "medien ausgeschlossen",
    "médias omis",
    "multimedia omitido",
    "archivo omitido",
    "media omessi",
    "media omesso",
    "mídia oculta",
    "ficheiro não revelado",
    "media weggelaten",
    "pominięto multimedia",
    "без медиафайлов",
    "medya dahil edilmedi",
    "media tidak disertakan",
];

/// How such a text of iOS ends, as in `image omitted` and `Bild weggelassen`.
const OMITTED_ENDS: [&str; 14] = [
    "omitted", "weggelassen", "absente", "absent", "omitida", "omitido", "omesso", "omessa",
    "ocultado", "ocultada", "weggelaten", "omis", "omise", "utelämnad",
];

fn row(
    at: Option<String>,
    raw: &str,
    message: &str,
    keys: &mut Keys,
    find: FindMedia<'_>,
) -> io::Result<ImportRow> {
    let visible: String =
        message.chars().filter(|c| !matches!(c, '\u{200e}' | '\u{200f}')).collect();
    let (from, text) = match visible.split_once(": ") {
        Some((from, text)) if from.chars().count() <= 64 && !from.contains('\n') => {
            (Some(from.trim().to_owned()), text)
        }
        _ => (None, visible.as_str()),
    };
    // The time as it is written, so that a longer export that shows the order of day and month
    // changes the message and adds none.
    let digest = ContentHash::digest(format!("{raw}\n{visible}").as_bytes());
    let id = keys.take(format!("sha256:{digest}"));
    let (mut attachments, mut missing) = (Vec::new(), Vec::new());
    if let Some(name) = attached_name(text) {
        match find(&name)? {
            Some(attachment) => attachments.push(attachment),
            None => missing.push(name),
        }
    }
    // What the program says itself begins with a mark, also behind a name.
    let said = message.split_once(": ").map_or(message, |(_, text)| text);
    let has_mark = said.starts_with('\u{200e}');
    let is_omitted = from.is_some() && is_omission(text, has_mark);
    let is_said = has_mark && !is_omitted && attachments.is_empty() && missing.is_empty();
    let fields = [
        ("id", Some(FieldValue::Text(id))),
        ("at", at.map(FieldValue::Text)),
        ("from", from.clone().map(FieldValue::Text)),
        ("text", Some(FieldValue::Text(text.to_owned()))),
        ("is_notice", Some(FieldValue::Bool(from.is_none() || is_said))),
        ("media_omitted", Some(FieldValue::Bool(is_omitted))),
        ("attachments", Attachment::references(&attachments, &missing)),
    ];
    Ok(ImportRow::from_message(fields, attachments))
}

/// Returns whether a text stands in place of a file.
fn is_omission(text: &str, has_mark: bool) -> bool {
    let text = text.trim();
    let in_brackets = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    if let Some(words) = in_brackets {
        return OMITTED.contains(&words.to_lowercase().as_str());
    }
    let last = text.rsplit(' ').next().unwrap_or_default().to_lowercase();
    has_mark && text.chars().count() <= 40 && OMITTED_ENDS.contains(&last.as_str())
}

/// Returns the name of the file that came with a message. The names that phones give are known in
/// every language, other names by the words beside them.
fn attached_name(text: &str) -> Option<String> {
    // `<attached: 00000012-PHOTO-2024-01-16-14-17-00.jpg>`, with the word of any language.
    let in_brackets = text.split('<').skip(1).find_map(|part| {
        let (inner, _) = part.split_once('>')?;
        let (word, name) = inner.split_once(':')?;
        let number = name.trim().split('-').next().unwrap_or_default();
        let is_numbered = number.len() == 8 && number.bytes().all(|byte| byte.is_ascii_digit());
        (is_numbered || word == "attached").then(|| name.trim().to_owned())
    });
    if in_brackets.is_some() {
        return in_brackets;
    }
    let line = text.lines().next()?.trim_end();
    let name = ATTACHED.iter().find_map(|behind| line.strip_suffix(behind)).or_else(|| {
        // `IMG-20240116-WA0001.jpg (…)`, in any language.
        let (name, behind) = line.split_once(" (")?;
        let is_of_phone = name.split_once("-WA").is_some_and(|(kind, rest)| {
            kind.len() == 12 && rest.starts_with(|c: char| c.is_ascii_digit())
        });
        (is_of_phone && !name.contains(' ') && behind.ends_with(')')).then_some(name)
    })?;
    Some(name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use stile_domain::records::row;

    use super::*;

    fn rows(text: &str) -> Vec<Value> {
        let fields = |(_, row): ReadRow| row::to_json(&row.unwrap().fields);
        read(text.as_bytes(), None)
            .into_iter()
            .map(|row| serde_json::from_str(&fields(row)).unwrap())
            .collect()
    }

    fn times(text: &str) -> Vec<Value> {
        rows(text).into_iter().map(|row| row["at"].clone()).collect()
    }

    #[test]
    fn each_phone_writes_times_in_its_own_way() {
        for line in [
            "[16.01.24, 14:15:22] Ann: hello",
            "\u{200e}[16/01/2024, 14:15:22] Ann: hello",
            "[1/16/24, 2:15:22\u{202f}PM] Ann: hello",
            "[16/1/24, 2:15:22 p.m.] Ann: hello",
            "2024-01-16, 14:15:22 - Ann: hello",
            "16-01-2024 14:15:22 - Ann: hello",
            "[2024-01-16 14.15.22] Ann: hello",
            "[2024/1/16 下午2:15:22] Ann: hello",
            "[2024年1月16日 下午2:15:22] Ann: hello",
            "[2024. 1. 16. 오후 2:15:22] Ann: hello",
            "2024. 1. 16. 오후 2:15:22 - Ann: hello",
            "[2024/01/16 午後2:15:22] Ann: hello",
            "2024. 01. 16. 14:15:22 - Ann: hello",
            "16. 1. 2024 14:15:22 - Ann: hello",
            "16.01.24 г., 14:15:22 ч. - Ann: hello",
            "16/1/24, 2:15:22 μ.μ. - Ann: hello",
            "16.1.2024 klo 14.15.22 - Ann: hello",
            "16/01/2024 à 14:15:22 - Ann: hello",
        ] {
            assert_eq!(times(line), ["2024-01-16T14:15:22Z"], "{line}");
        }
        assert_eq!(times("16.01.24, 14:15 - Ann: hello"), ["2024-01-16T14:15:00Z"]);
        for (word, hour) in
            [("凌晨", "02"), ("上午", "02"), ("中午", "14"), ("下午", "14"), ("새벽", "02")]
        {
            let line = format!("[2024/1/16 {word}2:15:00] Ann: hello");
            assert_eq!(times(&line), [format!("2024-01-16T{hour}:15:00Z")], "{line}");
        }
        assert_eq!(times("[2024/1/16 晚上8:15:00] Ann: a"), ["2024-01-16T20:15:00Z"]);
        assert_eq!(times("[2024/1/16 午後0:15:00] Ann: a"), ["2024-01-16T12:15:00Z"]);
        // What half of the day this is would be a guess.
        assert!(!begins("[2024/1/16 子夜2:15:00] Ann: a"));
        for line in ["hello", "1 - 2", "[x] y", "99:99 - a", "[1.2.3, 25:00] a"] {
            assert!(!begins(line), "{line}");
        }
    }

    #[test]
    fn the_order_of_day_and_month_is_that_of_the_whole_chat() {
        let day_first = "3/4/24, 10:00 - Ann: a\n13/4/24, 10:00 - Ann: b\n";
        assert_eq!(times(day_first)[0], "2024-04-03T10:00:00Z");
        let month_first = "3/4/24, 10:00 - Ann: a\n3/13/24, 10:00 - Ann: b\n";
        assert_eq!(times(month_first)[0], "2024-03-04T10:00:00Z");
        let by_order = "3/11/24, 10:00 - Ann: a\n4/2/24, 10:00 - Ann: b\n";
        assert_eq!(times(by_order), ["2024-03-11T10:00:00Z", "2024-04-02T10:00:00Z"]);
    }

    #[test]
    fn an_order_that_no_date_shows_stays_open_and_is_the_one_that_the_owner_says() {
        let order = |text: &str| {
            let stamps: Vec<Stamp> =
                text.lines().filter_map(|line| stamp(line).map(|found| found.0)).collect();
            order_of(&stamps)
        };
        assert_eq!(order("1/2/24, 10:00 - Ann: a\n1/3/24, 10:00 - Ann: b\n"), None);
        assert_eq!(order("3/4/24, 2:00 PM - Ann: a"), None);
        assert_eq!(order("1.2.24, 10:00 - Ann: a"), Some(DateOrder::DayFirst));
        assert_eq!(order("4/4/24, 10:00 - Ann: a"), Some(DateOrder::DayFirst), "both are one day");
        let said = |order| {
            let rows = read(b"1/2/24, 10:00 - Ann: a", Some(order));
            row::to_json(&rows.into_iter().next().unwrap().1.unwrap().fields)
        };
        assert!(said(DateOrder::DayFirst).contains("2024-02-01T10:00:00Z"));
        assert!(said(DateOrder::MonthFirst).contains("2024-01-02T10:00:00Z"));
    }

    #[test]
    fn files_are_named_in_the_language_of_the_phone_and_left_out_in_it() {
        for (text, name) in [
            ("IMG.jpg (Datei angehängt)", "IMG.jpg"),
            ("Rechnung Mai.pdf (fichier joint)", "Rechnung Mai.pdf"),
            ("IMG-20240116-WA0001.jpg (ไฟล์แนบ)", "IMG-20240116-WA0001.jpg"),
            ("\u{200e}<Anhang: 00000012-PHOTO-2024.jpg>", "00000012-PHOTO-2024.jpg"),
            ("see\u{200e} <pièce jointe : 00000013-AUDIO.opus>", "00000013-AUDIO.opus"),
        ] {
            let found = rows(&format!("16.01.24, 14:15 - Ann: {text}\n"));
            assert_eq!(found[0]["attachments"], json!([{ "filename": name }]), "{text}");
            assert_eq!(found[0]["media_omitted"], json!(false));
        }
        for text in [
            "<Media omitted>", "<Medien ausgeschlossen>", "<Multimedia omitido>", "<Médias omis>",
            "\u{200e}image omitted", "\u{200e}Bild weggelassen", "\u{200e}imagen omitida",
        ] {
            let found = rows(&format!("16.01.24, 14:15 - Ann: {text}\n"));
            assert_eq!(found[0]["media_omitted"], json!(true), "{text}");
            assert_eq!(found[0]["is_notice"], json!(false), "{text}");
        }
        for text in ["I omitted it", "<3>", "<b>: x", "(file) - WA1 (x)"] {
            let found = rows(&format!("16.01.24, 14:15 - Ann: {text}\n"));
            assert_eq!(found[0]["media_omitted"], json!(false), "{text}");
            assert_eq!(found[0]["attachments"], Value::Null, "{text}");
        }
    }

    #[test]
    fn messages_have_lines_files_and_notices() {
        let found = rows(
            "[16.01.24, 14:15:22] Ann: one\ntwo: three\n[16.01.24, 14:15:22] Ann: one\ntwo: three\n\
             [16.01.24, 14:16:00] \u{200e}Messages are encrypted.\n\
             [16.01.24, 14:17:00] Bob: \u{200e}<attached: 00000012-PHOTO.jpg>\n\
             16.01.24, 14:18 - Bob: IMG-1.jpg (Datei angehängt)\nlook\n",
        );
        assert_eq!(
            (&found[0]["from"], &found[0]["text"]),
            (&json!("Ann"), &json!("one\ntwo: three"))
        );
        let first = found[0]["id"].as_str().unwrap();
        assert_eq!(found[1]["id"], format!("{first}#2"));
        assert_eq!((&found[2]["is_notice"], &found[2]["from"]), (&json!(true), &Value::Null));
        assert!(found[3]["attachments"].to_string().contains("00000012-PHOTO.jpg"));
        assert!(found[4]["attachments"].to_string().contains("IMG-1.jpg"));
    }
}
