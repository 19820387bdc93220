//! `stile person`: shows the people who have a space and records of their own, and adds, exports
//! and removes one of them.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stile_domain::journal::JournalLine;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::instant::Instant;
use stile_domain::scope::Scopes;
use stile_records::RecordService;
use stile_records::grant_answers::grant_json;
use stile_store::files::NewFile;
use stile_store::person_folder::{self, FolderRoom};
use stile_store::postgresql::{Database, KnownPerson, TableRoom, Tenant};
use stile_store::state::TokenStore;

use super::export;
use crate::auth;
use crate::cli::compose::person_folder::{files_in, refuse_links, refuse_unserved};
use crate::cli::compose::{Home, owner};
use crate::cli::failure::Failure;
use crate::cli::flags::text;
use crate::cli::invocation::{Invocation, settings};
use crate::cli::terminal;
use crate::cli::terminal::local_time::minute;
use crate::cli::terminal::table::{cell, table};
use crate::clock::{self, unix_seconds, wall_clock};
use crate::config::Config;

/// Runs a subcommand.
pub(super) fn run(invocation: Invocation<'_>) -> Result<(), Failure> {
    let Invocation { matches, environment, output, colours } = invocation;
    let Some((name, matches)) = matches.subcommand() else { return Ok(()) };
    let config = settings(matches, environment)?.config;
    let named = match name {
        "list" => None,
        _ => text(matches, "name"),
    };
    let home = Home::open(&config)?.about(named);
    let Some(database) = home.database().cloned() else {
        let why = "people are those of a database; name it with --database";
        return Err(Failure::Usage(why.to_owned()));
    };
    let operator = Operator { config, home, database };
    match name {
        "list" => {
            let people = operator.people()?;
            if matches.get_flag("json") {
                let rows = people.iter().map(Listed::to_json);
                return Ok(terminal::write_json(output, &Value::from_iter(rows))?);
            }
            let headings = [
                "ID", "NAME", "ISSUER", "MADE (UTC)", "LAST USE (UTC)", "RECORDS", "FILES", "BYTES",
            ];
            let rows = people.iter().map(Listed::row);
            let none = "There is nobody yet. `stile person add NAME` makes a person, and so does the \
                        first sign-in of one.";
            let table = table(colours, headings, rows);
            Ok(output.write_all(terminal::list(table, people.is_empty(), none)?.as_bytes())?)
        }
        "add" => operator.add(text(matches, "name").unwrap_or_default(), output),
        "show" => Ok(terminal::write_json(output, &operator.show()?)?),
        "export" => operator.export(text(matches, "to").unwrap_or_default(), output),
        "remove" => operator.remove(matches.get_flag("yes"), output),
        _ => Ok(()),
    }
}

/// The operator of the servers of a database.
struct Operator {
    config: Config,
    home: Home,
    database: Database,
}

/// A person as the list shows them.
struct Listed {
    person: KnownPerson,
    /// The subject of the person's tokens, if they are of the issuer that the command is about.
    subject: Option<String>,
    last_use: Option<i64>,
    /// What the person's folder holds; `None` if the settings do not say where folders are.
    files: Option<FolderRoom>,
}

impl Listed {
    /// Returns the subject of the person, of whichever issuer.
    fn name(&self) -> Option<&str> {
        self.person.name.as_deref().or(self.subject.as_deref())
    }

    fn to_json(&self) -> Value {
        json!({
            "id": self.person.id,
            "name": self.name(),
            "issuer": self.person.issuer,
            "made": self.person.made.to_rfc3339(),
            "last_use": self.last_use.map(|used| Instant::from_seconds(used).to_rfc3339()),
            "records": self.person.records,
            "files": self.files.map(|room| room.files),
            "file_bytes": self.files.map(|room| room.bytes),
        })
    }

    fn row(&self) -> [String; 8] {
        let dash = || "-".to_owned();
        let used = self.last_use.map(|used| minute(Instant::from_seconds(used)));
        [
            self.person.id.clone(),
            cell(self.name()),
            cell(self.person.issuer.as_deref()),
            minute(self.person.made),
            used.unwrap_or_else(dash),
            self.person.records.to_string(),
            self.files.map_or_else(dash, |room| room.files.to_string()),
            self.files.map_or_else(dash, |room| room.bytes.to_string()),
        ]
    }
}

impl Operator {
    fn tokens(&self) -> Result<TokenStore, Failure> {
        Ok(self.home.tokens()?)
    }

    /// Returns the folder of a person; `None` if the settings do not say where folders are.
    fn folder(&self, id: &str) -> Option<PathBuf> {
        self.config.spaces.as_ref().map(|spaces| spaces.join(id))
    }

    /// Refuses what is about all of a person while the files that --spaces leads to are not those
    /// that were served.
    fn check_folder(&self, tenant: &Tenant) -> Result<(), Failure> {
        let Some(folder) = self.folder(tenant.id()) else { return Ok(()) };
        refuse_links(&folder)?;
        refuse_unserved(&files_in(&folder), &self.database, tenant)
    }

