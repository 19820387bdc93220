//! What an import found and did, in sentences. The command line and the owner's page add what to do
//! about it, each in its own terms.

use stile_domain::records::pieces::INLINE_BYTES;
use stile_domain::unseen::shown_ends;
use stile_import::importer::ImportTarget;
use stile_import::report::{BadRow, ImportReport, MisfitValues};

/// How much of a field's name a line shows, in characters.
const NAME_CHARS: usize = 64;

/// Names a number of attachments: `1 attachment`.
fn attachments(count: u64) -> String {
    format!("{count} attachment{}", if count == 1 { "" } else { "s" })
}

/// Returns a row that could not be stored, with its place.
pub fn bad_row(bad: &BadRow) -> String {
    format!("{}:{}: {} ({})", bad.file, bad.line, bad.reason, bad.code)
}

/// Returns how many rows could not be stored beside those that a report lists; `None` if it lists
/// all.
pub fn unlisted_bad_rows(report: &ImportReport) -> Option<String> {
    let unlisted = report.bad_rows.saturating_sub(report.bad.len() as u64);
    (unlisted > 0).then(|| format!("and {unlisted} more bad rows"))
}

/// Returns what was done: `added 3, changed 0, unchanged 1, bad 0`.
pub fn counts(report: &ImportReport) -> String {
    let ImportReport { added, changed, unchanged, bad_rows, .. } = report;
    format!("added {added}, changed {changed}, unchanged {unchanged}, bad {bad_rows}")
}

/// Says how many rows are older than what is stored, and how many are of an older export, a line
/// for each.
pub fn older(report: &ImportReport) -> Vec<String> {
    older_by_field(report).into_iter().chain(of_older_exports(report)).collect()
}

fn of_older_exports(report: &ImportReport) -> Vec<String> {
    let older = report.outdated.saturating_sub(report.undated);
    let reasons = [
        (older, "the export is older than the one that was imported before"),
        (
            report.undated,
            "the times of its files do not say when the export was made. Import its zip file as you \
             got it, or unpack that with its times",
        ),
    ];
    let said = reasons.into_iter().filter(|(rows, _)| *rows > 0);
    said.map(|(rows, why)| {
        let rows =
            if rows == 1 { "1 row differs".to_owned() } else { format!("{rows} rows differ") };
        format!("{rows} from what is stored and changed nothing: {why}")
    })
    .collect()
}

fn older_by_field(report: &ImportReport) -> Option<String> {
    let (field, rows) = report.older.as_ref()?;
    let (these, are) = if *rows == 1 { ("1 row", "is") } else { ("rows", "are") };
    let count = if *rows == 1 { String::new() } else { format!("{rows} ") };
    Some(format!(
        "{count}{these} {are} older than what is stored, by `{}`, and changed nothing",
        shown_ends(field, NAME_CHARS)
    ))
}

/// Says what was left out of the files, a line for each kind.
pub fn left_out(report: &ImportReport) -> Vec<String> {
    let line = |(what, count): (&&str, &u64)| format!("left out {count}: {what}");
    report.left_out.iter().map(line).collect()
}

/// Says what became of attached documents and of broken characters, a line for each.
pub fn attached(report: &ImportReport) -> Vec<String> {
    let mut lines = Vec::new();
    if report.texts_read > 0 {
        lines.push(format!("read the text of {}", attachments(report.texts_read)));
    }
    let unread = &report.unread;
    for (count, reason) in [
        (unread.damaged, "damaged or encrypted"),
        (unread.too_large, "too large or too much work to read"),
        (unread.without_text, "without text, such as scanned pages"),
    ] {
        if count > 0 {
            lines.push(format!(
                "did not read the text of {}, {reason}: names are searched, and bytes are stored",
                attachments(count)
            ));
        }
    }
    lines
}

/// Says that the stream has no field for the texts of attachments; `None` if it lacks none.
pub fn without_text_field(report: &ImportReport) -> Option<String> {
    (report.undeclared_texts > 0).then(|| {
        format!(
            "did not read the text of {}, since the stream was declared before there was a field \
             for it",
            attachments(report.undeclared_texts)
        )
    })
}

/// Says how many broken characters were replaced; `None` if none was.
pub fn replaced(report: &ImportReport) -> Option<String> {
    (report.replaced > 0).then(|| {
        format!("{} broken characters (half of a surrogate pair) became U+FFFD", report.replaced)
    })
}

/// Says which values are of another type than the stream declares, and which fields were added to
/// it, a line for each.
pub fn misfits(report: &ImportReport) -> Vec<String> {
    let mut lines: Vec<String> = report.misfits.iter().map(misfit).collect();
    lines.extend(report.long_lists.iter().map(|(name, rows)| {
        let name = shown_ends(name, NAME_CHARS);
        format!(
            "{rows} list(s) of `{name}` are longer than {INLINE_BYTES} bytes: filters and counts do \
             not look into them. A search does, where `{name}` is searched"
        )
    }));
    if !report.added_fields.is_empty() {
        let added = list(&mut report.added_fields.iter());
        lines.push(format!("The stream now declares {added} too"));
    }
    lines
}

fn misfit((name, found): (&String, &MisfitValues)) -> String {
    let MisfitValues { declared, rows, example, are_members, file, line } = found;
    let (values, are) = if *rows == 1 { ("1 value", "is") } else { ("values", "are") };
    let count = if *rows == 1 { String::new() } else { format!("{rows} ") };
    let (member, left_out) = match are_members {
        true => ("the member ", "Counts and groups leave such members out"),
        false => ("", "Sums and ranges leave such values out"),
    };
    format!(
        "{count}{values} of `{}` {are} not {declared}, as the stream declares it, such as \
         {member}\"{example}\" in {file}:{line}. {left_out}",
        shown_ends(name, NAME_CHARS)
    )
}

/// Says which fields the stream does not declare; `None` if it declares all.
pub fn undeclared(target: &ImportTarget, report: &ImportReport) -> Option<String> {
    let ImportTarget { connection, stream } = target;
    (!report.undeclared.is_empty()).then(|| {
        format!(
            "The stream `{stream}` of `{connection}` does not declare {}: only you see these \
             fields.",
            list(&mut report.undeclared.keys())
        )
    })
}

fn list(names: &mut dyn Iterator<Item = &String>) -> String {
    let names: Vec<String> =
        names.map(|name| format!("`{}`", shown_ends(name, NAME_CHARS))).collect();
    names.join(", ")
}

/// Says that a stream is new and declared; the reasons are in the report. `None` if it was there.
pub fn declared(target: &ImportTarget, report: &ImportReport) -> Option<String> {
    let ImportTarget { connection, stream } = target;
    (!report.declared_because.is_empty())
        .then(|| format!("The stream `{stream}` of `{connection}` is new and now declared:"))
}
