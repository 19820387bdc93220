//! `stile search`: finds files by what they say, with the answers that `file.search` gives agents.

use std::path::Path;

use serde_json::{Value, json};
use stile_domain::path::SpacePath;
use stile_domain::recall::question::{BadQuestion, RecallQuestion};
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::instant::Instant;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_domain::tool_name::Spelling;
use stile_domain::unseen;
use stile_tools::answer::Answer;
use stile_tools::toolset::{Caller, Toolset as _, UnknownTool};

use crate::auth;
use crate::cli::compose::{files_owner, open, owner, process};
use crate::cli::failure::Failure;
use crate::cli::flags::duration::since_flag;
use crate::cli::flags::{self, typed_path};
use crate::cli::invocation::{Invocation, settings};
use crate::cli::terminal::{self, Colours, Meaning, local_time};

/// How many answers that are not finished the command waits for. Each takes two seconds at most.
const MOST_CALLS: usize = 100;

/// Asks the question until the answer is finished, and prints the files.
pub(super) fn run(
    Invocation { matches, environment, output, colours }: Invocation<'_>,
) -> Result<(), Failure> {
    let resolved = files_owner::with_served_root(settings(matches, environment)?)?;
    process::log(resolved.config.log);
    let question = flags::texts(matches, "question");
    if let Some(flag) = question.iter().find(|word| word.starts_with("--") && word.len() > 2) {
        let flag = flag.escape_debug();
        return Err(Failure::Usage(format!("`{flag}`: flags stand before the question")));
    }
    let question = question.join(" ");
    RecallQuestion::parse(&question).map_err(|error| no_question(&error))?;
    let root = &resolved.config.root;
    if !root.is_dir() {
        return Err(Failure::Usage(format!(
            "there is no folder {}. Name the folder to search, as in `stile search --root ~/notes \
             leaking roof`, or serve it first, as in `stile serve ~/notes`.",
            root.display()
        )));
    }
    let mut arguments = json!({ "q": question });
    let within = flags::text(matches, "in");
    let within = within.map(|text| typed_path::parse(text, root)).transpose()?;
    let within = within.unwrap_or_else(SpacePath::root);
    let since = since_flag(matches)?.map(|since| since.to_rfc3339());
    for (key, value) in [("path", Some(within.to_string())), ("modified_after", since)] {
        if let (Some(value), Some(members)) = (value, arguments.as_object_mut()) {
            members.insert(key.to_owned(), value.into());
        }
    }
    if let (Some(limit), Some(members)) = (flags::text(matches, "limit"), arguments.as_object_mut())
    {
        let wrong = || Failure::Usage("--limit must be a number from 1 to 50".to_owned());
        let limit = limit.parse::<u64>().ok().filter(|limit| (1..=50).contains(limit));
        members.insert("limit".to_owned(), limit.ok_or_else(wrong)?.into());
    }
    let user = owner::user(&resolved, environment)?;
    let with = |verbs: &[Verb]| {
        let scopes = verbs.iter().map(|verb| Scope::everything(*verb)).collect::<Scopes>();
        auth::command_line(&user, scopes, RecordsClaim::None)
    };
    // As for agents, what is guarded stays out.
    let (principal, all) = (with(&[Verb::Read]), with(&[Verb::Read, Verb::Unguard]));
    let open_space = open::open_space_to_read(&resolved.config)?;
    let tools = open_space.tools();
    let caller = Caller { names: Spelling::Dotted.into(), ..Caller::local(principal.clone()) };
    let found = process::block_on(async {
        let unknown = |UnknownTool| Failure::Failed("this program has no such tool".to_owned());
        let tool = tools.find("file.search").ok_or(UnknownTool).map_err(unknown)?;
        let mut answer = tools.call(tool, arguments.clone(), &caller).await.map_err(unknown)?;
        for _ in 1..MOST_CALLS {
            let Some(cursor) = unfinished(&answer) else { break };
            if let Some(members) = arguments.as_object_mut() {
                members.insert("cursor".to_owned(), cursor);
            }
            answer = tools.call(tool, arguments.clone(), &caller).await.map_err(unknown)?;
        }
        let hidden = tools.count_hidden((&all, &principal), &within).await;
        Ok::<_, Failure>((answer, hidden.unwrap_or(0)))
    });
    open_space.journal.sync();
    let (answer, guarded) = found?;
    let tree = answer.to_tree();
    if answer.failure.is_some() {
        return Err(match tree.pointer("/error/code").and_then(Value::as_str) {
            Some("not_found" | "not_a_directory") => Failure::Failed(format!(
                "--in: there is no {within} in {}. Name a folder or a file that is there.",
                root.display()
            )),
            Some("invalid_argument") if within != SpacePath::root() => Failure::Failed(format!(
                "--in: {within} is in a folder that the setting `search_ignore` leaves out of \
                 searches."
            )),
            Some(code) => {
                Failure::Failed(format!("{} could not be searched: {code}", root.display()))
            }
            None => Failure::Failed(answer.text.clone()),
        });
    }
    if matches.get_flag("json") {
        return Ok(terminal::write_json(output, &*tree)?);
    }
    let mut shown = rendered(&tree, root, colours);
    if guarded > 0 {
        let files = if guarded == 1 { "file was" } else { "files were" };
        let line = format!(
            "{guarded} guarded {files} not looked into, as for agents: secrets such as .env."
        );
        shown.push_str(&format!("{}\n", colours.paint(&line, Meaning::Warning)));
    }
    Ok(output.write_all(shown.as_bytes())?)
}