    fn people(&self) -> Result<Vec<Listed>, Failure> {
        let uses = self.tokens()?.last_uses_of_people()?;
        let issuer = self.home.issuer();
        let people = self.database.people()?.into_iter().map(|person| {
            let known = uses.iter().find(|(subject, _)| person.is(issuer, subject));
            let files = self.folder(&person.id).map(|folder| person_folder::room(&folder));
            // The tokens of this name are another person's where another issuer named this one.
            let is_of_issuer = person.issuer.as_deref() == Some(issuer);
            let of_issuer = || person.name.clone().filter(|_| is_of_issuer);
            Ok(Listed {
                subject: known.map(|(subject, _)| subject.clone()).or_else(of_issuer),
                last_use: known.and_then(|(_, used)| *used),
                files: files.transpose()?,
                person,
            })
        });
        people.collect()
    }

    /// Makes a person who has not called yet, so that an import has whose records it stores.
    fn add(&self, subject: &str, output: &mut dyn Write) -> Result<(), Failure> {
        if subject.is_empty() {
            return Err(Failure::Usage("a person has a name; nothing was changed".to_owned()));
        }
        self.home.refuse_owner_of_all()?;
        let tenant = self.database.tenant_of(self.home.issuer(), subject)?;
        Ok(writeln!(output, "{}", tenant.id())?)
    }

    /// Returns the person whom the command names.
    fn tenant(&self) -> Result<Tenant, Failure> {
        let tenant = self.home.tenant()?;
        tenant.ok_or_else(|| Failure::Usage("name a person".to_owned()))
    }

    fn listed(&self, tenant: &Tenant) -> Result<Listed, Failure> {
        let mut people = self.people()?.into_iter();
        let found = people.find(|listed| listed.person.id == tenant.id()).ok_or_else(|| {
            Failure::Usage("this is not one of the people; nothing was changed".to_owned())
        })?;
        // No token of this server names a person who calls with tokens of a provider alone, whom
        // the command may name.
        let named = || self.home.subject().ok().flatten();
        Ok(Listed { subject: found.subject.clone().or_else(named), ..found })
    }

    fn show(&self) -> Result<Value, Failure> {
        let tenant = self.tenant()?;
        let mut shown = self.listed(&tenant)?.to_json();
        let room = |TableRoom { table, rows, bytes }: TableRoom| json!({ "table": table, "rows": rows, "bytes": bytes });
        let tables = self.database.room_of(&tenant)?.into_iter().map(room);
        let tables = Value::from_iter(tables);
        if let Some(members) = shown.as_object_mut() {
            members.insert("tables".to_owned(), tables);
        }
        Ok(shown)
    }

    /// Writes everything of the person into a folder: records, files with their old versions, the
    /// lines of the journal, and what the person allowed clients.
    fn export(&self, to: &str, output: &mut dyn Write) -> Result<(), Failure> {
        let tenant = self.tenant()?;
        let listed = self.listed(&tenant)?;
        let name = listed.subject.as_deref().unwrap_or_default();
        self.check_folder(&tenant)?;
        let to = Path::new(to);
        export::new_folder(to)?;
        let records = self.home.records_of(&tenant, clock::now())?;
        let caller = auth::command_line(name, Scopes::none(), RecordsClaim::Owner);
        let services = RecordService::new(records);
        let of_person = owner::Owner { services, caller, now: clock::now() };
        let records = export::write(&of_person, &to.join("records"), (None, None))?;
        let files = match self.folder(tenant.id()) {
            Some(folder) => person_folder::copy(&folder, &to.join("space"))?,
            None => {
                terminal::print_to_stderr("without --spaces the person's files are not exported")?;
                FolderRoom::default()
            }
        };
        let lines = self.export_journal(listed.subject.as_deref(), &to.join("journal.jsonl"))?;
        let grants = of_person.services.grants(&of_person.caller)?;
        let grants = grants.iter().map(|grant| grant_json(grant, of_person.now)).collect();
        let access = self.export_access(&listed, grants, &to.join("access.json"))?;
        let of_access = |what: &str| access.get(what).and_then(Value::as_array).map_or(0, Vec::len);
        writeln!(
            output,
            "exported {} records of {} streams, {} files, {lines} lines of the journal, {} grants, \
             {} tokens and {} approvals",
            records.records,
            records.streams,
            files.files,
            of_access("grants"),
            of_access("tokens"),
            of_access("approvals"),
        )?;
        Ok(())
    }

