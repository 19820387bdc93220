//! What the commands about records share: the owner's session, arguments and errors.
//!
//! A user who starts this program in a state folder of their own owns the records in it.

use clap::ArgMatches;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::instant::Instant;
use stile_domain::scope::Scopes;
use stile_records::RecordService;
use stile_store::records::Records;

use super::home::Home;
use crate::auth;
use crate::cli::failure::Failure;
use crate::cli::invocation::{settings, user_name};
use crate::clock;
use crate::config::{Environment, Resolved};

/// The owner's session: services, caller and the time of the command.
pub(crate) struct Owner {
    pub(crate) services: RecordService,
    pub(crate) caller: Principal,
    pub(crate) now: Instant,
}

/// Opens the records of the state folder.
pub(crate) fn open(matches: &ArgMatches, environment: Environment<'_>) -> Result<Owner, Failure> {
    let home = Home::open(&settings(matches, environment)?.config)?;
    of_home(&home, matches, environment)
}

/// Opens the records of a state folder that is open.
pub(crate) fn of_home(
    home: &Home,
    matches: &ArgMatches,
    environment: Environment<'_>,
) -> Result<Owner, Failure> {
    let resolved = settings(matches, environment)?;
    let records = home.records(clock::now())?;
    Ok(of_user(records, &user(&resolved, environment)?))
}

/// Makes the owner's session with a database of records.
pub(crate) fn of_records(records: Records, environment: Environment<'_>) -> Owner {
    of_user(records, &user_name(environment))
}

fn of_user(records: Records, user: &str) -> Owner {
    let caller = auth::command_line(user, Scopes::none(), RecordsClaim::Owner);
    Owner { services: RecordService::new(records), caller, now: clock::now() }
}

/// Returns for whom a command acts: the person whom it names, or the user who started it.
pub(crate) fn user(resolved: &Resolved, environment: Environment<'_>) -> Result<String, Failure> {
    match &resolved.config.person {
        None => Ok(user_name(environment)),
        // A person whom no token names yet is known by what the command calls them.
        Some(name) => {
            let subject = Home::open(&resolved.config)?.subject().ok().flatten();
            Ok(subject.unwrap_or_else(|| name.clone()))
        }
    }
}
