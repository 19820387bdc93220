//! Opens what the commands work on: the state folder, the journal, the space and the records.

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stile_domain::document::DocumentReader;
use stile_import::attachment_text::TextReader;
use stile_ladder::port::RecordServer;
use stile_ladder::{Ladder, SchemaStyle};
use stile_records::RecordService;
use stile_store::history::{
    History, HistoryLimits, HistorySettings, ServerSetting, ServerSettings, UnkeptChange,
};
use stile_store::journal::{Journal, JournalOptions};
use stile_store::owner_texts::{LeftOut, PromptFolder, overlap, read_instructions};
use stile_store::space::{FirstUse, OpenError, Space, SpaceOptions, Unserved};
use stile_store::state::{
    ServedFolder, StateDir, check_disjoint, cleared_caches, create_space_folder, is_inside,
};
use stile_tools::call_log::CallLog;
use stile_tools::definition::ToolGroup;
use stile_tools::prompts::Prompts;
use stile_tools::space::SpaceTools;

use super::home::Home;
use super::person_folder::{PersonFolder, files_in};
use crate::cli::failure::Failure;
use crate::clock;
use crate::config::declarations::{HISTORY, HISTORY_BYTES, HISTORY_DAYS, ROOT};
use crate::config::{Config, HistoryMode, Resolved, Setting, Source, YesNo};
use crate::service::{OwnerTexts, Service};
use crate::shares::Shares;
use crate::stored_records::StoredRecords;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A space and the journal of its changes.
pub(crate) struct OpenSpace {
    pub(crate) space: Space,
    pub(crate) journal: Arc<Journal>,
    /// The history that the space uses; `None` if it keeps no old versions.
    pub(crate) history: Option<Arc<History>>,
    /// Says to other processes that the folder is served; `None` for a command.
    pub(crate) served: Option<ServedFolder>,
}

impl OpenSpace {
    pub(crate) fn tools(&self) -> SpaceTools {
        SpaceTools::new(self.space.clone(), Arc::clone(&self.journal))
    }
}

/// Opens the state, the journal and the space, in this order: a space is not touched if its changes
/// could not be journalled. Makes the default root on first use.
pub(crate) fn open_space(resolved: &Resolved) -> Result<(Home, OpenSpace), Failure> {
    let config = &resolved.config;
    check_places(config)?;
    let home = Home::open(config)?;
    let open_space = open_space_at(&home, resolved)?;
    Ok((home, open_space))
}

/// Opens the same for a command of the owner about old versions. The command uses the history by
/// the settings that its server stored, and removes nothing from it.
pub(crate) fn open_space_of_owner(
    resolved: &Resolved,
) -> Result<(OpenSpace, Arc<History>), Failure> {
    let config = &resolved.config;
    check_places(config)?;
    let home = Home::open(config)?;
    let journal = open_journal(&home, config)?;
    if !config.root.is_dir() {
        let is_default = *resolved.source(&ROOT) == Source::Default;
        // A token that was made before the first start has a space without a folder.
        if is_default && home.tokens()?.spaces()?.iter().all(|space| space.path.is_none()) {
            let why = "no folder was served with this state yet, so there is no history. `stile \
                       serve FOLDER` serves one, and --state names another state";
            return Err(Failure::Usage(why.to_owned()));
        }
        let root = config.root.display();
        return Err(Failure::Usage(format!(
            "{root} is not a folder; name the one that was served"
        )));
    }
    let of_person = PersonFolder::of(&home, config)?;
    let state = match &of_person {
        Some(folder) => StateDir::open_existing(&folder.state())?,
        None => home.state().clone(),
    };
    let history = Arc::new(History::open(&state, &config.root, settings_of(config))?);
    for line in disagreements(resolved, &history.settings()) {
        writeln!(io::stderr(), "note: {line}")?;
    }
    let space = open_space_in(config, &state, Some(Arc::clone(&history)), &journal)?;
    let kept = Some(Arc::clone(&history));
    Ok((OpenSpace { space, journal, history: kept, served: None }, history))
}

