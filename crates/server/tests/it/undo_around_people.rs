//! What an undo does around a person who works in the same folders, and around changes for which
//! the history had no room. What it cannot do it names, with a reason that is true.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use stile_testkit::chance::Chance;
use stile_testkit::client::{Http, McpClient as _};

use crate::old_versions::{Stage, hash};

const UNDO: [&str; 3] = ["undo", "--client", "cursor"];

fn mode(stage: &Stage, name: &str) -> u32 {
    stage.rig.root.join(name).metadata().unwrap().permissions().mode() & 0o777
}

/// Makes a folder as a person does, with a file if one is named.
fn folder(stage: &Stage, name: &str, (mode, file): (u32, Option<&str>)) {
    let folder = stage.rig.root.join(name);
    fs::create_dir(&folder).unwrap();
    if let Some(file) = file {
        stage.put(&format!("{name}/{file}"), &format!("{file}\n"));
    }
    fs::set_permissions(folder, Permissions::from_mode(mode)).unwrap();
}

/// Moves a folder, or removes it if there is no `to`.
fn take_away(agent: &mut Http, path: &str, to: Option<&str>) {
    let list = json!({ "path": path, "tree_hash": true });
    let hash = agent.tool("file.list", list).unwrap()["tree_hash"].clone();
    let done = match to {
        Some(to) => agent.tool("folder.move", json!({ "path": path, "hash": hash, "to": to })),
        None => agent.tool("folder.remove", json!({ "path": path, "hash": hash })),
    };
    assert!(done.as_ref().is_ok_and(|done| done.get("error").is_none()), "{done:?}");
}

fn moved(agent: &mut Http, path: &str, (text, to): (&str, &str)) {
    let moving = json!({ "path": path, "hash": hash(text), "to": to });
    let done = agent.tool("file.move", moving).unwrap();
    assert!(done.get("error").is_none(), "{done}");
}

fn removed(agent: &mut Http, path: &str, text: &str) {
    let done = agent.tool("file.remove", json!({ "path": path, "hash": hash(text) })).unwrap();
    assert!(done.get("error").is_none(), "{done}");
}

/// Plans an undo and makes it. Both end with the same exit code. Returns whether it was 0, the plan
/// in JSON, and all that the undo said.
fn undone(stage: &Stage, undo: &[&str]) -> (bool, Value, String) {
    let plan = stage.stile(&[undo, &["--json"]].concat());
    let made = stage.stile(&[undo, &["--yes"]].concat());
    let told = String::from_utf8([made.stdout, made.stderr].concat()).unwrap();
    assert_eq!(plan.status.code(), made.status.code(), "{told}");
    (made.status.success(), serde_json::from_slice(&plan.stdout).unwrap(), told)
}

/// Takes the undo back that said `told`.
fn undone_again(stage: &Stage, told: &str) -> (bool, Value, String) {
    let (_, call) = told.split_once("`stile undo ").unwrap();
    undone(stage, &["undo", call.split('`').next().unwrap()])
}

#[test]
fn an_undo_opens_no_folder_that_somebody_made_and_closed_and_says_so() {
    let stage = Stage::new(&[]);
    folder(&stage, "f", (0o775, None));
    let mut agent = stage.client("cursor");
    take_away(&mut agent, "/f", Some("/g"));
    folder(&stage, "f", (0o700, Some("secret")));
    take_away(&mut agent, "/f", Some("/h"));
    folder(&stage, "f", (0o700, Some("other")));
    let (is_whole, _, told) = undone(&stage, &UNDO);
    assert_eq!((mode(&stage, "f"), is_whole), (0o700, false), "{told}");
    assert!(told.contains("/f keeps the mode 700, although the folder that was there had 775"));
    assert_eq!(stage.text("f/secret").as_deref(), Some("secret\n"));
    let (_, _, told) = undone_again(&stage, &told);
    assert_eq!(mode(&stage, "f"), 0o700, "{told}");
    assert_eq!(mode(&stage, "h"), 0o700, "{told}");
}

