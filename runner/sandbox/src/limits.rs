//! What a guest may use and what it is given. The meter sits between the guest and the pool: no byte
//! of memory is granted past the limit, and every refusal is remembered, for the failure's class.

use std::collections::BTreeMap;

use wasmtime::ResourceLimiter;

/// Tables a module may have.
pub(crate) const TABLES_PER_MODULE: u32 = 4;

/// The limits of one topic's sandbox; the default is that of the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory, in bytes; a wasm32 memory ends at 4 GiB whatever is said here.
    pub memory: usize,
    /// The longest payload, in bytes. Kept by the runner, see
    /// [`Handler::payload_max`](crate::Handler::payload_max).
    pub payload: usize,
    /// The largest module file, in bytes.
    pub module: usize,
    /// Log text of one job, in bytes; each call of `log`, and each line of output, counts for at least
    /// 1. A job has at most 64 lines and one more for every 16 bytes.
    pub log: usize,
    /// Elements of all tables together.
    pub tables: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            payload: 1 << 20,
            module: 16 << 20,
            log: 64 << 10,
            tables: 100_000,
        }
    }
}

/// What one topic's handler may read and reach. The default is nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Values and secrets for `config_read`: strings raw, other types as JSON text.
    pub config: BTreeMap<String, String>,
    /// The environment a WASI module sees.
    pub env: BTreeMap<String, String>,
    /// Topics that `push` reaches: a name, or a prefix of names and a final `*`. With `None` a module
    /// that imports it is refused; with no entry every call is denied.
    pub push: Option<Vec<String>>,
}

impl std::fmt::Debug for Grants {
    /// Names only: values may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grants")
            .field("config", &self.config.keys())
            .field("env", &self.env.keys())
            .field("push", &self.push)
            .finish()
    }
}

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
    memory_max: usize,
    tables_max: usize,
    /// The largest linear memory granted, in bytes.
    pub(crate) memory_peak: usize,
    tables: usize,
    /// The last refused growth of memory.
    pub(crate) refused: Option<Refusal>,
}

impl Meter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            memory_max: limits.memory,
            tables_max: limits.tables as usize,
            memory_peak: 0,
            tables: 0,
            refused: None,
        }
    }

    /// The limit of memory, in bytes.
    pub(crate) fn memory_max(&self) -> usize {
        self.memory_max
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let granted = desired <= self.memory_max.min(maximum.unwrap_or(usize::MAX));
        if granted {
            self.memory_peak = self.memory_peak.max(desired);
        } else {
            self.refused = Some(Refusal::OverLimit(desired));
        }
        Ok(granted)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
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

    #[test]
    fn the_meter_grants_up_to_the_limit_and_remembers_a_refusal() {
        let mut meter = Meter::new(&Limits { memory: 100, ..Limits::default() });
        assert!(meter.memory_growing(0, 100, None).unwrap());
        assert_eq!((meter.memory_peak, meter.refused), (100, None));
        assert!(!meter.memory_growing(100, 101, None).unwrap());
        assert_eq!((meter.memory_peak, meter.refused), (100, Some(Refusal::OverLimit(101))));
        meter.memory_grow_failed(wasmtime::Error::msg("no memory")).unwrap();
        assert_eq!(meter.refused, Some(Refusal::ByMachine));
    }

    #[test]
    fn tables_count_together() {
        let mut meter = Meter::new(&Limits { tables: 10, ..Limits::default() });
        assert!(meter.table_growing(0, 6, None).unwrap());
        assert!(!meter.table_growing(0, 5, None).unwrap());
        assert!(meter.table_growing(6, 10, None).unwrap());
        assert!(!meter.table_growing(10, 11, None).unwrap());
    }

    #[test]
    fn debugging_grants_shows_no_secret() {
        let config = BTreeMap::from([("api_key".to_owned(), "hunter2".to_owned())]);
        let shown = format!("{:?}", Grants { config, ..Grants::default() });
        assert!(shown.contains("api_key") && !shown.contains("hunter2"), "{shown}");
    }
}
