//! `stile connect` and `stile disconnect`: add this server to a client's own configuration file,
//! with a token for that client alone, and remove both.

use std::io::Write;
use std::path::PathBuf;

use clap::ArgMatches;
use serde_json::{Value, json};
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_domain::sign_in::asked_access::rights;
use stile_store::foreign_file::Secrecy;
use stile_store::state::{AfterEnd, Revocation, RunningServer, StdioAccess, TokenRecord};

use super::{doctor, token};
use crate::auth::{MintRequest, MintedToken, Minter, ServedSpace, StdioRights, stdio_record};
use crate::cli::client_entry::{
    ClientFile, EntryValues, StdioEntry, Target, absolute, cannot, identifier, target,
    token as token_of,
};
use crate::cli::clients::{CLIENTS, ClientRow, Platform, Transport, hosted, named};
use crate::cli::compose::{Home, found_server, http_server};
use crate::cli::failure::Failure;
use crate::cli::flags::{self, access, duration};
use crate::cli::installation::{self, Installation};
use crate::cli::invocation::{Invocation, settings, user_name};
use crate::cli::terminal::{self, Colours, local_time, table, unix_time};
use crate::clock::{unix_seconds, wall_clock};
use crate::config::declarations::{PUBLIC_URL, STATE};
use crate::config::{Environment, Resolved, Source, ToolNames};
use crate::http::metadata::MCP_PATH;

/// What stands for the token where none is shown.
const NO_TOKEN: &str = "<token>";
/// What is said of a client whose access the owner had ended.
const LET_IN_AGAIN: &str = "is let in again, after you ended its access";
/// A token that is valid for less than this many seconds is replaced.
const STAYS: i64 = 24 * 60 * 60;

/// Connects a client, or lists all clients if none is named.
pub(super) fn connect(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    let typed = flags::text(matches, "client");
    if let Some(title) = typed.and_then(hosted) {
        return write_address(title, &settings(matches, environment)?, output);
    }
    let Some(client) = typed.and_then(named) else {
        return list(matches, environment, output, colours);
    };
    let file = ClientFile::read(client, name(matches), environment)?;
    let order = Order::read(matches, environment, client)?;
    let present = file.entry()?;
    let is_known = !order.is_unserved || order.transport == Transport::Stdio;
    let root = Some(order.root.as_path()).filter(|root| is_known && root.is_dir());
    access::print_doubts(&order.request.scopes, root)?;
    if matches.get_flag("write") {
        return write(&order, &file, present.as_ref(), output);
    }
    let token = match (matches.get_flag("show_token"), order.transport) {
        (true, Transport::Http) => order.mint()?.token,
        _ => NO_TOKEN.to_owned(),
    };
    let entry = order.entry(client, token)?;
    writeln!(output, "{} keeps its servers in {}.", client.title, file.path().display())?;
    let change = match present {
        Some(_) => "replaces this entry",
        None if file.file.text().is_some() => "adds this entry",
        None => "makes this file",
    };
    let (installation, _) = Installation::of_this_program();
    let command = format!("{} connect {} --write", installation.command(), client.name);
    writeln!(output, "`{command}` {change}, with a token of its own if it has one:\n")?;
    output.write_all(file.rendered(&entry)?.as_bytes())?;
    Ok(())
}

/// Says where a client that runs on the internet finds the server, since it has no file here.
fn write_address(title: &str, resolved: &Resolved, output: &mut dyn Write) -> Result<(), Failure> {
    let home = Home::open(&resolved.config)?;
    let server = found_server::found(resolved, &home, &home.tokens()?)?;
    let url = url(resolved, server.as_ref());
    if !url.starts_with("https://") {
        writeln!(
            output,
            "{title} calls from the internet, and {url} is an address of this machine alone.\n\
             Give the server a name with a certificate, as docs/network.md says, and start it with\n\
             --public-url https://NAME. Then run this command again."
        )?;
        return Ok(());
    }
    writeln!(
        output,
        "{title} keeps its servers in your account. Add a connector there, with this address:\n\n  \
         {url}\n\nIt opens your browser, where you sign in and allow as much as you like.\n\
         `stile doctor --public {}` tries whether it is reached.",
        url.strip_suffix(MCP_PATH).unwrap_or(&url)
    )?;
    Ok(())
}