#[test]
fn an_undo_of_an_undo_gives_a_folder_the_mode_back_that_the_undo_took() {
    let stage = Stage::new(&[]);
    folder(&stage, "f", (0o700, Some("first")));
    let mut agent = stage.client("cursor");
    take_away(&mut agent, "/f", Some("/g"));
    folder(&stage, "f", (0o755, Some("second")));
    take_away(&mut agent, "/f", Some("/h"));
    folder(&stage, "f", (0o755, Some("third")));
    let (is_whole, _, told) = undone(&stage, &UNDO);
    assert_eq!((mode(&stage, "f"), is_whole), (0o700, true), "{told}");
    let (is_whole, _, told) = undone_again(&stage, &told);
    assert_eq!((mode(&stage, "f"), is_whole), (0o755, true), "{told}");
    assert_eq!((mode(&stage, "g"), mode(&stage, "h")), (0o700, 0o755), "{told}");
    let (is_whole, _, told) = undone_again(&stage, &told);
    assert_eq!((mode(&stage, "f"), is_whole), (0o700, true), "{told}");
}

#[test]
fn a_folder_that_a_person_made_again_with_another_mode_is_named_until_an_undo_gave_it_back() {
    for (own, said) in [
        (0o755, "/f is a folder with another mode than it had"),
        (0o700, "/f keeps the mode 700, although the folder that was there had 750"),
    ] {
        let stage = Stage::new(&[]);
        folder(&stage, "f", (0o750, None));
        let mut agent = stage.client("cursor");
        take_away(&mut agent, "/f", None);
        folder(&stage, "f", (own, None));
        let (is_whole, plan, told) = undone(&stage, &UNDO);
        assert!(!is_whole && told.contains(said), "{told}");
        assert_eq!((mode(&stage, "f"), &plan["left"][0]["path"]), (own, &json!("/f")));
        // Without that folder it comes back, and what becomes of it then is the person's.
        fs::remove_dir(stage.rig.root.join("f")).unwrap();
        let (is_whole, _, told) = undone(&stage, &UNDO);
        assert_eq!((is_whole, mode(&stage, "f")), (true, 0o750), "{told}");
        fs::set_permissions(stage.rig.root.join("f"), Permissions::from_mode(0o711)).unwrap();
        let (is_whole, _, told) = undone(&stage, &UNDO);
        assert_eq!((is_whole, told.as_str()), (true, "Nothing is to be done.\n"));
    }
}

#[test]
fn a_folder_that_a_person_closed_where_an_agent_moved_it_comes_back_closed() {
    let stage = Stage::new(&[]);
    folder(&stage, "f", (0o755, Some("f.md")));
    let mut agent = stage.client("cursor");
    take_away(&mut agent, "/f", Some("/e"));
    take_away(&mut agent, "/e", Some("/g"));
    fs::set_permissions(stage.rig.root.join("g"), Permissions::from_mode(0o700)).unwrap();
    let (is_whole, plan, told) = undone(&stage, &UNDO);
    assert_eq!((mode(&stage, "f"), is_whole), (0o700, false), "{told}");
    assert_eq!(plan["left"].as_array().unwrap().len(), 1, "{plan}");
    assert!(told.contains("/f keeps the mode 700"), "{told}");
    assert_eq!(stage.text("f/f.md").as_deref(), Some("f.md\n"));
}

#[test]
fn what_a_person_put_in_between_keeps_a_file_from_no_earlier_path() {
    for is_removed in [false, true] {
        let stage = Stage::new(&[]);
        stage.put("a.md", "one\n");
        let file = stage.rig.root.join("a.md");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let mut agent = stage.client("cursor");
        moved(&mut agent, "/a.md", ("one\n", "/b.md"));
        if is_removed {
            removed(&mut agent, "/b.md", "one\n");
        } else {
            moved(&mut agent, "/b.md", ("one\n", "/c.md"));
        }
        stage.put("b.md", "typed by hand\n");
        let (is_whole, _, told) = undone(&stage, &UNDO);
        assert!(is_whole, "{told}");
        assert_eq!((stage.text("a.md").as_deref(), mode(&stage, "a.md")), (Some("one\n"), 0o600));
        assert_eq!(stage.text("b.md").as_deref(), Some("typed by hand\n"));
        assert_eq!(stage.text("c.md"), None);
        // Once it is back, it is the person's again.
        stage.put("a.md", "mine\n");
        assert_eq!(undone(&stage, &UNDO).2, "Nothing is to be done.\n");
        fs::remove_file(&file).unwrap();
        assert_eq!(undone(&stage, &UNDO).2, "Nothing is to be done.\n");
        let (_, _, told) = undone_again(&stage, &told);
        assert_eq!(stage.text("b.md").as_deref(), Some("typed by hand\n"), "{told}");
    }
}

