//! Counts calls and requests by their outcome, and measures how long they take.
//!
//! Every label is a constant of this program (a tool's name, the form of a path, a class) or an
//! HTTP status, and never anything that was sent or received. So the number of series is bounded,
//! and metrics reveal nothing about callers.
//! *Source*: Prometheus text exposition format 0.0.4.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

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
    requests: BTreeMap<(Route, Option<u16>), u64>,
    requests_took: BTreeMap<Route, Histogram>,
}

/// What a request to `/v1` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// The HTTP method of the operation.
    pub method: &'static str,
    /// The path with a name in braces for each part that requests choose, as in
    /// `/v1/streams/{stream}`.
    pub path: &'static str,
}

impl Route {
    /// The route of all requests that no operation answers.
    pub const OTHER: Self = Self { method: "other", path: "other" };
}

/// A request to `/v1`, which counts when this value is dropped.
pub struct CountedRequest {
    metrics: Arc<Metrics>,
    route: Route,
    began: Instant,
    /// The HTTP status of the answer, once there is one.
    status: Option<u16>,
}

impl CountedRequest {
    /// Begins to measure a request.
    pub fn begin(metrics: Arc<Metrics>, route: Route) -> Self {
        Self { metrics, route, began: Instant::now(), status: None }
    }

    /// Notes the HTTP status of the answer.
    #[must_use]
    pub fn answered(self, status: u16) -> Self {
        let mut answered = self;
        answered.status = Some(status);
        answered
    }
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        self.metrics.count_request(self.route, self.status, self.began.elapsed());
    }
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

impl Histogram {
    fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        self.count += 1;
        self.seconds += seconds;
        for (bucket, bound) in self.buckets.iter_mut().zip(BOUNDS) {
            *bucket += u64::from(seconds <= bound);
        }
    }

    /// Writes the series of a histogram with these labels.
    fn write(&self, out: &mut String, name: &str, labels: &str) {
        let Self { buckets, count, seconds } = self;
        // Writing to a string cannot fail.
        for (bound, below) in BOUNDS.iter().zip(buckets) {
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}");
        }
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "{name}_sum{{{labels}}} {seconds}");
        let _ = writeln!(out, "{name}_count{{{labels}}} {count}");
    }
}

impl Metrics {
    /// Counts a call that took `took`.
    pub fn count(&self, labels: CallLabels, took: Duration) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.calls.entry(labels).or_default() += 1;
        counts.took.entry(labels.tool).or_default().add(took);
    }

    /// Counts a request that took `took`. `status` is `None` if the client hung up before there was
    /// an answer.
    pub fn count_request(&self, route: Route, status: Option<u16>, took: Duration) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.requests.entry((route, status)).or_default() += 1;
        counts.requests_took.entry(route).or_default().add(took);
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
        for (tool, histogram) in &counts.took {
            histogram.write(&mut out, "stile_call_seconds", &format!("tool=\"{tool}\""));
        }
        counts.write_requests(&mut out);
        out.push_str(&self.others.get().map(|others| others()).unwrap_or_default());
        out
    }
}

impl Counts {
    fn write_requests(&self, out: &mut String) {
        out.push_str(
            "# HELP stile_requests_total Requests to /v1 by how they were answered.\n\
             # TYPE stile_requests_total counter\n",
        );
        // Writing to a string cannot fail.
        for ((Route { method, path }, status), count) in &self.requests {
            let status = status.map_or_else(|| "none".to_owned(), |status| status.to_string());
            let labels = format!("method=\"{method}\",route=\"{path}\",status=\"{status}\"");
            let _ = writeln!(out, "stile_requests_total{{{labels}}} {count}");
        }
        out.push_str(
            "# HELP stile_request_seconds How long requests to /v1 took.\n\
             # TYPE stile_request_seconds histogram\n",
        );
        for (Route { method, path }, histogram) in &self.requests_took {
            let labels = format!("method=\"{method}\",route=\"{path}\"");
            histogram.write(out, "stile_request_seconds", &labels);
        }
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

    #[test]
    fn requests_are_counted_by_route_and_status_when_their_answer_ends() {
        let metrics = Arc::new(Metrics::default());
        let route = Route { method: "GET", path: "/v1/streams/{stream}" };
        let answered = CountedRequest::begin(Arc::clone(&metrics), route).answered(200);
        assert_eq!(metrics.counts.lock().unwrap().requests.len(), 0);
        drop(answered);
        drop(CountedRequest::begin(Arc::clone(&metrics), Route::OTHER));
        metrics.count_request(route, Some(404), Duration::from_millis(3));
        let counts = metrics.counts.lock().unwrap();
        let counted: Vec<_> = counts.requests.iter().map(|(of, count)| (*of, *count)).collect();
        let expected =
            [((route, Some(200)), 1), ((route, Some(404)), 1), ((Route::OTHER, None), 1)];
        assert_eq!(counted, expected);
        assert_eq!(counts.requests_took.get(&route).unwrap().count, 2);
    }
}
