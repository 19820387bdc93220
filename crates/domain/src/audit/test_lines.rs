//! Lines of a journal, for tests.

use crate::journal::JournalLine;
use crate::path::SpacePath;

/// Returns the line of a call of Ann's that went well.
pub(super) fn line(tool: &str, path: Option<&str>) -> JournalLine {
    JournalLine {
        subject: Some("ann".to_owned()),
        client: Some("cursor".to_owned()),
        tool: tool.to_owned(),
        path: path.map(|path| SpacePath::parse(path).unwrap()),
        outcome: "ok".to_owned(),
        ..JournalLine::default()
    }
}
