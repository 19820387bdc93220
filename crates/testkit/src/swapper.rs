//! A thread that exchanges two file names again and again, as another program might.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use rustix::fs::{RenameFlags, renameat_with};

/// A thread that swaps two names of a folder until it is stopped.
#[derive(Debug)]
pub struct Swapper {
    stop: Arc<AtomicBool>,
    swaps: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Swapper {
    /// Starts to swap `one` and `other`, which must exist in `folder`.
    ///
    /// # Panics
    /// The folder cannot be opened.
    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    pub fn start(folder: &Path, one: &'static str, other: &'static str) -> Self {
        let folder = File::open(folder).expect("the folder can be opened");
        let (stop, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&swaps));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                if renameat_with(&folder, one, &folder, other, RenameFlags::EXCHANGE).is_ok() {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { stop, swaps, thread: Some(thread) }
    }

    /// Returns the number of swaps so far.
    pub fn swaps(&self) -> u64 {
        self.swaps.load(Ordering::Relaxed)
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
