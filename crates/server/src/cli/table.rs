//! Lays out tables for a terminal.

/// Lays out rows under headings, with two spaces between columns.
pub(super) fn table<const N: usize>(
    headings: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let rows: Vec<[String; N]> = std::iter::once(headings.map(str::to_owned)).chain(rows).collect();
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; N]| {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Returns a name cut to 40 characters, without control characters; `-` if there is no name.
pub(super) fn cell(name: Option<&str>) -> String {
    const MAX_CHARS: usize = 40;
    let printable = |character: char| if character.is_control() { '?' } else { character };
    name.map_or_else(
        || "-".to_owned(),
        |name| name.chars().take(MAX_CHARS).map(printable).collect(),
    )
}