/// Opens the same to serve one client, which may want nothing but lists. The first call that
/// touches files opens the history, cleans up after killed processes and recovers what they left.
/// An owner who requires the history gets it opened at once, so that the start says what is wrong
/// with it.
pub(crate) fn open_space_on_first_use(resolved: &Resolved) -> Result<(Home, OpenSpace), Failure> {
    let config = &resolved.config;
    if config.history == HistoryMode::Require {
        return open_space(resolved);
    }
    check_places(config)?;
    let home = Home::open(config)?;
    let (journal, served) = open_journal_and_hold_folder(&home, resolved)?;
    let (state, settings, at) = (home.state().clone(), server_settings(resolved), config.clone());
    // Without `require`, what is wrong with the history is said, and is no error.
    let history =
        Box::new(move || open_history(&at, &state, settings.as_ref()).unwrap_or_default());
    let notices = Box::new(|notices: Vec<String>| {
        for notice in notices {
            let _ = writeln!(io::stderr(), "{notice}");
        }
    });
    let options = options_of_state(config, home.state(), &journal);
    let first = FirstUse { history, notices };
    let space = Space::open_ambient_on_first_use(&config.root, options, first)
        .map_err(|error| cannot_open(config, &error))?;
    Ok((home, OpenSpace { space, journal, history: None, served }))
}

/// Opens the journal and the space of a state that is open, to serve the space.
pub(crate) fn open_space_at(home: &Home, resolved: &Resolved) -> Result<OpenSpace, Failure> {
    let config = &resolved.config;
    check_places(config)?;
    let (journal, served) = open_journal_and_hold_folder(home, resolved)?;
    // The only place that names the root of a space to the store in order to change files.
    let history = open_history(config, home.state(), server_settings(resolved).as_ref())?;
    let space = open_space_in(config, home.state(), history.clone(), &journal)?;
    Ok(OpenSpace { space, journal, history, served })
}

/// Opens the journal, and says to other processes that the folder of the space is served. Makes the
/// default folder on first use.
fn open_journal_and_hold_folder(
    home: &Home,
    resolved: &Resolved,
) -> Result<(Arc<Journal>, Option<ServedFolder>), Failure> {
    let config = &resolved.config;
    let journal = open_journal(home, config)?;
    if *resolved.source(&ROOT) == Source::Default {
        create_space_folder(&config.root).map_err(|error| {
            Failure::Failed(format!("cannot make {}: {error}", config.root.display()))
        })?;
    }
    let served = ServedFolder::hold(home.state(), &config.root)
        .inspect_err(|error| {
            // A folder that is not there is an error that follows.
            if config.root.is_dir() {
                tracing::warn!(%error, "`stile space adopt` will not see this server");
            }
        })
        .ok();
    Ok((journal, served))
}

/// Opens the space of a person in a folder of all people. Makes its folders on first use: `notes`
/// is the space, and `state` has its history.
pub(crate) fn open_space_of_person(
    config: &Config,
    folder: &Path,
    journal: &Arc<Journal>,
    history: Option<&ServerSettings>,
) -> Result<(Space, Option<Arc<History>>), Failure> {
    // Makes the folder for the user of this program alone.
    StateDir::open(folder)?;
    let files = files_in(folder);
    let config = Config { root: files.notes, ..config.clone() };
    let state = StateDir::open(&files.state)?;
    create_space_folder(&config.root)?;
    let history = open_history(&config, &state, history)?;
    Ok((open_space_in(&config, &state, history.clone(), journal)?, history))
}

/// Opens the space of a person whose folder is not the one that was served. Every call is refused,
/// and nothing in the folder is read or changed.
pub(crate) fn open_space_unserved(
    config: &Config,
    folder: &Path,
    why: Unserved,
    journal: &Arc<Journal>,
) -> Result<Space, Failure> {
    let config = Config { root: files_in(folder).notes, ..config.clone() };
    Space::open_ambient_unserved(&config.root, why, space_options(&config, journal))
        .map_err(|error| cannot_open(&config, &error))
}

/// Opens the folder in which people have their spaces. It is served to nobody, and whether it is at
/// its place says whether the server is ready.
pub(crate) fn open_folder_of_people(
    home: &Home,
    config: &Config,
    folder: &Path,
) -> Result<OpenSpace, Failure> {
    let journal = open_journal(home, config)?;
    let config = Config { root: folder.to_owned(), ..config.clone() };
    let options = space_options(&config, &journal);
    let space = Space::open_ambient_unserved(&config.root, Unserved::OfPeople, options)
        .map_err(|error| cannot_open(&config, &error))?;
    Ok(OpenSpace { space, journal, history: None, served: None })
}

