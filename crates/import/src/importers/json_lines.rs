//! Imports JSON Lines: a file with one object a line.

use stile_records::rows::json_lines::JsonLines;

use super::json_text;
use crate::importer::{Importer, Recognition, StreamDeclaration, decoded_rows, file_bytes};

/// Imports each line of a file of JSON Lines.
pub static IMPORTER: Importer = Importer {
    name: "jsonl",
    description: "JSON Lines",
    recognition: Recognition { extensions: &["jsonl", "ndjson"], ..Recognition::NEVER },
    byte_count: file_bytes,
    open: |path, _| Ok(decoded_rows(path, JsonLines::new(json_text::open(path)?))),
    declaration: StreamDeclaration::Inferred,
};
