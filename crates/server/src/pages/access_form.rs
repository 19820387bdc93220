//! The part of a page on which the owner decides what a client may do with files: on the page of
//! consent, and later on the page that changes it.
//!
//! Each line can be removed or narrowed without a script: a check box, a choice of the verb, a
//! choice of a folder. Below stands the tree of folders. It shows what the choices open of each
//! folder, and each folder can be opened, only read, or shut.

use maud::{Markup, html};
use stile_domain::path::SpacePath;
use stile_domain::scope::{Scope, Verb};
use stile_domain::sign_in::asked_access::{AccessLine, LineOrigin, narrow, sentence};
use stile_domain::sign_in::folder_choices::FolderChoice;
use stile_domain::unseen::shown_ends;

use super::room::Room;
use crate::sign_in::parameters::FormParameters;

/// The bytes of the folders to which one line can be narrowed, and of the tree.
const FOLDER_BYTES: usize = 3_000;
const TREE_BYTES: usize = 18_000;

/// What a page shows of the choices about files.
pub struct AccessForm<'a> {
    /// The lines, each with the folders to which it can be narrowed.
    pub lines: Vec<(AccessLine, Vec<String>)>,
    /// What the owner chose so far; `None` at first.
    pub chosen: Option<&'a FormParameters>,
    /// What the client gives up by itself.
    pub denials: Vec<Scope>,
    /// The folders, each before those in it.
    pub tree: Vec<TreeFolder>,
}

/// A folder, and what of it a client will see.
pub struct TreeFolder {
    /// The path of the folder.
    pub path: SpacePath,
    /// What the client may do in it.
    pub opened: Opened,
    /// What the owner chose for this folder; `None` for what the lines say.
    pub choice: Option<FolderChoice>,
}

/// What a client may do in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// It reads and changes everything.
    Change,
    /// It reads everything.
    Read,
    /// It adds lines, without reading.
    Append,
    /// It reads or changes a part.
    Part,
    /// It sees nothing.
    Nothing,
}

impl Opened {
    /// Returns the words, and the class of the style sheet.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Change => ("reads and changes", "change"),
            Self::Read => ("reads", "read"),
            Self::Append => ("adds lines", "change"),
            Self::Part => ("a part of it", "read"),
            Self::Nothing => ("sees nothing", "none"),
        }
    }
}

/// The name of the check box of a line.
pub fn line_field(scope: &Scope) -> String {
    format!("line:{scope}")
}

/// The name of the choice of a line's verb.
pub fn verb_field(scope: &Scope) -> String {
    format!("verb:{scope}")
}

/// The name of the choice of a line's folder.
pub fn folder_field(scope: &Scope) -> String {
    format!("folder:{scope}")
}

/// The name of the choice about a folder of the tree.
pub fn tree_field(folder: &SpacePath) -> String {
    format!("tree:{folder}")
}

impl AccessForm<'_> {
    /// Returns the content, without the form around it.
    pub fn markup(&self) -> Markup {
        html! {
            ul.lines {
                @for (number, (line, folders)) in self.lines.iter().enumerate() {
                    li { (choice(number, (line, folders), self.chosen)) }
                }
            }
            @for denial in &self.denials { p { "It will " (sentence(denial)) "." } }
            (self.tree())
        }
    }

    fn tree(&self) -> Markup {
        let rows = Room::of(TREE_BYTES).fit(self.tree.iter().enumerate(), self.tree.len(), |row| {
            let (number, folder) = row;
            let is_inner = folder.path.components().count() > 1;
            html! { li class=[is_inner.then_some("inner")] { (tree_row(number, folder)) } }
        });
        html! {
            @if !self.tree.is_empty() {
                details class="opened" open {
                    summary { "What that opens of each folder" }
                    ul class="tree" { (rows) }
                    @if rows.shown < self.tree.len() {
                        p class="muted" {
                            (self.tree.len() - rows.shown) " more folders are as ticked above."
                        }
                    }
                    p class="muted" {
                        "Keys, passwords and files that programs run stay shut, unless you tick \
                         that you open them. A folder that is made later is like the one that it is \
                         in, and is only read beside one that is only read."
                    }
                }
            }
        }
    }
}

