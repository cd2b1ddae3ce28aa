//! A guest's memory as the host sees it. Every range a guest names is checked here, once, as
//! unsigned numbers; one that does not lie wholly inside is the guest's fault, never the host's.

use std::ops::Range;

use wasmtime::{AsContextMut, Caller, Extern};

use crate::instance::guest::{Guest, Phase};

/// What a guest did wrong in a call of the host. It traps with this text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(
        "{import}: the range of {length} bytes at {pointer} does not lie in the guest's memory of {memory} bytes"
    )]
    Range { import: &'static str, pointer: u32, length: u32, memory: usize },
    #[error("{import}: the module exports no memory")]
    NoMemory { import: &'static str },
    #[error(
        "{import} does not work in a start function or _initialize, which belong to no job; only log and random do"
    )]
    TooEarly { import: &'static str },
    /// AssemblyScript's `abort`, with its message.
    #[error("{0}")]
    Abort(String),
}

/// A guest's memory and the state behind it, both at once.
pub(crate) struct View<'a> {
    import: &'static str,
    pub(crate) bytes: &'a mut [u8],
    pub(crate) guest: &'a mut Guest,
}

/// The memory for an import that takes a pointer.
pub(crate) fn view<'a>(
    caller: &'a mut Caller<'_, Guest>,
    import: &'static str,
) -> Result<View<'a>, Fault> {
    caller.data().traffic.call();
    look(caller, import)
}

/// The memory once more, for an import that has waited since it was called.
pub(crate) fn look<'a>(
    caller: &'a mut Caller<'_, Guest>,
    import: &'static str,
) -> Result<View<'a>, Fault> {
    let memory = match caller.data().memory {
        Some(memory) => memory,
        None => {
            let export = caller.data().memory_export;
            let found = export.and_then(|export| caller.get_module_export(&export));
            let Some(Extern::Memory(memory)) = found else {
                return Err(Fault::NoMemory { import });
            };
            caller.data_mut().memory = Some(memory);
            memory
        }
    };
    let (bytes, guest) = memory.data_and_store_mut(caller.as_context_mut());
    Ok(View { import, bytes, guest })
}

/// The memory for an import that belongs to a job.
pub(crate) fn job_view<'a>(
    caller: &'a mut Caller<'_, Guest>,
    import: &'static str,
) -> Result<View<'a>, Fault> {
    job(caller, import)?;
    look(caller, import)
}

/// The state for an import that belongs to a job and takes no pointer.
pub(crate) fn job<'a>(
    caller: &'a mut Caller<'_, Guest>,
    import: &'static str,
) -> Result<&'a mut Guest, Fault> {
    caller.data().traffic.call();
    match caller.data().phase {
        Phase::Handling => Ok(caller.data_mut()),
        Phase::Starting => Err(Fault::TooEarly { import }),
    }
}

impl View<'_> {
    /// The bytes a guest names; none, wherever they are, if the length is 0.
    pub(crate) fn read(&self, pointer: u32, length: u32) -> Result<&[u8], Fault> {
        let range = self.range(pointer, length)?;
        self.guest.traffic.took(range.len());
        Ok(&self.bytes[range])
    }

    /// Checks a range; the answer can be used as an index.
    pub(crate) fn range(&self, pointer: u32, length: u32) -> Result<Range<usize>, Fault> {
        range(self.bytes.len(), self.import, pointer, length)
    }
}

/// Checks a range against a memory of this size; the answer can be used as an index.
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
    fn a_range_lies_wholly_inside_or_faults() {
        assert_eq!(range(100, "log", 90, 10).unwrap(), 90..100);
        assert_eq!(range(100, "log", 0, 100).unwrap(), 0..100);
        for (pointer, length) in [(91, 10), (100, 1), (0, 101), (u32::MAX, u32::MAX), (u32::MAX, 1)]
        {
            assert!(range(100, "log", pointer, length).is_err(), "{pointer} {length}");
        }
    }

    #[test]
    fn without_length_the_pointer_is_ignored() {
        assert_eq!(range(0, "log", u32::MAX, 0).unwrap(), 0..0);
    }
}
