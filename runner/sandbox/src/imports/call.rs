//! One call of an import: the guest's memory, and the checks that every import makes.
//!
//! Every range that a guest passes is checked here, once, with unsigned arithmetic. A range outside the
//! guest's memory is a fault of the guest and traps; it never reaches the host.

use std::ops::Range;
use std::sync::Arc;

use wasmtime::{AsContextMut, Caller, Extern, Memory, ModuleExport};

use crate::grants::Grants;
use crate::imports::fault::Fault;
use crate::imports::intercept::Interceptor;
use crate::imports::io::HostIo;

/// The state of a guest, as far as every import uses it. Each import adds a trait for its own state.
pub(crate) trait GuestState: Send + 'static {
    /// What every call uses.
    fn calls(&self) -> &CallState;
    fn calls_mut(&mut self) -> &mut CallState;
    /// What the topic grants.
    fn grants(&self) -> &Arc<Grants>;
    /// The interceptor of this run, if it has one.
    fn interceptor(&self) -> Option<&Arc<dyn Interceptor>>;
}

/// What every call of an import uses.
pub(crate) struct CallState {
    pub(crate) phase: Phase,
    pub(crate) io: HostIo,
    /// The module's export of its memory.
    memory_export: Option<ModuleExport>,
    /// The memory, after the first lookup.
    memory: Option<Memory>,
}

/// The phase in the life of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// In its start function or `_initialize`. There is no job yet: only `log` and `random` work.
    Starting,
    /// In `alloc` or `handle`.
    Handling,
}

impl CallState {
    /// The state of an instance that has not started.
    pub(crate) fn new(memory_export: Option<ModuleExport>) -> Self {
        Self { phase: Phase::Starting, io: HostIo::default(), memory_export, memory: None }
    }
}

/// The memory of a guest and its state, borrowed at the same time.
pub(crate) struct View<'a, T> {
    import: &'static str,
    pub(crate) bytes: &'a mut [u8],
    pub(crate) guest: &'a mut T,
}

/// The memory, for an import that takes a pointer.
pub(crate) fn view<'a, T: GuestState>(
    caller: &'a mut Caller<'_, T>,
    import: &'static str,
) -> Result<View<'a, T>, Fault> {
    caller.data().calls().io.count_call();
    view_again(caller, import)
}

/// The memory, for an import that has waited since its call was counted.
pub(crate) fn view_again<'a, T: GuestState>(
    caller: &'a mut Caller<'_, T>,
    import: &'static str,
) -> Result<View<'a, T>, Fault> {
    let memory = match caller.data().calls().memory {
        Some(memory) => memory,
        None => {
            let export = caller.data().calls().memory_export;
            let found = export.and_then(|export| caller.get_module_export(&export));
            let Some(Extern::Memory(memory)) = found else {
                return Err(Fault::NoMemory { import });
            };
            caller.data_mut().calls_mut().memory = Some(memory);
            memory
        }
    };
    let (bytes, guest) = memory.data_and_store_mut(caller.as_context_mut());
    Ok(View { import, bytes, guest })
}

/// The memory, for an import that needs a job.
pub(crate) fn job_view<'a, T: GuestState>(
    caller: &'a mut Caller<'_, T>,
    import: &'static str,
) -> Result<View<'a, T>, Fault> {
    in_job(caller, import)?;
    view_again(caller, import)
}

/// The state, for an import that needs a job and takes no pointer.
pub(crate) fn in_job<'a, T: GuestState>(
    caller: &'a mut Caller<'_, T>,
    import: &'static str,
) -> Result<&'a mut T, Fault> {
    let calls = caller.data().calls();
    calls.io.count_call();
    match calls.phase {
        Phase::Handling => Ok(caller.data_mut()),
        Phase::Starting => Err(Fault::TooEarly { import }),
    }
}

impl<T: GuestState> View<'_, T> {
    /// The bytes of a range. With length 0 the pointer is ignored.
    pub(crate) fn read(&self, pointer: u32, length: u32) -> Result<&[u8], Fault> {
        let range = self.range(pointer, length)?;
        self.guest.calls().io.count_out(range.len());
        Ok(&self.bytes[range])
    }

    /// Checks a range. The result is valid as an index of `bytes`.
    pub(crate) fn range(&self, pointer: u32, length: u32) -> Result<Range<usize>, Fault> {
        range(self.bytes.len(), self.import, pointer, length)
    }
}

/// Checks a range against a memory of this size. The result is valid as an index.
pub(crate) fn range(
    memory: usize,
    import: &'static str,
    pointer: u32,
    length: u32,
) -> Result<Range<usize>, Fault> {
    if length == 0 {
        return Ok(0..0);
    }
    let start = pointer as usize;
    match start.checked_add(length as usize) {
        Some(end) if end <= memory => Ok(start..end),
        _ => Err(Fault::Range { import, pointer, length, memory }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_inside_the_memory_is_valid_and_any_other_faults() {
        assert_eq!(range(100, "log", 90, 10).unwrap(), 90..100);
        assert_eq!(range(100, "log", 0, 100).unwrap(), 0..100);
        for (pointer, length) in [(91, 10), (100, 1), (0, 101), (u32::MAX, u32::MAX), (u32::MAX, 1)]
        {
            assert!(range(100, "log", pointer, length).is_err(), "{pointer} {length}");
        }
    }

    #[test]
    fn with_length_0_the_pointer_is_ignored() {
        assert_eq!(range(0, "log", u32::MAX, 0).unwrap(), 0..0);
    }
}
