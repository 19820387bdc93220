//! Pages that are generated from the code, and checked by tests.

use std::fs;
use std::path::Path;

/// Fails unless the document at `path`, relative to the repository, equals `text`. Writes the
/// document instead if `UPDATE_DOCS` is set.
///
/// # Panics
/// The document differs, or cannot be written.
pub fn assert_document(path: &str, text: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join(path);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&file, text).unwrap_or_else(|error| panic!("{path} cannot be written: {error}"));
        return;
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == text,
        "{path} is not what the code says; run the tests with UPDATE_DOCS=1 and read the change"
    );
}
