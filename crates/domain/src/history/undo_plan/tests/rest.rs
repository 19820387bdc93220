//! Laws of what an undo leaves: nothing for a folder that only the undo made, nothing that is taken
//! back already, and each file once.

use super::*;

/// Takes all changes after `from` back, and returns the plan.
fn undo_after(world: &mut Recorded, from: usize) -> UndoPlan {
    let changes = world.changes[from..].to_vec();
    world.undo(&changes)
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
    let changes = world.changes[from..].to_vec();
    // The earlier undo goes back to the folder, and leaves the file.
    world.takes_back = Some(changes[2].number);
    world.rename(&path("/z/a"), &path("/n/a"));
    world.takes_back = Some(changes[1].number);
    world.remove(&path("/n/a"));
    world.remove_empty_folders();
    let plan = world.undo(&changes);
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
            // Or if it holds a file that is named itself.
            let holds = |other: &LeftChange| other.path != *place && place.covers(&other.path);
            let is_true = folders.contains(place) || plan.left.iter().any(holds);
            prop_assert!(!is_folder || is_true, "{:#?}", plan);
        }
    }
}

/// Two agents change a note in turn: the first one makes versions 2 and 4, the other one 3 and 5.
fn in_turn(note: &SpacePath) -> TwoAgents {
    let deeds = [0, 1, 0, 1].into_iter().zip(2..);
    let deeds = deeds.map(|(agent, version)| (agent, Deed::Write(note.clone(), version)));
    TwoAgents::after(&[Deed::Write(note.clone(), 1)], &deeds.collect::<Vec<_>>())
}

#[test]
fn a_change_that_an_earlier_undo_took_back_is_not_left() {
    let note = path("/a");
    let mut agents = in_turn(&note);
    // What the other agent changed in between stays at first, and is named.
    assert_eq!(agents.undo(1).left.len(), 1);
    assert_eq!(agents.undo(0).left.len(), 1);
    for agent in [1, 0] {
        let plan = agents.undo(agent);
        assert_eq!((plan.steps.len(), plan.left), (1, vec![]));
    }
    for agent in [1, 0, 0, 1] {
        let plan = agents.undo(agent);
        assert_eq!((plan.steps, plan.left), (vec![], vec![]));
    }
    assert_eq!(agents.world.disk.get(&note), Some(&hash(1)));
    // What a person does with the file afterwards has nothing to do with either agent.
    for version in [Some(hash(9)), None] {
        agents.world.disk.remove(&note);
        agents.world.disk.extend(version.map(|version| (note.clone(), version)));
        for agent in [0, 1] {
            let plan = agents.undo(agent);
            assert_eq!((plan.steps, plan.left), (vec![], vec![]));
        }
    }
}

#[test]
fn an_undo_of_both_agents_took_back_the_changes_of_each() {
    let note = path("/a");
    let mut agents = in_turn(&note);
    let all = agents.world.changes[1..].to_vec();
    agents.world.undo(&all);
    for agent in [0, 1] {
        let plan = agents.undo(agent);
        assert_eq!((plan.steps, plan.left), (vec![], vec![]));
    }
}

#[test]
fn a_change_whose_undo_was_taken_back_is_left_if_somebody_changed_its_file_since() {
    for is_move in [false, true] {
        let mut world = Recorded::default();
        world.write(&path("/a"), hash(1));
        let from = world.changes.len();
        let place = if is_move { path("/b") } else { path("/a") };
        match is_move {
            true => world.rename(&path("/a"), &place),
            false => world.write(&place, hash(2)),
        }
        let (changes, undone) = (world.changes[from..].to_vec(), world.changes.len());
        assert_eq!(world.undo(&changes).left, []);
        let undo = world.changes[undone..].to_vec();
        assert_eq!(world.undo(&undo).left, []);
        world.disk.insert(place.clone(), hash(9));
        let (steps, left) = shown(&world.undo(&changes));
        assert_eq!((steps.len(), left), (0, vec![format!("{place}: ChangedSince")]));
    }
}

