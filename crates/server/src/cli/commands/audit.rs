//! `stile audit`: tells in sentences what agents did, and verifies the journal.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use clap::ArgMatches;
use serde_json::json;
use stile_domain::audit::{AuditFilter, CallKind, caller, kind, sentence};
use stile_domain::journal::JournalLine;
use stile_domain::json::text::with_escapes;
use stile_domain::path::SpacePath;
use stile_domain::records::instant::{Instant, MICROS_A_DAY};
use stile_domain::unseen::shown;
use stile_store::history::ChangeAuthor;
use stile_store::journal::{JournalPlace, NewLines, RemovedLines, Verification};

use crate::cli::compose::{Home, files_owner};
use crate::cli::failure::Failure;
use crate::cli::flags::{self, duration, typed_path};
use crate::cli::invocation::{Invocation, settings};
use crate::cli::terminal::{self, Colours, Meaning, Progress, Step, Unit, local_time};
use crate::clock::{now, unix_seconds, wall_clock};
use crate::config::Environment;
use crate::known_clients::{KnownClients, MeantClient};

/// How long after a line was written a follower may show it.
const FOLLOW_EVERY: Duration = Duration::from_millis(250);
/// For how long before now a follower knows the clients by their names, in microseconds.
const FOLLOWED: i64 = 30 * MICROS_A_DAY;

/// Tells what the journal has, follows it, or verifies it.
pub(super) fn run(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    let home = Home::open(&settings(matches, environment)?.config)?;
    let place = home.journal();
    if let Some(("verify", matches)) = matches.subcommand() {
        let found = verify_all(&place)?;
        return print_verification(&found, matches.get_flag("json"), output, colours);
    }
    if let Some(("remove", matches)) = matches.subcommand() {
        return remove(&place, matches, output);
    }
    let place = of_person(&home, place)?;
    let mut filter = filter(matches, environment)?;
    let since = duration::since_flag(matches)?;
    let follows = matches.get_flag("follow");
    if let Some(typed) = filter.client.take() {
        // Who only follows sees no earlier line.
        let names_since = since.or_else(|| follows.then(|| Instant(now().0 - FOLLOWED)));
        let known = KnownClients::of(&home.tokens()?, unix_seconds(wall_clock()))?;
        match client_meant(&typed, (&place, names_since), &known)? {
            MeantClient::Named(name) => filter.client = Some(name),
            MeantClient::Callers(callers) => filter.callers = Some(callers),
        }
    }
    let form = Form { is_json: matches.get_flag("json"), colours };
    // Before the first look, so that no line falls between the two.
    let new_lines = if follows { Some(place.new_lines()?) } else { None };
    if !follows || since.is_some() {
        let mut lines = place.lines(since)?;
        let mut is_empty = true;
        while let Some(line) = lines.next_line()? {
            is_empty &= !filter.shows(&line);
            print(&line, &filter, form, output)?;
        }
        report_damage(lines.damaged());
        if is_empty && !follows {
            output.flush()?;
            terminal::print_line(&no_call(&filter, since.is_some()));
        }
    }
    match new_lines {
        Some(new_lines) => follow(new_lines, &filter, form, output),
        None => Ok(()),
    }
}

/// Returns the journal of the person whom the command is about, or of everybody.
pub(super) fn of_person(home: &Home, place: JournalPlace) -> Result<JournalPlace, Failure> {
    Ok(match home.subject()? {
        Some(subject) => place.of_subject(&subject),
        None => place,
    })
}

/// Returns whom a typed name or identifier means of those in the journal from `since` on.
fn client_meant(
    typed: &str,
    (place, since): (&JournalPlace, Option<Instant>),
    known: &KnownClients,
) -> Result<MeantClient, Failure> {
    let mut authors = BTreeSet::new();
    let mut lines = place.lines(since)?;
    while let Some(line) = lines.next_line()? {
        let token = line.approval.clone().or_else(|| line.token.clone());
        authors.insert(ChangeAuthor { name: caller(&line).to_owned(), token });
    }
    Ok(known.meant_by(typed, &authors, &authors)?)
}

