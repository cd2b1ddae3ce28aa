//! The scheduler attributes of a thread: niceness and time slice. By default a running thread on Linux
//! finishes its slice of about 3 ms before a waking thread runs, whatever their niceness. Since Linux 6.12
//! a thread may ask for a shorter slice. Earlier versions apply the niceness only.

use std::io;
use std::time::Duration;

/// Sets the niceness (-20 to 19) and the time slice (100 µs to 100 ms) of the calling thread. Only Linux
/// has both for single threads.
///
/// # Errors
/// If the thread may not change its own attributes, or the system has none.
pub(crate) fn set(nice: i32, slice: Duration) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return linux::set(nice, slice);
    #[cfg(not(target_os = "linux"))]
    return Err(io::Error::new(
        io::ErrorKind::Unsupported,
        format!("niceness {nice}, slice {slice:?}"),
    ));
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{Duration, io};

    /// `struct sched_attr` of linux/sched/types.h, first version.
    #[repr(C)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }

    /// The default policy.
    const SCHED_OTHER: u32 = 0;

    #[expect(unsafe_code, reason = "no library wraps this system call")]
    pub(super) fn set(nice: i32, slice: Duration) -> io::Result<()> {
        let attributes = Attributes {
            size: size_of::<Attributes>() as u32,
            policy: SCHED_OTHER,
            flags: 0,
            nice,
            priority: 0,
            runtime: u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX),
            deadline: 0,
            period: 0,
        };
        // SAFETY: the number and the layout are those of the kernel, which reads `size` bytes and writes
        // none. Thread id 0 is the calling thread.
        let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn niceness_applies_to_one_thread_only() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let before = nice();
        let there = std::thread::spawn(move || {
            set(before + 1, Duration::from_micros(100)).unwrap();
            nice()
        });
        assert_eq!(there.join().unwrap(), before + 1);
        assert_eq!(nice(), before);
    }
}
