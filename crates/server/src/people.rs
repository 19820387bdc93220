//! The people whom one server serves, each with a service of their own: their space and their
//! records.
//!
//! The verified subject of a token says whose service answers. A service is opened when its person
//! first calls, and closed when others need the room, but never while a request uses it. Where its
//! folder is not the one any more that was opened, it is opened anew.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use stile_store::space::Space;

use crate::owned_space::OwnedSpace;
use crate::service::Service;

/// The most services that are open and that no request uses.
const MOST_OPEN: usize = 256;

/// A person's service could not be opened. The log says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable;

/// Opens what a subject has. Blocks.
pub type OpenPerson = Box<dyn Fn(&str) -> Result<Person, Unavailable> + Send + Sync>;

/// The services of all people.
pub struct People {
    open: OpenPerson,
    known: Mutex<HashMap<String, Known>>,
}

/// The service of one person. It stays open for as long as a request holds it.
pub struct Person {
    /// What the person is offered.
    pub service: Service,
    /// The person's space, for the person's own pages.
    pub owned: Option<OwnedSpace>,
    /// The person's folder, which a request looks for again where it is not any more; `None` for
    /// people without files.
    pub space: Option<Space>,
    /// Whether the service stays open for the next request.
    pub stays_open: bool,
}

impl Person {
    /// Whether the folder that was opened is the one at its place. Blocks at most once in a second.
    fn is_in_place(&self) -> bool {
        let Some(space) = &self.space else { return true };
        space.was_in_place() || tokio::task::block_in_place(|| space.is_in_place())
    }
}

struct Known {
    person: Arc<Person>,
    used: Instant,
}

impl std::fmt::Debug for People {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("People").finish_non_exhaustive()
    }
}

impl People {
    /// Opens each person's service with `open`.
    pub fn new(open: OpenPerson) -> Arc<Self> {
        Arc::new(Self { open, known: Mutex::default() })
    }

    /// Returns the service of a subject, after opening it if needed. A runtime of several threads
    /// gives its other futures to another thread meanwhile.
    ///
    /// # Errors
    /// [`Unavailable`] if the service cannot be opened.
    pub fn of(&self, subject: &str) -> Result<Arc<Person>, Unavailable> {
        let now = Instant::now();
        let known = self.lock().get_mut(subject).map(|known| {
            known.used = now;
            Arc::clone(&known.person)
        });
        if let Some(person) = known {
            if person.is_in_place() {
                return Ok(person);
            }
            self.close(subject, person);
        }
        let person = Arc::new(tokio::task::block_in_place(|| (self.open)(subject))?);
        if !person.stays_open {
            return Ok(person);
        }
        let mut known = self.lock();
        // Another request may have been faster.
        let entry = known.entry(subject.to_owned()).or_insert(Known { person, used: now });
        let person = Arc::clone(&entry.person);
        let closed = make_room(&mut known);
        drop(known);
        // A service closes its files when it is dropped, which may block.
        drop(closed);
        Ok(person)
    }

    /// Closes the service of a person whose folder was moved or replaced, so that what is at its
    /// place now is opened, or refused.
    fn close(&self, subject: &str, moved: Arc<Person>) {
        let mut all = self.lock();
        let is_it = all.get(subject).is_some_and(|known| Arc::ptr_eq(&known.person, &moved));
        let closed = if is_it { all.remove(subject) } else { None };
        drop(all);
        tokio::task::block_in_place(|| drop((closed, moved)));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes out the services that no request uses and that were used least recently, if there are too
/// many.
fn make_room(known: &mut HashMap<String, Known>) -> Vec<Known> {
    let surplus = known.len().saturating_sub(MOST_OPEN);
    if surplus == 0 {
        return Vec::new();
    }
    let mut idle: Vec<(Instant, String)> = known
        .iter()
        .filter(|(_, known)| Arc::strong_count(&known.person) == 1)
        .map(|(subject, known)| (known.used, subject.clone()))
        .collect();
    idle.sort_unstable();
    idle.into_iter().take(surplus).filter_map(|(_, subject)| known.remove(&subject)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn people(opened: &Arc<AtomicUsize>) -> Arc<People> {
        let opened = Arc::clone(opened);
        People::new(Box::new(move |subject| {
            opened.fetch_add(1, Ordering::Relaxed);
            match subject {
                "nobody" => Err(Unavailable),
                _ => Ok(Person {
                    service: Service::default(),
                    owned: None,
                    space: None,
                    stays_open: subject != "brief",
                }),
            }
        }))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_service_is_opened_once_and_stays_while_it_is_used() {
        let opened = Arc::default();
        let people = people(&opened);
        let held = people.of("ann").unwrap();
        for number in 0..2 * MOST_OPEN {
            people.of(&number.to_string()).unwrap();
        }
        assert!(Arc::ptr_eq(&people.of("ann").unwrap(), &held), "a request holds it");
        assert!(people.lock().len() <= MOST_OPEN + 1);
        assert_eq!(opened.load(Ordering::Relaxed), 2 * MOST_OPEN + 1);
        people.of("0").unwrap();
        assert_eq!(opened.load(Ordering::Relaxed), 2 * MOST_OPEN + 2, "it was closed meanwhile");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_service_that_does_not_stay_open_is_opened_for_each_request() {
        let opened = Arc::default();
        let people = people(&opened);
        for _ in 0..2 {
            people.of("brief").unwrap();
        }
        assert_eq!(opened.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_service_that_cannot_be_opened_is_tried_again() {
        let opened = Arc::default();
        let people = people(&opened);
        assert!(people.of("nobody").is_err());
        assert!(people.of("nobody").is_err());
        assert_eq!(opened.load(Ordering::Relaxed), 2);
    }
}