/// Removes the entry of a client and revokes its token.
pub(super) fn disconnect(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    let typed = flags::text(matches, "client");
    if let Some(title) = typed.and_then(hosted) {
        writeln!(
            output,
            "{title} keeps its servers in your account: remove the connector there. `stile client \
             list` names the clients\nthat may call, and `stile client end NAME` ends what one may \
             do. Nothing was changed."
        )?;
        return Ok(());
    }
    let Some(client) = typed.and_then(named) else { return Ok(()) };
    let file = ClientFile::read(client, name(matches), environment)?;
    let path = file.path().display();
    let Some(entry) = file.entry()? else {
        let name = name(matches);
        writeln!(output, "{path} has no entry `{name}`; nothing was changed")?;
        return Ok(());
    };
    // The token ends first. If the file cannot be changed then, the entry is of no use to anyone.
    if let Some(jti) = token_of(&entry).as_deref().and_then(identifier) {
        let home = Home::open(&settings(matches, environment)?.config)?;
        revoke(&home, &jti, output)?;
    }
    if let Some(Target::Command(words)) = target(&entry) {
        end_stdio_client(matches, environment, &words, output)?;
    }
    let written = match file.text_before(&entry) {
        Some(None) => file.file.remove(),
        Some(Some(before)) => file.file.replace(&before, Secrecy::AsBefore),
        None => file.file.replace(&file.without()?, Secrecy::AsBefore),
    };
    written.map_err(|error| cannot("change", file.path(), &error))?;
    writeln!(output, "removed `{}` from {path}", name(matches))?;
    writeln!(output, "If {} runs, start it again.", client.title)?;
    Ok(())
}

/// Ends the client that an entry with a command names.
fn end_stdio_client(
    matches: &ArgMatches,
    environment: Environment<'_>,
    words: &[String],
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let Some(entry) = StdioEntry::of(words) else { return Ok(()) };
    let mut config = settings(matches, environment)?.config;
    if let Some(state) = &entry.state {
        config.state.clone_from(state);
    }
    let now = unix_seconds(wall_clock());
    let ended = Home::open(&config)?.with_reserve(|home| {
        let tokens = home.tokens()?;
        let records = entry.records(&tokens)?;
        let mut ended = 0;
        for record in records.into_iter().filter(|record| record.revoked.is_none()) {
            tokens.revoke(&record.jti, now)?;
            ended += 1;
        }
        Ok(ended)
    })?;
    for _ in 0..ended {
        writeln!(output, "the access of {} has ended", entry.client())?;
    }
    Ok(())
}

fn revoke(home: &Home, jti: &str, output: &mut dyn Write) -> Result<(), Failure> {
    let now = unix_seconds(wall_clock());
    let revoked = home.with_reserve(|home| {
        let tokens = home.tokens()?;
        let found = tokens.find(jti)?;
        Ok(found.map(|_| tokens.revoke(jti, now)).transpose()?)
    })?;
    let Some(revoked) = revoked else {
        let line = format!(
            "warning: the token {jti} is not of this state folder, so it was not revoked; \
             revoke it with the --state that made it"
        );
        return Ok(terminal::print_to_stderr(&line)?);
    };
    if revoked == Revocation::Now {
        writeln!(output, "the token {jti} is revoked; every server refuses it from now on")?;
    }
    Ok(())
}

fn name(matches: &ArgMatches) -> &str {
    flags::text(matches, "name").unwrap_or("stile")
}

/// What a client shall be connected to, and what it may do.
struct Order {
    home: Home,
    resolved: Resolved,
    /// The folder that is served.
    root: PathBuf,
    /// Whether no folder was served yet and none is named, so `root` is the default one.
    is_unserved: bool,
    /// The address of `/mcp` for a client.
    url: String,
    audience: String,
    transport: Transport,
    request: MintRequest,
    /// The scopes and denials as the command line gave them, for a client that starts the server.
    scope_arguments: Vec<String>,
    /// The spelling of tool names that the command line asks for.
    names: Option<ToolNames>,
}

