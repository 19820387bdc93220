//! Reads the text of a PDF document.

use super::document_text::NoText;

/// Returns the text of all pages. A document of pictures has none.
///
/// # Panics
/// The library panics on some documents. Only a child process calls this.
pub(super) fn text(bytes: &[u8]) -> Result<String, NoText> {
    pdf_extract::extract_text_from_mem(bytes).map_err(|_| NoText::Damaged)
}
