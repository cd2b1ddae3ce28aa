//! Runs the queue's Lua scripts, as Redis does: the same Lua, the same conversions, the same refusals.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Table, Value as LuaValue};
use redis::Value;

use super::command::{self, Access, Arguments};
use super::database::{Bytes, Database};
use super::hasher::FastState;
use super::leases::{self, LeaseEvent};
use super::server::{Mutation, Refusal};

/// The bytes of Lua with which its garbage is collected. Compiled scripts have a few megabytes.
const GARBAGE_MAX: usize = 64 << 20;

/// What a script can reach while it runs.
#[derive(Default)]
pub(crate) struct Reach {
    /// The keys and values.
    pub(crate) db: Database,
    /// The clock, which stands still while a script runs: seconds and microseconds.
    pub(crate) time: (u64, u64),
    /// What Redis refuses.
    pub(crate) refusal: Refusal,
    /// Messages that the script published: channel and text.
    pub(crate) published: Vec<(String, String)>,
    /// What scripts did to leases.
    pub(crate) lease_events: Vec<LeaseEvent>,
    /// How many of them are of earlier scripts.
    pub(crate) earlier_events: usize,
    /// Whether the last script has written.
    pub(super) has_written: bool,
    /// The error of the last command that failed.
    error: Option<String>,
}

/// The Lua of this thread. Compiled scripts are kept from one life to the next.
pub(crate) struct Interpreter {
    lua: Lua,
    /// By the mutation that was applied, and by digest.
    functions: HashMap<&'static str, HashMap<String, Function, FastState>, FastState>,
    digests: HashMap<Bytes, String, FastState>,
    reach: Rc<RefCell<Reach>>,
}

thread_local! {
    static INTERPRETER: RefCell<Interpreter> =
        RefCell::new(Interpreter::new().expect("the Lua of the simulation starts"));
}

impl Interpreter {
    /// Works with the interpreter of this thread.
    pub(crate) fn with<T>(work: impl FnOnce(&mut Self) -> T) -> T {
        INTERPRETER.with_borrow_mut(work)
    }

    fn new() -> mlua::Result<Self> {
        let (lua, reach) = (Lua::new(), Rc::<RefCell<Reach>>::default());
        // Collecting much garbage between scripts costs less than some during each one.
        lua.gc_stop();
        let api = lua.create_table()?;
        let its = Rc::clone(&reach);
        api.set("call", lua.create_function(move |lua, args| call(lua, &its, &args))?)?;
        let its = Rc::clone(&reach);
        api.set("pcall", lua.create_function(move |lua, args| call_protected(lua, &its, &args))?)?;
        api.set(
            "error_reply",
            lua.create_function(|lua, text: mlua::String| {
                let reply = lua.create_table()?;
                reply.set("err", text)?;
                Ok(reply)
            })?,
        )?;
        api.set("REDIS_VERSION_NUM", 0x0007_0000)?;
        lua.globals().set("redis", api)?;
        let json = lua.create_table()?;
        json.set(
            "decode",
            lua.create_function(|lua, text: mlua::String| {
                let value: serde_json::Value =
                    serde_json::from_slice(&text.as_bytes()).map_err(mlua::Error::external)?;
                json_to_lua(lua, &value)
            })?,
        )?;
        lua.globals().set("cjson", json)?;
        Ok(Self { lua, functions: HashMap::default(), digests: HashMap::default(), reach })
    }

    /// Compiles a script; returns its digest.
    pub(crate) fn load(
        &mut self,
        text: &[u8],
        mutation: Option<&Mutation>,
    ) -> Result<String, String> {
        let digest = match self.digests.get(text) {
            Some(digest) => digest.clone(),
            None => {
                let source = String::from_utf8_lossy(text);
                let digest = redis::Script::new(&source).get_hash().to_owned();
                self.digests.insert(text.to_vec(), digest.clone());
                digest
            }
        };
        let functions = self.functions.entry(mutation.map_or("", |mutation| mutation.name));
        let functions = functions.or_default();
        if !functions.contains_key(&digest) {
            let source = String::from_utf8_lossy(text).into_owned();
            let source = mutation.map_or(source.clone(), |mutation| mutation.apply(&source));
            let function = self.lua.load(source).into_function();
            let function = function.map_err(|error| format!("ERR {error}"))?;
            functions.insert(digest.clone(), function);
        }
        Ok(digest)
    }