impl Order {
    fn read(
        matches: &ArgMatches,
        environment: Environment<'_>,
        client: &ClientRow,
    ) -> Result<Self, Failure> {
        let resolved = settings(matches, environment)?;
        let home = Home::open(&resolved.config)?;
        home.refuse_people("stile connect", "make a token with `stile token --person NAME`")?;
        let records = token::checked(access::records_claim(matches)?, &home, environment)?;
        let given = access::scopes(matches)?;
        let everything = || Scopes::from_iter([Scope::everything(Verb::Write)]);
        // A token for records needs no scope. Without either, the client gets what a person who
        // pastes the block of `stile serve` gives it.
        let default = if records == RecordsClaim::None { everything() } else { Scopes::none() };
        let scopes = access::with_denials(given.unwrap_or(default), matches)?;
        let scope_arguments = scope_arguments(matches, &records);
        let expires = flags::text(matches, "expires").unwrap_or_default();
        let life = duration::parse(expires).ok_or_else(|| {
            Failure::Usage(format!(
                "--expires: `{expires}` is not a duration such as 45s, 90m, 12h or 30d"
            ))
        })?;
        let transport = match flags::text(matches, "transport") {
            Some("http") => Transport::Http,
            Some("stdio") => Transport::Stdio,
            _ => client.best,
        };
        if client.shape(transport).is_none() {
            return Err(Failure::Usage(format!(
                "the file of {} cannot hold a server over HTTP; leave --transport out",
                client.title
            )));
        }
        let tokens = home.tokens()?;
        let server = found_server::found(&resolved, &home, &tokens)?;
        let audience = token::audience(matches, environment, &home, &tokens)?;
        let known = token::folder_of(matches, environment, &tokens, &audience)?;
        let is_unserved = known.is_none();
        let root = known.unwrap_or_else(|| resolved.config.root.clone());
        let url = url(&resolved, server.as_ref());
        let request = MintRequest {
            subject: user_name(environment),
            scopes,
            client: Some(client.name.to_owned()),
            records,
            life,
        };
        let names = flags::text(matches, "tool_names").map(str::parse::<ToolNames>).transpose();
        let names = names.map_err(|why| Failure::Usage(format!("--tool-names {why}")))?;
        let root = absolute(&root);
        Ok(Self {
            home,
            resolved,
            root,
            is_unserved,
            url,
            audience,
            transport,
            request,
            scope_arguments,
            names,
        })
    }

    /// Returns the entry with a token.
    fn entry(&self, client: &ClientRow, token: String) -> Result<Value, Failure> {
        let mut url = self.url.clone();
        let mut arguments = vec!["stdio".to_owned(), self.root.to_string_lossy().into_owned()];
        arguments.extend(self.scope_arguments.iter().cloned());
        arguments.extend(["--client".to_owned(), client.name.to_owned()]);
        if let Some(names) = self.names {
            url += &format!("?names={}", names.word());
            arguments.extend(["--tool-names".to_owned(), names.word().to_owned()]);
        }
        if *self.resolved.source(&STATE) != Source::Default {
            let state = absolute(&self.resolved.config.state).to_string_lossy().into_owned();
            arguments.extend(["--state".to_owned(), state]);
        }
        let mut words = installation::words_of_this_program();
        words.append(&mut arguments);
        let program = words.remove(0);
        let values = EntryValues { url, token, program, arguments: words };
        values.entry(client, self.transport).ok_or_else(|| {
            Failure::Usage(format!("the file of {} cannot hold such a server", client.title))
        })
    }

    fn mint(&self) -> Result<MintedToken, Failure> {
        let (key, tokens) = (self.home.key()?, self.home.tokens()?);
        let minter = Minter { key: &key, tokens: &tokens, audience: &self.audience };
        Ok(minter.mint(&self.request, wall_clock())?)
    }