/// The name of the folder in the state folder with what recovers appends after a kill.
const APPENDS: &str = "appends";

fn open_space_in(
    config: &Config,
    state: &StateDir,
    history: Option<Arc<History>>,
    journal: &Arc<Journal>,
) -> Result<Space, Failure> {
    let options = options_of_state(config, state, journal);
    let (space, notices) = Space::open_ambient_with(&config.root, options, history)
        .map_err(|error| cannot_open(config, &error))?;
    for notice in notices {
        writeln!(io::stderr(), "{notice}")?;
    }
    Ok(space)
}

/// Returns the options of a space whose state is `state`.
fn options_of_state(config: &Config, state: &StateDir, journal: &Arc<Journal>) -> SpaceOptions {
    let appends_folder = Some(state.path().join(APPENDS));
    SpaceOptions { appends_folder, ..space_options(config, journal) }
}

/// Opens the history of the space to serve it, as the settings want it. If it cannot be used, that
/// is said, and the space is opened without it unless the owner requires it.
fn open_history(
    config: &Config,
    state: &StateDir,
    server: Option<&ServerSettings>,
) -> Result<Option<Arc<History>>, Failure> {
    let Some(server) = server else { return Ok(None) };
    match History::open_to_serve(state, &config.root, server) {
        Ok(history) => Ok(Some(Arc::new(history))),
        // The space reports what is wrong with its folder.
        Err(_) if !config.root.is_dir() => Ok(None),
        Err(error) if config.history == HistoryMode::Require => Err(error.into()),
        Err(error) => {
            writeln!(io::stderr(), "{error}; old versions of files are not kept")?;
            Ok(None)
        }
    }
}

/// Returns the settings of the history as a server got them; `None` if the server keeps none.
pub(crate) fn server_settings(resolved: &Resolved) -> Option<ServerSettings> {
    fn setting<S, T>(resolved: &Resolved, of: &Setting<S>, value: T) -> ServerSetting<T> {
        match resolved.source(of) {
            Source::Default => ServerSetting::Default(value),
            _ => ServerSetting::Named(value),
        }
    }
    let config = &resolved.config;
    Some(ServerSettings {
        days: setting(resolved, &HISTORY_DAYS, config.history_days),
        bytes: setting(resolved, &HISTORY_BYTES, config.history_bytes),
        unkept: setting(resolved, &HISTORY, unkept(config.history)?),
    })
}

fn unkept(mode: HistoryMode) -> Option<UnkeptChange> {
    match mode {
        HistoryMode::Off => None,
        HistoryMode::Keep => Some(UnkeptChange::GoesOn),
        HistoryMode::Require => Some(UnkeptChange::IsRefused),
    }
}

fn settings_of(config: &Config) -> HistorySettings {
    let limits = HistoryLimits { days: config.history_days, bytes: config.history_bytes };
    HistorySettings { limits, unkept: unkept(config.history).unwrap_or(UnkeptChange::GoesOn) }
}

/// Returns a sentence for each setting of the history that the owner named for a command, and that
/// differs from the one that the server stored with the history.
fn disagreements(resolved: &Resolved, stored: &HistorySettings) -> Vec<String> {
    let config = &resolved.config;
    let stored_mode = match stored.unkept {
        UnkeptChange::GoesOn => HistoryMode::Keep,
        UnkeptChange::IsRefused => HistoryMode::Require,
    };
    let limits = stored.limits;
    let sentence = |setting: &str, named: &str, stored: &str| {
        format!(
            "{setting} is {named} here, but {stored} for the server that keeps this history, and \
             the server's setting counts"
        )
    };
    let mut sentences = Vec::new();
    if *resolved.source(&HISTORY) != Source::Default && config.history != stored_mode {
        sentences.push(sentence("history", config.history.word(), stored_mode.word()));
    }
    for (source, key, named, stored) in [
        (resolved.source(&HISTORY_DAYS), "history_days", config.history_days, limits.days),
        (resolved.source(&HISTORY_BYTES), "history_bytes", config.history_bytes, limits.bytes),
    ] {
        if *source != Source::Default && named != stored {
            sentences.push(sentence(key, &named.to_string(), &stored.to_string()));
        }
    }
    sentences
}