    /// Collects the garbage, if there is much.
    pub(crate) fn collect_garbage(&self) {
        if self.lua.used_memory() < GARBAGE_MAX {
            return;
        }
        // Only a finalizer can fail, and scripts have none.
        drop(self.lua.gc_collect());
    }

    /// Runs a script on what it reaches.
    pub(crate) fn run(
        &self,
        digest: &str,
        mutation: &'static str,
        keys: &[Bytes],
        args: &[Bytes],
        reach: &mut Reach,
    ) -> Result<Value, String> {
        let Some(function) = self.functions.get(mutation).and_then(|known| known.get(digest))
        else {
            return Err("NOSCRIPT No matching script. Please use EVAL.".to_owned());
        };
        reach.has_written = false;
        reach.earlier_events = reach.lease_events.len();
        std::mem::swap(&mut *self.reach.borrow_mut(), reach);
        let result = self.call_function(function, keys, args);
        std::mem::swap(&mut *self.reach.borrow_mut(), reach);
        result.map_err(|error| reach.error.take().unwrap_or_else(|| format!("ERR {error}")))?
    }

    fn call_function(
        &self,
        function: &Function,
        keys: &[Bytes],
        args: &[Bytes],
    ) -> mlua::Result<Result<Value, String>> {
        let globals = self.lua.globals();
        globals.raw_set("KEYS", self.strings(keys)?)?;
        globals.raw_set("ARGV", self.strings(args)?)?;
        to_reply(&function.call::<LuaValue>(())?)
    }

    fn strings(&self, texts: &[Bytes]) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(texts.len(), 0)?;
        for (at, text) in texts.iter().enumerate() {
            table.raw_set(at + 1, self.lua.create_string(text)?)?;
        }
        Ok(table)
    }
}

/// `redis.call`: a refused command ends the script.
fn call(lua: &Lua, reach: &RefCell<Reach>, args: &MultiValue) -> mlua::Result<LuaValue> {
    let result = run_command(&mut reach.borrow_mut(), args);
    match result {
        Ok(reply) => to_lua(lua, &reply),
        Err(error) => {
            reach.borrow_mut().error = Some(error.clone());
            Err(mlua::Error::runtime(error))
        }
    }
}

/// `redis.pcall`: a refused command returns a table with `err`.
fn call_protected(lua: &Lua, reach: &RefCell<Reach>, args: &MultiValue) -> mlua::Result<LuaValue> {
    let result = run_command(&mut reach.borrow_mut(), args);
    match result {
        Ok(reply) => to_lua(lua, &reply),
        Err(error) => {
            let reply = lua.create_table()?;
            reply.set("err", error)?;
            Ok(LuaValue::Table(reply))
        }
    }
}

fn run_command(reach: &mut Reach, args: &MultiValue) -> Result<Value, String> {
    let mut texts = Vec::with_capacity(args.len());
    for arg in args {
        texts.push(match arg {
            LuaValue::String(text) => text.as_bytes().to_vec(),
            LuaValue::Number(number) => number_text(*number),
            LuaValue::Integer(number) => number.to_string().into_bytes(),
            _ => {
                return Err(
                    "ERR Lua redis lib command arguments must be strings or integers".to_owned()
                );
            }
        });
    }
    let name = std::str::from_utf8(texts.first().map_or(b"", Vec::as_slice)).unwrap_or_default();
    match name {
        "TIME" => {
            let (seconds, micros) = reach.time;
            let text = |number: u64| Value::BulkString(number.to_string().into_bytes());
            return Ok(Value::Array(vec![text(seconds), text(micros)]));
        }
        "PUBLISH" => {
            let text = |at: usize| String::from_utf8_lossy(&texts[at]).into_owned();
            reach.published.push((text(1), text(2)));
            return Ok(Value::Int(0));
        }
        _ => {}
    }
    let access = command::access_of(name);
    // Memory is checked until the first write, because a script that has begun to write may finish.
    let is_refused = match reach.refusal {
        Refusal::None => false,
        Refusal::OutOfMemory => access == Access::Adds && !reach.has_written,
        Refusal::ReadOnly => access != Access::Reads,
    };
    if is_refused {
        return Err(reach.refusal.text().to_owned());
    }
    reach.has_written |= access != Access::Reads;
    if access != Access::Reads
        && let Some(key) = texts.get(1)
    {
        if key.ends_with(b":unack") {
            leases::watch(reach, name, &texts);
        } else if key.ends_with(b":attempts") {
            leases::watch_attempts(reach, name, &texts);
        }
    }
    command::execute(&mut reach.db, name, &Arguments(&texts))
}

