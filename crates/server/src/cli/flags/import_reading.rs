//! The flags of `stile import` that say how files are read.

use clap::ArgMatches;
use stile_domain::records::table::column::TableSpelling;
use stile_domain::records::table::written_date::DateOrder;
use stile_domain::records::table::written_number::DecimalMark;
use stile_import::charset::file_encoding::Encoding;
use stile_import::importers::csv::options::{CsvOptions, HeaderRow};
use stile_import::importers::wrapped_json::RowsPath;
use stile_import::reading::{ReadingOptions, UndeclaredFields};

use crate::cli::failure::Failure;
use crate::cli::flags;

/// The value of `--format` for what `stile export` wrote.
pub(crate) const EXPORT_FORMAT: &str = "stile";
/// The names of the decimal marks.
pub(crate) const DECIMALS: [&str; 2] = ["point", "comma"];
/// The names of the orders of dates.
pub(crate) const DATE_ORDERS: [&str; 3] = ["day-first", "month-first", "year-first"];
/// What `--header` can be.
pub(crate) const HEADERS: [&str; 2] = ["yes", "no"];

/// Reads the flags.
pub(crate) fn options(matches: &ArgMatches) -> Result<ReadingOptions, Failure> {
    let text = |name: &str| flags::text(matches, name);
    let spelling = TableSpelling {
        decimal: text("decimal").map(|name| match name {
            "comma" => DecimalMark::Comma,
            _ => DecimalMark::Point,
        }),
        dates: text("dates").and_then(DateOrder::named),
    };
    let csv = CsvOptions {
        spelling,
        encoding: text("encoding").map(encoding).transpose()?,
        skipped_lines: text("skip").map(skipped_lines).transpose()?,
        header: text("header").map(|name| match name {
            "no" => HeaderRow::Absent,
            _ => HeaderRow::Present,
        }),
        delimiter: text("delimiter").map(delimiter).transpose()?,
        ..CsvOptions::default()
    };
    let undeclared = match matches.get_flag("add_fields") {
        true => UndeclaredFields::Declare,
        false => UndeclaredFields::Report,
    };
    let rows = text("rows").map(rows_path).transpose()?;
    Ok(ReadingOptions { csv, rows, undeclared })
}

fn rows_path(text: &str) -> Result<RowsPath, Failure> {
    RowsPath::parse(text).ok_or_else(|| {
        Failure::Usage(
            "--rows must be the name of a member, such as messages, or a path of at most 16 names such \
             as chats/list/*/messages"
                .to_owned(),
        )
    })
}

fn encoding(name: &str) -> Result<Encoding, Failure> {
    Encoding::named(name).ok_or_else(|| {
        Failure::Usage(
            "--encoding must be utf-8, utf-16, or the name of another one, such as windows-1252 or \
             shift_jis"
                .to_owned(),
        )
    })
}

fn skipped_lines(lines: &str) -> Result<u64, Failure> {
    lines.parse().map_err(|_| {
        Failure::Usage("--skip must be the number of lines above the table".to_owned())
    })
}

fn delimiter(text: &str) -> Result<u8, Failure> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n' | 0) => Ok(*byte),
        _ => Err(Failure::Usage(
            "--delimiter must be one ASCII character other than a quote, or `tab`".to_owned(),
        )),
    }
}
