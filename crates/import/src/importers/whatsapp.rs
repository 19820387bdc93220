//! Imports a chat of WhatsApp: a record for each message and each notice.
//!
//! The export is a text file, alone or in a zip file with pictures. Each phone writes dates in its
//! own way, so the order of day and month is found by looking at all of them.
//!
//! *Source*: WhatsApp documents no format; this one is as iOS and Android wrote it from 2018 to
//! 2026.

use std::io;
use std::path::Path;

use stile_domain::hash::ContentHash;
use stile_domain::records::instant::Instant;
use stile_domain::records::value::FieldValue;
use stile_store::archive::{Archive, ArchiveEntry};

use super::whole_file::{self, Keys, ReadRow};
use crate::attachment::Attachment;
use crate::charset::decode_text;
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
            Contents::Folder(_) => false,
        },
        ..Recognition::NEVER
    },
    byte_count: |path| {
        let archive = Archive::open(path)?;
        Ok(chat_of(&archive).map_or(0, |entry| entry.bytes))
    },
    open,
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
        ("attachments", PresetField::List),
    ],
    keys_can_be_forged: false,
    owner_fields: &[],
    because: &[
        "it is a chat of WhatsApp, a record for each message: `id` is a digest of it and its time, \
         since the export names none",
        "`at` orders the records and is what a grant's --since looks at; the export names no zone, \
         so the clock of the phone is taken for UTC",
        "`text` can be searched; `is_notice` marks what the program says itself",
    ],
};

fn open(path: &Path, _: &ImportTarget) -> io::Result<Box<dyn ImportRows>> {
    let archive = Archive::open(path)?;
    let chat = chat_of(&archive).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "no file in it is a chat of WhatsApp")
    })?;
    let source = archive.read(chat)?;
    whole_file::of(path.display().to_string(), source, |bytes| Ok(read(bytes)))
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
    /// Whether points stand between the numbers.
    has_points: bool,
    /// Whether it has `AM` or `PM` in capitals, as phones in America write it.
    has_half_days: bool,
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
    if stamp.len() > 48 {
        return None;
    }
    let at = stamp.find([',', ' ', 'T'])?;
    let (date, clock) = stamp.split_at(at);
    let mut numbers = date.split(['.', '/', '-']).map(|part| {
        let is_number = (1..=4).contains(&part.len()) && part.bytes().all(|it| it.is_ascii_digit());
        if is_number { part.parse::<u32>().ok() } else { None }
    });
    let date = [numbers.next()??, numbers.next()??, numbers.next()??];
    if numbers.next().is_some() {
        return None;
    }
    let (clock, has_half_days) = time_of_day(clock)?;
    let has_points = stamp.contains('.') && !has_half_days;
    let is_year_first = date.first().is_some_and(|first| *first > 999);
    let raw = stamp.to_owned();
    Some((Stamp { date, is_year_first, has_points, has_half_days, raw, clock }, rest))
}

/// What Chinese, Japanese and Korean phones write before the time.
const HALF_DAYS: [(&str, &str); 6] = [
    ("上午", "am"),
    ("下午", "pm"),
    ("午前", "am"),
    ("午後", "pm"),
    ("오전", "am"),
    ("오후", "pm"),
];

/// Reads a time of 24 or of twice twelve hours, and returns which of them it was.
fn time_of_day(text: &str) -> Option<(String, bool)> {
    // Some languages have a word before the time.
    let begin = text.find(|c: char| c.is_ascii_digit())?;
    let (before, text) = text.split_at_checked(begin).filter(|_| begin <= 12)?;
    let half_before =
        HALF_DAYS.iter().find(|(name, _)| before.contains(name)).map(|(_, half)| half);
    let digits = |c: char| c.is_ascii_digit() || c == ':' || c == '.';
    let end = text.find(|c: char| !digits(c)).unwrap_or(text.len());
    let (clock, half) = text.split_at(end);
    let mut parts = clock.split([':', '.']).map(|part| part.parse::<u32>().ok());
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    let half: String = half.chars().filter(char::is_ascii_alphabetic).collect();
    let hour = match half_before.copied().unwrap_or(half.to_ascii_lowercase().as_str()) {
        "" => hour,
        "am" if (1..=12).contains(&hour) => hour % 12,
        "pm" if (1..=12).contains(&hour) => hour % 12 + 12,
        _ => return None,
    };
    let is_time = hour < 24 && minute < 60 && second < 60;
    let is_in_capitals = !half.is_empty() && half.bytes().all(|byte| byte.is_ascii_uppercase());
    is_time.then(|| (format!("{hour:02}:{minute:02}:{second:02}"), is_in_capitals))
}

/// Which of the first two numbers of a date is the month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    DayFirst,
    MonthFirst,
}