#[test]
fn a_file_with_many_changes_is_left_once() {
    let mut world = Recorded::default();
    world.write(&path("/a"), hash(1));
    let from = world.changes.len();
    (2..9).for_each(|version| world.write(&path("/a"), hash(version)));
    world.disk.insert(path("/a"), hash(99));
    let (_, left) = shown(&undo_after(&mut world, from));
    assert_eq!(left, ["/a: ChangedSince"]);
}

#[test]
fn an_undo_needs_no_version_between_what_is_there_and_what_is_wanted() {
    for is_removed in [false, true] {
        let mut world = Recorded::default();
        world.write(&path("/a"), hash(1));
        let first = world.disk.clone();
        let from = world.changes.len();
        world.write(&path("/a"), hash(2));
        world.rename(&path("/a"), &path("/b"));
        world.write(&path("/b"), hash(3));
        world.rename(&path("/b"), &path("/a"));
        world.write(&path("/a"), hash(4));
        world.rename(&path("/a"), &path("/b"));
        if is_removed {
            world.remove(&path("/b"));
        }
        world.lacking = vec![hash(2), hash(3)];
        let changes = world.changes[from..].to_vec();
        let plan = world.undo(&changes);
        assert_eq!(plan.left, [], "{plan:#?}");
        assert_eq!(world.disk, first);
        let again = world.undo(&changes);
        assert_eq!((again.steps, again.left), (vec![], vec![]));
    }
}

#[test]
fn a_created_file_that_somebody_moved_is_named_until_it_is_gone() {
    let (note, moved) = (path("/k/n"), path("/z"));
    let deeds = [(0, Deed::Write(note.clone(), 1)), (1, Deed::Move(note, moved.clone()))];
    let mut agents = TwoAgents::after(&[], &deeds);
    let plan = agents.undo(0);
    let told: Vec<String> = plan
        .left
        .iter()
        .map(|left| format!("{} {}", left.path, left.text(&ShownPaths::default())))
        .collect();
    assert_eq!((plan.steps, told.len()), (vec![], 1));
    assert_eq!(told, ["/k/n is not there any more; it is at /z now"]);
    for agent in [1, 0] {
        let plan = agents.undo(agent);
        assert_eq!((plan.steps.is_empty(), plan.left), (false, vec![]));
    }
    assert_eq!(agents.world.disk, Disk::new());
    for agent in [0, 1] {
        assert_eq!(agents.undo(agent), UndoPlan::default());
    }
    // Nothing is to be done once somebody removed the file.
    let mut agents = TwoAgents::after(&[], &deeds);
    agents.world.disk.remove(&moved);
    assert_eq!(agents.undo(0), UndoPlan::default());
}

#[test]
fn a_created_file_that_its_own_agent_moved_is_not_named_twice() {
    let [note, middle, last] = ["/n", "/m", "/z"].map(path);
    let deeds = [
        (0, Deed::Write(note.clone(), 1)),
        (0, Deed::Move(note, middle.clone())),
        (1, Deed::Move(middle, last)),
    ];
    let left = shown(&TwoAgents::after(&[], &deeds).undo(0)).1;
    assert_eq!(left, ["/n: MovedSince"]);
}

/// An agent edited a note, another one removed it, and the agent made one with the content that it
/// had at first. Once all is taken back, nothing is to be done.
#[test]
fn a_file_that_is_back_is_not_taken_for_one_of_the_same_content() {
    let f = path("/f");
    let mut world = Recorded::default();
    world.write(&f, hash(1));
    let from = world.changes.len();
    world.write(&f, hash(2));
    world.remove(&f);
    world.write(&f, hash(1));
    let [edited, removed, made] = &world.changes[from..] else { panic!() };
    let (one, other) = (vec![edited.clone(), made.clone()], vec![removed.clone()]);
    for _ in 0..2 {
        world.undo(&one);
        world.undo(&other);
    }
    for changes in [&one, &other] {
        assert_eq!(world.undo(changes), UndoPlan::default());
    }
    assert_eq!(world.disk, Disk::from([(f, hash(1))]));
}