fn filter(matches: &ArgMatches, environment: Environment<'_>) -> Result<AuditFilter, Failure> {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let path = |text: String| {
        // Where several folders were served, the path can only be meant from the root of one.
        let served = settings(matches, environment).and_then(files_owner::with_served_root);
        match served {
            Ok(resolved) => typed_path::parse(&text, &resolved.config.root),
            Err(_) => {
                SpacePath::parse(&text).map_err(|error| Failure::Usage(format!("--path: {error}")))
            }
        }
    };
    Ok(AuditFilter {
        client: text("client"),
        callers: None,
        path: text("path").map(path).transpose()?,
        tool: text("tool"),
        refused: matches.get_flag("refused"),
    })
}

/// Says that the journal has no call which a filter shows, with what was asked for.
fn no_call(filter: &AuditFilter, has_beginning: bool) -> String {
    let AuditFilter { client, callers: _, path, tool, refused } = filter;
    let parts = [
        client.as_ref().map(|client| format!(" of `{client}`")),
        tool.as_ref().map(|tool| format!(" of the tool `{tool}`")),
        path.as_ref().map(|path| format!(" on {path}")),
        refused.then(|| " that was refused".to_owned()),
        has_beginning.then(|| " since then".to_owned()),
    ];
    let said: String = parts.into_iter().flatten().collect();
    let said = if said.is_empty() { " yet" } else { said.as_str() };
    shown(&format!("the journal has no call{said}")).into_owned()
}

/// Shows new lines until the process is interrupted, or until nobody reads its output.
fn follow(
    mut new_lines: NewLines,
    filter: &AuditFilter,
    form: Form,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    loop {
        output.flush()?;
        std::thread::sleep(FOLLOW_EVERY);
        for line in new_lines.take()? {
            print(&line, filter, form, output)?;
        }
    }
}

fn print(
    line: &JournalLine,
    filter: &AuditFilter,
    form: Form,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    if filter.shows(line) {
        writeln!(output, "{}", form.line(line))?;
    }
    Ok(())
}

/// How lines are shown.
#[derive(Clone, Copy)]
struct Form {
    is_json: bool,
    colours: Colours,
}

impl Form {
    /// Returns a line as JSON, or its time to the second and a sentence. Changes, refusals and
    /// events have colours.
    fn line(self, line: &JournalLine) -> String {
        if self.is_json {
            return with_escapes(&json!(line).to_string());
        }
        let time = Instant::parse(&line.at).map_or_else(|| line.at.clone(), local_time::second);
        let meaning = match kind(line) {
            CallKind::Event => Some(Meaning::Warning),
            _ if line.outcome != "ok" => Some(Meaning::Bad),
            CallKind::Change => Some(Meaning::Title),
            CallKind::Read => None,
        };
        let told = sentence(line);
        let told = meaning.map_or_else(|| told.clone(), |what| self.colours.paint(&told, what));
        format!("{time}  {told}")
    }
}

/// Verifies the journal and shows how far the work is.
fn verify_all(place: &JournalPlace) -> Result<Verification, Failure> {
    let total = place.bytes()?;
    let (mut progress, mut done) = (Progress::new(), 0);
    let found = place.verify(&mut |bytes| {
        done += bytes;
        progress.show(Step { action: "verifying", done, total, unit: Unit::Bytes });
    });
    progress.clear();
    Ok(found?)
}

