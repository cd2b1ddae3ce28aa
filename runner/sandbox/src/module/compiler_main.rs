//! The process that compiles one module for another process of this program, within limits that it sets for
//! itself.

use std::io::{self, BufRead as _, Read as _, Write as _};
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::codegen::{CodeGenerator, CompileTask};
use super::compile_request::{CompileReply, CompileRequest};
use super::engine_context::EngineContext;
use super::error::LoadError;
use crate::error::SandboxError;

/// Compiles the module on standard input and writes the code to standard output. A program that names itself
/// in [`CompilerProcess`](crate::CompilerProcess) calls this function, and nothing else, when it is started
/// with the arguments named there.
pub fn run_compiler() -> ExitCode {
    match compile() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn compile() -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut head = Vec::new();
    input.read_until(b'\n', &mut head)?;
    let request: CompileRequest = serde_json::from_slice(&head)?;
    limit(&request)?;
    let mut binary = Vec::new();
    input.read_to_end(&mut binary)?;
    let (reply, code) = match generate(&request, &binary) {
        Ok(code) => (CompileReply::Compiled, code),
        Err(error) => (CompileReply::of_error(error), Vec::new()),
    };
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, &reply)?;
    output.write_all(b"\n")?;
    output.write_all(&code)?;
    output.flush()
}

fn generate(request: &CompileRequest, binary: &[u8]) -> Result<Vec<u8>, LoadError> {
    wasmtime::error::disable_backtrace();
    let failed = |error: SandboxError| LoadError::Engine { reason: error.to_string() };
    let context = EngineContext::on_demand(request.kind()).map_err(failed)?;
    let generator = CodeGenerator::start().map_err(failed)?;
    let (limits, grants) = (request.limits(), request.grants());
    let (limits, grants, is_interpreter) = (&limits, &grants, false);
    let task = CompileTask { binary, form: request.form, is_interpreter, limits, grants };
    generator.generate(&context, &task)
}

/// Limits this process. It ends with the one that started it, and is the first one that the kernel kills when
/// memory is short.
fn limit(request: &CompileRequest) -> io::Result<()> {
    lower(Resource::Core, 0, 0)?;
    // The signal at the lower limit ends the process.
    lower(Resource::Cpu, request.cpu_max, request.cpu_max + 1)?;
    // Counts written memory only. The address space that an instance reserves is not counted.
    lower(Resource::Data, request.memory_max, request.memory_max)?;
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // Without /proc the kernel chooses by size.
        drop(std::fs::write("/proc/self/oom_score_adj", "1000"));
    }
    Ok(())
}

/// Sets a limit of this process. A limit that is already lower stays.
fn lower(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let Rlimit { current: soft, maximum: hard } = getrlimit(resource);
    let least = |value: u64, known: Option<u64>| Some(value.min(known.unwrap_or(u64::MAX)));
    let maximum = least(maximum, hard);
    let limits = Rlimit { current: least(current, soft.or(maximum)), maximum };
    Ok(setrlimit(resource, limits)?)
}
