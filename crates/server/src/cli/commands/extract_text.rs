//! `stile extract-text KIND`: reads one document as the child process of an import.

use std::ffi::OsString;
use std::io;

use stile_domain::document::DocumentKind;
use stile_import::attachment_text::child;

use crate::cli::failure::Failure;

pub(super) fn run(kind: Option<&OsString>) -> Result<(), Failure> {
    let kind = kind.and_then(|name| DocumentKind::named(name.to_str()?));
    let kind = kind.ok_or_else(|| Failure::Usage("this is no kind of document".to_owned()))?;
    match child::run(kind, io::stdin().lock(), io::stdout().lock()) {
        0 => Ok(()),
        code => Err(Failure::Verbatim { text: "no text was read".to_owned(), code }),
    }
}