/// Removes the lines of a user, or shows how many there are.
fn remove(
    place: &JournalPlace,
    matches: &ArgMatches,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let user = flags::text(matches, "user");
    let is_meant = |line: &JournalLine| line.subject.as_deref() == user;
    let (found, is_done) = match matches.get_flag("yes") {
        true => (place.remove(&is_meant)?, true),
        false => (place.plan_removal(&is_meant)?, false),
    };
    let RemovedLines { lines, files, unchained } = found;
    let done = if is_done { "were removed" } else { "would be removed" };
    writeln!(output, "{lines} lines in {files} files {done}.")?;
    if unchained > 0 {
        writeln!(
            output,
            "{unchained} lines have no chain value, so they stay; `stile audit verify` names their \
             files."
        )?;
    }
    if !is_done && lines > 0 {
        writeln!(output, "Nothing was changed. Add --yes to do this. It cannot be taken back.")?;
    }
    Ok(())
}

/// Warns of lines that could not be read.
pub(super) fn report_damage(damaged: usize) {
    if damaged > 0 {
        terminal::print_line(&format!(
            "warning: {damaged} lines of the journal cannot be read; `stile audit verify` says \
             where it was changed"
        ));
    }
}

fn print_verification(
    found: &Verification,
    as_json: bool,
    output: &mut dyn Write,
    colours: Colours,
) -> Result<(), Failure> {
    let Verification { files, lines, removed, retired, faults, .. } = found;
    if as_json {
        let faults: Vec<_> = faults
            .iter()
            .map(|fault| json!({ "file": fault.file, "line": fault.line, "fault": fault.kind.to_string() }))
            .collect();
        let answer = json!({
            "intact": faults.is_empty(), "files": files, "lines": lines,
            "lines_removed": removed, "files_removed_for_age": retired, "faults": faults,
        });
        terminal::write_json(output, &answer)?;
    } else {
        for fault in faults {
            let place = fault.line.map(|line| format!(", line {line}")).unwrap_or_default();
            let fault = format!("{}{place}: {}", fault.file, fault.kind);
            writeln!(output, "{}", colours.paint(&fault, Meaning::Bad))?;
        }
        let intact = format!("{lines} lines in {files} files belong to an intact chain");
        let meaning = if faults.is_empty() { Meaning::Good } else { Meaning::Warning };
        writeln!(output, "{}", colours.paint(&intact, meaning))?;
        if *removed > 0 {
            writeln!(output, "{removed} lines were removed by the owner")?;
        }
        if *retired > 0 {
            writeln!(output, "{retired} files were removed for their age")?;
        }
    }
    match faults.len() {
        0 => Ok(()),
        1 => Err(Failure::Failed("the journal was changed in one place".to_owned())),
        many => Err(Failure::Failed(format!("the journal was changed in {many} places"))),
    }
}

#[cfg(test)]
mod tests {
    use stile_store::journal::Journal;
    use stile_store::state::StateDir;

    use super::*;

    /// Runs a command on a state with three lines, of which `change` may alter the file.
    fn stile(arguments: &[&str], change: fn(String) -> String) -> (String, Result<(), String>) {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let journal = Journal::open(&state).unwrap();
        for (client, tool, path) in [
            ("cursor", "text.read", "/work/plan.md"),
            ("cursor", "text.edit", "/work/plan.md"),
            ("claude", "text.read", "/other.md"),
        ] {
            let line = JournalLine {
                subject: Some("ann".to_owned()),
                client: Some(client.to_owned()),
                tool: tool.to_owned(),
                path: SpacePath::parse(path).ok(),
                changed_lines: (tool == "text.edit").then_some(3),
                outcome: "ok".to_owned(),
                ..JournalLine::default()
            };
            journal.append(line).unwrap();
        }
        drop(journal);
        let files = std::fs::read_dir(folder.path().join("journal")).unwrap();
        let file = files.last().unwrap().unwrap().path();
        std::fs::write(&file, change(std::fs::read_to_string(&file).unwrap())).unwrap();
        let state = folder.path().to_str().unwrap();
        let flags = ["--state", state];
        let line = ["stile"].iter().chain(arguments).chain(&flags);
        let mut output = Vec::new();
        let environment = |name: &str| (name == "HOME").then(|| "/home/ann".to_owned());
        let ran =
            crate::cli::commands::run(line.map(|word| word.into()), &environment, &mut output);
        let name = file.file_name().unwrap().to_str().unwrap();
        let output = String::from_utf8(output).unwrap().replace(name, "<file>");
        (output, ran.map_err(|failure| failure.report().0))
    }

