//! What one instance holds. The meter sits between the guest and the pool: no byte of memory is granted
//! past the topic's limit or the budget of all, every refusal is remembered for the failure's class, and
//! what was granted goes back when the instance ends.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use crate::limits::{Limits, TABLES_PER_MODULE};
use crate::memory_budget::{Account, Share};

/// Why a growth of memory was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// To so many bytes: over the topic's limit, or the module's own maximum.
    OverLimit(usize),
    /// The machine has no more.
    ByMachine,
}

/// Counts what one instance has, and refuses what is over its limits.
#[derive(Debug)]
pub(crate) struct Meter {
    account: Arc<Account>,
    memory_max: usize,
    tables_max: usize,
    /// The linear memory granted, in bytes, and what it was before the last growth.
    memory: usize,
    memory_before: usize,
    /// Taken from the budget for the instance's first memory.
    prepaid: usize,
    /// The largest linear memory granted, in bytes.
    pub(crate) memory_peak: usize,
    tables: usize,
    /// The last refused growth of memory.
    pub(crate) refused: Option<Refusal>,
}

impl Meter {
    pub(crate) fn new(limits: &Limits, account: Arc<Account>) -> Self {
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

    /// The limit of memory, in bytes: the topic's, or what one handler may have of all if that is lower.
    pub(crate) fn memory_max(&self) -> usize {
        self.memory_max.min(self.account.max())
    }

    /// A share of the budget, for what the host holds for the guest beside its memory.
    pub(crate) fn share(&self) -> Share {
        Share::of(Arc::clone(&self.account))
    }

    /// Counts what was taken from the budget for the instance's first memory.
    pub(crate) fn prepay(&mut self, bytes: usize) {
        self.prepaid = bytes;
    }

    /// Bytes that the instance holds of the budget.
    pub(crate) fn held(&self) -> usize {
        self.memory + self.prepaid
    }

    /// Whether the instance has grown so far that it should not live on: beyond half of its limit.
    pub(crate) fn is_grown(&self) -> bool {
        self.memory > self.memory_max / 2
    }

    /// Begins to count for the next job; what the instance holds stays held.
    pub(crate) fn start_over(&mut self) {
        self.memory_peak = self.memory;
        self.refused = None;
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.account.give_back(self.held());
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // What all together could never have is over the limit too: no wait would help.
        if desired > self.memory_max().min(maximum.unwrap_or(usize::MAX)) {
            self.refused = Some(Refusal::OverLimit(desired));
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
        self.account.give_back(self.memory - self.memory_before);
        self.memory = self.memory_before;
        self.refused = Some(Refusal::ByMachine);
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
        1
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
    use crate::memory_budget::Budget;

    fn budget(max: usize) -> (Arc<Budget>, Arc<Account>) {
        let budget = Arc::new(Budget::default());
        budget.limit(max);
        let account = Arc::new(Account::of(Arc::clone(&budget)));
        (budget, account)
    }

    fn meter(limits: Limits) -> Meter {
        Meter::new(&limits, budget(usize::MAX).1)
    }

    #[test]
    fn the_meter_grants_up_to_the_limit_and_remembers_a_refusal() {
        let mut meter = meter(Limits { memory: 100, ..Limits::default() });
        assert!(meter.memory_growing(0, 100, None).unwrap());
        assert_eq!((meter.memory_peak, meter.refused), (100, None));
        assert!(!meter.memory_growing(100, 101, None).unwrap());
        assert_eq!((meter.memory_peak, meter.refused), (100, Some(Refusal::OverLimit(101))));
        meter.memory_grow_failed(wasmtime::Error::msg("no memory")).unwrap();
        assert_eq!(meter.refused, Some(Refusal::ByMachine));
    }

    #[test]
    fn what_it_holds_is_taken_from_the_budget_and_given_back() {
        let (budget, account) = budget(171);
        let mut meter = Meter::new(&Limits::default(), Arc::clone(&account));
        assert!(!meter.memory_growing(0, 151, None).unwrap());
        assert_eq!(meter.refused.take(), Some(Refusal::OverLimit(151)));
        account.take(1).unwrap();
        assert!(meter.memory_growing(0, 100, None).unwrap());
        assert!(meter.memory_growing(100, 150, None).is_err());
        account.give_back(1);
        assert_eq!((budget.held(), meter.refused), (100, None));
        assert!(meter.memory_growing(100, 150, None).unwrap());
        meter.memory_grow_failed(wasmtime::Error::msg("no memory")).unwrap();
        assert_eq!(budget.held(), 100);
        drop(meter);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn what_is_paid_for_is_not_paid_twice() {
        let (budget, account) = budget(171);
        let mut meter = Meter::new(&Limits::default(), Arc::clone(&account));
        account.take(100).unwrap();
        meter.prepay(100);
        assert!(meter.memory_growing(0, 90, None).unwrap());
        assert_eq!(budget.held(), 100);
        assert!(meter.memory_growing(90, 150, None).unwrap());
        assert_eq!(budget.held(), 150);
        drop(meter);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn an_instance_is_grown_beyond_half_of_its_limit() {
        let mut meter = meter(Limits { memory: 100, ..Limits::default() });
        assert!(meter.memory_growing(0, 50, None).unwrap());
        assert!(!meter.is_grown());
        assert!(meter.memory_growing(50, 51, None).unwrap());
        assert!(meter.is_grown());
        assert!(!meter.memory_growing(51, 101, None).unwrap());
        meter.start_over();
        assert_eq!((meter.memory_peak, meter.refused), (51, None));
    }

    #[test]
    fn tables_count_together() {
        let mut meter = meter(Limits { tables: 10, ..Limits::default() });
        assert!(meter.table_growing(0, 6, None).unwrap());
        assert!(!meter.table_growing(0, 5, None).unwrap());
        assert!(meter.table_growing(6, 10, None).unwrap());
        assert!(!meter.table_growing(10, 11, None).unwrap());
    }
}
