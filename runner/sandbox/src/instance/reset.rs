//! Resets an instance to its snapshot, or to what the module's file says, so that the next job finds exactly the state of
//! a new instance.
//!
//! A new instance is mapped afresh, and every page that its job touches is faulted in. Copying the few pages
//! that a job has written is cheaper.
//!
//! Such a module can change only its memory and its mutable globals: one that writes tables or drops segments is refused
//! as a snapshot, and gets new instances without one. A reset writes all globals, and all pages that are private to the
//! instance; every other page still is the page of the image. A page that the kernel has merged with the
//! shared page of zeros counts as private where the image is not zero. If a reset is not certain to be complete, or
//! the memory has grown, the instance runs no further job.
//!
//! A start function has run in a new instance, before its state is read. It computes the same in each instance, unless it
//! asks the host for something: then the instance cannot be reset.
//!
//! The private pages of an instance stay private, and a job that causes no page fault adds none. So after such a job the
//! pages are those of the last search.
//!
//! A new instance gets the pages that the first job wrote before its own job writes them, in a few system calls. Each of
//! them would otherwise be mapped when it is read and again when it is written, and the second time the kernel
//! interrupts every core that runs this process.

use std::ops::Range;
use std::sync::OnceLock;

use wasmtime::{Extern, ExternType, Global, Memory, Module, ModuleExport, Mutability, Store, Val};

use crate::instance::guest::Guest;
use crate::instance::image_content::{ImageContent, PAGE};
use crate::instance::page_faults::PageFaults;
use crate::instance::page_map::{self, PageMap, PrivatePages};

/// Instances with more private memory than this are discarded instead of reset, in bytes. A waiting
/// instance keeps its private memory.
const PRIVATE_MAX: usize = 1 << 20;

/// The state in which all instances of one module start.
pub(crate) struct StartImage {
    pages: &'static PageMap,
    /// The module that defines the memory.
    owner: Module,
    memory: Option<ModuleExport>,
    globals: Vec<ModuleExport>,
    /// The largest copy of the initial memory, in bytes, where the module does not contain it.
    copied_max: usize,
    /// `None` if instances are not reset, because that would take too large a copy.
    initial: OnceLock<Option<InitialState>>,
    /// The private pages of the first instance that was reset, after its first job.
    usual: OnceLock<Vec<Range<usize>>>,
}

/// What a new instance contains.
struct InitialState {
    memory: ImageContent,
    /// The size of the memory, in bytes.
    size: usize,
    globals: Vec<Val>,
}

/// The parts of one instance that a job can change.
pub(crate) struct Resettable {
    memory: Option<Memory>,
    globals: Vec<Global>,
    /// All private pages, if they are known.
    private: Option<Vec<Range<usize>>>,
}

impl Resettable {
    /// Whether it is known which pages are private.
    pub(crate) fn knows_its_private_pages(&self) -> bool {
        self.private.is_some()
    }
}

impl StartImage {
    /// The image of a module that exports its memory and all its mutable globals. `owner` defines the memory. `None` if the
    /// kernel cannot report which pages were written.
    ///
    /// A start function can fill memory with what the module does not contain. No budget counts a copy of that, so it is
    /// limited to 1 MiB. That of a snapshot is not.
    pub(crate) fn of(module: &Module, owner: &Module, is_snapshot: bool) -> Option<Self> {
        let pages = PageMap::shared()?;
        let (mut globals, mut memory) = (Vec::new(), None);
        for export in module.exports() {
            match export.ty() {
                ExternType::Global(global) if global.mutability() == Mutability::Var => {
                    globals.push(module.get_export_index(export.name())?);
                }
                ExternType::Memory(_) => memory = module.get_export_index(export.name()),
                _ => {}
            }
        }
        let owner = owner.clone();
        let copied_max = if is_snapshot { usize::MAX } else { PRIVATE_MAX };
        let (initial, usual) = (OnceLock::new(), OnceLock::new());
        Some(Self { pages, owner, memory, globals, copied_max, initial, usual })
    }

