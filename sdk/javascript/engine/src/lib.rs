//! The JavaScript engine of Duebox: QuickJS as a handler module.
//!
//! The daemon calls `program` with the length of the program and writes it to the address that it returns. It then
//! calls `_initialize`, which evaluates the program, and keeps the memory. Every instance starts with that
//! memory; `handle` runs one job.

mod clock;
mod commonjs;
mod digests;
mod host;
mod json;
mod program;
mod runtime;

use std::cell::RefCell;

use duebox_engine_abi as abi;

use crate::program::Program;
use crate::runtime::Runtime;

thread_local! {
    static PROGRAM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static RUNTIME: RefCell<Option<Runtime>> = const { RefCell::new(None) };
}

/// The address of `length` bytes, into which the daemon writes the program.
#[unsafe(no_mangle)]
extern "C" fn program(length: u32) -> *mut u8 {
    PROGRAM.with_borrow_mut(|program| {
        program.resize(length as usize, 0);
        program.as_mut_ptr()
    })
}

/// Evaluates the program. An error is written to the log, and the instance traps.
#[unsafe(no_mangle)]
extern "C" fn _initialize() {
    let bytes = PROGRAM.take();
    let started = Program::parse(&bytes)
        .ok_or_else(|| "the program is damaged".to_owned())
        .and_then(Runtime::start);
    match started {
        Ok(runtime) => {
            runtime.reserve();
            RUNTIME.set(Some(runtime));
        }
        Err(text) => {
            abi::log(0, &text);
            abi::trap();
        }
    }
}

/// Runs a job.
#[unsafe(no_mangle)]
extern "C" fn handle(length: u32) -> i32 {
    RUNTIME.with_borrow(|runtime| match runtime {
        Some(runtime) => runtime.handle(length),
        None => abi::trap(),
    })
}