/// What two agents did to the same files.
#[derive(Clone)]
struct Turns {
    world: Recorded,
    first: Disk,
    of_agents: [Vec<PastChange>; 2],
}

/// Two agents by turns, with few files and contents, so that they often meet.
fn turns() -> impl Strategy<Value = Turns> {
    let deeds_by_turns = || deeds_at(&["/a", "/b", "/c"]);
    let done = prop::collection::vec((any::<bool>(), deeds_by_turns()), 0..6);
    (deeds(), done).prop_map(|(before, done)| {
        let mut world = Recorded::default();
        before.iter().for_each(|deed| world.act(deed));
        let first = world.disk.clone();
        let mut of_agents = [Vec::new(), Vec::new()];
        for (is_other, deeds) in done {
            let from = world.changes.len();
            world.agent = 1 + usize::from(is_other);
            deeds.iter().take(3).for_each(|deed| world.act(deed));
            of_agents[usize::from(is_other)].extend_from_slice(&world.changes[from..]);
        }
        Turns { world, first, of_agents }
    })
}

impl std::fmt::Debug for Turns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = |change: &PastChange| self.of_agents.iter().position(|it| it.contains(change));
        for change in &self.world.changes {
            let version = change.after.or(change.before).map(|it| it.to_string()[..4].to_owned());
            let PastChange { number, takes_back, .. } = change;
            let (what, by) = (change.in_words(), of(change));
            writeln!(f, "{number} {by:?} {what} {version:?} takes back {takes_back:?}")?;
        }
        Ok(())
    }
}

impl Turns {
    fn undo(&mut self, agent: usize) -> UndoPlan {
        self.world.undo(&self.of_agents[agent])
    }

    /// Returns the files of before that are not back.
    fn lacking(&self) -> Vec<SpacePath> {
        let is_back = |path: &SpacePath, version| self.world.disk.get(path) == Some(version);
        let lacking = self.first.iter().filter(|(path, version)| !is_back(path, version));
        lacking.map(|(path, _)| path.clone()).collect()
    }
}

proptest! {
    /// Undos by turns come to an end, and what is not back then is named.
    #[test]
    fn undos_of_two_agents_by_turns_give_everything_back_or_name_it(
        mut turns in turns(),
        order in prop::sample::select(vec![[0, 1], [1, 0]]),
    ) {
        let mut rounds = 0;
        let left = loop {
            let plans = order.map(|agent| turns.undo(agent));
            if plans.iter().all(|plan| plan.steps.is_empty()) {
                break plans.map(|plan| plan.left).concat();
            }
            rounds += 1;
            prop_assert!(rounds < 20, "{:#?}", plans);
        };
        for path in turns.lacking() {
            let is_named = left.iter().any(|it| it.path == path || it.to.as_ref() == Some(&path));
            prop_assert!(is_named, "{} {:#?} {:#?}", path, left, turns);
        }
    }

    /// Once each agent's work is taken back and nothing is named, the files of before are there.
    #[test]
    fn two_undos_that_name_nothing_give_all_files_of_before_back(
        mut turns in turns(),
        order in prop::sample::select(vec![[0, 1], [1, 0]]),
    ) {
        let plans = order.map(|agent| turns.undo(agent));
        if plans.iter().all(|plan| plan.left.is_empty()) {
            prop_assert_eq!(&turns.lacking(), &[], "{:#?} {:#?}", plans, turns);
        }
    }

    #[test]
    fn an_undo_of_one_of_two_agents_that_is_run_again_changes_nothing(
        mut turns in turns(),
        agents in prop::collection::vec(0_usize..2, 1..4),
    ) {
        for agent in agents {
            turns.undo(agent);
            let again = turns.undo(agent);
            prop_assert_eq!(&again.steps, &[], "{:#?}", turns);
        }
    }
}
