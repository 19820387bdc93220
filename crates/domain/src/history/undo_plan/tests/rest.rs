//! Laws of what an undo leaves: nothing for a folder that only the undo made, nothing that is taken
//! back already, and each file once.

use super::*;

/// Takes all changes after `from` back, and returns the plan.
fn undo_after(world: &mut Recorded, from: usize) -> UndoPlan {
    let (changes, undone) = (world.changes[from..].to_vec(), world.changes.len());
    world.undo_again(&changes, undone)
}

#[test]
fn a_file_comes_back_although_the_undo_itself_makes_a_folder_at_its_path() {
    let mut world = Recorded::default();
    world.write(&path("/n"), hash(1));
    let first = world.disk.clone();
    let from = world.changes.len();
    world.remove(&path("/n"));
    world.write(&path("/n/a"), hash(2));
    world.act(&Deed::MoveFolder(path("/n"), path("/z")));
    let plan = undo_after(&mut world, from);
    let steps = ["move /z/a to /n/a", "remove /n/a", "remove folder /n", "restore /n"];
    assert_eq!(shown(&plan), (steps.map(str::to_owned).to_vec(), vec![]));
    assert_eq!(world.disk, first);
}

#[test]
fn a_file_that_an_earlier_undo_left_comes_back_once_its_path_is_free() {
    let mut world = Recorded::default();
    world.write(&path("/n"), hash(1));
    let first = world.disk.clone();
    let from = world.changes.len();
    world.remove(&path("/n"));
    world.write(&path("/n/a"), hash(2));
    world.act(&Deed::MoveFolder(path("/n"), path("/z")));
    let (changes, undone) = (world.changes[from..].to_vec(), world.changes.len());
    // The earlier undo goes back to the folder, and leaves the file.
    world.takes_back = Some(changes[2].number);
    world.rename(&path("/z/a"), &path("/n/a"));
    world.takes_back = Some(changes[1].number);
    world.remove(&path("/n/a"));
    world.remove_empty_folders();
    let plan = world.undo_again(&changes, undone);
    assert_eq!(plan.left, []);
    assert_eq!(world.disk, first);
}

#[test]
fn what_is_below_the_path_of_a_file_goes_before_the_file_comes_back() {
    let mut world = Recorded::default();
    world.write(&path("/n/a"), hash(1));
    let first = world.disk.clone();
    let from = world.changes.len();
    world.remove(&path("/n/a"));
    world.write(&path("/n/a/l"), hash(2));
    world.act(&Deed::MoveFolder(path("/n"), path("/l/n/b")));
    world.remove(&path("/l/n/b/a/l"));
    world.remove_empty_folders();
    world.write(&path("/n"), hash(3));
    // Carrying the plan out panics if a folder has the path of a file.
    let plan = undo_after(&mut world, from);
    assert_eq!(plan.left, [], "{plan:#?}");
    assert_eq!(world.disk, first);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]
    #[test]
    fn a_plan_names_a_folder_as_an_obstacle_only_if_it_was_there_before_the_undo(
        before in nested_deeds(),
        done in nested_deeds(),
    ) {
        let mut world = Recorded::default();
        before.iter().for_each(|deed| world.act(deed));
        let from = world.changes.len();
        done.iter().for_each(|deed| world.act(deed));
        let folders = world.folders.clone();
        let plan = undo_after(&mut world, from);
        for left in &plan.left {
            let place = left.to.as_ref().unwrap_or(&left.path);
            let is_folder = left.why == LeftReason::Blocked(Obstacle::NotAFile);
            prop_assert!(!is_folder || folders.contains(place), "{:#?}", plan);
        }
    }
}
