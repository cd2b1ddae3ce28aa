//! The limiter of one instance. It grants no memory beyond the topic's limit or the common budget. It
//! remembers a refusal, which determines the class of a failure. It returns all memory when the instance
//! ends.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use crate::limits::{Limits, TABLES_PER_MODULE};
use crate::memory_budget::{MemoryAccount, MemoryReservation};

/// Why a growth of memory was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryRefusal {
    /// This many bytes exceed the topic's limit, or the module's own maximum.
    OverLimit(usize),
    /// The operating system refused it.
    ByMachine,
}

/// Counts the resources of one instance, and enforces their limits.
#[derive(Debug)]
pub(crate) struct Limiter {
    account: Arc<MemoryAccount>,
    memory_max: usize,
    tables_max: usize,
    /// The granted linear memory, in bytes.
    memory: usize,
    /// The same before the last growth.
    memory_before: usize,
    /// Bytes that were taken from the budget for the initial memory, before it was granted.
    prepaid: usize,
    /// The largest linear memory that was granted in this job, in bytes.
    pub(crate) memory_peak: usize,
    tables: usize,
    /// The last refused growth of memory.
    pub(crate) refused: Option<MemoryRefusal>,
}

impl Limiter {
    pub(crate) fn new(limits: &Limits, account: Arc<MemoryAccount>) -> Self {
        Self {
            account,
            memory_max: limits.memory,
            tables_max: limits.tables as usize,
            memory: 0,
            memory_before: 0,
            prepaid: 0,
            memory_peak: 0,
            tables: 0,
            refused: None,
        }
    }

    /// The memory limit, in bytes: that of the topic, or that of a handler in the budget if it is lower.
    pub(crate) fn memory_max(&self) -> usize {
        self.memory_max.min(self.account.max())
    }

    /// An empty reservation of the budget, for what the host holds for the guest.
    pub(crate) fn reservation(&self) -> MemoryReservation {
        MemoryReservation::new(Arc::clone(&self.account))
    }

    /// Records bytes that were taken from the budget for the initial memory.
    pub(crate) fn prepay(&mut self, bytes: usize) {
        self.prepaid = bytes;
    }

    /// Bytes of the budget that the instance holds.
    pub(crate) fn held(&self) -> usize {
        self.memory + self.prepaid
    }

    /// Whether the instance uses more than half of its limit. Such an instance is not kept for another job.
    pub(crate) fn has_grown(&self) -> bool {
        self.memory > self.memory_max / 2
    }

    /// Resets the counters of a job. The memory stays with the instance.
    pub(crate) fn begin_job(&mut self) {
        self.memory_peak = self.memory;
        self.refused = None;
    }
}

impl Drop for Limiter {
    fn drop(&mut self) {
        self.account.release(self.held());
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // A size that the whole budget could never satisfy is over the limit too: waiting would not help.
        if desired > self.memory_max().min(maximum.unwrap_or(usize::MAX)) {
            self.refused = Some(MemoryRefusal::OverLimit(desired));
            return Ok(false);
        }
        let more = desired.saturating_sub(current);
        let prepaid = more.min(self.prepaid);
        self.account.take(more - prepaid).map_err(wasmtime::Error::new)?;
        self.prepaid -= prepaid;
        (self.memory_before, self.memory) = (current, desired.max(current));
        self.memory_peak = self.memory_peak.max(desired);
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.account.release(self.memory - self.memory_before);
        self.memory = self.memory_before;
        self.refused = Some(MemoryRefusal::ByMachine);
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = self.tables.saturating_sub(current).saturating_add(desired);
        let granted = total <= self.tables_max && desired <= maximum.unwrap_or(usize::MAX);
        if granted {
            self.tables = total;
        }
        Ok(granted)
    }

    fn instances(&self) -> usize {
        // An interpreter, and the module of its memory.
        2
    }

    fn memories(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        TABLES_PER_MODULE as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_budget::MemoryBudget;

    fn budget(max: usize) -> (Arc<MemoryBudget>, Arc<MemoryAccount>) {
        let budget = Arc::new(MemoryBudget::default());
        budget.limit(max);
        let account = Arc::new(MemoryAccount::new(Arc::clone(&budget)));
        (budget, account)
    }

    fn limiter(limits: Limits) -> Limiter {
        Limiter::new(&limits, budget(usize::MAX).1)
    }

    #[test]
    fn the_limiter_grants_up_to_the_limit_and_remembers_a_refusal() {
        let mut limiter = limiter(Limits { memory: 100, ..Limits::default() });
        assert!(limiter.memory_growing(0, 100, None).unwrap());
        assert_eq!((limiter.memory_peak, limiter.refused), (100, None));
        assert!(!limiter.memory_growing(100, 101, None).unwrap());
        assert_eq!(
            (limiter.memory_peak, limiter.refused),
            (100, Some(MemoryRefusal::OverLimit(101)))
        );
        limiter.memory_grow_failed(wasmtime::Error::msg("no memory")).unwrap();
        assert_eq!(limiter.refused, Some(MemoryRefusal::ByMachine));
    }

    #[test]
    fn memory_is_taken_from_the_budget_and_returned() {
        let (budget, account) = budget(171);
        let mut limiter = Limiter::new(&Limits::default(), Arc::clone(&account));
        assert!(!limiter.memory_growing(0, 151, None).unwrap());
        assert_eq!(limiter.refused.take(), Some(MemoryRefusal::OverLimit(151)));
        account.take(1).unwrap();
        assert!(limiter.memory_growing(0, 100, None).unwrap());
        assert!(limiter.memory_growing(100, 150, None).is_err());
        account.release(1);
        assert_eq!((budget.held(), limiter.refused), (100, None));
        assert!(limiter.memory_growing(100, 150, None).unwrap());
        limiter.memory_grow_failed(wasmtime::Error::msg("no memory")).unwrap();
        assert_eq!(budget.held(), 100);
        drop(limiter);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn prepaid_memory_is_not_taken_twice() {
        let (budget, account) = budget(171);
        let mut limiter = Limiter::new(&Limits::default(), Arc::clone(&account));
        account.take(100).unwrap();
        limiter.prepay(100);
        assert!(limiter.memory_growing(0, 90, None).unwrap());
        assert_eq!(budget.held(), 100);
        assert!(limiter.memory_growing(90, 150, None).unwrap());
        assert_eq!(budget.held(), 150);
        drop(limiter);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn an_instance_has_grown_beyond_half_of_its_limit() {
        let mut limiter = limiter(Limits { memory: 100, ..Limits::default() });
        assert!(limiter.memory_growing(0, 50, None).unwrap());
        assert!(!limiter.has_grown());
        assert!(limiter.memory_growing(50, 51, None).unwrap());
        assert!(limiter.has_grown());
        assert!(!limiter.memory_growing(51, 101, None).unwrap());
        limiter.begin_job();
        assert_eq!((limiter.memory_peak, limiter.refused), (51, None));
    }

    #[test]
    fn tables_count_together() {
        let mut limiter = limiter(Limits { tables: 10, ..Limits::default() });
        assert!(limiter.table_growing(0, 6, None).unwrap());
        assert!(!limiter.table_growing(0, 5, None).unwrap());
        assert!(limiter.table_growing(6, 10, None).unwrap());
        assert!(!limiter.table_growing(10, 11, None).unwrap());
    }
}