/// Opens the same for a command that only reads. A missing space is not made, and an existing one
/// stays untouched.
pub(crate) fn open_space_to_read(config: &Config) -> Result<OpenSpace, Failure> {
    check_places(config)?;
    let journal = open_journal(&Home::open(config)?, config)?;
    let space = Space::open_ambient_to_read(&config.root, space_options(config, &journal))
        .map_err(|error| cannot_open(config, &error))?;
    Ok(OpenSpace { space, journal, history: None, served: None })
}

/// Checks that agents can reach neither the state folder nor the settings.
fn check_places(config: &Config) -> Result<(), Failure> {
    check_disjoint(&config.root, &config.state)?;
    if is_inside(&config.config, &config.root)? {
        return Err(Failure::Usage(format!(
            "the settings file {} lies in the space, where an agent could change it; \
             move it elsewhere",
            config.config.display()
        )));
    }
    Ok(())
}

/// Opens the texts of the owner's that agents read, and says which files are no prompts.
///
/// # Errors
/// A [`Failure`] for a text in the space, where an agent could write it, and for one that cannot be
/// read.
pub(crate) fn owner_texts(config: &Config) -> Result<OwnerTexts, Failure> {
    let mut texts = OwnerTexts { prompts: Some(Arc::default()), instructions: None };
    if let Some(file) = &config.instructions {
        check_apart(config, "--instructions", file)?;
        let text =
            read_instructions(file).map_err(|error| unusable("--instructions", file, &error))?;
        texts.instructions = (!text.is_empty()).then(|| text.into());
    }
    if let Some(folder) = &config.prompts {
        check_apart(config, "--prompts", folder)?;
        let unusable = |error| unusable("--prompts", folder, &error);
        let opened = PromptFolder::open(folder).map_err(unusable)?;
        let (_, left_out) = opened.read().map_err(unusable)?;
        for LeftOut { file_name, why } in left_out {
            writeln!(io::stderr(), "--prompts: {file_name:?} {why}, so it is left out")?;
        }
        texts.prompts = Some(Arc::new(Prompts::with_folder(opened)));
    }
    Ok(texts)
}

/// Refuses a text of the owner's in a space, and a space in a folder of such texts.
fn check_apart(config: &Config, flag: &str, place: &Path) -> Result<(), Failure> {
    for space in [Some(&config.root), config.spaces.as_ref()].into_iter().flatten() {
        if overlap(place, space).map_err(|error| unusable(flag, place, &error))? {
            return Err(Failure::Usage(format!(
                "{flag} {} and the space {} lie in one another, so an agent could change what \
                 every agent is told; move the file or folder elsewhere",
                place.display(),
                space.display()
            )));
        }
    }
    Ok(())
}

fn unusable(flag: &str, place: &Path, error: &io::Error) -> Failure {
    Failure::Usage(format!("{flag} {} cannot be used: {error}", place.display()))
}

/// Opens the journal of a state folder. Its lines are also copied to the database if there is one.
fn open_journal(home: &Home, config: &Config) -> Result<Arc<Journal>, Failure> {
    let keep = config.journal_days.map(|days| DAY.saturating_mul(days));
    let options = JournalOptions { keep, shared: home.shared_journal() };
    let journal = Journal::open_as(home.state(), options).map_err(|error| {
        let folder = home.state().path().display();
        Failure::Failed(format!("cannot open the journal in {folder}: {error}"))
    })?;
    Ok(Arc::new(journal))
}

/// Opens the database of records, and makes it on first use.
pub(crate) fn open_records(home: &Home, journal: &Arc<Journal>) -> Result<RecordService, Failure> {
    let records = home.records(clock::now())?;
    Ok(RecordService::new(records).with_journal(Arc::clone(journal)))
}

