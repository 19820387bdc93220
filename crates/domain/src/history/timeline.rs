//! One thing about a file through all changes: its path, or its content.
//!
//! Each value stands with the change that made it. An undo gives back an earlier value, so the
//! value counts as that of the change which made it first, and not as one of the undo. A value that
//! no change made was there before, or is of a person, who works without the history.

use std::collections::BTreeSet;

use super::past_change::ChangeNumber;

/// The number of a caller among all who made changes.
pub(super) type CallerNumber = usize;

/// One value after the other.
#[derive(Clone, Debug)]
pub(super) struct Timeline<V> {
    entries: Vec<Entry<V>>,
}

/// A value of a timeline.
#[derive(Clone, Debug)]
struct Entry<V> {
    value: V,
    /// The change that made the value, or before which it was found.
    number: ChangeNumber,
    /// Whether the change made it. Otherwise nobody knows what did.
    is_recorded: bool,
    /// Who made the change.
    by: Option<CallerNumber>,
    /// The place of the entry that made the value first: this one, or an earlier one.
    source: usize,
}

/// What taking changes back makes of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Back {
    /// The changes that are taken back, the latest first.
    pub(super) changes: Vec<ChangeNumber>,
    /// The place of the entry that is left then.
    place: usize,
}

/// A change that cannot be taken back, since others made something of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Buried<V> {
    /// The change.
    pub(super) number: ChangeNumber,
    /// The value that the change made.
    pub(super) made: V,
    /// The value without the change.
    pub(super) without: V,
    /// The first change after it that is not to be taken back; `None` if nobody knows what it was.
    pub(super) by: Option<ChangeNumber>,
}

impl<V: Clone + PartialEq> Timeline<V> {
    /// Begins with a value that was there before all changes.
    pub(super) fn of(value: V, number: ChangeNumber) -> Self {
        Self { entries: vec![Entry { value, number, is_recorded: false, by: None, source: 0 }] }
    }

    fn entry(&self, place: usize) -> Option<&Entry<V>> {
        self.entries.get(place)
    }

    fn last(&self) -> usize {
        self.entries.len() - 1
    }

    /// Returns the value after all changes.
    pub(super) fn value(&self) -> Option<&V> {
        self.entries.last().map(|entry| &entry.value)
    }

    /// Returns the first value, and the number before all changes.
    pub(super) fn first(&self) -> Option<(&V, ChangeNumber)> {
        self.entries.first().map(|entry| (&entry.value, entry.number))
    }

    /// Returns the change that made the value which is left once changes are taken back; `None` if
    /// nobody knows what did.
    pub(super) fn made_left(&self, back: &Back) -> Option<ChangeNumber> {
        let source = self.entry(self.entry(back.place)?.source)?;
        source.is_recorded.then_some(source.number)
    }

    /// Returns the place of the entry before that of a change.
    fn place_before(&self, number: ChangeNumber) -> Option<usize> {
        let place = self.entries.iter().position(|it| it.is_recorded && it.number == number)?;
        place.checked_sub(1)
    }

    /// Returns the value that a change made.
    pub(super) fn value_of(&self, number: ChangeNumber) -> Option<&V> {
        let made = self.entries.iter().find(|it| it.is_recorded && it.number == number);
        made.map(|entry| &entry.value)
    }

    /// Returns the change that made the value which is there after all changes; `None` if nobody
    /// knows what did.
    pub(super) fn made_by(&self) -> Option<ChangeNumber> {
        let source = self.entry(self.entries.last()?.source)?;
        source.is_recorded.then_some(source.number)
    }

    /// Returns the change that made the value which is left once changes are taken back, or before
    /// which it was found.
    pub(super) fn number_left(&self, back: &Back) -> Option<ChangeNumber> {
        self.entry(self.entry(back.place)?.source).map(|entry| entry.number)
    }

    fn push(
        &mut self,
        (value, number): (V, ChangeNumber),
        is_recorded: bool,
        source: Option<usize>,
    ) {
        let source = source.unwrap_or(self.entries.len());
        self.entries.push(Entry { value, number, is_recorded, by: None, source });
    }

    /// Adds what a change made.
    pub(super) fn change(&mut self, value: V, number: ChangeNumber, by: CallerNumber) {
        self.push((value, number), true, None);
        if let Some(entry) = self.entries.last_mut() {
            entry.by = Some(by);
        }
    }

    /// Adds what a change found, if it is another value than the one before. It may be an earlier
    /// one: then the changes in between were not made, or somebody took them back by hand.
    pub(super) fn find(&mut self, value: V, number: ChangeNumber) {
        if self.value() != Some(&value) {
            let earlier = self.earlier(&value);
            self.push((value, number), false, earlier);
        }
    }

    /// Adds what an undo made that took back all changes since `first`.
    pub(super) fn give_back(&mut self, value: V, number: ChangeNumber, first: ChangeNumber) {
        let before = self.entries.iter().rposition(|entry| entry.number < first);
        let is_it = |place: &usize| self.entry(*place).is_some_and(|entry| entry.value == value);
        let place = before.filter(is_it).or_else(|| self.earlier(&value));
        let source = place.and_then(|place| self.entry(place)).map(|entry| entry.source);
        // It may be a value of before all that is known.
        let source = source.or(before.is_none().then_some(0));
        self.push((value, number), true, source);
    }

    /// Adds what an undo made that took away what it had made itself.
    pub(super) fn take_away(&mut self, value: V, number: ChangeNumber) {
        let first = self.entries.last().map_or(number, |entry| entry.number);
        self.give_back(value, number, first);
    }

