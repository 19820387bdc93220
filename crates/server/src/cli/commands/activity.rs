//! `stile activity`: draws how much each client did on each day.

use serde_json::{Value, json};
use stile_domain::audit::activity::ClientActivity;
use stile_domain::records::instant::Instant;

use super::audit;
use crate::cli::compose::Home;
use crate::cli::failure::Failure;
use crate::cli::flags::duration;
use crate::cli::invocation::{Invocation, settings};
use crate::cli::terminal::{self, Colours, Meaning, local_time};

/// Prints a bar chart, or the counts as JSON.
pub(super) fn run(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    let home = Home::open(&settings(matches, environment)?.config)?;
    let place = audit::of_person(&home, home.journal())?;
    let mut lines = place.lines(duration::since_flag(matches)?)?;
    let mut activity = ClientActivity::default();
    let is_json = matches.get_flag("json");
    while let Some(line) = lines.next_line()? {
        match Instant::parse(&line.at) {
            Some(at) if !is_json => activity.count_on(&local_time::day(at), &line),
            _ => activity.count(&line),
        }
    }
    if is_json {
        terminal::write_json(output, &rows(&activity))?;
    } else if activity.clients.is_empty() {
        writeln!(output, "nobody called anything in that time")?;
    } else {
        write!(output, "{}", coloured(&activity.chart(), colours))?;
    }
    audit::report_damage(lines.damaged());
    Ok(())
}

/// Colours the names of clients, and the marks of changes and of refusals.
fn coloured(chart: &str, colours: Colours) -> String {
    let line = |line: &str| match line.starts_with(' ') {
        false => colours.paint(line, Meaning::Title),
        true => {
            let painted = marks_painted(line, '█', Meaning::Good, colours);
            marks_painted(&painted, '×', Meaning::Bad, colours)
        }
    };
    chart.lines().map(|text| line(text) + "\n").collect()
}

/// Colours the only run of a mark in a line.
fn marks_painted(line: &str, mark: char, meaning: Meaning, colours: Colours) -> String {
    let (Some(from), Some(last)) = (line.find(mark), line.rfind(mark)) else {
        return line.to_owned();
    };
    let (rest, after) = line.split_at(last + mark.len_utf8());
    let (before, marks) = rest.split_at(from);
    format!("{before}{}{after}", colours.paint(marks, meaning))
}

fn rows(activity: &ClientActivity) -> Value {
    let rows = activity.clients.iter().flat_map(|(client, days)| {
        days.iter().map(move |(day, counts)| {
            json!({
                "client": client, "day": day, "reads": counts.reads, "changes": counts.changes,
                "refused": counts.refused,
            })
        })
    });
    Value::from_iter(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_changes_and_refusals_have_colours() {
        let chart = "cursor\n  2026-01-30  ██░░×  2 reads, 2 changes, 1 refused\n";
        assert_eq!(coloured(chart, Colours::Plain), chart);
        assert_eq!(
            coloured(chart, Colours::Shown),
            "\x1b[1mcursor\x1b[0m\n  2026-01-30  \x1b[32m██\x1b[0m░░\x1b[1;31m×\x1b[0m  2 reads, 2 \
             changes, 1 refused\n"
        );
    }
}
