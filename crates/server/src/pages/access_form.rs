//! The part of a page on which the owner decides what a client may do with files: on the page of
//! consent, and later on the page that changes it.
//!
//! Each line can be removed or narrowed without a script: a check box, a choice of the verb, a
//! choice of a folder. Below stands the tree of folders. It shows what the choices open of each
//! folder, and each folder can be opened, only read, or shut.

use maud::{Markup, html};
use stile_domain::path::SpacePath;
use stile_domain::percent::encode_component;
use stile_domain::scope::{Scope, Verb};
use stile_domain::sign_in::asked_access::{AccessLine, LineOrigin, narrow, sentence};
use stile_domain::sign_in::folder_choices::FolderChoice;
use stile_domain::unseen::shown_ends;

use crate::sign_in::parameters::FormParameters;

/// The most bytes of the folders to which one line can be narrowed, of those of all lines, and of
/// the tree.
const FOLDER_BYTES: usize = 3_000;
const ALL_FOLDER_BYTES: usize = 9_000;
const TREE_BYTES: usize = 18_000;

/// How the name of the choice about a folder of the tree begins. The path of the folder follows.
pub const TREE_FIELD: &str = "tree:";
/// The name of the path of one more folder.
pub const NAMED_FOLDER: &str = "named-folder";
/// The name of the choice about the one more folder.
pub const NAMED_CHOICE: &str = "named-choice";

/// What a page shows of the choices about files.
pub struct AccessForm<'a> {
    /// The lines that the owner decides about.
    pub lines: Vec<LineForm>,
    /// What the owner chose so far; `None` at first.
    pub chosen: Option<&'a FormParameters>,
    /// What the client gives up by itself.
    pub denials: Vec<Scope>,
    /// The folders, the most important first.
    pub tree: Vec<TreeFolder>,
    /// How many other folders there are.
    pub unlisted: usize,
    /// The folder that the owner named.
    pub named: NamedFolder,
}

/// A right that the owner allows, narrows or removes.
pub struct LineForm {
    /// The right, and why the page has it.
    pub line: AccessLine,
    /// The folders to which it can be narrowed, the most important first.
    pub folders: Vec<SpacePath>,
    /// Whether it is about a folder that is not there.
    pub is_absent: bool,
}

/// A folder that the owner named in the form.
#[derive(Clone, Debug, Default)]
pub struct NamedFolder {
    /// What the owner typed.
    pub typed: String,
    /// The path that it means; `None` if it is none.
    pub path: Option<SpacePath>,
    /// What the owner chose for it.
    pub choice: Option<FolderChoice>,
    /// Whether the row of the folder says something else.
    pub differs_from_its_row: bool,
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
    /// Nobody opens it without the right to use what is guarded.
    Guarded,
    /// There is no such folder now.
    Absent,
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
            Self::Guarded => ("guarded, so it stays shut", "none"),
            Self::Absent => ("there is no such folder now", "none"),
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
    format!("{TREE_FIELD}{folder}")
}

impl AccessForm<'_> {
    /// Returns the content, without the form around it. The tree takes what the lines leave of
    /// `bytes`.
    pub fn markup(&self, bytes: usize) -> Markup {
        let of_line = FOLDER_BYTES.min(ALL_FOLDER_BYTES / self.lines.len().max(1));
        let lines = html! {
            ul.lines {
                @for (number, line) in self.lines.iter().enumerate() {
                    li { (choice((number, line), of_line, self.chosen)) }
                }
            }
            @for denial in &self.denials { p { "It will " (sentence(denial)) "." } }
        };
        let tree = TREE_BYTES.min(bytes.saturating_sub(lines.0.len()));
        html! { (lines) (self.tree(tree)) }
    }

    fn tree(&self, bytes: usize) -> Markup {
        let rows = fitting(self.tree.iter(), bytes, |folder| &folder.path, tree_row);
        let left_out = self.tree.len() - rows.len() + self.unlisted;
        html! {
            @if !self.tree.is_empty() {
                details class="opened" open {
                    summary { "What that opens of each folder" }
                    ul id="tree" class="tree" data-grows { @for row in &rows { (row) } }
                    // What was chosen of a folder whose row has no room stays as it is.
                    div id="unshown" data-follows {
                        @for folder in self.tree.iter().skip(rows.len()) {
                            @if let Some(choice) = folder.choice.filter(|_| self.chosen.is_some()) {
                                input type="hidden" name=(tree_field(&folder.path))
                                    value=(choice.word());
                            }
                        }
                    }
                    p class="muted" {
                        @if left_out > 0 { (left_out) " more folders, and those further in, are " }
                        @else { "Folders further in are " }
                        "as the one that they are in, unless you name them here."
                    }
                    div id="named" class="narrower" data-follows { (self.named()) }
                    p class="muted" {
                        "Keys, passwords and files that programs run stay shut, unless you tick \
                         that you open them. A folder that is made later is like the one that it is \
                         in, and is only read beside one that is only read."
                    }
                }
            }
        }
    }

    /// Returns the fields for one more folder. What was named and decided has a row of its own.
    fn named(&self) -> Markup {
        let NamedFolder { typed, path, choice, differs_from_its_row } = &self.named;
        let has_row = path.is_some() && choice.is_some() && !differs_from_its_row;
        let left = if has_row { "" } else { typed.as_str() };
        html! {
            div {
                label for=(NAMED_FOLDER) { "Another folder" }
                input id=(NAMED_FOLDER) name=(NAMED_FOLDER) value=(left) placeholder="/work/plans"
                    autocomplete="off" autocapitalize="off" spellcheck="false";
            }
            div {
                label for=(NAMED_CHOICE) { "It sees there" }
                select id=(NAMED_CHOICE) name=(NAMED_CHOICE) {
                    option value="" { "as ticked" }
                    (choices(choice.filter(|_| !has_row)))
                }
            }
            @if *differs_from_its_row {
                p class="warning" role="alert" {
                    "The list above says something else of that folder. Choose the same there, or \
                     empty this field; until then nothing is allowed."
                }
            }
            @if path.is_none() && !typed.is_empty() {
                p class="warning" role="alert" {
                    "That is no path of a folder. A path has the names of the folders that lead to \
                     it, as in " code { "/work/plans" } "."
                }
            }
        }
    }
}

