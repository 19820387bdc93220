//! `stile import`: files become records.

use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ArgMatches;
use stile_domain::records::identifiers::SourceName;
use stile_import::input::{Format, Input};
use stile_import::run::{Import, Progress, Report, Stopped, Why};

use super::owner::Owner;
use super::{Failure, owner};
use crate::config::Environment;

/// Imports, and says what became of it.
pub(super) fn run(
    matches: &ArgMatches,
    environment: Environment<'_>,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let files = owner::texts(matches, "file");
    let format = owner::text(matches, "format");
    let strict = matches.get_flag("strict");
    if format == Some("stile") {
        return restore(matches, environment, &files, strict, output);
    }
    let inputs = files.iter().map(|file| input(file, format)).collect::<Result<Vec<_>, _>>()?;
    let (connection, stream) = (owner::name(matches, "connection")?, stream(matches, &inputs)?);
    let key = owner::texts(matches, "key");
    let Owner { services, caller, now } = owner::open(matches, environment)?;
    let import = Import {
        services: &services,
        caller: &caller,
        connection: &connection,
        stream: &stream,
        key: &key,
        strict,
        now,
    };
    let mut line = Line::new();
    let imported = import.run(&inputs, &mut |progress| line.show(progress));
    line.clear();
    let report = told(imported, output)?;
    if !report.because.is_empty() {
        owner::aside(&format!("The stream `{stream}` of `{connection}` is new and now declared:"))?;
        report.because.iter().try_for_each(|line| owner::aside(&format!("  {line}")))?;
        let command = format!("stile declare --connection {connection} --stream {stream}");
        owner::aside(&format!(
            "It stays so until you change it: `{command} --show > FILE`, edit FILE, `{command} --from FILE`."
        ))?;
    }
    Ok(())
}

/// The stream that is named. What is known to be messages need not be told to be.
fn stream(matches: &ArgMatches, inputs: &[Input]) -> Result<SourceName, Failure> {
    let is_told = owner::text(matches, "stream").is_some();
    if !is_told && inputs.iter().all(|input| input.format.known().is_some()) {
        return SourceName::parse("messages").map_err(|bad| Failure::Failed(bad.to_string()));
    }
    if !is_told {
        return Err(Failure::Usage(
            "say with --stream what the rows are, for example --stream messages".to_owned(),
        ));
    }
    owner::name(matches, "stream")
}

fn restore(
    matches: &ArgMatches,
    environment: Environment<'_>,
    files: &[String],
    strict: bool,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    for flag in ["connection", "stream", "key"] {
        if !owner::texts(matches, flag).is_empty() {
            return Err(Failure::Usage(format!(
                "--{flag}: an export says itself where its records belong"
            )));
        }
    }
    let Owner { services, caller, .. } = owner::open(matches, environment)?;
    for file in files {
        let mut line = Line::new();
        let restored = stile_import::restore::restore(
            &services,
            &caller,
            Path::new(file),
            strict,
            &mut |progress| line.show(progress),
        );
        line.clear();
        told(restored, output)?;
    }
    Ok(())
}

fn input(file: &str, format: Option<&str>) -> Result<Input, Failure> {
    let path = PathBuf::from(file);
    let format = match format {
        Some("jsonl") => Some(Format::JsonLines),
        Some("json") => Some(Format::Json),
        Some("csv") => Some(Format::Csv),
        Some("markdown") => Some(Format::Markdown),
        Some("mbox") => Some(Format::Mbox),
        Some("chatgpt") => Some(Format::ChatGpt),
        Some("slack") => Some(Format::Slack),
        _ => Format::of(&path)
            .map_err(|error| Failure::Failed(format!("cannot read {file}: {error}")))?,
    };
    match format {
        Some(format) => Ok(Input { path, format }),
        None => Err(Failure::Usage(format!(
            "{file} does not tell what is in it; say --format jsonl, json, csv, markdown, mbox, chatgpt or slack"
        ))),
    }
}

/// Prints what was stored and what was not.
fn told(imported: Result<Report, Box<Stopped>>, output: &mut dyn Write) -> Result<Report, Failure> {
    let (report, why) = match imported {
        Ok(report) => (report, None),
        Err(stopped) => {
            let Stopped { why, report } = *stopped;
            (report, Some(why))
        }
    };
    for bad in &report.bad {
        owner::aside(&format!("{}:{}: {} ({})", bad.file, bad.line, bad.reason, bad.code))?;
    }
    let unsaid = report.bad_rows.saturating_sub(report.bad.len() as u64);
    if unsaid > 0 {
        owner::aside(&format!("and {unsaid} more bad rows"))?;
    }
    if report.replaced > 0 {
        owner::aside(&format!(
            "{} broken characters (half of a surrogate pair) became U+FFFD",
            report.replaced
        ))?;
    }
    let Report { added, changed, same, bad_rows, .. } = report;
    let stored = added + changed + same;
    let summary = format!("added {added}, changed {changed}, unchanged {same}, bad {bad_rows}");
    match why {
        Some(why @ (Why::OtherKey { .. } | Why::Key(_))) => {
            return Err(Failure::Usage(why.to_string()));
        }
        Some(why) if stored == 0 => return Err(Failure::Failed(why.to_string())),
        Some(why) => {
            return Err(Failure::Failed(format!(
                "{why}\nBefore that: {summary}. Run it again to go on from there."
            )));
        }
        None => writeln!(output, "{summary}")?,
    }
    if added + changed == 0 && bad_rows == 0 {
        writeln!(output, "{}", if same > 0 { "nothing has changed" } else { "there are no rows" })?;
    }
    if stored == 0 && bad_rows > 0 {
        return Err(Failure::Failed("no row could be stored; the reasons are above".to_owned()));
    }
    Ok(report)
}

/// A line on a terminal that says how far it is.
struct Line {
    is_terminal: bool,
    shown: Option<Instant>,
}

impl Line {
    const EVERY: Duration = Duration::from_millis(100);

    fn new() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), shown: None }
    }

    fn show(&mut self, progress: Progress) {
        if !self.is_terminal || self.shown.is_some_and(|shown| shown.elapsed() < Self::EVERY) {
            return;
        }
        self.shown = Some(Instant::now());
        // Nobody is told less of the import where this fails.
        let _ = write!(io::stderr(), "\r{}\x1b[K", spelled(progress));
    }

    fn clear(&mut self) {
        if self.shown.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn spelled(Progress { storing, bytes, total }: Progress) -> String {
    let percent = (bytes.min(total) * 100).checked_div(total).unwrap_or(100);
    let doing = if storing { "storing" } else { "looking" };
    format!("{doing} {percent}% of {:.1} MB", total as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_it_is_in_one_line() {
        let at = |storing, bytes, total| spelled(Progress { storing, bytes, total });
        assert_eq!(at(false, 1_500_000, 3_000_000), "looking 50% of 3.0 MB");
        assert_eq!(at(true, 5, 4), "storing 100% of 0.0 MB");
        assert_eq!(at(true, 0, 0), "storing 100% of 0.0 MB");
    }
}
