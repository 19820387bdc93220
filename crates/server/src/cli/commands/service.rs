//! `stile service`: keeps `stile serve` running, by the service manager of the user.

mod files;

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use clap::ArgMatches;
use stile_store::foreign_file::{ForeignFile, Secrecy};

use self::files::{LABEL, NAME, ServicePlan, file};
use crate::cli::client_entry::{absolute, cannot};
use crate::cli::clients::{Platform, home_place};
use crate::cli::compose::{Home, found_server};
use crate::cli::failure::Failure;
use crate::cli::flags;
use crate::cli::installation::{self, Installation};
use crate::cli::invocation::{Invocation, settings};
use crate::config::declarations::{CONFIG, ROOT, STATE};
use crate::config::{Environment, Source};

const LINGER: &str = "It starts when you log in. On a machine without a login: `loginctl \
                      enable-linger`.";

/// The folder beside the service files with links to those that start when a user logs in.
const STARTED: &str = "default.target.wants";

/// Installs, removes, or looks at the service.
pub(super) fn run(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("install", matches)) => install(matches, environment, output),
        Some(("uninstall", _)) => uninstall(environment, output),
        Some(("status", matches)) => {
            write_running(matches, environment, output)?;
            if Platform::current() == Platform::Linux {
                systemctl(&["show-environment"]).map_err(|failure| {
                    no_manager(failure, "whether it has a service of this name is not known", "")
                })?;
            }
            passed_through("systemctl", &["--user", "status", NAME])
        }
        Some(("logs", matches)) => {
            let mut arguments = vec!["--user", "--user-unit", NAME, "--lines", "100"];
            if matches.get_flag("follow") {
                arguments.push("--follow");
            }
            passed_through("journalctl", &arguments)
        }
        _ => Ok(()),
    }
}

/// Returns the place of the service file of a platform.
fn place(platform: Platform, environment: Environment<'_>) -> Result<PathBuf, Failure> {
    let template = match platform {
        Platform::Linux => "{XDG_CONFIG_HOME:~/.config}/systemd/user/stile.service",
        Platform::MacOs => "~/Library/LaunchAgents/dev.stile.serve.plist",
        Platform::Windows => "{APPDATA:~/AppData/Roaming}/stile/stile-task.xml",
    };
    home_place(template, environment)
        .ok_or_else(|| Failure::Usage("there is no home folder: HOME is not set".to_owned()))
}

fn plan(matches: &ArgMatches, environment: Environment<'_>) -> Result<ServicePlan, Failure> {
    let mut resolved = settings(matches, environment)?;
    if *resolved.source(&ROOT) == Source::Default
        && let Ok(home) = Home::open_existing(&resolved.config)
        && let Some(server) = found_server::found(&resolved, &home, &home.tokens()?)?
    {
        resolved.config.root = server.root;
    }
    let is_typed = !matches.get_flag("print") && *resolved.source(&ROOT) != Source::Default;
    if is_typed && !resolved.config.root.is_dir() {
        let root = resolved.config.root.display();
        let message = format!("there is no folder {root}; make it, or name another one");
        return Err(Failure::Usage(message));
    }
    let text = |path: &PathBuf| absolute(path).to_string_lossy().into_owned();
    let (root, state) = (text(&resolved.config.root), text(&resolved.config.state));
    let mut command = vec![installation::program(), "serve".to_owned(), root.clone()];
    for (setting, flag, path) in
        [(&STATE, "--state", &state), (&CONFIG, "--config", &text(&resolved.config.config))]
    {
        // The service has another environment than the command line.
        if *resolved.source(setting) != Source::Default {
            command.extend([flag.to_owned(), path.clone()]);
        }
    }
    Ok(ServicePlan { command, writable: vec![root, state] })
}

/// Lists the servers that run with the state.
fn write_running(
    matches: &ArgMatches,
    environment: Environment<'_>,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let Ok(home) = Home::open_existing(&settings(matches, environment)?.config) else {
        return Ok(());
    };
    for server in found_server::running(&home)? {
        let (root, pid) = (server.root.display(), server.pid);
        writeln!(output, "{root} is served at {} by process {pid}", server.origin)?;
    }
    Ok(output.flush()?)
}

