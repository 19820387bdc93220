//! Forms of pages that make something are used once: a browser that sends one again, as after a
//! reload, makes nothing more.
//!
//! A form has a random number, and the server remembers the numbers of the latest forms that made
//! something. The memory is of one server. A restart forgets it, and several servers do not share
//! it: then a form that is sent again makes a second thing.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// How many numbers are remembered.
const REMEMBERED: usize = 1000;

/// The numbers of the latest forms that made something.
#[derive(Debug, Default)]
pub struct UsedForms(Mutex<VecDeque<String>>);

impl UsedForms {
    /// Remembers a number. Returns whether it is new.
    pub fn add(&self, number: &str) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.iter().any(|used| used == number) {
            return false;
        }
        all.push_back(number.to_owned());
        if all.len() > REMEMBERED {
            all.pop_front();
        }
        true
    }

    /// Forgets a number whose form made nothing after all.
    pub fn remove(&self, number: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|used| used != number);
    }
}