fn no_question(error: &BadQuestion) -> Failure {
    Failure::Usage(match error {
        BadQuestion::TooLong { chars } => format!(
            "the question has {chars} characters, more than 1024: keep the words that matter"
        ),
        BadQuestion::NoWord => "the question has no word to look for: say one that the file has, \
                                as in `stile search leaking roof`"
            .to_owned(),
    })
}

/// Returns the cursor of an answer that has not read everything.
fn unfinished(answer: &Answer) -> Option<Value> {
    let tree = answer.to_tree();
    let left_out = tree.get("left_out")?.as_array()?;
    let is_unfinished = left_out.iter().any(|left| left.get("why") == Some(&"not_finished".into()));
    tree.get("next_cursor").filter(|_| is_unfinished).cloned()
}

/// Returns the answer for a person: each file with its day and title, and below it the passages.
/// `root` is the folder that was searched.
fn rendered(answer: &Value, root: &Path, colours: Colours) -> String {
    let text = |value: Option<&Value>| {
        unseen::shown(value.and_then(Value::as_str).unwrap_or_default()).into_owned()
    };
    let list = |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned();
    let mut shown = String::new();
    for result in list(answer, "results").unwrap_or_default() {
        let path = text(result.get("path"));
        let modified = text(result.get("modified"));
        let day = Instant::parse(&modified).map_or(modified, local_time::day);
        let title = colours.paint(&text(result.get("title")), Meaning::Title);
        shown.push_str(&format!("{}  {title}  {day}\n", colours.paint(&path, Meaning::Good)));
        for passage in list(&result, "passages").unwrap_or_default() {
            let line = passage.pointer("/lines/0").and_then(Value::as_i64).unwrap_or(1);
            shown.push_str(&format!("  {line}: {}\n", text(passage.get("text"))));
        }
    }
    let total = answer.get("total").and_then(Value::as_u64).unwrap_or(0);
    let files = if total == 1 { "file has" } else { "files have" };
    let root = root.display().to_string();
    shown.push_str(&format!("{total} {files} any of the words in {}.\n", unseen::shown(&root)));
    let nowhere = list(answer, "nowhere").unwrap_or_default();
    if !nowhere.is_empty() {
        let words: Vec<&str> = nowhere.iter().filter_map(Value::as_str).collect();
        let line = format!("Nowhere: {}", words.join(", "));
        shown.push_str(&format!("{}\n", colours.paint(&line, Meaning::Warning)));
    }
    for left in list(answer, "left_out").unwrap_or_default() {
        let why = match left.get("why").and_then(Value::as_str) {
            Some("not_text") => "not text",
            Some("too_long") => "too long",
            Some("q") => "by a phrase or a -word",
            Some("modified") => "by --since",
            _ => "not read",
        };
        let count = left.get("count").and_then(Value::as_u64).unwrap_or(0);
        let line = format!("{count} left out, {why}: first {}", text(left.get("first")));
        shown.push_str(&format!("{}\n", colours.paint(&line, Meaning::Warning)));
    }
    shown
}
