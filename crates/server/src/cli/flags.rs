//! What commands read from their flags: texts, names, files, and the kinds of values that several
//! commands take.

pub(crate) mod access;
pub(crate) mod duration;
pub(crate) mod import_reading;
pub(crate) mod typed_path;

use std::fs::File;
use std::io;

use clap::ArgMatches;
use serde_json::Value;
use stile_domain::records::identifiers::SourceName;
use stile_records::grant_document::MAX_GRANT_DOCUMENT_BYTES;
use stile_store::files;

use crate::cli::failure::Failure;

/// The largest JSON file that is read, a declaration or a grant.
const MAX_FILE_BYTES: u64 = MAX_GRANT_DOCUMENT_BYTES;

/// Returns the text of a flag; `None` if it was not given.
pub(crate) fn text<'m>(matches: &'m ArgMatches, flag: &str) -> Option<&'m str> {
    matches.get_one::<String>(flag).map(String::as_str)
}

/// Returns all values of an argument that may be repeated.
pub(crate) fn texts(matches: &ArgMatches, flag: &str) -> Vec<String> {
    matches.get_many::<String>(flag).into_iter().flatten().cloned().collect()
}

/// Parses the name that a flag gives.
pub(crate) fn name(matches: &ArgMatches, flag: &str) -> Result<SourceName, Failure> {
    let text = text(matches, flag).unwrap_or_default();
    SourceName::parse(text)
        .map_err(|bad| Failure::Usage(format!("--{flag}: `{}`: {bad}", text.escape_debug())))
}

/// Reads a file, a pipe, or standard input if the path is `-`.
pub(crate) fn file_bytes(path: &str) -> Result<Vec<u8>, Failure> {
    let bytes = if path == "-" {
        files::read_short(&mut io::stdin().lock(), MAX_FILE_BYTES)
    } else {
        File::open(path).and_then(|mut file| files::read_short(&mut file, MAX_FILE_BYTES))
    };
    bytes.map_err(|error| Failure::Failed(format!("cannot read {path}: {error}")))
}

/// Reads JSON from a file, from a pipe, or from standard input if the path is `-`.
pub(crate) fn json_file(path: &str) -> Result<Value, Failure> {
    serde_json::from_slice(&file_bytes(path)?)
        .map_err(|error| Failure::Usage(format!("{path} is not JSON: {error}")))
}