/// Shows the most important of some folders that fit into `bytes`, each before those in it.
fn fitting<T>(
    folders: impl IntoIterator<Item = T>,
    bytes: usize,
    path: impl Fn(&T) -> &SpacePath,
    show: impl Fn(&T) -> Markup,
) -> Vec<Markup> {
    let mut room = bytes;
    let mut rows: Vec<(Vec<String>, Markup)> = Vec::new();
    for folder in folders {
        let row = show(&folder);
        let Some(left) = room.checked_sub(row.0.len()) else { break };
        room = left;
        rows.push((path(&folder).components().map(str::to_owned).collect(), row));
    }
    rows.sort_by(|(one, _), (other, _)| one.cmp(other));
    rows.into_iter().map(|(_, row)| row).collect()
}

fn choices(chosen: Option<FolderChoice>) -> Markup {
    const WORDS: [(FolderChoice, &str); 3] = [
        (FolderChoice::Nothing, "nothing"),
        (FolderChoice::Read, "read only"),
        (FolderChoice::Change, "read and change"),
    ];
    html! {
        @for (choice, words) in WORDS {
            option value=(choice.word()) selected[chosen == Some(choice)] { (words) }
        }
    }
}

fn tree_row(folder: &&TreeFolder) -> Markup {
    let (words, class) = folder.opened.words();
    let id = format!("tree-{}", encode_component(folder.path.as_str()));
    let shown = shown_ends(folder.path.as_str(), 80);
    let is_inner = folder.path.components().count() > 1;
    html! {
        li id={ "row-" (id) } class=[is_inner.then_some("inner")] {
            label for=(id) { bdi { (shown) "/" } }
            span id={ "opens-" (id) } data-follows { span class=(class) { (words) } }
            select id=(id) name=(tree_field(&folder.path)) data-chosen {
                option value="ticked" { "as ticked" }
                (choices(folder.choice))
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
    (number, LineForm { line, folders, is_absent }): (usize, &LineForm),
    folder_bytes: usize,
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
        LineOrigin::AskedGuarded => Some("it asks for this; tick it only if you mean it"),
        LineOrigin::AllowedBefore => Some("as before"),
        LineOrigin::Offered => Some("it did not ask for this; tick it if you want it"),
        LineOrigin::NotNow => Some("it may not do this now; tick it if you want it"),
    };
    let is_one = |folder: &SpacePath| is_chosen(&folder_field(scope), folder.as_str());
    let options = fitting(
        folders,
        folder_bytes,
        |folder| folder,
        |folder| {
            html! {
                option value=(folder) selected[is_one(folder)] {
                    "only in " (shown_ends(folder.as_str(), 80))
                }
            }
        },
    );
    let narrows = scope.verb() == Verb::Write || !folders.is_empty();
    html! {
        label class="choice" for=(id) {
            input type="checkbox" id=(id) name=(id) value="on" checked[is_ticked];
            span {
                span id={ "said-" (number) } data-follows { (sentence(&narrowed(scope, chosen))) }
                @if let Some(whose) = whose { span class="muted" { " (" (whose) ")" } }
                @if *is_absent { strong { " (there is no such folder now)" } }
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
                            @for option in &options { (option) }
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
