//! What a job has behind it, as one number packs it (docs/reference/queue.md, "Keys").

use crate::wire::constants::{CRASH, SNOOZE, SUSPECT};

/// How often a job was tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Attempts {
    /// Attempts that failed.
    pub(crate) failures: u32,
    /// Runs that ended with the death of the runner, or with a lost lease.
    pub(crate) crashes: u32,
    /// Times the handler put the job off.
    pub(crate) snoozes: u32,
}

impl Attempts {
    pub(crate) fn unpack(packed: u64) -> Self {
        if packed == 0 {
            return Self::default();
        }
        let counted = |count| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            failures: counted(packed % CRASH),
            crashes: counted(packed % SNOOZE / CRASH),
            snoozes: counted(packed % SUSPECT / SNOOZE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_packed_in_one_number() {
        let attempts = Attempts::unpack(3 + 2 * CRASH + 7 * SNOOZE);
        assert_eq!(attempts, Attempts { failures: 3, crashes: 2, snoozes: 7 });
        assert_eq!(Attempts::unpack(SUSPECT + 4).failures, 4);
        assert_eq!(Attempts::unpack(SUSPECT).snoozes, 0);
        assert_eq!(Attempts::unpack(0), Attempts::default());
    }
}
