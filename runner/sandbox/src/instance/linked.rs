//! A module with everything that it imports, ready to be instantiated.

use std::sync::Arc;

use wasmtime::{Engine, Extern, ExternType, Instance, InstancePre, Linker, Module, Store};

use crate::instance::guest::Guest;

/// The name of the memory that a memory module exports.
pub(crate) const MEMORY: &str = "memory";

/// A linked module.
#[derive(Clone)]
pub(crate) enum Linked {
    /// The module of a handler.
    Module(InstancePre<Guest>),
    /// An interpreter, whose memory contains a program.
    Interpreter(LinkedInterpreter),
}

/// The code of an interpreter, which all its programs share, and the memory of one program.
#[derive(Clone)]
pub(crate) struct LinkedInterpreter {
    /// A module without code: its memory is mapped copy-on-write.
    pub(crate) memory: InstancePre<Guest>,
    pub(crate) code: Module,
    pub(crate) linker: Arc<Linker<Guest>>,
}

impl Linked {
    pub(crate) fn engine(&self) -> &Engine {
        match self {
            Self::Module(linked) => linked.module().engine(),
            Self::Interpreter(linked) => linked.code.engine(),
        }
    }

    pub(crate) async fn instantiate(&self, store: &mut Store<Guest>) -> wasmtime::Result<Instance> {
        match self {
            Self::Module(linked) => linked.instantiate_async(store).await,
            Self::Interpreter(linked) => linked.instantiate(store).await,
        }
    }
}

impl LinkedInterpreter {
    pub(crate) async fn instantiate(&self, store: &mut Store<Guest>) -> wasmtime::Result<Instance> {
        let memory = self.memory.instantiate_async(&mut *store).await?;
        let memory = memory
            .get_memory(&mut *store, MEMORY)
            .ok_or_else(|| wasmtime::Error::msg("the memory module exports no memory"))?;
        let mut imports = Vec::with_capacity(self.code.imports().len());
        for import in self.code.imports() {
            imports.push(match import.ty() {
                ExternType::Memory(_) => Extern::Memory(memory),
                _ => self.linker.get(&mut *store, import.module(), import.name())?,
            });
        }
        Instance::new_async(&mut *store, &self.code, &imports).await
    }
}
