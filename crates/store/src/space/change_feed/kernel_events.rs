//! The kernel's events of folders: inotify.
//!
//! A folder is watched by its open handle, through the name that `/proc` gives the handle, so no
//! path is resolved again. *Source*: inotify(7).

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

/// A folder that the kernel watches. All watches of one folder are the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::space) struct FolderWatch(i32);

/// What the kernel reports.
#[derive(Debug)]
pub(in crate::space) enum KernelEvent {
    /// Something happened to this name in the folder.
    Named(FolderWatch, String),
    /// The folder was removed, or its file system unmounted. It is not watched any more.
    Gone(FolderWatch),
    /// There were more events than the kernel keeps.
    Lost,
}

/// The events of all watched folders.
pub(in crate::space) struct KernelEvents {
    queue: OwnedFd,
}

/// The most events that one call takes. The rest waits in the kernel.
const MOST_EVENTS: usize = 1 << 16;

impl KernelEvents {
    /// Opens a queue; `None` if the system gives no more.
    pub(in crate::space) fn open() -> Option<Self> {
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        Some(Self { queue })
    }

    /// Watches an open folder; `None` if the system watches no more, or the folder is gone.
    pub(in crate::space) fn watch(&self, folder: &OwnedFd) -> Option<FolderWatch> {
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::MODIFY
            | WatchFlags::ONLYDIR;
        let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
        inotify::add_watch(&self.queue, path, flags).ok().map(FolderWatch)
    }

    /// Ends the watch of a folder.
    pub(in crate::space) fn forget(&self, FolderWatch(number): FolderWatch) {
        // The only error is that the folder is gone.
        let _ = inotify::remove_watch(&self.queue, number);
    }

    /// Takes the events that are there, without waiting. Names that are not UTF-8 have no event,
    /// since no path holds them. Equal events that follow one another are one.
    pub(in crate::space) fn take(&mut self) -> Vec<KernelEvent> {
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = Reader::new(&self.queue, &mut buffer);
        let mut events: Vec<KernelEvent> = Vec::new();
        for _ in 0..MOST_EVENTS {
            let Ok(event) = reader.next() else { break };
            let folder = FolderWatch(event.wd());
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                events.push(KernelEvent::Lost);
            } else if event.events().intersects(ReadFlags::IGNORED | ReadFlags::UNMOUNT) {
                events.push(KernelEvent::Gone(folder));
            } else if let Some(name) = event.file_name().and_then(|name| name.to_str().ok()) {
                let is_repeated = matches!(
                    events.last(),
                    Some(KernelEvent::Named(last, last_name))
                        if *last == folder && last_name == name
                );
                if !is_repeated {
                    events.push(KernelEvent::Named(folder, name.to_owned()));
                }
            }
        }
        events
    }
}
