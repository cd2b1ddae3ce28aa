//! What passes between a guest and the host: calls, and bytes both ways. Counted where it is checked, so
//! that no import can be forgotten; a count costs an addition.

use std::cell::Cell;

/// The traffic of one job.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    calls: Cell<u64>,
    bytes_in: Cell<u64>,
    bytes_out: Cell<u64>,
}

impl Traffic {
    /// The guest has called the host.
    pub(crate) fn call(&self) {
        add(&self.calls, 1);
    }

    /// The host has written so many bytes into the guest's memory.
    pub(crate) fn gave(&self, bytes: usize) {
        add(&self.bytes_in, bytes as u64);
    }

    /// The host has taken so many bytes from the guest.
    pub(crate) fn took(&self, bytes: usize) {
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