/// Returns what a server of a space offers, with the records if there are any.
pub(crate) fn service(
    config: &Config,
    tools: SpaceTools,
    journal: &Arc<Journal>,
    records: Option<RecordService>,
) -> Service {
    let shares = Arc::new(Shares::new(config.max_connections, config.max_body_bytes));
    service_with(config, tools, journal, records, shares)
}

/// Returns the same, whose callers share `shares` with those of other services.
pub(crate) fn service_with(
    config: &Config,
    tools: SpaceTools,
    journal: &Arc<Journal>,
    records: Option<RecordService>,
    shares: Arc<Shares>,
) -> Service {
    let readers = Arc::clone(&shares.database_readers);
    let tools = match config.agent_undo {
        YesNo::Yes => tools.with_history_tools(),
        YesNo::No => tools,
    };
    let service = Service::of_space(tools).with_shares(shares);
    let Some(records) = records else { return service.limited_to(config.tools) };
    let port = StoredRecords::new(records.clone(), clock::now).with_readers(readers);
    let ladder = ladder(config, port).with_log(CallLog::new(Arc::clone(journal)));
    let ladder = match config.tools.show(ToolGroup::Find) {
        true => ladder.beside_tools_that_find_files(),
        false => ladder,
    };
    service.with(ladder, None).with_records(records).limited_to(config.tools)
}

/// Returns the tools over a resource server, as the settings want them.
pub(crate) fn ladder(config: &Config, server: impl RecordServer) -> Ladder {
    let style = match config.strict_schemas {
        YesNo::Yes => SchemaStyle::Strict,
        YesNo::No => SchemaStyle::Portable,
    };
    Ladder::new(server).with_budgets(config.budgets()).with_schema_style(style)
}

fn space_options(config: &Config, journal: &Arc<Journal>) -> SpaceOptions {
    let events = Arc::clone(journal);
    SpaceOptions {
        limits: config.limits(),
        mounts: config.mounts.clone(),
        search_ignore: config.search_ignore.clone(),
        lock_wait: Duration::from_secs(config.lock_wait_seconds),
        // No caller waits for an event. A failure is logged, and the next change is refused.
        events: Arc::new(move |line| {
            if let Err(error) = events.append(line) {
                let _ = stile_store::incident("journal", &error);
            }
        }),
        appends_folder: None,
        cleared: Some(cleared_caches::mark_in(&config.state)),
        documents: document_reader(),
    }
}

/// Returns what takes the text out of documents: this program, in child processes.
fn document_reader() -> Option<Arc<dyn DocumentReader>> {
    let program = std::env::current_exe().ok()?;
    Some(Arc::new(TextReader::new(program)))
}

fn cannot_open(config: &Config, error: &OpenError) -> Failure {
    let root = config.root.display();
    Failure::Usage(match error.kind() {
        ErrorKind::NotFound => {
            format!("there is no folder {root}; make it, or name another one")
        }
        ErrorKind::NotADirectory => {
            format!("{root} is no folder; name the folder that agents are let into")
        }
        ErrorKind::PermissionDenied => {
            format!("{root} cannot be opened; give yourself the right to read it, or name another")
        }
        _ => format!("cannot serve {root}: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn resolved(root: &Path, state: &Path, file: Option<&Path>) -> Resolved {
        let flag = |name: &str| {
            let path = match name {
                "root" => root,
                "state" => state,
                "config" => file?,
                _ => return None,
            };
            path.to_str().map(str::to_owned)
        };
        crate::config::resolve(&flag, &|_| None).unwrap()
    }

    #[test]
    fn a_state_folder_in_the_space_is_refused_and_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join(".state");
        let failure = open_space(&resolved(folder.path(), &state, None)).map(drop).unwrap_err();
        assert!(
            matches!(failure, Failure::Usage(ref message) if message.contains("must lie apart")),
            "{failure:?}"
        );
        assert!(!state.exists());
    }

    #[test]
    fn a_settings_file_in_the_space_is_refused() {
        let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = root.path().join("stile.toml");
        std::fs::write(&file, "").unwrap();
        let failure =
            open_space(&resolved(root.path(), state.path(), Some(&file))).map(drop).unwrap_err();
        assert!(
            matches!(failure, Failure::Usage(ref message) if message.contains("lies in the space")),
            "{failure:?}"
        );
    }
}