/// A number as Redis passes it to a command: whole numbers with all digits, others with 17.
pub(crate) fn number_text(number: f64) -> Bytes {
    if number.fract() == 0.0 && number.abs() < 1e17 {
        return (number as i64).to_string().into_bytes();
    }
    format!("{number}").into_bytes()
}

/// A decoded text, as cjson returns it.
fn json_to_lua(lua: &Lua, json: &serde_json::Value) -> mlua::Result<LuaValue> {
    use serde_json::Value as Json;
    Ok(match json {
        Json::Null => LuaValue::NULL,
        Json::Bool(is) => LuaValue::Boolean(*is),
        Json::Number(number) => LuaValue::Number(number.as_f64().unwrap_or_default()),
        Json::String(text) => LuaValue::String(lua.create_string(text)?),
        Json::Array(items) => {
            let table = lua.create_table()?;
            for item in items {
                table.raw_push(json_to_lua(lua, item)?)?;
            }
            LuaValue::Table(table)
        }
        Json::Object(fields) => {
            let table = lua.create_table()?;
            for (name, value) in fields {
                table.raw_set(name.as_str(), json_to_lua(lua, value)?)?;
            }
            LuaValue::Table(table)
        }
    })
}

fn to_lua(lua: &Lua, reply: &Value) -> mlua::Result<LuaValue> {
    Ok(match reply {
        Value::Int(number) => LuaValue::Number(*number as f64),
        Value::BulkString(text) => LuaValue::String(lua.create_string(text)?),
        Value::Array(values) => {
            let table = lua.create_table_with_capacity(values.len(), 0)?;
            for (at, value) in values.iter().enumerate() {
                table.raw_set(at + 1, to_lua(lua, value)?)?;
            }
            LuaValue::Table(table)
        }
        Value::SimpleString(word) => status(lua, word)?,
        Value::Okay => status(lua, "OK")?,
        _ => LuaValue::Boolean(false),
    })
}

fn status(lua: &Lua, word: &str) -> mlua::Result<LuaValue> {
    let table = lua.create_table()?;
    table.raw_set("ok", word)?;
    Ok(LuaValue::Table(table))
}

/// What a script returned, as Redis replies it.
fn to_reply(value: &LuaValue) -> mlua::Result<Result<Value, String>> {
    Ok(Ok(match value {
        LuaValue::String(text) => Value::BulkString(text.as_bytes().to_vec()),
        LuaValue::Number(number) => Value::Int(*number as i64),
        LuaValue::Integer(number) => Value::Int(*number),
        LuaValue::Boolean(true) => Value::Int(1),
        LuaValue::Table(table) => {
            if let Some(error) = table.raw_get::<Option<String>>("err")? {
                return Ok(Err(error));
            }
            if let Some(word) = table.raw_get::<Option<String>>("ok")? {
                return Ok(Ok(Value::SimpleString(word)));
            }
            let mut values = Vec::with_capacity(table.raw_len());
            for item in table.sequence_values::<LuaValue>() {
                match to_reply(&item?)? {
                    Ok(value) => values.push(value),
                    Err(error) => return Ok(Err(error)),
                }
            }
            Value::Array(values)
        }
        _ => Value::Nil,
    }))
}