    /// Refuses an address at which another program answers than a server of this state.
    fn check_who_answers(&self, file: &ClientFile) -> Result<(), Failure> {
        // A server that shares the database may run on another machine.
        let is_own = self.home.database().is_some()
            || found_server::running(&self.home)?
                .iter()
                .any(|server| found_server::leads_to(server, &self.url));
        if is_own {
            return Ok(());
        }
        match doctor::stranger(&self.resolved.config, &self.url) {
            None => Ok(()),
            Some((detail, mend)) => Err(Failure::Failed(format!(
                "{}: {detail}; no token was made, and {} is as it was; {mend}",
                self.url,
                file.path().display()
            ))),
        }
    }

    /// Lets in a client that starts the server itself. Returns whether the owner had ended it.
    fn let_in(&self, client: &ClientRow, now: i64) -> Result<bool, Failure> {
        let rights = StdioRights {
            subject: self.request.subject.clone(),
            space: ServedSpace::Known(self.audience.clone()),
            scopes: self.request.scopes.clone(),
            records: self.request.records.clone(),
        };
        let record = stdio_record(&rights, &self.audience, client.name, now);
        let tokens = self.home.tokens()?;
        let access = tokens.admit_stdio_client(&record, AfterEnd::StaysOut)?;
        let was_ended = matches!(access, StdioAccess::Ended(_));
        if was_ended {
            tokens.admit_stdio_client(&record, AfterEnd::IsLetIn)?;
        }
        Ok(was_ended)
    }

    /// Says what the client may do, in a sentence without its end.
    fn rights(&self) -> String {
        let rights = rights(&self.request.scopes, &self.request.records);
        match rights.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{}, and {last}", others.join(", ")),
            None => "may do nothing".to_owned(),
        }
    }

    /// Returns whether a token is what [`Order::mint`] would make, and stays valid for another day.
    fn is_met_by(&self, token: &TokenRecord, now: i64) -> bool {
        let MintRequest { subject, scopes, client, records, .. } = &self.request;
        let grant = match records {
            RecordsClaim::Grant(grant) => Some(grant.to_string()),
            RecordsClaim::None | RecordsClaim::Owner | RecordsClaim::Import(_) => None,
        };
        token.revoked.is_none()
            && token.expires > now + STAYS
            && token.audience.as_ref() == Some(&self.audience)
            && token.subject == *subject
            && token.client == *client
            && token.grant == grant
            && token.owner == (*records == RecordsClaim::Owner)
            && token.scopes == scopes.to_string()
    }
}

/// Returns the address for a client: the one that the settings name, or else that of the server
/// that runs.
fn url(resolved: &Resolved, server: Option<&RunningServer>) -> String {
    match server {
        Some(server) if *resolved.source(&PUBLIC_URL) == Source::Default => {
            format!("{}{MCP_PATH}", found_server::client_origin(server))
        }
        _ => http_server::client_url(&resolved.config, resolved.config.listen),
    }
}

/// Returns the arguments of `stile stdio` that give a client the same rights as a token.
fn scope_arguments(matches: &ArgMatches, records: &RecordsClaim) -> Vec<String> {
    let mut arguments = Vec::new();
    for flag in ["scope", "deny", "unguard"] {
        let values = flags::texts(matches, flag).into_iter();
        arguments.extend(values.flat_map(|value| [format!("--{flag}"), value]));
    }
    match records {
        RecordsClaim::Grant(id) => arguments.extend(["--grant".to_owned(), id.to_string()]),
        RecordsClaim::Owner => arguments.push("--owner".to_owned()),
        // No command line orders a token for an import.
        RecordsClaim::None | RecordsClaim::Import(_) => {}
    }
    arguments
}