#[test]
fn a_folder_goes_back_to_its_first_path_although_a_file_is_at_one_in_between() {
    for is_removed in [false, true] {
        let stage = Stage::new(&[]);
        folder(&stage, "a", (0o750, Some("f.md")));
        let mut agent = stage.client("cursor");
        take_away(&mut agent, "/a", Some("/b"));
        take_away(&mut agent, "/b", if is_removed { None } else { Some("/c") });
        stage.put("b", "typed by hand\n");
        let (is_whole, _, told) = undone(&stage, &UNDO);
        assert!(is_whole, "{told}");
        assert_eq!((stage.text("a/f.md").as_deref(), mode(&stage, "a")), (Some("f.md\n"), 0o750));
        assert!(!stage.rig.root.join("c").exists());
        assert_eq!(undone(&stage, &UNDO).2, "Nothing is to be done.\n");
    }
}

#[test]
fn the_path_where_the_owner_looks_for_a_file_is_named() {
    let stage = Stage::new(&[]);
    stage.put("a.md", "one\n");
    let mut agent = stage.client("cursor");
    moved(&mut agent, "/a.md", ("one\n", "/b.md"));
    moved(&mut agent, "/b.md", ("one\n", "/c.md"));
    stage.put("c.md", "typed by hand\n");
    let (is_whole, plan, told) = undone(&stage, &UNDO);
    assert!(!is_whole, "{told}");
    assert_eq!(plan["left"].as_array().unwrap().len(), 1, "{plan}");
    assert!(told.contains("/c.md cannot go back to /a.md, since it was changed since"), "{told}");
}

#[test]
fn a_copy_of_a_protected_file_in_the_place_of_a_note_keeps_the_note_from_nothing() {
    let stage = Stage::new(&[]);
    stage.put("note.md", "mine\n");
    stage.put("closed.md", "closed\n");
    let closed = stage.rig.root.join("closed.md");
    fs::set_permissions(closed, Permissions::from_mode(0o444)).unwrap();
    let mut agent = stage.client("cursor");
    removed(&mut agent, "/note.md", "mine\n");
    let copy = json!({ "path": "/closed.md", "hash": hash("closed\n"), "to": "/note.md" });
    agent.tool("file.copy", copy).unwrap();
    assert_eq!(mode(&stage, "note.md"), 0o444);
    let (is_whole, _, told) = undone(&stage, &UNDO);
    assert!(is_whole, "{told}");
    assert_eq!(
        (stage.text("note.md").as_deref(), mode(&stage, "note.md")),
        (Some("mine\n"), 0o644)
    );
    assert_eq!(
        (stage.text("closed.md").as_deref(), mode(&stage, "closed.md")),
        (Some("closed\n"), 0o444)
    );
}

/// Returns random letters, which the history cannot make small.
fn noise(chance: &mut Chance, letters: usize) -> String {
    std::iter::repeat_with(|| char::from(b"0123456789abcdef"[chance.below(16)]))
        .take(letters)
        .collect()
}

#[test]
fn the_plan_knows_the_size_of_a_version_that_a_step_makes_and_another_one_removes() {
    let stage = Stage::new(&["--history-bytes", "100KiB", "--history", "keep"]);
    let mut chance = Chance::of(3);
    let [own, more] = [140_000, 1_000].map(|letters| noise(&mut chance, letters));
    let mut agent = stage.client("cursor");
    agent.tool("file.create", json!({ "path": "/b.md", "content": own })).unwrap();
    moved(&mut agent, "/b.md", (&own, "/z.md"));
    let append = json!({ "path": "/z.md", "hash": hash(&own), "content": more });
    agent.tool("file.append", append).unwrap();
    // `undone` compares the exit codes.
    let (_, plan, told) = undone(&stage, &UNDO);
    let lacks = !plan["not_kept"].as_array().unwrap().is_empty();
    assert_eq!(lacks, told.contains("so those steps cannot be taken back"), "{plan} {told}");
    assert!(lacks, "there is room for one of both versions: {told}");
    assert_eq!((stage.text("b.md"), stage.text("z.md")), (None, None));
}