impl Stamp {
    fn at(&self, order: Order) -> Option<Instant> {
        let [first, second, third] = self.date;
        let (year, month, day) = match (self.is_year_first, order) {
            (true, _) => (first, second, third),
            (false, Order::DayFirst) => (third, second, first),
            (false, Order::MonthFirst) => (third, first, second),
        };
        let year = if year < 100 { 2000 + year } else { year };
        Instant::parse(&format!("{year:04}-{month:02}-{day:02}T{}", self.clock))
    }
}

/// Decides the order of all dates: the one in which each is a date, or else the one in which the
/// messages follow each other, or else the usual one of the marks between the numbers.
fn order_of(stamps: &[Stamp]) -> Order {
    let times = |order| stamps.iter().map(|it| it.at(order)).collect::<Option<Vec<_>>>();
    let steps_back = |times: &[Instant]| {
        times.iter().zip(times.iter().skip(1)).filter(|(earlier, later)| later < earlier).count()
    };
    let usual = match stamps.first() {
        Some(first) if first.has_half_days && !first.has_points => Order::MonthFirst,
        _ => Order::DayFirst,
    };
    match (times(Order::DayFirst), times(Order::MonthFirst)) {
        (Some(_), None) => Order::DayFirst,
        (None, Some(_)) => Order::MonthFirst,
        (None, None) => usual,
        (Some(day_first), Some(month_first)) => {
            match steps_back(&day_first).cmp(&steps_back(&month_first)) {
                std::cmp::Ordering::Less => Order::DayFirst,
                std::cmp::Ordering::Greater => Order::MonthFirst,
                std::cmp::Ordering::Equal => usual,
            }
        }
    }
}

/// Reads the messages of a chat. A line without a time belongs to the message above it.
pub fn read(bytes: &[u8]) -> Vec<ReadRow> {
    let text = decode_text(bytes, None);
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
    let order = order_of(&stamps);
    let mut keys = Keys::default();
    let rows = stamps.iter().zip(messages).map(|(stamp, (line, message))| {
        let at = stamp.at(order).map(Instant::to_rfc3339);
        (line, Ok(row(at, &stamp.raw, &message, &mut keys)))
    });
    rows.collect()
}

/// What stands around the name of a file that came with a message: on iOS before it, on Android
/// behind it in the language of the phone.
const ATTACHED: &str = "<attached: ";
const ATTACHED_BEHIND: [&str; 6] = [
    "(file attached)", "(Datei angehängt)", "(fichier joint)", "(archivo adjunto)",
    "(file allegato)", "(bestand bijgevoegd)",
];

fn row(at: Option<String>, raw: &str, message: &str, keys: &mut Keys) -> ImportRow {
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
    let attached = attached_name(text).into_iter().collect::<Vec<_>>();
    // What the program says itself begins with a mark, also behind a name.
    let said = message.split_once(": ").map_or(message, |(_, text)| text);
    let is_said = said.starts_with('\u{200e}') && attached.is_empty();
    let is_notice = FieldValue::Bool(from.is_none() || is_said);
    let fields = [
        ("id", Some(FieldValue::Text(id))),
        ("at", at.map(FieldValue::Text)),
        ("from", from.map(FieldValue::Text)),
        ("text", Some(FieldValue::Text(text.to_owned()))),
        ("is_notice", Some(is_notice)),
        ("attachments", Attachment::references(&[], &attached)),
    ];
    ImportRow::from_message(fields, Vec::new())
}

/// Returns the name of the file that came with a message.
fn attached_name(text: &str) -> Option<String> {
    if let Some((_, rest)) = text.split_once(ATTACHED) {
        return rest.split_once('>').map(|(name, _)| name.to_owned());
    }
    let line = text.lines().next()?.trim_end();
    let name = ATTACHED_BEHIND.iter().find_map(|behind| line.strip_suffix(behind))?;
    Some(name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use stile_domain::records::row;

    use super::*;

    fn rows(text: &str) -> Vec<Value> {
        let fields = |(_, row): ReadRow| row::to_json(&row.unwrap().fields);
        read(text.as_bytes())
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
            "[2024-01-16 14.15.22] Ann: hello",
            "[2024/1/16 下午2:15:22] Ann: hello",
            "16.1.2024 klo 14.15.22 - Ann: hello",
            "16/01/2024 à 14:15:22 - Ann: hello",
        ] {
            assert_eq!(times(line), ["2024-01-16T14:15:22Z"], "{line}");
        }
        assert_eq!(times("16.01.24, 14:15 - Ann: hello"), ["2024-01-16T14:15:00Z"]);
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
        assert_eq!(times("3/4/24, 2:00 PM - Ann: a"), ["2024-03-04T14:00:00Z"]);
        assert_eq!(times("3/4/24, 2:00 pm - Ann: a"), ["2024-04-03T14:00:00Z"]);
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
