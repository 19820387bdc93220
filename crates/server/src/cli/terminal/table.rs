//! Lays out tables for a terminal.

use stile_domain::client_name::listed;
use stile_domain::unseen::shown;

use super::colours::{Colours, Meaning};
use super::local_time;

/// The columns whose words have a colour.
const STATES: [&str; 2] = ["STATE", "STATUS"];

/// Lays out rows under headings, with two spaces between columns. Headings and states are coloured.
/// Characters that nobody sees are written out.
pub(crate) fn table<const N: usize>(
    colours: Colours,
    headings: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let headings = headings.map(local_time::heading);
    let rows = rows.into_iter().map(|row| row.map(|cell| shown(&cell).into_owned()));
    let rows: Vec<[String; N]> = std::iter::once(headings.map(str::to_owned)).chain(rows).collect();
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |(at, row): (usize, &[String; N])| {
        let mut line = String::new();
        let mut gap = 0;
        for ((cell, width), heading) in row.iter().zip(widths).zip(headings) {
            // Colours have no width, and a line does not end with spaces.
            let meaning = if at == 0 { Some(Meaning::Title) } else { meaning(heading, cell) };
            if !cell.is_empty() {
                line.extend(std::iter::repeat_n(' ', gap));
                line += &meaning.map_or_else(|| cell.clone(), |what| colours.paint(cell, what));
                gap = 0;
            }
            gap += width - cell.chars().count() + 2;
        }
        line + "\n"
    };
    rows.iter().enumerate().map(line).collect()
}

/// Returns what a cell means to a reader, if it has a state.
fn meaning(heading: &str, cell: &str) -> Option<Meaning> {
    if !STATES.contains(&heading) {
        return None;
    }
    Some(match cell {
        "live" | "allowed" | "connected" | "active" => Meaning::Good,
        "revoked" | "ended" | "unreadable" | "damaged" => Meaning::Bad,
        "expired" | "used" | "asked" => Meaning::Warning,
        _ => return None,
    })
}

/// Returns a name as a table shows it; `-` if there is no name.
pub(crate) fn cell(name: Option<&str>) -> String {
    name.map_or_else(|| "-".to_owned(), |name| listed(name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coloured_table_is_the_plain_one_with_colours() {
        let rows = [["a", "live", "x"], ["bcd", "revoked", ""], ["", "none", "y"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        let laid_out = |colours| table(colours, ["ID", "STATE", "WHAT"], rows.clone());
        let plain = laid_out(Colours::Plain);
        assert_eq!(plain, "ID   STATE    WHAT\na    live     x\nbcd  revoked\n     none     y\n");
        let coloured = laid_out(Colours::Shown);
        assert!(coloured.contains("\x1b[32mlive\x1b[0m     x\n"), "{coloured:?}");
        assert!(coloured.contains("\x1b[1;31mrevoked\x1b[0m\n"), "{coloured:?}");
        let without = ["\x1b[1m", "\x1b[32m", "\x1b[1;31m", "\x1b[0m"];
        let without = without.iter().fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(without, plain);
    }
}