    fn export_journal(&self, subject: Option<&str>, to: &Path) -> Result<u64, Failure> {
        let mut file = NewFile::create(to)?;
        let Some(subject) = subject else {
            file.finish()?;
            return Ok(0);
        };
        let mut lines = self.home.journal().of_subject(subject).lines(None)?;
        let mut count = 0;
        while let Some(line) = lines.next_line()? {
            writeln!(file, "{}", json!(line))?;
            count += 1;
        }
        file.finish()?;
        Ok(count)
    }

    /// Writes who the person is, what the person let clients do and see, and where the person is
    /// signed in. No secret is among that: the database has digests of those alone.
    fn export_access(
        &self,
        listed: &Listed,
        grants: Vec<Value>,
        to: &Path,
    ) -> Result<Value, Failure> {
        let (tokens, now) = (self.tokens()?, unix_seconds(wall_clock()));
        let is_own = |other: &str| listed.subject.as_deref() == Some(other);
        let (uses, names) = (tokens.uses()?, tokens.self_given_names(now)?);
        let made = tokens.list()?.into_iter().filter(|token| is_own(&token.subject)).map(|token| {
            json!({
                "used": uses.get(&token.jti), "client_calls_itself": names.get(&token.jti),
                "jti": token.jti, "client": token.client, "scopes": token.scopes,
                "grant": token.grant, "owner": token.owner, "issued": token.issued,
                "expires": token.expires, "revoked": token.revoked,
            })
        });
        let approved = tokens.authorizations()?.into_iter().filter(|it| is_own(&it.subject));
        let approved = approved.map(|approval| {
            json!({
                "client_calls_itself": names.get(&approval.id),
                "id": approval.id, "client_id": approval.client, "client": approval.client_name,
                "scopes": approval.scopes, "grant": approval.grant,
                "single_use": approval.single_use, "created": approval.created,
                "expires": approval.expires, "used": approval.used, "ended": approval.ended,
            })
        });
        let sessions = tokens.sessions(now)?.into_iter().filter(|it| is_own(&it.subject));
        let sessions = sessions.map(|session| {
            json!({
                "signed_in": session.created, "used": session.used, "browser": session.browser,
                "address": session.address,
            })
        });
        let access = json!({
            "person": listed.to_json(),
            "grants": grants,
            "tokens": Value::from_iter(made),
            "approvals": Value::from_iter(approved),
            "browser_sessions": Value::from_iter(sessions),
        });
        let mut file = NewFile::create(to)?;
        writeln!(file, "{access:#}")?;
        file.finish()?;
        Ok(access)
    }

    /// Shows what would be removed, and removes it if the operator says so. Access ends first: what
    /// is removed after that, nobody writes any more.
    fn remove(&self, is_meant: bool, output: &mut dyn Write) -> Result<(), Failure> {
        let tenant = self.tenant()?;
        let listed = self.listed(&tenant)?;
        let Some(subject) = &listed.subject else {
            let why = "nothing here says how tokens and sessions name this person, so they would \
                       stay: name the person by the subject, with the --issuer of the provider; \
                       nothing was changed";
            return Err(Failure::Usage(why.to_owned()));
        };
        self.check_folder(&tenant)?;
        let rows: u64 = self.database.room_of(&tenant)?.iter().map(|table| table.rows).sum();
        let files = listed.files.unwrap_or_default();
        let who = cell(Some(subject));
        writeln!(
            output,
            "{} ({who}): {} records in {rows} rows",
            tenant.id(),
            listed.person.records
        )?;
        match self.folder(tenant.id()) {
            Some(_) => writeln!(output, "{} files of {} bytes", files.files, files.bytes)?,
            None => writeln!(output, "the files stay: --spaces does not say where they are")?,
        }
        let is_own = |line: &JournalLine| line.subject.as_deref() == Some(subject.as_str());
        let lines = self.home.journal().plan_removal(&is_own)?.lines;
        writeln!(
            output,
            "{lines} lines of the journal\n\
             all tokens, approvals, sessions and links of the person\n\
             Kept for the audit: the number and the chain value of each of these lines."
        )?;
        if !is_meant {
            writeln!(
                output,
                "Nothing was changed. Add --yes to do this. It cannot be taken back."
            )?;
            return Ok(());
        }
        if self.folder(tenant.id()).is_none() {
            let why = "name the folder of all people with --spaces, so that the person's files go \
                       too; nothing was changed";
            return Err(Failure::Usage(why.to_owned()));
        }
        self.tokens()?.forget_person(subject, unix_seconds(wall_clock()))?;
        let removed = self.database.remove_person(&tenant)?;
        if let Some(folder) = self.folder(tenant.id()) {
            person_folder::remove(&folder)?;
        }
        let lines = self.home.journal().remove(&is_own)?.lines;
        writeln!(
            output,
            "Removed {removed} rows and {lines} lines of the journal. Each server removes these \
             lines from its own files within an hour or when it starts; lines that it has not \
             copied to the database yet stay until `stile audit remove` is run. Servers that run \
             may hold the person's empty space open: start them again before the person comes back."
        )?;
        Ok(())
    }
}
