//! Compiles in another process with limits on memory and time, so that a hostile module costs its topic and
//! nothing else. The process is the program itself (`compiler_main`), and compiles one module.

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::codegen::CompileTask;
use super::compile_request::{CompileReply, CompileRequest};
use super::error::LoadError;

/// The wall-clock limit is this many times the limit of CPU time: a busy machine makes the process slow.
const WALL_FACTOR: u32 = 10;
/// Bytes that are read in one call.
const CHUNK: usize = 256 << 10;
const MIB: u64 = 1 << 20;
/// What compiling an interpreter may cost at least, whatever the manifest allows the modules of topics.
const INTERPRETER_MEMORY: u64 = 2 << 30;
const INTERPRETER_TIME: Duration = Duration::from_secs(300);

/// How a sandbox compiles in another process.
#[derive(Debug, Clone)]
pub struct CompilerProcess {
    /// The program to start. It must call [`run_compiler`](crate::run_compiler) and must be the program of
    /// this process: its code is trusted.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Bytes of memory that it may use, in addition to the memory limit of the topic for a snapshot.
    pub memory_max: u64,
    /// CPU time that it may use.
    pub time_max: Duration,
}

/// Starts the processes, one at a time: one uses all cores.
pub(crate) struct CompilerProcesses {
    config: CompilerProcess,
    running: Mutex<()>,
}

/// How a process ended without a reply.
enum Failed {
    TimedOut,
    Io(io::Error),
}

impl CompilerProcesses {
    pub(crate) fn new(config: CompilerProcess) -> Self {
        Self { config, running: Mutex::new(()) }
    }

    /// Compiles a module, or its snapshot.
    pub(super) fn compile(&self, task: &CompileTask<'_>) -> Result<Vec<u8>, LoadError> {
        let CompilerProcess { mut memory_max, mut time_max, .. } = self.config;
        if task.is_interpreter {
            memory_max = memory_max.max(INTERPRETER_MEMORY);
            time_max = time_max.max(INTERPRETER_TIME);
        }
        let request = CompileRequest::new(task, memory_max, time_max.as_secs().max(1));
        let mut head =
            serde_json::to_vec(&request).map_err(|error| LoadError::CompilerProcess {
                reason: format!("its settings cannot be sent to the compiler: {error}"),
            })?;
        head.push(b'\n');
        let _one = self.running.lock();
        let mut child = self.start().map_err(|error| LoadError::CompilerStart {
            reason: format!(
                "the compiler {} does not start: {error}",
                self.config.program.display()
            ),
        })?;
        let until = Instant::now() + time_max * WALL_FACTOR;
        let reply = exchange(&mut child, [&head, task.binary], until, request.memory_max);
        if reply.is_err() {
            // Fails only if the process has already ended.
            drop(child.kill());
        }
        let status = child.wait();
        let reply = match (reply, status) {
            (Ok(reply), Ok(status)) if status.success() => reply,
            (Err(Failed::TimedOut), _) => return Err(too_slow(time_max)),
            (Err(Failed::Io(error)), Ok(status)) if status.success() => {
                return Err(ended(&error.to_string()));
            }
            (_, Ok(status)) => return Err(ended_by(status, request.memory_max, time_max)),
            (_, Err(error)) => return Err(ended(&error.to_string())),
        };
        parse(reply, mib(request.memory_max))
    }

    fn start(&self) -> io::Result<Child> {
        // Nothing of the daemon's environment, which may contain secrets.
        let mut command = Command::new(&self.config.program);
        command.arg0("duebox").args(&self.config.args).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    }
}

fn too_slow(time_max: Duration) -> LoadError {
    LoadError::CompileTime { seconds: time_max.as_secs().max(1) }
}

/// The error for a process that ended without success. Without memory an allocation fails, which aborts it, or the
/// kernel kills it.
fn ended_by(status: ExitStatus, memory_max: u64, time_max: Duration) -> LoadError {
    let signal = status.signal().and_then(Signal::from_named_raw);
    match signal {
        Some(Signal::XCPU) => too_slow(time_max),
        Some(Signal::ABORT | Signal::KILL) => LoadError::CompileMemory { mib: mib(memory_max) },
        _ => ended(&status.to_string()),
    }
}

fn ended(how: &str) -> LoadError {
    LoadError::CompilerProcess { reason: format!("its compiler ended without a result ({how})") }
}

fn mib(bytes: u64) -> usize {
    usize::try_from(bytes.div_ceil(MIB)).unwrap_or(usize::MAX)
}

/// Writes the request, and reads the whole reply.
fn exchange(
    child: &mut Child,
    request: [&[u8]; 2],
    until: Instant,
    bytes_max: u64,
) -> Result<Vec<u8>, Failed> {
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Failed::Io(io::Error::other("it has no pipes")));
    };
    std::thread::scope(|scope| {
        // On its own thread, so that a process that reads nothing cannot block the caller.
        let write = move || request.into_iter().try_for_each(|part| stdin.write_all(part));
        let writer = std::thread::Builder::new().name("compile-input".to_owned());
        writer.spawn_scoped(scope, write).map_err(Failed::Io)?;
        let reply = read(stdout, until, bytes_max);
        if reply.is_err() {
            // Ends the writer too. Fails only if the process has already ended.
            drop(child.kill());
        }
        reply
    })
}

fn read(mut stdout: ChildStdout, until: Instant, bytes_max: u64) -> Result<Vec<u8>, Failed> {
    let (mut reply, mut chunk) = (Vec::new(), vec![0; CHUNK]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failed::TimedOut);
        }
        let left = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let mut ready = [PollFd::new(&stdout, PollFlags::IN)];
        match poll(&mut ready, Some(&left)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(Failed::Io(error.into())),
        }
        let count = stdout.read(&mut chunk).map_err(Failed::Io)?;
        if count == 0 {
            return Ok(reply);
        }
        if (reply.len() + count) as u64 > bytes_max {
            return Err(Failed::Io(io::Error::other("its reply is too long")));
        }
        reply.extend_from_slice(&chunk[..count]);
    }
}

/// The code of a reply, or the error that it states.
fn parse(mut reply: Vec<u8>, memory_mib: usize) -> Result<Vec<u8>, LoadError> {
    let end = reply.iter().position(|byte| *byte == b'\n');
    let head = end.and_then(|end| serde_json::from_slice::<CompileReply>(&reply[..end]).ok());
    let (Some(end), Some(head)) = (end, head) else { return Err(ended("no valid reply")) };
    match head.into_error(memory_mib) {
        Some(error) => Err(error),
        None => {
            reply.drain(..=end);
            Ok(reply)
        }
    }
}