#[test]
fn the_plan_knows_that_nothing_need_be_kept_of_a_file_that_only_gets_longer() {
    let stage = Stage::new(&["--history-bytes", "100KiB", "--history", "keep"]);
    let mut chance = Chance::of(4);
    let (own, tail) = (noise(&mut chance, 80_000), noise(&mut chance, 1_000));
    let whole = format!("{own}\n{tail}\n");
    stage.put("own.md", &whole);
    let mut agent = stage.client("cursor");
    let cut = json!({
        "path": "/own.md", "hash": hash(&whole), "lines": [2, 3], "old": format!("{tail}\n"),
        "new": "",
    });
    let cut = agent.tool("text.replace", cut).unwrap();
    assert!(cut.get("error").is_none(), "{cut}");
    let made = json!({ "path": "/a.md", "content": noise(&mut chance, 70_000) });
    agent.tool("file.create", made).unwrap();
    let (is_whole, plan, told) = undone(&stage, &UNDO);
    assert_eq!((is_whole, &plan["not_kept"]), (true, &json!([])), "{told}");
    assert!(stage.text("own.md") == Some(whole));
}

#[test]
fn what_the_owner_lost_stands_first_in_what_is_not_in_the_history_and_both_ends_of_a_move_do() {
    let stage = Stage::new(&["--history-bytes", "4000"]);
    for number in 0..20 {
        stage.put(&format!("note{number}.md"), &format!("note {number}\n"));
    }
    let mut agent = stage.client("cursor");
    let create = |agent: &mut Http, path: &str| {
        agent.tool("file.create", json!({ "path": path, "content": "" })).unwrap()
    };
    for number in 0..100 {
        create(&mut agent, &format!("/own{number}"));
    }
    for number in 0..19 {
        removed(&mut agent, &format!("/note{number}.md"), &format!("note {number}\n"));
    }
    moved(&mut agent, "/note19.md", ("note 19\n", "/elsewhere.md"));
    let (is_whole, plan, told) = undone(&stage, &UNDO);
    assert!(!is_whole && told.contains("/note19.md to /elsewhere.md"), "{told}");
    let paths = plan["unrecorded"][0]["paths"].as_array().unwrap();
    let paths: Vec<&str> = paths.iter().map(|path| path.as_str().unwrap()).collect();
    let first_own = paths.iter().position(|path| path.starts_with("/own")).unwrap();
    let last_lost = paths.iter().rposition(|path| path.starts_with("/note")).unwrap();
    assert!(last_lost < first_own && paths.contains(&"/elsewhere.md"), "{paths:?}");
    for number in 0..20 {
        let note = format!("note{number}.md");
        let is_named = paths.contains(&&*format!("/{note}")) || told.contains(&format!("/{note}"));
        assert!(stage.text(&note).is_some() || is_named, "{note}: {told}");
    }
}

#[test]
fn a_change_that_only_the_agent_can_have_made_is_not_said_to_be_somebodys() {
    let stage = Stage::new(&["--history-bytes", "4000"]);
    stage.put("a.md", "one\n");
    let mut agent = stage.client("cursor");
    moved(&mut agent, "/a.md", ("one\n", "/b.md"));
    for number in 0..40 {
        stage.put(&format!("{number}.md"), "note\n");
        removed(&mut agent, &format!("/{number}.md"), "note\n");
    }
    let edit = json!({
        "path": "/b.md", "hash": hash("one\n"), "lines": [1, 0], "old": "one", "new": "two",
    });
    agent.tool("text.replace", edit).unwrap();
    let (_, _, told) = undone(&stage, &UNDO);
    let said = "/b.md cannot go back to /a.md, since it was changed since, maybe by a change that \
                is not in the history";
    assert!(told.contains(said), "{told}");
}
