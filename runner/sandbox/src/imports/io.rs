//! Host-call I/O of one job: how many calls the guest made, and how many bytes passed in each direction.
//!
//! It is counted where memory ranges are checked, so no import can forget it. A count is one addition.

use std::cell::Cell;

/// The host-call I/O of one job.
#[derive(Debug, Default)]
pub(crate) struct HostIo {
    calls: Cell<u64>,
    bytes_in: Cell<u64>,
    bytes_out: Cell<u64>,
}

impl HostIo {
    /// Counts a call of the host.
    pub(crate) fn count_call(&self) {
        add(&self.calls, 1);
    }

    /// Counts bytes that the host wrote into the guest's memory.
    pub(crate) fn count_in(&self, bytes: usize) {
        add(&self.bytes_in, bytes as u64);
    }

    /// Counts bytes that the host read from the guest.
    pub(crate) fn count_out(&self, bytes: usize) {
        add(&self.bytes_out, bytes as u64);
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.get()
    }

    pub(crate) fn bytes_in(&self) -> u64 {
        self.bytes_in.get()
    }

    pub(crate) fn bytes_out(&self) -> u64 {
        self.bytes_out.get()
    }
}

fn add(count: &Cell<u64>, more: u64) {
    count.set(count.get().saturating_add(more));
}