fn install(
    matches: &ArgMatches,
    environment: Environment<'_>,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let platform = match flags::text(matches, "for") {
        Some("linux") => Platform::Linux,
        Some("macos") => Platform::MacOs,
        Some("windows") => Platform::Windows,
        _ => Platform::current(),
    };
    let plan = plan(matches, environment)?;
    let text = file(platform, &plan);
    if matches.get_flag("print") {
        output.write_all(text.as_bytes())?;
        return Ok(());
    }
    if platform != Platform::current() {
        let message = "--for another system needs --print: the file is of no use here";
        return Err(Failure::Usage(message.to_owned()));
    }
    let (installation, _) = Installation::of_this_program();
    if let Some(words) = installation.words() {
        return Err(Failure::Usage(format!(
            "`{}` keeps the program in a cache, which may be emptied; install it first, as \
             `stile update` says for a program that is installed",
            words.join(" ")
        )));
    }
    let starts = platform == Platform::Linux && !matches.get_flag("no_start");
    if starts {
        // Before anything is written, so that nothing is left where no manager answers.
        systemctl(&["show-environment"]).map_err(|failure| {
            no_manager(
                failure,
                "nothing was written",
                " `stile service install --no-start` writes the file alone.",
            )
        })?;
    }
    // The folders that the service may change must exist when it starts.
    for folder in &plan.writable {
        stile_store::state::create_space_folder(folder.as_ref())
            .map_err(|error| Failure::Failed(format!("cannot make {folder}: {error}")))?;
    }
    let path = place(platform, environment)?;
    let present = ForeignFile::read(&path).map_err(|error| cannot("read", &path, &error))?;
    if present.text() != Some(text.as_str()) {
        present
            .replace(&text, Secrecy::AsBefore)
            .map_err(|error| cannot("write", &path, &error))?;
    }
    writeln!(output, "wrote {}", path.display())?;
    let shown = path.display();
    match platform {
        Platform::Linux if matches.get_flag("no_start") => {
            writeln!(output, "start it with: systemctl --user enable --now {NAME}")?;
        }
        Platform::Linux => {
            systemctl(&["daemon-reload"])?;
            systemctl(&["enable", NAME])?;
            // A running service gets the new file; one that was stopped is started.
            systemctl(&["restart", NAME])?;
            writeln!(output, "{NAME} runs: `stile service status` and `stile service logs`")?;
            writeln!(output, "{LINGER}")?;
        }
        Platform::MacOs => writeln!(
            output,
            "nobody has tried this file yet; start it with: launchctl bootstrap gui/$UID '{shown}'"
        )?,
        Platform::Windows => writeln!(
            output,
            "nobody has tried this file yet; start it with: schtasks /Create /TN {NAME} /XML \
             \"{shown}\""
        )?,
    }
    Ok(())
}

fn uninstall(environment: Environment<'_>, output: &mut dyn Write) -> Result<(), Failure> {
    let platform = Platform::current();
    let path = place(platform, environment)?;
    let present = ForeignFile::read(&path).map_err(|error| cannot("read", &path, &error))?;
    if present.text().is_none() {
        writeln!(output, "there is no service; nothing was changed")?;
        return Ok(());
    }
    let has_manager = platform != Platform::Linux || systemctl(&["show-environment"]).is_ok();
    match platform {
        Platform::Linux if has_manager => systemctl(&["disable", "--now", NAME])?,
        Platform::Linux => {
            // What the manager would remove: the link by which it starts the service.
            let link = path.with_file_name(STARTED).join(format!("{NAME}.service"));
            std::fs::remove_file(link).or_else(|error| match error.kind() {
                std::io::ErrorKind::NotFound => Ok(()),
                _ => Err(cannot("remove the start of", &path, &error)),
            })?;
            writeln!(
                output,
                "the service manager of your user does not answer: a service that runs goes on \
                 until it is stopped or you log out"
            )?;
        }
        Platform::MacOs => {
            writeln!(output, "stop it first with: launchctl bootout gui/$UID/{LABEL}")?;
        }
        Platform::Windows => writeln!(output, "stop it first with: schtasks /Delete /TN {NAME}")?,
    }
    present.remove().map_err(|error| cannot("remove", &path, &error))?;
    if platform == Platform::Linux && has_manager {
        systemctl(&["daemon-reload"])?;
    }
    writeln!(output, "removed {}; your folder and the state are as they were", path.display())?;
    Ok(())
}

/// Says what to do where the service manager of the user does not answer.
fn no_manager(failure: Failure, effect: &str, more: &str) -> Failure {
    let Failure::Failed(why) = failure else { return failure };
    Failure::Failed(format!(
        "{why}\nThe service manager of your user does not answer, so {effect}. Log in on the \
         machine itself or by ssh, or run `loginctl enable-linger` as root for your user.{more}"
    ))
}

/// Runs `systemctl --user` and repeats what it says if it fails.
fn systemctl(arguments: &[&str]) -> Result<(), Failure> {
    let ran = Command::new("systemctl").arg("--user").args(arguments).output();
    let shown = format!("systemctl --user {}", arguments.join(" "));
    match ran {
        Err(error) => Err(Failure::Failed(format!("cannot run `{shown}`: {error}"))),
        Ok(ran) if ran.status.success() => Ok(()),
        Ok(ran) => {
            let said = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
            Err(Failure::Failed(format!("`{shown}` failed: {said}")))
        }
    }
}

/// Runs a program on the terminal of this one, and ends with its exit code.
fn passed_through(program: &str, arguments: &[&str]) -> Result<(), Failure> {
    if Platform::current() != Platform::Linux {
        let message = "only systemd is known; ask the service manager of this system".to_owned();
        return Err(Failure::Usage(message));
    }
    let status = Command::new(program)
        .args(arguments)
        .status()
        .map_err(|error| Failure::Failed(format!("cannot run `{program}`: {error}")))?;
    match status.code() {
        Some(0) => Ok(()),
        code => Err(Failure::Failed(format!(
            "`{program}` ended with {}",
            code.map_or_else(|| "a signal".to_owned(), |code| format!("code {code}"))
        ))),
    }
}
