//! Benchmarks that compare two ways of doing one thing, in turns, in the same run.
//!
//! The ratio of the two times is meaningful on a noisy machine too.

use std::time::{Duration, Instant};

/// Whether a benchmark measures, or only runs.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Whether two rounds are enough, to show that the benchmark runs.
    pub smoke: bool,
}

impl Plan {
    /// Reads `--smoke` from the command line. Other arguments are Cargo's.
    pub fn from_arguments() -> Self {
        Self { smoke: std::env::args().any(|argument| argument == "--smoke") }
    }

    /// Returns `full`, or two rounds for a smoke run.
    pub fn rounds(self, full: usize) -> usize {
        if self.smoke { 2 } else { full }
    }
}

/// Runs two closures in turns and prints the median, the tenth and the ninetieth percentile of
/// each, and the ratio of the medians. Each closure returns the time that one run took.
#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
pub fn compare(
    what: &str,
    rounds: usize,
    mut ours: impl FnMut() -> Duration,
    floor: &str,
    mut theirs: impl FnMut() -> Duration,
) {
    let (mut a, mut b) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
    for _ in 0..rounds {
        a.push(ours());
        b.push(theirs());
    }
    let (a, b) = (Spread::of(a), Spread::of(b));
    println!(
        "{what:<44} {a}   {floor:<40} {b}   ratio {:.2}",
        a.median.as_secs_f64() / b.median.as_secs_f64()
    );
}

/// Runs a closure once and returns the time it took.
pub fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let began = Instant::now();
    std::hint::black_box(work());
    began.elapsed()
}

/// Runs a closure once and returns the CPU time that all threads of the process used meanwhile.
pub fn cpu<T>(work: impl FnOnce() -> T) -> Duration {
    let now = || rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let began = now();
    std::hint::black_box(work());
    let ended = now();
    let nanos = (ended.tv_sec - began.tv_sec) * 1_000_000_000 + (ended.tv_nsec - began.tv_nsec);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

/// Runs a closure once and returns by how many KiB the memory of the process grew meanwhile; zero
/// if the system does not report memory.
pub fn peak<T>(work: impl FnOnce() -> T) -> u64 {
    let field = |name: &str| -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = field("VmRSS:");
    std::hint::black_box(work());
    field("VmHWM:").saturating_sub(before)
}

struct Spread {
    low: Duration,
    median: Duration,
    high: Duration,
}

impl Spread {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| {
            times.get((times.len().max(1) - 1) * percent / 100).copied().unwrap_or_default()
        };
        Self { low: at(10), median: at(50), high: at(90) }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        write!(
            f,
            "{:>9.1} µs [{:.1}–{:.1}]",
            micros(self.median),
            micros(self.low),
            micros(self.high)
        )
    }
}