    fn unchanged(text: String) -> String {
        text
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_client_did_of_late_is_told_without_reading_old_files() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let write = |client: &str, lines: usize| {
            let journal = Journal::open(&state).unwrap();
            for _ in 0..lines {
                let line = JournalLine {
                    client: Some(client.to_owned()),
                    tool: "text.read".to_owned(),
                    outcome: "ok".to_owned(),
                    ..JournalLine::default()
                };
                journal.append(line).unwrap();
            }
        };
        write("cursor", 3_000);
        let old = std::fs::read_dir(folder.path().join("journal")).unwrap().next().unwrap();
        let old = old.unwrap().path();
        let long_ago = wall_clock() - Duration::from_secs(100 * 86_400);
        std::fs::File::options().append(true).open(&old).unwrap().set_modified(long_ago).unwrap();
        write("cursor", 1);
        let words = ["audit", "--client", "cursor", "--since", "1h", "--state"];
        let place = folder.path().to_str().unwrap();
        let line = ["stile"].into_iter().chain(words).chain([place]);
        let mut output = Vec::new();
        let (read, ran) = stile_testkit::reading::bytes_read(|| {
            let environment = |name: &str| (name == "HOME").then(|| "/home/ann".to_owned());
            crate::cli::commands::run(line.map(|word| word.into()), &environment, &mut output)
        });
        ran.unwrap();
        assert_eq!(String::from_utf8(output).unwrap().lines().count(), 1);
        let length = old.metadata().unwrap().len();
        assert!(read < length / 2, "{read} bytes were read, and the old file has {length}");
    }

    #[test]
    fn what_a_client_did_is_told_in_sentences() {
        let (told, ran) = stile(&["audit", "--client", "cursor", "--path", "/work"], unchanged);
        assert_eq!(ran, Ok(()));
        let sentences: Vec<&str> = told.lines().filter_map(|line| line.get(21..)).collect();
        assert_eq!(
            sentences,
            ["cursor read /work/plan.md", "cursor changed 3 lines of /work/plan.md"]
        );
        assert_eq!(ran, Ok(()));
        let (told, _) = stile(&["audit", "--tool", "text.edit", "--json"], unchanged);
        let line: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!((&line["client"], &line["changed_lines"]), (&json!("cursor"), &json!(3)));
        assert_eq!(stile(&["audit", "--refused"], unchanged).0, "");
        assert_eq!(stile(&["audit", "--since", "2999-01-01"], unchanged).0, "");
    }

    #[test]
    fn json_escapes_characters_that_nobody_sees() {
        let unseen = |text: String| text.replace("claude", "cla\u{202e}ude");
        let (told, _) = stile(&["audit", "--json"], unseen);
        assert!(told.contains(r"cla\u202eude") && !told.contains('\u{202e}'), "{told}");
    }

    #[test]
    fn an_altered_journal_line_is_found() {
        let (told, ran) = stile(&["audit", "verify"], unchanged);
        assert_eq!(told, "3 lines in 1 files belong to an intact chain\n");
        assert_eq!(ran, Ok(()));
        let (told, ran) =
            stile(&["audit", "verify"], |text| text.replace("text.edit", "text.read"));
        assert_eq!(
            told,
            "<file>, line 2: the line was altered, or a line before it was replaced\n\
             1 lines in 1 files belong to an intact chain\n"
        );
        assert_eq!(ran, Err("error: the journal was changed in one place\n".to_owned()));
        let (told, ran) = stile(&["audit", "verify", "--json"], |text| text[..10].to_owned());
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!((&told["intact"], &told["faults"][0]["line"]), (&json!(false), &json!(0)));
        assert!(ran.is_err());
    }

