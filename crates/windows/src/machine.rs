//! The disk, the console, and what a process may use.

use std::io;
use std::os::windows::ffi::OsStrExt as _;
use std::os::windows::io::AsRawHandle as _;
use std::path::Path;
use std::ptr::null_mut;

use windows_sys::Win32::Storage::FileSystem::GetDiskFreeSpaceExW;
use windows_sys::Win32::System::Console::{ENABLE_ECHO_INPUT, GetConsoleMode, SetConsoleMode};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_ACTIVE_PROCESS,
    JOB_OBJECT_LIMIT_PROCESS_MEMORY, JOB_OBJECT_LIMIT_PROCESS_TIME,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
    SetInformationJobObject,
};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

use crate::checked;

/// The room on a disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRoom {
    /// How much this user may still write.
    pub free: u64,
    /// How large the disk is for this user.
    pub total: u64,
}

/// Returns the room on the disk with a folder.
///
/// # Errors
/// The error of the system.
pub fn disk_room(folder: &Path) -> io::Result<DiskRoom> {
    let path: Vec<u16> = folder.as_os_str().encode_wide().chain([0]).collect();
    let (mut free, mut total) = (0, 0);
    // SAFETY: the path ends with 0, and both numbers outlive the call; the third may be null.
    let answer =
        unsafe { GetDiskFreeSpaceExW(path.as_ptr(), &raw mut free, &raw mut total, null_mut()) };
    checked(answer)?;
    Ok(DiskRoom { free, total })
}

/// A console that does not show what is typed, until the value is dropped.
#[derive(Debug)]
pub struct HiddenInput {
    before: u32,
}

impl HiddenInput {
    /// Lets the console of standard input show nothing.
    ///
    /// # Errors
    /// The error of the system: standard input is not a console.
    pub fn begin() -> io::Result<Self> {
        let mut before = 0;
        // SAFETY: the handle is open as long as the process, and the number outlives the call.
        checked(unsafe { GetConsoleMode(io::stdin().as_raw_handle(), &raw mut before) })?;
        set_console_mode(before & !ENABLE_ECHO_INPUT)?;
        Ok(Self { before })
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        let _ = set_console_mode(self.before);
    }
}

fn set_console_mode(mode: u32) -> io::Result<()> {
    // SAFETY: the handle is open as long as the process; the mode is a number.
    checked(unsafe { SetConsoleMode(io::stdin().as_raw_handle(), mode) })
}

/// Limits the memory in bytes and the processor time in seconds of this process from here on, and
/// lets it start no other process. Where a limit is passed, the system refuses the memory, or ends
/// the process.
///
/// # Errors
/// The error of the system. Nothing is limited then.
pub fn limit_this_process(memory: usize, seconds: u32) -> io::Result<()> {
    // SAFETY: both arguments may be null: the job has no name, and the rights of every new one.
    let job = unsafe { CreateJobObjectW(std::ptr::null(), std::ptr::null()) };
    if job.is_null() {
        return Err(io::Error::last_os_error());
    }
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_ACTIVE_PROCESS
        | JOB_OBJECT_LIMIT_PROCESS_MEMORY
        | JOB_OBJECT_LIMIT_PROCESS_TIME;
    limits.BasicLimitInformation.ActiveProcessLimit = 1;
    // Counted in units of 100 nanoseconds.
    limits.BasicLimitInformation.PerProcessUserTimeLimit = i64::from(seconds) * 10_000_000;
    limits.ProcessMemoryLimit = memory;
    let size = u32::try_from(size_of_val(&limits)).unwrap_or(0);
    // SAFETY: the value has the type that this class of information wants, and its size.
    let set = unsafe {
        SetInformationJobObject(
            job,
            JobObjectExtendedLimitInformation,
            (&raw const limits).cast(),
            size,
        )
    };
    checked(set)?;
    // SAFETY: the call has no arguments, and its answer needs no closing.
    let this_process = unsafe { GetCurrentProcess() };
    // The handle of the job stays open: the limits end with the process.
    // SAFETY: both handles are open.
    checked(unsafe { AssignProcessToJobObject(job, this_process) })
}
