//! The memory with which all instances of a snapshot start.
//!
//! Instances map it copy-on-write from the compiled module, and resets read it there too, because a copy would double
//! the memory of a topic. A copy is made only if the module does not contain the memory in one piece.

use std::ops::Range;

use object::{Object as _, ObjectSection as _};
use wasmtime::Module;

/// The smallest page of any machine, in bytes.
pub(crate) const PAGE: usize = 4 << 10;

/// The section of a compiled module that contains the content of its memories.
const DATA_SECTION: &str = ".rodata.wasm";

/// The content of a memory. It is zero outside of `start..start + bytes`.
pub(crate) struct ImageContent {
    start: usize,
    bytes: Bytes,
    /// Which pages of `bytes` are not zero: looking at each page for every job would cost more than a reset.
    filled: Vec<bool>,
}

enum Bytes {
    InModule { module: Module, at: Range<usize> },
    Copied(Vec<u8>),
}

impl ImageContent {
    /// The content of a memory that no job has changed. `module` is the one that defines it. `None` if that does not
    /// contain it, and a copy would take more than `copied_max` bytes.
    pub(crate) fn of(module: &Module, memory: &[u8], copied_max: usize) -> Option<Self> {
        let (start, used) = used(memory);
        let bytes = match find(module, used) {
            Some(at) => Bytes::InModule { module: module.clone(), at },
            None if used.len() <= copied_max => Bytes::Copied(used.to_vec()),
            None => return None,
        };
        Some(Self::new(start, used, bytes))
    }

    fn new(start: usize, used: &[u8], bytes: Bytes) -> Self {
        let filled = used.chunks(PAGE).map(|page| page.iter().any(|byte| *byte != 0)).collect();
        Self { start, bytes, filled }
    }

    /// Whether the page at this address contains something.
    pub(crate) fn is_filled(&self, address: usize) -> bool {
        let index = address.checked_sub(self.start).map(|offset| offset / PAGE);
        index.and_then(|index| self.filled.get(index)).is_some_and(|is_filled| *is_filled)
    }

    /// Writes a part of the content into a memory.
    pub(crate) fn write(&self, memory: &mut [u8], range: Range<usize>) {
        let bytes = self.bytes();
        let start = self.start.clamp(range.start, range.end);
        let end = (self.start + bytes.len()).clamp(range.start, range.end);
        memory[range.start..start].fill(0);
        if start < end {
            memory[start..end].copy_from_slice(&bytes[start - self.start..end - self.start]);
        }
        memory[end..range.end].fill(0);
    }

    fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::InModule { module, at } => &compiled(module)[at.clone()],
            Bytes::Copied(bytes) => bytes,
        }
    }
}

/// The part of a memory from its first page to its last byte that is not zero, and where it starts.
fn used(memory: &[u8]) -> (usize, &[u8]) {
    let is_used = |byte: &u8| *byte != 0;
    let start = memory.iter().position(is_used).unwrap_or(0) / PAGE * PAGE;
    let end = memory.iter().rposition(is_used).map_or(start, |last| last + 1);
    (start, &memory[start..end])
}

/// Where a compiled module contains these bytes. Wasmtime aligns the content of a memory to pages.
fn find(module: &Module, bytes: &[u8]) -> Option<Range<usize>> {
    let compiled = compiled(module);
    let file = object::File::parse(compiled).ok()?;
    let (offset, size) = file.section_by_name(DATA_SECTION)?.file_range()?;
    let (offset, size) = (usize::try_from(offset).ok()?, usize::try_from(size).ok()?);
    let section = compiled.get(offset..offset.checked_add(size)?)?;
    let at = (0..size).step_by(PAGE).find(|at| section[*at..].starts_with(bytes))? + offset;
    Some(at..at + bytes.len())
}

/// The compiled module as bytes.
#[expect(unsafe_code, reason = "wasmtime gives the range of a compiled module as pointers only")]
fn compiled(module: &Module) -> &[u8] {
    let range = module.image_range();
    // SAFETY: the module keeps this range mapped while it lives, and the result borrows the module. The range was made
    // read-only when the module was loaded.
    unsafe { std::slice::from_raw_parts(range.start, range.end.addr() - range.start.addr()) }
}

#[cfg(test)]
mod tests {
    use wasmtime::{Engine, Instance, Store};

    use super::*;

    impl ImageContent {
        pub(crate) fn copied(memory: &[u8]) -> Self {
            let (start, used) = used(memory);
            Self::new(start, used, Bytes::Copied(used.to_vec()))
        }
    }

    /// A memory of three wasm pages that is not zero from 70,000 to 80,000, and the module that defines it.
    fn memory() -> (Module, Vec<u8>) {
        let text = format!(
            r#"(module (memory (export "memory") 3) (data (i32.const 70000) "{}"))"#,
            "x".repeat(10_000)
        );
        let module = Module::new(&Engine::default(), wat::parse_str(text).unwrap()).unwrap();
        let mut store = Store::new(module.engine(), ());
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        let memory = instance.get_memory(&mut store, "memory").unwrap().data(&store).to_vec();
        (module, memory)
    }

    #[test]
    fn the_memory_of_a_module_is_not_copied() {
        let (module, memory) = memory();
        let content = ImageContent::of(&module, &memory, usize::MAX).unwrap();
        assert!(matches!(content.bytes, Bytes::InModule { .. }));
        let mut copy = vec![7; memory.len()];
        content.write(&mut copy, 0..memory.len());
        assert!(copy == memory);
    }

    #[test]
    fn a_memory_that_the_module_does_not_contain_is_copied() {
        let (module, mut memory) = memory();
        memory[75_000] = b'y';
        let content = ImageContent::of(&module, &memory, usize::MAX).unwrap();
        assert!(matches!(content.bytes, Bytes::Copied(_)));
        let mut copy = vec![7; memory.len()];
        content.write(&mut copy, 0..memory.len());
        assert!(copy == memory);
    }

    #[test]
    fn each_range_is_written_alone() {
        let (module, memory) = memory();
        let content = ImageContent::of(&module, &memory, usize::MAX).unwrap();
        for range in [0..PAGE, 65_536..73_728, 77_824..81_920, 81_920..196_608, 8_192..196_608] {
            let mut copy = vec![7; memory.len()];
            content.write(&mut copy, range.clone());
            assert!(copy[range.clone()] == memory[range.clone()], "{range:?}");
            assert!(copy[..range.start].iter().chain(&copy[range.end..]).all(|byte| *byte == 7));
        }
    }

    #[test]
    fn pages_of_zeros_are_known() {
        let (module, memory) = memory();
        let content = ImageContent::of(&module, &memory, usize::MAX).unwrap();
        let filled = (0..memory.len()).step_by(PAGE).filter(|at| content.is_filled(*at));
        assert_eq!(filled.collect::<Vec<usize>>(), [69_632, 73_728, 77_824]);
        assert!(!ImageContent::copied(&[0; PAGE]).is_filled(0));
    }
}
