//! A value that is made when it is first needed, and then kept.
//!
//! A program that answers its first questions without a file or a database should open neither
//! before. What opens one is given here, runs in the first call that needs the value, and runs
//! again in a later call if it failed. Calls that need the value meanwhile wait for it.

use std::sync::{Mutex, OnceLock, PoisonError};

/// What makes the value.
type Make<T, E> = Box<dyn FnMut() -> Result<T, E> + Send>;

/// A value that the first [`OnFirstUse::get`] makes.
pub struct OnFirstUse<T, E> {
    value: OnceLock<T>,
    /// `None` once there is a value.
    make: Mutex<Option<Make<T, E>>>,
}

impl<T, E> OnFirstUse<T, E> {
    /// Keeps `make` for the first use.
    pub fn new(make: impl FnMut() -> Result<T, E> + Send + 'static) -> Self {
        Self { value: OnceLock::new(), make: Mutex::new(Some(Box::new(make))) }
    }

    /// Keeps a value that is there already.
    pub fn made(value: T) -> Self {
        Self { value: OnceLock::from(value), make: Mutex::new(None) }
    }

    /// Returns the value, after making it if this is the first use.
    ///
    /// # Errors
    /// The error of what makes the value. The next call tries again.
    pub fn get(&self) -> Result<&T, E> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let mut make = self.make.lock().unwrap_or_else(PoisonError::into_inner);
        match make.as_mut() {
            // Another call made the value while this one waited.
            None => Ok(self.value.wait()),
            Some(run) => {
                let value = run()?;
                let value = self.value.get_or_init(|| value);
                *make = None;
                Ok(value)
            }
        }
    }

    /// Returns the value; `None` before the first use.
    pub fn if_made(&self) -> Option<&T> {
        self.value.get()
    }

    /// Returns the value to change it; `None` before the first use.
    #[cfg(test)]
    pub(crate) fn if_made_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut()
    }
}

impl<T, E> std::fmt::Debug for OnFirstUse<T, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_made = self.value.get().is_some();
        f.debug_struct("OnFirstUse").field("is_made", &is_made).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_value_is_made_once_whoever_asks_and_not_before() {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let value = OnFirstUse::<usize, ()>::new(move || Ok(count.fetch_add(1, Ordering::SeqCst)));
        assert_eq!((value.if_made(), made.load(Ordering::SeqCst)), (None, 0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(value.get(), Ok(&0)));
            }
        });
        assert_eq!((value.if_made(), made.load(Ordering::SeqCst)), (Some(&0), 1));
    }

    #[test]
    fn after_a_failure_the_next_use_tries_again() {
        let mut tries = 0;
        let value = OnFirstUse::new(move || {
            tries += 1;
            if tries < 3 { Err(tries) } else { Ok(tries) }
        });
        assert_eq!(value.get(), Err(1));
        assert_eq!(value.get(), Err(2));
        assert_eq!(value.get(), Ok(&3));
        assert_eq!(value.get(), Ok(&3));
    }
}
