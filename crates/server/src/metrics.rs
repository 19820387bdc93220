//! Counts calls by their outcome, and measures how long they take.
//!
//! Every label is a constant of this program (a tool's name, a class) and never anything that was
//! sent or received. So the number of series is bounded, and metrics reveal nothing about callers.
//! *Source*: Prometheus text exposition format 0.0.4.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The media type of [`Metrics::text`].
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of the histogram, in seconds: from the duration of a small read to the time at
/// which clients give up.
const BOUNDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// Counts since the server started.
#[derive(Default)]
pub struct Metrics {
    counts: Mutex<Counts>,
    /// What else is known at the moment of a scrape, as lines of the format.
    others: OnceLock<Others>,
}

/// Returns further lines in the text format of Prometheus.
type Others = Box<dyn Fn() -> String + Send + Sync>;

#[derive(Default)]
struct Counts {
    calls: BTreeMap<CallLabels, u64>,
    took: BTreeMap<&'static str, Histogram>,
}

/// The labels of a call that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallLabels {
    /// The tool's canonical name.
    pub tool: &'static str,
    /// `ok`, or the class of the error.
    pub outcome: &'static str,
    /// The class of the upstream server's status, such as `2xx`; `none` if there was no upstream
    /// request.
    pub upstream: &'static str,
}

#[derive(Debug, Default)]
struct Histogram {
    buckets: [u64; BOUNDS.len()],
    count: u64,
    seconds: f64,
}

impl Metrics {
    /// Counts a call that took `took`.
    pub fn count(&self, labels: CallLabels, took: Duration) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.calls.entry(labels).or_default() += 1;
        let histogram = counts.took.entry(labels.tool).or_default();
        let seconds = took.as_secs_f64();
        histogram.count += 1;
        histogram.seconds += seconds;
        for (bucket, bound) in histogram.buckets.iter_mut().zip(BOUNDS) {
            *bucket += u64::from(seconds <= bound);
        }
    }

    /// Adds what is known only at the moment of a scrape. The first caller adds it.
    pub fn add_others(&self, others: impl Fn() -> String + Send + Sync + 'static) {
        let _ = self.others.set(Box::new(others));
    }

    /// Renders all metrics in the text format of Prometheus.
    pub fn text(&self) -> String {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = out.write_str(
            "# HELP stile_calls_total Calls of tools by how they ended.\n\
             # TYPE stile_calls_total counter\n",
        );
        for (CallLabels { tool, outcome, upstream }, count) in &counts.calls {
            let labels = format!("tool=\"{tool}\",outcome=\"{outcome}\",upstream=\"{upstream}\"");
            let _ = writeln!(out, "stile_calls_total{{{labels}}} {count}");
        }
        let _ = out.write_str(
            "# HELP stile_call_seconds How long calls took.\n# TYPE stile_call_seconds histogram\n",
        );
        for (tool, Histogram { buckets, count, seconds }) in &counts.took {
            for (bound, below) in BOUNDS.iter().zip(buckets) {
                let _ = writeln!(
                    out,
                    "stile_call_seconds_bucket{{tool=\"{tool}\",le=\"{bound}\"}} {below}"
                );
            }
            let _ =
                writeln!(out, "stile_call_seconds_bucket{{tool=\"{tool}\",le=\"+Inf\"}} {count}");
            let _ = writeln!(out, "stile_call_seconds_sum{{tool=\"{tool}\"}} {seconds}");
            let _ = writeln!(out, "stile_call_seconds_count{{tool=\"{tool}\"}} {count}");
        }
        out.push_str(&self.others.get().map(|others| others()).unwrap_or_default());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_tool_outcome_and_upstream() {
        let metrics = Metrics::default();
        let labels = |outcome, upstream| CallLabels { tool: "get_note_outline", outcome, upstream };
        metrics.count(labels("ok", "2xx"), Duration::from_millis(2));
        metrics.count(labels("ok", "2xx"), Duration::from_millis(250));
        metrics.count(labels("upstream_status", "4xx"), Duration::from_secs(60));
        insta::assert_snapshot!(metrics.text());
    }
}
