//! Puts an instance that started from a snapshot back to its start, so that the next job finds in it what it
//! would find in a new one, byte for byte. A new one is mapped afresh, and each page that a guest touches has
//! to be faulted in again: ten times what copying those pages back takes.
//!
//! A module of which there is a snapshot changes nothing but its memory and its mutable globals: one that
//! writes tables or drops segments is refused. All globals are put back, and all pages that are the
//! instance's own; the others are still those of the image. An instance of which that is not certain, or
//! that has grown, runs no further job.

use std::ops::Range;
use std::sync::OnceLock;

use wasmtime::{Extern, Global, Memory, Module, ModuleExport, Store, Val};

use crate::instance::guest::Guest;
use crate::instance::page_map::PageMap;
use crate::module::snapshot;

/// Bytes of own pages with which an instance is worth to be put back. It keeps them while it waits.
const OWN_MAX: usize = 1 << 20;

/// Where all instances of one module start.
pub(crate) struct Origin {
    pages: PageMap,
    memory: Option<ModuleExport>,
    globals: Vec<ModuleExport>,
    start: OnceLock<Start>,
}

/// What a new instance holds.
struct Start {
    /// Its memory up to the last byte that is not zero.
    memory: Vec<u8>,
    /// Bytes of its memory.
    size: usize,
    globals: Vec<Val>,
}

/// What can change of one instance.
pub(crate) struct Parts {
    memory: Option<Memory>,
    globals: Vec<Global>,
}

impl Origin {
    /// That of the module of a snapshot. None where the kernel does not tell which pages were written.
    pub(crate) fn of(module: &Module) -> Option<Self> {
        let pages = PageMap::open()?;
        let names = module.exports().map(|export| export.name());
        let globals = names.filter(|name| name.starts_with(snapshot::GLOBALS));
        let globals = globals.map(|name| module.get_export_index(name)).collect::<Option<_>>()?;
        let memory = module.get_export_index(snapshot::MEMORY);
        Some(Self { pages, memory, globals, start: OnceLock::new() })
    }

    /// Looks at an instance that has run nothing yet. The first one of all is read through, some MiB.
    pub(crate) fn look(
        &self,
        store: &mut Store<Guest>,
        instance: &wasmtime::Instance,
    ) -> Option<Parts> {
        let mut export = |export: &ModuleExport| instance.get_module_export(&mut *store, export);
        let memory = match self.memory.as_ref().map(&mut export) {
            None => None,
            Some(Some(Extern::Memory(memory))) => Some(memory),
            Some(_) => return None,
        };
        let mut globals = Vec::with_capacity(self.globals.len());
        for global in &self.globals {
            let Some(Extern::Global(global)) = export(global) else { return None };
            globals.push(global);
        }
        let parts = Parts { memory, globals };
        self.start.get_or_init(|| Start::read(store, &parts));
        Some(parts)
    }

    /// Puts an instance back. Answers whether it is as it was when [`look`](Self::look) saw it; if not, it
    /// must not be used again.
    pub(crate) fn put_back(&self, store: &mut Store<Guest>, parts: &Parts) -> bool {
        let Some(start) = self.start.get() else { return false };
        if let Some(memory) = parts.memory {
            let memory = memory.data_mut(&mut *store);
            if memory.len() != start.size {
                return false;
            }
            let Some(own) = self.pages.own(memory, OWN_MAX) else { return false };
            own.into_iter().for_each(|range| start.restore(memory, range));
        }
        let mut globals = parts.globals.iter().zip(&start.globals);
        globals.all(|(global, value)| global.set(&mut *store, *value).is_ok())
    }
}

impl Start {
    fn read(store: &mut Store<Guest>, parts: &Parts) -> Self {
        let globals = parts.globals.iter().map(|global| global.get(&mut *store)).collect();
        let memory = parts.memory.map_or(&[][..], |memory| memory.data(&*store));
        let used = memory.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Self { memory: memory[..used].to_vec(), size: memory.len(), globals }
    }

    /// Writes what was there at first over a range of the memory.
    fn restore(&self, memory: &mut [u8], range: Range<usize>) {
        let used = self.memory.len().clamp(range.start, range.end);
        let kept = self.memory.get(range.start..used).unwrap_or_default();
        memory[range.start..used].copy_from_slice(kept);
        memory[used..range.end].fill(0);
    }
}