    /// Goes back to the value before `first`, as an undo does that leaves nothing at a path.
    pub(super) fn go_back(&mut self, number: ChangeNumber, first: ChangeNumber) {
        let before = self.entries.iter().rfind(|entry| entry.number < first);
        let before = before.map(|entry| (entry.value.clone(), entry.source));
        if let Some((value, source)) = before.filter(|(value, _)| self.value() != Some(value)) {
            self.push((value, number), true, Some(source));
        }
    }

    /// Returns the place of the nearest entry below the last one with a value. What an undo took
    /// back is not below.
    fn earlier(&self, value: &V) -> Option<usize> {
        let mut place = self.below(self.last())?;
        while self.entry(place)?.value != *value {
            place = self.below(place)?;
        }
        Some(self.entry(place)?.source)
    }

    /// Returns the place of the entry whose value was there before that of an entry.
    fn below(&self, place: usize) -> Option<usize> {
        self.entry(place)?.source.checked_sub(1)
    }

    /// Returns the change of an entry that is asked for, and the place of the entry before: the
    /// entry's own change, or the one that made its value first.
    fn step(&self, place: usize, asked: &BTreeSet<ChangeNumber>) -> Option<(ChangeNumber, usize)> {
        [Some(place), self.entry(place).map(|entry| entry.source)].into_iter().flatten().find_map(
            |place| {
                let entry = self.entry(place).filter(|it| it.is_recorded)?;
                let before = place.checked_sub(1)?;
                asked.contains(&entry.number).then_some((entry.number, before))
            },
        )
    }

    /// Takes the changes back that are asked for, as far as no other change is above them.
    pub(super) fn back(&self, asked: &BTreeSet<ChangeNumber>) -> Back {
        self.back_from(self.last(), asked)
    }

    /// As `back`, and leaves out the changes before the value was the same as the one that is left.
    pub(super) fn back_at_once(&self, asked: &BTreeSet<ChangeNumber>) -> Back {
        let mut back = self.back(asked);
        let mut way = Back { changes: Vec::new(), place: self.last() };
        for number in std::mem::take(&mut back.changes) {
            if self.left(&way) == self.left(&back) {
                break;
            }
            way.place = self.place_before(number).unwrap_or(way.place);
            way.changes.push(number);
        }
        back.changes = way.changes;
        back
    }

    /// As `back`, and stops before the first of the changes that left `nothing` at its beginning.
    pub(super) fn back_to_some(&self, asked: &BTreeSet<ChangeNumber>, nothing: &V) -> Back {
        let mut back = self.back(asked);
        let mut way = Back { changes: Vec::new(), place: self.last() };
        for number in std::mem::take(&mut back.changes) {
            let place = self.place_before(number).unwrap_or(way.place);
            way.changes.push(number);
            way.place = place;
            if self.left(&way) != Some(nothing) {
                back = Back { changes: way.changes.clone(), place };
            }
        }
        back
    }

    /// As `back`, and goes on through changes of others to the first change that is asked for whose
    /// value before was the same as the one that is left.
    pub(super) fn back_to_first(&self, asked: &BTreeSet<ChangeNumber>) -> Back {
        let mut back = self.back(asked);
        let (mut above, wanted) = (back.place, self.left(&back));
        while let Some(place) = self.below(above).filter(|_| !back.changes.is_empty()) {
            let mut further = self.back_from(place, asked);
            if !further.changes.is_empty() && self.left(&further) == wanted {
                further.changes = [back.changes, further.changes].concat();
                back = further;
                above = back.place;
            } else {
                above = place;
            }
        }
        back
    }

    fn back_from(&self, place: usize, asked: &BTreeSet<ChangeNumber>) -> Back {
        let mut back = Back { changes: Vec::new(), place };
        loop {
            let steps = self.step(back.place, asked).or_else(|| {
                let place = self.before_turn(back.place, asked)?;
                self.step(place, asked)
            });
            let Some((number, before)) = steps else { return back };
            back.changes.push(number);
            back.place = before;
        }
    }

    /// Returns the place of the entry with the same value from which one caller, whose changes are
    /// not asked for, went away and to which it came back.
    fn before_turn(&self, place: usize, asked: &BTreeSet<ChangeNumber>) -> Option<usize> {
        let by = |place: usize| self.entry(self.entry(place)?.source)?.by;
        let turned = by(place)?;
        let mut before = place;
        while by(before) == Some(turned) && self.step(before, asked).is_none() {
            before = self.below(before)?;
        }
        (self.entry(before)?.value == self.entry(place)?.value).then_some(before)
    }

    /// Returns the value that is left once changes are taken back.
    pub(super) fn left(&self, back: &Back) -> Option<&V> {
        self.entry(back.place).map(|entry| &entry.value)
    }

    /// Returns the nearest change that is asked for below what is left.
    pub(super) fn buried(&self, back: &Back, asked: &BTreeSet<ChangeNumber>) -> Option<Buried<V>> {
        let mut above = back.place;
        loop {
            let place = self.below(above)?;
            if let Some((number, _)) = self.step(place, asked) {
                let source = self.entry(self.entry(above)?.source)?;
                return Some(Buried {
                    number,
                    made: self.entry(place)?.value.clone(),
                    without: self.left(&self.back_from(place, asked))?.clone(),
                    by: source.is_recorded.then_some(source.number),
                });
            }
            above = place;
        }
    }
}
