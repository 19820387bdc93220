//! What happens at every moment of a change: a kill, or what another caller does.

use std::collections::HashMap;

use super::moves::{EINVAL, WithoutFlags, all_texts, move_file};
use super::*;

/// Copies the files of a folder, with their modes and second names.
fn copy(from: &Path, to: &Path) {
    let mut copied: HashMap<u64, PathBuf> = HashMap::new();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let (metadata, target) = (entry.metadata().unwrap(), to.join(entry.file_name()));
        match copied.get(&metadata.ino()) {
            Some(first) => fs::hard_link(first, &target).unwrap(),
            None => {
                // An unfinished file cannot be read by its owner, and its content is of no use.
                let is_unfinished = metadata.mode() & 0o777 == UNFINISHED;
                let bytes =
                    if is_unfinished { Vec::new() } else { fs::read(entry.path()).unwrap() };
                fs::write(&target, bytes).unwrap();
                fs::set_permissions(&target, metadata.permissions()).unwrap();
                copied.insert(metadata.ino(), target);
            }
        }
    }
}

#[test]
fn a_kill_at_any_moment_of_a_change_loses_no_version_of_any_name() {
    type Act = fn(&Rig, &str) -> Result<(), Refusal>;
    let replace: Act = |rig, name| rig.replace(name, "x", "x", "y").map(|_| ());
    let rename: Act = |rig, name| move_file(rig, &format!("/{name}"), "x", "/to.md");
    let long = format!("{}.md", "long ".repeat(40));
    for (change, lacks, name) in [replace, rename].into_iter().flat_map(|change| {
        [(false, "a.md"), (false, &*long), (true, "a.md"), (true, &*long)]
            .map(|(lacks, name)| (change, lacks, name))
    }) {
        for moment in 0.. {
            assert!(moment < 100, "a change has fewer moments");
            let _lacking = lacks.then(|| WithoutFlags::answering(EINVAL));
            let rig = if lacks { Rig::without_exchange() } else { Rig::new() };
            rig.put(name, "x");
            let killed = tempfile::tempdir().unwrap();
            let (from, to) = (rig.folder.path().to_owned(), killed.path().to_owned());
            fault::on_call(moment, move || copy(&from, &to));
            change(&rig, name).unwrap();
            fault::on_call(u32::MAX, || {});
            if fs::read_dir(killed.path()).unwrap().next().is_none() {
                break;
            }
            let again = Rig::on_any(killed);
            let (texts, visible) = (all_texts(&again), again.visible());
            let is_there = |text: &str| texts.iter().any(|found| found == text);
            assert!(is_there("x") || is_there("y"), "{name} {moment}: {visible:?}");
            assert_eq!(again.hidden(), Vec::<String>::new(), "{name} {moment}");
            if name != long {
                assert_eq!(visible.len(), 1, "{moment}: {visible:?}");
                assert!(visible[0] == name || visible[0] == "to.md", "{moment}: {visible:?}");
            }
        }
    }
}

#[test]
fn a_folder_that_another_caller_takes_back_is_made_again_for_a_new_file() {
    for moment in 0..100 {
        let rig = Rig::new();
        let made = rig.folder.path().join("new");
        fault::on_call(moment, move || drop(fs::remove_dir(made)));
        rig.inner().create(&path("/new/a.md"), b"x").unwrap();
        fault::on_call(u32::MAX, || {});
        assert_eq!(fs::read(rig.folder.path().join("new/a.md")).unwrap(), b"x", "{moment}");
    }
}
