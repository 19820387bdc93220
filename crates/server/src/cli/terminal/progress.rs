//! The progress of a long command: a bar on a terminal, now and then a plain line elsewhere.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// How far a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// What the command does now, such as `reading`.
    pub(crate) action: &'static str,
    /// How much is done.
    pub(crate) done: u64,
    /// How much there is.
    pub(crate) total: u64,
    /// What is counted.
    pub(crate) unit: Unit,
}

/// What the progress of a command counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    /// Things, by their name in the plural, such as `records`.
    Things(&'static str),
}

/// Shows progress on standard error.
pub(crate) struct Progress {
    is_terminal: bool,
    /// The action that is shown, and when it began.
    current: Option<(&'static str, Instant)>,
    last_shown: Option<Instant>,
    has_line: bool,
}

impl Progress {
    const ON_A_TERMINAL: Duration = Duration::from_millis(100);
    const ELSEWHERE: Duration = Duration::from_secs(10);
    const BAR: u64 = 24;

    pub(crate) fn new() -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self { is_terminal, current: None, last_shown: None, has_line: false }
    }

    pub(crate) fn show(&mut self, step: Step) {
        let now = Instant::now();
        let began = match self.current {
            Some((action, began)) if action == step.action => began,
            // Each pass has its own rate.
            _ => self.current.insert((step.action, now)).1,
        };
        let every = if self.is_terminal { Self::ON_A_TERMINAL } else { Self::ELSEWHERE };
        // A command that is done soon prints no line to a file.
        let since = self.last_shown.or((!self.is_terminal).then_some(began));
        if since.is_some_and(|since| now - since < every) {
            return;
        }
        self.last_shown = Some(now);
        let elapsed = now - began;
        // Progress is not part of the result, so a failure to write it is ignored.
        let _ = if self.is_terminal {
            self.has_line = true;
            write!(io::stderr(), "\r{}\x1b[K", bar(step, elapsed, Self::BAR))
        } else {
            writeln!(io::stderr(), "{}", plain(step, elapsed))
        };
    }

    /// Removes the bar from the terminal.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.has_line) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
        self.last_shown = None;
    }
}

fn percent(Step { done, total, .. }: Step) -> u64 {
    (done.min(total) * 100).checked_div(total).unwrap_or(100)
}

fn bar(step: Step, elapsed: Duration, width: u64) -> String {
    let full = percent(step) * width / 100;
    let bar: String = (0..width).map(|at| if at < full { '█' } else { '·' }).collect();
    format!("{bar} {}", plain(step, elapsed))
}

/// Returns the progress in words, with the rate and the remaining time once they are known.
fn plain(step: Step, elapsed: Duration) -> String {
    let Step { action, done, total, unit } = step;
    let amount = |amount: f64| match unit {
        Unit::Bytes => format!("{:.1} MB", amount / 1e6),
        Unit::Things(name) => format!("{amount:.0} {name}"),
    };
    let text = format!("{action} {}% of {}", percent(step), amount(total as f64));
    let rate = done as f64 / elapsed.as_secs_f64();
    if elapsed < Duration::from_secs(1) || done == 0 {
        return text;
    }
    let left = total.saturating_sub(done) as f64 / rate;
    format!("{text}, {}/s, {} left", amount(rate), rounded(left))
}

fn rounded(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_has_a_rate_and_the_remaining_time_once_they_are_known() {
        let at = |done, total, millis| {
            let step = Step { action: "storing", done, total, unit: Unit::Bytes };
            plain(step, Duration::from_millis(millis))
        };
        assert_eq!(at(1_500_000, 3_000_000, 500), "storing 50% of 3.0 MB");
        assert_eq!(at(1_500_000, 3_000_000, 1500), "storing 50% of 3.0 MB, 1.0 MB/s, 2 s left");
        let slow = at(1_000_000, 1_000_000_000, 1000);
        assert_eq!(slow, "storing 0% of 1000.0 MB, 1.0 MB/s, 17 min left");
        assert_eq!(at(5, 4, 500), "storing 100% of 0.0 MB");
        assert_eq!(at(0, 0, 5000), "storing 100% of 0.0 MB");
        let half = Step { action: "reading", done: 1, total: 2, unit: Unit::Bytes };
        assert_eq!(bar(half, Duration::ZERO, 4), "██·· reading 50% of 0.0 MB");
        let records = Unit::Things("records");
        let records = Step { action: "exporting", done: 600, total: 1000, unit: records };
        let text = plain(records, Duration::from_secs(2));
        assert_eq!(text, "exporting 60% of 1000 records, 300 records/s, 2 s left");
    }
}
