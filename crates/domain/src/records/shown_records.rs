//! Which records a call showed, counted by stream, for the journal.
//!
//! The journal says of how many records of a stream a caller saw something. It never names one.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash as _, Hasher as _};

use serde::{Deserialize, Serialize};

/// The most streams of one call that are counted apart.
const MAX_STREAMS: usize = 32;

/// How many records of one stream of a connection a call showed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StreamTally {
    /// The connection that the records are from.
    pub connection: String,
    /// The name of the stream.
    pub stream: String,
    /// The number of different records.
    pub records: u64,
}

/// The records that a call showed so far. A record that is shown twice counts once.
#[derive(Debug, Default)]
pub struct ShownRecords {
    streams: BTreeMap<(String, String), HashSet<u64>>,
}

impl ShownRecords {
    /// Adds a record. `stream` is its connection and its stream.
    pub fn add(&mut self, (connection, stream): (&str, &str), key: &str) {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let of = (connection.to_owned(), stream.to_owned());
        if self.streams.len() < MAX_STREAMS || self.streams.contains_key(&of) {
            self.streams.entry(of).or_default().insert(hasher.finish());
        }
    }

    /// Adds the records that another request showed.
    pub fn add_all(&mut self, other: Self) {
        for (stream, keys) in other.streams {
            if self.streams.len() < MAX_STREAMS || self.streams.contains_key(&stream) {
                self.streams.entry(stream).or_default().extend(keys);
            }
        }
    }

    /// Returns how many records of each stream were shown, by connection and stream.
    pub fn tally(&self) -> Vec<StreamTally> {
        let count =
            |((connection, stream), keys): (&(String, String), &HashSet<u64>)| StreamTally {
                connection: connection.clone(),
                stream: stream.clone(),
                records: keys.len() as u64,
            };
        self.streams.iter().map(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_shown_twice_counts_once() {
        let mut shown = ShownRecords::default();
        for (stream, key) in [("mail", "a"), ("mail", "b"), ("mail", "a"), ("chat", "a")] {
            shown.add(("phone", stream), key);
        }
        let tally = |stream: &str, records| StreamTally {
            connection: "phone".to_owned(),
            stream: stream.to_owned(),
            records,
        };
        assert_eq!(shown.tally(), [tally("chat", 1), tally("mail", 2)]);
        (0..100).for_each(|number| shown.add(("phone", &number.to_string()), "a"));
        assert_eq!(shown.tally().len(), MAX_STREAMS);
    }
}