    #[test]
    fn the_lines_of_a_user_are_removed_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let journal = Journal::open(&state).unwrap();
        for (subject, tool) in [("ann", "text.read"), ("bob", "text.edit"), ("ann", "text.edit")] {
            let line = JournalLine {
                subject: Some(subject.to_owned()),
                tool: tool.to_owned(),
                outcome: "ok".to_owned(),
                ..JournalLine::default()
            };
            journal.append(line).unwrap();
        }
        journal.sync();
        let stile = |arguments: &[&str]| {
            let flags = ["--state", folder.path().to_str().unwrap()];
            let line = ["stile", "audit"].iter().chain(arguments).chain(&flags);
            let mut output = Vec::new();
            let environment = |name: &str| (name == "HOME").then(|| "/home/ann".to_owned());
            let ran =
                crate::cli::commands::run(line.map(|word| word.into()), &environment, &mut output);
            ran.map_err(|failure| failure.report().0).unwrap();
            String::from_utf8(output).unwrap()
        };
        let plan = stile(&["remove", "--user", "ann"]);
        assert_eq!(
            plan,
            "2 lines in 1 files would be removed.\n\
             Nothing was changed. Add --yes to do this. It cannot be taken back.\n"
        );
        assert_eq!(stile(&[]).lines().count(), 3);
        // While the program goes on writing.
        let removed = stile(&["remove", "--user", "ann", "--yes"]);
        assert_eq!(removed, "2 lines in 1 files were removed.\n");
        journal.append(JournalLine { tool: "later".to_owned(), ..JournalLine::default() }).unwrap();
        drop(journal);
        let told = stile(&["--json"]);
        assert!(told.contains("bob") && told.contains("later") && !told.contains("ann"), "{told}");
        assert_eq!(
            stile(&["verify"]),
            "2 lines in 1 files belong to an intact chain\n2 lines were removed by the owner\n"
        );
    }

    #[test]
    fn changes_refusals_and_events_have_colours_on_a_terminal() {
        let line = |tool: &str, outcome: &str| JournalLine {
            at: "2026-01-31T08:00:00.000000Z".to_owned(),
            subject: Some("ann".to_owned()),
            tool: tool.to_owned(),
            outcome: outcome.to_owned(),
            ..JournalLine::default()
        };
        let event = JournalLine { subject: None, ..line("conflict_copy", "ok") };
        let form = Form { is_json: false, colours: Colours::Shown };
        let told = [line("text.read", "ok"), line("text.edit", "ok"), line("x", "stale"), event];
        let told: Vec<String> = told.iter().map(|line| form.line(line)).collect();
        assert_eq!(
            told,
            [
                "2026-01-31 08:00:00  ann read",
                "2026-01-31 08:00:00  \x1b[1mann changed\x1b[0m",
                "2026-01-31 08:00:00  \x1b[1;31mann would have called x, but it had changed since the client read it\x1b[0m",
                "2026-01-31 08:00:00  \x1b[33mstile reports conflict_copy\x1b[0m",
            ]
        );
    }

    #[test]
    fn activity_is_drawn_by_client_and_day() {
        let (drawn, _) = stile(&["activity"], unchanged);
        let counts: Vec<&str> = drawn.lines().map(|line| line.get(12..).unwrap_or(line)).collect();
        assert_eq!((counts[0], counts[2]), ("claude", "cursor"));
        assert!(counts[3].ends_with("1 reads, 1 changes, 0 refused"), "{drawn}");
        let (drawn, _) = stile(&["activity", "--json"], unchanged);
        let rows: serde_json::Value = serde_json::from_str(&drawn).unwrap();
        assert_eq!((&rows[1]["client"], &rows[1]["changes"]), (&json!("cursor"), &json!(1)));
    }
}