    /// Inspects an instance in which nothing has run but its start function. The first call reads its whole memory.
    pub(crate) fn inspect(
        &self,
        store: &mut Store<Guest>,
        instance: &wasmtime::Instance,
    ) -> Option<Resettable> {
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
        let parts = Resettable { memory, globals, private: None };
        self.initial.get_or_init(|| self.read(store, &parts)).as_ref()?;
        if let (Some(memory), Some(usual)) = (parts.memory, self.usual.get()) {
            page_map::make_private(memory.data_mut(store), usual);
        }
        Some(parts)
    }

    fn read(&self, store: &mut Store<Guest>, parts: &Resettable) -> Option<InitialState> {
        let globals = parts.globals.iter().map(|global| global.get(&mut *store)).collect();
        let memory = parts.memory.map_or(&[][..], |memory| memory.data(&*store));
        let content = ImageContent::of(&self.owner, memory, self.copied_max)?;
        Some(InitialState { memory: content, size: memory.len(), globals })
    }

    /// Resets an instance. Returns whether its state is the one that [`inspect`](Self::inspect) saw. If not,
    /// the instance must not be used again.
    pub(crate) fn reset(
        &self,
        store: &mut Store<Guest>,
        parts: &mut Resettable,
        faults: &PageFaults,
    ) -> bool {
        let Some(Some(initial)) = self.initial.get() else { return false };
        if let Some(memory) = parts.memory {
            let memory = memory.data_mut(&mut *store);
            if memory.len() != initial.size {
                return false;
            }
            match &parts.private {
                Some(known) if !faults.has_faulted() => {
                    known.iter().for_each(|range| initial.memory.write(memory, range.clone()));
                }
                _ => {
                    let found = self.pages.private(memory, PRIVATE_MAX);
                    let Some(private) = found else { return false };
                    parts.private = initial.restore_all(memory, private);
                    if let Some(private) = &parts.private {
                        self.usual.get_or_init(|| private.clone());
                    }
                }
            }
        }
        let mut globals = parts.globals.iter().zip(&initial.globals);
        globals.all(|(global, value)| global.set(&mut *store, *value).is_ok())
    }
}

impl InitialState {
    /// Writes the initial content of the private pages. Returns them, unless that has made another page private.
    fn restore_all(&self, memory: &mut [u8], private: PrivatePages) -> Option<Vec<Range<usize>>> {
        let mut are_all = true;
        for page in private.zero.into_iter().flat_map(|range| range.step_by(PAGE)) {
            // Most pages of zeros were zero from the start. Writing to one would make it private.
            if self.memory.is_filled(page) {
                self.memory.write(memory, page..page + PAGE);
                are_all = false;
            }
        }
        private.own.iter().for_each(|range| self.memory.write(memory, range.clone()));
        are_all.then_some(private.own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::page_map::tests::untouched;

    #[test]
    fn a_page_that_was_merged_with_the_page_of_zeros_is_restored() {
        let Some(map) = PageMap::shared() else { return };
        let image = [vec![7; PAGE], vec![0; PAGE], vec![9; 10]].concat();
        let memory = ImageContent::copied(&image);
        let initial = InitialState { memory, size: 8 * PAGE, globals: Vec::new() };
        // What KSM leaves of an instance that has zeroed its image: all pages are the page of zeros.
        let memory = untouched(8);
        assert!(memory.iter().all(|byte| *byte == 0));
        let private = map.private(memory, 0).unwrap();
        assert_eq!(initial.restore_all(memory, private), None);
        assert!(memory[..PAGE].iter().all(|byte| *byte == 7));
        assert!(memory[PAGE..2 * PAGE].iter().all(|byte| *byte == 0));
        assert_eq!(memory[2 * PAGE..][..12], [9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 0, 0]);
        let own = map.private(memory, usize::MAX).unwrap().own;
        assert!(own.iter().all(|range| range.end <= 3 * PAGE), "{own:?}");
        let private = map.private(memory, usize::MAX).unwrap();
        assert_eq!(initial.restore_all(memory, private), Some(own));
    }
}
