//! An interpreter: a module that runs a program which it is given, in a language such as JavaScript.
//!
//! Its code is compiled once. Its memory is imported, and is that of a module without code: at first the
//! interpreter's own data, and for jobs the state after the program was evaluated. So a further program costs no
//! compilation, and its instances map their memory copy-on-write like those of any snapshot.

use wasm_encoder::{
    ConstExpr, DataSection, DataSegment, DataSegmentMode, ExportKind, ExportSection, MemorySection,
    MemoryType, RawSection,
};
use wasmparser::{Parser, Payload, TypeRef};

use super::error::LoadError;
use crate::instance::linked::MEMORY;

/// Bytes of a page of linear memory.
const PAGE: usize = 64 << 10;
/// The smallest gap of zeros between two segments of a memory, in bytes.
const GAP: usize = 4 << 10;

/// The two modules of an interpreter.
pub(super) struct Interpreter {
    /// It imports its memory.
    pub(super) code: Vec<u8>,
    /// The memory that it starts with.
    pub(super) memory: Vec<u8>,
}

impl Interpreter {
    /// Splits an interpreter's module.
    pub(super) fn split(binary: &[u8]) -> Result<Self, LoadError> {
        let malformed = |what: &str| LoadError::Invalid { reason: format!("interpreter: {what}") };
        let mut code = wasm_encoder::Module::new();
        let (mut pages, mut data) = (None, None);
        for payload in Parser::new(0).parse_all(binary) {
            let payload = payload.map_err(|error| malformed(&error.to_string()))?;
            if let Payload::ImportSection(section) = &payload {
                for import in section.clone().into_imports().flatten() {
                    if let TypeRef::Memory(memory) = import.ty {
                        pages = Some(memory.initial);
                    }
                }
            }
            let Some((id, range)) = payload.as_section() else { continue };
            let section = RawSection { id, data: binary.get(range).unwrap_or_default() };
            match payload {
                Payload::DataSection(_) => data = Some(section),
                Payload::DataCountSection { .. } => {}
                // The linker's start function zeroes what is zero in a new memory, and it would run again in the
                // memory of a program.
                Payload::StartSection { .. } => {}
                _ => {
                    code.section(&section);
                }
            }
        }
        let pages = pages.ok_or_else(|| malformed("it imports no memory"))?;
        let data = data.ok_or_else(|| malformed("it has no data"))?;
        let mut memory = empty(pages);
        memory.section(&data);
        Ok(Self { code: code.finish(), memory: memory.finish() })
    }
}

/// A module with a memory of this size and nothing else.
fn empty(pages: u64) -> wasm_encoder::Module {
    let mut memories = MemorySection::new();
    memories.memory(MemoryType {
        minimum: pages,
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    });
    let mut exports = ExportSection::new();
    exports.export(MEMORY, ExportKind::Memory, 0);
    let mut module = wasm_encoder::Module::new();
    module.section(&memories).section(&exports);
    module
}

/// A module with a memory that has this content.
pub(super) fn memory_module(content: &[u8]) -> Vec<u8> {
    let mut module = empty((content.len() / PAGE) as u64);
    let mut section = DataSection::new();
    let mut start = None;
    let mut add = |start: &mut Option<usize>, end: usize| {
        let Some(from) = start.take() else { return };
        // A memory of wasm32 has at most 4 GiB.
        let offset = ConstExpr::i32_const((from as u32).cast_signed());
        let mode = DataSegmentMode::Active { memory_index: 0, offset: &offset };
        let data = content.get(from..end).unwrap_or_default().iter().copied();
        section.segment(DataSegment { mode, data });
    };
    for (index, chunk) in content.chunks(GAP).enumerate() {
        match chunk.iter().any(|byte| *byte != 0) {
            true => {
                start.get_or_insert(index * GAP);
            }
            false => add(&mut start, index * GAP),
        }
    }
    add(&mut start, content.len());
    module.section(&section);
    module.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_module_has_the_content_it_was_given() {
        let mut content = vec![0; 2 * PAGE];
        content[3] = 7;
        content[GAP * 2..GAP * 4].fill(9);
        content[2 * PAGE - 1] = 1;
        let engine = wasmtime::Engine::default();
        let module = wasmtime::Module::new(&engine, memory_module(&content)).unwrap();
        let mut store = wasmtime::Store::new(&engine, ());
        let instance = wasmtime::Instance::new(&mut store, &module, &[]).unwrap();
        let memory = instance.get_memory(&mut store, MEMORY).unwrap();
        assert_eq!(memory.data(&store), content);
    }

    #[test]
    fn an_interpreter_is_split_into_its_code_and_its_data() {
        let whole = wat::parse_str(
            r#"(module (import "env" "memory" (memory 2)) (func (export "handle") (param i32) (result i32)
                 (i32.load8_u (i32.const 8))) (data (i32.const 8) "a")
                 (start 1) (func (i32.store8 (i32.const 8) (i32.const 0))))"#,
        );
        let split = Interpreter::split(&whole.unwrap()).unwrap();
        let engine = wasmtime::Engine::default();
        let memory = wasmtime::Module::new(&engine, &split.memory).unwrap();
        let code = wasmtime::Module::new(&engine, &split.code).unwrap();
        let mut store = wasmtime::Store::new(&engine, ());
        let memory = wasmtime::Instance::new(&mut store, &memory, &[]).unwrap();
        let memory = memory.get_memory(&mut store, MEMORY).unwrap();
        let code = wasmtime::Instance::new(&mut store, &code, &[memory.into()]).unwrap();
        let handle = code.get_typed_func::<i32, i32>(&mut store, "handle").unwrap();
        assert_eq!(handle.call(&mut store, 0).unwrap(), i32::from(b'a'));
    }

    #[test]
    fn a_module_without_an_imported_memory_is_no_interpreter() {
        let module = wat::parse_str(r#"(module (memory 1) (data (i32.const 0) "a"))"#).unwrap();
        assert!(Interpreter::split(&module).is_err());
    }
}