/// Adds or replaces the entry of a client.
fn write(
    order: &Order,
    file: &ClientFile,
    present: Option<&Value>,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let (client, path) = (file.client, file.path().display());
    let old = present.and_then(token_of);
    let old_jti = old.as_deref().and_then(identifier);
    let tokens = order.home.tokens()?;
    let now = unix_seconds(wall_clock());
    let old_record = old_jti.as_deref().map(|jti| tokens.find(jti)).transpose()?.flatten();
    // An entry without a token needs none, so it is compared as it is.
    let kept = match order.transport {
        Transport::Http => {
            old.filter(|_| old_record.as_ref().is_some_and(|token| order.is_met_by(token, now)))
        }
        Transport::Stdio => Some(String::new()),
    };
    if let Some(token) = kept
        && present == Some(&order.entry(client, token)?)
    {
        if order.transport == Transport::Stdio && order.let_in(client, now)? {
            writeln!(output, "{} {LET_IN_AGAIN}; {path} has the entry", client.title)?;
            return write_rights(order, client, None, output);
        }
        writeln!(output, "{} is connected already: {path} has the entry", client.title)?;
        return Ok(());
    }
    // A file that cannot be edited is found out before a token is made.
    file.with(&order.entry(client, NO_TOKEN.to_owned())?)?;
    let minted = match order.transport {
        Transport::Http => {
            order.check_who_answers(file)?;
            Some(order.mint()?)
        }
        Transport::Stdio => None,
    };
    let token = minted.as_ref().map(|minted| minted.token.clone()).unwrap_or_default();
    let secrecy = if minted.is_some() { Secrecy::OwnerOnly } else { Secrecy::AsBefore };
    let written = keep_copy(file, present)
        .and_then(|()| replace(file, &order.entry(client, token)?, secrecy))
        .and_then(|()| match order.transport {
            Transport::Http => Ok(false),
            Transport::Stdio => order.let_in(client, now),
        });
    let was_ended = match written {
        Ok(was_ended) => was_ended,
        Err(failure) => {
            // Nobody has the new token.
            if let Some(minted) = &minted {
                order.home.revoke(&minted.jti, now)?;
            }
            return Err(failure);
        }
    };
    let change = if present.is_some() { "replaced" } else { "added" };
    writeln!(output, "{change} the entry of this server in {path}")?;
    if file.file.text().is_some() {
        let copy = file.file.copy_path();
        let copy = copy.file_name().unwrap_or_default().to_string_lossy().into_owned();
        writeln!(output, "the file as it was before is beside it, as {copy}")?;
    }
    if was_ended {
        writeln!(output, "{} {LET_IN_AGAIN}", client.title)?;
    }
    write_rights(order, client, minted.as_ref(), output)?;
    if let Some(record) = old_record.filter(|token| token.revoked.is_none()) {
        revoke(&order.home, &record.jti, output)?;
    }
    writeln!(output, "{}", client.after)?;
    Ok(())
}

/// Says what a connected client may do, and until when.
fn write_rights(
    order: &Order,
    client: &ClientRow,
    minted: Option<&MintedToken>,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let (root, rights) = (order.root.display(), order.rights());
    // A client that starts the server itself names the folder.
    if order.is_unserved && order.transport == Transport::Http {
        writeln!(
            output,
            "In the folder that is served first, {} {rights}.\n\
             None was served with this state yet: `stile serve FOLDER` chooses it, and `stile serve` \
             without one\nserves {root}.",
            client.title
        )?;
    } else {
        writeln!(output, "In {root}, {} {rights}.", client.title)?;
    }
    match minted {
        Some(MintedToken { jti, expires, .. }) => writeln!(
            output,
            "This ends on {}, or when you revoke its token {jti}.",
            local_time::in_words(unix_time::instant(*expires))
        )?,
        None => writeln!(
            output,
            "This ends with `stile disconnect {0}`. What it does is in the history under the \
             name {0}.",
            client.name
        )?,
    }
    Ok(())
}

/// Copies the file beside itself, unless the copy there is the file without the entry.
fn keep_copy(file: &ClientFile, present: Option<&Value>) -> Result<(), Failure> {
    if present.is_some_and(|entry| file.text_before(entry).is_some()) {
        return Ok(());
    }
    file.file.keep_copy().map_err(|error| cannot("copy", file.path(), &error))
}

fn replace(file: &ClientFile, entry: &Value, secrecy: Secrecy) -> Result<(), Failure> {
    let text = file.with(entry)?;
    file.file.replace(&text, secrecy).map_err(|error| cannot("change", file.path(), &error))
}

