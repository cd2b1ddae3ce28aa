//! The number by which a worker and its executor name a leased job. The job's id would not do: after a
//! lost lease, the same job may be leased again before its guest has ended.

/// A lease of one worker, from 0 in the order in which the worker took them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseNumber(u64);

impl LeaseNumber {
    /// Returns this number, and counts on to the next.
    pub fn count_on(&mut self) -> Self {
        let number = *self;
        self.0 += 1;
        number
    }
}
