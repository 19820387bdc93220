//! `stile activity`: draws how much each client did on each day.

use serde_json::{Value, json};
use stile_domain::audit::activity::ClientActivity;
use stile_store::journal::MergedLines;
use stile_store::state::StateDir;

use super::{Failure, Invocation, audit, settings};

/// Prints a bar chart, or the counts as JSON.
pub(super) fn run(
    Invocation { matches, environment, output }: Invocation<'_>,
) -> Result<(), Failure> {
    let state = StateDir::open(&settings(matches, environment)?.config.state)?;
    let mut lines = MergedLines::open(&state, audit::since(matches)?)?;
    let mut activity = ClientActivity::default();
    while let Some(line) = lines.next_line()? {
        activity.count(&line);
    }
    if matches.get_flag("json") {
        writeln!(output, "{:#}", rows(&activity))?;
    } else if activity.clients.is_empty() {
        writeln!(output, "nobody called anything in that time")?;
    } else {
        write!(output, "{}", activity.chart())?;
    }
    audit::report_damage(lines.damaged());
    Ok(())
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