/// Lists all clients, and which of them this server is in.
fn list(
    matches: &ArgMatches,
    environment: Environment<'_>,
    output: &mut dyn Write,
    colours: Colours,
) -> Result<(), Failure> {
    // The files of all clients are below it.
    if CLIENTS.iter().all(|it| it.files(Platform::current(), environment).is_none()) {
        return Err(Failure::Usage("there is no home folder: HOME is not set".to_owned()));
    }
    // A state that cannot be read ends nothing.
    let resolved = settings(matches, environment).ok();
    let config = resolved.as_ref().map(|resolved| &resolved.config);
    let home = config.and_then(|config| Home::open_existing(config).ok());
    let tokens = home.as_ref().and_then(|home| home.tokens_to_read().ok());
    let now = unix_seconds(wall_clock());
    let is_ended = |target: &Target| match (target, config, &tokens) {
        (Target::Http { token: Some(token), .. }, _, Some(tokens)) => {
            let record = identifier(token).and_then(|jti| tokens.find(&jti).ok().flatten());
            record.is_some_and(|record| record.revoked.is_some() || record.expires <= now)
        }
        (Target::Command(words), Some(config), Some(tokens)) => {
            let state = absolute(&config.state);
            StdioEntry::of(words).is_some_and(|entry| entry.ended(tokens, &state).is_some())
        }
        _ => false,
    };
    let rows: Vec<ListedClient> = CLIENTS
        .iter()
        .map(|client| listed(client, name(matches), environment, &is_ended))
        .collect();
    if matches.get_flag("json") {
        let rows = rows.iter().map(|row| {
            json!({
                "client": row.client.name,
                "title": row.client.title,
                "file": row.file,
                "state": row.state,
                "leads_to": row.leads_to,
                "source": row.client.source,
            })
        });
        terminal::write_json(output, &Value::Array(rows.collect()))?;
        return Ok(());
    }
    let cells = rows.iter().map(|row| {
        [
            row.client.name.to_owned(),
            row.state.to_owned(),
            row.leads_to.clone().unwrap_or_else(|| "-".to_owned()),
            row.file.clone(),
        ]
    });
    let table = table::table(colours, ["CLIENT", "STATE", "LEADS TO", "FILE"], cells);
    output.write_all(table.as_bytes())?;
    let server = match (&resolved, &home, &tokens) {
        (Some(resolved), Some(home), Some(tokens)) => found_server::found(resolved, home, tokens),
        _ => Ok(None),
    };
    // Several servers run, or none is known: no address is the one.
    if let (Some(resolved), Ok(server)) = (&resolved, server) {
        let url = url(resolved, server.as_ref());
        writeln!(output, "\nAny other client takes the address, and asks you in a browser: {url}")?;
    }
    Ok(())
}

struct ListedClient {
    client: &'static ClientRow,
    state: &'static str,
    leads_to: Option<String>,
    file: String,
}

fn listed(
    client: &'static ClientRow,
    name: &str,
    environment: Environment<'_>,
    is_ended: &dyn Fn(&Target) -> bool,
) -> ListedClient {
    let first = client.files(Platform::current(), environment).unwrap_or_default();
    let mut file = first.first().map(|path| path.display().to_string()).unwrap_or_default();
    let (state, leads_to) = match ClientFile::read(client, name, environment) {
        Err(_) => ("unreadable", None),
        Ok(read) => {
            file = read.path().display().to_string();
            match read.entry() {
                Err(_) => ("unreadable", None),
                Ok(None) if read.file.text().is_none() => ("no file", None),
                Ok(None) => ("not connected", None),
                Ok(Some(entry)) => {
                    let target = target(&entry);
                    let state = match target.as_ref().is_some_and(is_ended) {
                        true => "ended",
                        false => "connected",
                    };
                    (state, target.as_ref().map(described))
                }
            }
        }
    };
    ListedClient { client, state, leads_to, file }
}

fn described(target: &Target) -> String {
    match target {
        Target::Http { url, .. } => url.clone(),
        Target::Command(words) => words.join(" "),
    }
}

#[cfg(test)]
mod tests;
