//! Entries that take turns.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Entries by name, with an order in which those that wait take turns.
pub(super) struct Turns<T> {
    pub(super) by_name: HashMap<Arc<str>, T>,
    pub(super) order: VecDeque<Arc<str>>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { by_name: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T: Default> Turns<T> {
    /// Returns the entry, which comes last in the order if it is new.
    pub(super) fn entry(&mut self, name: &Arc<str>) -> &mut T {
        if !self.by_name.contains_key(name) {
            self.order.push_back(Arc::clone(name));
        }
        self.by_name.entry(Arc::clone(name)).or_default()
    }

    /// Removes an entry, which loses its place in the order.
    pub(super) fn remove(&mut self, name: &Arc<str>) {
        self.by_name.remove(name);
        self.order.retain(|other| other != name);
    }

    /// Returns the first result that `take` finds in the order, and puts its entry last.
    pub(super) fn next<R>(
        &mut self,
        mut take: impl FnMut(&Arc<str>, &mut T) -> Option<R>,
    ) -> Option<R> {
        for position in 0..self.order.len() {
            let name = self.order.get(position)?;
            let found = self.by_name.get_mut(name).and_then(|entry| take(name, entry));
            if found.is_some() {
                let name = self.order.remove(position)?;
                self.order.push_back(name);
                return found;
            }
        }
        None
    }
}