fn tree_row(number: usize, folder: &TreeFolder) -> Markup {
    const WORDS: [(FolderChoice, &str); 3] = [
        (FolderChoice::Nothing, "nothing"),
        (FolderChoice::Read, "read only"),
        (FolderChoice::Change, "read and change"),
    ];
    let (words, class) = folder.opened.words();
    let id = format!("tree-{number}");
    let shown = shown_ends(folder.path.as_str(), 80);
    html! {
        label for=(id) { bdi { (shown) "/" } }
        span id={ "opens-" (number) } data-follows { span class=(class) { (words) } }
        select id=(id) name=(tree_field(&folder.path)) {
            option value="ticked" { "as ticked" }
            @for (choice, words) in WORDS {
                option value=(choice.word()) selected[folder.choice == Some(choice)] { (words) }
            }
        }
    }
}

/// Returns the right that a line gives as it is narrowed so far.
fn narrowed(scope: &Scope, chosen: Option<&FormParameters>) -> Scope {
    let sent = |field: String| chosen.and_then(|form| form.get(&field));
    let verb = match sent(verb_field(scope)) {
        Some("read") => Verb::Read,
        _ => scope.verb(),
    };
    let folder = sent(folder_field(scope)).and_then(|folder| SpacePath::parse(folder).ok());
    let folder = folder.as_ref().unwrap_or(scope.path());
    narrow(scope, verb, folder).unwrap_or_else(|| scope.clone())
}

fn choice(
    number: usize,
    (line, folders): (&AccessLine, &[String]),
    chosen: Option<&FormParameters>,
) -> Markup {
    let scope = &line.scope;
    let id = line_field(scope);
    let is_ticked = chosen.map_or(line.is_proposed(), |form| form.get(&id).is_some());
    let is_chosen = |field: &str, value: &str| {
        chosen.and_then(|form| form.get(field)).is_some_and(|chosen| chosen == value)
    };
    let whose = match line.origin {
        LineOrigin::Asked => None,
        LineOrigin::AllowedBefore => Some("as before"),
        LineOrigin::Offered => Some("it did not ask for this; tick it if you want it"),
        LineOrigin::NotNow => Some("it may not do this now; tick it if you want it"),
    };
    let options = Room::of(FOLDER_BYTES).fit(folders, folders.len(), |folder| {
        html! {
            option value=(folder) selected[is_chosen(&folder_field(scope), folder)] {
                "only in " (shown_ends(folder, 80))
            }
        }
    });
    let narrows = scope.verb() == Verb::Write || !folders.is_empty();
    html! {
        label class="choice" for=(id) {
            input type="checkbox" id=(id) name=(id) value="on" checked[is_ticked];
            span {
                span id={ "said-" (number) } data-follows { (sentence(&narrowed(scope, chosen))) }
                @if let Some(whose) = whose { span class="muted" { " (" (whose) ")" } }
            }
        }
        @if narrows {
            div class="narrower" {
                @if scope.verb() == Verb::Write {
                    div {
                        label for={ "how-" (id) } { "How" span class="unseen" { ": " (sentence(scope)) } }
                        select id={ "how-" (id) } name=(verb_field(scope)) {
                            @let only_reads = is_chosen(&verb_field(scope), "read");
                            option value="read" selected[only_reads] { "read only" }
                            option value="write" selected[!only_reads] { "read and change" }
                        }
                    }
                }
                @if !folders.is_empty() {
                    div {
                        label for={ "where-" (id) } {
                            "Where" span class="unseen" { ": " (sentence(scope)) }
                        }
                        select id={ "where-" (id) } name=(folder_field(scope)) {
                            @let is_one = |it: &String| is_chosen(&folder_field(scope), it);
                            (options)
                            option value=(scope.path()) selected[!folders.iter().any(is_one)] {
                                "all of it"
                            }
                        }
                    }
                }
            }
        }
    }
}
