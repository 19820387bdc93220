//! How much each client did on each day.

use std::collections::BTreeMap;

use super::{CallKind, caller, kind};
use crate::journal::JournalLine;
use crate::unseen::shown;

/// The calls of one client on one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DayCounts {
    /// Calls that only looked.
    pub reads: u64,
    /// Calls that changed something.
    pub changes: u64,
    /// Calls that were refused or failed, of either kind.
    pub refused: u64,
}

impl DayCounts {
    /// Returns the number of all calls.
    pub fn total(self) -> u64 {
        self.reads.saturating_add(self.changes).saturating_add(self.refused)
    }
}

/// The activity of all clients: for each the counts by day, as in `2026-01-31`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientActivity {
    /// The counts by client and day.
    pub clients: BTreeMap<String, BTreeMap<String, DayCounts>>,
}

impl ClientActivity {
    /// Counts one line on its day in UTC.
    pub fn count(&mut self, line: &JournalLine) {
        if let Some(day) = line.at.get(..10) {
            self.count_on(day, line);
        }
    }

    /// Counts one line on a day. Events that no client caused do not count.
    pub fn count_on(&mut self, day: &str, line: &JournalLine) {
        let kind = kind(line);
        if kind == CallKind::Event {
            return;
        }
        let days = self.clients.entry(caller(line).to_owned()).or_default();
        let counts = days.entry(day.to_owned()).or_default();
        let counter = match kind {
            _ if line.outcome != "ok" => &mut counts.refused,
            CallKind::Change => &mut counts.changes,
            _ => &mut counts.reads,
        };
        *counter = counter.saturating_add(line.calls.unwrap_or(1));
    }

    /// Draws a bar chart for a terminal: a bar for each client and day, all to one scale, changes
    /// as full blocks, reads as light ones, refusals as crosses. Empty if nothing was counted.
    pub fn chart(&self) -> String {
        let days = self.clients.values().flat_map(BTreeMap::values);
        let most = days.map(|counts| counts.total()).max().unwrap_or(0);
        let mut chart = String::new();
        for (client, days) in &self.clients {
            chart.push_str(&shown(client));
            chart.push('\n');
            for (day, counts) in days {
                let bar = bar(*counts, most);
                let DayCounts { reads, changes, refused } = counts;
                chart.push_str(&format!(
                    "  {day}  {bar:BAR$}  {reads} reads, {changes} changes, {refused} refused\n"
                ));
            }
        }
        chart
    }
}

/// The length of the longest bar in characters.
const BAR: usize = 40;

/// Draws one bar. What was counted at all is at least one character long.
fn bar(counts: DayCounts, most: u64) -> String {
    let length = |count: u64| {
        let scaled = count.saturating_mul(BAR as u64) / most.max(1);
        usize::try_from(scaled).unwrap_or(BAR).max(usize::from(count > 0))
    };
    let parts = [("█", counts.changes), ("░", counts.reads), ("×", counts.refused)];
    let bar: String = parts.into_iter().map(|(sign, count)| sign.repeat(length(count))).collect();
    bar.chars().take(BAR).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_counted_by_day_and_drawn_to_one_scale() {
        let mut activity = ClientActivity::default();
        let mut count = |times: usize, client: &str, day: &str, tool: &str, outcome: &str| {
            let (tool, dry_run) =
                tool.strip_prefix("dry ").map_or((tool, None), |tool| (tool, Some(true)));
            let line = JournalLine {
                at: format!("{day}T08:00:00.000000Z"),
                subject: Some("ann".to_owned()),
                client: Some(client.to_owned()),
                tool: tool.to_owned(),
                outcome: outcome.to_owned(),
                dry_run,
                ..JournalLine::default()
            };
            (0..times).for_each(|_| activity.count(&line));
        };
        count(150, "cursor", "2026-01-30", "text.read", "ok");
        count(50, "cursor", "2026-01-30", "text.edit", "ok");
        count(1, "cursor", "2026-01-31", "text.edit", "stale");
        count(3, "planner", "2026-01-31", "dry file.move", "ok");
        count(20, "claude\u{7}", "2026-01-31", "search", "ok");
        let event = JournalLine {
            at: "2026-01-31T08:00:00.000000Z".to_owned(),
            tool: "conflict_copy".to_owned(),
            outcome: "ok".to_owned(),
            ..JournalLine::default()
        };
        activity.count(&event);
        insta::assert_snapshot!(activity.chart(), @r"
        claude\u{7}
          2026-01-31  ░░░░                                      20 reads, 0 changes, 0 refused
        cursor
          2026-01-30  ██████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  150 reads, 50 changes, 0 refused
          2026-01-31  ×                                         0 reads, 0 changes, 1 refused
        planner
          2026-01-31  ░                                         3 reads, 0 changes, 0 refused
        ");
    }
}
