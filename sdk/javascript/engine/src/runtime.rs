//! The runtime with the evaluated program, and how it runs a job.

use duebox_engine_abi as abi;
use rquickjs::function::Function;
use rquickjs::{
    CatchResultExt, CaughtError, Context, Ctx, IntoJs, Module, Object, Persistent, Value,
};

use crate::program::{Program, SDK};
use crate::{clock, host, json};

/// The JavaScript stack, in bytes: a program that recurses deeper gets a RangeError. It is less than the stack of
/// the module (`build.rs`), because functions of the engine itself need some too.
const STACK_MAX: usize = 160 << 10;
/// Bytes that a job may allocate before the memory of its instance grows. An instance that has grown is not reset.
const RESERVE: usize = 1 << 20;
/// How many microtasks run before the verdict is looked at again.
const MICROTASKS: usize = 10_000;

/// How the handler gets its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PayloadKind {
    Json,
    Text,
    Bytes,
}

/// The functions of `duebox.js` that the engine calls.
#[derive(Clone)]
struct Entry {
    payload: PayloadKind,
    /// Takes the payload and returns a verdict, or `PENDING`.
    run: Persistent<Function<'static>>,
    /// Runs the timers that are due. Returns a verdict, `PENDING`, or the milliseconds until the next timer.
    poll: Persistent<Function<'static>>,
}

/// What `duebox.js` returns: the verdicts 0, 1 and 2, and these.
mod code {
    pub(super) const DROP: i32 = 2;
    pub(super) const PENDING: f64 = -1.0;
    pub(super) const OUT_OF_MEMORY: i32 = 100;
    pub(super) const STACK_OVERFLOW: i32 = 101;
    /// From here on: sleep until the next timer. The rest is the wait in milliseconds.
    pub(super) const SLEEP: f64 = 1_000.0;
}

pub(crate) struct Runtime {
    context: Context,
    entry: Entry,
}

impl Runtime {
    /// Evaluates a program, or returns the text of the error.
    pub(crate) fn start(program: Program) -> Result<Self, String> {
        let failed = |error: rquickjs::Error| error.to_string();
        let runtime = rquickjs::Runtime::new().map_err(failed)?;
        runtime.set_max_stack_size(STACK_MAX);
        let name = program.entry.clone();
        let (resolver, loader) = program.loaders();
        runtime.set_loader(resolver, loader);
        let context = Context::full(&runtime).map_err(failed)?;
        let entry = context.with(|ctx| {
            let started = start(&ctx, &name).catch(&ctx);
            started.map_err(|error| host::describe(&error))
        });
        let entry = match entry {
            Ok(entry) => entry,
            Err(text) => {
                // The loader may hold functions of the context, whose end would abort. The instance ends anyway.
                std::mem::forget((context, runtime));
                return Err(text);
            }
        };
        runtime.run_gc();
        Ok(Self { context, entry })
    }

    /// Grows the memory to the size that most jobs need, and fills what is free below. So a job's objects lie next to
    /// each other, and few pages have to be reset after it.
    pub(crate) fn reserve(&self) {
        let reserve = block(RESERVE);
        let end = reserve.as_ptr() as usize;
        drop(reserve);
        for size in (4..=18).rev().flat_map(|bits| [3 << bits >> 1, 1 << bits]) {
            while let gap = block(size)
                && (gap.as_ptr() as usize) < end
            {
                std::mem::forget(gap);
            }
        }
    }

    pub(crate) fn handle(&self, length: u32) -> i32 {
        clock::begin_job();
        host::seed();
        let verdict = self.context.with(|ctx| match run(&ctx, &self.entry, length).catch(&ctx) {
            Ok(verdict) => verdict,
            // The engine had no memory left to report the error of the program.
            Err(_) => code::OUT_OF_MEMORY,
        });
        match verdict {
            code::OUT_OF_MEMORY => abi::trap(),
            code::STACK_OVERFLOW => abi::overflow_stack(),
            verdict => verdict,
        }
    }
}

/// Memory of this size that is freed when it is dropped.
fn block(size: usize) -> Vec<u8> {
    std::hint::black_box(Vec::with_capacity(size))
}

fn start(ctx: &Ctx<'_>, name: &str) -> rquickjs::Result<Entry> {
    ctx.globals().set("__duebox", host::functions(ctx)?)?;
    let source = include_str!(concat!(env!("OUT_DIR"), "/sdk.js"));
    Module::evaluate(ctx.clone(), SDK, source)?.finish::<()>()?;
    let sdk: Object<'_> = ctx.globals().get("__duebox")?;
    ctx.globals().remove("__duebox")?;
    let imported = Module::import(ctx, name)?;
    let namespace: Object<'_> = imported.finish()?;
    let begin: Function<'_> = sdk.get("begin")?;
    let payload: String = begin.call((namespace,))?;
    let payload = match payload.as_str() {
        "bytes" => PayloadKind::Bytes,
        "text" => PayloadKind::Text,
        _ => PayloadKind::Json,
    };
    let save = |name: &str| -> rquickjs::Result<Persistent<Function<'static>>> {
        Ok(Persistent::save(ctx, sdk.get::<_, Function<'_>>(name)?))
    };
    Ok(Entry { payload, run: save("run")?, poll: save("poll")? })
}

/// The payload as the handler gets it, or what is wrong with it.
fn payload<'js>(
    ctx: &Ctx<'js>,
    kind: PayloadKind,
    length: u32,
) -> rquickjs::Result<Result<Value<'js>, String>> {
    let bytes = abi::payload(length);
    if kind == PayloadKind::Bytes {
        return host::bytes(ctx, bytes).map(Ok);
    }
    let Ok(text) = String::from_utf8(bytes) else {
        return Ok(Err("it is not UTF-8".to_owned()));
    };
    if kind == PayloadKind::Text {
        return text.into_js(ctx).map(Ok);
    }
    if text.is_empty() {
        return Ok(Ok(Value::new_undefined(ctx.clone())));
    }
    match json::parse(ctx, text).catch(ctx) {
        Ok(value) => Ok(Ok(value)),
        Err(CaughtError::Exception(exception)) if !host::is_out_of_memory(&exception) => {
            Ok(Err(exception.message().unwrap_or_default()))
        }
        // There is a zero in it.
        Err(CaughtError::Error(rquickjs::Error::InvalidString(_))) => {
            Ok(Err("a control character is not escaped".to_owned()))
        }
        Err(error) => Err(error.throw(ctx)),
    }
}

fn run(ctx: &Ctx<'_>, entry: &Entry, length: u32) -> rquickjs::Result<i32> {
    let payload = match payload(ctx, entry.payload, length)? {
        Ok(payload) => payload,
        Err(reason) => {
            let form = if entry.payload == PayloadKind::Json { "JSON" } else { "text" };
            abi::reason(&format!("the payload is not valid {form}: {reason}"));
            return Ok(code::DROP);
        }
    };
    let run = entry.run.clone().restore(ctx)?;
    let mut verdict: f64 = run.call((payload,))?;
    while verdict == code::PENDING || verdict >= code::SLEEP {
        if verdict >= code::SLEEP {
            abi::sleep((verdict - code::SLEEP) as u64);
        }
        let mut count = 0;
        while count < MICROTASKS && ctx.execute_pending_job() {
            count += 1;
        }
        verdict = entry.poll.clone().restore(ctx)?.call((count == MICROTASKS,))?;
    }
    Ok(verdict as i32)
}
