//! `stile extract-text`: reads one document as the child process of an import. Help does not list
//! this command, since people have no use for it.

use std::io;

use clap::ArgMatches;
use stile_import::attachment_text::{DocumentKind, child};

use super::{Failure, owner};

pub(super) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let kind = owner::text(matches, "kind").and_then(DocumentKind::named);
    let kind = kind.ok_or_else(|| Failure::Usage("this is no kind of document".to_owned()))?;
    match child::run(kind, io::stdin().lock(), io::stdout().lock()) {
        0 => Ok(()),
        code => Err(Failure::Verbatim { text: "no text was read".to_owned(), code }),
    }
}
