//! Reads the documents that need no child process.

use stile_domain::document::{DocumentKind, DocumentPart, NoText};

use super::rtf;
use super::tidy::{Extracted, tidied};
use crate::charset::decode_text;
use crate::html;
use crate::importers::mbox::mail;

/// Reads a document in time linear in its length. `None` if that needs a child process.
pub(super) fn in_this_process(
    kind: DocumentKind,
    bytes: &[u8],
) -> Option<Result<Extracted, NoText>> {
    let text = match kind {
        DocumentKind::Plain => Ok(decode_text(bytes, None).into_owned()),
        DocumentKind::Html => Ok(html::to_document_text(&decode_text(bytes, None))),
        DocumentKind::Rtf => rtf::as_text(bytes),
        DocumentKind::Mail => mail::as_text(bytes).map_err(|_| NoText::Damaged),
        _ => return None,
    };
    let whole = |text| {
        let parts = vec![DocumentPart { label: String::new(), title: None, text }];
        tidied(Extracted { title: None, parts })
    };
    Some(text.map(whole))
}
