//! Reads the documents that need no child process.

use stile_domain::document::{DocumentKind, DocumentPart, NoText};

use super::rtf;
use super::tidy::tidied;
use crate::charset::decode_text;
use crate::html;
use crate::importers::mbox::mail;

/// Reads a document in time linear in its length. `None` if that needs a child process.
pub(super) fn in_this_process(
    kind: DocumentKind,
    bytes: &[u8],
) -> Option<Result<Vec<DocumentPart>, NoText>> {
    let text = match kind {
        DocumentKind::Plain => Ok(decode_text(bytes, None).into_owned()),
        DocumentKind::Html => Ok(html::to_document_text(&decode_text(bytes, None))),
        DocumentKind::Rtf => rtf::as_text(bytes),
        DocumentKind::Mail => mail::as_text(bytes).map_err(|_| NoText::Damaged),
        _ => return None,
    };
    let whole = |text| tidied(vec![DocumentPart { label: String::new(), title: None, text }]);
    Some(text.map(whole))
}
