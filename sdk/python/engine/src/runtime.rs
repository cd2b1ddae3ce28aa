//! The interpreter with the evaluated program, and how it runs a job.

use duebox_engine_abi as abi;
use rustpython_vm::builtins::PyStr;
use rustpython_vm::vm::Settings;
use rustpython_vm::{AsObject, Interpreter, PyObjectRef, PyResult, VirtualMachine};

use crate::program::Program;
use crate::{host, random};

/// Bytes that a job may allocate before the memory of its instance grows. An instance that has grown is not reset.
const RESERVE: usize = 4 << 20;
/// Pages of the largest memory.
const PAGES_MAX: usize = 65_535;

/// What `run` of `_duebox_start.py` returns, besides the verdicts 0 and 2.
mod code {
    pub(super) const NACK: i32 = 1;
    pub(super) const OUT_OF_MEMORY: i32 = 100;
    pub(super) const STACK_OVERFLOW: i32 = 101;
}

pub(crate) struct Runtime {
    interpreter: Interpreter,
    /// Takes the payload and returns a verdict.
    run: PyObjectRef,
}

impl Runtime {
    /// Evaluates a program, or returns the text of the error.
    pub(crate) fn start(program: Program) -> Result<Self, String> {
        let interpreter = interpreter();
        let run = interpreter.enter(|vm| {
            let started = start(vm, program).map_err(|error| {
                let mut text = String::new();
                // Writing to a String does not fail.
                let _ = vm.write_exception(&mut text, &error);
                text
            })?;
            // A text is the error of the program.
            match started.downcast_ref::<PyStr>() {
                Some(error) => Err(error.to_string_lossy().into_owned()),
                None => Ok(started),
            }
        })?;
        Ok(Self { interpreter, run })
    }

    /// Grows the memory to the size that most jobs need.
    pub(crate) fn reserve(&self) {
        drop(std::hint::black_box(Vec::<u8>::with_capacity(RESERVE)));
    }

    pub(crate) fn handle(&self, length: u32) -> i32 {
        random::begin_job();
        let payload = abi::payload(length);
        let verdict = self.interpreter.enter(|vm| {
            let payload = vm.ctx.new_bytes(payload);
            let verdict = self.run.call((payload,), vm);
            let verdict = verdict.and_then(|verdict| verdict.try_to_value::<i32>(vm));
            verdict.unwrap_or_else(|error| {
                if error.fast_isinstance(vm.ctx.exceptions.memory_error) {
                    return code::OUT_OF_MEMORY;
                }
                abi::reason("the handler has changed the modules that run it");
                code::NACK
            })
        });
        match verdict {
            code::STACK_OVERFLOW => end_overflown(),
            code::OUT_OF_MEMORY => end_out_of_memory(),
            verdict => verdict,
        }
    }
}

/// Ends the instance with an overflow of the stack of calls, so that the failure has this class. The recursion uses
/// nothing of the engine's own stack, which is smaller.
fn end_overflown() -> ! {
    static NEXT: fn(u32) -> u32 = recurse;
    fn recurse(depth: u32) -> u32 {
        // SAFETY: a reference to a static. The compiler must not know which function it calls.
        let next = unsafe { std::ptr::read_volatile(&raw const NEXT) };
        next(depth.wrapping_add(1)).wrapping_add(depth)
    }
    recurse(abi::clock(1) as u32);
    abi::trap()
}

/// Ends the instance. The host refuses to grow its memory to the full address space, which gives the failure its class.
fn end_out_of_memory() -> ! {
    core::arch::wasm32::memory_grow::<0>(PAGES_MAX);
    abi::trap()
}

/// An interpreter without files, environment and signals.
fn interpreter() -> Interpreter {
    let mut settings = Settings::default();
    settings.isolated = true;
    settings.ignore_environment = true;
    settings.import_site = false;
    settings.user_site_directory = false;
    settings.install_signal_handlers = false;
    settings.write_bytecode = false;
    settings.safe_path = true;
    settings.allow_external_library = false;
    let builder = Interpreter::builder(settings);
    let standard = rustpython_stdlib::stdlib_module_defs(&builder.ctx);
    let host = host::module_def(&builder.ctx);
    builder
        .add_native_modules(&standard)
        .add_native_module(host)
        .add_frozen_modules(rustpython_pylib::FROZEN_STDLIB)
        .add_frozen_modules(rustpython_vm::py_freeze!(dir = "python"))
        .build()
}

/// Calls `start` of `_duebox_start.py`, which returns the function that runs jobs, or the text of an error.
fn start(vm: &VirtualMachine, program: Program) -> PyResult {
    let modules = program.modules.into_iter().map(|module| {
        let fields = (module.name, module.file, module.is_package, module.source);
        rustpython_vm::convert::ToPyObject::to_pyobject(fields, vm)
    });
    let modules = vm.ctx.new_list(modules.collect());
    let start = vm.import("_duebox_start", 0)?.get_attr("start", vm)?;
    start.call((program.entry, modules), vm)
}
